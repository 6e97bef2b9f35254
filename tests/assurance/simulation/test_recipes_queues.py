"""Queues and task boards in a world of faults: some schedules on each event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, Outcome, explore
from aiolead.testing.simulation.run import load_scenario

# A block takes some seconds; on a machine that is busy with other things, a minute or two.
pytestmark = pytest.mark.timeout(600)

RECIPES = Path(__file__).parent / "recipes"
SEEDS = 12

ALWAYS = (
    "handed over while something was broken",
    "link lost while holding",
    "reconnected in the session while holding",
)
"""Situations that even a few schedules have to reach, or they prove little."""


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize(
    "scenario", ["queues.py:consume", "queues.py:below", "queues.py:turns", "board.py:work"]
)
def test_no_schedule_violates_an_invariant(scenario: str, backend: Backend) -> None:
    outcomes: list[Outcome] = []
    first = 3000 if backend == "trio" else 1000
    tally = explore(
        load_scenario(f"{RECIPES}/{scenario}"),
        range(first, first + SEEDS),
        backend=backend,
        on_outcome=outcomes.append,
    )
    for outcome in outcomes:
        outcome.check()
    assert tally.total == SEEDS
    assert [situation for situation in ALWAYS if not tally.seen[situation]] == []
    assert sum(sum(outcome.done.values()) for outcome in outcomes) > 50
    assert all(margin > 0.0 for margin in tally.margins)
