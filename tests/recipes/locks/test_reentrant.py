"""The lock that its holder may acquire again."""

from __future__ import annotations

import anyio
import pytest
from kit.clients import JumpingClock, in_memory, joined, names
from kit.selection import on_embedded
from recipes.blocks import enter
from recipes.crowd import crowd

from aiolead import Client, Held, Lock, LockLost, ReentrantLock
from aiolead.errors import AlreadyHeldError, UsageError
from aiolead.testing import EmbeddedServer

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/lock"


async def test_same_task_enters_again_while_others_wait(a: Client, b: Client) -> None:
    lock = ReentrantLock(a, PATH)

    async def enter_again(depth: int, outer: Held) -> None:
        if depth:
            async with lock as held:
                assert held is outer
                assert lock.hold_count == 5 - depth
                await enter_again(depth - 1, outer)

    async with crowd() as them:
        assert lock.hold_count == 0
        async with lock as outer:
            # A child's task is another one, and so is that of another process.
            them.come("child", to=lock)
            await joined(a, PATH, 2)
            them.come("other", to=Lock(b, PATH))
            await joined(a, PATH, 3)
            await enter_again(3, outer)
            async with lock.acquire(timeout=0.01) as held, lock.try_acquire() as again:
                assert held is again is outer
                assert lock.hold_count == 3
            assert lock.hold_count == 1
            assert them.log == []
            outer.check()
        them.leave()
    assert them.log == ["child", "other"]
    assert lock.hold_count == 0
    assert await names(a, PATH) == []


@on_embedded
async def test_error_of_the_inner_body_leaves_all_blocks(a: Client) -> None:
    lock = ReentrantLock(a, PATH)
    with pytest.raises(KeyError):
        async with lock, lock, lock:
            raise KeyError
    assert lock.hold_count == 0
    async with lock.try_acquire() as held:
        assert held is not None


@on_embedded
async def test_loss_ends_all_blocks(a: Client, b: Client) -> None:
    lock = ReentrantLock(a, PATH)
    ended: list[str] = []
    with pytest.raises(LockLost):
        async with lock as held:
            try:
                async with lock:
                    try:
                        await b.delete(held.path)
                        await anyio.sleep_forever()
                    finally:
                        ended.append("inner")
            finally:
                ended.append("outer")
    assert ended == ["inner", "outer"]
    assert lock.hold_count == 0
    async with lock, lock:
        pass


async def test_lock_that_was_lost_or_released_is_not_entered_again() -> None:
    clock = JumpingClock()
    async with EmbeddedServer() as server, in_memory(server, clock=clock) as a:
        lock = ReentrantLock(a, PATH)
        async with lock as held:
            await held.release()
            with pytest.raises(UsageError, match="resigned"):
                await enter(lock)
        with pytest.raises(LockLost):
            async with lock:
                clock.jump(60)
                async with lock:
                    pytest.fail("it is over")


@on_embedded
async def test_context_is_used_once_at_a_time(a: Client) -> None:
    lock = ReentrantLock(a, PATH)
    async with lock:
        inner = lock.acquire()
        async with inner:
            with pytest.raises(UsageError, match="one each"):
                await inner.__aenter__()

            async def leave() -> None:
                with pytest.raises(UsageError, match="another task"):
                    await inner.__aexit__(None, None, None)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
        assert lock.hold_count == 1
    with pytest.raises(UsageError, match="not entered"):
        await lock.__aexit__(None, None, None)


@on_embedded
async def test_another_object_of_the_same_path_is_another_lock(a: Client) -> None:
    async with ReentrantLock(a, PATH):
        for other in (ReentrantLock(a, PATH), Lock(a, PATH)):
            with pytest.raises(AlreadyHeldError):
                await enter(other)
            async with other.try_acquire() as held:
                assert held is None
