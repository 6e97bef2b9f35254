"""What a `Lock` costs."""

from __future__ import annotations

import anyio

from aiolead import Client, Lock
from costs._counting import IDENTITY, PATH, Bench, Operation


def lock(client: Client) -> Lock:
    return Lock(client, PATH, identity=IDENTITY)


async def first(bench: Bench) -> None:
    one = lock(await bench.client())
    await bench.start()
    async with one:
        await bench.stop()


async def alone(bench: Bench) -> None:
    one = lock(await bench.client())
    async with one:
        pass
    await bench.start()
    async with one:
        await bench.stop()


async def release(bench: Bench) -> None:
    async with lock(await bench.client()):
        await bench.start()
    await bench.stop()


async def on_an_idle_session(bench: Bench) -> None:
    client = await bench.client()
    one = lock(client)
    async with one:
        pass
    while client.backend.lease.remaining():
        bench.clock.advance(client.session_timeout / 4)
        await client.exists("/")
    await bench.start()
    async with one:
        await bench.stop()


async def refused(bench: Bench) -> None:
    async with lock(await bench.client()):
        other = lock(await bench.client())
        async with bench.measured():
            async with other.try_acquire() as held:
                assert held is None


async def join(bench: Bench) -> None:
    """As the third: the second knows whom to watch without a listing."""
    others = [lock(await bench.client()) for _ in range(3)]
    async with others[0], anyio.create_task_group() as tasks:
        for other in others[1:]:
            if other is others[-1]:
                await bench.start()
            tasks.start_soon(_hold, other)
            await anyio.lowlevel.checkpoint()
            if other is not others[-1]:
                await bench.settle()
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def hand_over(bench: Bench) -> None:
    """From the release to the body of the next, with a third behind."""
    first, *others = [lock(await bench.client()) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        async with first:
            for other in others:
                tasks.start_soon(_hold, other, bench if other is others[0] else None)
                await bench.settle()
            await bench.start()
        # The next one stops it.
        await bench.over()
        tasks.cancel_scope.cancel()


async def _hold(one: Lock, bench: Bench | None = None) -> None:
    async with one:
        if bench is not None:
            await bench.stop()
        await anyio.sleep_forever()


ROWS = [
    Operation("Lock", "acquire, its path is missing", first),
    Operation("Lock", "acquire", alone),
    Operation("Lock", "acquire, after a long idle time of the session", on_an_idle_session),
    Operation("Lock", "release", release),
    Operation("Lock", "try, held by another", refused),
    Operation("Lock", "wait in the queue, behind two", join),
    Operation("Lock", "hand-over to the next, a third behind it", hand_over),
]
