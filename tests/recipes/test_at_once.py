"""Attempts that must not wait are refused without a connection, and say why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio
import pytest
from kit.virtual_time import SESSION, Link, passes, with_virtual_server
from recipes.blocks import enter
from recipes.crowd import crowd

from aiolead import (
    AcquireTimeout,
    Client,
    Condition,
    ConnectionLossError,
    DelayQueue,
    DoubleBarrier,
    Election,
    ExclusiveLock,
    Lock,
    MultiLock,
    Once,
    PriorityQueue,
    Queue,
    ReadWriteLock,
    ReentrantLock,
    Semaphore,
    TaskBoard,
    UniqueNames,
)
from aiolead.errors import Blame, ConnectFailed, Outcome
from aiolead.testing import EmbeddedServer

PATH = "/l"

Context = AbstractAsyncContextManager[Any]


def several(client: Client) -> MultiLock:
    return MultiLock(Lock(client, PATH), Lock(client, "/m"))


TRY: dict[str, Callable[[Client], Context]] = {
    "Lock": lambda c: Lock(c, PATH).try_acquire(),
    "ReentrantLock": lambda c: ReentrantLock(c, PATH).try_acquire(),
    "ReadLock": lambda c: ReadWriteLock(c, PATH).read.try_acquire(),
    "WriteLock": lambda c: ReadWriteLock(c, PATH).write.try_acquire(),
    "MultiLock": lambda c: several(c).try_acquire(),
    "Condition": lambda c: Condition(c, PATH).try_acquire(),
    "ExclusiveLock": lambda c: ExclusiveLock(c, PATH).try_acquire(),
    "Semaphore": lambda c: Semaphore(c, PATH, 1).try_acquire(),
    "Queue": lambda c: Queue(c, PATH).try_get(),
    "PriorityQueue": lambda c: PriorityQueue(c, PATH).try_get(),
    "DelayQueue": lambda c: DelayQueue(c, PATH).try_get(),
    "TaskBoard": lambda c: TaskBoard(c, PATH).try_claim(),
    "UniqueNames": lambda c: UniqueNames(c, PATH).try_claim("name"),
    "Once": lambda c: Once(c, PATH).try_claim("key"),
}
WAIT: dict[str, Callable[[Client], Callable[..., Context]]] = {
    "Lock": lambda c: Lock(c, PATH).acquire,
    "Election": lambda c: Election(c, PATH).leadership,
    "MultiLock": lambda c: several(c).acquire,
    "Condition": lambda c: Condition(c, PATH).acquire,
    "ExclusiveLock": lambda c: ExclusiveLock(c, PATH).acquire,
    "Semaphore": lambda c: Semaphore(c, PATH, 1).acquire,
    "DoubleBarrier": lambda c: DoubleBarrier(c, PATH, 2).enter,
    "Queue": lambda c: Queue(c, PATH).get,
    "TaskBoard": lambda c: TaskBoard(c, PATH).claim,
    "UniqueNames": lambda c: partial(UniqueNames(c, PATH).claim, "name"),
    "Once": lambda c: partial(Once(c, PATH).claim, "key"),
}
AT_ONCE: dict[str, Callable[[Client], Context]] = {
    f"{name}, try": enter for name, enter in TRY.items()
} | {
    f"{name}, timeout=0": lambda c, enter=enter: enter(c)(timeout=0)  # type: ignore[misc]
    for name, enter in WAIT.items()
}
at_once = pytest.mark.parametrize("name", AT_ONCE)


async def is_refused(context: Context, why: str) -> ConnectionLossError:
    began = anyio.current_time()
    with pytest.raises(ConnectionLossError, match=why) as refused:
        await enter(context)
    assert anyio.current_time() - began < 0.001, "on virtual time, only waiting takes any"
    assert refused.value.outcome is Outcome.NOT_APPLIED
    return refused.value


@at_once
@with_virtual_server
async def test_attempt_is_refused_before_a_server_was_reached(link: Link, name: str) -> None:
    """Not even the first attempt of a client that has only begun to connect is waited for."""
    link.refuse()
    async with link.connect(connect_timeout=0) as client:
        await is_refused(AT_ONCE[name](client), "not connected to a server: connecting")
        await passes(2.0)
        error = await is_refused(AT_ONCE[name](client), "the proxy refuses connections")
        assert isinstance(error.__cause__, ConnectFailed)
        assert [address for address, _ in error.__cause__.attempts] == ["10.0.0.1:2181"]


@at_once
@with_virtual_server
async def test_attempt_is_refused_after_the_connection_was_lost(
    link: Link, a: Client, name: str
) -> None:
    link.down()
    await passes(1.0)
    await is_refused(AT_ONCE[name](a), "not connected to a server: suspended")
    link.heal()
    await a.ready()
    try:
        await enter(AT_ONCE[name](a))  # it is as good as new
    except AcquireTimeout:
        assert name.startswith(("DoubleBarrier", "Queue", "TaskBoard"))


@at_once
@with_virtual_server
async def test_attempt_is_refused_as_the_connection_is_lost_and_leaves_nothing(
    server: EmbeddedServer, link: Link, a: Client, b: Client, name: str
) -> None:
    if name.startswith(("Queue", "PriorityQueue", "DelayQueue")):
        await Queue(b, PATH).put(b"x")
    link.stall("to_client")  # it asks, and receives nothing
    refused_at: list[float] = []
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(ConnectionLossError) as refused:
                await enter(AT_ONCE[name](a))
            assert refused.value.outcome is Outcome.NOT_APPLIED
            refused_at.append(anyio.current_time())

        tasks.start_soon(ask)
        await passes(0.5)
        assert refused_at == []
        link.down()
        lost_at = anyio.current_time()
    assert refused_at[0] - lost_at < 0.001
    link.heal()
    await a.ready()
    await passes(2 * SESSION)
    for path in server.znodes():
        stat = await b.exists(path)
        assert stat is None or not stat.ephemeral_owner, path


@pytest.mark.parametrize("name", WAIT)
@with_virtual_server
async def test_timeout_without_a_server_says_so(link: Link, name: str) -> None:
    link.refuse()
    async with link.connect(connect_timeout=0) as client:
        began = anyio.current_time()
        with pytest.raises(AcquireTimeout, match="no server was reached within 2 sec") as late:
            await enter(WAIT[name](client)(timeout=2.0))
        assert 2.0 <= anyio.current_time() - began < 2.1
        assert "the proxy refuses connections" in str(late.value)
        assert late.value.blame is Blame.NETWORK


@with_virtual_server
async def test_timeout_names_its_reason_at_the_end(link: Link, b: Client) -> None:
    async def wait(text: str, blame: Blame) -> None:
        with pytest.raises(AcquireTimeout, match=text) as late:
            await enter(Lock(client, PATH).acquire(timeout=4.0))
        assert late.value.blame is blame

    link.refuse()
    async with (
        link.connect(connect_timeout=0) as client,
        Lock(b, PATH),
        anyio.create_task_group() as tasks,
    ):
        # The connection comes during the wait.
        text = f"not our turn within 4 seconds, behind {PATH}/[^ ,]+, held by "
        tasks.start_soon(wait, text, Blame.RIVAL)
        await passes(1.0)
        link.heal()
        await passes(4.0)
        # It goes during the wait.
        text = "not our turn within 4 seconds; now: not connected to a server: suspended"
        tasks.start_soon(wait, text, Blame.NETWORK)
        await passes(1.0)
        link.down()
        await passes(4.0)


@with_virtual_server
async def test_timeout_of_several_locks_may_end_at_one_without_a_connection(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """That is the end of the time as well: only `timeout=0` is refused."""
    async with Link(server).connect() as other, crowd() as them:
        them.come("other", to=Lock(other, "/a"))
        await passes(0.5)
        link.down()
        with pytest.raises(AcquireTimeout, match="not all were ours within 1 second"):
            await enter(MultiLock(Lock(b, "/a"), Lock(a, "/b")).acquire(timeout=1.0))
        them.leave("other")
        await passes(1.0)
        with pytest.raises(AcquireTimeout, match="not connected to a server") as late:
            await enter(MultiLock(Lock(b, "/a"), Lock(a, "/b")).acquire(timeout=1.0))
        assert late.value.blame is Blame.NETWORK
