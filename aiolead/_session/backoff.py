"""When to try again after every server was tried in vain."""

from __future__ import annotations

import random

FIRST = 0.05
LONGEST = 1.0


class Backoff:
    """Exponential, with full jitter: a random part of a limit that doubles with every round.

    The first retry after a success is immediate. The limit is a tenth of the session timeout at
    most, since the session must outlive the wait.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._round = 0

    def succeeded(self) -> None:
        """A session was established. A bare TCP connection is no success."""
        self._round = 0

    def delay(self, session_timeout: float) -> float:
        """Seconds to wait before the next round."""
        self._round += 1
        if self._round == 1:
            return 0.0
        limit = min(FIRST * 2 ** min(self._round - 2, 16), LONGEST, session_timeout / 10)
        return self._rng.uniform(0.0, limit)
