"""A queue of contenders at a path, and one contender in it.

docs/explanation/contention.md explains the order, `kernel` has it.

The number of a contender is the parent's count of creates, 31 bits. At its end servers repeat the
last number (since ZOOKEEPER-3249), or hand out negative ones: the order is lost, and several
libraries let everybody in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar, final

from .._client.fast import Wakeup
from .._util.contender_names import LAST_SEQUENCE, UNREADY, ElectionRules, rules_of
from ..abc import CoordinationClient, Reply, Watch
from ..errors import NodeExistsError, NoNodeError, ReleaseError, SequenceExhaustedError
from ..events import OWNERLESS
from ..model import ACL, Created, EventType, Stat, WatchEvent
from ..paths import join
from .errors import TRIES, in_background
from .hold import Tenure, answered
from .holding import Contest, Kind
from .kernel import ALONE, QueuePosition, sharing, standing
from .layouts import WARN_FROM, Layout, Names, Role, checked_names, warn_of_the_end
from .naming import Departure, OwnNames, RegisteredNode, Sequential, delete_until_gone
from .neighbours import queue_order, refuse_other_rules
from .reading import is_request
from .recipe import OnDisconnect, checked_client, checked_path
from .reporting import PathWarnings
from .rivals import HolderQuery, front_of_queue
from .znode import NodeGone, Znode

_RULES = ElectionRules()
"""Those of every queue that is no election: one holds."""


class LocalContenders(OwnNames):
    """The contenders of one client in one queue: they know of each other, which saves requests.

    A queue works without most of this. Four hundred tasks of one process that wait for one lock are
    four hundred znodes in a row. Nearly all of them are behind a znode of their own process, whose
    number is known. So they need no listing, which is long in such a queue, and no second watch
    (400 tasks took 0.07 s of processor time instead of 0.33 s). Nor do they read the znode before
    them, whose owner watches it (two requests for each instead of three).
    """

    __slots__ = ("_warnings", "fits", "front", "look", "ownerless", "was_contended")

    def __init__(self) -> None:
        super().__init__()
        self.front: str | None = None
        """The last one that was first in the queue, where one holds at a time."""
        self.was_contended: bool = False
        """Whether the last listing of the queue showed others before us."""
        self.fits: list[tuple[Names, ElectionRules]] = []
        """The names and rules that all neighbours have fitted."""
        self.look: Reply[list[str]] | None = None
        """The last listing that was requested to check that."""
        self.ownerless: str | None = None
        """The last contender that was read and that no session owns."""
        self._warnings: PathWarnings | None = None

    def warnings_of(self, client: CoordinationClient, path: str) -> PathWarnings:
        """The warnings about the path, kept for as long as this object."""
        if self._warnings is None:
            self._warnings = client.backend.shared(path, PathWarnings)
        return self._warnings

    def waits(self, name: str) -> bool:
        """Whether it is ours and probably waits, so that it watches its own znode."""
        return name != self.front and name in self.claimed

    def just_behind(self, sequence: int) -> QueuePosition | None:
        """The position behind a contender of ours with the number just before; None without one.

        Nobody is between two numbers in a row.
        """
        nearest = self.by_number.get(sequence - 1)
        if nearest is None:
            return None
        return QueuePosition(1, (nearest,), is_next=False, is_exact=False)

    def without_look_ahead(self, position: QueuePosition) -> QueuePosition:
        """Watch the nearest contender alone if it is ours: it says itself when it is the first."""
        if len(position.watch) > 1 and self.is_claimed(position.watch[0]):
            rank, watch, is_next, is_exact, extra = position
            return QueuePosition(rank, watch[:1], is_next, is_exact, extra)
        return position

    def was_first(self, name: str, outlived: Sequence[str]) -> bool:
        """Whether a contender that has gone is known to have been the first: then we are.

        Another contender of this client is known to be first as soon as it is. So a waiter behind
        it needs neither a look-ahead watch nor a listing.

        False if it had gone before we saw both: the queue may have been deleted and created again,
        and its number may be from the old queue. `outlived` are the names seen after our own.
        """
        return self.front == name and name in outlived


@cache
def prefix_of(names: Names, rules: ElectionRules = _RULES) -> Callable[[int, int], str]:
    """The function that makes the names; one for all queues, since it takes three objects."""
    return partial(names.prefix, rules=rules.part)


async def created(znode: Znode, create: Reply[Created], path: str) -> None:
    """Wait for the answer to a create in the queue at `path`.

    Raises `SequenceExhaustedError` if the queue has no more numbers, and warns near their end.
    """
    try:
        await create
    except NodeExistsError:
        raise SequenceExhaustedError(path) from None
    if not 0 <= (sequence := znode.node.sequence) < LAST_SEQUENCE:
        znode.withdraw()
        raise SequenceExhaustedError(path)
    if sequence >= WARN_FROM:
        warn_of_the_end(path, sequence)


class Ahead:
    """The contenders before us that we watch, and what has happened to them since `renew`.

    `on_seen` is called with the name and the `Stat` of each that is read, as the answer arrives.
    """

    __slots__ = ("_on_seen", "_queue", "_watches", "_woken", "gone", "is_stale", "outlived")

    def __init__(self, queue: ContenderQueue, on_seen: Callable[[str, Stat], object]) -> None:
        self._queue = queue
        self._on_seen = on_seen
        self._watches: dict[str, Watch] = {}
        self._woken = Wakeup()
        self.gone: set[str] = set()
        self.is_stale = False
        """Whether a watch has ended without a deletion."""
        self.outlived: Sequence[str] = ()
        """The watched names that were there after our znode had been read."""

    def renew(self) -> None:
        """Begin to wait again; the watches stay."""
        self._woken = Wakeup()
        self.is_stale = False

    async def read(self, names: Sequence[str], own: Znode) -> bool:
        """Read the names and our own znode, and watch them, all in one segment.

        Return False if a name is already gone, so that another look is due. Raise `NodeGone` if our
        own znode is gone, and `NoAuthError` if one may not be read: servers since 3.8.4 and 3.9.2
        would not report what happens to it.
        """
        for name in [name for name in self._watches if name not in names]:
            self._watches.pop(name).close()
        self.gone.intersection_update(names)
        new = [name for name in names if name not in self._watches and name not in self.gone]
        complete = True
        if new or not own.is_watched:
            ours = [name for name in new if self._queue.local.waits(name)]
            with self._queue.client.pipelined():
                own_look = None if own.is_watched else own.send_look()
                looks = [self._look(name) for name in new if name not in ours]
            complete = await self._looked(looks)
            if own_look is not None:
                try:
                    await own_look
                except NoNodeError:
                    raise NodeGone from None
            # Waiters of ours have sent the same look before us, so it was answered before ours.
            looks = [self._look(name) for name in ours if not self._join(name)]
            complete = await self._looked(looks) and complete
        there, before = self._watches.keys() - self.gone, self.outlived
        self.outlived = tuple(name for name in names if name in there or name in before)
        return complete

    def _look(self, name: str) -> tuple[str, Reply[tuple[bytes, Stat]]]:
        queue = self._queue
        watch = self._watches[name] = queue.client.backend.make_watch(AheadEvent(self, name))
        look = queue.client.get(join(queue.path, name), watch=watch)
        look.add_done_callback(partial(self._read, name, look))
        return name, look

    async def _looked(self, looks: Sequence[tuple[str, Reply[tuple[bytes, Stat]]]]) -> bool:
        """Wait for the answers; return whether all are still there."""
        complete = True
        for name, look in looks:
            try:
                await look
            except NoNodeError:
                self._watches.pop(name).close()
                complete = False
        return complete

    def _join(self, name: str) -> bool:
        """Watch a contender of ours by the watch that it has on its own znode, if it has one."""
        queue = self._queue
        path, event = join(queue.path, name), AheadEvent(self, name)
        watch = queue.client.backend.join_watch(path, event)
        if watch is None:
            return False
        self._watches[name] = watch
        return True

    def _read(self, name: str, look: Reply[tuple[bytes, Stat]]) -> None:
        if look.error() is None:
            self._on_seen(name, look.result()[1])

    def happened(self, name: str, event: WatchEvent) -> None:
        """Process the event of a watch, in the client's task."""
        self._watches.pop(name, None)
        if event.type is EventType.DELETED:
            self.gone.add(name)
        elif event.type is not EventType.DATA_CHANGED:
            self.is_stale = True
        # Else it was asked to release, which does not concern us: a read sets the watch again.
        self._woken.set()

    def wake(self) -> None:
        self._woken.set()

    def look_again(self) -> None:
        self.is_stale = True
        self._woken.set()

    def wait(self) -> Awaitable[None]:
        """Wait until something happens; not at all if it has since `renew`."""
        return self._woken.wait()

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()


class AheadEvent:
    """The callback of one watch of an `Ahead`."""

    __slots__ = ("_ahead", "_name")

    def __init__(self, ahead: Ahead, name: str) -> None:
        self._ahead = ahead
        self._name = name

    def __call__(self, event: WatchEvent) -> None:
        self._ahead.happened(self._name, event)


class Contender:
    """A place in a queue: a `Place`. It joins, waits until it is in front, and leaves.

    When the session is over, or others delete its znode, it joins again. So does a waiter in an
    election that others ask to release: it steps behind the others (see `term`).

    Args:
        data: the data of its znode, the identity.
        acl: that of the znode, and of the path if it has to be created.
        on_rank: called synchronously with how many contenders have to leave before we hold; None if
            that is unknown. A rank of 1 or 2 is exact, and reported at once; a greater one is that
            of the last listing.
        on_gone: called synchronously when others have deleted our znode.
        on_listed: called synchronously with each listing, in order. Then it lists the queue as soon
            as it has joined, also behind another contender of this client.
        naming: how it names its znode, if not as all others of the queue.
    """

    # There may be thousands, and memory is most of what each costs.
    __slots__ = (
        *("_acl", "_ahead", "_behind", "_client", "_is_one_at_a_time", "_local", "_names"),
        *("_naming", "_on_gone", "_on_listed", "_on_rank", "_path", "_places", "_queue", "_role"),
        *("is_new", "znode"),
    )

    def __init__(
        self,
        queue: ContenderQueue,
        data: bytes,
        acl: Sequence[ACL] | None = None,
        *,
        on_rank: Callable[[int | None], object] | None = None,
        on_gone: Callable[[], object] | None = None,
        on_listed: Callable[[Sequence[str]], object] | None = None,
        naming: Sequential | None = None,
    ) -> None:
        self._queue = queue
        self._client = queue.client
        self._path = queue.path
        self._names = queue.names
        self._role = queue.role
        self._places = queue.places
        self._local = queue.local
        self._naming = naming or queue.naming
        self._acl = acl
        self._on_rank = on_rank
        self._on_gone = on_gone
        self._on_listed = on_listed
        self.znode: Znode = Znode(queue.client, self._naming, data, acl, self)
        self.is_new: bool = False
        self._is_one_at_a_time = queue.places == 1 and not queue.role.shares
        self._ahead: Ahead | None = None
        """Only while we wait."""
        self._behind: str | None = None
        """The contender that we wait for, for messages; None in front."""

    # --- what happens to the znode: see `ZnodeObserver` ----------------------------------------

    def znode_gone(self) -> None:
        if self._ahead is not None:
            self._ahead.wake()
        if self._on_gone is not None:
            self._on_gone()

    def watch_ended(self) -> None:
        if self._ahead is not None:
            self._ahead.look_again()

    def data_seen(self, data: bytes) -> None:
        if not self.znode.is_asked_for and is_request(data):
            self.znode.ask_holder()
            if self._ahead is not None:
                self._ahead.wake()

    # --- getting to the front ------------------------------------------------------------------

    @property
    def znodes(self) -> Sequence[Znode]:
        return (self.znode,)

    async def get(self, *, wait: bool) -> bool:
        position = await self._join()
        if position is None:
            position = (self._behind_ours() if wait else None) or await self._list_queue()
        while position.watch:
            ownerless = self._local.ownerless
            self._behind = ownerless if ownerless in position.watch else position.watch[0]
            if not wait:
                return False
            ahead = self._ahead = self._ahead or Ahead(self._queue, self._seen)
            ahead.renew()
            if not await ahead.read(position.watch, self.znode):
                position = await self._list_queue()
                continue
            if self._on_rank is not None:
                rank = position.rank - self._places + 1 + position.extra
                self._on_rank(rank if position.is_exact else None)
            self.is_new = False
            if not (ahead.gone or self.znode.is_gone or ahead.is_stale or self._must_step_behind):
                await ahead.wait()
            self.znode.check()
            if self._must_step_behind:
                position = await self._step_behind()
                continue
            nearest = position.watch[0]
            if nearest in ahead.gone and (
                position.is_next
                or (self._is_one_at_a_time and self._local.was_first(nearest, ahead.outlived))
            ):
                break
            if ahead.gone or ahead.is_stale:
                known = frozenset(ahead.gone)
                position = await self._list_queue()
                # A server that lags lists them still: no event counts as what a client has seen.
                # They are read, and watched, there; to list again would be a loop without a pause.
                ahead.gone -= known
        self._behind = None
        if self._is_one_at_a_time:
            self._local.front = self.znode.node.name
        return True

    # --- joining -------------------------------------------------------------------------------

    async def _join(self) -> QueuePosition | None:
        """Make sure that we have a znode; return the position, if the queue was listed for that.

        The create leaves together with a listing, which shows the new znode.
        """
        client, queue, local, znode = self._client, self._queue, self._local, self.znode
        node, tries = znode.current, TRIES
        if node is not None and node.session_id != client.session_id:
            self.restart()
        if znode.current is not None:
            return None
        while True:
            listing: Reply[list[str]] | None = None
            try:
                if not queue.has_looked:
                    await queue.refuse_misfits(self._acl)
                if await znode.found_lost():
                    return None
                # If others of ours are there already, the predecessor is usually one of them.
                if not (local.claimed or local.expected):
                    with client.pipelined():
                        create, listing = znode.create(), client.get_children(self._path)
                else:
                    create = znode.create()
                await created(znode, create, self._path)
                self.is_new = True
                if listing is None:
                    return None
            except NoNodeError:
                if not tries:
                    raise
                tries -= 1
                await queue.make_path(self._acl)
            else:
                break
        try:
            names = listing.result() if listing.is_done else await listing
            position = await self._place_among(names)
        except NoNodeError:
            raise NodeGone from None
        local.was_contended = bool(position.watch)
        return position

    # --- stepping behind -----------------------------------------------------------------------

    @property
    def _must_step_behind(self) -> bool:
        """Whether others ask a waiter for its place. Those of other recipes keep theirs."""
        return self.znode.is_asked_for and self._role is Role.ELECTION

    async def _step_behind(self) -> QueuePosition:
        """Leave the queue, and join it again at its end.

        Wait until our znode is known to be gone, so that we are never in the queue twice. Raises
        `ReleaseError` if the servers refuse that: then we would wait for our own znode.
        """
        self.unwatch()
        left = self.znode.withdraw()
        self.znode.is_asked_for = False
        error = None if left is None else await answered(left)
        if isinstance(error, ReleaseError):
            raise error
        return await self._join() or await self._list_queue()

    # --- waiting -------------------------------------------------------------------------------

    def _behind_ours(self) -> QueuePosition | None:
        """The position behind a contender of ours with the number just before; saves a listing."""
        if not self._is_one_at_a_time or self._on_rank or self._on_listed:
            return None  # or the rank, or a listing, is wanted
        position = self._local.just_behind(self.znode.node.sequence)
        if position is None or self._role is not Role.ELECTION:
            return position
        # One with other rules is refused by the listing.
        return position if rules_of(position.watch[0]) == self._queue.rules else None

    def obstacle(self) -> str:
        if self._behind is None:
            return ""
        path = join(self._path, self._behind)
        if self._behind == self._local.ownerless:
            return f"behind {path}, which {OWNERLESS}"
        return f"behind {path}"

    def holder_query(self) -> HolderQuery | None:
        node = self.znode.current
        if node is None or self._behind is None:
            return None
        return partial(front_of_queue, self._client, self._path, self._names, node.name)

    def _note_owner(self, name: str, stat: Stat) -> None:
        """Warn of a znode before us that no session owns, as it was read."""
        if not stat.ephemeral_owner:
            self._behind = self._local.ownerless = name
            warnings = self._local.warnings_of(self._client, self._path)
            znode, created = join(self._path, name), stat.ctime / 1000
            warnings.warn_of_ownerless(self._client, self._path, znode, created)

    async def _list_queue(self) -> QueuePosition:
        """List the queue and find our position; raise `NodeGone` if we are not in it."""
        try:
            names = await self._client.get_children(self._path)
        except NoNodeError:
            raise NodeGone from None
        return await self._place_among(names)

    async def _place_among(self, names: Sequence[str]) -> QueuePosition:
        own = self.znode.node.name
        if names == [own]:
            if self._on_listed is not None:
                self._on_listed(names)
            return ALONE
        line = await queue_order(self._client, self._path, names, self._names)
        if self._role.shares:
            position = sharing(line, own, self._names)
        else:
            position = standing(line, own, self._places, look_ahead=self._on_rank is not None)
        if position is None:
            raise NodeGone
        if self._role is Role.ELECTION:
            before = line[: position.rank]
            await refuse_other_rules(self._client, self._path, before, self._queue.rules)
        if self._on_listed is not None:
            self._on_listed(line)
        if self._is_one_at_a_time and self._on_rank is None:
            return self._local.without_look_ahead(position)
        return position

    def _seen(self, name: str, stat: Stat) -> None:
        """Delete the unclaimed znode before us that our session owns: we would wait for ourselves.

        It is from a lost create, or another process that has our session has made it.
        """
        client = self._client
        self._note_owner(name, stat)
        count = self._names.count_in(client.session_id, name)
        is_ours = stat.ephemeral_owner == client.session_id
        if count is None or not is_ours or self._local.is_wanted(name):
            return
        if client.backend.gave(count):
            created = Created(join(self._path, name), stat)
            orphan = self._naming.claim(created, stat.ephemeral_owner)
            client.backend.spawn(partial(self._delete_orphan_later, orphan))
        else:
            self._naming.delete_orphan(join(self._path, name), stat)

    async def _delete_orphan_later(self, orphan: RegisteredNode) -> None:
        job = partial(delete_until_gone, self._client, self._naming, orphan)
        try:
            await in_background(orphan.path, job)
        finally:
            self._naming.unclaim(orphan)

    # --- leaving -------------------------------------------------------------------------------

    def unwatch(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def restart(self) -> None:
        """Give up the znode, which is gone, or whose session is over."""
        self.unwatch()
        self.znode.forget()

    def discard(self) -> Departure | None:
        self._on_listed = None  # it may refer to us: a reference cycle would wait for the collector
        return self.znode.discard()


T = TypeVar("T", bound=Tenure)


@final
class ContenderQueue:
    """A path with a queue of contenders, of whom the first one holds, or the first `places`.

    Args:
        recipe: the name of the recipe's class, for errors.
        rules: those of an election, with the number of places.
        shown: the role to which `rivals.entries` is limited, of the two of a shared queue; None
            for all.
        before_path: called before a missing path is created; raises if it must not be.

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
        rules: ElectionRules = _RULES,
        shown: Role | None = None,
        before_path: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.names: Names = checked_names(recipe, layout, role)
        self.recipe = recipe
        self.client: CoordinationClient = checked_client(client)
        self.path: str = checked_path(path)
        self.layout = layout
        self.role = role
        self.rules = rules
        self.places: int = rules.leaders
        # The knowledge about the queue outlives a contender.
        self.local: LocalContenders = self.client.backend.shared(path, LocalContenders)
        self.naming: Sequential = Sequential(
            self.client, self.local, path, prefix_of(self.names, rules)
        )
        self.shown = shown
        self._before_path = before_path

    def contest(
        self,
        kind: Kind[T],
        *,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
        **more: Any,
    ) -> Contest[T]:
        """Make the contest of the recipe, whose places are contenders; see `Contest`."""
        return Contest(
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

    def contend(
        self,
        contest: Contest[Any],
        on_rank: Callable[[int | None], object] | None = None,
        on_listed: Callable[[Sequence[str]], object] | None = None,
        *,
        is_ready: bool = True,
    ) -> Contender:
        """Make a contender, with nothing sent yet: the place of a contest."""
        data = contest.data if is_ready else UNREADY + contest.data
        return Contender(self, data, contest.acl, on_rank=on_rank, on_listed=on_listed)

    # --- before a contender joins --------------------------------------------------------------

    @property
    def has_looked(self) -> bool:
        """Whether `refuse_misfits` has found that all neighbours fit."""
        return (self.names, self.rules) in self.local.fits

    async def refuse_misfits(self, acl: Sequence[ACL] | None) -> None:
        """Refuse neighbours that do not fit, before anything is written.

        A name that another library does not understand can make its `lock()` fail (see
        `contender_names`), so it must not exist even for a moment. It takes a round trip, once per
        client, path, layout, role and rules. Later arrivals are refused when they are seen. Raises
        `MixedLayoutError`.
        """
        local, names = self.local, self.names
        look = local.look
        if look is None or look.is_done:
            look = local.look = self.client.get_children(self.path)  # for all that ask meanwhile
        try:
            children = await look
        except NoNodeError:
            await self.make_path(acl)
        else:
            line = await queue_order(self.client, self.path, children, names)
            if self.role is Role.ELECTION:
                await refuse_other_rules(self.client, self.path, line, self.rules)
        finally:
            # A kept error would keep the frames of all that awaited it.
            if local.look is look and look.is_done:
                local.look = None
        if not self.has_looked:
            local.fits.append((names, self.rules))

    def forget_fit(self) -> None:
        """Look again before the next contender joins."""
        if self.has_looked:
            self.local.fits.remove((self.names, self.rules))

    async def make_path(self, acl: Sequence[ACL] | None) -> None:
        if self._before_path is not None:
            await self._before_path()
        await self.client.ensure_path(self.path, mode=self.names.scheme.parents, acl=acl)
