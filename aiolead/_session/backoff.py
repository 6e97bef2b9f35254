"""The delay before trying again after all servers failed."""

from __future__ import annotations

import random

FIRST = 0.05
LONGEST = 1.0


class Backoff:
    """Exponential back-off with full jitter: a random part of a limit that doubles each round.

    The first retry after a success is immediate. The limit is at most a tenth of the session
    timeout, since the session must outlive the wait.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._round = 0

    def succeeded(self) -> None:
        """Reset after a session was established; a bare TCP connection is no success."""
        self._round = 0

    def delay(self, session_timeout: float) -> float:
        """Return the seconds to wait before the next round."""
        self._round += 1
        if self._round == 1:
            return 0.0
        limit = min(FIRST * 2 ** min(self._round - 2, 16), LONGEST, session_timeout / 10)
        return self._rng.uniform(0.0, limit)
