"""Many holds in one session, in a world of faults, and a slow process.

* `many`: two processes hold twelve locks each, all the time, and lose them together.

It takes a process `SLOW` seconds to cancel a body. So that this is told from how late servers end a
session, it is a thousand times what the client counts with, and the client is told so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import anyio

import aiolead
from aiolead._session.lease import lease_book
from aiolead.errors import ConnectFailed, ConnectionLossError, SessionError, TenureLost
from aiolead.testing.simulation import Process, Turn, World

LOCKS = 12
SLOW = 0.05

EXPECTED = (TenureLost, SessionError, ConnectionLossError, ConnectFailed)


@contextmanager
def slow() -> Iterator[None]:
    """Clients count with what a slow process needs."""
    usual, lease_book.LOSING = lease_book.LOSING, SLOW
    try:
        yield
    finally:
        lease_book.LOSING = usual


async def many(world: World) -> None:
    world.losing = SLOW
    world.harmless_to_holds = -1.0  # their leases are shorter than those of others
    for number in range(2):
        name = f"p{number}"
        world.start(name, partial(holder, world))


async def holder(world: World, process: Process) -> None:
    """Holds all of its locks, and again whenever they were lost, until nothing is broken."""
    while not world.is_healed:
        with suppress(*EXPECTED):
            async with world.client(process) as client, anyio.create_task_group() as tasks:
                for number in range(LOCKS):
                    path = f"/{process.name}/{number}"
                    tasks.start_soon(hold, world, process, client, path)
        await anyio.sleep(0.01)


async def hold(world: World, process: Process, client: aiolead.Client, path: str) -> None:
    lock = aiolead.Lock(client, path)
    while not world.is_healed:
        with suppress(*EXPECTED):
            name = f"{process.name}{path}"
            async with Turn(world.history, path, name, lock.acquire()):
                await world.healed()
        await anyio.sleep(0.01)
