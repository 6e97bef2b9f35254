"""A condition in a world of faults.

* `buffer`: producers put into a buffer and notify one, consumers wait until something is in it.
  All of them are cancelled, lose their sessions, or are killed, at any moment.

These must hold, besides the invariants of everything that is held:

    signal-lost     in the end no signal is without its waiter while somebody waits without one
    buffer          what was put is taken, once
    left            no signal and no waiter is there when everybody has gone
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio

import aiolead
from aiolead._recipes.condition import ConditionSignals
from aiolead.errors import (
    ConnectFailed,
    ConnectionLossError,
    Fenced,
    NoNodeError,
    SessionError,
    TenureLost,
)
from aiolead.testing.simulation import Process, World
from tests.assurance.simulation.programs import alone, end_of_session, explored, start_each

CONDITION = "/condition"
BUFFER = "/buffer"


class Plan:
    """The state that all programs of a run share."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.closed = anyio.Event()
        self.busy = 0


Turns = Callable[[Plan, Process, aiolead.Client], Awaitable[None]]


@explored([*range(6), *range(1000, 1006)], [*range(6, 12), *range(1006, 1012)])
async def buffer(world: World) -> None:
    """Two or three consumers, one or two producers, and an auditor."""
    rng = world.rng("buffer")
    plan = Plan(world)
    for letter, counts, turns in (("c", (2, 3), consume), ("p", (1, 2), produce)):
        started = start_each(world, letter, rng.choice(counts), partial(contender, plan, turns))
        plan.busy += len(started)
    world.start("auditor", partial(auditor, plan))


async def contender(plan: Plan, turns: Turns, process: Process) -> None:
    await alone(plan.world, process, partial(turns, plan, process))
    plan.busy -= 1


async def state_of(
    client: aiolead.Client, held: aiolead.types.ConditionHeld
) -> tuple[int, int, bool]:
    """How many were put and taken, and whether there will be no more."""
    await held.verify()
    try:
        content, _ = await client.get(BUFFER)
    except NoNodeError:
        return 0, 0, False
    put, taken, closed = content.decode().split()
    return int(put), int(taken), closed == "closed"


async def write(
    client: aiolead.Client, held: aiolead.types.ConditionHeld, put: int, taken: int, closed: bool
) -> None:
    data = f"{put} {taken} {'closed' if closed else 'open'}".encode()
    if await client.exists(BUFFER) is None:
        await held.fenced().create(BUFFER, data)
    else:
        await held.fenced().set(BUFFER, data)


async def produce(plan: Plan, process: Process, client: aiolead.Client) -> None:
    world, rng = plan.world, process.rng
    condition = aiolead.Condition(client, CONDITION, identity=process.name)
    while not plan.closed.is_set():
        with (
            world.may_be_cancelled(process, CONDITION, process.name),
            suppress(TenureLost, ConnectionLossError, Fenced, aiolead.NodeExistsError),
        ):
            async with condition as held:
                put, taken, closed = await state_of(client, held)
                if closed:
                    return
                await write(client, held, put + 1, taken, closed)
                await held.notify()
        await end_of_session(client)
        if world.is_healed:
            return
        await anyio.sleep(rng.uniform(0.0, 0.4) * client.session_timeout)


async def consume(plan: Plan, process: Process, client: aiolead.Client) -> None:
    world, rng = plan.world, process.rng
    condition = aiolead.Condition(client, CONDITION, identity=process.name)
    while True:
        with (
            world.may_be_cancelled(process, CONDITION, process.name),
            suppress(TenureLost, ConnectionLossError, Fenced, aiolead.NodeExistsError),
        ):
            async with condition as held:
                while True:
                    put, taken, closed = await state_of(client, held)
                    if put > taken:
                        await anyio.sleep(0.1 * rng.random() * client.session_timeout)
                        await write(client, held, put, taken + 1, closed)
                    elif closed:
                        return
                    elif rng.random() < 0.1 and not world.is_healed:
                        await held.wait(timeout=rng.random() * client.session_timeout)
                    else:
                        await held.wait()
        await end_of_session(client)


# --- at the end ----------------------------------------------------------------------------------


async def auditor(plan: Plan, process: Process) -> None:
    world = plan.world
    await world.healed()
    await anyio.sleep(0.5 * world.schedule.session_timeout)
    while not plan.closed.is_set():
        with suppress(ConnectFailed, SessionError, TenureLost, ConnectionLossError, Fenced):
            async with world.client(process) as client:
                await audit(plan, client)
                await close(plan, process, client)
        await anyio.sleep(0.01)
    while True:
        if await nothing_left(plan, process):
            break
        await anyio.sleep(0.1 * world.schedule.session_timeout)


async def nothing_left(plan: Plan, process: Process) -> bool:
    """Whether all have left, with all their znodes. If that never comes, it is I9."""
    if plan.busy:
        return False
    with suppress(ConnectFailed, SessionError, ConnectionLossError):
        async with plan.world.client(process) as client:
            await client.sync()
            seen = await ConditionSignals(client, CONDITION).look()
            if seen.waiting:
                return False
            put, taken, _ = (await client.get(BUFFER))[0].decode().split()
            if put != taken:
                plan.world.violation("buffer", f"{put} were put, and {taken} taken")
            return True
    return False


async def audit(plan: Plan, client: aiolead.Client) -> None:
    """A signal whose waiter is gone does not stay so for longer than dead sessions may last."""
    world = plan.world
    deadline = world.now + world.bounds().progress
    while True:
        await client.sync()
        seen = await ConditionSignals(client, CONDITION).look()
        if not (seen.orphans and seen.unsignalled):
            return
        if world.now > deadline:
            plan.world.violation("signal-lost", f"signals wake nobody: {seen}")
            return
        await anyio.sleep(0.25 * client.session_timeout)


async def close(plan: Plan, process: Process, client: aiolead.Client) -> None:
    async with aiolead.Condition(client, CONDITION, identity=process.name) as held:
        put, taken, _ = await state_of(client, held)
        await write(client, held, put, taken, True)
        await held.notify_all()
        plan.closed.set()
