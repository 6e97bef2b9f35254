"""The lease's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

lease_clock: Callable[[], float] = partial(time.clock_gettime, _CLOCK)
"""Seconds on a monotonic clock that goes on while the machine is suspended, if there is one.

`CLOCK_MONOTONIC` stops in suspend, so after a laptop's sleep a lease would look as fresh as before,
while its session has long expired.
"""
