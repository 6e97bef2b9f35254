"""The costs of a `Lock`."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from kit.clients import stopped_clock

from aiolead import Client, Lock
from costs._acts import enter, hand_over, leave, new, refused, used, wait
from costs._counting import IDENTITY, PATH, Bench, rows

HOLD = Lock.acquire


def lock(client: Client) -> Lock:
    return Lock(client, PATH, identity=IDENTITY)


acquire_again = enter(used(lock, HOLD), HOLD)


async def idle(bench: Bench, client: Client) -> None:
    """Two session timeouts without a write. The reads stand for pings."""
    for _ in range(8):
        bench.clock.advance(client.session_timeout / 4)
        await client.exists("/")
    assert client.backend.lease.remaining() == 0


async def after_idle(bench: Bench, *, and_idle: bool) -> Lock:
    """A lock that was used once after a long idle time."""
    client = await bench.client()
    one = lock(client)
    async with one:
        pass
    await idle(bench, client)
    async with one:
        assert client.backend.lease.remaining() >= client.session_timeout / 8
    if and_idle:
        await idle(bench, client)
    return one


async def idle_once(bench: Bench) -> Lock:
    client = await bench.client()
    one = lock(client)
    async with one:
        pass
    await idle(bench, client)
    return one


async def another_object(bench: Bench) -> Lock:
    client = await bench.client()
    async with lock(client):
        pass
    return lock(client)


async def fifty_uses(bench: Bench) -> None:
    """Each use proves the session for the next one."""
    one = await used(lock, HOLD)(bench)
    async with bench.measured():
        for _ in range(50):
            bench.clock.advance(6)
            async with one:
                pass


# --- queues --------------------------------------------------------------------------------------


async def join(bench: Bench, tasks: TaskGroup) -> anyio.CancelScope:
    """A new client waits for the lock; it stops the measurement when it enters."""
    one, scope = lock(await bench.client()), anyio.CancelScope()

    async def hold() -> None:
        with scope:
            async with one:
                if bench.is_measuring:
                    await bench.stop()
                await anyio.sleep_forever()

    tasks.start_soon(hold)
    await bench.settle()
    return scope


async def give_up(bench: Bench) -> None:
    async with lock(await bench.client()), anyio.create_task_group() as tasks:
        waiting = [await join(bench, tasks) for _ in range(5)]
        await bench.start()
        waiting[0].cancel()
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def hand_over_after_giving_up(bench: Bench) -> None:
    async with anyio.create_task_group() as tasks:
        async with lock(await bench.client()):
            waiting = [await join(bench, tasks) for _ in range(5)]
            waiting[0].cancel()
            await bench.start()
        await bench.over()
        tasks.cancel_scope.cancel()


async def hand_over_to_an_idle_session(bench: Bench, turns: int = 1) -> None:
    """The last of some turns of a client that was idle for a long time before the first one."""
    one, other = await bench.client(stopped_clock), await bench.client()

    async def turn() -> None:
        async with lock(other):
            if bench.is_measuring:
                await bench.stop()

    for number in range(turns):
        await bench.settle()
        async with anyio.create_task_group() as tasks, lock(one):
            tasks.start_soon(turn)
            await bench.settle()
            if number == 0:
                await idle(bench, other)
            if number == turns - 1:
                await bench.start()


async def of_one_client(bench: Bench, *, turns: bool) -> None:
    """200 contenders of one client: how they join, or how they hold one after the other."""
    client, leave = await bench.client(), anyio.Event()
    await client.ensure_path(PATH)

    async def hold() -> None:
        async with lock(client):
            await leave.wait()

    async with anyio.create_task_group() as tasks:
        if not turns:
            await bench.start()
        for _ in range(200):
            tasks.start_soon(hold)
        if turns:
            await bench.settle()
            await bench.start()
        else:
            await anyio.lowlevel.checkpoint()
            await bench.quiet()
            await bench.stop()
        leave.set()
    if turns:
        await bench.stop()


ROWS = rows(
    "Lock",
    {
        "acquire, its path is missing": enter(new(lock), HOLD),
        "acquire": acquire_again,
        "acquire, with another object": enter(another_object, HOLD),
        "acquire, after a long idle time of the session": enter(idle_once, HOLD),
        "acquire, soon after that": enter(partial(after_idle, and_idle=False), HOLD),
        "acquire, after another long idle time": enter(partial(after_idle, and_idle=True), HOLD),
        "acquire and release 50 times, in five session timeouts": fifty_uses,
        "release": leave(new(lock), HOLD),
        "try, held by another": refused(lock, HOLD),
        "try again, held by another": refused(lock, HOLD, tries=2),
        "wait in the queue, behind two": wait(lock, HOLD, ahead=2),
        "wait in the queue, behind 48": wait(lock, HOLD, ahead=48),
        "hand-over to the last in the queue": hand_over(lock, HOLD, waiting=1),
        "hand-over to the next, a third behind it": hand_over(lock, HOLD),
        "hand-over to the next, 48 behind it": hand_over(lock, HOLD, waiting=49),
        "a waiter gives up, four behind it": give_up,
        "hand-over to the one behind it": hand_over_after_giving_up,
        "hand-over to a contender that was idle for long": hand_over_to_an_idle_session,
        "hand-over to it once more": partial(hand_over_to_an_idle_session, turns=2),
        "200 contenders of one client join": partial(of_one_client, turns=False),
        "they hold one after the other": partial(of_one_client, turns=True),
    },
)
