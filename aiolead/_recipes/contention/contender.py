"""A contender in a line: how it gets to the front, and holds.

    (nothing) ──join──> waiting ──in front──> in front ──discard──> (nothing)
                           │  session over, or znode deleted by others: join again
                           └──────────────────────────────────────────────────────

Its znode, and how that comes and goes, is that of a `QueueNode`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from ..._tasks import Wakeup
from ...abc import CoordinationClient, Reply, Watch
from ...errors import AioleadError, ConnectionLossError, NoNodeError, Outcome
from ...model import ACL, ANYONE, Created, EventType, Permission, Stat, WatchEvent
from ...paths import join
from .._core.ephemeral import NodeGone
from .._core.error_policy import Action, Step, action_for, before_next_try, in_background
from .._core.pending_delete import Departure
from .._core.znode_registry import RegisteredNode
from .kernel import QueuePosition, sharing, standing
from .layouts import Layout, Role
from .neighbours import in_line
from .queue_node import QueueNode

_NEVER = -1
_NOBODY: frozenset[str] = frozenset()
"""One for all: an empty set takes as much memory as one with a name in it."""

PARENT_TRIES = 10
"""How often the path is created anew for one join: servers reap empty containers (CURATOR-724)."""


class Contender(QueueNode):
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

    __slots__ = (
        "_ahead",
        "_ahead_gone",
        "_is_readable",
        "_new_since",
        "_on_rank",
        "_outlived",
        "_places",
        "_seen_to_be",
        "_standing",
    )

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
        super().__init__(client, path, layout, role, data, acl=acl)
        self._places = places
        self._is_readable = acl is None or any(map(_lets_read, acl))
        """Whether we surely may read what we create."""
        self._new_since = _NEVER
        """What `LocalContenders.changes` was at the answer to our create, until we wait."""
        self._standing: QueuePosition | None = None
        """What a listing has shown that came with the create."""
        # What watches have told since it was last looked at.
        self._ahead: dict[str, Watch] = {}
        self._ahead_gone = _NOBODY
        self._seen_to_be = _NOBODY
        """Whom we have read: so they may be read, and what becomes of them is told."""
        self._outlived: Sequence[str] = ()
        """Who was still there when our znode was; of interest where one holds at a time."""
        self._on_rank: Callable[[int | None], object] | None = None

    def when_ranked(self, call: Callable[[int | None], object]) -> None:
        """Has it called, synchronously, as it gets known how many have to leave before we hold.

        To be asked for before it joins. None says that it is not known. A rank of 1 or 2 is true,
        and becomes known at once; a greater one is what it was when the line was last listed.
        """
        self._on_rank = call

    # --- getting to the front ------------------------------------------------------------------

    def reach_front(self) -> Coroutine[Any, Any, bool]:
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
        return self._persist(waits=True)

    async def try_front(self) -> bool:
        """Joins, and says whether we are among the first, without waiting for it.

        Raises, cancellation: as for `reach_front`.

        On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
        """
        with anyio.move_on_after(self._client.session_timeout):
            return await self._persist(waits=False)
        raise ConnectionLossError(
            f"no server was reached for {self._client.session_timeout:g} seconds",
            outcome=Outcome.NOT_APPLIED,
        )

    async def _persist(self, *, waits: bool) -> bool:
        """Joins, and waits or looks, until neither the link nor the znode is lost meanwhile."""
        self._new_since = _NEVER
        self._line.follow(self._client)
        try:
            while True:
                self._standing = None
                try:
                    in_front = await self._join()
                    if not in_front:
                        in_front = await (self._wait_in_line() if waits else self._is_in_front())
                    if in_front:
                        self._note_front()
                        await self._await_lease()
                        self._leave_watches()
                except NodeGone:
                    self.forget()
                except AioleadError as error:
                    if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                        self.forget()
                    else:
                        self._leave_watches()
                        self.unwatch()
                        await before_next_try(self._client, error, Step.ACQUIRE)
                else:
                    return in_front
        finally:
            self._line.unfollow()

    @property
    def _is_new(self) -> bool:
        """Whether we have not waited since the answer to our create, nor changed connections."""
        return self._new_since == self._line.changes

    async def _is_in_front(self) -> bool:
        return not (self._take_standing() or await self._list_queue()).watch

    # --- joining -------------------------------------------------------------------------------

    async def _join(self) -> bool:
        """Makes sure that we have a znode; returns whether it is known to be in front already."""
        if self._node is not None and self._node.session_id != self._client.session_id:
            self.forget()
        if self._node is not None:
            return False
        for _ in range(PARENT_TRIES):
            try:
                return await self._create()
            except NoNodeError:
                await self._make_path()
        return await self._create()

    async def _make_path(self) -> None:
        await self._client.ensure_path(self._path, mode=self._layout.parents, acl=self._acl)

    async def _create(self) -> bool:
        """One round trip: the create, and a look at the line, which shows the new znode, too."""
        await self.look_before()
        if not await self._ready_to_create():
            return False
        self._line.are_readable = self._line.are_readable and self._is_readable
        # Where others of ours are in the line already, the one before us is mostly one of them.
        is_first_of_ours = self._line.is_empty
        if is_first_of_ours:
            with self._client.pipelined():
                create, listing = self.create(), self._client.get_children(self._path)
        else:
            create, listing = self.create(), None
        await self._await_created(create)
        self._new_since = self._line.changes
        if listing is None:
            return False
        try:
            self._standing = await self._place_among(await listing)
        except NoNodeError:
            raise NodeGone from None
        self._line.was_contended = bool(self._standing.watch)
        return not self._standing.watch

    async def look_before(self) -> None:
        """Has neighbours that do not fit refused before anything is written.

        What is not ours to join must not be disturbed even for a moment: a name that a library does
        not understand can make its `lock()` fail (see `kinds`). It takes a round trip, once in a
        client for each kind of contender on a path. Who comes later is refused as it is seen.

        Raises:
            MixedLayoutError: there is one.
        """
        line, kind = self._line, (self._layout, self._role)
        if kind in line.fits:
            return
        look = line.look
        if look is None or look.is_done:
            look = line.look = self._client.get_children(self._path)  # for all who ask meanwhile
        try:
            names = await look
        except NoNodeError:
            await self._make_path()
        else:
            await in_line(self._client, self._path, names, self._layout, self._role)
        finally:
            # What it raised in each of them would keep all of their frames.
            if line.look is look and look.is_done:
                line.look = None
        if kind not in line.fits:
            line.fits.append(kind)

    def _take_standing(self) -> QueuePosition | None:
        seen, self._standing = self._standing, None
        return seen

    # --- waiting -------------------------------------------------------------------------------

    async def _wait_in_line(self) -> bool:
        """Watches those before us until we are in front, and says so.

        Raises:
            NodeGone: our znode is not there any more.
        """
        place = self._take_standing() or self._behind_ours() or await self._list_queue()
        while place.watch:
            self._wake = Wakeup()
            self._stale = False
            if not await self._arm(place.watch):
                place = await self._list_queue()
                continue
            if self._on_rank is not None:
                self._on_rank(place.rank - self._places + 1 if place.is_exact else None)
            self._new_since = _NEVER
            if not (self._ahead_gone or self._gone or self._stale):
                if unread := self._unread(place.watch):
                    await self._hear_of(unread)
                else:
                    await self._wake.wait()
            self.check()
            if place.watch[0] in self._ahead_gone and (
                place.is_next or self._was_first(place.watch[0])
            ):
                break
            if self._ahead_gone or self._stale:
                place = await self._list_queue()
        return True

    def _behind_ours(self) -> QueuePosition | None:
        """Where others of ours have the numbers just before us: those, without a listing.

        A client with thousands of contenders in a line would list it thousands of times.
        """
        nearest = self._line.ours_at(self.node.sequence - 1)
        if nearest is None or not self._is_one_at_a_time or self._on_rank is not None:
            return None  # or the rank is wanted
        return QueuePosition(1, (nearest,), is_next=False, is_exact=False)

    @property
    def _is_one_at_a_time(self) -> bool:
        return self._places == 1 and not self._role.shares

    def _note_front(self) -> None:
        if self._is_one_at_a_time:
            self._line.front = self.node.name

    def _was_first(self, name: str) -> bool:
        """Whether the one just before us, who has gone, is known to have been the first.

        Then we are, and need not ask: as with `is_next`. Of another contender of this client, that
        is known as soon as it is true. So whoever waits behind one of ours need not look ahead,
        nor list the line when it goes.

        Not if it has gone before we have seen both: then it may be that the line was deleted and
        made anew, and that its number was one of the old line.
        """
        return self._line.front == name and name in self._outlived and self._is_one_at_a_time

    async def _list_queue(self) -> QueuePosition:
        """Lists the line and finds our place in it.

        Raises:
            NodeGone: we are not in it.
        """
        try:
            names = await self._client.get_children(self._path)
        except NoNodeError:
            raise NodeGone from None
        return await self._place_among(names)

    async def _place_among(self, names: Sequence[str]) -> QueuePosition:
        line = await in_line(self._client, self._path, names, self._layout, self._role)
        own = self.node.name
        if self._role.shares:
            place = sharing(line, own, self._layout, self._role)
        else:
            place = standing(line, own, self._places, look_ahead=self._on_rank is not None)
        if place is None:
            raise NodeGone
        if self._is_one_at_a_time and self._on_rank is None and len(place.watch) > 1:
            nearest = place.watch[0]
            if self._line.is_claimed(nearest):
                return replace(place, watch=(nearest,))
        return place

    async def _arm(self, names: Sequence[str]) -> bool:
        """Watches the names, and our own znode, all in one segment.

        Returns:
            False if one of the names is gone already, so that another look is due.

        Raises:
            NodeGone: our own znode is not there any more.
        """
        for name in [name for name in self._ahead if name not in names]:
            self._ahead.pop(name).close()
        self._ahead_gone = self._ahead_gone.intersection(names) or _NOBODY
        self._seen_to_be = self._seen_to_be.intersection(names) or _NOBODY
        unread: list[tuple[str, Watch]] = []
        own: Reply[tuple[bytes, Stat]] | None = None
        if self._watch is None:
            if self._is_readable:
                unread.append((self.node.path, self._make_watch()))
            else:
                own = self._send_look()
        looks: list[tuple[str, Reply[tuple[bytes, Stat]]]] = []
        for name in names:
            if name not in self._ahead and name not in self._ahead_gone:
                path = join(self._path, name)
                watch = self._ahead[name] = self._client.backend.make_watch(Ahead(self, name))
                if name in self._seen_to_be or self._is_unclaimed(name):
                    looks.append((name, self._client.get(path, watch=watch)))
                else:
                    unread.append((path, watch))
        # One request, whatever their number; what it is too late for has fired by the answer.
        armed = self._client.backend.arm(unread, since=self.node.token) if unread else None
        complete = True
        for name, look in looks:
            try:
                _, stat = await look
            except NoNodeError:
                self._ahead.pop(name).close()
                complete = False
            else:
                self._delete_orphan(name, stat)
        if armed is not None:
            await armed
        if own is not None:
            try:
                await own
            except NoNodeError:
                raise NodeGone from None
        if self._is_one_at_a_time:
            there, before = self._ahead.keys() - self._ahead_gone, self._outlived
            self._outlived = tuple(name for name in names if name in there or name in before)
        return complete

    def _unread(self, names: Sequence[str]) -> Sequence[str]:
        """Those of whom it is not known whether we may read them."""
        line, known = self._line, self._seen_to_be | self._ahead_gone
        return tuple(
            name
            for name in names
            if name not in known and not (line.are_readable and line.is_claimed(name))
        )

    async def _hear_of(self, unread: Sequence[str]) -> None:
        """Waits until a watch has told us something of those whom we may not be allowed to read.

        Servers since 3.8.4 and 3.9.2 do not tell what becomes of a znode that we may not read, and
        do not refuse to watch it either. So who has heard nothing for a while reads those that it
        waits for, once: in the place of a ping, which would be due a little later.

        Raises:
            NoAuthError: one of them may not be read.
        """
        with anyio.move_on_after(self._client.session_timeout / 4):
            await self._wake.wait()
            return
        looks = [(name, self._client.get(join(self._path, name))) for name in unread]
        for name, look in looks:
            try:
                await look
            except NoNodeError:
                # Gone: the event has told it, or is not going to.
                self._ahead_gone |= {name}
                self._wake.set()
            else:
                self._seen_to_be |= {name}
        await self._wake.wait()

    def _is_unclaimed(self, name: str) -> bool:
        """Whether its name is one that this session's recipes have given, and nobody claims it.

        Others may have znodes in our session (see `docs/aiozk.md`), with names of the same form:
        but none that begins with our session and a number that its client gives once.
        """
        return not self._line.is_wanted(name) and self._layout.is_of(
            self._role, self._client.session_id, name
        )

    def _delete_orphan(self, name: str, stat: Stat) -> None:
        """Deletes a znode before us that is our own session's and that nobody claims.

        It belongs to a create whose answer was lost, and that was applied after we had looked for
        it. We would wait for ourselves.
        """
        ours = stat.ephemeral_owner == self._client.session_id
        if ours and self._is_unclaimed(name):
            orphan = self._claim(Created(join(self._path, name), stat), stat.ephemeral_owner)
            self._client.backend.spawn(partial(self._delete_orphan_later, orphan))

    async def _delete_orphan_later(self, orphan: RegisteredNode) -> None:
        try:
            await in_background(orphan.path, partial(self._delete_until_gone, self._client, orphan))
        finally:
            self._unclaim(orphan)

    def _on_ahead(self, name: str, event: WatchEvent) -> None:
        self._ahead.pop(name, None)
        if event.type is EventType.DELETED:
            self._ahead_gone |= {name}
        elif event.type is EventType.DATA_CHANGED:
            # It was asked to let go, which says nothing to us: the watch is set again, by a read.
            self._seen_to_be |= {name}
        else:
            self._stale = True
        self._wake.set()

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

        Whoever has not watched its own znode all the time looks at it besides: others may have
        deleted it.

        Raises:
            NodeGone: our znode is not there any more.
        """
        client = self._client
        writes = int(self._is_new)
        while True:
            if not self._is_new and self._watch is None:
                self._send_look()
            await self.looked_at()
            if client.backend.lease.is_enough():
                break
            if writes >= 2:
                await anyio.sleep(client.session_timeout / 32)
            self.check()
            try:
                await client.check(self.node.path)
            except NoNodeError:
                raise NodeGone from None
            writes += 1
        self.check()

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        """Gives up the place in line, or the hold. Synchronous: the rest is the client's work.

        Returns:
            That our znode goes, to wait for; None if there is none to delete.
        """
        self._leave_watches()
        return super().discard()

    def _leave_watches(self) -> None:
        for watch in self._ahead.values():
            watch.close()
        self._ahead.clear()
        self._ahead_gone = self._seen_to_be = _NOBODY
        self._outlived = ()

    def forget(self) -> None:
        self._leave_watches()
        super().forget()
        self._standing = None


def _lets_read(entry: ACL) -> bool:
    """Whether an entry lets whoever creates a znode read it, whoever he is."""
    is_anyone = (entry.scheme, entry.id) == ANYONE or entry.scheme == "auth"
    return is_anyone and Permission.READ in entry.permissions


class Ahead:
    """What the watch on one of those before a contender calls."""

    __slots__ = ("_contender", "_name")

    def __init__(self, contender: Contender, name: str) -> None:
        self._contender = contender
        self._name = name

    def __call__(self, event: WatchEvent) -> None:
        self._contender._on_ahead(self._name, event)
