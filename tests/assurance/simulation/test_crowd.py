"""Several contenders of each client in one line, who learn from each other, among faults."""

from __future__ import annotations

import pytest
from assurance.simulation.schedules import scenario

from aiolead.testing.simulation import Backend, Outcome, explore

pytestmark = pytest.mark.timeout(600)

SEEDS = 15


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_no_schedule_violates_an_invariant(backend: Backend) -> None:
    outcomes: list[Outcome] = []
    first = 0 if backend == "trio" else 1000
    seeds = range(first, first + SEEDS)
    tally = explore(scenario("crowd"), seeds, backend=backend, on_outcome=outcomes.append)
    for outcome in outcomes:
        outcome.check()
    assert tally.total == SEEDS
    assert sum(tally.faults.values()) > 3 * SEEDS, "faults were done"
