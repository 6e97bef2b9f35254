"""What a `ReadWriteLock`, a `ReentrantLock` and asking somebody to let go cost."""

from __future__ import annotations

import anyio

from aiolead import Client, Election, ReadWriteLock, ReentrantLock
from costs._counting import IDENTITY, PATH, Bench, Operation


def lock(client: Client) -> ReadWriteLock:
    return ReadWriteLock(client, PATH, identity=IDENTITY)


async def read(bench: Bench) -> None:
    one = lock(await bench.client())
    async with one.read:
        pass
    await bench.start()
    async with one.read:
        await bench.stop()


async def read_beside_a_reader(bench: Bench) -> None:
    async with lock(await bench.client()).read:
        await bench.settle()
        other = lock(await bench.client())
        await bench.start()
        async with other.read:
            await bench.stop()


async def write(bench: Bench) -> None:
    one = lock(await bench.client())
    async with one.write:
        pass
    await bench.start()
    async with one.write:
        await bench.stop()


async def downgrade(bench: Bench) -> None:
    async with lock(await bench.client()).write as held:
        async with bench.measured():
            await held.downgrade()


async def a_writer_leaves(bench: Bench) -> None:
    """Three readers wait for it: all come in."""
    readers = [lock(await bench.client()) for _ in range(3)]
    inside = 0

    async def hold(one: ReadWriteLock) -> None:
        nonlocal inside
        async with one.read:
            inside += 1
            if inside == len(readers):
                await bench.stop()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        async with lock(await bench.client()).write:
            for reader in readers:
                tasks.start_soon(hold, reader)
                await bench.settle()
            await bench.start()
        await bench.over()
        tasks.cancel_scope.cancel()


async def a_reader_leaves(bench: Bench) -> None:
    """The last of three, for which a writer waits."""
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
    async with one:
        async with bench.measured():
            async with one:
                pass


async def ask_for_it(bench: Bench) -> None:
    """From the call to the leader's knowing."""
    other = Election(await bench.client(), PATH, identity=IDENTITY)
    async with Election(await bench.client(), PATH, identity=IDENTITY).leadership() as term:
        async with anyio.create_task_group() as tasks:
            await bench.start()
            tasks.start_soon(other.revoke)
            await term.revocation_requested()
            await bench.stop()


ROWS = [
    Operation("ReadWriteLock", "read, nobody there", read),
    Operation("ReadWriteLock", "read, beside a reader", read_beside_a_reader),
    Operation("ReadWriteLock", "write, nobody there", write),
    Operation("ReadWriteLock", "downgrade", downgrade),
    Operation("ReadWriteLock", "a writer leaves, three readers come in", a_writer_leaves),
    Operation("ReadWriteLock", "the last reader leaves, a writer comes in", a_reader_leaves),
    Operation("ReentrantLock", "enter and leave it again", enter_again),
    Operation("Election", "ask the leader to resign, until it is notified", ask_for_it),
]
