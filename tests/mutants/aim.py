"""Schedules that are aimed at a bug: more of the faults that bring it out than a seed has alone.

They are within what the seeds of a soak mean, too: the kinds of faults are the same. But a soak has
all day.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from aiolead.testing.simulation.faults import KINDS, Fault, Target
from aiolead.testing.simulation.schedule import Schedule

MORE = 3
"""How many faults are added."""

PARTS = {
    Target.NONE: ("",),
    Target.PROCESS: ("holder", "holder", "waiter", "p0", "p1", "all"),
    Target.SERVER: ("of-holder", "of-holder", "of-holder", "of-waiter", "leader"),
    Target.LINE: ("holder", "waiter", "waiter", "p0"),
}
"""Whom the added faults are done to."""


def aimed(seed: int, kinds: Sequence[str], least: float) -> Schedule:
    """What a seed means, with faults of these kinds added; every other time they replace its own.

    Args:
        seed: the seed.
        kinds: of faults; none for what the seed means by itself.
        least: how long they last at least, in session timeouts.
    """
    schedule = Schedule.of(seed)
    if not kinds:
        return schedule
    rng = schedule.rng("aimed")
    own = schedule.faults if rng.random() < 0.5 else ()
    last = max((fault.number for fault in own), default=-1)
    more = [_draw(rng, last + 1 + n, schedule, kinds, least) for n in range(MORE)]
    return replace(schedule, faults=(*own, *more))


def _draw(
    rng: random.Random, number: int, schedule: Schedule, kinds: Sequence[str], least: float
) -> Fault:
    kind = KINDS[rng.choice(kinds)]
    timeout, healing = schedule.session_timeout, schedule.healing
    duration = timeout * rng.uniform(max(least, 0.01), max(least, 0.01) + 0.8)
    start = rng.uniform(0.2, max(0.3, healing - 0.8 * duration))
    return Fault(
        number=number,
        kind=kind.name,
        start=round(start, 6),
        duration=round(min(duration, healing - start), 6),
        target=rng.choice(PARTS[kind.target]),
        on=rng.choice(("", "", "entered", "joined")) if kind.target is not Target.NONE else "",
        amount=round(rng.random(), 6),
    )
