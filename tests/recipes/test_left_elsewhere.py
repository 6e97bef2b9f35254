"""A block that is left by another task than the one that entered: refused, and released all the
same.

An async generator that is abandoned in the middle of a block is closed by another task, at last by
the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
import trio
from conftest import ServerUnderTest
from kit.clients import PATIENCE, connect
from kit.every_recipe import HELD, Held
from kit.selection import on_embedded
from kit.tasks import in_ordinary_task
from recipes.blocks import Block, Holder, enter, happens

from aiolead import (
    Client,
    Condition,
    Group,
    Lock,
    MultiLock,
    PersistentNode,
    Queue,
    ReentrantLock,
    Semaphore,
    ServiceInstance,
    ServiceRegistry,
)
from aiolead.errors import UsageError

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/l"


@asynccontextmanager
async def in_another_task(start: Callable[[], Awaitable[object]]) -> AsyncIterator[anyio.Event]:
    """Runs something in a task of its own, which goes on until the block is left.

    The task is none of a task group: a cancel scope that is never left would break that.
    """
    started, ended, end = anyio.Event(), anyio.Event(), anyio.Event()

    async def run() -> None:
        await start()
        started.set()
        await end.wait()
        ended.set()

    if trio.lowlevel.in_trio_run():
        trio.lowlevel.spawn_system_task(run)
    else:
        task = asyncio.get_running_loop().create_task(run())
        task.add_done_callback(lambda done: done.result())
    await happens(started)
    yield end
    end.set()
    await happens(ended)


async def inside(block: Block) -> AsyncGenerator[Any, None]:
    """A generator that is in the middle of a block."""
    async with block as mine:
        yield mine


async def leave_elsewhere(block: Block, says: str = "another task") -> None:
    with pytest.raises(UsageError, match=says):
        await block.__aexit__(None, None, None)


async def has_a_turn(scene: Held, server: ServerUnderTest) -> None:
    """Another client gets it: soon, and not as a session ends."""
    async with connect(server, session_timeout=2 * PATIENCE) as other:
        with anyio.fail_after(PATIENCE / 2):
            await scene.turn(other, PATH)


@asynccontextmanager
async def prepared(server: ServerUnderTest, scene: Held) -> AsyncIterator[Client]:
    async with connect(server, session_timeout=2 * PATIENCE) as client:
        if scene.prepare is not None:
            await scene.prepare(client, PATH)
        yield client


@pytest.mark.parametrize("name", HELD)
async def test_closing_an_abandoned_generator_releases(server: ServerUnderTest, name: str) -> None:
    async with prepared(server, HELD[name]) as client:
        generator = inside(HELD[name].enter(client, PATH))
        async with in_another_task(generator.__anext__):
            with pytest.raises(UsageError, match="was not entered by this task"):
                await generator.aclose()
            await has_a_turn(HELD[name], server)


@on_embedded
@pytest.mark.parametrize("name", sorted(HELD.keys() - {"Once", "ReadWriteLock.downgrade"}))
async def test_entering_task_can_leave_after_another(server: ServerUnderTest, name: str) -> None:
    """Nothing is held by then, which is no loss; and it may enter again."""
    scene = HELD[name]
    async with prepared(server, scene) as client:
        context = scene.enter(client, PATH)
        has_entered, has_left, may_leave = anyio.Event(), anyio.Event(), anyio.Event()

        async def enter_and_leave() -> None:
            async with context as mine:
                has_entered.set()
                await may_leave.wait()
                with pytest.raises(UsageError):
                    await mine.verify()
            has_left.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter_and_leave)
            await has_entered.wait()
            for _ in range(2):
                await leave_elsewhere(context, "not entered by this task")
            await has_a_turn(scene, server)
            may_leave.set()
        assert has_left.is_set()
        if scene.prepare is None:
            with anyio.fail_after(PATIENCE):
                await enter(scene.enter(client, PATH))


@on_embedded
async def test_of_several_tasks_inside_the_right_one_is_released(client: Client) -> None:
    """`async with semaphore` says nothing but which statement it is."""
    semaphore = Semaphore(client, PATH, 3)
    first, second = inside(semaphore), inside(semaphore)
    held: list[Any] = []

    async def enter(generator: AsyncGenerator[Any, None]) -> None:
        held.append(await generator.__anext__())

    async with in_another_task(lambda: enter(first)), in_another_task(lambda: enter(second)):
        for generator, left in ((second, [True, False]), (first, [False, False])):
            with pytest.raises(UsageError, match="another task"):
                await generator.aclose()
            assert [each.is_held for each in held] == left


@on_embedded
async def test_holds_that_cannot_be_told_apart_are_not_released(client: Client) -> None:
    semaphore = Semaphore(client, PATH, 3)
    holders = [Holder(semaphore), Holder(semaphore)]
    async with anyio.create_task_group() as tasks:
        for holder in holders:
            tasks.start_soon(holder)
            await happens(holder.entered)
        await leave_elsewhere(semaphore, "not entered by this task")
        for holder in holders:
            await holder.held.verify()
            holder.may_leave.set()


@on_embedded
async def test_inner_block_of_a_reentrant_lock_keeps_the_outer_one(client: Client) -> None:
    lock = ReentrantLock(client, PATH)
    async with lock as held:
        inner = lock.acquire()
        async with inner:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave_elsewhere, inner)
            assert lock.hold_count == 1
        assert lock.hold_count == 1
        await held.verify()


@on_embedded
async def test_all_locks_of_a_multi_lock_are_released(client: Client, other: Client) -> None:
    context = MultiLock(Lock(client, "/a"), Lock(client, "/b")).acquire()
    async with in_another_task(context.__aenter__):
        await leave_elsewhere(context)
        with anyio.fail_after(PATIENCE):
            await enter(MultiLock(Lock(other, "/a"), Lock(other, "/b")))


@on_embedded
async def test_consumed_item_is_released(client: Client, other: Client) -> None:
    async def work() -> AsyncGenerator[Any, None]:
        async with Queue(client, "/q").consume() as items:
            async for item in items:
                yield item

    await Queue(client, "/q").put(b"x")
    generator = work()
    async with in_another_task(generator.__anext__):
        with pytest.raises(UsageError, match="another task"):
            await generator.aclose()
        with anyio.fail_after(PATIENCE):
            async with Queue(other, "/q").get() as item:
                assert item.data == b"x"


@on_embedded
@pytest.mark.parametrize("is_one_of_several", [False, True])
async def test_condition_left_while_it_waits_is_not_locked(
    client: Client, other: Client, is_one_of_several: bool
) -> None:
    condition, has_ended = Condition(client, PATH), anyio.Event()
    several = MultiLock(condition, Lock(client, "/zzz"))
    context: Any = several.acquire() if is_one_of_several else condition.acquire()

    async def wait() -> None:
        async with context as held:
            with pytest.raises(UsageError, match="resigned"):
                await (held.holds[0] if is_one_of_several else held).wait()
        has_ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        while not await condition.waiters():
            await anyio.lowlevel.checkpoint()
        async with Condition(other, PATH) as theirs:
            await leave_elsewhere(context)
            await theirs.notify()
        await happens(has_ended)
    await enter(Condition(other, PATH).acquire(timeout=0))


# --- znodes that are kept, which no task has to hold ----------------------------------------------

WEB = ServiceInstance(name="web", id="1", address="10.0.0.7", port=80)

KEPT: dict[str, Callable[[Client], AbstractAsyncContextManager[object]]] = {
    "PersistentNode": lambda client: PersistentNode(client, f"{PATH}/node"),
    "Group.join": lambda client: Group(client, PATH).join(identity="me"),
    "ServiceRegistry.register": lambda client: ServiceRegistry(client, PATH).register(WEB),
}
every_kept = pytest.mark.parametrize("name", KEPT)


async def ephemerals(client: Client) -> list[str]:
    """The ephemeral znodes at most two levels below the path."""
    found = []
    for child in await client.get_children(PATH):
        path = f"{PATH}/{child}"
        for each in [path, *(f"{path}/{below}" for below in await client.get_children(path))]:
            stat = await client.exists(each)
            if stat is not None and stat.ephemeral_owner:
                found.append(each)
    return found


@on_embedded
@every_kept
async def test_kept_znode_is_left_in_another_task_once_the_first_has_ended(
    server: ServerUnderTest, name: str
) -> None:
    """As start-up and shut-down hooks of frameworks do."""
    async with connect(server) as client:
        stack = AsyncExitStack()
        await client.create(PATH)
        await in_ordinary_task(lambda: stack.enter_async_context(KEPT[name](client)))
        assert len(await ephemerals(client)) == 1
        await in_ordinary_task(stack.aclose)
        assert await ephemerals(client) == []


@on_embedded
@every_kept
async def test_kept_znode_is_deleted_by_another_task_while_the_first_is_inside(
    server: ServerUnderTest, name: str
) -> None:
    async with connect(server) as client:
        await client.create(PATH)
        context = KEPT[name](client)
        async with in_another_task(context.__aenter__):
            with pytest.raises(UsageError, match="not entered by this task"):
                await context.__aexit__(None, None, None)
            assert await ephemerals(client) == []
