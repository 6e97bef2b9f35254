"""What the contenders of one client on one path share: which are ours, and what was seen there."""

from __future__ import annotations

from collections.abc import Callable

from ...abc import CoordinationClient, Reply
from ...model import SessionState
from .._core.znode_registry import NodeRegistry
from .layouts import Layout, Role


class LocalContenders(NodeRegistry):
    """The znodes of this client's contenders on a path."""

    def __init__(self) -> None:
        super().__init__()
        self.was_contended = False
        """Whether the last listing of the line showed others before us: it may be so again."""
        self.are_readable = True
        """Whether all of ours so far are such as we may surely read."""
        self.front: str | None = None
        """The last one of ours that was the first in the line, where one holds at a time."""
        self.fits: list[tuple[Layout, Role]] = []
        """With what kinds of contenders all neighbours were found to fit, once. (To hash a layout
        takes longer than to look at the few that there are.)"""
        self.look: Reply[list[str]] | None = None
        """The last listing that was asked for to see that."""
        self.changes = 0
        """How often the session has changed its state, while anybody followed that."""
        self._followers = 0
        self._unfollow: Callable[[], None]
        self._at: dict[int, str] = {}

    # --- the session's state -------------------------------------------------------------------

    def follow(self, client: CoordinationClient) -> None:
        """Counts `changes`, until `unfollow` was called as often: once for all contenders."""
        if not self._followers:
            self._unfollow = client.backend.subscribe(self._on_state)
        self._followers += 1

    def unfollow(self) -> None:
        self._followers -= 1
        if not self._followers:
            self._unfollow()

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self.changes += 1

    # --- ours by number ------------------------------------------------------------------------

    def claim(self, name: str, sequence: int) -> None:
        super().claim(name, sequence)
        self._at[sequence] = name

    def forget(self, name: str) -> None:
        sequence = self._claimed.get(name)
        super().forget(name)
        if sequence is not None and self._at.get(sequence) == name:
            del self._at[sequence]

    def ours_at(self, sequence: int) -> str | None:
        """The name of our contender with that number, if it is one of ours."""
        return self._at.get(sequence)
