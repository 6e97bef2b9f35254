"""The simulation has teeth: some of the planted bugs, those that are found soonest, are found.

All of them: `python -m tests.mutants`.
"""

from __future__ import annotations

import pytest
from mutants.catalogue import by_name
from mutants.catch import hunt

pytestmark = pytest.mark.exhaustive("checks the simulation, and nothing of the library")

SEEDS = 60
"""They take a few."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "backend", "invariant"),
    [
        ("a-waiter-lists-the-queue-again-and-again", "trio", "I27"),
        ("an-event-is-contact", "asyncio", "I2"),
        ("data-watches-not-rearmed", "trio", "I9"),
        ("everybody-watches-the-first", "asyncio", "I14"),
        ("new-session-without-a-word", "asyncio", "I7"),
        ("predecessor-gone-means-first", "trio", "I4"),
        ("release-is-the-callers-work", "asyncio", "I6"),
    ],
)
def test_a_planted_bug_is_found(name: str, backend: str, invariant: str) -> None:
    found = hunt(by_name(name), backend, SEEDS)
    assert invariant in found.caught, found
