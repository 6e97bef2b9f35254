"""Semaphores and exclusive locks in a world of faults.

* `permits`: processes take one or more permits of a semaphore whose limit stays.
* `kazoos`: the same in the layout of kazoo, where permits count by another rule.
* `limits`: the same, while somebody changes the limit.
* `exclusive`: processes contend for a lock that is one znode.

These must hold, besides the invariants of everything that is held (a semaphore is a line with as
many places as it has permits):

    limit    permits are granted within a limit that was in force while they were asked for
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import (
    AcquireTimeout,
    ConnectFailed,
    ConnectionLossError,
    SessionError,
    TenureLost,
    UsageError,
)
from aiolead.testing.simulation import Process, Turn, World
from tests.assurance.simulation.programs import (
    alone,
    end_of_session,
    explored,
    length_of,
    start_each,
    using_the_grace_period,
    way_in,
)

SEMAPHORE = "/licences"
EXCLUSIVE = "/exclusive/lock"

PERMITS, LOCKED = f"{SEMAPHORE}/leases", "/exclusive"
"""The lines, as the invariants know them: the paths of the znodes of holders."""


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    limit: int
    once: Callable[[Plan, Process, aiolead.Client, str], Awaitable[bool]]
    layout: aiolead.types.Layout = aiolead.types.Layout.CURATOR
    line: str = PERMITS
    limits: list[tuple[float, float, int]] = field(default_factory=list)
    """Which limits were in force: from when, until when at the latest, and how many."""
    holding: dict[str, tuple[aiolead.types.Tenure, int]] = field(default_factory=dict)
    """The contenders whose bodies run, with their holds and numbers of permits."""


@explored()
async def permits(world: World) -> None:
    """Three or four processes share two to four permits."""
    rng = world.rng("permits")
    start(Plan(world, rng.choice((2, 3, 4)), one_of_fixed), rng)


@explored()
async def kazoos(world: World) -> None:
    """The same, in the layout of kazoo."""
    rng = world.rng("permits")
    limit = rng.choice((1, 2, 3, 4))
    start(Plan(world, limit, one_of_fixed, layout=aiolead.types.Layout.KAZOO, line=SEMAPHORE), rng)


def start(plan: Plan, rng: random.Random) -> None:
    world = plan.world
    world.places[plan.line] = plan.limit
    start_each(world, "p", rng.choice((3, 4)), partial(contender, plan))


@explored()
async def limits(world: World) -> None:
    """Three processes, and somebody who changes the limit."""
    rng = world.rng("limits")
    plan = Plan(world, rng.choice((2, 3)), one_of_changing)
    plan.limits.append((0.0, float("inf"), plan.limit))
    start_each(world, "p", 3, partial(contender, plan))
    world.start("operator", partial(operator, plan))


@explored()
async def exclusive(world: World) -> None:
    """Three or four processes contend for one znode."""
    plan = Plan(world, 1, one_exclusive)
    start_each(world, "p", world.rng("exclusive").choice((3, 4)), partial(contender, plan))


# --- contending ----------------------------------------------------------------------------------


async def contender(plan: Plan, process: Process) -> None:
    """Takes turns over any number of clients; after the healing one more."""
    await alone(plan.world, process, partial(take_turns, plan, process))


async def take_turns(plan: Plan, process: Process, client: aiolead.Client) -> None:
    world, rng, who = plan.world, process.rng, process.name
    line = LOCKED if plan.once is one_exclusive else plan.line
    while True:
        was_healed = world.is_healed
        held = False
        with (
            world.may_be_cancelled(process, line, who),
            suppress(AcquireTimeout, TenureLost, ConnectionLossError, UsageError),
        ):
            held = await plan.once(plan, process, client, who)
        if was_healed and held:
            return
        if not world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.25) * client.session_timeout)
        else:
            await end_of_session(client)


async def one_of_fixed(plan: Plan, process: Process, client: aiolead.Client, who: str) -> bool:
    """A turn with some permits, told to the history."""
    world, rng = plan.world, process.rng
    semaphore = aiolead.Semaphore(
        client, SEMAPHORE, plan.limit, identity=who, layout=plan.layout, follow_limit=True
    )
    many = min(rng.choice((1, 1, 1, 2, plan.limit)), plan.limit)
    # When all has healed, everybody is to be served: nobody gives up.
    weights = (3, 0, 0, 0) if world.is_healed else (3, 0, 1, 1)
    context, wait = way_in(rng, semaphore, client.session_timeout, weights, permits=many)
    turn = Turn(world.history, plan.line, who, context, timeout=wait, permits=many)
    async with turn as held:
        if held is None:
            return False
        await body(plan, process, held)
    return True


async def one_exclusive(plan: Plan, process: Process, client: aiolead.Client, who: str) -> bool:
    world, rng = plan.world, process.rng
    lock = aiolead.ExclusiveLock(client, EXCLUSIVE, identity=rng.choice((who, "the same")))
    weights = (3, 0, 0, 0) if world.is_healed else (3, 0, 1, 2)
    context, wait = way_in(rng, lock, client.session_timeout, weights)
    async with Turn(world.history, LOCKED, who, context, timeout=wait) as held:
        if held is None:
            return False
        await body(plan, process, held)
    return True


async def body(plan: Plan, process: Process, held: aiolead.types.Tenure) -> None:
    world, rng = plan.world, process.rng
    length = rng.uniform(0.0, 0.02)
    if not world.is_healed:
        spans = ((0.0, 0.02), (0.02, 0.3), (0.3, 1.5))
        length = length_of(rng, spans) * held._client.session_timeout
    async with using_the_grace_period(world, rng):
        if rng.random() < 0.1:
            await held.verify()
        await anyio.sleep(length)
        held.check()


# --- a limit that changes ------------------------------------------------------------------------


async def one_of_changing(plan: Plan, process: Process, client: aiolead.Client, who: str) -> bool:
    """A turn that looks at how many hold as it begins."""
    world, rng = plan.world, process.rng
    semaphore = aiolead.Semaphore(client, SEMAPHORE, plan.limit, identity=who, follow_limit=True)
    many = rng.choice((1, 1, 2))
    began = world.now
    async with semaphore.acquire(permits=many) as held:
        plan.holding[who] = held, many
        try:
            look_at_limit(plan, who, began)
            await body(plan, process, held)
        finally:
            plan.holding.pop(who, None)
    return True


def look_at_limit(plan: Plan, who: str, began: float) -> None:
    """How many hold, by their own clocks and with their znodes, and how many might have."""
    world = plan.world
    there = set(world.witness.below(PERMITS))
    taken = {
        name: many
        for name, (held, many) in plan.holding.items()
        if world.is_alive(name) and held.path in there and (name == who or held.is_held)
    }
    most = max(limit for _, until, limit in plan.limits if until >= began)
    if sum(taken.values()) > most:
        world.violation("limit", f"{taken} hold as {who} enters, and the limit is {most}")


async def operator(plan: Plan, process: Process) -> None:
    """Changes the limit, until all has healed; then it is what it was."""
    world, rng = plan.world, process.rng
    while True:
        was_healed = world.is_healed
        limit = plan.limit if was_healed else rng.randint(1, 4)
        with suppress(ConnectFailed, SessionError, ConnectionLossError):
            async with world.client(process) as client:
                number = len(plan.limits)
                plan.limits.append((world.now, float("inf"), limit))
                await aiolead.Semaphore(client, SEMAPHORE, plan.limit).set_limit(limit)
                # From here on it is the only one; the limits before it have ended.
                plan.limits[:number] = [
                    (since, min(until, world.now), before)
                    for since, until, before in plan.limits[:number]
                ]
                if was_healed:
                    return
        await anyio.sleep(rng.uniform(0.0, 1.0) * world.schedule.session_timeout)
