"""How many of the users' requests may be in flight.

A server answers in order, so a lease renewal waits behind the requests in flight. While anything is
held, these are at most twice as many as the server has answered in time so far, beginning with a
few. While nothing is held, they are as many as the user allows.
"""

from __future__ import annotations

from math import inf

FEWEST = 16
"""The limit at first, and at a slow server."""


class Window:
    """The limit on requests in flight: `most`, or what is answered within `patience` seconds."""

    def __init__(self, most: int, patience: float) -> None:
        self.patience = patience
        self._most = most
        self.reset()

    def reset(self) -> None:
        """Start again on a new connection, whose server may be slower."""
        self._tried = FEWEST
        self._shrunk_at = -inf

    def size(self, *, careful: bool) -> int:
        """How many may be in flight; `careful`: something is held."""
        return min(self._tried, self._most) if careful else self._most

    def answered(self, ahead: int, sent: float, now: float) -> None:
        """Record the answer to a request that was sent behind `ahead` others."""
        if now - sent <= self.patience:
            if self._tried <= 2 * ahead:
                self._tried = 2 * (ahead + 1)
        elif sent >= self._shrunk_at:
            # Once for all that was in flight: a single pause must not shrink it repeatedly.
            self._tried = max(FEWEST, min(self._tried, self._most) // 2)
            self._shrunk_at = now
