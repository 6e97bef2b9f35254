"""The naming of what persistent nodes keep: ephemeral, ephemeral and sequential, or persistent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...abc import CoordinationClient, Reply, Watch
from ...model import ACL, Created, CreateMode, Stat
from ...paths import basename, join, parent
from .._core.pending_delete import Departure
from .._core.reading import catch_up, listed, look_at_all
from .._core.znode_registry import SEQUENCE_DIGITS, RegisteredNode
from ..naming import Fixed, Found, find_at, found_by, plain_delete, proven_delete


class Keepers:
    """The keepers of one client's persistent nodes at, or below, one path, by their paths."""

    def __init__(self) -> None:
        self.by_path: dict[str, object] = {}


class Kept:
    """The naming of a znode that is created again and again, always at the same path.

    A sequential one keeps the number that the server assigns first. A persistent one has no owner:
    an existing one is adopted. `data` is what the znode should have. `on_deleting` is called,
    synchronously, with each of its deletes.
    """

    is_late_create_awaited = False
    """Leaving does not wait for the second look."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes,
        *,
        mode: CreateMode,
        is_contended: bool,
        on_deleting: Callable[[Departure], object],
    ) -> None:
        self._client = client
        self._fixed = Fixed(client, path, is_contended=is_contended)
        self._path = path
        self._mode = mode
        self._is_contended = is_contended
        self._on_deleting = on_deleting
        self.wanted = data
        """The data that it should have."""
        self.name: str | None = None if self.is_sequential else path
        """The path of the znode, also while it does not exist; None before its number is known."""
        self.version = self.mzxid = 0
        """Of the data last seen."""

    @property
    def is_sequential(self) -> bool:
        return self._mode is CreateMode.EPHEMERAL_SEQUENTIAL

    def saw(self, stat: Stat) -> None:
        self.version, self.mzxid = stat.version, stat.mzxid

    # --- creating --------------------------------------------------------------------------------

    def next_name(self, _session_id: int) -> tuple[str, CreateMode]:
        if self.name is None:
            return self._path, self._mode
        # A sequential znode keeps its number, as with Curator.
        return self.name, CreateMode.EPHEMERAL if self.is_sequential else self._mode

    def send_create(
        self, path: str, data: bytes, mode: CreateMode, acl: Sequence[ACL] | None
    ) -> Reply[Created]:
        return self._fixed.send_create(path, data, mode, acl)

    def settle(self, path: str) -> None:
        self._fixed.settle(path)

    def note_lost(self, path: str, session_id: int, since: int) -> None:
        self._fixed.note_lost(path, session_id, since)

    def claim_created(self, create: Reply[Created], session_id: int, since: int) -> RegisteredNode:
        self.saw(create.result().stat)
        return self._fixed.claim_created(create, session_id, since)

    def claim_found(self, created: Created, session_id: int) -> RegisteredNode:
        self.saw(created.stat)
        return self._fixed.claim_found(created, session_id)

    def unclaim(self, node: RegisteredNode) -> None:
        self._fixed.unclaim(node)

    # --- whether an existing znode is ours -------------------------------------------------------

    def may_adopt(self) -> bool:
        return self._fixed.may_adopt()

    def is_ours(self, stat: Stat) -> bool:
        """Whether an existing znode is ours, or ours to share."""
        if not self._mode.is_ephemeral:
            return stat.ephemeral_owner == 0
        # Waiting for the end of our own session would take forever. The application may have made
        # it, or an object of ours that does not know it yet.
        client = self._client
        if client.backend.is_session_shared:
            return self._fixed.is_from_lost_create(stat)
        return self._fixed.registry.is_unclaimed(client, stat)

    def may_become_ours(self, stat: Stat) -> bool:
        """Whether another process that has our session may have made a znode, and may hold it."""
        return self._mode.is_ephemeral and self._fixed.is_left_behind(stat)

    def _is_from_lost_create(self, created: bytes, data: bytes, stat: Stat) -> bool:
        is_as_created = (data, stat.version) == (created, 0)
        if not self._mode.is_ephemeral:
            is_free = stat.czxid not in self._fixed.registry.claimed
            return stat.ephemeral_owner == 0 and is_free and is_as_created
        is_ours = self._fixed.is_from_lost_create(stat)
        return is_ours and (is_as_created or not self._client.backend.is_session_shared)

    async def find(self, path: str, _session_id: int, data: bytes, found: Found) -> None:
        is_ours = partial(self._is_from_lost_create, data)
        if path != self._path or not self.is_sequential:
            await find_at(self._client, path, is_ours, found)
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
            look.add_done_callback(partial(found_by, path, look, is_ours, first))
            return look

        await look_at_all(names, look_at)

    # --- deleting --------------------------------------------------------------------------------

    def delete(
        self, node: RegisteredNode, _data: bytes, watch: Watch | None, over: Callable[[], object]
    ) -> Departure:
        # By version: if others have set the data meanwhile, the delete fails, and it looks again.
        client, version = self._client, self.version
        if self._is_contended:
            departure = proven_delete(
                client, self, node, watch, over, data=self.wanted, version=version
            )
        else:
            departure = plain_delete(client, self, node, watch, over, version=version)
        self._on_deleting(departure)
        return departure

    async def delete_if_ours(self, node: RegisteredNode) -> None:
        await self._fixed.delete_if_ours(node)
