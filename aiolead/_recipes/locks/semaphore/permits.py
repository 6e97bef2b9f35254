"""One try at some permits: first the line, then the znodes, then a look at how many there are.

    (nothing) ──first in line──> permits made ──not more than the limit──> held, line left
                    │                │  more: wait for one to go, or for another limit
                    └────────────────┴─ session over, a znode deleted by others: start again

Who was alone last time makes its permits before it knows that it is first in line, all in one
segment, and takes them back at once if it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio

from ....abc import CoordinationClient, Hold, Reply, Watch
from ....errors import LossReason, NodeExistsError, NoNodeError, UsageError
from ....model import ACL, Created, CreateMode, WatchEvent
from ....paths import join, parent
from ..._core.acquire_loop import AcquireLoop
from ..._core.ephemeral import EphemeralNode, NodeGone, ZnodeState
from ..._core.fixed import FixedNode
from ..._core.hold_group import HoldGroup
from ..._core.pending_delete import Departure, all_of
from ..._core.serial import SerialNode
from ..._core.znode_registry import NodeRegistry, RegisteredNode
from ...contention.local_contenders import LocalContenders
from .arrangement import Arrangement
from .limit import LimitReply, ask
from .misfits import Turn, refuse_misfits

LEASE = "lease-"

_UNSIGNED = (1 << 64) - 1

PARENT_TRIES = 10
"""How often the path is made anew for one try: servers reap empty containers."""


class Permits(AcquireLoop):
    """Some permits of a semaphore, all or none.

    Args:
        client: the session.
        where: the parts of the semaphore.
        count: how many permits.
        default: the limit where none is published.
        data: what our znodes hold: our identity.
        acl: of our znodes, and of what has to be created.
    """

    def __init__(
        self,
        client: CoordinationClient,
        where: Arrangement,
        count: int,
        default: int,
        data: bytes,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client)
        self._where = where
        self._line = client.backend.shared(where.line, LocalContenders)
        self._default = default
        self._data = data
        self._acl = acl
        self._contender: Turn | None = None
        self._place: int | None = None  # our number in the line, once we are to be known by it
        self._registry = client.backend.shared(where.permits, NodeRegistry)
        self._own = [self._new_permit() for _ in range(count)]
        self._watches: dict[str, Watch] = {}
        self._is_granted = False

    def _new_permit(self) -> EphemeralNode:
        # Permits that wait bear the number of their place in line, for those who look on.
        mark = "" if self._place is None else f"{self._place:010d}-"
        client, folder = self._client, self._where.permits
        if not self._where.is_kazoos:
            return _CuratorsPermit(
                client, self._registry, folder, self._data, mark, acl=self._acl, on_gone=self._rouse
            )
        # 32 hexadecimal digits, as kazoo has them, and never the same twice.
        name = f"{mark}{client.session_id & _UNSIGNED:016x}{client.backend.serial():016x}"
        return FixedNode(
            client,
            self._registry,
            join(folder, name),
            self._data,
            acl=self._acl,
            on_gone=self._rouse,
        )

    @property
    def node(self) -> RegisteredNode:
        """The last one that was created: with it the permits were complete."""
        return max((znode.node for znode in self._own), key=lambda node: node.token)

    @property
    def paths(self) -> list[str]:
        """All znodes."""
        return [znode.node.path for znode in self._own]

    def _znodes(self) -> Sequence[EphemeralNode]:
        return self._own

    # --- getting them --------------------------------------------------------------------------

    async def _try(self, *, waits: bool) -> bool:
        if self._is_granted:
            return True
        while True:
            for znode in self._own:
                if znode.state is ZnodeState.UNRESOLVED:
                    await znode.resolve()
            question = await self._reach_turn(waits=waits)
            if question is None:
                return False
            if await self._reach_limit(question, waits=waits):
                break
            if not waits:
                return False
        self._is_granted = True
        self._leave_line()
        return True

    async def _reach_limit(self, question: _Question, *, waits: bool) -> bool:
        """Waits at the front until there is room below the limit.

        Returns:
            False if there is none and it does not wait, or if our place in line is lost.
        """
        contender = self._contender
        assert contender is not None
        while not await self._is_within_limit(question):
            if not waits:
                return False
            if contender.is_watched:
                for znode in self._own:
                    znode.watch()  # so that nothing has to be asked of them when it is our turn
                await self._sleep()
            else:
                self._settle_in_front(contender)  # and look again, with watches
            self._wake = anyio.Event()
            if contender.is_place_lost:
                return False
            question = self._ask(watches=True)
        return True

    # --- the line ------------------------------------------------------------------------------

    async def _reach_turn(self, *, waits: bool) -> _Question | None:
        """Gets to the front of the line, which one at a time is at, and asks; or gives None.

        Whoever has made permits is not to wait behind others: these may wait for him.
        """
        contender = self._contender
        question: _Question | None = None
        if contender is None:
            contender = self._contender = Turn(self._client, self._where, self._data, acl=self._acl)
            await contender.look_before()
            if not (self._line.was_contended or self._where.is_kazoos):
                question = self._ask(watches=False)
        else:
            contender.unwatch_place()  # it may not have been armed
        if question is not None or any(znode.state is not ZnodeState.ABSENT for znode in self._own):
            if await contender.try_front():
                return question or self._ask(watches=False)
            self._withdraw()
        if not await (contender.reach_front() if waits else contender.try_front()):
            return None
        self._place = contender.node.sequence
        return self._ask(watches=False)

    def _settle_in_front(self, contender: Turn) -> None:
        """While we wait at the front, our place there is watched, and our permits are marked.

        Nothing is held yet: no lease has to be renewed, and no watchdog has to know of it.
        """
        contender.watch_place(self._rouse)
        place = contender.node.sequence
        if self._place != place:
            self._place = place
            self._withdraw()

    def _leave_line(self) -> None:
        contender, self._contender = self._contender, None
        self._place = None
        if contender is not None:
            contender.discard()

    # --- the permits ---------------------------------------------------------------------------

    def _ask(self, *, watches: bool) -> _Question:
        """Makes the permits that are missing, and asks how many there are: all in one segment."""
        client = self._client
        made: list[Reply[Created]] = []
        for number, znode in enumerate(self._own):
            if znode.state is ZnodeState.ABSENT:
                self._own[number] = self._new_permit()
                made.append(self._own[number].create())
        where = self._where
        names = client.get_children(where.permits, watch=self._watch(where.permits, watches))
        limit = ask(client, where, self._watch(f"{where.limit} limit", watches))
        front = None
        if where.is_kazoos:
            assert self._contender is not None
            front = client.check(self._contender.node.path)
        return _Question(made, names, limit, front)

    async def _is_within_limit(self, question: _Question) -> bool:
        """Whether all of ours are, which makes them valid.

        That is so from the moment in which a listing that was asked for after their creation shows
        at most `limit` permits: so of all holders, the one whose znode was made last has seen all
        the others. In the layout of kazoo only if we were in front of the line all the time.

        Raises:
            UsageError: the limit is less than what is asked for.
            MixedLayoutError: there are semaphores of Curator on the path of kazoo's.
            InvalidDataError: what is published is no limit.
            NodeGone: a permit, or our place in line, is not there any more.
        """
        for _ in range(PARENT_TRIES):
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
        limit = await question.limit.value(self._default)
        if question.front is not None:
            try:
                await question.front
            except NoNodeError:
                raise NodeGone from None
        if len(self._own) > limit:
            raise UsageError(
                f"{self._where.path}: {len(self._own)} permits were asked for, and there are "
                f"{limit}"
            )
        for znode in self._own:
            # Those of a create whose answer was lost are in no listing, until they are found.
            if not await znode.resolve() or znode.node.name not in names:
                raise NodeGone
        return len(names) <= limit

    async def _make_parent(self) -> None:
        """Creates the parent of the permits: with the limit, if that is its data."""
        where = self._where
        if not where.is_kazoos:
            await self._client.ensure_path(where.permits, mode=CreateMode.CONTAINER, acl=self._acl)
            return
        await self._client.ensure_path(parent(where.permits), acl=self._acl)
        with suppress(NodeExistsError):
            await self._client.create(where.permits, b"%d" % self._default, acl=self._acl)

    def _watch(self, what: str, wanted: bool) -> Watch | None:
        """A watch to be armed, unless one is armed already."""
        if not wanted or what in self._watches:
            return None
        watch = self._client.backend.make_watch(partial(self._on_event, what))
        self._watches[what] = watch
        return watch

    def _on_event(self, what: str, _event: WatchEvent) -> None:
        self._watches.pop(what, None)
        self._wake.set()

    def _leave_watches(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    # --- leaving -------------------------------------------------------------------------------

    def _start_again(self) -> None:
        self._withdraw()

    def _withdraw(self) -> None:
        self._is_granted = False
        for znode in self._own:
            znode.withdraw()

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, resigns: bool) -> Hold:
        """Registers all of them: when one is lost, what is held is."""
        return HoldGroup([znode.hold(lost, urgent=urgent, resigns=resigns) for znode in self._own])

    def discard(self) -> Departure | None:
        self._leave_watches()
        deletes = [znode.discard() for znode in self._own]
        # Behind the permits: whoever is next looks at those.
        self._leave_line()
        return all_of([delete for delete in deletes if delete is not None])


class _CuratorsPermit(SerialNode):
    """A permit in the layout of Curator: sequential, of any name that ends so.

    Args:
        client: the session.
        registry: of the permits.
        path: of the permits.
        data: what it holds.
        mark: how its name begins.
        acl: of it.
        on_gone: called, synchronously, when somebody else has deleted it.
    """

    def __init__(
        self,
        client: CoordinationClient,
        registry: NodeRegistry,
        path: str,
        data: bytes,
        mark: str,
        *,
        acl: Sequence[ACL] | None,
        on_gone: Callable[[], object],
    ) -> None:
        super().__init__(client, registry, path, data, acl=acl)
        self._mark = mark
        self._on_gone = on_gone

    def _prefix(self, session_id: int, serial: int) -> str:
        return f"{self._mark}{session_id & _UNSIGNED:016x}-{serial:x}-{LEASE}"

    def _rouse(self) -> None:
        self._on_gone()


@dataclass(frozen=True, slots=True)
class _Question:
    """Requests that were handed over, in this order.

    Attributes:
        made: the creates of permits.
        names: all permits.
        limit: the published limit.
        front: whether our place in line is there, where it matters.
    """

    made: list[Reply[Created]]
    names: Reply[list[str]]
    limit: LimitReply
    front: Reply[None] | None
