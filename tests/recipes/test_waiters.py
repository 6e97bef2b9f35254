"""The objects that each of many waiters keeps alive: a client may have thousands."""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import AsyncIterator
from types import CoroutineType

import anyio
import anyio.lowlevel
import pytest
from kit.clients import OVER_AIOZK, Owner, contenders_left, eventually, in_memory
from recipes.blocks import Holder, enter

from aiolead import Client, Lock
from aiolead._session.machine import SessionMachine
from aiolead.testing import EmbeddedServer

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(OVER_AIOZK, reason="counts the objects of a client with no adapter around"),
]

PATH = "/lock"
MANY = 40

OBJECTS, COROUTINES = 12, 4
"""How many of the library's own there are for each waiter, at most: its `Znode`; its `Ahead`; two
watches with a slot each, one on its own znode and one on that before it; and what waits for them.
No request, no event of anyio's, no scope."""


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tick_time=3) as server:
        yield server


@pytest.fixture
async def client(server: EmbeddedServer) -> AsyncIterator[Client]:
    async with in_memory(server, session_timeout=60) as client:
        yield client


def census() -> Counter[str]:
    gc.collect()
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        if isinstance(each, CoroutineType):
            if "/aiolead/_" in each.cr_code.co_filename:
                found[f"coroutine {each.cr_code.co_name}"] += 1
        elif re.match(r"aiolead($|\._|\.types$)", str(type(each).__module__)):
            found[type(each).__name__] += 1
    return found


async def test_waiter_keeps_little_alive(server: EmbeddedServer, client: Client) -> None:
    lock = Lock(client, PATH)
    async with lock, anyio.create_task_group() as tasks:

        async def more(in_queue: int) -> None:
            for _ in range(MANY):
                tasks.start_soon(enter, lock.acquire())
            await eventually(lambda: len(contenders_left(server, PATH)) == in_queue, "queued")
            watches = client._core.machine.watches
            # The holder watches its own znode alone, once it has held for a moment.
            await eventually(lambda: len(watches) == 2 * in_queue - 1, "they watch")
            await anyio.wait_all_tasks_blocked()

        await more(1 + MANY)
        before = census()
        await more(1 + 2 * MANY)
        # The first of those who came later is behind one of those before.
        grown = {kind: n for kind, n in (census() - before).items() if n >= MANY // 2}
        coroutines = sum(n for kind, n in grown.items() if kind.startswith("coroutine"))
        assert coroutines == COROUTINES * MANY, grown
        assert sum(grown.values()) - coroutines == OBJECTS * MANY, grown
        tasks.cancel_scope.cancel()


async def test_first_look_keeps_nothing_of_those_that_waited_for_it(
    server: EmbeddedServer, client: Client
) -> None:
    """The first look at the queue is one for all, and fails where there is no path yet."""
    lock, before = Lock(client, PATH), census()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(Holder(lock.acquire()))
        await eventually(lambda: len(contenders_left(server, PATH)) == 5, "queued")
        await anyio.wait_all_tasks_blocked()
        grown = census() - before
        assert grown["coroutine look_before"] == grown["PendingReply"] == 0
        tasks.cancel_scope.cancel()


async def test_successive_locks_do_not_wake_the_timekeeper(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks every 0.1 s while there are any; the renewals of each hold are due later."""
    looks = 0
    machine, tick = client._core.machine, SessionMachine.tick

    def counted(self: SessionMachine, now: float) -> str | None:
        nonlocal looks
        looks += self is machine
        return tick(self, now)

    monkeypatch.setattr(SessionMachine, "tick", counted)
    for _ in range(200):
        hold = client.backend.lease.hold("/x", Owner())
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        hold.release()
    assert 0 < looks < 20
