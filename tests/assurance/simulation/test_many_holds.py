"""Many holds of one session that are lost together: each body has time to stop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from assurance.simulation.many_holds import LOCKS, many, slow

from aiolead.testing.history import SteppedDown
from aiolead.testing.simulation import Backend, Fault, Schedule, simulate

# A server takes its sessions' last words with it, while their holders hear nothing more.
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
def test_each_has_time_to_stop(backend: Backend) -> None:
    lost = 0
    for seed in SEEDS:
        with slow():
            outcome = simulate(many, schedule=schedule(seed), backend=backend)
        outcome.check()
        steps = [event for event in outcome.history.events if isinstance(event, SteppedDown)]
        lost += len(steps)
    assert lost >= len(SEEDS) * LOCKS, "they were lost"
