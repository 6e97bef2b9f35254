"""The simulation finds those of the planted bugs that it finds soonest.

`python -m tests.assurance.mutants` hunts all of them.
"""

from __future__ import annotations

import pytest
from assurance.mutants.catalogue import by_name
from assurance.mutants.catch import hunt
from assurance.mutants.fixtures import mutated_or_skip

pytestmark = pytest.mark.exhaustive("checks the simulation, and nothing of the library")

SEEDS = 60
"""They take a few."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "backend", "invariant"),
    [
        ("waiter-lists-queue-in-a-loop", "trio", "I27"),
        ("an-event-is-contact", "asyncio", "I2"),
        ("data-watches-not-rearmed", "trio", "I9"),
        ("everybody-watches-the-first", "asyncio", "I14"),
        ("session-replaced-silently", "asyncio", "I7"),
        ("predecessor-gone-means-first", "trio", "I4"),
        ("release-needs-an-await", "asyncio", "I6"),
    ],
)
def test_planted_bug_is_found(name: str, backend: str, invariant: str) -> None:
    mutated_or_skip(name)
    found = hunt(by_name(name), backend, SEEDS)
    assert invariant in found.caught, found
