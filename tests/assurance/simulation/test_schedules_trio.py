"""Schedules of faults on trio, with all invariants: the short form of `make soak`."""

from __future__ import annotations

import pytest
from assurance.simulation.schedules import BLOCKS, check_block, check_situations

# A block takes some seconds; on a machine that is busy with other things, a minute or two.
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.exhaustive("test_schedules.py reaches the same with few"),
]


@pytest.mark.parametrize(("scenario", "first"), BLOCKS["trio"])
def test_no_schedule_violates_an_invariant(scenario: str, first: int) -> None:
    check_block("trio", scenario, first)


def test_the_rare_situations_were_reached() -> None:
    check_situations("trio")
