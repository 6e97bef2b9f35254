"""What a `Condition` and a `MultiLock` cost."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from aiolead import Client, Condition, Lock, MultiLock
from costs._counting import IDENTITY, PATH, Bench, Operation


def condition(client: Client) -> Condition:
    return Condition(client, PATH, identity=IDENTITY)


async def _used_before(bench: Bench) -> None:
    """Somebody has waited once: the paths are there."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wait, condition(await bench.client()), None)
        await bench.settle()
        async with condition(await bench.client()) as held:
            await held.notify()
    await bench.settle()


async def begin_to_wait(bench: Bench) -> None:
    """Until it lets go of the lock."""
    await _used_before(bench)
    one = condition(await bench.client())

    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            async with one as held:
                await bench.start()
                await held.wait()

        tasks.start_soon(wait)
        while not bench.is_measuring:
            await anyio.lowlevel.checkpoint()
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def notify(bench: Bench) -> None:
    await _used_before(bench)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wait, condition(await bench.client()), None)
        await bench.settle()
        async with condition(await bench.client()) as held:
            await bench.settle()
            async with bench.measured():
                assert await held.notify() == 1
        tasks.cancel_scope.cancel()


async def wake(bench: Bench) -> None:
    """From the end of the notifier's block to the waiter's going on."""
    await _used_before(bench)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wait, condition(await bench.client()), bench)
        await bench.settle()
        async with condition(await bench.client()) as held:
            await held.notify()
            await bench.settle()
            await bench.start()
        await bench.over()
        tasks.cancel_scope.cancel()


async def _wait(one: Condition, bench: Bench | None) -> None:
    async with one as held:
        await held.wait()
        if bench is not None:
            await bench.stop()


async def three_locks(bench: Bench) -> None:
    client = await bench.client()
    several = MultiLock(
        *[Lock(client, f"{PATH}-{number}", identity=IDENTITY) for number in range(3)]
    )
    async with several:
        pass
    await bench.start()
    async with several:
        await bench.stop()


ROWS = [
    Operation("Condition", "start to wait, until the lock is free", begin_to_wait),
    Operation("Condition", "notify one waiter", notify),
    Operation("Condition", "release, until the notified waiter holds", wake),
    Operation("MultiLock", "acquire three locks", three_locks),
]
