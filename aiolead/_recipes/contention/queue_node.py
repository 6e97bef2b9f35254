"""A znode in a queue, and the state that the contenders of one client on one path share."""

from __future__ import annotations

from collections.abc import Sequence

from ..._tasks import Wakeup
from ...abc import CoordinationClient, Reply
from ...errors import NodeExistsError, SequenceExhaustedError
from ...model import ACL, Created, SessionState
from .._core.ephemeral_names import SerialNode
from .._core.participants import is_request
from .._core.reporting import PathWarnings
from .._core.znode_registry import OwnNames
from .layouts import Layout, Role
from .sequence_range import LAST_SEQUENCE, WARN_FROM, warn_of_the_end


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


class LocalContenders(OwnNames):
    __slots__ = (
        "_at",
        "_warnings",
        "fits",
        "front",
        "look",
        "ownerless",
        "session",
        "was_contended",
    )

    def __init__(self) -> None:
        super().__init__()
        self.was_contended = False
        """Whether the last listing of the queue showed others before us."""
        self.front: str | None = None
        """The last one of ours that was first in the queue, where one holds at a time."""
        self.fits: list[tuple[Layout, Role]] = []
        """Layouts and roles that all neighbours have fitted; a list, as hashing one is slower."""
        self.look: Reply[list[str]] | None = None
        """The last listing that was requested to check that."""
        self.ownerless: str | None = None
        """The last contender that was read and that no session owns."""
        self.session: SessionChanges | None = None
        """Set by the first contender."""
        self._at: dict[int, str] = {}
        self._warnings: PathWarnings | None = None

    def warnings_of(self, client: CoordinationClient, path: str) -> PathWarnings:
        """The warnings about the path, kept for as long as this object."""
        if self._warnings is None:
            self._warnings = client.backend.shared(path, PathWarnings)
        return self._warnings

    # --- ours by number ------------------------------------------------------------------------

    def claim(self, name: str, sequence: int) -> None:
        self._claimed[name] = sequence
        self._at[sequence] = name

    def forget(self, name: str) -> None:
        sequence = self._claimed.pop(name, None)
        if sequence is not None and self._at.get(sequence) == name:
            del self._at[sequence]

    def ours_at(self, sequence: int) -> str | None:
        return self._at.get(sequence)


NOBODY_WAITS = Wakeup()
"""The `Wakeup` of those that do not wait, one for all: a waiter makes its own."""


class QueueNode(SerialNode):
    """A sequential znode whose number is its place in a queue.

    Others may set its data, to ask its owner to release (see `participants`).
    """

    __slots__ = (
        "_layout",
        "_local",
        "_role",
        "_stale",
        "_wake",
        "is_asked_for",
    )

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        layout: Layout,
        role: Role,
        data: bytes,
        acl: Sequence[ACL] | None = None,
        local: LocalContenders | None = None,
    ) -> None:
        self._local = local or client.backend.shared(path, LocalContenders)
        super().__init__(client, self._local, path, data, acl)
        self._layout = layout
        self._role = role
        # The events of watches since the last look.
        self._wake = NOBODY_WAITS
        self._stale = False
        self.is_asked_for = False
        """Whether others ask for a release."""

    def _prefix(self, session_id: int, serial: int) -> str:
        return self._layout._prefix(self._role, session_id, serial)

    # --- creating ------------------------------------------------------------------------------

    async def _ready_to_create(self) -> bool:
        """Wait for a connection; return False if a lost create has left a znode."""
        if self._client.state is not SessionState.CONNECTED:
            await self._client.ready()
        is_first = self._node is None and self._creating is None
        return is_first or not await self.resolve()

    async def _await_created(self, create: Reply[Created]) -> None:
        try:
            await create
        except NodeExistsError:
            # The counter stands still at its end since ZOOKEEPER-3249, so names repeat.
            raise SequenceExhaustedError(self._path) from None
        sequence = self.node.sequence
        if not 0 <= sequence < LAST_SEQUENCE:
            self.withdraw()
            raise SequenceExhaustedError(self._path)
        if sequence >= WARN_FROM:
            warn_of_the_end(self._path, sequence)

    # --- watching ------------------------------------------------------------------------------

    def _rouse(self) -> None:
        self._wake.set()

    def _watch_ended(self) -> None:
        self._stale = True
        self._wake.set()

    def _saw(self, data: bytes) -> None:
        if not self.is_asked_for and is_request(data):
            self.is_asked_for = True
            if self._holder is not None:
                self._holder._ask_for()

    # --- leaving -------------------------------------------------------------------------------

    def forget(self) -> None:
        super().forget()
        self.is_asked_for = False
