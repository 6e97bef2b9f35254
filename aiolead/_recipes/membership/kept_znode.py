"""The znode of a persistent node: ephemeral, ephemeral and sequential, or persistent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...abc import CoordinationClient, Reply, Watch
from ...model import ACL, Created, CreateMode, Stat
from ...paths import basename, join, parent
from .._core.ephemeral import Found
from .._core.ephemeral_names import FixedNode
from .._core.pending_delete import Departure
from .._core.reading import catch_up, listed, look_at_all
from .._core.znode_registry import SEQUENCE_DIGITS, RegisteredNode


class Keepers:
    """The keepers of one client's persistent nodes at, or below, one path, by their paths."""

    def __init__(self) -> None:
        self.by_path: dict[str, object] = {}


class KeptZnode(FixedNode):
    """A znode that is created again and again, always at the same path.

    A sequential one keeps the number that the server assigns first. A persistent one has no owner:
    an existing one is adopted. `on_deleting` is called, synchronously, with each of its deletes.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes,
        *,
        mode: CreateMode,
        acl: Sequence[ACL] | None,
        is_contended: bool,
        on_deleting: Callable[[Departure], object],
    ) -> None:
        super().__init__(
            client, path, data, acl=acl, on_gone=lambda: None, is_contended=is_contended
        )
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

    @property
    def created_data(self) -> bytes:
        """The data of the last create."""
        return self._data

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
        # Waiting for the end of our own session would take forever. The application may have made
        # it, or an object of ours that does not know it yet.
        client, znodes = self._client, self._own_znodes
        if client.backend.is_session_shared:
            return znodes.is_from_lost_create(client, self._full_path, stat)
        return znodes.is_unclaimed(client, stat)

    def may_become_ours(self, stat: Stat) -> bool:
        """Whether another process that has our session may have made a znode, and may hold it."""
        return self._mode.is_ephemeral and self._own_znodes.is_left_behind(self._client, stat)

    def _is_from_lost_create(self, data: bytes, stat: Stat) -> bool:
        is_as_created = (data, stat.version) == (self._data, 0)
        if not self._mode.is_ephemeral:
            is_free = stat.czxid not in self._own_znodes.claimed
            return stat.ephemeral_owner == 0 and is_free and is_as_created
        is_ours = self._own_znodes.is_from_lost_create(self._client, self._full_path, stat)
        return is_ours and (is_as_created or not self._client.backend.is_session_shared)

    async def _find(self, path: str, session_id: int, found: Found) -> None:
        if path != self._path or not self.is_sequential:
            await super()._find(path, session_id, found)
            return
        client, folder, prefix = self._client, parent(path), basename(path)
        await catch_up(client, path)
        names = sorted(await listed(client.get_children(folder)))
        length = len(prefix) + SEQUENCE_DIGITS
        names = [name for name in names if name.startswith(prefix) and len(name) == length]
        is_found = False

        def first(created: Created) -> None:
            nonlocal is_found
            if not is_found:
                is_found = True
                found(created)

        def look_at(name: str) -> Reply[tuple[bytes, Stat]]:
            path = join(folder, name)
            look = client.get(path)
            look.add_done_callback(partial(self._look_answered, path, look, first))
            return look

        await look_at_all(names, look_at)

    # --- leaving ---------------------------------------------------------------------------------

    def _delete(self, node: RegisteredNode, watch: Watch | None) -> Departure:
        departure = super()._delete(node, watch)
        self._on_deleting(departure)
        return departure

    def _send_delete(self, node: RegisteredNode) -> Reply[None]:
        # By version: if others have set the data meanwhile, the delete fails, and it looks again.
        return self._client.delete(node.path, version=self.version)

    def _last_seen(self) -> tuple[bytes, int]:
        return self.wanted, self.version

    def _lost_create_looked(self) -> None:
        self._one_use_less()  # leaving does not wait for the second look

    def _lost_create_over(self) -> None:
        pass
