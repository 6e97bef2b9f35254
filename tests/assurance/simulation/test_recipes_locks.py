"""Readers and writers, and conditions, in schedules of faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, Outcome, explore
from aiolead.testing.simulation.run import load_scenario

# A block takes some seconds; on a machine that is busy with other things, a minute or two.
pytestmark = pytest.mark.timeout(600)

RECIPES = Path(__file__).parent / "recipes"
SEEDS = 6


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("first", [0, 1000])
@pytest.mark.parametrize("scenario", ["sharing.py:share", "conditions.py:buffer"])
def test_no_schedule_violates_an_invariant(scenario: str, first: int, backend: Backend) -> None:
    failed: list[Outcome] = []

    def look(outcome: Outcome) -> None:
        if outcome.violations:
            failed.append(outcome)

    first += SEEDS * (backend == "trio")
    tally = explore(
        load_scenario(f"{RECIPES / scenario}"),
        range(first, first + SEEDS),
        backend=backend,
        on_outcome=look,
    )
    assert tally.total == SEEDS
    for outcome in failed:
        outcome.check()
