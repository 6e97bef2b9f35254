"""The contender queue of a recipe: it makes the recipe's contenders, and lists all of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar, final

from ..abc import CoordinationClient, Reply
from ..errors import BadVersionError, ConfigurationError, NoNodeError
from ..model import ACL, Participant, Stat
from ..paths import basename, join
from .hold import Tenure
from .holding import Contest, Kind
from .kernel import holding
from .layouts import Layout, Role
from .naming import Sequential
from .neighbours import queue_order
from .queue_place import Contender, LocalContenders, queue_naming
from .reading import MAX_DATA, asking, is_request, listed, over_sessions, participant, read_children
from .recipe import OnDisconnect, checked_client, checked_path

T = TypeVar("T", bound=Tenure)
Entry = tuple[Participant, bytes, Stat]


@final
class ContenderQueue:
    """A path with a queue of contenders, of whom the first `places` hold.

    Args:
        recipe: the name of the recipe's class, for errors.
        contender: the class of its contenders.
        shown: the role to which `contenders`, `holders` and `revoke` are limited, of the two of a
            shared queue; None for all.

    Raises `ConfigurationError` if an argument is malformed.
    """

    def __init__(
        self,
        recipe: str,
        client: CoordinationClient,
        path: str,
        layout: Layout,
        role: Role,
        *,
        places: int = 1,
        contender: type[Contender] = Contender,
        shown: Role | None = None,
    ) -> None:
        if not isinstance(layout, Layout):
            raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
        layout._require(recipe, role)
        self.recipe = recipe
        self.client = checked_client(client)
        self.path = checked_path(path)
        self.layout = layout
        self.role = role
        self.places = places
        # The knowledge about the queue outlives a contender.
        self._local = self.client.backend.shared(path, LocalContenders)
        self._naming: Sequential | None = None
        """That of all contenders; made with the first of them."""
        self._contender = contender
        self._shown = shown

    def contest(
        self,
        kind: Kind[T],
        *,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
        **more: Any,
    ) -> Contest[T]:
        """Make the contest of the recipe, whose attempts are contenders; see `Contest.of`."""
        return Contest.of(
            self.recipe,
            self.client,
            self.path,
            kind,
            self.contend,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            **more,
        )

    def contend(self, contest: Contest[Any]) -> Contender:
        """Make a contender, with nothing sent yet: the attempt of a contest."""
        if self._naming is None:
            self._naming = queue_naming(
                self.client, self._local, self.path, self.layout, self.role, self.places
            )
        return self._contender(
            self.client,
            self.path,
            self.layout,
            self.role,
            contest.data,
            contest.acl,
            self._local,
            self.places,
            self._naming,
        )

    # --- who is there --------------------------------------------------------------------------

    async def contenders(self) -> list[Participant]:
        """Return the contenders in order, without any that leaves between the two round trips."""
        return [who for who, _, _ in await self._entries()]

    async def holders(self) -> list[Participant]:
        """Return the contenders that hold, in order."""
        return [who for who in await self.contenders() if who.is_holder]

    async def revoke(self) -> list[Participant]:
        """Ask the holders to release, except those asked before; return those asked now."""
        asked: list[tuple[Participant, Reply[Stat]]] = []
        for who, data, stat in await self._entries():
            if not who.is_holder or is_request(data):
                continue
            name = basename(who.path)
            request = asking(data, is_ours=self.layout._is_like_ours(self._role_of(name), name))
            # By version: if others have asked meanwhile, that is enough.
            asked.append((who, self.client.set(who.path, request, version=stat.version)))
        for _, answer in asked:
            with suppress(NoNodeError, BadVersionError):
                await answer
        return [who for who, _ in asked]

    def _role_of(self, name: str) -> Role:
        if not self.role.shares:
            return self.role
        return Role.READ if self.layout._is_reader(name) else Role.WRITE

    async def _entries(self) -> list[Entry]:
        return await over_sessions(self.client, self._read)

    async def _read(self) -> list[Entry]:
        client, path, layout, role = self.client, self.path, self.layout, self.role
        names = await listed(client.get_children(path))
        queue = await queue_order(client, path, names, layout, role)
        found = await read_children(client, path, queue, most=MAX_DATA)
        holders = holding(list(found), self.places, layout, role)
        return [
            (participant(join(path, name), data, stat, is_holder=n < holders), data, stat)
            for n, (name, (data, stat)) in enumerate(found.items())
            if self._shown in (None, self._role_of(name))
        ]


# --- public methods of locks, which have it as `_queue`: to be assigned in their bodies ----------


Inquiry: TypeAlias = Callable[[Any], Coroutine[Any, Any, list[Participant]]]
"""The type of the methods below. A class that has them names it, for readers and checkers."""


async def holders(self: Any) -> list[Participant]:
    """Return the holders. The server may lag: call `client.sync()` first where that matters."""
    queue: ContenderQueue = self._queue
    return await queue.holders()


async def contenders(self: Any) -> list[Participant]:
    """Return the holders and the waiters, in queue order. May lag, as `holders`."""
    queue: ContenderQueue = self._queue
    return await queue.contenders()


async def revoke(self: Any) -> list[Participant]:
    """Ask the present holders to release; return those that were not asked before.

    Any process may call this, and no holder is forced. A holder checks
    `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
    notified if it is revocable.

    Raises:
        ConnectionLossError: the connection was lost before all answers came; it is safe to
            retry.
        ServerError: the servers refused the write, by `NoAuthError` for instance.
    """
    queue: ContenderQueue = self._queue
    return await queue.revoke()
