"""A znode in a queue: its naming and its create; and what this client's contenders there share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from ...abc import CoordinationClient, Reply
from ...errors import NodeExistsError, SequenceExhaustedError
from ...model import Created, SessionState
from .._core.reporting import PathWarnings
from .._core.znode_registry import OwnNames
from ..naming import Sequential
from ..znode import Znode, ZnodeState
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


def queue_naming(
    client: CoordinationClient,
    local: LocalContenders,
    path: str,
    layout: Layout,
    role: Role,
    places: int = 1,
) -> Sequential:
    """The naming of znodes whose numbers are their places in the queue at `path`."""
    return Sequential(client, local, path, _prefix(layout, role, places))


@cache
def _prefix(layout: Layout, role: Role, places: int) -> Callable[[int, int], str]:
    """The function that makes the names; one for all queues, since it takes three objects."""
    return partial(layout._prefix, role, leaders=places)


async def ready_to_create(client: CoordinationClient, znode: Znode) -> bool:
    """Wait for a connection; return False if a lost create has left a znode."""
    if client.state is not SessionState.CONNECTED:
        await client.ready()
    return znode.state is ZnodeState.ABSENT or not await znode.resolve()


async def await_created(znode: Znode, create: Reply[Created], path: str) -> None:
    """Wait for the answer to a create in the queue at `path`.

    Raises `SequenceExhaustedError` if the queue has no more numbers, and warns near their end.
    """
    try:
        await create
    except NodeExistsError:
        # The counter stands still at its end since ZOOKEEPER-3249, so names repeat.
        raise SequenceExhaustedError(path) from None
    sequence = znode.node.sequence
    if not 0 <= sequence < LAST_SEQUENCE:
        znode.withdraw()
        raise SequenceExhaustedError(path)
    if sequence >= WARN_FROM:
        warn_of_the_end(path, sequence)
