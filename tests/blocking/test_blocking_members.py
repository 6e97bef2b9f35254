"""Every generated member, called once for a thread and once in an event loop.

Both come to the same: an equal value, a value of the same class, or the same error. Members without
arguments need no row here, and `recipes/callers.py` has the arguments of those that are synchronous
in an event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from operator import methodcaller
from typing import Any

import pytest
from blocking.threads import Backend, connect
from kit.elsewhere import in_child
from kit.every_recipe import AN_INSTANCE, RECIPES
from recipes.callers import (
    call,
    members_of,
    nothing_is_left_to_the_next_test,  # noqa: F401
    one_of_each,
)
from tools.write_blocking import SOURCES, counterpart

from aiolead import Client, CreateMode, Lock, blocking
from aiolead.blocking._thread_task import BlockJob
from aiolead.errors import AioleadError
from aiolead.testing import EmbeddedServer, ThreadedServer
from aiolead.types import PendingReply, Versioned

pytestmark = [
    pytest.mark.timeout(60),
    # The calls make contexts and transactions, which nobody uses.
    pytest.mark.filterwarnings("ignore:.* never entered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:a transaction was never committed:RuntimeWarning"),
]
CALLS: dict[str, Callable[[Any], object]] = {
    "Client.ensure_path": methodcaller("ensure_path", "/ensured"),
    "ConditionHeld.wait": methodcaller("wait", timeout=0.01),
    "Config.publish": methodcaller("publish", {"key": b"x"}),
    "Config.rollback": methodcaller("rollback", 1),
    "Counter.compare_and_set": methodcaller("compare_and_set", 1, 7),
    "Counter.set": methodcaller("set", 3),
    "DelayQueue.put": methodcaller("put", b"x", delay=0),
    "DelayQueue.put_many": methodcaller("put_many", [b"x", b"y"], delay=0),
    "Fence.create": methodcaller("create", "/fenced", b"x"),
    "Fence.delete": methodcaller("delete", "/fenced"),
    "Fence.set": methodcaller("set", "/fenced", b"y"),
    "Once.holder": methodcaller("holder", "name"),
    "Once.is_done": methodcaller("is_done", "name"),
    "PersistentNode.set": methodcaller("set", b"new"),
    "RateLimit.set_rate": methodcaller("set_rate", 5),
    "Registration.report_load": methodcaller("report_load", 0.5),
    "Registration.update": methodcaller("update", AN_INSTANCE),
    "Semaphore.set_limit": methodcaller("set_limit", 2),
    "SequenceAllocator.take": methodcaller("take", 2),
    "ServiceRegistry.instances": methodcaller("instances", "web"),
    "SharedValue.compare_and_set": methodcaller("compare_and_set", Versioned(b"", None), b"x"),
    "SharedValue.set": methodcaller("set", b"x"),
    "SharedValue.update": methodcaller("update", bytes.upper),
    "Task.fail": methodcaller("fail", "note"),
    "TaskBoard.result": methodcaller("result", "never"),
    "TaskBoard.submit": methodcaller("submit", b"x"),
    "Term.hand_over": methodcaller("hand_over", "nobody", timeout=0),
    "Term.prepare_hand_over": methodcaller("prepare_hand_over", "nobody", timeout=0),
    "PriorityQueue.put": methodcaller("put", b"x", priority=5),
    "put": methodcaller("put", b"x"),
    "put_many": methodcaller("put_many", [b"x", b"y"]),
}
"""How to call members of one class, or of all."""

FIRST, LAST = ("put", "submit"), ("release", "resign", "retry")
"""Members without which others wait, and members that end a hold."""

VARYING = ("session_id", "statistics", "token", "unread")
"""Members whose values depend on the server, or on what has happened in the background."""

ELSEWHERE = ("detach", "update_hosts")
"""Members of the client that end what others need: see the last test."""


def members() -> Iterator[tuple[str, str]]:
    """The classes and public members that are generated, in an order in which each call returns."""
    found = [
        (kind, member)
        for kind in SOURCES
        for member in vars(getattr(blocking, kind))
        if not member.startswith("_") and member not in ELSEWHERE
    ]
    yield from sorted(found, key=lambda each: (each[1] not in FIRST, each[1] in LAST))


def is_property(kind: str, member: str) -> bool:
    return isinstance(vars(getattr(blocking, kind))[member], property)


def use(thing: Any, kind: str, member: str) -> Any:
    """Read or call a member."""
    if is_property(kind, member):
        return getattr(thing, member)
    for row in (f"{kind}.{member}", member):
        if row in CALLS:
            return CALLS[row](thing)
    row = members_of(SOURCES[kind]).get(member, "")
    return call(thing, row) if row else getattr(thing, member)()


def plain(value: Any) -> Any:
    """A value of the event loop in place of that of a thread, and lists in one order."""
    if type(value) in (tuple, list):
        return [plain(each) for each in (value if type(value) is tuple else sorted(value, key=str))]
    return getattr(value, "_target", value)


def shown(member: str, kind: str, value: object) -> str:
    """A value and its class, without the parts that differ between two servers or moments."""
    if member in VARYING:
        return kind
    varying = r"Stat\(.*?\)|(token|zxid)=\d+|0x[0-9a-f]+|[0-9a-f]{16,}|[0-9][0-9A-F.]+"
    return f"{kind} {re.sub(varying, '#', repr(plain(value)))}"


def kind_there(value: object) -> str:
    """The name of the class that a value of an event loop has for threads."""
    kind = type(value)
    is_iterator = kind.__module__.startswith("aiolead") and hasattr(kind, "__anext__")
    return counterpart(kind) or ("ProxyIterator" if is_iterator else kind.__name__)


async def outcomes_here(client: Client) -> dict[str, str]:
    """The outcome of each member in an event loop, by class and member."""
    outcomes: dict[str, str] = {}
    async with one_of_each(client, {}) as things:
        things["CampaignState"] = things["Campaign"].value
        await Lock(client, "/Lock").revoke()
        for kind, member in members():
            try:
                result = use(things[kind], kind, member)
                if isinstance(result, (Coroutine, PendingReply)):
                    result = await result
                elif not is_property(kind, member) and hasattr(result, "__aenter__"):
                    async with result as entered:
                        result = entered
            except AioleadError as error:
                result = error
            outcomes[f"{kind}.{member}"] = shown(member, kind_there(result), result)
    return outcomes


@contextmanager
def one_of_each_there(client: Any) -> Iterator[dict[str, Any]]:
    """As `one_of_each`, for this thread, which has all the holds."""
    context = one_of_each(client._target, {})

    def wrap(things: dict[str, Any]) -> dict[str, Any]:
        return {name: client._wrap(thing) for name, thing in things.items()}

    things = client._loop.enter(BlockJob(context, context, wrap))
    for name, recipe in RECIPES.items():
        if name in SOURCES and name not in recipe.gives and isinstance(recipe.make, type):
            things[name] = getattr(blocking, name)(client, f"/free/{name}", **recipe.arguments)
    try:
        yield {**things, "CampaignState": things["Campaign"].value}
    finally:
        client._loop.leave(context, None, [])


def outcomes_there(things: dict[str, Any]) -> dict[str, str]:
    """The outcome of each member in this thread, by class and member."""
    outcomes: dict[str, str] = {}
    for kind, member in members():
        try:
            result = use(things[kind], kind, member)
            if not is_property(kind, member) and hasattr(result, "__enter__"):
                with result as entered:
                    result = entered
        except AioleadError as error:
            result = error
        outcomes[f"{kind}.{member}"] = shown(member, type(result).__name__, result)
    return outcomes


def test_members_come_to_the_same_in_threads(own: ThreadedServer, backend: Backend) -> None:
    with connect(own, backend) as client:
        here = client.call(outcomes_here)
    with EmbeddedServer.in_thread() as server, connect(server, backend) as client:
        with one_of_each_there(client) as things:
            blocking.Lock(client, "/Lock").revoke()
            there = outcomes_there(things)
    assert there == here
    assert len(there) > 270


def errors(outcomes: dict[str, str]) -> dict[str, list[str]]:
    """The members that raise, by the error."""
    raising: dict[str, list[str]] = {}
    for member, outcome in outcomes.items():
        if re.match(r"\w+Error ", outcome):
            raising.setdefault(outcome, []).append(member)
    return raising


def test_members_of_a_closed_client_raise_that_it_was_closed(
    own: ThreadedServer, backend: Backend
) -> None:
    with connect(own, backend) as client, one_of_each_there(client) as things:
        pass
    found = errors(outcomes_there(things))
    assert found.keys() == {"ClientClosedError ClientClosedError('the client was closed')"}, found


def test_members_elsewhere_return_at_once_or_raise(client: blocking.Client) -> None:
    async def in_a_loop() -> dict[str, str]:
        return outcomes_there(things)

    with one_of_each_there(client) as things:
        (forked,) = errors(in_child(lambda: outcomes_there(things)))
        (looped,) = errors(asyncio.run(in_a_loop()))
    assert "was forked: connect in this process" in forked
    assert "was called in a thread that runs an event loop" in looped


def test_session_moves_and_is_left_to_another_client(own: ThreadedServer, backend: Backend) -> None:
    with connect(own, backend) as client:
        client.create("/mine", mode=CreateMode.EPHEMERAL)
        client.update_hosts(own.connect_string)
        left = client.detach()
    with connect(own, backend, resume=left) as client:
        assert client.session_id == left.session_id
        assert client.exists("/mine")
