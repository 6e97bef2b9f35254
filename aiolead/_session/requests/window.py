"""How many of the users' requests may be in flight.

A server answers in order: a renewal of the lease waits behind the requests in flight, which must be
no more than the server answers in time. So while anything is held, at most twice as many requests
are in flight as the server has been seen to answer in time, beginning with a few. While nothing is
held, as many as the user allows.
"""

from __future__ import annotations

from math import inf

FEWEST = 16
"""The limit at first, and at a server that is slow."""


class Window:
    """The limit on requests in flight.

    Args:
        most: what the user allows.
        patience: seconds in which requests are to be answered while anything is held.
    """

    def __init__(self, most: int, patience: float) -> None:
        self.patience = patience
        self._most = most
        self.reset()

    def reset(self) -> None:
        """A new connection: its server may be slower."""
        self._tried = FEWEST
        self._shrunk_at = -inf

    def size(self, *, careful: bool) -> int:
        """How many may be in flight; `careful` if something is held."""
        return min(self._tried, self._most) if careful else self._most

    def answered(self, ahead: int, sent: float, now: float) -> None:
        """A request was answered that was sent behind `ahead` others."""
        if now - sent <= self.patience:
            self._tried = max(self._tried, 2 * (ahead + 1))
        elif sent >= self._shrunk_at:
            # Once for what was in flight together: a single pause must not take it all.
            self._tried = max(FEWEST, min(self._tried, self._most) // 2)
            self._shrunk_at = now
