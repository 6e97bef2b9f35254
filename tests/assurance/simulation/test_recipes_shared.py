"""Exclusive locks, semaphores and barriers in a world of faults: some schedules each."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, Outcome, explore
from aiolead.testing.simulation.run import load_scenario

pytestmark = pytest.mark.timeout(600)

SEEDS = 8
FOLDER = Path(__file__).parent / "recipes"
SCENARIOS = ["permits:permits", "permits:kazoos", "permits:limits", "permits:exclusive"]
SCENARIOS += ["barriers:gate", "barriers:rounds", "barriers:hurry"]


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_schedule_violates_an_invariant(name: str, backend: Backend) -> None:
    outcomes: list[Outcome] = []
    first = 0 if backend == "trio" else 1000
    file, _, function = name.partition(":")
    scenario = load_scenario(f"{FOLDER / file}.py:{function}")
    tally = explore(
        scenario, range(first, first + SEEDS), backend=backend, on_outcome=outcomes.append
    )
    for outcome in outcomes:
        outcome.check()
    assert tally.total == SEEDS
    assert sum(tally.faults.values()) > 3 * SEEDS, "faults were done"
