"""The znode of a persistent node: ephemeral, ephemeral and sequential, or persistent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...abc import CoordinationClient, Reply, Watch
from ...model import ACL, Created, CreateMode, Stat
from ...paths import basename, join, parent
from .._core.ephemeral_names import FixedNode
from .._core.pending_delete import Departure
from .._core.reading import catch_up, listed, read_children
from .._core.znode_registry import SEQUENCE_DIGITS, NodeRegistry, RegisteredNode, is_shared


class KeptRegistry(NodeRegistry):
    """The persistent nodes of one client at, or below, one path, with the keeper of each path."""

    def __init__(self) -> None:
        super().__init__()
        self.keepers: dict[str, object] = {}


class KeptZnode(FixedNode):
    """A znode that is created again and again, always at the same path.

    A sequential one keeps the number that the server assigns first. A persistent one has no owner:
    an existing one is adopted. `on_deleting` is called, synchronously, with each of its deletes.
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
        self.wanted = data
        """The data that it should have; `_data` is that of the last create."""
        self.name: str | None = None if self.is_sequential else path
        """The path of the znode, also while it does not exist; None before its number is known."""
        self.version = self.mzxid = 0
        """Of the data last seen."""

    @property
    def is_sequential(self) -> bool:
        return self._mode is CreateMode.EPHEMERAL_SEQUENTIAL

    def saw(self, stat: Stat) -> None:
        self.version, self.mzxid = stat.version, stat.mzxid

    # --- naming, and the proof that it is ours ---------------------------------------------------

    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        if self.name is None:
            return self._path, self._mode
        # A sequential znode keeps its number, as with Curator.
        return self.name, CreateMode.EPHEMERAL if self.is_sequential else self._mode

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        self._data = self.wanted
        return super()._send_create(path, mode)

    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        self.saw(created.stat)
        return super()._claim(created, session_id)

    def is_ours(self, stat: Stat) -> bool:
        """Whether an existing znode is ours, or ours to share."""
        if not self._mode.is_ephemeral:
            return stat.ephemeral_owner == 0
        # An unclaimed znode of our session is from a create whose answer was lost, maybe of an
        # earlier object that does not know it yet. Waiting for its end would take forever.
        return self._registry.is_unclaimed(self._client, self._path, stat)

    def is_unclaimed(self, data: bytes, stat: Stat) -> bool:
        """Whether a create of ours, whose answer was lost, made it, as far as we can know."""
        is_as_created = (data, stat.version) == (self._data, 0)
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
        names = sorted(await listed(client.get_children(folder)))
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
        # By version: if others have set the data meanwhile, the delete fails, and it looks again.
        return self._client.delete(node.path, version=self.version)

    def _lost_create_looked(self) -> None:
        self._one_use_less()  # leaving does not wait for the second look

    def _lost_create_over(self) -> None:
        pass
