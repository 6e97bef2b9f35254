"""Schedules that are aimed at a bug: more of the faults that bring it out than a seed has alone.

They are within what the seeds of a soak mean, too: the kinds of faults, and the ensembles, are the
same. But a soak has all day.
"""

from __future__ import annotations

import random
from dataclasses import replace

from aiolead.testing.simulation.faults import KINDS, Fault, Target
from aiolead.testing.simulation.schedule import Schedule

from .model import Aim

PARTS = {
    Target.NONE: ("",),
    Target.PROCESS: ("holder", "holder", "waiter", "p0", "p1", "all"),
    Target.SERVER: ("of-holder", "of-holder", "of-holder", "of-waiter", "leader"),
    Target.LINE: ("holder", "waiter", "waiter", "p0"),
}
"""Whom the added faults are done to."""


def aimed(seed: int, aim: Aim) -> Schedule:
    """The schedule of a seed, with faults added; every other time they take the place of its own.

    Args:
        seed: the seed.
        aim: the faults to add; without any, the schedule is that of the seed.
    """
    schedule = Schedule.of(seed)
    if not aim.faults:
        return schedule
    rng = schedule.rng("aimed")
    timeout = schedule.session_timeout
    if aim.tick:
        schedule = replace(schedule, tick=aim.tick * timeout)
    if aim.sync_limit:
        schedule = replace(schedule, sync_limit=aim.sync_limit)
    if aim.grace_period is not None:
        schedule = replace(schedule, grace_period=aim.grace_period * timeout)
    found = list(schedule.faults) if rng.random() < 0.5 else []
    number = max((fault.number for fault in found), default=-1)
    for _ in range(aim.groups):
        start = rng.uniform(
            0.1 * timeout, max(0.2 * timeout, schedule.healing - aim.least * timeout)
        )
        on = rng.choice(("", "", "entered", "left"))
        for kinds in aim.faults:
            number += 1
            at = start + rng.uniform(0.0, aim.spread) * timeout
            found.append(_draw(rng, number, rng.choice(kinds), at, on, schedule, aim))
    return replace(schedule, faults=tuple(found))


def _draw(
    rng: random.Random, number: int, name: str, start: float, on: str, schedule: Schedule, aim: Aim
) -> Fault:
    target = KINDS[name].target
    start = min(start, schedule.healing - 0.05)
    duration = schedule.session_timeout * rng.uniform(aim.least, aim.least + 0.6)
    return Fault(
        number=number,
        kind=name,
        start=round(start, 6),
        duration=round(min(duration, schedule.healing - start), 6),
        target=_part(aim.target, target) or rng.choice(PARTS[target]),
        on=on if target is not Target.NONE and aim.waits else "",
        amount=round(rng.random(), 6),
    )


def _part(who: str, target: Target) -> str:
    if not who or target is Target.NONE:
        return ""
    return f"of-{who}" if target is Target.SERVER else who
