"""Some schedules of faults of every scenario, on each event loop, with all invariants.

`make soak` runs as many as there is time for. `test_schedules.py` has more of `contend` and
`lockset`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from assurance.simulation.schedules import scenario

from aiolead.testing.simulation import Backend, Outcome, explore, simulate

# A few schedules take some seconds; on a machine that is busy with other things, a minute or two.
pytestmark = pytest.mark.timeout(600)

OF_QUEUES = (
    "handed over while something was broken",
    "link lost while holding",
    "reconnected in the session while holding",
)


class Row(NamedTuple):
    """Which seeds of a scenario are run.

    Attributes:
        scenario: its file and name.
        asyncio: the seeds on asyncio.
        trio: the seeds on trio.
        reached: situations without which these schedules prove little.
        faults: how many each has, on the average.
    """

    scenario: str
    asyncio: Sequence[int]
    trio: Sequence[int]
    reached: tuple[str, ...] = ()
    faults: float = 3


ROWS = [
    Row("scenarios.py:crowd", range(1000, 1015), range(15)),
    *(
        Row(f"recipes/{name}", range(1000, 1008), range(8))
        for name in (
            *("permits.py:permits", "permits.py:kazoos", "permits.py:limits"),
            *("permits.py:exclusive", "barriers.py:gate", "barriers.py:rounds"),
            "barriers.py:hurry",
        )
    ),
    *(
        Row(f"recipes/{name}", [*range(6), *range(1000, 1006)], [*range(6, 12), *range(1006, 1012)])
        for name in ("sharing.py:share", "conditions.py:buffer")
    ),
    *(
        Row(f"recipes/values.py:{name}", range(8), range(8))
        for name in ("count", "mirror", "named")
    ),
    *(
        # 1033 and 1058 have each found a bug.
        Row(f"recipes/membership.py:{name}", [*range(1033, 1044), 1058], range(12))
        for name in ("group", "services", "partition")
    ),
    *(
        Row(f"recipes/{name}", range(1000, 1012), range(3000, 3012), OF_QUEUES)
        for name in ("queues.py:consume", "queues.py:below", "queues.py:turns", "board.py:work")
    ),
    Row(
        # 71073 has found a bug.
        "recipes/queues.py:letters",
        [*range(1000, 1012), 71073],
        [*range(3000, 3012), 71073],
        (
            "moved to the dead letters as its last attempt ended",
            "moved to the dead letters by the consumer after the last one",
        ),
    ),
    Row(
        "recipes/queues.py:delay",
        range(1000, 1012),
        range(12),
        (
            "handed out as it came due, to somebody who was waiting",
            "an item was due before one that was put earlier",
            "given back, and handed out again",
        ),
    ),
    Row("recipes/rates.py:spend", range(8), range(8)),
    # 124 and 158 have each found a bug.
    Row("recipes/once.py:run_keys", [*range(6), 124, 158], [*range(6, 12), 124, 158]),
    Row(
        "recipes/hand_over.py:succeed",
        range(1000, 1008),
        range(8),
        (
            "stepped behind another contender",
            "handed over to a successor",
            "asked a leader to resign",
        ),
    ),
    Row(
        "recipes/reentrant.py:reenter",
        range(1000, 1012),
        range(12),
        (
            "entered again while the connection was lost",
            "lost at several levels at once",
            "refused to enter again after a loss",
            "an inner block was cancelled, and the outer one went on",
        ),
    ),
    Row(
        "recipes/multi.py:together",
        range(1000, 1012),
        range(12),
        (
            "began again, since one of several was lost before all were held",
            "ran out of time with some of several",
            "lost one of several, and had the others",
        ),
    ),
    Row(
        "recipes/preference.py:prefer",
        range(1060, 1072),
        range(12),
        ("a better contender took over", "a contender joined again, behind a better one"),
    ),
    Row(
        "recipes/kept.py:keep",
        range(1000, 1012),
        range(12),
        (
            "left while its znode was being created again",
            "created again after somebody had deleted it",
            "created again in another session",
            "waited for the end of somebody else's znode",
        ),
    ),
    # These seeds are among those that found something when the scenarios were new.
    Row("scenarios_one_znode.py:one_znode", range(14, 20), range(14, 20), faults=1),
    Row("scenarios_hostile.py:share_session", range(10, 24), range(10, 24), faults=1),
    Row("scenarios_hostile.py:close_shared", range(6), range(6), faults=1),
    Row("scenarios_hostile.py:hostile", range(8), range(8), faults=1),
    Row("scenarios_hostile.py:threads", range(8), range(8), faults=1),
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.scenario)
def test_no_schedule_violates_an_invariant(row: Row, backend: Backend) -> None:
    outcomes: list[Outcome] = []
    seeds = row.asyncio if backend == "asyncio" else row.trio
    tally = explore(scenario(row.scenario), seeds, backend=backend, on_outcome=outcomes.append)
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
