"""Ephemeral znodes that a unique name proves to be ours."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ...abc import CoordinationClient
from ...errors import NoNodeError
from ...model import ACL, Created, CreateMode
from ...paths import basename, join
from .catching_up import catch_up
from .ephemeral import EphemeralNode
from .znode_registry import NodeRegistry, RegisteredNode


class SerialNode(EphemeralNode):
    """A sequential znode whose name begins with the session and a serial of the client.

    No other znode ever has that name, so it proves that the znode is ours.
    """

    __slots__ = ("_path",)

    def __init__(
        self,
        client: CoordinationClient,
        registry: NodeRegistry,
        path: str,
        data: bytes,
        *,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, registry, data, acl=acl)
        self._path = path

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
        node = RegisteredNode.of(created, session_id)
        self._registry.claim(node.name, node.sequence)
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
