"""A contender in a queue: joins it, waits until it is in front, and holds.

When the session is over, or others delete its znode, it joins again. It has a `Znode`, and the loop
of an `Acquirable`; docs/explanation/contention.md explains both. `LocalContenders` is what the
contenders of one client on one path share.

The number of a contender is the parent's count of creates, 31 bits. At its end servers repeat the
last number (since ZOOKEEPER-3249), or hand out negative ones: the order is lost, and several
libraries let everybody in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from .._util.contender_names import leaders_of
from .._util.escaping import escaped
from .._util.tasks import Wakeup
from ..abc import CoordinationClient, Hold, Reply, Watch
from ..errors import NodeExistsError, NoNodeError, SequenceExhaustedError
from ..model import ACL, Created, EventType, SessionState, Stat, WatchEvent
from ..paths import join
from .errors import TRIES, in_background
from .kernel import ALONE, QueuePosition, sharing, standing
from .layouts import Layout, Role
from .naming import Sequential, delete_until_gone
from .neighbours import queue_order
from .pending_delete import Departure
from .place import Acquirable
from .reading import is_request
from .reporting import OWNERLESS, PathWarnings
from .znode import Holder, HoldOptions, NodeGone, Znode, ZnodeState
from .znode_registry import OwnNames, RegisteredNode

LAST_SEQUENCE = 0x7FFF_FFFF
"""The number that servers hand out more than once. A contender that gets it holds nothing."""

WARN_FROM = LAST_SEQUENCE // 2 + 1
"""The number from which to warn, half of them: at a thousand a second, twelve days are left."""

_STEP = 5


class SequenceWarning(UserWarning):
    """A path has used up half of its sequence numbers, or more; at the end nobody can contend.

    Each process warns once for each path, and again with every further 5 %. This is a Python
    warning: `logging.captureWarnings(True)` logs it. `SequenceExhaustedError` says what to do.

    Attributes:
        path: the path.
        sequence: the number that the contender was given.
        left: how many numbers there are after it.
    """

    def __init__(self, path: str, sequence: int) -> None:
        used = _percent(sequence) // _STEP * _STEP
        # The same text for the same path and 5 %: Python filters warnings by it.
        super().__init__(
            f"{escaped(path)} has used up {used} % of its sequence numbers: before they end, let "
            "all contenders stop, delete the path and start again, or use a new path"
        )
        self.path = path
        self.sequence = sequence
        self.left: int = LAST_SEQUENCE - 1 - sequence

    def __reduce__(self) -> tuple[type[SequenceWarning], tuple[str, int]]:
        return type(self), (self.path, self.sequence)


def warn_of_the_end(path: str, sequence: int) -> None:
    """Warn of a number from `WARN_FROM` on."""
    warnings.warn(SequenceWarning(path, sequence), stacklevel=2)


def _percent(sequence: int) -> int:
    return 100 * sequence // LAST_SEQUENCE


class SessionChanges:
    """How often the state of a client's session has changed; one for all of its contenders."""

    def __init__(self) -> None:
        self.count = 0
        self._is_subscribed = False

    @classmethod
    def of(cls, client: CoordinationClient) -> SessionChanges:
        changes = client.backend.shared("/", cls)
        if not changes._is_subscribed:
            changes._is_subscribed = True
            client.backend.subscribe(changes._on_state)  # for as long as the client lives
        return changes

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self.count += 1


class LocalContenders(OwnNames):
    __slots__ = (
        "_at",
        "_warnings",
        "fits",
        "front",
        "look",
        "ownerless",
        "session",
        "was_contended",
    )

    def __init__(self) -> None:
        super().__init__()
        self.was_contended = False
        """Whether the last listing of the queue showed others before us."""
        self.front: str | None = None
        """The last one of ours that was first in the queue, where one holds at a time."""
        self.fits: list[tuple[Layout, Role]] = []
        """Layouts and roles that all neighbours have fitted; a list, as hashing one is slower."""
        self.look: Reply[list[str]] | None = None
        """The last listing that was requested to check that."""
        self.ownerless: str | None = None
        """The last contender that was read and that no session owns."""
        self.session: SessionChanges | None = None
        """Set by the first contender."""
        self._at: dict[int, str] = {}
        self._warnings: PathWarnings | None = None

    def warnings_of(self, client: CoordinationClient, path: str) -> PathWarnings:
        """The warnings about the path, kept for as long as this object."""
        if self._warnings is None:
            self._warnings = client.backend.shared(path, PathWarnings)
        return self._warnings

    # --- ours by number ------------------------------------------------------------------------

    def claim(self, name: str, sequence: int) -> None:
        self._claimed[name] = sequence
        self._at[sequence] = name

    def forget(self, name: str) -> None:
        sequence = self._claimed.pop(name, None)
        if sequence is not None and self._at.get(sequence) == name:
            del self._at[sequence]

    def ours_at(self, sequence: int) -> str | None:
        return self._at.get(sequence)


def queue_naming(
    client: CoordinationClient,
    local: LocalContenders,
    path: str,
    layout: Layout,
    role: Role,
    places: int = 1,
) -> Sequential:
    """The naming of znodes whose numbers are their places in the queue at `path`."""
    return Sequential(client, local, path, _prefix(layout, role, places))


@cache
def _prefix(layout: Layout, role: Role, places: int) -> Callable[[int, int], str]:
    """The function that makes the names; one for all queues, since it takes three objects."""
    return partial(layout._prefix, role, leaders=places)


async def ready_to_create(client: CoordinationClient, znode: Znode) -> bool:
    """Wait for a connection; return False if a lost create has left a znode."""
    if client.state is not SessionState.CONNECTED:
        await client.ready()
    return znode.state is ZnodeState.ABSENT or not await znode.resolve()


async def await_created(znode: Znode, create: Reply[Created], path: str) -> None:
    """Wait for the answer to a create in the queue at `path`.

    Raises `SequenceExhaustedError` if the queue has no more numbers, and warns near their end.
    """
    try:
        await create
    except NodeExistsError:
        # The counter stands still at its end since ZOOKEEPER-3249, so names repeat.
        raise SequenceExhaustedError(path) from None
    sequence = znode.node.sequence
    if not 0 <= sequence < LAST_SEQUENCE:
        znode.withdraw()
        raise SequenceExhaustedError(path)
    if sequence >= WARN_FROM:
        warn_of_the_end(path, sequence)


_NEVER = -1
_NOBODY: frozenset[str] = frozenset()
"""One for all: an empty set takes as much memory as one with a name in it."""
_NO_WATCHES: dict[str, Watch] = {}
"""One for all that do not wait."""
_NOBODY_WAITS = Wakeup()
"""The `Wakeup` of those that do not wait, one for all: a waiter makes its own."""


class Contender(Acquirable):
    """One place in a queue, of whose contenders the first `places` hold.

    `data` is what its znode holds, the identity; `acl` is that of the znode, and of the path if it
    has to be created. `naming` and `local` are those of the queue; contenders may share them.
    """

    # There may be thousands, and memory is most of what each costs.
    __slots__ = (
        "_acl",
        "_ahead",
        "_ahead_gone",
        "_behind",
        "_client",
        "_is_one_at_a_time",
        "_layout",
        "_local",
        "_naming",
        "_new_since",
        "_on_rank",
        "_outlived",
        "_path",
        "_places",
        "_role",
        "_stale",
        "_standing",
        "_wake",
        "is_asked_for",
        "znode",
    )

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        layout: Layout,
        role: Role,
        data: bytes,
        acl: Sequence[ACL] | None = None,
        local: LocalContenders | None = None,
        places: int = 1,
        naming: Sequential | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._layout = layout
        self._role = role
        self._acl = acl
        self._places = places
        self._local = local or client.backend.shared(path, LocalContenders)
        self._naming = naming or queue_naming(client, self._local, path, layout, role, places)
        self.znode = Znode(client, self._naming, data, acl, self)
        self.is_asked_for = False
        """Whether others ask for a release."""
        self._is_one_at_a_time = places == 1 and not role.shares
        self._new_since = _NEVER
        """`SessionChanges.count` at the answer to our create, until we wait."""
        self._standing: QueuePosition | None = None
        """The position by the listing that was sent with the create."""
        # The events of watches since the last look.
        self._wake = _NOBODY_WAITS
        self._stale = False
        self._ahead = _NO_WATCHES
        self._ahead_gone = _NOBODY
        self._behind: str | None = None
        """The contender that we wait for, for messages; None in front."""
        self._outlived: Sequence[str] = ()
        """Names that still existed when our znode did; used where one holds at a time."""
        self._on_rank: Callable[[int | None], object] | None = None

    def when_ranked(self, call: Callable[[int | None], object]) -> None:
        """Register a callback for how many contenders have to leave before we hold.

        Called synchronously, with None if that is unknown. Register it before joining. A rank of 1
        or 2 is exact, and reported at once; a greater one is that of the last listing.
        """
        self._on_rank = call

    @property
    def node(self) -> RegisteredNode:
        node = self.znode.current
        assert node is not None, "there is no znode"
        return node

    def hold(self, holder: Holder, options: HoldOptions) -> Hold:
        return self.znode.hold(holder, options)

    # --- what happens to the znode: see `ZnodeObserver` ----------------------------------------

    def znode_gone(self) -> None:
        self._wake.set()

    def watch_ended(self) -> None:
        self._stale = True
        self._wake.set()

    def data_seen(self, data: bytes) -> None:
        if not self.is_asked_for and is_request(data):
            self.is_asked_for = True
            self.znode.ask_holder()

    # --- getting to the front ------------------------------------------------------------------

    def _follow_session(self) -> None:
        # The changes of its state are counted for all contenders of the client.
        self._new_since = _NEVER
        if self._local.session is None:
            self._local.session = SessionChanges.of(self._client)

    def _znodes(self) -> Sequence[Znode]:
        return (self.znode,)

    def _start_again(self) -> None:
        self.forget()

    def _has_just_created(self) -> bool:
        session = self._local.session
        return session is not None and self._new_since == session.count

    async def _try(self, *, waits: bool) -> bool:
        self._standing = None
        if await self._join():
            self._note_front()
            return True
        place = self._take_standing() or (self._behind_ours() if waits else None)
        place = place or await self._list_queue()
        while place.watch:
            ownerless = self._local.ownerless
            self._behind = ownerless if ownerless in place.watch else place.watch[0]
            if not waits:
                return False
            self._wake = Wakeup()
            self._stale = False
            if not await self._read_ahead(place.watch):
                place = await self._list_queue()
                continue
            if self._on_rank is not None:
                rank = place.rank - self._places + 1 + place.extra
                self._on_rank(rank if place.is_exact else None)
            self._new_since = _NEVER
            if not (self._ahead_gone or self.znode.is_gone or self._stale):
                await self._wake.wait()
            self.znode.check()
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
        """Make sure that we have a znode; return whether it is known to be in front.

        The create leaves together with a listing, which shows the new znode.
        """
        znode, node = self.znode, self.znode.current
        if node is not None and node.session_id != self._client.session_id:
            self.forget()
        if znode.current is not None:
            return False
        local, session, tries = self._local, self._local.session, TRIES
        listing: Reply[list[str]] | None = None
        assert session is not None, "`_follow_session` has set it"
        while True:
            try:
                if (self._layout, self._role) not in local.fits:
                    await self.look_before()
                if not await ready_to_create(self._client, znode):
                    return False
                # If others of ours are there already, the predecessor is usually one of them.
                if local.is_empty:
                    with self._client.pipelined():
                        create, listing = znode.create(), self._client.get_children(self._path)
                else:
                    create, listing = znode.create(), None
                await await_created(znode, create, self._path)
            except NoNodeError:
                if not tries:
                    raise
                tries -= 1
                await self._make_path()
            else:
                break
        self._new_since = session.count
        if listing is None:
            return False
        try:
            # Usually it came with the answer to the create, the wait for which was a checkpoint.
            names = listing.result() if listing.is_done else await listing
            self._standing = await self._place_among(names)
        except NoNodeError:
            raise NodeGone from None
        local.was_contended = bool(self._standing.watch)
        return not self._standing.watch

    async def _make_path(self) -> None:
        await self._client.ensure_path(self._path, mode=self._layout._parents, acl=self._acl)

    async def look_before(self) -> None:
        """Refuse neighbours that do not fit, before anything is written.

        A name that another library does not understand can make its `lock()` fail (see
        `contender_names`), so it must not exist even for a moment. It takes a round trip, once per
        client, path, layout and role. Later arrivals are refused when they are seen. Raises
        `MixedLayoutError`.
        """
        line, kind = self._local, (self._layout, self._role)
        if kind in line.fits:
            return
        look = line.look
        if look is None or look.is_done:
            look = line.look = self._client.get_children(self._path)  # for all that ask meanwhile
        try:
            names = await look
        except NoNodeError:
            await self._make_path()
        else:
            await queue_order(self._client, self._path, names, self._layout, self._role)
        finally:
            # A kept error would keep the frames of all that awaited it.
            if line.look is look and look.is_done:
                line.look = None
        if kind not in line.fits:
            line.fits.append(kind)

    def _take_standing(self) -> QueuePosition | None:
        seen, self._standing = self._standing, None
        return seen

    # --- waiting -------------------------------------------------------------------------------

    def _behind_ours(self) -> QueuePosition | None:
        """The position behind a contender of ours with the number just before; saves a listing."""
        nearest = self._local.ours_at(self.node.sequence - 1)
        if nearest is None or not self._is_one_at_a_time or self._on_rank is not None:
            return None  # or the rank is wanted
        return QueuePosition(1, (nearest,), is_next=False, is_exact=False)

    def obstacle(self) -> str:
        if self._behind is None:
            return ""
        path = join(self._path, self._behind)
        if self._behind == self._local.ownerless:
            return f"behind {path}, which {OWNERLESS}"
        return f"behind {path}"

    def _note_owner(self, name: str, stat: Stat) -> None:
        """Warn of a znode before us that no session owns, as it was read."""
        if not stat.ephemeral_owner:
            self._behind = self._local.ownerless = name
            path = join(self._path, name)
            self._local.warnings_of(self._client, self._path).warn_of_ownerless(path)

    def _note_front(self) -> None:
        self._standing = None
        self._behind = None
        self._wake = _NOBODY_WAITS
        if self._is_one_at_a_time:
            node = self.znode.current
            assert node is not None, "it is in front"
            self._local.front = node.name

    def _was_first(self, name: str) -> bool:
        """Whether the predecessor, which has gone, is known to have been the first: then we are.

        Another contender of this client is known to be first as soon as it is. So a waiter behind
        it needs neither a look-ahead watch nor a listing.

        False if it had gone before we saw both: the queue may have been deleted and created again,
        and its number may be from the old queue.
        """
        return self._local.front == name and name in self._outlived and self._is_one_at_a_time

    async def _list_queue(self) -> QueuePosition:
        """List the queue and find our position; raise `NodeGone` if we are not in it."""
        try:
            names = await self._client.get_children(self._path)
        except NoNodeError:
            raise NodeGone from None
        return await self._place_among(names)

    async def _place_among(self, names: Sequence[str]) -> QueuePosition:
        node = self.znode.current
        assert node is not None, "it has joined"
        own = node.name
        if names == [own]:
            return ALONE
        line = await queue_order(self._client, self._path, names, self._layout, self._role)
        if self._role.shares:
            place = sharing(line, own, self._layout, self._role)
        else:
            place = standing(line, own, self._places, look_ahead=self._on_rank is not None)
        if place is None:
            raise NodeGone
        if self._role is Role.ELECTION:
            self._compare_places(place.watch or line[: place.rank])
        if self._is_one_at_a_time and self._on_rank is None and len(place.watch) > 1:
            nearest = place.watch[0]
            if self._local.is_claimed(nearest):
                return replace(place, watch=(nearest,))
        return place

    def _compare_places(self, names: Sequence[str]) -> None:
        """Warn of a contender that allows another number of leaders, once for each path.

        In a mixed queue, some contender watches a neighbour with another number.
        """
        for name in names:
            if leaders_of(name) != self._places:
                self._local.warnings_of(self._client, self._path).warn(
                    "leaders",
                    f"{self._path}: this process contends with leaders={self._places}, and {name}, "
                    f"which is before it, with leaders={leaders_of(name)}; the smaller number "
                    "counts: pass the same number in all processes",
                )
                return

    async def _read_ahead(self, names: Sequence[str]) -> bool:
        """Read the names and our own znode, and watch them, all in one segment.

        Return False if a name is already gone, so that another look is due. Raise `NodeGone` if our
        own znode is gone, and `NoAuthError` if one may not be read: servers since 3.8.4 and 3.9.2
        would not report what happens to it.
        """
        self._ahead = self._ahead or {}
        for name in [name for name in self._ahead if name not in names]:
            self._ahead.pop(name).close()
        self._ahead_gone = self._ahead_gone.intersection(names) or _NOBODY
        looks: list[tuple[str, Reply[tuple[bytes, Stat]]]] = []
        with self._client.pipelined():
            own = None if self.znode.is_watched else self.znode.send_look()
            for name in names:
                if name not in self._ahead and name not in self._ahead_gone:
                    watch = self._client.backend.make_watch(Ahead(self, name))
                    self._ahead[name] = watch
                    look = self._client.get(join(self._path, name), watch=watch)
                    look.add_done_callback(partial(self._on_look, name, look))
                    looks.append((name, look))
        complete = True
        for name, look in looks:
            try:
                await look
            except NoNodeError:
                self._ahead.pop(name).close()
                complete = False
        if own is not None:
            try:
                await own
            except NoNodeError:
                raise NodeGone from None
        if self._is_one_at_a_time:
            there, before = self._ahead.keys() - self._ahead_gone, self._outlived
            self._outlived = tuple(name for name in names if name in there or name in before)
        return complete

    def _count_in(self, name: str) -> int | None:
        return self._layout._count_in(self._role, self._client.session_id, name)

    def _on_look(self, name: str, look: Reply[tuple[bytes, Stat]]) -> None:
        """Delete the unclaimed znode before us that our session owns: we would wait for ourselves.

        It is from a lost create, or another process that has our session has made it.
        """
        if look.error() is not None:
            return
        client, (_, stat) = self._client, look.result()
        self._note_owner(name, stat)
        count = self._count_in(name)
        is_ours = stat.ephemeral_owner == client.session_id
        if count is None or not is_ours or self._local.is_wanted(name):
            return
        if client.backend.gave(count):
            created = Created(join(self._path, name), stat)
            orphan = self._naming.claim_found(created, stat.ephemeral_owner)
            client.backend.spawn(partial(self._delete_orphan_later, orphan))
        else:
            self._naming.delete_orphan(join(self._path, name), stat)

    async def _delete_orphan_later(self, orphan: RegisteredNode) -> None:
        job = partial(delete_until_gone, self._client, self._naming, orphan)
        try:
            await in_background(orphan.path, job)
        finally:
            self._naming.unclaim(orphan)

    def _on_ahead(self, name: str, event: WatchEvent) -> None:
        self._ahead.pop(name, None)
        if event.type is EventType.DELETED:
            self._ahead_gone |= {name}
        elif event.type is not EventType.DATA_CHANGED:
            self._stale = True
        # Else it was asked to release, which does not concern us: a read sets the watch again.
        self._wake.set()

    # --- leaving -------------------------------------------------------------------------------

    def _leave_watches(self) -> None:
        for watch in self._ahead.values():
            watch.close()
        self._ahead = _NO_WATCHES
        self._ahead_gone = _NOBODY
        self._outlived = ()

    def forget(self) -> None:
        """Give up the znode, which is gone, or whose session is over."""
        self._leave_watches()
        self.znode.forget()
        self.is_asked_for = False
        self._standing = None

    def discard(self) -> Departure | None:
        return self.znode.discard()


class Ahead:
    __slots__ = ("_contender", "_name")

    def __init__(self, contender: Contender, name: str) -> None:
        self._contender = contender
        self._name = name

    def __call__(self, event: WatchEvent) -> None:
        self._contender._on_ahead(self._name, event)
