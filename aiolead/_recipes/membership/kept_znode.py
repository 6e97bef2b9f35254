"""The znode of a keeper: ephemeral, ephemeral and sequential, or persistent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...abc import CoordinationClient, Reply, Watch
from ...errors import NoNodeError
from ...model import ACL, Created, CreateMode, Stat
from ...paths import join, parent
from .._core.catching_up import catch_up
from .._core.fixed import FixedNode
from .._core.ownership import is_shared
from .._core.pending_delete import Departure
from .._core.znode_registry import SEQUENCE_DIGITS, NodeRegistry, RegisteredNode

AT_ONCE = 100
"""How many znodes are looked at in one go, when a lost create is searched for."""


class KeptRegistry(NodeRegistry):
    """What the keepers of one client have at, or under, one path."""

    def __init__(self) -> None:
        super().__init__()
        self.keepers: dict[str, object] = {}
        """The keeper of each path."""


class KeptZnode(FixedNode):
    """A znode that a keeper creates again and again, always at the same path.

    A sequential one gets its number from the server the first time, and keeps it. A persistent one
    has no owner, so nobody can tell whose it is: whoever keeps it shares it.

    Args:
        client: the session.
        registry: of the path.
        path: the znode; for a sequential one, what the server appends the number to.
        data: what it holds at first.
        mode: ephemeral, ephemeral and sequential, or persistent.
        acl: of the znode.
        on_deleting: called, synchronously, with each delete of it.
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
        super().__init__(client, registry, path, data, acl=acl, on_gone=_ignore)
        self._mode = mode
        self._on_deleting = on_deleting
        self._sent = data
        """What the last create was sent with."""
        self.name: str | None = None if self.is_sequential else path
        """The path of the znode, also while it is not there; None before its number is known."""
        self.version = self.mzxid = 0
        """Of the data that we know of."""

    @property
    def is_sequential(self) -> bool:
        return self._mode is CreateMode.EPHEMERAL_SEQUENTIAL

    @property
    def present(self) -> RegisteredNode | None:
        """The znode, as far as we know."""
        return self._node

    def wants(self, data: bytes) -> None:
        """The next create is sent with other data."""
        self._data = data

    def saw(self, stat: Stat) -> None:
        """Takes note of the version of the data."""
        self.version, self.mzxid = stat.version, stat.mzxid

    # --- naming, and the proof that it is ours ---------------------------------------------------

    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        if self.name is None:
            return self._path, self._mode
        # One that had its number gets it back, as with Curator.
        return self.name, CreateMode.EPHEMERAL if self.is_sequential else self._mode

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        self._sent = self._data
        return super()._send_create(path, mode)

    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        self.saw(created.stat)
        return super()._claim(created, session_id)

    def is_ours(self, stat: Stat) -> bool:
        """Whether a znode that is there already is ours, or ours to share."""
        if not self._mode.is_ephemeral:
            return stat.ephemeral_owner == 0
        # One of our session that nobody here has is that of a lost create: ours, or that of a
        # keeper before us, who may not know of it yet. To wait for its end would be for ever.
        return self._registry.is_unclaimed(self._client, self._path, stat)

    def is_unclaimed(self, data: bytes, stat: Stat) -> bool:
        """Whether it is of a lost create of ours, as far as that can be known."""
        if self._mode.is_ephemeral:
            ours = self._registry.is_unclaimed(self._client, self._path, stat)
            is_owned = not is_shared(self._client)
        else:
            ours = stat.ephemeral_owner == 0 and not self._registry.is_claimed_czxid(stat.czxid)
            is_owned = False
        return ours and (is_owned or (data, stat.version) == (self._sent, 0))

    async def _find(self, path: str) -> Created | None:
        if path != self._path or not self.is_sequential:
            return await super()._find(path)
        client = self._client
        await catch_up(client, path)
        folder, length = parent(path), len(path) + SEQUENCE_DIGITS
        try:
            every = [join(folder, name) for name in sorted(await client.get_children(folder))]
        except NoNodeError:
            return None
        paths = [each for each in every if each.startswith(path) and len(each) == length]
        for start in range(0, len(paths), AT_ONCE):
            looks = [(each, client.get(each)) for each in paths[start : start + AT_ONCE]]
            for each, look in looks:
                try:
                    data, stat = await look
                except NoNodeError:
                    continue
                if self.is_unclaimed(data, stat):
                    return Created(each, stat)
        return None

    # --- leaving ---------------------------------------------------------------------------------

    def _delete(self, node: RegisteredNode, watch: Watch | None) -> Departure:
        departure = super()._delete(node, watch)
        self._on_deleting(departure)
        return departure

    def _send_delete(self, node: RegisteredNode) -> Reply[None]:
        # Data that others have set meanwhile make it look first.
        return self._client.delete(node.path, version=self.version)

    def _lost_create_looked(self) -> None:
        self._one_use_less()  # whoever leaves does not wait for the second look

    def _lost_create_over(self) -> None:
        pass


def _ignore() -> None:
    pass
