"""The lock that is one znode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import anyio

from ...abc import CoordinationClient, Hold, Watch
from ...errors import LossReason, NodeExistsError, NoNodeError
from ...model import ACL, Created, CreateMode, Participant
from ...paths import parent
from .._core.acquire_loop import AcquireLoop
from .._core.arguments import OnDisconnect
from .._core.entered import HeldRecipe
from .._core.fixed import FixedNode
from .._core.pending_delete import Departure
from .._core.znode_registry import NodeRegistry, RegisteredNode

PARENT_TRIES = 10
"""How often the parent is made anew for one try: servers reap empty containers."""


@final
class ExclusiveLock(HeldRecipe):
    """A lock that is one ephemeral znode: whoever creates it has it. Simple, and not fair.

        async with ExclusiveLock(client, "/jobs/nightly") as held: ...
        async with lock.acquire(timeout=5) as held: ...
        async with lock.try_acquire() as held:
            if held is not None: ...

    For what is mostly tried, and hardly ever waited for: trying takes one request, and leaves
    nothing behind if somebody else has it. All who wait are woken when it is released, and one of
    them gets it, whoever is quickest: n waiters cost n creates at each hand-over. Where more than a
    few wait, use `Lock`.

    Held, and lost, as a `Lock` is. An operator who deletes the znode ends the hold; whoever creates
    it then has a znode at the same path, so `held.fenced()` goes by nothing more than that path in
    the moment until we are told: what must be exact goes by `held.token`.

    Args:
        client: the session that holds it.
        path: the znode; what is missing above it is created, as containers.
        identity: what others see as the holder; host name and process id by default.
        on_disconnect: what becomes of a held lock when the link is lost: `"keep"` keeps it while
            the lease lasts, `"resign"` gives it up at once.
        acl: of the znode, and of what has to be created above it; everybody everything by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
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
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)

    def _candidate(self) -> _OneZnode:
        return _OneZnode(self._client, self._path, self._data, self._acl)

    async def holders(self) -> list[Participant]:
        """Who holds the lock: one participant, or none.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        try:
            data, stat = await self._client.get(self._path)
        except NoNodeError:
            return []
        return [
            Participant(
                identity=data.decode(errors="replace"),
                path=self._path,
                token=stat.czxid,
                session_id=stat.ephemeral_owner,
                is_holder=True,
            )
        ]


class _OneZnode(AcquireLoop):
    """One try at creating the znode."""

    def __init__(
        self, client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
    ) -> None:
        super().__init__(client)
        self._path = path
        self._acl = acl
        self._watch: Watch | None = None
        self._own = FixedNode(
            client,
            client.backend.shared(path, NodeRegistry),
            path,
            data,
            acl=acl,
            on_gone=self._rouse,
        )

    @property
    def node(self) -> RegisteredNode:
        return self._own.node

    def _znodes(self) -> Sequence[FixedNode]:
        return (self._own,)

    async def _try(self, *, waits: bool) -> bool:
        if await self._own.resolve():
            return True
        while not await self._create():
            if not waits:
                return False
            if await self._is_ours_after_all():
                return True
            await self._sleep()
        return True

    async def _create(self) -> bool:
        """One request: ours, or somebody else has it."""
        for _ in range(PARENT_TRIES):
            try:
                await self._own.create()
            except NodeExistsError:
                return False
            except NoNodeError:
                await self._client.ensure_path(
                    parent(self._path), mode=CreateMode.CONTAINER, acl=self._acl
                )
            else:
                self._is_new = True
                return True
        await self._own.create()
        return True

    async def _is_ours_after_all(self) -> bool:
        """Watches whoever has it; unless that is the ghost of a create whose answer was lost."""
        self._wake = anyio.Event()
        self._leave_watches()
        watch = self._watch = self._client.backend.make_watch(self._rouse)
        try:
            data, stat = await self._client.get(self._path, watch=watch)
        except NoNodeError:
            self._wake.set()
            return False
        if not self._own.is_unclaimed(data, stat):
            return False
        self._own.take(Created(self._path, stat))
        return True

    def _start_again(self) -> None:
        self._own.withdraw()

    def _leave_watches(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, resigns: bool) -> Hold:
        return self._own.hold(lost, urgent=urgent, resigns=resigns)

    def discard(self) -> Departure | None:
        self._leave_watches()
        return self._own.discard()
