"""Holds that other threads, processes and writers read or interfere with: some schedules each.

The seeds are among those that found something when the scenarios were new.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, Outcome, explore
from aiolead.testing.simulation.run import load_scenario

pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent
SCENARIOS = [
    ("scenarios_one_znode.py:one_znode", range(14, 20)),
    ("scenarios_hostile.py:share_session", range(10, 24)),
    ("scenarios_hostile.py:close_shared", range(6)),
    ("scenarios_hostile.py:hostile", range(8)),
    ("scenarios_hostile.py:threads", range(8)),
]


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize(("scenario", "seeds"), SCENARIOS)
def test_no_schedule_violates_an_invariant(scenario: str, seeds: range, backend: Backend) -> None:
    outcomes: list[Outcome] = []
    tally = explore(
        load_scenario(f"{HERE / scenario}"), seeds, backend=backend, on_outcome=outcomes.append
    )
    for outcome in outcomes:
        outcome.check()
    assert tally.total == len(seeds)
    assert sum(tally.faults.values()) > len(seeds), "faults were done"
