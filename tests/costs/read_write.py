"""The costs of a `ReadWriteLock`, of a `ReentrantLock` and of a revocation."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio

from aiolead import Client, Election, ReadWriteLock, ReentrantLock
from costs._acts import beside, enter, hand_over, used
from costs._counting import IDENTITY, PATH, Bench, rows


def lock(client: Client) -> ReadWriteLock:
    return ReadWriteLock(client, PATH, identity=IDENTITY)


def reading(one: ReadWriteLock) -> AbstractAsyncContextManager[Any]:
    return one.read


def writing(one: ReadWriteLock) -> AbstractAsyncContextManager[Any]:
    return one.write


async def downgrade(bench: Bench) -> None:
    async with lock(await bench.client()).write as held, bench.measured():
        await held.downgrade()


async def last_reader_leaves(bench: Bench) -> None:
    """A writer waits for three readers."""
    readers = [lock(await bench.client()) for _ in range(3)]
    writer = lock(await bench.client())

    async def hold() -> None:
        async with writer.write:
            await bench.stop()

    async with anyio.create_task_group() as tasks:
        async with readers[0].read:
            async with readers[1].read, readers[2].read:
                tasks.start_soon(hold)
                await bench.settle()
            await bench.settle()
            await bench.start()
        await bench.over()


async def enter_again(bench: Bench) -> None:
    one = ReentrantLock(await bench.client(), PATH, identity=IDENTITY)
    async with one, bench.measured():
        async with one:
            pass


async def revoke(bench: Bench) -> None:
    """From the call until the leader is notified."""
    other = Election(await bench.client(), PATH, identity=IDENTITY)
    asked = Election(await bench.client(), PATH, identity=IDENTITY, on_revocation="ignore")
    async with asked.leadership() as term:
        async with anyio.create_task_group() as tasks:
            await bench.start()
            tasks.start_soon(other.revoke)
            await term.revocation_requested()
            await bench.stop()


ROWS = [
    *rows(
        "ReadWriteLock",
        {
            "read, nobody there": enter(used(lock, reading), reading),
            "read, beside a reader": beside(lock, reading, partial(enter, do=reading)),
            "write, nobody there": enter(used(lock, writing), writing),
            "downgrade": downgrade,
            "a writer leaves, three readers come in": hand_over(
                lock, writing, reading, waiting=3, entering=3
            ),
            "the last reader leaves, a writer comes in": last_reader_leaves,
        },
    ),
    *rows("ReentrantLock", {"enter and leave it again": enter_again}),
    *rows("Election", {"ask the leader to resign, until it is notified": revoke}),
]
