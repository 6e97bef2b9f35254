"""Waiting without an event loop for what has to happen."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 30.0
"""How long anything is waited for that must happen, in seconds; it mostly takes milliseconds.

It only ends a test that hangs, before pytest's own limit does, and says what was missing. A real
server has taken more than five seconds to answer on a busy machine.
"""


def until(check: Callable[[], bool], what: str) -> None:
    """Waits until something is so.

    Raises:
        AssertionError: it is not, after `PATIENCE` seconds.
    """
    deadline = time.monotonic() + PATIENCE
    while not check():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not, after {PATIENCE} seconds: {what}")
        time.sleep(0.005)
