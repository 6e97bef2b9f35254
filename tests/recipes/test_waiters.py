"""What each of many waiters keeps alive, counted: a client may have thousands."""

from __future__ import annotations

import gc
import re
from collections import Counter
from types import CoroutineType

import anyio
import anyio.lowlevel
import pytest
from kit.clients import OVER_AIOZK, contenders_left, eventually, in_memory

from aiolead import Lock
from aiolead._session.machine import SessionMachine
from aiolead.testing import EmbeddedServer

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(OVER_AIOZK, reason="counts the objects of a client with no adapter around"),
]

PATH = "/lock"
MANY = 40

EACH = {
    "TenureContext": 1,
    "Contender": 1,
    "RegisteredNode": 1,
    "QueuePosition": 1,
    "Wakeup": 1,
    "Ahead": 1,
    # On the znode of the one before, and on its own.
    "ClientWatch": 2,
    "_AwaitedSlot": 2,
    "coroutine __aenter__": 1,
    "coroutine _contend": 1,
    "coroutine _persist": 1,
    "coroutine _try": 1,
}
"""All of the library's own objects. No request, no event of anyio's, no scope."""


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


async def test_a_waiter_keeps_little_alive() -> None:
    async with (
        EmbeddedServer(tick_time=3) as server,
        in_memory(server, session_timeout=60) as client,
    ):
        lock = Lock(client, PATH)

        async def wait() -> None:
            async with lock.acquire():
                pytest.fail("it holds")

        async with lock.acquire(), anyio.create_task_group() as tasks:

            async def more(in_line: int) -> None:
                for _ in range(MANY):
                    tasks.start_soon(wait)
                await eventually(lambda: len(contenders_left(server, PATH)) == in_line, "queued")
                watches = client._core.machine.watches
                # The holder watches its own znode alone, once it has held for a moment.
                await eventually(lambda: len(watches) == 2 * in_line - 1, "they watch")
                await anyio.wait_all_tasks_blocked()

            await more(1 + MANY)
            before = census()
            await more(1 + 2 * MANY)
            grown = census() - before
            # The first of those who came later is behind one of those before.
            assert {kind: count for kind, count in grown.items() if count >= MANY // 2} == {
                kind: count * MANY for kind, count in EACH.items()
            }
            tasks.cancel_scope.cancel()


async def test_who_looks_first_keeps_nothing_of_who_waited_with_it() -> None:
    """The first look at the line is one for all, and fails where there is no path yet."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        lock = Lock(client, PATH)

        async def wait() -> None:
            async with lock.acquire():
                await anyio.sleep_forever()

        before = census()
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wait)
            await eventually(lambda: len(contenders_left(server, PATH)) == 5, "queued")
            await anyio.wait_all_tasks_blocked()
            grown = census() - before
            assert grown["coroutine look_before"] == grown["PendingReply"] == 0
            tasks.cancel_scope.cancel()


async def test_locks_one_after_the_other_do_not_wake_the_timekeeper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looks every 0.1 s while there are any; what each of them makes due comes after that."""
    looks = 0
    async with (
        EmbeddedServer(tick_time=3) as server,
        in_memory(server, session_timeout=60) as client,
    ):
        machine = client._core.machine
        tick = SessionMachine.tick

        def counted(self: SessionMachine, now: float) -> str | None:
            nonlocal looks
            looks += self is machine
            return tick(self, now)

        monkeypatch.setattr(SessionMachine, "tick", counted)
        for _ in range(200):
            hold = client.backend.lease.hold("/x", lambda _reason: None)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            hold.release()
        assert 0 < looks < 20
