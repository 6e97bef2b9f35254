"""A contender in a queue: how it gets to the front.

    (nothing) ──join──> waiting ──in front──> in front ──discard──> (nothing)
                           │  session over, or znode deleted by others: join again
                           └──────────────────────────────────────────────────────

Its znode, and how that comes and goes, is that of a `QueueNode`; the loop is that of an
`Acquirable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import anyio

from ..._tasks import Wakeup
from ...abc import CoordinationClient, Reply, Watch
from ...errors import NoNodeError
from ...model import ACL, ANYONE, Created, EventType, Permission, Stat, WatchEvent
from ...paths import join
from .._core.acquire import Acquirable
from .._core.ephemeral import NodeGone
from .._core.error_policy import in_background
from .._core.parents import TRIES
from .._core.pending_delete import Departure
from .._core.znode_registry import RegisteredNode
from .kernel import QueuePosition, sharing, standing
from .layouts import Layout, Role
from .neighbours import queue_order
from .queue_node import QueueNode

_NEVER = -1
_NOBODY: frozenset[str] = frozenset()
"""One for all: an empty set takes as much memory as one with a name in it."""


class Contender(QueueNode, Acquirable):
    """One place in a queue.

    Args:
        client: the session.
        path: what is contended for.
        layout: how contenders are named.
        role: what is contended for.
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
        """Registers a callback for how many contenders have to leave before we hold; None: unknown.

        Called synchronously. To be asked for before it joins. A rank of 1 or 2 is true, and becomes
        known at once; a greater one is what it was when the queue was last listed.
        """
        self._on_rank = call

    # --- getting to the front ------------------------------------------------------------------

    def _follow_session(self) -> Callable[[], object]:
        self._new_since = _NEVER
        self._local.follow(self._client)
        return self._local.unfollow

    def _znodes(self) -> Sequence[QueueNode]:
        return (self,)

    def _start_again(self) -> None:
        self.forget()

    def _has_just_created(self) -> bool:
        return self._new_since == self._local.changes

    async def _try(self, *, waits: bool) -> bool:
        """Joins the queue, and watches those before us until we are in front."""
        self._standing = None
        if await self._join():
            self._note_front()
            return True
        place = self._take_standing() or (self._behind_ours() if waits else None)
        place = place or await self._list_queue()
        while place.watch:
            if not waits:
                return False
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
        self._note_front()
        return True

    # --- joining -------------------------------------------------------------------------------

    async def _join(self) -> bool:
        """Makes sure that we have a znode; returns whether it is known to be in front already."""
        if self._node is not None and self._node.session_id != self._client.session_id:
            self.forget()
        if self._node is not None:
            return False
        for _ in range(TRIES):
            try:
                return await self._create()
            except NoNodeError:
                await self._make_path()
        return await self._create()

    async def _make_path(self) -> None:
        await self._client.ensure_path(self._path, mode=self._layout._parents, acl=self._acl)

    async def _create(self) -> bool:
        """One round trip: the create, and a look at the queue, which shows the new znode, too."""
        await self.look_before()
        if not await self._ready_to_create():
            return False
        self._local.are_readable = self._local.are_readable and self._is_readable
        # Where others of ours are in the line already, the one before us is mostly one of them.
        is_first_of_ours = self._local.is_empty
        if is_first_of_ours:
            with self._client.pipelined():
                create, listing = self.create(), self._client.get_children(self._path)
        else:
            create, listing = self.create(), None
        await self._await_created(create)
        self._new_since = self._local.changes
        if listing is None:
            return False
        try:
            self._standing = await self._place_among(await listing)
        except NoNodeError:
            raise NodeGone from None
        self._local.was_contended = bool(self._standing.watch)
        return not self._standing.watch

    async def look_before(self) -> None:
        """Refuses neighbours that do not fit, before anything is written.

        A name that another library does not understand can make its `lock()` fail (see
        `recognized`), so it must not be there even for a moment. It takes a round trip, once in a
        client for each kind of contender on a path. Neighbours that come later are refused as they
        are seen.

        Raises:
            MixedLayoutError: there is one.
        """
        line, kind = self._local, (self._layout, self._role)
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
            await queue_order(self._client, self._path, names, self._layout, self._role)
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

    def _behind_ours(self) -> QueuePosition | None:
        """Where others of ours have the numbers just before us: those, without a listing.

        A client with thousands of contenders in a queue would list it thousands of times.
        """
        nearest = self._local.ours_at(self.node.sequence - 1)
        if nearest is None or not self._is_one_at_a_time or self._on_rank is not None:
            return None  # or the rank is wanted
        return QueuePosition(1, (nearest,), is_next=False, is_exact=False)

    @property
    def _is_one_at_a_time(self) -> bool:
        return self._places == 1 and not self._role.shares

    def _note_front(self) -> None:
        if self._is_one_at_a_time:
            self._local.front = self.node.name

    def _was_first(self, name: str) -> bool:
        """Whether the one just before us, which has gone, is known to have been the first.

        Then we are, and need not ask: as with `is_next`. Of another contender of this client, that
            is known as soon as it is true. So a waiter behind one of ours need not look ahead, nor
            list the queue when it goes.

        Not if it has gone before we have seen both: then the queue may have been deleted and
            created again, and its number may be one of the old queue.
        """
        return self._local.front == name and name in self._outlived and self._is_one_at_a_time

    async def _list_queue(self) -> QueuePosition:
        """Lists the queue and finds our place in it.

        Raises:
            NodeGone: we are not in it.
        """
        try:
            names = await self._client.get_children(self._path)
        except NoNodeError:
            raise NodeGone from None
        return await self._place_among(names)

    async def _place_among(self, names: Sequence[str]) -> QueuePosition:
        line = await queue_order(self._client, self._path, names, self._layout, self._role)
        own = self.node.name
        if self._role.shares:
            place = sharing(line, own, self._layout, self._role)
        else:
            place = standing(line, own, self._places, look_ahead=self._on_rank is not None)
        if place is None:
            raise NodeGone
        if self._is_one_at_a_time and self._on_rank is None and len(place.watch) > 1:
            nearest = place.watch[0]
            if self._local.is_claimed(nearest):
                return replace(place, watch=(nearest,))
        return place

    async def _arm(self, names: Sequence[str]) -> bool:
        """Watches the names, and our own znode, all in one segment.

        Returns:
            False if one of the names is gone already, so that another look is due.

        Raises:
            NodeGone: our own znode is gone.
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
        line, known = self._local, self._seen_to_be | self._ahead_gone
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

        Others may have znodes in our session (see `docs/aiozk.md`), but none whose name begins with
        our session and a number that its client gives once.
        """
        return not self._local.is_wanted(name) and self._layout._is_of(
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

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
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
    """Whether an entry lets any creator of a znode read it."""
    is_anyone = (entry.scheme, entry.id) == ANYONE or entry.scheme == "auth"
    return is_anyone and Permission.READ in entry.permissions


class Ahead:
    """The callback of the watch on a contender before another one."""

    __slots__ = ("_contender", "_name")

    def __init__(self, contender: Contender, name: str) -> None:
        self._contender = contender
        self._name = name

    def __call__(self, event: WatchEvent) -> None:
        self._contender._on_ahead(self._name, event)
