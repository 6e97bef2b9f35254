"""Schedules of faults of `contend` and `lockset`, with all invariants.

`make soak` runs any number. `make test` runs a few that reach every rare situation, and `make
test-all` some hundred.
"""

from __future__ import annotations

from functools import cache

import pytest
from assurance.simulation.schedules import scenario

from aiolead.testing.simulation import Backend, Outcome, Tally, explore

# A block takes some seconds; on a machine that is busy with other things, a minute or two.
pytestmark = pytest.mark.timeout(600)

exhaustive = pytest.mark.exhaustive("a few schedules reach the same")
each_loop = pytest.mark.parametrize("backend", ["asyncio", "trio"])

BLOCK = 25
_ALL = [
    *(("contend", first) for first in range(0, 200, BLOCK)),
    *(("lockset", first) for first in range(0, 100, BLOCK)),
]
BLOCKS: dict[Backend, list[tuple[str, int]]] = {"asyncio": _ALL[::2], "trio": _ALL[1::2]}
"""300 schedules, half of them on each event loop: the scenario and the first seed of each block.
Decisions do not depend on the loop; any schedule meets the parts that do."""

ALWAYS = (
    "stepped down by the clock",
    "stepped down as the session expired",
    "stepped down as the znode was deleted",
    "stepped down as the client was closed",
    "resigned",
    "session expired while waiting",
    "session expired while holding",
    "link lost while acquiring",
    "link lost while waiting",
    "link lost while holding",
    "link lost while releasing",
    "reconnected in the session while waiting",
    "reconnected in the session while holding",
    "cancelled while waiting",
    "cancelled while holding",
    "killed while waiting",
    "killed while holding",
    "stopped while waiting",
    "stopped while holding",
    "line moved while a waiter had no link",
    "handed over after a loss",
    "handed over while something was broken",
    "timed out in the queue",
    "leader changed while somebody held",
)
"""Situations that even these schedules have to reach, on each event loop, or they prove little."""


SOON: dict[Backend, dict[str, tuple[int, ...]]] = {
    "asyncio": {
        "contend": (23, 53, 56, 57, 58, 60, 73, 74, 103, 104, 113, 117, 119, 152, 164),
        "lockset": (13, 23, 56, 62),
    },
    "trio": {
        "contend": (28, 29, 37, 75, 76, 79, 84, 85, 87, 97, 134, 180, 191),
        "lockset": (28, 30, 49),
    },
}
"""Seeds of the blocks that, together, reached each of `ALWAYS` twice when they were chosen.

Which seed reaches what changes with the library; where these no longer do, others are tried.
"""


@cache
def block(backend: Backend, name: str, first: int) -> tuple[Tally, Outcome | None]:
    """Some schedules, and the first of them that found something."""
    found: list[Outcome] = []

    def look(outcome: Outcome) -> None:
        if outcome.violations and not found:
            found.append(outcome)

    seeds = range(first, first + BLOCK)
    tally = explore(scenario(name), seeds, backend=backend, on_outcome=look)
    return tally, found[0] if found else None


@exhaustive
@pytest.mark.parametrize(
    ("backend", "name", "first"),
    [(backend, *each) for backend, blocks in BLOCKS.items() for each in blocks],
)
def test_no_schedule_violates_an_invariant(backend: Backend, name: str, first: int) -> None:
    _, failed = block(backend, name, first)
    if failed is not None:
        failed.check()


@exhaustive
@each_loop
def test_rare_situations_were_reached(backend: Backend) -> None:
    total = Tally()
    for name, first in BLOCKS[backend]:
        total.merge(block(backend, name, first)[0])
    assert total.total == len(BLOCKS[backend]) * BLOCK == 150
    missed = [situation for situation in ALWAYS if not total.seen[situation]]
    assert missed == []
    assert min(total.margins) > 0.0


@each_loop
def test_few_schedules_reach_every_rare_situation(backend: Backend) -> None:
    """Runs as many schedules as it takes to reach every situation of `ALWAYS`: mostly `SOON`."""
    first = [(name, seed) for name, seeds in SOON[backend].items() for seed in seeds]
    blocks = [(name, seed) for name, start in _ALL for seed in range(start, start + BLOCK)]
    total = Tally()
    outcomes: list[Outcome] = []
    for number, (name, seed) in enumerate([*first, *blocks], 1):
        tally = explore(
            scenario(name), range(seed, seed + 1), backend=backend, on_outcome=outcomes.append
        )
        outcomes.pop().check()
        total.merge(tally)
        missed = [situation for situation in ALWAYS if not total.seen[situation]]
        if number >= len(first) and not missed:
            break
    assert missed == []
    assert min(total.margins) > 0.0
