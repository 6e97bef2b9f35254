"""The lease's clock."""

from __future__ import annotations

import time


def lease_clock() -> float:
    """Seconds on a monotonic clock that goes on while the machine is suspended, if there is one.

    `CLOCK_MONOTONIC` stops in suspend, so after a laptop's sleep a lease would look as fresh as
    before, while its session has long expired.
    """
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
