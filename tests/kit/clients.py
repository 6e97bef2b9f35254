"""Clients for tests, their links and clocks, and a bounded wait."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import pytest
import trio

import aiolead
from aiolead._client.connect_options import lease_clock
from aiolead._recipes.contender_queue import ContenderQueue
from aiolead._recipes.layouts import Role
from aiolead.errors import ConnectFailed, LossReason, NoNodeError, UnsupportedError
from aiolead.model import SessionState
from aiolead.paths import join, parse_connect_string
from aiolead.testing import EmbeddedServer, FaultProxy, Hooks, MemoryProxy, OpCode

from .checks import PATIENCE
from .raw_client import RawClient

if TYPE_CHECKING:
    from adapters.aiozk_peer import Adapted

SESSION = 8.0
"""A session timeout that outlives any hiccup of a busy machine, in seconds."""


class Owner:
    """The owner of a hold, which calls functions: by default, its end makes no difference to it."""

    def __init__(
        self,
        on_lost: Callable[[LossReason], object] = lambda _: None,
        on_settled: Callable[[], object] = lambda: None,
    ) -> None:
        self.hold_lost = on_lost
        self.hold_settled = on_settled


class Served(Protocol):
    """Something to connect to."""

    @property
    def connect_string(self) -> str: ...


OVER_AIOZK = os.environ.get("AIOLEAD_CLIENT") == "aiozk"
"""Whether the clients of these tests are aiozk's, adapted. On asyncio and the embedded server."""

watches_the_bytes = pytest.mark.skipif(
    OVER_AIOZK, reason="holds back, or counts, the bytes of a client in memory: none is adapted"
)


def connect(server: Served, **options: Any) -> aiolead.types.Connection | Adapted:
    """A client of a server over TCP."""
    options = hooked(**{"session_timeout": SESSION, **options})
    if OVER_AIOZK and "resume" not in options:
        from adapters.aiozk_peer import Adapted

        return Adapted(server.connect_string, **options)
    return aiolead.connect(server.connect_string, **options)


async def why_not_connected(hosts: str | aiolead.Hosts, **options: Any) -> ConnectFailed:
    """The error of `connect`, once an attempt at each server has ended.

    Half a second is enough for that; a machine that is busy is given longer.
    """
    within = 0.5
    while True:
        with pytest.raises(ConnectFailed) as caught:
            async with aiolead.connect(hosts, connect_timeout=within, **options):
                pytest.fail("there is a session")
        reasons = [str(reason) for _, reason in caught.value.attempts]
        if within > PATIENCE or not any(reason.endswith(" yet") for reason in reasons):
            return caught.value
        within *= 4


def proxy_before(server: Served) -> FaultProxy:
    """A proxy that leads to a server, and to the same chroot: `connect` takes it as a server."""
    where = parse_connect_string(server.connect_string)
    return FaultProxy(*where.hosts[0], chroot=where.chroot)


def raw(server: Served) -> RawClient:
    """The operator: a client that shares no code with the one under test."""
    return RawClient(server.connect_string)


@asynccontextmanager
async def losing_the_link(client: aiolead.Client) -> AsyncIterator[None]:
    """Waits at the end of the block until the client has lost its connection, and is back.

    To look for a state that ends within milliseconds, from time to time, would be to miss it.
    """
    states: list[SessionState] = []
    unsubscribe = client.backend.subscribe(lambda state, _: states.append(state))
    yield
    await eventually(lambda: SessionState.SUSPENDED in states, "the connection is lost")
    await client.ready()
    unsubscribe()


async def has_looked(client: aiolead.Client, path: str) -> None:
    """From now on, contenders of a `Lock` join with their first request: they fit on the path."""
    await ContenderQueue(
        "Lock", client, path, aiolead.types.Layout.CURATOR, Role.LOCK
    ).refuse_misfits(None)


async def eventually(
    check: Callable[[], bool | Awaitable[bool]], what: str, *, within: float = PATIENCE
) -> None:
    """Waits until something is so.

    Raises:
        AssertionError: it is not, after `within` seconds.
    """
    pause = 0.0005
    with anyio.move_on_after(within):
        while True:
            answer = check()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.01)
    raise AssertionError(f"still not, after {within} seconds: {what}")


async def catch_up(client: aiolead.Client) -> None:
    """Waits until a client can read what was answered to others, and has received its watch events.

    The servers of an ensemble do not apply a write at the same time. A write that changes nothing
    is ordered after all others. A `sync` is not, at the leader: it answers its own clients' syncs
    beside the commits, which it has sent to its followers by then.
    """
    with suppress(NoNodeError):
        await client.check("/")


async def owned(client: aiolead.Client) -> list[str]:
    """The ephemeral znodes of a client's session, sorted, on any engine."""
    try:
        return sorted(await aiolead.admin.get_ephemerals(client))
    except UnsupportedError:
        return sorted([path async for path in _owned_below(client, "/")])


async def _owned_below(client: aiolead.Client, path: str) -> AsyncIterator[str]:
    with suppress(NoNodeError):
        for name in await client.get_children(path):
            child = join(path, name)
            stat = await client.exists(child)
            if stat is not None and stat.ephemeral_owner == client.session_id:
                yield child
            async for below in _owned_below(client, child):
                yield below


async def names(client: aiolead.Client, path: str) -> list[str]:
    """The children of a path, sorted by their numbers; none if there is no such path."""
    await catch_up(client)
    try:
        children = await client.get_children(path)
    except NoNodeError:
        return []
    return sorted(children, key=lambda name: name[-10:])


async def children_are(client: aiolead.Client, path: str, *expected: str) -> None:
    """Waits until a path has exactly these children: none, if none are named."""

    async def are_there() -> bool:
        return sorted(await names(client, path)) == sorted(expected)

    await eventually(are_there, f"the children of {path} are {sorted(expected)}")


async def joined(client: aiolead.Client, path: str, count: int) -> list[str]:
    """Waits until so many contenders are in the line, and names them in order."""
    line: list[str] = []

    async def are_there() -> bool:
        line[:] = await names(client, path)
        return len(line) == count

    await eventually(are_there, f"{count} contenders on {path}; there are {line}")
    return line


def tasks_living() -> int:
    """How many tasks this event loop has."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


# --- clocks -----------------------------------------------------------------------------------


class JumpingClock:
    """The lease's clock, which a test can move on: as if the process had been blocked so long.

    Args:
        clock: the clock that it moves on.
    """

    def __init__(self, clock: Callable[[], float] = lease_clock) -> None:
        self._clock = clock
        self._ahead = 0.0

    def __call__(self) -> float:
        return self._clock() + self._ahead

    def jump(self, seconds: float) -> None:
        self._ahead += seconds


def stopped_clock() -> float:
    """A lease's clock that stands still, so that nothing is ever due: no ping, no renewal."""
    return 1000.0


class HandClock:
    """A lease's clock that stands still but where a test moves it on.

    The client looks at it as it does something; its timekeeper sleeps on for as long as it was to.
    """

    def __init__(self) -> None:
        self._now = 1000.0

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


# --- in memory --------------------------------------------------------------------------------


class Link(MemoryProxy):
    """The connections of clients to an embedded server, in memory; and what a test does to them.

    Its clients have the hooks of `hooks_by_default`: on virtual time, its clock.
    """

    def connect(self, **options: Any) -> aiolead.types.Connection:
        """A client."""
        settings = {"session_timeout": SESSION, "dial": self.dial, **options}
        return aiolead.connect("10.0.0.1:2181", **hooked(**settings))

    def hold_at_loss(self, client: aiolead.Client) -> anyio.Event:
        """Holds back everything from the next loss of the connection on; gives when that was."""
        lost = anyio.Event()

        def on_state(state: SessionState, _session_id: int) -> None:
            if state is SessionState.SUSPENDED and not lost.is_set():
                self.stall("to_client")
                lost.set()

        client.backend.subscribe(on_state)
        return lost


EVERY_REPLY = tuple(OpCode)
"""For `hold_reply`: replies and events of every kind."""


def in_memory(server: EmbeddedServer, **options: Any) -> aiolead.types.Connection | Adapted:
    """A client of an embedded server, in memory where it can be."""
    return connect(server, **options) if OVER_AIOZK else Link(server).connect(**options)


def contenders_left(server: EmbeddedServer, path: str) -> list[str]:
    """The znodes below a path."""
    return [znode for znode in server.znodes() if znode.startswith(path + "/")]


async def nothing_left(server: EmbeddedServer, path: str, *, watched: Collection[str] = ()) -> None:
    """Waits until no contender is in the line, and no watch is on the server but those named."""
    await eventually(
        lambda: not contenders_left(server, path) and set(server.watches()) <= set(watched),
        f"nothing is left: {path} {contenders_left(server, path)}, {server.watches()}",
    )


# --- hooks of `connect` ---------------------------------------------------------------------------

NAMES = ("clock", "rng", "dial")


_defaults: ContextVar[Callable[[], dict[str, Any]]] = ContextVar("defaults", default=dict)


@contextmanager
def hooks_by_default(make: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """In the block, each client has hooks of its own that are made so, where none are given."""
    token = _defaults.set(make)
    try:
        yield
    finally:
        _defaults.reset(token)


def hooked(**options: Any) -> dict[str, Any]:
    """The options for `connect`: `clock`, `rng` and `dial` go into its `hooks`."""
    options = {**_defaults.get()(), **options}
    hooks = {name: options.pop(name) for name in NAMES if name in options}
    return {**options, "hooks": Hooks(**hooks)} if hooks else options


def before_each(client: aiolead.Client, op: OpCode, act: Callable[[], object]) -> None:
    """Has something done before each request of a kind is handed over."""
    submit = client._core.submit

    def act_and_submit(call: Any, **options: Any) -> Any:
        if call.op == op:
            act()
        return submit(call, **options)

    client._core.submit = act_and_submit  # type: ignore[method-assign]
