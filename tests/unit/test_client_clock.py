"""The lease's clock."""

from __future__ import annotations

import time

from aiolead._client.clock import lease_clock


def test_the_lease_is_measured_by_a_clock_that_nobody_can_set():
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(clock)
    now = lease_clock()
    assert before <= now <= time.clock_gettime(clock)
