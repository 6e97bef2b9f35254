"""What semaphores, barriers and the exclusive lock cost."""

from __future__ import annotations

import anyio

from aiolead import Barrier, Client, DoubleBarrier, ExclusiveLock, Semaphore
from costs._counting import IDENTITY, PATH, Bench, Operation


def semaphore(client: Client, limit: int = 3) -> Semaphore:
    return Semaphore(client, PATH, limit, identity=IDENTITY, follow_limit=True)


async def permit(bench: Bench) -> None:
    one = semaphore(await bench.client())
    async with one:
        pass
    await bench.start()
    async with one:
        await bench.stop()


async def three_permits(bench: Bench) -> None:
    one = semaphore(await bench.client())
    async with one:
        pass
    await bench.start()
    async with one.acquire(permits=3):
        await bench.stop()


async def beside_another(bench: Bench) -> None:
    async with semaphore(await bench.client()):
        await bench.settle()
        other = semaphore(await bench.client())
        await bench.start()
        async with other:
            await bench.stop()


async def give_back(bench: Bench) -> None:
    async with semaphore(await bench.client()):
        await bench.start()
    await bench.stop()


async def hand_over(bench: Bench) -> None:
    """With a third behind the next."""
    first, *others = [semaphore(await bench.client(), 1) for _ in range(3)]

    async def hold(one: Semaphore) -> None:
        async with one:
            if one is others[0]:
                await bench.stop()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        async with first:
            for other in others:
                tasks.start_soon(hold, other)
                await bench.settle()
            await bench.start()
        await bench.over()
        tasks.cancel_scope.cancel()


async def set_limit(bench: Bench) -> None:
    one = semaphore(await bench.client())
    await one.set_limit(5)
    async with bench.measured():
        await one.set_limit(4)


# --- exclusive locks -----------------------------------------------------------------------------


def exclusive(client: Client) -> ExclusiveLock:
    return ExclusiveLock(client, PATH, identity=IDENTITY)


async def exclusive_alone(bench: Bench) -> None:
    one = exclusive(await bench.client())
    async with one:
        pass
    await bench.start()
    async with one:
        await bench.stop()


async def exclusive_refused(bench: Bench) -> None:
    async with exclusive(await bench.client()):
        await bench.settle()
        other = exclusive(await bench.client())
        async with bench.measured():
            async with other.try_acquire() as held:
                assert held is None


async def herd(bench: Bench) -> None:
    """Of ten that wait: all are woken, and all try."""
    first, *others = [exclusive(await bench.client()) for _ in range(11)]

    async def hold(one: ExclusiveLock) -> None:
        async with one:
            await bench.stop()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        async with first:
            for other in others:
                tasks.start_soon(hold, other)
                await bench.settle()
            await bench.start()
        await bench.over()
        tasks.cancel_scope.cancel()


# --- barriers ------------------------------------------------------------------------------------


async def set_it(bench: Bench) -> None:
    barrier = Barrier(await bench.client(), PATH)
    async with bench.measured():
        await barrier.set()


async def wait_at_removed(bench: Bench) -> None:
    barrier = Barrier(await bench.client(), PATH)
    async with bench.measured():
        await barrier.wait()


async def wait_at_set(bench: Bench) -> None:
    barrier = Barrier(await bench.client(), PATH)
    await barrier.set()
    async with anyio.create_task_group() as tasks:
        await bench.start()
        tasks.start_soon(barrier.wait)
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def remove_for_three(bench: Bench) -> None:
    """From the call until the last of them goes on."""
    barriers = [Barrier(await bench.client(), PATH) for _ in range(3)]
    opener = Barrier(await bench.client(), PATH)
    await opener.set()
    async with anyio.create_task_group() as operation:
        async with anyio.create_task_group() as tasks:
            for barrier in barriers:
                tasks.start_soon(barrier.wait)
            await bench.settle()
            await bench.start()
            operation.start_soon(opener.remove)
        await bench.stop()


async def enter(bench: Bench) -> None:
    """The third of three: until all are inside."""
    await _double(bench, leaves=False)


async def leave(bench: Bench) -> None:
    """All three, until the last one is out."""
    await _double(bench, leaves=True)


async def _double(bench: Bench, *, leaves: bool) -> None:
    members = [DoubleBarrier(await bench.client(), PATH, 3, identity=IDENTITY) for _ in range(3)]
    go = anyio.Event()
    inside = 0

    async def take_part(one: DoubleBarrier) -> None:
        nonlocal inside
        async with one:
            inside += 1
            if inside == len(members) and not leaves:
                await bench.stop()
            await go.wait()

    async with anyio.create_task_group() as tasks:
        for member in members:
            if member is members[-1] and not leaves:
                await bench.start()
            tasks.start_soon(take_part, member)
            if member is not members[-1] or leaves:
                await bench.settle()
        if leaves:
            await bench.start()
        else:
            await bench.over()
        go.set()
    if leaves:
        await bench.stop()


async def _exclusively(one: ExclusiveLock) -> None:
    async with one:
        await anyio.sleep_forever()


async def release_exclusively(bench: Bench) -> None:
    async with exclusive(await bench.client()):
        await bench.start()
    await bench.stop()


async def wait_exclusively(bench: Bench) -> None:
    one, other = exclusive(await bench.client()), exclusive(await bench.client())
    async with one, anyio.create_task_group() as tasks:
        await bench.start()
        tasks.start_soon(_exclusively, other)
        await anyio.lowlevel.checkpoint()
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def _permits(one: Semaphore, permits: int = 1, bench: Bench | None = None) -> None:
    async with one.acquire(permits=permits):
        if bench is not None:
            await bench.stop()
        await anyio.sleep_forever()


async def try_permits(bench: Bench) -> None:
    one, other = semaphore(await bench.client()), semaphore(await bench.client())
    async with one.acquire(permits=3):
        async with bench.measured():
            async with other.try_acquire() as held:
                assert held is None


async def wait_for_permit(bench: Bench) -> None:
    """At the front of the line: who is behind it waits as in the line of a lock."""
    one, other = semaphore(await bench.client()), semaphore(await bench.client())
    async with one.acquire(permits=3), anyio.create_task_group() as tasks:
        await bench.start()
        tasks.start_soon(_permits, other)
        await anyio.lowlevel.checkpoint()
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def raise_limit(bench: Bench) -> None:
    one, other = semaphore(await bench.client()), semaphore(await bench.client())
    await one.set_limit(3)
    async with one.acquire(permits=3), anyio.create_task_group() as tasks:
        tasks.start_soon(_permits, other, 1, bench)
        await bench.settle()
        await bench.start()
        await one.set_limit(4)
        await bench.over()
        tasks.cancel_scope.cancel()


ROWS = [
    Operation("Semaphore", "a permit, nobody there", permit),
    Operation("Semaphore", "three permits at once, nobody there", three_permits),
    Operation("Semaphore", "a permit, others are held", beside_another),
    Operation("Semaphore", "release a permit", give_back),
    Operation("Semaphore", "try, none is free", try_permits),
    Operation("Semaphore", "start to wait, as the first in the queue", wait_for_permit),
    Operation("Semaphore", "hand-over of the last permit, a third behind it", hand_over),
    Operation("Semaphore", "set the limit", set_limit),
    Operation("Semaphore", "raise the limit, a contender waits", raise_limit),
    Operation("ExclusiveLock", "acquire", exclusive_alone),
    Operation("ExclusiveLock", "release", release_exclusively),
    Operation("ExclusiveLock", "start to wait", wait_exclusively),
    Operation("ExclusiveLock", "try, held by another", exclusive_refused),
    Operation("ExclusiveLock", "hand-over, ten wait: the herd", herd),
    Operation("Barrier", "set", set_it),
    Operation("Barrier", "wait, it is not set", wait_at_removed),
    Operation("Barrier", "start to wait, it is set", wait_at_set),
    Operation("Barrier", "remove, three wait", remove_for_three),
    Operation("DoubleBarrier", "the third enters, until all three are inside", enter),
    Operation("DoubleBarrier", "three leave, until the last one is out", leave),
]
