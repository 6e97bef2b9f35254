"""The lock that is one znode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, final

import anyio

from ...abc import CoordinationClient
from ...errors import NodeExistsError, NoNodeError
from ...model import ACL, CreateMode, EventType, Participant, SessionState, WatchEvent
from ...paths import basename, parent
from .._core.acquire import NodeAcquirable
from .._core.arguments import OnDisconnect
from .._core.error_policy import with_parent
from .._core.holding_recipe import HeldRecipe
from .._core.participants import read_participants
from .._core.reading import over_sessions
from .._core.reporting import OWNERLESS, PathWarnings
from .._core.tenure import Held
from ..contest import Contest
from ..naming import Fixed
from ..znode import Znode


@final
class ExclusiveLock(HeldRecipe[Held]):
    """A lock that is one ephemeral znode: the client that creates it holds the lock. Not fair.

        async with ExclusiveLock(client, "/jobs/nightly") as held: ...
        async with lock.acquire(timeout=5) as held: ...
        async with lock.try_acquire() as held:
            if held is not None: ...

    For locks that are mostly tried and rarely waited for: an attempt takes one request, and leaves
    nothing behind if the lock is held. A release wakes all waiters (thundering herd): n waiters
    cost n creates and 2n reads at each hand-over. With more than a few waiters, use `Lock`.

    Held and lost like a `Lock`. An operator who deletes the znode ends the hold. Another client may
    then create a znode at the path before we are notified; until then `held.fenced()` checks only
    the path, so guard exact writes by `held.token`.

    Args: as for `Lock`, without `layout`. `path` is the znode; missing parents become containers. A
    malformed one raises `ConfigurationError`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        contest = Contest.of(
            type(self).__name__,
            client,
            path,
            Held,
            _one_znode,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        super().__init__(contest)

    async def holders(self) -> list[Participant]:
        """Return the holder, or an empty list. May lag, as `Lock.holders`."""
        client, above, name = self._client, parent(self._path), basename(self._path)
        read = partial(read_participants, client, above, [name], is_holder=True)
        return await over_sessions(client, read)


def _one_znode(contest: Contest[Any]) -> _OneZnode:
    return _OneZnode(contest.client, contest.path, contest.data, contest.acl)


class _OneZnode(NodeAcquirable):
    def __init__(
        self, client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
    ) -> None:
        super().__init__(client, path, data, acl)
        self._naming = Fixed(client, path, is_contended=True)
        self._own = self._new_znode(self._naming)
        self._may_be_free = True
        self._is_ownerless = False

    def _znodes(self) -> Sequence[Znode]:
        return (self._own,)

    async def _try(self, *, waits: bool) -> bool:
        if await self._own.resolve():
            return True
        while not await self._create():
            # A look deletes an orphan: the znode of another process that had our session.
            if not (waits or self._client.backend.is_session_passed_on):
                return False
            self._may_be_free = False
            while not self._may_be_free:
                if await self._is_ours_after_all():
                    return True
                if not waits:
                    return False
                await self._sleep()
        return True

    async def _create(self) -> bool:
        """Send one create; return False if the znode exists already."""
        try:
            await with_parent(
                self._client,
                parent(self._path),
                self._own.create,
                mode=CreateMode.CONTAINER,
                acl=self._acl,
            )
        except NodeExistsError:
            return False
        self._is_new = True
        return True

    async def _is_ours_after_all(self) -> bool:
        """Watch the existing znode, unless a create of ours whose answer was lost made it."""
        self._wake = anyio.Event()
        self._leave_watches()
        self._is_ownerless = False
        try:
            watch = self._watch(self._on_event)
            stat = await self._own.look_for_ours(self._naming, watch)
        except NoNodeError:
            self._may_be_free = True
            self._wake.set()
            return False
        if stat is not None and not stat.ephemeral_owner:
            self._is_ownerless = True
            self._client.backend.shared(self._path, PathWarnings).warn_of_ownerless(self._path)
        return stat is None

    def obstacle(self) -> str:
        return f"{self._path} {OWNERLESS}" if self._is_ownerless else ""

    def _on_event(self, event: WatchEvent) -> None:
        # A holder that leaves changes its znode before it deletes it.
        self._may_be_free = self._may_be_free or event.type is not EventType.DATA_CHANGED
        self._wake.set()

    def _on_state(self, state: SessionState, session_id: int) -> None:
        self._may_be_free = True
        super()._on_state(state, session_id)
