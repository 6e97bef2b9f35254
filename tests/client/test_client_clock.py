"""The lease's clock."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from aiolead._client.connect_options import best_clock, lease_clock


def test_the_lease_is_measured_by_a_clock_that_nobody_can_set():
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(clock)
    now = lease_clock()
    assert before <= now <= time.clock_gettime(clock)


@pytest.mark.parametrize(
    ("has", "reads"),
    [
        ({"CLOCK_BOOTTIME": 7, "CLOCK_MONOTONIC": 1}, 7),
        ({"CLOCK_MONOTONIC": 1}, 1),
        ({}, -1),
    ],
    ids=["Linux", "macOS", "Windows"],
)
def test_a_platform_has_some_clock_for_it(has: dict[str, int], reads: float) -> None:
    """`time.CLOCK_MONOTONIC` is not there on every platform; `time.monotonic` is."""
    clocks = SimpleNamespace(**has, clock_gettime=float, monotonic=lambda: -1.0)
    assert best_clock(clocks)() == reads
