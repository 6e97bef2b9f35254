"""State that the contenders of one client on one path share: our contenders, the last look."""

from __future__ import annotations

from collections.abc import Callable

from ...abc import CoordinationClient, Reply
from ...model import SessionState
from .._core.znode_registry import NodeRegistry
from .layouts import Layout, Role


class LocalContenders(NodeRegistry):
    def __init__(self) -> None:
        super().__init__()
        self.was_contended = False
        """Whether the last listing of the queue showed others before us."""
        self.are_readable = True
        """Whether we surely may read all of ours so far."""
        self.front: str | None = None
        """The last one of ours that was first in the queue, where one holds at a time."""
        self.fits: list[tuple[Layout, Role]] = []
        """Layouts and roles that all neighbours have fitted; a list, as hashing one is slower."""
        self.look: Reply[list[str]] | None = None
        """The last listing that was requested to check that."""
        self.changes = 0
        """How often the session's state has changed while anybody followed it."""
        self._followers = 0
        self._unfollow: Callable[[], None]
        self._at: dict[int, str] = {}

    # --- the session's state -------------------------------------------------------------------

    def follow(self, client: CoordinationClient) -> None:
        """Count `changes` until `unfollow` was called as often; one subscription for all."""
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
        return self._at.get(sequence)
