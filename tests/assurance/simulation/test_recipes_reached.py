"""Recipes in a world of faults, with the rare situations that a few schedules have to reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.simulation import Backend, Outcome, explore
from aiolead.testing.simulation.run import load_scenario

pytestmark = pytest.mark.timeout(600)

RECIPES = Path(__file__).parent / "recipes"
SEEDS = 12

REACHED = {
    "reentrant.py:reenter": (
        "entered again while the link was lost",
        "lost at several levels at once",
        "refused to enter again after a loss",
        "an inner block was cancelled, and the outer one went on",
    ),
    "multi.py:together": (
        "began anew, since one of several was lost before all were held",
        "ran out of time with some of several",
        "lost one of several, and had the others",
    ),
    "queues.py:delay": (
        "handed out as it came due, to somebody who was waiting",
        "an item was due before one that was put earlier",
        "given back, and handed out again",
    ),
    "kept.py:keep": (
        "left while its znode was being made anew",
        "made anew after somebody had deleted it",
        "made anew in another session",
        "waited for the end of somebody else's znode",
    ),
}
"""By the scenario: without these it proves little."""


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("name", REACHED)
def test_no_schedule_violates_an_invariant(name: str, backend: Backend) -> None:
    outcomes: list[Outcome] = []
    first = 0 if backend == "trio" else 1000
    tally = explore(
        load_scenario(f"{RECIPES}/{name}"),
        range(first, first + SEEDS),
        backend=backend,
        on_outcome=outcomes.append,
    )
    for outcome in outcomes:
        outcome.check()
    assert tally.total == SEEDS
    assert sum(tally.faults.values()) > 50, "faults were done"
    assert [situation for situation in REACHED[name] if not tally.seen[situation]] == []
