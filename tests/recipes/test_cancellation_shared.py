"""Exclusive locks, semaphores and barriers, cancelled at every await in every way.

Nothing is left behind, and others get their turn. See `support/cancelling.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.cancelling import (
    Moment,
    at_suspension,
    cancel_everywhere,
    moments,
    native_only,
    no_complaints,
)
from support.recipes import PATIENCE, contenders_left, eventually, in_memory

from aiolead import Barrier, Client, DoubleBarrier, ExclusiveLock, Semaphore
from aiolead.testing import EmbeddedServer
from aiolead.types import TenureContext

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/contended"
BELOW = "/contended/thing"

Around = Callable[[EmbeddedServer, Client], AbstractAsyncContextManager[None]]
Verb = Callable[[Client], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def quiet_logs(caplog: pytest.LogCaptureFixture) -> Any:
    """No test here may leave a complaint behind."""
    yield
    no_complaints(caplog)


# --- what is cancelled ---------------------------------------------------------------------------


async def hold_exclusively(client: Client) -> None:
    async with ExclusiveLock(client, BELOW) as held:
        await held.verify()


async def try_exclusively(client: Client) -> None:
    async with ExclusiveLock(client, BELOW).try_acquire():
        await anyio.lowlevel.checkpoint()


async def hold_permits(client: Client) -> None:
    async with Semaphore(client, PATH, 3).acquire(permits=2) as held:
        await held.verify()


async def try_permits(client: Client) -> None:
    async with Semaphore(client, PATH, 3).try_acquire(permits=2):
        await anyio.lowlevel.checkpoint()


async def wait_at_barrier(client: Client) -> None:
    await Barrier(client, BELOW).wait()


async def enter_and_leave(client: Client) -> None:
    async with DoubleBarrier(client, PATH, 1):
        await anyio.lowlevel.checkpoint()


async def enter_and_leave_with_another(client: Client) -> None:
    async with DoubleBarrier(client, PATH, 2):
        await anyio.lowlevel.checkpoint()


# --- who else is there ---------------------------------------------------------------------------


@asynccontextmanager
async def nobody(_server: EmbeddedServer, _client: Client) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def in_a_task(
    hold: Callable[[Callable[[], bool]], Coroutine[Any, Any, None]],
    is_on: Callable[[], bool] | None,
) -> AsyncIterator[None]:
    """Somebody who does something until the body has ended."""
    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold, ended.is_set)
        if is_on is not None:
            await eventually(is_on, "the other one is there")
        yield
        ended.set()


@asynccontextmanager
async def a_holder(server: EmbeddedServer, client: Client) -> AsyncIterator[None]:
    async def hold(is_over: Callable[[], bool]) -> None:
        async with ExclusiveLock(client, BELOW):
            await eventually(
                lambda: is_over() or bool(server.watches().get(BELOW)), "somebody waits"
            )

    async with in_a_task(hold, lambda: BELOW in server.znodes()):
        yield


@asynccontextmanager
async def two_permits_out(server: EmbeddedServer, client: Client) -> AsyncIterator[None]:
    leases = f"{PATH}/leases"

    async def hold(is_over: Callable[[], bool]) -> None:
        async with Semaphore(client, PATH, 3).acquire(permits=2):
            await eventually(
                lambda: is_over() or len(contenders_left(server, leases)) == 4, "somebody waits"
            )

    async with in_a_task(hold, lambda: len(contenders_left(server, leases)) == 2):
        yield


@asynccontextmanager
async def it_is_closed(server: EmbeddedServer, client: Client) -> AsyncIterator[None]:
    barrier = Barrier(client, BELOW)
    await barrier.set()

    async def open_it(is_over: Callable[[], bool]) -> None:
        await eventually(lambda: is_over() or bool(server.watches().get(BELOW)), "somebody waits")
        await barrier.remove()

    async with in_a_task(open_it, None):
        yield


CASES: list[tuple[Verb, Around]] = [
    (hold_exclusively, nobody),
    (hold_exclusively, a_holder),
    (try_exclusively, a_holder),
    (hold_permits, nobody),
    (hold_permits, two_permits_out),
    (try_permits, two_permits_out),
    (wait_at_barrier, it_is_closed),
    (enter_and_leave, nobody),
    (enter_and_leave_with_another, nobody),
]

TURNS: dict[Verb, Callable[[Client], TenureContext[Any]]] = {
    hold_exclusively: lambda client: ExclusiveLock(client, BELOW).acquire(timeout=PATIENCE),
    try_exclusively: lambda client: ExclusiveLock(client, BELOW).acquire(timeout=PATIENCE),
    hold_permits: lambda client: Semaphore(client, PATH, 3).acquire(permits=3, timeout=PATIENCE),
    try_permits: lambda client: Semaphore(client, PATH, 3).acquire(permits=3, timeout=PATIENCE),
    enter_and_leave: lambda client: DoubleBarrier(client, PATH, 1).enter(timeout=PATIENCE),
}
"""How somebody else gets a turn afterwards."""

cases = pytest.mark.parametrize(
    ("verb", "around"), CASES, ids=[f"{verb.__name__}-{around.__name__}" for verb, around in CASES]
)


# --- everywhere ----------------------------------------------------------------------------------


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@cases
@moments
async def test_cancelled_by_a_scope_anywhere_it_leaves_nothing(
    moment: Moment, verb: Verb, around: Around
) -> None:
    await _cancel_everywhere("scope", moment, verb, around)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@cases
async def test_cancelled_natively_anywhere_it_leaves_nothing(verb: Verb, around: Around) -> None:
    await _cancel_everywhere("native", at_suspension, verb, around)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@cases
async def test_cancelled_natively_and_again_at_once_it_leaves_nothing(
    verb: Verb, around: Around
) -> None:
    await _cancel_everywhere("native twice", at_suspension, verb, around)


async def _cancel_everywhere(way: str, moment: Moment, verb: Verb, around: Around) -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:

        async def afterwards() -> None:
            """Others get their turn, and then nothing is left."""
            turn = TURNS.get(verb)
            if turn is not None:
                async with turn(b) as held:
                    await held.verify()
            await eventually(
                lambda: _left(server, a) == [],
                f"nothing is left: {_left(server, a)}",
            )

        async def be_the_other_member() -> None:
            while True:
                async with DoubleBarrier(b, PATH, 2, identity="the other"):
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            if verb is enter_and_leave_with_another:
                tasks.start_soon(be_the_other_member)
            await cancel_everywhere(
                way,
                moment,
                a,
                partial(verb, a),
                afterwards,
                around=partial(around, server, b),
            )
            tasks.cancel_scope.cancel()
        await eventually(
            lambda: f"{PATH}/ready" not in server.znodes() and server.watches() == {},
            f"nothing is left: {server.znodes()}, {server.watches()}",
        )


def _left(server: EmbeddedServer, client: Client) -> list[str]:
    """The znodes and the watches that a client has."""
    session_id = client.session_id
    watches = [path for path, sessions in server.watches().items() if session_id in sessions]
    znodes = server._running.core.processor.tree.ephemerals(session_id)
    return watches + sorted(znodes)
