"""Calls under one rate limit, in a world of faults.

`spend`: processes make calls under one limit, one at a time or in crowds; each may be cancelled,
killed, stopped, or lose the answers to its writes. The servers' clocks differ by hours.

These must hold, besides the invariants of every program (a line for each name):

    rate-exceeded   in any window of `t` seconds, all processes together were allowed at most
                    `burst + rate * (t + max_age) / per` calls
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead import RateLimit
from aiolead.errors import AcquireTimeout, ConnectionLossError
from aiolead.testing.simulation import Process, World
from tests.assurance.simulation.programs import end_of_session, explored, insist, start_each

LIMIT = "/limit"

DRIFT = 0.001
"""How much faster than real time any clock runs, at most."""


def most_beyond(calls: Iterable[tuple[float, int]], speed: float) -> float:
    """The most calls of any window, less what comes in it at `speed` calls per second.

    `calls` has the time of some calls and their number, in order of time.
    """
    most, before, least = 0.0, 0, float("inf")
    for at, n in calls:
        least = min(least, before - at * speed)
        before += n
        most = max(most, before - at * speed - least)
    return most


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    rate: float
    per: float
    burst: int
    max_age: float
    calls: list[tuple[float, int]] = field(default_factory=list)

    def made(self, n: int) -> None:
        self.calls.append((self.world.now, n))
        speed = self.rate / self.per * (1 + 2 * DRIFT)
        beyond = most_beyond(self.calls, speed)
        if beyond > self.burst + speed * self.max_age + 1e-6:
            self.world.violation(
                "rate-exceeded",
                f"{beyond:g} calls beyond {speed:g} in a second; burst {self.burst}, "
                f"max_age {self.max_age:g}",
            )


@explored(range(8), range(8))
async def spend(world: World) -> None:
    """Three or four processes under one limit, whose servers have clocks of their own."""
    rng = world.rng("rates")
    rate, burst = rng.choice(((5.0, 1), (5.0, 20), (50.0, 20), (50.0, 100)))
    plan = Plan(world, rate, rng.choice((1.0, 0.5)), burst, rng.choice((0.2, 0.2, 1.0)))
    for server in world.ensemble.servers:
        skew = rng.randrange(-5, 6) * 3_600_000
        server.time_ms = partial(_skewed, server.time_ms, skew)  # type: ignore[method-assign]
    start_each(world, "p", rng.choice((3, 4)), partial(spender, plan))


def _skewed(time_ms: Callable[[], int], skew: int) -> int:
    return time_ms() + skew


async def spender(plan: Plan, process: Process) -> None:
    """Makes calls, alone and in crowds of tasks, again and again; once more after the healing."""
    world, rng = plan.world, process.rng

    async def work(client: aiolead.Client) -> bool:
        limit = RateLimit(
            client,
            LIMIT,
            rate=plan.rate,
            per=plan.per,
            burst=plan.burst,
            max_age=plan.max_age,
            rng=rng,
        )
        while True:
            was_healed = world.is_healed
            # A crowd that is cancelled leaves its tokens to the next one.
            crowd = 1 if was_healed else rng.choice((1, 1, 5, plan.burst))
            timeout = rng.choice((None, None, 0.05)) if not was_healed else None
            with (
                world.may_be_cancelled(process, LIMIT, process.name),
                anyio.move_on_after(timeout) as in_time,
            ):
                async with anyio.create_task_group() as tasks:
                    for _ in range(crowd):
                        tasks.start_soon(call, plan, limit, process, was_healed)
                if was_healed and not in_time.cancelled_caught:
                    return True
            await end_of_session(client)
            await anyio.sleep(rng.choice((0.0, 0.0, 0.5, 3.0)) * rng.random())

    await insist(world, process, work)


async def call(plan: Plan, limit: RateLimit, process: Process, is_last: bool) -> None:
    rng = process.rng
    n = rng.choice((1, 1, min(2, plan.burst)))
    way = "acquire" if is_last else rng.choice(("acquire", "timeout", "try"))
    with suppress(AcquireTimeout, ConnectionLossError):
        if way == "try":
            if not await limit.try_acquire(n):
                return
        else:
            await limit.acquire(n, timeout=rng.uniform(0.0, 2.0) if way == "timeout" else None)
        plan.made(n)
