"""The znode of a persistent node: ephemeral, ephemeral and sequential, or persistent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...abc import CoordinationClient, Reply, Watch
from ...errors import NoNodeError
from ...model import ACL, Created, CreateMode, Stat
from ...paths import basename, join, parent
from .._core.catching_up import catch_up
from .._core.fixed import FixedNode
from .._core.ownership import is_shared
from .._core.pending_delete import Departure
from .._core.reading import read_children
from .._core.znode_registry import SEQUENCE_DIGITS, NodeRegistry, RegisteredNode


class KeptRegistry(NodeRegistry):
    """What the persistent nodes of one client have at, or under, one path."""

    def __init__(self) -> None:
        super().__init__()
        self.keepers: dict[str, object] = {}
        """The keeper of each path."""


class KeptZnode(FixedNode):
    """A znode that is created again and again, always at the same path.

    A sequential one gets its number from the server the first time, and keeps it. A persistent one
    has no owner: it is taken over if it exists. `on_deleting` is called, synchronously, with each
    delete of it.
    """

    def __init__(
        self,
        client: CoordinationClient,
        registry: KeptRegistry,
        path: str,
        data: bytes,
        *,
        mode: CreateMode,
        acl: Sequence[ACL] | None,
        on_deleting: Callable[[Departure], object],
    ) -> None:
        super().__init__(client, registry, path, data, acl=acl, on_gone=lambda: None)
        self._mode = mode
        self._on_deleting = on_deleting
        self._sent = data
        """What the last create was sent with."""
        self.name: str | None = None if self.is_sequential else path
        """The path of the znode, also while it does not exist; None before its number is known."""
        self.version = self.mzxid = 0
        """Of the data that we know of."""

    @property
    def is_sequential(self) -> bool:
        return self._mode is CreateMode.EPHEMERAL_SEQUENTIAL

    @property
    def present(self) -> RegisteredNode | None:
        """The znode, as far as we know."""
        return self._node

    @property
    def wanted(self) -> bytes:
        """The data that it should hold."""
        return self._data

    @wanted.setter
    def wanted(self, data: bytes) -> None:
        self._data = data

    def saw(self, stat: Stat) -> None:
        """Record the version of the data."""
        self.version, self.mzxid = stat.version, stat.mzxid

    # --- naming, and the proof that it is ours ---------------------------------------------------

    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        if self.name is None:
            return self._path, self._mode
        # A sequential znode gets its number back, as with Curator.
        return self.name, CreateMode.EPHEMERAL if self.is_sequential else self._mode

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        self._sent = self._data
        return super()._send_create(path, mode)

    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        self.saw(created.stat)
        return super()._claim(created, session_id)

    def is_ours(self, stat: Stat) -> bool:
        """Whether a znode that exists already is ours, or ours to share."""
        if not self._mode.is_ephemeral:
            return stat.ephemeral_owner == 0
        # A znode of our session that nobody here claims is that of a lost create: ours, or that of
        # an earlier object, which may not know of it yet. Waiting for its end would take forever.
        return self._registry.is_unclaimed(self._client, self._path, stat)

    def is_unclaimed(self, data: bytes, stat: Stat) -> bool:
        """Whether it is of a lost create of ours, as far as that can be known."""
        is_as_created = (data, stat.version) == (self._sent, 0)
        if not self._mode.is_ephemeral:
            is_free = not self._registry.is_claimed_czxid(stat.czxid)
            return stat.ephemeral_owner == 0 and is_free and is_as_created
        is_ours = self._registry.is_unclaimed(self._client, self._path, stat)
        return is_ours and (is_as_created or not is_shared(self._client))

    async def _find(self, path: str) -> Created | None:
        if path != self._path or not self.is_sequential:
            return await super()._find(path)
        client, folder, prefix = self._client, parent(path), basename(path)
        await catch_up(client, path)
        try:
            names = sorted(await client.get_children(folder))
        except NoNodeError:
            return None
        length = len(prefix) + SEQUENCE_DIGITS
        names = [name for name in names if name.startswith(prefix) and len(name) == length]
        for name, (data, stat) in (await read_children(client, folder, names)).items():
            if self.is_unclaimed(data, stat):
                return Created(join(folder, name), stat)
        return None

    # --- leaving ---------------------------------------------------------------------------------

    def _delete(self, node: RegisteredNode, watch: Watch | None) -> Departure:
        departure = super()._delete(node, watch)
        self._on_deleting(departure)
        return departure

    def _send_delete(self, node: RegisteredNode) -> Reply[None]:
        # If others have set the data meanwhile, it looks before it deletes.
        return self._client.delete(node.path, version=self.version)

    def _lost_create_looked(self) -> None:
        self._one_use_less()  # leaving does not wait for the second look

    def _lost_create_over(self) -> None:
        pass
