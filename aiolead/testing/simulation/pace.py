"""How many requests each session sends, and how much there was to learn meanwhile."""

from __future__ import annotations

from collections import Counter

from ..history import History


class Pace:
    """Counts requests and changes, and reports them to the history, window by window.

    Args:
        history: the receiver.
        window: the length of a window, in seconds.
    """

    def __init__(self, history: History, window: float) -> None:
        self._history = history
        self._window = window
        self._since = 0.0
        self._sent: Counter[int] = Counter()
        self._connected: Counter[int] = Counter()
        self._changes = 0
        self._changes_before = 0

    def requested(self, session_id: int, at: float) -> None:
        """A request of a session has come to a server."""
        if at >= self._since + self._window:
            self.finish(at)
        self._sent[session_id] += 1

    def connected(self, session_id: int, at: float) -> None:
        """A session has come over a new connection."""
        self.requested(session_id, at)
        self._connected[session_id] += 1

    def changed(self, count: int, at: float) -> None:
        """A transaction has changed so many znodes, or has begun or ended a session."""
        if at >= self._since + self._window:
            self.finish(at)
        self._changes += count

    def finish(self, at: float) -> None:
        """Report the window that has ended; one that has just begun follows."""
        # Clients may react to the last changes of a window in the next one.
        seen = self._changes_before + self._changes
        for session_id, count in sorted(self._sent.items()):
            changes = seen + self._connected[session_id]
            self._history.requested(session_id, count, changes, self._since, self._window)
        passed = int((at - self._since) / self._window)
        self._changes_before = self._changes if passed == 1 else 0
        self._since += passed * self._window
        self._changes = 0
        self._sent.clear()
        self._connected.clear()
