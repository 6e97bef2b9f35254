"""The base of every recipe with a contender queue: it lists the contenders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, TypeVar

from ...abc import CoordinationClient, Reply
from ...errors import BadVersionError, ConfigurationError, NoNodeError
from ...model import ACL, Participant, Stat
from ...paths import basename, join
from .._core.arguments import OnDisconnect
from .._core.holding_recipe import HoldingRecipe
from .._core.participants import MAX_DATA, asking, is_request, participant
from .._core.reading import listed, over_sessions, read_children
from .._core.tenure import Tenure
from ..naming import Sequential
from .contender import Contender
from .kernel import holding
from .layouts import Layout, Role
from .neighbours import queue_order
from .queue_znode import LocalContenders, queue_naming

T = TypeVar("T", bound=Tenure)


class QueuedRecipe(HoldingRecipe[T]):
    """A path with a contender queue, whose first contenders hold it."""

    _role: ClassVar[Role]
    _contender: ClassVar[type[Contender]] = Contender
    _places = 1
    """How many contenders may hold at once."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        if not isinstance(layout, Layout):
            raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
        layout._require(type(self).__name__, self._role)
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._layout = layout
        # The knowledge about the queue outlives a contender.
        self._local = self._client.backend.shared(path, LocalContenders)
        self._naming: Sequential | None = None
        """That of all contenders; made with the first of them."""

    def _acquirable(self) -> Contender:
        if self._naming is None:
            self._naming = queue_naming(
                self._client, self._local, self._path, self._layout, self._role, self._places
            )
        return self._contender(
            self._client,
            self._path,
            self._layout,
            self._role,
            self._data,
            self._acl,
            self._local,
            self._places,
            self._naming,
        )

    async def _contenders(self) -> list[Participant]:
        """The contenders in order, in two round trips, without any that leaves in between."""
        return [who for who, _, _ in await self._contenders_with_data()]

    async def _contenders_with_data(self) -> list[tuple[Participant, bytes, Stat]]:
        return await over_sessions(self._client, self._read_contenders)

    async def _read_contenders(self) -> list[tuple[Participant, bytes, Stat]]:
        client, path, layout, role = self._client, self._path, self._layout, self._role
        names = await listed(client.get_children(path))
        queue = await queue_order(client, path, names, layout, role)
        found = await read_children(client, path, queue, most=MAX_DATA)
        holders = holding(list(found), self._places, layout, role)
        return [
            (participant(join(path, name), data, stat, is_holder=n < holders), data, stat)
            for n, (name, (data, stat)) in enumerate(found.items())
        ]

    async def _revoke(self, roles: Sequence[Role]) -> list[Participant]:
        """Ask the holders to release, except those asked before; return those asked now.

        `roles` selects among the readers and writers of a shared queue.
        """
        asked: list[tuple[Participant, Reply[Stat]]] = []
        for who, data, stat in await self._contenders_with_data():
            name = basename(who.path)
            role = Role.READ if self._layout._is_reader(name) else Role.WRITE
            if not who.is_holder or is_request(data) or (role not in roles and self._role.shares):
                continue
            is_ours = self._layout._is_like_ours(role if self._role.shares else self._role, name)
            request = asking(data, is_ours=is_ours)
            # By version: if others have asked meanwhile, that is enough.
            asked.append((who, self._client.set(who.path, request, version=stat.version)))
        for _, answer in asked:
            with suppress(NoNodeError, BadVersionError):
                await answer
        return [who for who, _ in asked]
