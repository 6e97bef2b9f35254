"""The life of one znode in a line: from its creation to its deletion.

    (nothing) ──join──> waiting ──in front──> in front ──discard──> (nothing)
                           │  session over, or znode deleted by others: join again
                           └──────────────────────────────────────────────────────

The znode exists exactly as long as its contender wants it, whatever is cancelled or cut when:

* Its name is taken note of synchronously, as the answer to the create comes in.
* `discard` only hands over: the delete is queued in the client before it returns. What cannot be
  deleted at once is a debt of the client, paid by its own tasks while the session lasts.
* A create whose answer was lost is looked for, never sent twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio

from ..abc import CoordinationClient, Hold, Reply, Watch
from ..errors import (
    ConnectionLossError,
    LossReason,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyError,
    Outcome,
    SequenceExhaustedError,
    SessionExpiredError,
)
from ..model import ACL, Created, CreateMode, EventType, SessionState, Stat, WatchEvent
from ..paths import join
from .contention import Standing, in_order, standing
from .layout import Layout, Role
from .line import Line, Node, delete_lost, delete_until_gone

LAST_SEQUENCE = 0x7FFF_FFFF

PARENT_TRIES = 10
"""How often the path is created anew for one join: servers reap empty containers (CURATOR-724)."""


class _OwnGone(Exception):
    """Our znode is not there any more. Never leaves this module."""


class Contender:
    """One place in a line.

    Args:
        client: the session.
        path: what is contended for.
        layout: how contenders are named.
        role: what kind of thing it is.
        data: what our znode holds: our identity.
        places: how many contenders may hold at once.
        acl: of our znode, and of the path if it has to be created.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        layout: Layout,
        role: Role,
        data: bytes,
        *,
        places: int = 1,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._layout = layout
        self._role = role
        self._data = data
        self._places = places
        self._acl = acl
        self._line = client.shared(path, Line)
        self._node: Node | None = None
        self._creating: Reply[Created] | None = None
        self._create_session = 0
        self._discarded = False
        self._is_pair = False
        self._is_new = False
        """Whether we have not waited since the answer to our create, nor changed connections."""
        # What watches have told since it was last looked at.
        self._wake = anyio.Event()
        self._own_watch: Watch | None = None
        self._own_look: Reply[tuple[bytes, Stat]] | None = None
        self._own_gone = False
        self._ahead: dict[str, Watch] = {}
        self._gone: set[str] = set()
        self._stale = False
        self._on_own_gone: Callable[[LossReason], object] | None = None

    @property
    def node(self) -> Node:
        """Our znode. Only while there is one."""
        if self._node is None:
            raise AssertionError("the contender has no znode")
        return self._node

    # --- getting to the front ------------------------------------------------------------------

    async def reach_front(self) -> bool:
        """Waits until we are among the first, with a lease that lasts for a while; gives True.

        There is no checkpoint between the decision that we are and the return.

        Raises:
            MixedLayoutError: a neighbour and we would not exclude each other.
            SequenceExhaustedError: the path has no more numbers.
            ServerError: what the server says to the create, such as `NoAuthError`.
            SessionError: the client was closed, or its credentials were refused.

        Cancellation: leaves the contender as it is; `discard` it.

        On connection loss: goes on with the same znode; after an expired session, with a new one
        at the end of the line.
        """
        return await self._persist(self._wait_in_line)

    async def try_front(self) -> bool:
        """Joins, and says whether we are among the first, without waiting for it.

        Raises, cancellation: as for `reach_front`.

        On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
        """
        with anyio.move_on_after(self._client.session_timeout):
            return await self._persist(self._is_in_front)
        raise ConnectionLossError(
            f"no server was reached for {self._client.session_timeout:g} seconds",
            outcome=Outcome.NOT_APPLIED,
        )

    async def _persist(self, attempt: Callable[[], Awaitable[bool]]) -> bool:
        """Joins and makes the attempt, until neither the link nor the znode is lost meanwhile."""
        self._is_new = False
        unsubscribe = self._client.subscribe(self._on_state)
        try:
            while True:
                try:
                    in_front = await self._join() or await attempt()
                    if in_front:
                        await self._await_lease()
                        self._leave_watches()
                except (ConnectionLossError, NotReadOnlyError):
                    self._leave_watches()
                    self._close_own_watch()
                    await self._client.ready()
                except (SessionExpiredError, _OwnGone):
                    self._forget()
                else:
                    return in_front
        finally:
            unsubscribe()

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self._is_new = False

    async def _is_in_front(self) -> bool:
        return (await self._look()).rank < self._places

    # --- joining -------------------------------------------------------------------------------

    async def _join(self) -> bool:
        """Makes sure that we have a znode; returns whether it is known to be in front already."""
        if self._node is not None and self._node.session_id != self._client.session_id:
            self._forget()
        if self._node is not None:
            return False
        for _ in range(PARENT_TRIES):
            try:
                return await self._create()
            except NoNodeError:
                await self._client.ensure_path(self._path, mode=CreateMode.CONTAINER, acl=self._acl)
        return await self._create()

    async def _create(self) -> bool:
        """One round trip: the create, and a look at how many others there are."""
        client, line = self._client, self._line
        if client.state is not SessionState.CONNECTED:
            await client.ready()
        await self._resolve()
        if self._node is not None:
            return False
        session_id = client.session_id
        line.joined += 1
        prefix = self._layout.prefix(self._role, session_id, line.joined)
        self._create_session = session_id
        create = self._creating = client.create(
            join(self._path, prefix),
            self._data,
            mode=CreateMode.EPHEMERAL_SEQUENTIAL,
            acl=self._acl,
        )
        create.add_done_callback(self._created)
        # Who found others there last time expects them now, and asks for what it needs then.
        count = None if line.was_contended else client.exists(self._path)
        try:
            await create
        except NodeExistsError:
            # The counter stands still at its end since ZOOKEEPER-3249, so names repeat.
            raise SequenceExhaustedError(self._path) from None
        node = self.node
        if not 0 <= node.sequence < LAST_SEQUENCE:
            self._drop_node()
            raise SequenceExhaustedError(self._path)
        self._is_new = True
        if count is None:
            return False
        stat = await count
        children = stat.num_children if stat is not None else 0
        line.was_contended = children > self._places
        self._is_pair = children == 2
        return 0 < children <= self._places or node.sequence == 0

    def _created(self) -> None:
        """The answer to our create is there: in the client's task, before anything after it."""
        create, self._creating = self._creating, None
        if create is None:
            return
        error = create.error()
        if error is None:
            node = Node.of(create.result(), self._client.session_id)
            self._line.claim(node)
            self._node = node
            if self._discarded:
                self._drop_node()
        elif isinstance(error, ConnectionLossError) and error.outcome is Outcome.UNKNOWN:
            self._creating = create  # not settled yet
            if self._discarded:
                self._owe_lost_create()

    async def _resolve(self) -> None:
        """Finds out what became of a create whose answer was lost."""
        if self._creating is None:
            return
        if self._client.session_id == self._create_session:
            node = await self._line.find_lost(
                self._client, self._path, self._layout, self._role, self._data
            )
            if node is not None:
                self._creating = None
                self._node = node
                return
            # It may still be on its way: whatever turns up later is not wanted any more.
            self._owe_lost_create(already_looked=True)
        self._creating = None

    # --- waiting -------------------------------------------------------------------------------

    async def _wait_in_line(self) -> bool:
        """Watches those before us until we are in front, and says so.

        Raises:
            _OwnGone: our znode is not there any more.
        """
        place = self._guess() or await self._look()
        waited = False
        while place.watch:
            self._wake = anyio.Event()
            self._stale = False
            if not await self._arm(place.watch):
                place = await self._look()
                continue
            waited = True
            self._is_new = False
            if not (self._gone or self._own_gone or self._stale):
                await self._wake.wait()
            self._check_own()
            if place.is_next and place.watch[0] in self._gone:
                break
            place = await self._look()
        self._line.was_contended = waited
        return True

    def _check_own(self) -> None:
        if self._own_gone or self.node.session_id != self._client.session_id:
            raise _OwnGone

    def _guess(self) -> Standing | None:
        """Those with the numbers just before ours: if they are there, no listing was needed."""
        sequence = self.node.sequence
        nearest = self._layout.neighbour(self._role, sequence - 1)
        if self._places > 1 or nearest is None or sequence == 0:
            return None
        if self._is_pair:  # the two of us: then it holds, and its departure leaves us first
            return Standing(1, (nearest,), is_next=True)
        before = self._layout.neighbour(self._role, sequence - 2) if sequence > 1 else None
        watch = (nearest,) if before is None else (nearest, before)
        return Standing(len(watch), watch, is_next=False)

    async def _look(self) -> Standing:
        """Lists the line and finds our place in it.

        Raises:
            _OwnGone: we are not in it.
        """
        try:
            names = await self._client.get_children(self._path)
        except NoNodeError:
            raise _OwnGone from None
        place = standing(
            in_order(self._path, names, self._layout, self._role), self.node.name, self._places
        )
        if place is None:
            raise _OwnGone
        return place

    async def _arm(self, names: Sequence[str]) -> bool:
        """Watches the names, and our own znode, all in one segment.

        Returns:
            False if one of the names is gone already, so that another look is due.

        Raises:
            _OwnGone: our own znode is not there any more.
        """
        for name in [name for name in self._ahead if name not in names]:
            self._ahead.pop(name).close()
        self._gone.intersection_update(names)
        own = self._watch_own() if self._own_watch is None else None
        looks: list[tuple[str, Reply[tuple[bytes, Stat]]]] = []
        for name in names:
            if name not in self._ahead and name not in self._gone:
                watch = self._client.make_watch(partial(self._on_ahead, name))
                self._ahead[name] = watch
                looks.append((name, self._client.get(join(self._path, name), watch=watch)))
        complete = True
        for name, look in looks:
            try:
                _, stat = await look
            except NoNodeError:
                self._ahead.pop(name).close()
                complete = False
            else:
                self._exorcise(name, stat)
        if own is not None:
            try:
                await own
            except NoNodeError:
                raise _OwnGone from None
        return complete

    def _exorcise(self, name: str, stat: Stat) -> None:
        """Deletes a znode before us that is our own session's and that nobody claims.

        It belongs to a create whose answer was lost, and that was applied after we had looked for
        it. We would wait for ourselves.
        """
        ours = stat.ephemeral_owner == self._client.session_id
        if ours and name not in self._line.claimed and self._layout.is_like_ours(self._role, name):
            ghost = Node.of(Created(join(self._path, name), stat), stat.ephemeral_owner)
            self._line.claim(ghost)
            self._client.spawn(partial(_pay, self._client, self._line, ghost))

    def _on_ahead(self, name: str, event: WatchEvent) -> None:
        self._ahead.pop(name, None)
        if event.type is EventType.DELETED:
            self._gone.add(name)
        else:
            self._stale = True
        self._wake.set()

    # --- our own znode -------------------------------------------------------------------------

    def _watch_own(self) -> Reply[tuple[bytes, Stat]]:
        """Has the deletion of our znode by others reported."""
        node = self.node
        self._own_watch = self._client.make_watch(self._on_own)
        look = self._own_look = self._client.get(node.path, watch=self._own_watch)
        look.add_done_callback(partial(self._own_seen, node, look))
        return look

    def _own_seen(self, node: Node, look: Reply[tuple[bytes, Stat]]) -> None:
        if self._own_look is look:
            self._own_look = None
        if node is not self._node:
            return
        error = look.error()
        if error is None:
            # A znode of that name may be another one: the whole path was deleted and made anew.
            gone = look.result()[1].czxid != node.token
        else:
            gone = isinstance(error, NoNodeError)
        if gone:
            self._lost_own()

    def _on_own(self, event: WatchEvent) -> None:
        self._own_watch = None
        if event.type is EventType.DELETED:
            self._lost_own()
        elif event.type is EventType.DATA_CHANGED and self._node is not None:
            self._watch_own()
        else:
            self._stale = True
            self._wake.set()

    async def _own_looked_at(self) -> None:
        """Waits for what the last look at our own znode shows; no checkpoint if it is known."""
        while self._own_look is not None:
            with suppress(NoNodeError):
                await self._own_look

    def _lost_own(self) -> None:
        self._own_gone = True
        self._wake.set()
        if self._on_own_gone is not None:
            self._on_own_gone(LossReason.DELETED)

    # --- holding -------------------------------------------------------------------------------

    async def _await_lease(self) -> None:
        """Waits until enough is left of the lease to begin with.

        On a session that is young, or has written something lately, it has: then there is no round
        trip, and no checkpoint. Else it takes two writes, one after the other. Who has joined only
        now has done the first one. Who has waited asks twice: that its server has told it of its
        turn proves nothing about the session (see docs/safety.md).

        A renewal's second request is a `sync`, since its first one shows that the session lives.
        Here nothing is proven any more, and a leader that has just begun to end the session might
        answer a `sync` in the instant before that has an effect. A write it refuses.

        Whoever has not watched its own znode all the time looks at it besides: one that was made
        anew, with everything around it, may have its name.

        Raises:
            _OwnGone: our znode is not there any more.
        """
        client = self._client
        writes = int(self._is_new)
        while True:
            if not self._is_new and self._own_watch is None:
                self._watch_own()
            await self._own_looked_at()
            if client.lease.is_enough():
                break
            if writes >= 2:
                await anyio.sleep(client.session_timeout / 32)
            self._check_own()
            try:
                await client.check(self.node.path)
            except NoNodeError:
                raise _OwnGone from None
            writes += 1
        self._check_own()

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, surrender: bool) -> Hold:
        """Registers our znode as held; to be called right after `reach_front`.

        Args:
            lost: called once, synchronously, when the hold is over without our doing.
            urgent: whether the lease is renewed at once.
            surrender: whether a lost link ends the hold.
        """

        def on_lost(reason: LossReason) -> None:
            self._own_gone = self._own_gone or reason is LossReason.DELETED
            lost(reason)

        hold = self._client.lease.hold(
            self.node.path, on_lost, settled=self._settled, urgent=urgent, surrender=surrender
        )
        self._on_own_gone = hold.lose
        return hold

    def _settled(self) -> None:
        if self._own_watch is None and self._node is not None:
            self._watch_own()

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Reply[None] | None:
        """Gives up the place in line, or the hold. Synchronous: the rest is the client's work.

        Returns:
            The answer to the delete of our znode, to wait for; None if there is none to delete.
        """
        self._discarded = True
        self._on_own_gone = None
        self._leave_watches()
        if self._creating is not None and self._creating.is_done:
            self._owe_lost_create()
        return self._drop_node()

    def _leave_watches(self) -> None:
        for watch in self._ahead.values():
            watch.close()
        self._ahead.clear()
        self._gone.clear()

    def _forget(self) -> None:
        """Our znode is gone: nothing is left to delete."""
        self._leave_watches()
        self._close_own_watch()
        node, self._node = self._node, None
        if node is not None:
            self._line.forget(node)
        self._own_look = None
        self._own_gone = self._is_pair = False

    def _close_own_watch(self) -> None:
        watch, self._own_watch = self._own_watch, None
        if watch is not None:
            watch.close()

    def _drop_node(self) -> Reply[None] | None:
        node, self._node = self._node, None
        if node is None:
            return None
        own_watch, self._own_watch = self._own_watch, None
        if self._own_gone or node.session_id != self._client.session_id:
            # Where the whole path was deleted, its numbers have started anew: a znode of that
            # name may be somebody else's by now.
            self._line.forget(node)
            if own_watch is not None:
                own_watch.close()
            return None
        delete = self._client.delete(node.path)
        delete.add_done_callback(partial(self._deleted, node, delete, own_watch))
        return delete

    def _deleted(self, node: Node, delete: Reply[None], own_watch: Watch | None) -> None:
        # The watch on our own znode fires with the delete; only a failed one leaves it behind.
        if own_watch is not None:
            own_watch.close()
        if isinstance(delete.error(), ConnectionLossError):
            self._client.spawn(partial(_pay, self._client, self._line, node))
        else:
            self._line.forget(node)

    def _owe_lost_create(self, *, already_looked: bool = False) -> None:
        self._creating = None
        self._client.spawn(
            partial(
                delete_lost,
                self._client,
                self._line,
                self._path,
                self._layout,
                self._role,
                self._data,
                self._create_session,
                already_looked=already_looked,
            )
        )


async def _pay(client: CoordinationClient, line: Line, node: Node) -> None:
    try:
        await delete_until_gone(client, node)
    finally:
        line.forget(node)
