"""The costs of a `Condition` and of a `MultiLock`."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.lowlevel

from aiolead import Client, Condition, Lock, MultiLock
from costs._acts import enter, used
from costs._counting import IDENTITY, PATH, Bench, rows


def condition(client: Client) -> Condition:
    return Condition(client, PATH, identity=IDENTITY)


async def used_before(bench: Bench) -> None:
    """One waiter was notified, so that the paths exist."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, condition(await bench.client()), bench)
        await bench.settle()
        async with condition(await bench.client()) as held:
            await held.notify()
    await bench.settle()


async def wait(one: Condition, bench: Bench) -> None:
    async with one as held:
        await held.wait()
        if bench.is_measuring:
            await bench.stop()


async def begin_to_wait(bench: Bench) -> None:
    await used_before(bench)
    one = condition(await bench.client())

    async def hold() -> None:
        async with one as held:
            await bench.start()
            await held.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        while not bench.is_measuring:
            await anyio.lowlevel.checkpoint()
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def notify(bench: Bench, *, wakes: bool) -> None:
    """The call; or from the end of the notifier's block until the waiter goes on."""
    await used_before(bench)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, condition(await bench.client()), bench)
        await bench.settle()
        async with condition(await bench.client()) as held:
            await bench.settle()
            if wakes:
                await held.notify()
                await bench.start()
            else:
                async with bench.measured():
                    assert await held.notify() == 1
        await bench.over()
        tasks.cancel_scope.cancel()


def three_locks(client: Client) -> MultiLock:
    return MultiLock(*[Lock(client, f"{PATH}-{n}", identity=IDENTITY) for n in range(3)])


ROWS = [
    *rows(
        "Condition",
        {
            "start to wait, until the lock is free": begin_to_wait,
            "notify one waiter": partial(notify, wakes=False),
            "release, until the notified waiter holds": partial(notify, wakes=True),
        },
    ),
    *rows(
        "MultiLock",
        {"acquire three locks": enter(used(three_locks, MultiLock.acquire), MultiLock.acquire)},
    ),
]
