"""One attempt at some permits: first the queue, then the znodes, then a count.

    (nothing) ──first in queue──> permits made ──not more than the limit──> held, queue left
                    │                │  more: wait for one to go, or for another limit
                    └────────────────┴─ session over, a znode deleted by others: start again

A contender that found no contention last time creates its permits in the same segment as its place
in the queue, and withdraws them at once if it is not the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio

from ....abc import CoordinationClient, Reply, Watch
from ....errors import NodeExistsError, NoNodeError, UsageError
from ....model import ACL, Created, CreateMode, WatchEvent
from ....paths import join, parent
from ..._core.acquire import NodeAcquirable
from ..._core.error_policy import TRIES
from ..._core.pending_delete import Departure
from ..._core.reading import listed
from ..._core.reporting import PathWarnings
from ..._core.znode_registry import OwnNames
from ...contention.contender import Contender
from ...contention.layouts import Role
from ...contention.queue_znode import LocalContenders
from ...naming import Fixed, Sequential
from ...znode import NodeGone, Znode, ZnodeState
from .parts import LimitReply, LimitRule, SemaphoreParts, refuse_misfits

LEASE = "lease-"

_UNSIGNED = (1 << 64) - 1


class SemaphoreContender(Contender):
    """A contender in the queue of a semaphore.

    It checks the layout before it creates a missing queue: kazoo would count the queue as a permit.
    """

    def __init__(
        self,
        client: CoordinationClient,
        where: SemaphoreParts,
        data: bytes,
        *,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, where.queue, where.layout, Role.LOCK, data, acl)
        self._where = where
        self._on_lost_place: Callable[[], object] | None = None

    @property
    def is_watched(self) -> bool:
        """Whether `watch_place` is in force."""
        return self._on_lost_place is not None

    @property
    def is_place_lost(self) -> bool:
        """Whether our znode is known to be gone, or its session is over."""
        return self.znode.is_gone or self.node.session_id != self._client.session_id

    def watch_place(self, on_lost: Callable[[], object]) -> None:
        """Call `on_lost`, synchronously, if others delete our znode. It ignores session loss."""
        self._on_lost_place = on_lost
        self.znode.watch()

    def unwatch_place(self) -> None:
        """Undo `watch_place`: after a lost connection the watch may not be armed."""
        self._on_lost_place = None
        self.znode.unwatch()

    def znode_gone(self) -> None:
        super().znode_gone()
        if self._on_lost_place is not None:
            self._on_lost_place()

    async def look_before(self) -> None:
        """Look beside the queue, too, in the same round trip: see `refuse_misfits`."""
        local, kind = self._local, (self._layout, self._role)
        if kind in local.fits:
            return
        beside = self._client.get_children(self._where.path)
        await super().look_before()
        try:
            await refuse_misfits(self._client, self._where, await listed(beside))
        except BaseException:
            if kind in local.fits:
                local.fits.remove(kind)
            raise

    async def _make_path(self) -> None:
        with suppress(NoNodeError):
            names = await self._client.get_children(self._where.path)
            await refuse_misfits(self._client, self._where, names)
        await super()._make_path()


@dataclass(frozen=True, slots=True)
class _Question:
    """Requests sent together, in this order; `front` checks our place in the queue, if needed."""

    made: list[Reply[Created]]
    names: Reply[list[str]]
    limit: LimitReply
    front: Reply[None] | None


class Permits(NodeAcquirable):
    """Some permits of a semaphore, all or none. `rule` says which limit counts."""

    def __init__(
        self,
        client: CoordinationClient,
        where: SemaphoreParts,
        count: int,
        rule: LimitRule,
        data: bytes,
        acl: Sequence[ACL] | None,
        warnings: PathWarnings,
    ) -> None:
        super().__init__(client, where.permits, data, acl)
        self._warnings = warnings
        self._where = where
        self._local = client.backend.shared(where.queue, LocalContenders)
        self._rule = rule
        self._contender: SemaphoreContender | None = None
        self._place: int | None = None
        """Our number in the queue, once our permits are to be marked with it."""
        self._names = client.backend.shared(where.permits, OwnNames)
        self._own = [self._new_permit() for _ in range(count)]
        self._armed: dict[str, Watch] = {}
        self._is_granted = False

    def _new_permit(self) -> Znode:
        # Waiting permits are marked with their number in the queue, for observers.
        mark = "" if self._place is None else f"{self._place:010d}-"
        client, folder = self._client, self._where.permits
        if not self._where.is_kazoos:
            prefix = partial(_curators_prefix, mark)
            return self._new_znode(Sequential(client, self._names, folder, prefix))
        # 32 hexadecimal digits, as in kazoo, and never repeated.
        name = f"{mark}{client.session_id & _UNSIGNED:016x}{client.backend.serial():016x}"
        return self._new_znode(Fixed(client, join(folder, name), is_contended=False))

    @property
    def paths(self) -> list[str]:
        return [znode.node.path for znode in self._own]

    def obstacle(self) -> str:
        return "" if self._contender is None else self._contender.obstacle()

    def _znodes(self) -> Sequence[Znode]:
        return self._own

    # --- getting them --------------------------------------------------------------------------

    async def _try(self, *, waits: bool) -> bool:
        if self._is_granted:
            return True
        while True:
            for znode in self._own:
                if znode.state is ZnodeState.UNRESOLVED:
                    await znode.resolve()
            question = await self._reach_front(waits=waits)
            if question is None:
                return False
            if await self._reach_limit(question, waits=waits):
                break
            if not waits:
                return False
        self._is_granted = True
        self._leave_queue()
        return True

    async def _reach_limit(self, question: _Question, *, waits: bool) -> bool:
        """Wait in front until the permits fit; False if it must not wait, or has lost its place."""
        contender = self._contender
        assert contender is not None
        while not await self._is_within_limit(question):
            if not waits:
                return False
            if contender.is_watched:
                for znode in self._own:
                    znode.watch()  # then a hand-over needs no requests for them
                await self._sleep()
            else:
                self._settle_in_front(contender)  # and look again, with watches
            self._wake = anyio.Event()
            if contender.is_place_lost:
                return False
            question = self._ask(watches=True)
        return True

    # --- the queue -----------------------------------------------------------------------------

    async def _reach_front(self, *, waits: bool) -> _Question | None:
        """Get to the front of the queue, alone there, and ask; None if it cannot.

        A contender with permits must not wait behind others: those may wait for its permits.
        """
        contender = self._contender
        question: _Question | None = None
        if contender is None:
            contender = SemaphoreContender(self._client, self._where, self._data, acl=self._acl)
            self._contender = contender
            await contender.look_before()
            if not (self._local.was_contended or self._where.is_kazoos):
                question = self._ask(watches=False)
        else:
            contender.unwatch_place()  # it may not have been armed
        if question is not None or any(znode.state is not ZnodeState.ABSENT for znode in self._own):
            if await contender.try_acquire():
                return question or self._ask(watches=False)
            self._withdraw()
        if not await (contender.acquire() if waits else contender.try_acquire()):
            return None
        self._place = contender.node.sequence
        return self._ask(watches=False)

    def _settle_in_front(self, contender: SemaphoreContender) -> None:
        """While waiting in front, watch our place and mark our permits with it.

        This is no hold: no lease is to be renewed, and the watchdog must not count it.
        """
        contender.watch_place(self._rouse)
        place = contender.node.sequence
        if self._place != place:
            self._place = place
            self._withdraw()

    def _leave_queue(self) -> None:
        contender, self._contender = self._contender, None
        self._place = None
        if contender is not None:
            contender.discard()

    # --- the permits ---------------------------------------------------------------------------

    def _ask(self, *, watches: bool) -> _Question:
        """Create the missing permits and ask how many exist, all in one segment."""
        client, where = self._client, self._where
        made: list[Reply[Created]] = []
        for number, znode in enumerate(self._own):
            if znode.state is ZnodeState.ABSENT:
                self._own[number] = self._new_permit()
                made.append(self._own[number].create())
        names = client.get_children(where.permits, watch=self._arm(where.permits, watches))
        limit = LimitReply(client, where, self._arm(f"{where.limit} limit", watches))
        front = None
        if where.is_kazoos:
            assert self._contender is not None
            front = client.check(self._contender.node.path)
        return _Question(made, names, limit, front)

    async def _is_within_limit(self, question: _Question) -> bool:
        """Whether all of our permits are within the limit, and so valid; `NodeGone` if one is gone.

        They are valid once a listing requested after their creation has at most `limit` permits: of
        all holders, the one that created its znode last has seen all the others. In kazoo's layout
        that holds only if we were in front of the queue all the time.
        """
        for _ in range(TRIES):
            try:
                for create in question.made:
                    await create
                    self._is_new = True
                names = set(await question.names)
            except NoNodeError:
                self._leave_watches()  # they were not armed
                await self._make_parent()
                contender = self._contender
                watches = contender is not None and contender.is_watched
                question = self._ask(watches=watches)
            else:
                break
        else:
            raise NodeGone
        if self._where.is_kazoos:
            await refuse_misfits(self._client, self._where, names)
        published = await question.limit.published()
        limit = self._rule.counting(published)
        if question.front is not None:
            try:
                await question.front
            except NoNodeError:
                raise NodeGone from None
        if self._rule.ignores(published):
            self._warn_of_limit(published)
        if len(self._own) > limit:
            raise UsageError(
                f"{self._where.path}: {len(self._own)} permits were asked for, and there are "
                f"{limit}"
            )
        for znode in self._own:
            # A permit whose create lost its answer counts once it is found, and listed.
            if not await znode.resolve() or znode.node.name not in names:
                raise NodeGone
        return len(names) <= limit

    def _warn_of_limit(self, published: int | None) -> None:
        self._warnings.warn(
            "limit",
            f"{self._where.path}: the published limit is {published}, and this semaphore grants "
            f"{self._rule.own}, its own limit: to follow a greater published limit, use "
            "Semaphore(..., follow_limit=True)",
        )

    async def _make_parent(self) -> None:
        """Create the parent of the permits; in kazoo's layout its data is the limit."""
        where = self._where
        if not where.is_kazoos:
            await self._client.ensure_path(where.permits, mode=CreateMode.CONTAINER, acl=self._acl)
            return
        await self._client.ensure_path(parent(where.permits), acl=self._acl)
        with suppress(NodeExistsError):
            await self._client.create(where.permits, b"%d" % self._rule.own, acl=self._acl)

    def _arm(self, what: str, wanted: bool) -> Watch | None:
        """A new watch, or None if it is unwanted or armed already."""
        if not wanted or what in self._armed:
            return None
        watch = self._armed[what] = self._client.backend.make_watch(partial(self._on_event, what))
        return watch

    def _on_event(self, what: str, _event: WatchEvent) -> None:
        self._armed.pop(what, None)
        self._wake.set()

    def _leave_watches(self) -> None:
        for watch in self._armed.values():
            watch.close()
        self._armed.clear()

    # --- leaving -------------------------------------------------------------------------------

    def _start_again(self) -> None:
        self._withdraw()

    def _withdraw(self) -> None:
        self._is_granted = False
        super()._start_again()

    def discard(self) -> Departure | None:
        gone = super().discard()
        # After the permits: the next in the queue counts them.
        self._leave_queue()
        return gone


def _curators_prefix(mark: str, session_id: int, serial: int) -> str:
    """The beginning of the name of a permit in Curator's layout."""
    return f"{mark}{session_id & _UNSIGNED:016x}-{serial:x}-{LEASE}"
