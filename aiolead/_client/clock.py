"""The lease's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any


def best_clock(module: Any) -> Callable[[], float]:
    """Returns the platform's best clock for a lease; `module` is like `time`."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        if (clock := getattr(module, name, None)) is not None:
            return partial(module.clock_gettime, clock)
    monotonic: Callable[[], float] = module.monotonic
    return monotonic


lease_clock: Callable[[], float] = best_clock(time)
"""Seconds on a monotonic clock that counts time in suspend, if there is one.

`CLOCK_MONOTONIC` stops in suspend: after a laptop's sleep, a lease would look fresh although its
session has long expired.
"""
