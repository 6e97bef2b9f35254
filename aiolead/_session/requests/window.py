"""How many of the users' requests may be in flight.

A server answers in order. So a renewal of the lease that leaves first all the same waits behind
what is in flight already: that must be no more than the server answers while the renewal may take
its time. How fast a server is, its answers tell: while anything is held, at most twice as many
requests are in flight as it has been seen to answer in time, beginning with a few. While nothing
is held, as many as the user allows.
"""

from __future__ import annotations

from math import inf

FEWEST = 16
"""What is in flight at most, to begin with, and however slow the server is."""


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
        """Forgets what is known of the server: the next one may be slower."""
        self._tried = FEWEST
        self._shrunk_at = -inf

    def size(self, *, careful: bool) -> int:
        """How many may be in flight.

        Args:
            careful: whether they must be answered in time, since something is held.
        """
        return min(self._tried, self._most) if careful else self._most

    def answered(self, ahead: int, sent: float, now: float) -> None:
        """A request was answered.

        Args:
            ahead: how many others were in flight when it was sent.
            sent: when that was, in seconds.
            now: the time.
        """
        if now - sent <= self.patience:
            self._tried = max(self._tried, 2 * (ahead + 1))
        elif sent >= self._shrunk_at:
            # Once for what was in flight together, or a single pause would take it all.
            self._tried = max(FEWEST, min(self._tried, self._most) // 2)
            self._shrunk_at = now
