"""State that the contenders of one client on one path share: our contenders, the last look."""

from __future__ import annotations

from ...abc import CoordinationClient, Reply
from ...model import SessionState
from .._core.znode_registry import NodeRegistry
from .layouts import Layout, Role


class SessionChanges:
    """How often the state of a client's session has changed; one for all of its contenders."""

    def __init__(self) -> None:
        self.count = 0
        self._is_subscribed = False

    @classmethod
    def of(cls, client: CoordinationClient) -> SessionChanges:
        changes = client.backend.shared("/", cls)
        if not changes._is_subscribed:
            changes._is_subscribed = True
            client.backend.subscribe(changes._on_state)  # for as long as the client lives
        return changes

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self.count += 1


class LocalContenders(NodeRegistry):
    __slots__ = ("_at", "are_readable", "fits", "front", "look", "session", "was_contended")

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
        self.session: SessionChanges | None = None
        """Set by the first contender."""
        self._at: dict[int, str] = {}

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
