"""Many holds of one session that are lost together: each body has time to stop.

A process takes `SLOW` seconds to cancel a body. That is a thousand times the usual value, so that
the delay of servers that end a session does not hide it. The client knows the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import anyio
import pytest

import aiolead
from aiolead._session import lease
from aiolead.errors import ConnectFailed, ConnectionLossError, SessionError, TenureLost
from aiolead.testing.history import SteppedDown
from aiolead.testing.simulation import (
    Backend,
    Fault,
    Process,
    Schedule,
    Turn,
    World,
    simulate,
)

LOCKS = 12
SLOW = 0.05

EXPECTED = (TenureLost, SessionError, ConnectionLossError, ConnectFailed)


@contextmanager
def slow() -> Iterator[None]:
    """Clients count with what a slow process needs."""
    usual, lease.LOSING = lease.LOSING, SLOW
    try:
        yield
    finally:
        lease.LOSING = usual


async def many(world: World) -> None:
    """Two processes hold twelve locks each, all the time, and lose them together."""
    world.losing = SLOW
    world.harmless_to_holds = -1.0  # their leases are shorter than usual
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


# A server is isolated with the last touches of its sessions, and their holders receive nothing.
SEEDS = range(8)


def schedule(seed: int) -> Schedule:
    usual = Schedule.of(seed)
    start, long = 2.5 + 0.17 * seed, 6.0
    return replace(
        usual,
        session_timeout=4.0,
        tick=0.5,
        tells_tick=True,
        sync_limit=8,
        grace_period=0.4,
        latency=0.001,
        healing=start + long + 2.0,
        faults=(
            Fault(number=0, kind="isolated", start=start, duration=long, target="of-holder"),
            Fault(number=1, kind="link-silent-up", start=start, duration=long, target="p0"),
            Fault(number=2, kind="link-silent-up", start=start, duration=long, target="p1"),
        ),
    )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_body_has_time_to_stop(backend: Backend) -> None:
    lost = 0
    for seed in SEEDS:
        with slow():
            outcome = simulate(many, schedule=schedule(seed), backend=backend)
        outcome.check()
        steps = [event for event in outcome.history.events if isinstance(event, SteppedDown)]
        lost += len(steps)
    assert lost >= len(SEEDS) * LOCKS, "they were lost"
