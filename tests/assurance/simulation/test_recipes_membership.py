"""Groups and shared work in a world of faults: a dozen schedules on each event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, Outcome, explore
from aiolead.testing.simulation.run import load_scenario

pytestmark = pytest.mark.timeout(600)

SEEDS = 12
FILE = Path(__file__).parent / "recipes" / "membership.py"


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("name", ["group", "services", "partition"])
def test_no_schedule_violates_an_invariant(name: str, backend: Backend) -> None:
    outcomes: list[Outcome] = []
    # 1033 and 1058 have each found a bug.
    seeds = range(SEEDS) if backend == "trio" else (*range(1033, 1044), 1058)
    scenario = load_scenario(f"{FILE}:{name}")
    tally = explore(scenario, seeds, backend=backend, on_outcome=outcomes.append)
    for outcome in outcomes:
        outcome.check()
    assert tally.total == SEEDS
    assert sum(tally.faults.values()) > 3 * SEEDS, "faults were done"
