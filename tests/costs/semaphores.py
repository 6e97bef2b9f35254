"""The costs of semaphores, barriers, the exclusive lock and the runs of keys."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio

from aiolead import Barrier, Client, DoubleBarrier, ExclusiveLock, Once, Semaphore
from costs._acts import beside, call, enter, hand_over, leave, new, prepared, refused, used, wait
from costs._counting import IDENTITY, PATH, Bench, rows


def semaphore(client: Client, limit: int = 3) -> Semaphore:
    return Semaphore(client, PATH, limit, identity=IDENTITY, follow_limit=True)


def exclusive(client: Client) -> ExclusiveLock:
    return ExclusiveLock(client, PATH, identity=IDENTITY)


def once(client: Client) -> Once:
    return Once(client, PATH, ttl=None, identity=IDENTITY)


def key(one: Once) -> Any:
    return one.claim("2026-11-21")


async def run_key(one: Once) -> None:
    async with key(one):
        pass


async def run_another(one: Once) -> None:
    async with one.claim("2026-11-20"):
        pass


def barrier(client: Client) -> Barrier:
    return Barrier(client, PATH)


ONE = Semaphore.acquire
THREE = partial(Semaphore.acquire, permits=3)
HOLD = ExclusiveLock.acquire


async def raise_limit(bench: Bench) -> None:
    one, other = semaphore(await bench.client()), semaphore(await bench.client())
    await one.set_limit(3)

    async def hold() -> None:
        async with other:
            await bench.stop()
            await anyio.sleep_forever()

    async with one.acquire(permits=3), anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        await bench.settle()
        await bench.start()
        await one.set_limit(4)
        await bench.over()
        tasks.cancel_scope.cancel()


async def start_to_wait(bench: Bench) -> None:
    one = barrier(await bench.client())
    await one.set()
    async with anyio.create_task_group() as tasks:
        await bench.start()
        tasks.start_soon(one.wait)
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def remove_for_three(bench: Bench) -> None:
    """From the call until the last of them goes on."""
    barriers = [barrier(await bench.client()) for _ in range(3)]
    opener = barrier(await bench.client())
    await opener.set()
    async with anyio.create_task_group() as operation:
        async with anyio.create_task_group() as tasks:
            for each in barriers:
                tasks.start_soon(each.wait)
            await bench.settle()
            await bench.start()
            operation.start_soon(opener.remove)
        await bench.stop()


async def double(bench: Bench, *, leaves: bool) -> None:
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


ROWS = [
    *rows(
        "Semaphore",
        {
            "a permit, nobody there": enter(used(semaphore, ONE), ONE),
            "three permits at once, nobody there": enter(used(semaphore, ONE), THREE),
            "a permit, others are held": beside(semaphore, ONE, partial(enter, do=ONE)),
            "release a permit": leave(new(semaphore), ONE),
            "try, none is free": refused(semaphore, THREE),
            "start to wait, as the first in the queue": wait(semaphore, THREE, ONE),
            "hand-over of the last permit, a third behind it": hand_over(
                partial(semaphore, limit=1), ONE
            ),
            "set the limit": call(
                prepared(semaphore, lambda one: one.set_limit(5)), lambda one: one.set_limit(4)
            ),
            "raise the limit, a contender waits": raise_limit,
        },
    ),
    *rows(
        "ExclusiveLock",
        {
            "acquire": enter(used(exclusive, HOLD), HOLD),
            "release": leave(new(exclusive), HOLD),
            "start to wait": wait(exclusive, HOLD),
            "try, held by another": refused(exclusive, HOLD),
            "hand-over, ten wait: the herd": hand_over(exclusive, HOLD, waiting=10),
        },
    ),
    *rows(
        "Once",
        {
            "claim a key": enter(prepared(once, run_another), key),
            "mark the key as done": leave(new(once), key),
            "claim a done key": enter(prepared(once, run_key), key),
            "start to wait": wait(once, key),
        },
    ),
    *rows(
        "Barrier",
        {
            "start to wait, it is set": start_to_wait,
            "remove, three wait": remove_for_three,
        },
    ),
    *rows(
        "DoubleBarrier",
        {
            "the third enters, until all three are inside": partial(double, leaves=False),
            "three leave, until the last one is out": partial(double, leaves=True),
        },
    ),
]
