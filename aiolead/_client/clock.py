"""The lease's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any


def best_clock(module: Any) -> Callable[[], float]:
    """The best clock for a lease that a platform has.

    Args:
        module: what has the clocks of the module `time`.
    """
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        if (clock := getattr(module, name, None)) is not None:
            return partial(module.clock_gettime, clock)
    monotonic: Callable[[], float] = module.monotonic
    return monotonic


lease_clock: Callable[[], float] = best_clock(time)
"""Seconds on a monotonic clock that goes on while the machine is suspended, if there is one.

`CLOCK_MONOTONIC` stops in suspend, so after a laptop's sleep a lease would look as fresh as before,
while its session has long expired.
"""
