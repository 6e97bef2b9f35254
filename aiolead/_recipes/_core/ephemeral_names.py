"""Ephemeral znodes by how they are named: sequential with a unique name, and at a fixed path.

The name says how a znode is found again whose create lost its answer: see `znode_registry`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...abc import CoordinationClient, Reply, Watch
from ...errors import NoAuthError, NoNodeError, RequestRefusedError
from ...model import ACL, Created, CreateMode, Stat
from ...paths import basename, join, sequence_of
from .ephemeral import EphemeralNode, Found
from .pending_delete import Departure, PendingDelete
from .reading import catch_up, listed, look_at_all
from .znode_registry import OwnNames, OwnZnodes, RegisteredNode


class SerialNode(EphemeralNode):
    """A sequential znode whose name begins with the session and a serial of the client.

    No other znode of that session ever has that name. `names` are those of this client's znodes in
    the folder `path`.
    """

    __slots__ = ("_names",)

    def __init__(
        self,
        client: CoordinationClient,
        names: OwnNames,
        path: str,
        data: bytes,
        acl: Sequence[ACL] | None,
    ) -> None:
        if names.znodes is None:
            names.znodes = OwnZnodes.of(client)
        super().__init__(client, names.znodes, path, data, acl)
        self._names = names

    @abstractmethod
    def _prefix(self, session_id: int, serial: int) -> str:
        """The beginning of the name."""

    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        prefix = self._prefix(session_id, self._client.backend.serial())
        self._names.expect(prefix)
        return join(self._path, prefix), CreateMode.EPHEMERAL_SEQUENTIAL

    def _settle_name(self, path: str) -> None:
        self._names.settle(path[path.rindex("/") + 1 :])

    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        sequence = sequence_of(created.path)
        if sequence is None:
            raise AssertionError(f"a sequential znode without a number: {created.path}")
        node = RegisteredNode(created.path, sequence, created.stat.czxid, session_id)
        self._names.claim(node.name, sequence)
        self._own_znodes.claimed[node.token] = None
        return node

    def _unclaim(self, node: RegisteredNode) -> None:
        self._names.forget(node.name)
        self._own_znodes.claimed.pop(node.token, None)

    async def _find(self, path: str, session_id: int, found: Found) -> None:
        client, above, prefix = self._client, self._path, basename(path)
        await catch_up(client, above)
        names = await listed(client.get_children(above))
        # A writer that may create can forge the prefix, so all candidates are looked at.

        def look_at(name: str) -> Reply[Stat | None]:
            look = client.exists(join(above, name))
            look.add_done_callback(partial(self._look_answered, name, look, session_id, found))
            return look

        await look_at_all([name for name in names if name.startswith(prefix)], look_at)

    def _look_answered(
        self, name: str, look: Reply[Stat | None], session_id: int, found: Found
    ) -> None:
        stat = None if look.error() else look.result()
        if stat is None or stat.ephemeral_owner != session_id:
            return
        # A claimed one does not count: another contender of ours would have had to wait for it,
        # found that nobody wanted it, and deletes it.
        if not self._names.is_claimed(name):
            found(Created(join(self._path, name), stat))

    @staticmethod
    async def _delete_if_ours(client: CoordinationClient, node: RegisteredNode) -> None:
        await client.delete(node.path)


class FixedNode(EphemeralNode):
    """A znode at a path that others may have used before, and may use later.

    `on_gone` is called synchronously when others have deleted the znode. `is_contended`: others may
    create a znode at the path as soon as ours is gone. Then a delete by path could hit theirs, so
    ours is proven to be there first.
    """

    __slots__ = ("_finding", "_is_contended", "_on_gone", "_on_over", "_uses")

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes,
        *,
        acl: Sequence[ACL] | None,
        on_gone: Callable[[], object],
        is_contended: bool,
    ) -> None:
        super().__init__(client, OwnZnodes.of(client), path, data, acl)
        self._on_gone = on_gone
        self._is_contended = is_contended
        self._on_over: Callable[[], object] | None = None
        self._finding: Reply[Any] | None = None
        """The look that may show that we have the znode at the path."""
        self._uses = 0
        """Unanswered creates, znodes of ours, and searches for lost creates."""

    def when_over(self, call: Callable[[], object]) -> None:
        """Register a callback for when no znode of ours is there, nor may come.

        Called synchronously, perhaps at once. Register it only after giving the znode up.
        """
        self._on_over = call
        self._check_over()

    def _one_use_less(self) -> None:
        self._uses -= 1
        self._check_over()

    def _check_over(self) -> None:
        call = self._on_over
        if call is not None and not self._uses:
            self._on_over = None
            call()

    # --- creating --------------------------------------------------------------------------------

    def create(self) -> Reply[Created]:
        self._uses += 1
        try:
            return super().create()
        except BaseException:
            self._one_use_less()
            raise

    def _created(self, create: Reply[Created], path: str, session_id: int, since: int) -> None:
        super()._created(create, path, session_id, since)
        self._one_use_less()

    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        return self._path, CreateMode.EPHEMERAL

    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        self._uses += 1
        self._own_znodes.claimed[created.stat.czxid] = None
        return RegisteredNode(created.path, 0, created.stat.czxid, session_id)

    def _claim_found(self, created: Created, session_id: int) -> RegisteredNode:
        self._own_znodes.settle_lost(self._full_path, created.stat.czxid)
        return super()._claim_found(created, session_id)

    def _unclaim(self, node: RegisteredNode) -> None:
        self._own_znodes.claimed.pop(node.token, None)
        self._one_use_less()

    @property
    def _full_path(self) -> str:
        return self._client.backend.full_path(self._path)

    def _note_lost(self, path: str, session_id: int, since: int) -> None:
        self._own_znodes.note_lost(self._full_path, session_id, since)

    def _delete_lost_later(
        self, path: str, session_id: int, *, already_looked: bool = False
    ) -> None:
        self._uses += 1
        super()._delete_lost_later(path, session_id, already_looked=already_looked)

    def _lost_create_over(self) -> None:
        self._one_use_less()

    def _rouse(self) -> None:
        self._on_gone()

    # --- whether an existing znode is ours -------------------------------------------------------

    def _is_from_lost_create(self, data: bytes, stat: Stat) -> bool:
        is_ours = self._own_znodes.is_from_lost_create(self._client, self._full_path, stat)
        return is_ours and data == self._data

    async def _find(self, path: str, session_id: int, found: Found) -> None:
        await catch_up(self._client, path)
        look = self._client.get(path)
        look.add_done_callback(partial(self._look_answered, path, look, found))
        with suppress(NoNodeError):
            await look

    def _look_answered(self, path: str, look: Reply[tuple[bytes, Stat]], found: Found) -> None:
        if look.error() is None:
            data, stat = look.result()
            if self._is_from_lost_create(data, stat):
                found(Created(path, stat))

    async def look_for_ours(self, watch: Watch) -> Stat | None:
        """Look at the znode that is there, and watch it; return None if it is ours after all.

        It is ours if a create made it whose answer was lost, of this or of another object. One that
        another process has left in our session is deleted, which fires the watch. Raises
        `NoNodeError`, and errors of reads.
        """
        look = self._finding = self._client.get(self._path, watch=watch)
        look.add_done_callback(partial(self._ours_answered, look))
        _, stat = await look
        return stat if self._node is None else None

    def _ours_answered(self, look: Reply[tuple[bytes, Stat]]) -> None:
        if self._finding is not look:
            return  # given up meanwhile
        self._finding = None
        if look.error() is None:
            data, stat = look.result()
            self._judge(stat, is_ours=self._is_from_lost_create(data, stat))

    def _judge(self, stat: Stat, *, is_ours: bool) -> None:
        client, znodes = self._client, self._own_znodes
        if znodes.is_left_behind(client, stat):
            znodes.delete_orphan(client, self._path, stat, partial(self._delete_if_ours, client))
        elif is_ours:
            self.take(Created(self._path, stat))

    def withdraw(self) -> Departure | None:
        self._finding = None
        return super().withdraw()

    def _adopt(self, create: Reply[Created], path: str, created: Created) -> None:
        # If another process may have made it, it may have held under the same fencing token.
        if not self._client.backend.is_session_passed_on:
            super()._adopt(create, path, created)

    # --- leaving ---------------------------------------------------------------------------------

    def _delete(self, node: RegisteredNode, watch: Watch | None) -> Departure:
        if not self._is_contended:
            return super()._delete(node, watch)
        # A delete goes by name and version, and all new znodes have the same version. So ours gets
        # another one, and the answer shows whether it was ours.
        client = self._client
        data, version = self._last_seen()
        proof = client.set(node.path, data, version=version)
        if watch is not None:
            proof.add_done_callback(watch.close)
        later = partial(self._delete_until_gone, client, node)
        over, delete = partial(self._unclaim, node), partial(self._delete_proven, node)
        return PendingDelete(client, node.path, proof, later, over, delete)

    def _last_seen(self) -> tuple[bytes, int]:
        """The data and the version of the znode."""
        return self._data, 0

    def _delete_proven(self, node: RegisteredNode, stat: Stat) -> Reply[None] | None:
        if not node.is_shown_by(stat):
            return None
        return self._client.delete(node.path, version=stat.version)

    @staticmethod
    async def _delete_if_ours(client: CoordinationClient, node: RegisteredNode) -> None:
        # A lost delete may have been applied, and the path be another owner's by now. A lagging
        # server may not know that yet, so it catches up first.
        await catch_up(client, node.path)
        try:
            data, stat = await client.get(node.path)
            if node.is_shown_by(stat):
                # A held-back delete and a new create of ours may be applied in between. A delete
                # goes by name and version, and all new znodes have the same version: so it is
                # changed first.
                try:
                    stat = await client.set(node.path, data, version=stat.version)
                except RequestRefusedError:  # the limit was lowered: other data do as well
                    stat = await client.set(node.path, b"", version=stat.version)
        except NoAuthError:  # our own ACL forbids reading it
            seen = await client.exists(node.path)
            if seen is None:
                return
            stat = seen
        if node.is_shown_by(stat):
            await client.delete(node.path, version=stat.version)
