"""Groups and shared work in a world of faults: some dozens of schedules on each event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, Outcome, explore
from aiolead.testing.simulation.run import load_scenario

pytestmark = pytest.mark.timeout(600)

FILE = Path(__file__).parent / "recipes" / "membership.py"


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("name", ["group", "services", "partition"])
def test_no_schedule_violates_an_invariant(name: str, backend: Backend) -> None:
    outcomes: list[Outcome] = []
    first = 0 if backend == "trio" else 1033  # that one has found a bug, and so has 1058
    scenario = load_scenario(f"{FILE}:{name}")
    tally = explore(scenario, range(first, first + 26), backend=backend, on_outcome=outcomes.append)
    for outcome in outcomes:
        outcome.check()
    assert tally.total == 26
    assert sum(tally.faults.values()) > 50, "faults were done"
