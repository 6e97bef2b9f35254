"""Some schedules of faults of every `explored` scenario, on each event loop, with all invariants.

`make soak` runs as many as there is time for. `test_schedules.py` has more of `contend` and
`lockset`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from assurance.simulation.schedules import HERE, registered, scenario

from aiolead.testing.simulation import Backend, Outcome, explore, simulate

# A few schedules take some seconds; on a machine that is busy with other things, a minute or two.
pytestmark = pytest.mark.timeout(600)

SCHEDULES = registered()


def test_every_file_of_a_recipe_has_an_explored_scenario() -> None:
    files = {file.name for file in HERE.glob("recipes/*.py")}
    assert files == {Path(name.partition(":")[0]).name for name in SCHEDULES if "/" in name}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_no_schedule_violates_an_invariant(name: str, backend: Backend) -> None:
    row = SCHEDULES[name]
    outcomes: list[Outcome] = []
    seeds = row.asyncio if backend == "asyncio" else row.trio
    tally = explore(scenario(name), seeds, backend=backend, on_outcome=outcomes.append)
    for outcome in outcomes:
        outcome.check()
    assert tally.total == len(seeds)
    assert sum(tally.faults.values()) > row.faults * len(seeds), "faults were done"
    assert [situation for situation in row.reached if not tally.seen[situation]] == []
    assert all(margin > 0.0 for margin in tally.margins)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_named_successor_leads_next_if_nothing_disturbs_it(backend: Backend) -> None:
    tally: Counter[str] = Counter()
    for seed in range(12):
        outcome = simulate(
            scenario("recipes/hand_over.py:undisturbed"), seed=seed, backend=backend, faults=()
        )
        outcome.check()
        tally.update(outcome.seen)
    assert tally["handed over to a successor"] > 12
    assert tally["stepped behind another contender"]
