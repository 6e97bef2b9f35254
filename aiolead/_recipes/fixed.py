"""The naming of a znode at a fixed path, which others may have used before, and may use later.

Neither the path nor the session proves that it is ours: see `naming`, which has what all namings
share. No lock in a queue needs this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from ..abc import CoordinationClient, Reply, Watch
from ..errors import NoAuthError, NoNodeError, RequestRefusedError
from ..model import ACL, Created, CreateMode, Stat
from ..paths import basename
from .naming import (
    Departure,
    Found,
    Naming,
    Over,
    OwnZnodes,
    PendingDelete,
    RegisteredNode,
    Sent,
    write_as_sole,
)
from .reading import catch_up
from .znode import Znode

T = TypeVar("T")


async def write_anyhow(_client: CoordinationClient, send: Callable[[], Reply[T]]) -> T:
    """Send a write that is right over any connection."""
    return await send()


Write = Callable[[CoordinationClient, Callable[[], Reply[Any]]], Awaitable[Any]]
"""How to send a write: `write_as_sole` or `write_anyhow`."""


def proven_delete(
    client: CoordinationClient,
    naming: Naming,
    node: RegisteredNode,
    watch: Watch | None,
    over: Over,
    *,
    data: bytes,
    version: int,
) -> Departure:
    """A pending delete that begins with a proof; `data` and `version` are those last seen.

    A delete goes by name and version, and all new znodes have the same version. So ours gets
    another one, and the answer shows whether it was ours.
    """
    proof = client.set(node.path, data, version=version)
    delete = partial(_delete_proven, client, node)
    return PendingDelete(client, naming, node, proof, over, delete, watch=watch)


def _delete_proven(
    client: CoordinationClient, node: RegisteredNode, stat: Stat
) -> Reply[None] | None:
    if not node.is_shown_by(stat):
        return None
    return client.delete(node.path, version=stat.version)


class Fixed:
    """The naming of a znode at one path.

    `is_contended`: others may create a znode at the path as soon as ours is gone. Then a delete by
    path could hit theirs, so ours is proven to be there first. `is_unique`: nobody else creates a
    znode at the path, since its name has a serial of this client. So whatever our session owns
    there is ours, also with data that others have set.
    """

    __slots__ = ("_client", "_is_contended", "_is_unique", "path", "registry")

    is_late_create_awaited = True

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        is_contended: bool,
        is_unique: bool = False,
    ) -> None:
        self._client = client
        self._is_contended = is_contended
        self._is_unique = is_unique
        self.path: str = path
        self.registry: OwnZnodes = OwnZnodes.of(client)

    @property
    def full_path(self) -> str:
        return self._client.backend.full_path(self.path)

    def send_create(self, _session_id: int, data: bytes, acl: Sequence[ACL] | None) -> Sent:
        path, mode = self.path, CreateMode.EPHEMERAL
        return self._client.create(path, data, mode=mode, acl=acl), path, mode

    def settle(self, path: str) -> None:
        """Nothing to record: what is at the path is judged by its czxid."""

    def note_lost(self, _path: str, session_id: int, since: int) -> None:
        # It is kept for as long as the session lives: the create may be applied very late.
        if session_id != self._client.session_id:
            return  # nothing of that session is left, nor may come
        registry = self.registry
        if session_id != registry.lost_in:
            registry.lost_in = session_id
            registry.lost.clear()
        registry.lost.setdefault(self.full_path, []).append(since)

    def _settle_lost(self, czxid: int) -> None:
        """Remove the lost create that has made a znode, if one has; it makes no other."""
        lost, path = self.registry.lost, self.full_path
        sent = lost.get(path, [])
        made = next((since for since in sent if czxid > since), None)
        if made is not None:
            sent.remove(made)
            if not sent:
                del lost[path]

    def claim(self, created: Created, session_id: int, since: int | None = None) -> RegisteredNode:
        token = created.stat.czxid
        if since is None:
            self._settle_lost(token)
        self.registry.claimed[token] = None
        return RegisteredNode(created.path, basename(created.path), 0, token, session_id)

    def unclaim(self, node: RegisteredNode) -> None:
        self.registry.claimed.pop(node.token, None)

    def may_adopt(self) -> bool:
        # If another process may have made it, it may have held under the same fencing token.
        return self._is_unique or not self._client.backend.is_session_passed_on

    # --- whether an existing znode is ours -------------------------------------------------------

    def is_from_lost_create(self, stat: Stat) -> bool:
        """Whether what is at the path is from a lost create of this client."""
        registry = self.registry
        return (
            registry.lost_in == self._client.session_id
            and any(stat.czxid > since for since in registry.lost.get(self.full_path, ()))
            and self.is_unclaimed(stat)
        )

    def is_unclaimed(self, stat: Stat) -> bool:
        """Whether our session owns a znode that no recipe here has, and no other process holds."""
        return self._is_unknown(stat) and self._client.backend.sole_in() <= 0.0

    def _is_unknown(self, stat: Stat) -> bool:
        is_claimed = stat.czxid in self.registry.claimed
        return stat.ephemeral_owner == self._client.session_id != 0 and not is_claimed

    def may_be_from(self, seen: bytes, data: bytes) -> bool:
        """Whether a znode of our session with these data may be from a create with `data`.

        The former owner of the path changes the data of the next one, if it believes to delete its
        own znode. Only in a session that another library shares do data say whose it is.
        """
        return seen == data or not self._client.backend.is_session_shared

    def is_left_behind(self, stat: Stat) -> bool:
        """Whether another process that had our session has made a znode, as far as can be known.

        The application may have made it itself. That only counts as another's if other processes
        may have the session, and no other library uses it in this one.
        """
        backend = self._client.backend
        is_passed_on = backend.is_session_passed_on and not backend.is_session_shared
        return is_passed_on and self._is_unknown(stat)

    def judge(self, stat: Stat, *, is_ours: bool) -> bool:
        """Whether to take what is at the path; it is deleted if another process has left it."""
        if not self.is_left_behind(stat):
            return is_ours
        self.registry.delete_orphan(self._client, self.path, stat, self._delete_as_sole)
        return False

    async def find(self, path: str, session_id: int, data: bytes, found: Found) -> None:
        def is_ours(seen: bytes, stat: Stat) -> bool:
            if self._is_unique:
                is_claimed = stat.czxid in self.registry.claimed
                return stat.ephemeral_owner == session_id and not is_claimed
            return self.may_be_from(seen, data) and self.is_from_lost_create(stat)

        await find_at(self._client, path, is_ours, found)

    # --- deleting --------------------------------------------------------------------------------

    def delete(
        self, node: RegisteredNode, data: bytes, watch: Watch | None, over: Over
    ) -> Departure:
        client = self._client
        if not self._is_contended:
            delete = client.delete(node.path)
            return PendingDelete(client, self, node, delete, over, watch=watch)
        return proven_delete(client, self, node, watch, over, data=data, version=0)

    async def delete_if_ours(self, node: RegisteredNode) -> None:
        await self._delete_if_shown(node, write_anyhow)

    async def _delete_as_sole(self, node: RegisteredNode) -> None:
        await self._delete_if_shown(node, write_as_sole)

    async def _delete_if_shown(self, node: RegisteredNode, write: Write) -> None:
        # A lost delete may have been applied, and the path be another owner's by now. A lagging
        # server may not know that yet, so it catches up first.
        client = self._client
        await catch_up(client, node.path)
        try:
            data, stat = await client.get(node.path)
            if node.is_shown_by(stat):
                # A held-back delete and a new create of ours may be applied in between. A delete
                # goes by name and version, and all new znodes have the same version: so it is
                # changed first.
                change = partial(client.set, node.path, version=stat.version)
                try:
                    stat = await write(client, partial(change, data))
                except RequestRefusedError:  # the limit was lowered: other data do as well
                    stat = await write(client, partial(change, b""))
        except NoAuthError:  # our own ACL forbids reading it
            seen = await client.exists(node.path)
            if seen is None:
                return
            stat = seen
        if node.is_shown_by(stat):
            delete = partial(client.delete, node.path, version=stat.version)
            await write(client, delete)


async def find_at(
    client: CoordinationClient, path: str, is_ours: Callable[[bytes, Stat], bool], found: Found
) -> None:
    """Look for the znode of a lost create at a path; see `Naming.find`."""
    await catch_up(client, path)
    look = client.get(path)
    look.add_done_callback(partial(found_by, path, look, is_ours, found))
    with suppress(NoNodeError):
        await look


def found_by(
    path: str, look: Reply[Any], is_ours: Callable[[bytes, Stat], bool], found: Found
) -> None:
    """Call `found` if a look that was answered shows a znode that is ours."""
    if look.error() is None:
        data, stat = look.result()
        if is_ours(data, stat):
            found(Created(path, stat))


async def look_for_ours(
    client: CoordinationClient, znode: Znode, naming: Fixed, watch: Watch
) -> Stat | None:
    """Look at what is at the path of a znode, and watch it; return None if it is ours after all.

    `naming` is that of the znode. It is ours if a create made it whose answer was lost, of this or
    of another object. One that another process has left in our session is deleted, which fires the
    watch. Raises `NoNodeError`, and errors of reads.
    """

    def judge(seen: tuple[bytes, Stat]) -> None:
        data, stat = seen
        is_ours = naming.may_be_from(data, znode.data) and naming.is_from_lost_create(stat)
        if naming.judge(stat, is_ours=is_ours):
            znode.take(Created(naming.path, stat))

    look = client.get(naming.path, watch=watch)
    znode.find_by(look, judge)
    _, stat = await look
    return stat if znode.current is None else None
