"""Values, counters, configurations and copies of trees through schedules of faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, explore
from aiolead.testing.simulation.run import load_scenario

SCENARIOS = Path(__file__).parent / "recipes" / "values.py"


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("name", ["count", "mirror", "named"])
def test_nothing_is_lost_and_nothing_goes_back(name: str, backend: Backend) -> None:
    scenario = load_scenario(f"{SCENARIOS}:{name}")
    tally = explore(scenario, range(8), backend=backend, on_outcome=lambda outcome: outcome.check())
    assert tally.total == 8
