"""The two proofs that an ephemeral znode is ours: a unique name, and the czxid at a fixed path."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from ...abc import CoordinationClient, Reply
from ...errors import NoAuthError, NoNodeError
from ...model import ACL, Created, CreateMode, Stat
from ...paths import basename, join, sequence_of
from .ephemeral import EphemeralNode
from .reading import catch_up
from .znode_registry import NodeRegistry, RegisteredNode


class SerialNode(EphemeralNode):
    """A sequential znode whose name begins with the session and a serial of the client.

    No other znode ever has that name, so it proves that the znode is ours.
    """

    __slots__ = ()

    @abstractmethod
    def _prefix(self, session_id: int, serial: int) -> str:
        """The beginning of the name."""

    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        prefix = self._prefix(session_id, self._client.backend.serial())
        self._registry.expect(prefix)
        return join(self._path, prefix), CreateMode.EPHEMERAL_SEQUENTIAL

    def _settle_name(self, path: str) -> None:
        self._registry.settle(path[path.rindex("/") + 1 :])

    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        sequence = sequence_of(created.path)
        if sequence is None:
            raise AssertionError(f"a sequential znode without a number: {created.path}")
        node = RegisteredNode(created.path, sequence, created.stat.czxid, session_id)
        self._registry.claim(node.name, sequence)
        return node

    def _unclaim(self, node: RegisteredNode) -> None:
        self._registry.forget(node.name)

    async def _find(self, path: str) -> Created | None:
        # A claimed one does not count: another contender of ours would have had to wait for it,
        # found that nobody wanted it, and deletes it.
        client, above, prefix = self._client, self._path, basename(path)
        await catch_up(client, above)
        try:
            names = await client.get_children(above)
            found = [join(above, name) for name in names if name.startswith(prefix)]
            stat = await client.exists(found[0]) if found else None
        except NoNodeError:
            return None
        if stat is None or self._registry.is_claimed(basename(found[0])):
            return None
        return Created(found[0], stat)

    @staticmethod
    async def _delete_if_ours(client: CoordinationClient, node: RegisteredNode) -> None:
        await client.delete(node.path)


class FixedNode(EphemeralNode):
    """A znode at a path that others may have used before, and may use later.

    `registry` is that of the path or of a path above it; `on_gone` is called synchronously when
    others have deleted the znode.
    """

    __slots__ = ("_on_gone", "_on_over", "_uses")

    def __init__(
        self,
        client: CoordinationClient,
        registry: NodeRegistry,
        path: str,
        data: bytes,
        *,
        acl: Sequence[ACL] | None,
        on_gone: Callable[[], object],
    ) -> None:
        super().__init__(client, registry, path, data, acl)
        self._on_gone = on_gone
        self._on_over: Callable[[], object] | None = None
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
        return super().create()

    def _created(self, create: Reply[Created], path: str, session_id: int, since: int) -> None:
        super()._created(create, path, session_id, since)
        self._one_use_less()

    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        return self._path, CreateMode.EPHEMERAL

    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        self._uses += 1
        self._registry.claim_czxid(self._path, created.stat.czxid)
        return RegisteredNode(created.path, 0, created.stat.czxid, session_id)

    def _unclaim(self, node: RegisteredNode) -> None:
        self._registry.forget_czxid(node.token)
        self._one_use_less()

    def _note_lost(self, path: str, session_id: int, since: int) -> None:
        self._registry.note_lost(self._client, self._path, session_id, since)

    def _delete_lost_later(
        self, path: str, session_id: int, *, already_looked: bool = False
    ) -> None:
        self._uses += 1
        super()._delete_lost_later(path, session_id, already_looked=already_looked)

    def _lost_create_over(self) -> None:
        self._one_use_less()

    def _rouse(self) -> None:
        self._on_gone()

    def is_unclaimed(self, data: bytes, stat: Stat) -> bool:
        """Whether it seems to be from a lost create: our session, our data, unclaimed here."""
        return data == self._data and self._registry.is_unclaimed(self._client, self._path, stat)

    async def _find(self, path: str) -> Created | None:
        await catch_up(self._client, path)
        try:
            data, stat = await self._client.get(path)
        except NoNodeError:
            return None
        return Created(path, stat) if self.is_unclaimed(data, stat) else None

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
                stat = await client.set(node.path, data, version=stat.version)
        except NoAuthError:  # our own ACL forbids reading it
            seen = await client.exists(node.path)
            if seen is None:
                return
            stat = seen
        if node.is_shown_by(stat):
            await client.delete(node.path, version=stat.version)
