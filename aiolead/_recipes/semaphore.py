"""The semaphore: permits of a limited number.

An attempt at some permits is first in the queue, then makes its znodes, then counts:

    (nothing) ──first in queue──> permits made ──not more than the limit──> held, queue left
                    │                │  more: wait for one to go, or for another limit
                    └────────────────┴─ session over, a znode deleted by others: start again

A contender that found no contention last time creates its permits in the same segment as its place
in the queue, and withdraws them at once if it is not the first.

The limit is 4 bytes, big-endian, as in Curator's `SharedCount`, or digits, as kazoo writes it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import anyio

from .._util.parsing import MalformedError, whole
from ..abc import CoordinationClient, Reply, Watch
from ..errors import (
    ConfigurationError,
    InvalidDataError,
    MixedLayoutError,
    NodeExistsError,
    NoNodeError,
    UsageError,
)
from ..model import ACL, Created, CreateMode, Participant, Stat
from ..paths import basename, join, parent, sequence_of
from .contender_queue import Contender, ContenderQueue
from .errors import TRIES
from .fixed import Fixed
from .hold import Held, acquire, try_acquire
from .holding import Contest, HeldRecipe, TenureContext
from .layouts import Layout, Role, names_of
from .naming import Departure, Naming, OwnNames, Sequential
from .neighbours import (
    KAZOOS_PERMIT,
    LEASES,
    contenders_among,
    queue_order,
    refuse_items,
    refuse_owned,
)
from .place_parts import WatchingPlace
from .reading import listed, over_sessions, read_participants
from .recipe import OnDisconnect, checked_client, checked_count, checked_flag, checked_path
from .reporting import PathWarnings
from .rivals import HolderQuery, oldest_holder
from .values import write
from .znode import NodeGone, Znode, ZnodeState

__all__ = ["Semaphore"]

_PARTS = ("locks", LEASES, "limit")
"""Curator's children of the path."""

_OTHERS = {
    Layout.CURATOR: ("kazoo", Layout.KAZOO),
    Layout.KAZOO: ("Curator", Layout.CURATOR),
}
"""For each layout: the owner of misfitting children, and the layout that fits them."""

MOST_PERMITS = 0x7FFF_FFFF
"""The greatest limit: a signed number of four bytes."""

SIZE = 4


@dataclass(frozen=True, slots=True)
class SemaphoreParts:
    """Where the contender queue is, the parent of the permits, and the znode with the limit."""

    path: str
    layout: Layout
    queue: str
    permits: str
    limit: str

    @property
    def is_kazoos(self) -> bool:
        """Whether only the first of the queue may create permits.

        kazoo counts the permits before it creates its own, so permits of others would mislead it.
        Curator counts after the creation, where surplus permits do no harm.
        """
        return self.layout == Layout.KAZOO

    def misfits(self, names: Iterable[str]) -> list[str]:
        """The children of the path that belong to a semaphore of the other layout."""
        if self.is_kazoos:
            return [name for name in names if name in _PARTS]
        return [name for name in names if re.fullmatch(KAZOOS_PERMIT, name)]


def parts_of(path: str, layout: Layout) -> SemaphoreParts:
    """Return the paths of a semaphore; refuse a layout that has none."""
    if layout == Layout.CURATOR:
        parts = (join(path, part) for part in _PARTS)
        return SemaphoreParts(path, layout, *parts)
    if layout == Layout.KAZOO:
        return SemaphoreParts(path, layout, f"{path}-__lock__", path, path)
    raise ConfigurationError(
        f"layout: {layout!r} has no names for a Semaphore: use Layout.CURATOR or Layout.KAZOO"
    )


async def refuse_misfits(
    client: CoordinationClient, where: SemaphoreParts, names: Iterable[str]
) -> None:
    """Raise `MixedLayoutError` if the path has a semaphore of the other layout, or another recipe.

    kazoo's permits are where Curator's parts are. Neither layout counts the permits of the other,
    and kazoo would count Curator's parts as permits. Contenders for a lock or an election there
    exclude no holder of a permit, and kazoo would count them as well, as it would count items.
    """
    names = list(names)
    for name in where.misfits(names):
        path = join(where.path, name)
        stat = await client.exists(path)
        if stat is not None:
            whose, layout = _OTHERS[where.layout]
            raise MixedLayoutError(
                path,
                f"belongs to a semaphore of {whose}, which does not count the permits of "
                f"{where.layout!r}: use layout={layout!r} on this path, in every program",
                session_id=stat.ephemeral_owner,
            )
    others = [name for name in names if not re.fullmatch(KAZOOS_PERMIT, name)]
    await refuse_owned(client, contenders_among(where.path, others))
    await refuse_items(client, where.path, others)


# --- the limit -----------------------------------------------------------------------------------


def decoded(path: str, data: bytes) -> int:
    """The limit in Curator's format; anything else raises `InvalidDataError`."""
    limit = int.from_bytes(data, "big", signed=True) if len(data) == SIZE else 0
    if limit < 1:
        raise InvalidDataError(path, f"{data[:16]!r} is no limit: 4 bytes, big-endian, from 1 up")
    return limit


def decoded_digits(data: bytes) -> int | None:
    """The limit in kazoo's format; like kazoo, ignore data that is not a number."""
    try:
        return whole(data, least=1, most=MOST_PERMITS)
    except MalformedError:
        return None


@dataclass(frozen=True, slots=True)
class LimitRule:
    """Which limit counts for one semaphore object. Pure.

    Anybody who may create children of the path can publish a limit. So a published limit grants
    more than the own argument only to semaphores that ask for that.

    Attributes:
        own: the argument of the recipe.
        follows: whether a published limit replaces it, also a greater one.
    """

    own: int
    follows: bool

    def counting(self, published: int | None) -> int:
        """The limit that counts; `published` is None if none is published."""
        if published is None:
            return self.own
        return published if self.follows else min(self.own, published)

    def ignores(self, published: int | None) -> bool:
        """Whether a published limit does not count since it is greater."""
        return published is not None and self.counting(published) < published


class LimitReply:
    """A read of the published limit, sent already; `watch` also reports its first publication."""

    def __init__(
        self, client: CoordinationClient, where: SemaphoreParts, watch: Watch | None = None
    ) -> None:
        self._where = where
        self._exists: Reply[Stat | None] | None = None
        if watch is not None:
            self._exists = client.exists(where.limit, watch=watch)
        self._get = client.get(where.limit)

    async def published(self) -> int | None:
        """The published limit; None if none is published. `InvalidDataError` if it is invalid."""
        if self._exists is not None:
            await self._exists
        try:
            data, _ = await self._get
        except NoNodeError:
            return None
        if self._where.is_kazoos:
            return decoded_digits(data)
        return decoded(self._where.limit, data)


LEASE = "lease-"

_UNSIGNED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _Question:
    """Requests sent together, in this order; `front` checks our place in the queue, if needed."""

    made: list[Reply[Created]]
    names: Reply[list[str]]
    limit: LimitReply
    front: Reply[None] | None


class Tries:
    """Tries of one client for permits take turns; made by `Backend.shared`.

    Each stands in the queue until it is decided, and gives up behind another contender. Side by
    side, all but one would be refused, however many permits are free. So that many refusals take no
    longer than one, a refusal counts for all that asked before it was sent for, for as many permits
    or more, and by the same rule.
    """

    __slots__ = ("__weakref__", "_asked", "_refused", "_turn")

    def __init__(self) -> None:
        self._asked = 0
        self._refused: tuple[int, int, LimitRule | None] = (0, 0, None)
        """How many had asked by the last refusal, how many permits were refused, and by what."""
        self._turn = anyio.Lock(fast_acquire=True)

    async def decide(
        self, permits: int, rule: LimitRule, attempt: Callable[[], Awaitable[bool]]
    ) -> bool:
        self._asked += 1
        number = self._asked
        async with self._turn:
            asked, refused, by = self._refused
            if number <= asked and permits >= refused and rule == by:
                return False
            asked = self._asked
            is_granted = await attempt()
            if not is_granted:
                self._refused = (asked, permits, rule)
            return is_granted


class Permits(WatchingPlace):
    """Some permits of a semaphore, all or none: a `Place`. `rule` says which limit counts."""

    def __init__(
        self,
        queue: ContenderQueue,
        where: SemaphoreParts,
        rule: LimitRule,
        count: int,
        contest: Contest[Any],
    ) -> None:
        super().__init__(contest)
        self._queue = queue
        self._where = where
        self._rule = rule
        self._contender: Contender | None = None
        self._is_settled = False
        """Whether we wait in front of the queue, and watch our znode there."""
        self._place: int | None = None
        """Our number in the queue, once our permits are to be marked with it."""
        self._names = self._client.backend.shared(where.permits, OwnNames)
        self._tries = self._client.backend.shared(where.permits, Tries)
        self._own = [self._new_permit() for _ in range(count)]
        self._is_granted = False

    def _new_permit(self) -> Znode:
        # Waiting permits are marked with their number in the queue, for observers.
        mark = "" if self._place is None else f"{self._place:010d}-"
        client, folder = self._client, self._where.permits
        if not self._where.is_kazoos:
            prefix = partial(_curators_prefix, mark)
            naming: Naming = Sequential(client, self._names, folder, prefix)
        else:
            # 32 hexadecimal digits, as in kazoo, and never repeated.
            name = f"{mark}{client.session_id & _UNSIGNED:016x}{client.backend.serial():016x}"
            naming = Fixed(client, join(folder, name), is_contended=False)
        return Znode(client, naming, self._data, self._acl, self._alarm)

    def obstacle(self) -> str:
        return "" if self._contender is None else self._contender.obstacle()

    def holder_query(self) -> HolderQuery:
        own = [znode.node.path for znode in self._own if znode.current is not None]
        return partial(oldest_holder, self._client, self._where.permits, own)

    @property
    def znodes(self) -> Sequence[Znode]:
        return self._own

    # --- getting them --------------------------------------------------------------------------

    async def get(self, *, wait: bool) -> bool:
        if self._is_granted:
            return True
        if wait:
            return await self._get(wait=True)
        attempt = partial(self._get, wait=False)
        return await self._tries.decide(len(self._own), self._rule, attempt)

    async def _get(self, *, wait: bool) -> bool:
        while True:
            for znode in self._own:
                if znode.state is ZnodeState.UNRESOLVED:
                    await znode.resolve()
            question = await self._reach_front(wait=wait)
            if question is None:
                return False
            if await self._reach_limit(question, wait=wait):
                break
            if not wait:
                return False
        self._is_granted = True
        self._own.sort(key=lambda znode: znode.node.token)
        self._leave_queue()
        return True

    async def _reach_limit(self, question: _Question, *, wait: bool) -> bool:
        """Wait in front until the permits fit; False if it must not wait, or has lost its place."""
        contender = self._contender
        assert contender is not None
        while not await self._is_within_limit(question):
            if not wait:
                return False
            if self._is_settled:
                for znode in self._own:
                    znode.watch()  # then a hand-over needs no requests for them
                self.is_new = False
                await self._alarm.wait()
            else:
                self._settle_in_front(contender)  # and look again, with watches
            self._alarm.renew()
            ahead = contender.znode
            if ahead.is_gone or ahead.node.session_id != self._client.session_id:
                return False
            question = self._ask(watches=True)
        return True

    # --- the queue -----------------------------------------------------------------------------

    async def _reach_front(self, *, wait: bool) -> _Question | None:
        """Get to the front of the queue, alone there, and ask; None if it cannot.

        A contender with permits must not wait behind others: those may wait for its permits.
        """
        contender = self._contender
        question: _Question | None = None
        if contender is None:
            contender = self._contender = Contender(
                self._queue, self._data, self._acl, on_gone=self._left_front
            )
            await self._refuse_misfits()
            if not (self._queue.local.was_contended or self._where.is_kazoos):
                question = self._ask(watches=False)
        else:
            self._is_settled = False
            contender.znode.unwatch()  # it may not have been armed
        if question is not None or any(znode.state is not ZnodeState.ABSENT for znode in self._own):
            if await try_acquire(self._client, contender):
                return question or self._ask(watches=False)
            self.restart()
        get = acquire if wait else try_acquire
        if not await get(self._client, contender):
            return None
        self._place = contender.znode.node.sequence
        return self._ask(watches=False)

    async def _refuse_misfits(self) -> None:
        """Look at the queue, and beside it, in the same round trip, before anything is written."""
        queue = self._queue
        if queue.has_looked:
            return
        beside = self._client.get_children(self._where.path)
        await queue.refuse_misfits(self._acl)
        try:
            await refuse_misfits(self._client, self._where, await listed(beside))
        except BaseException:
            queue.forget_fit()
            raise

    def _settle_in_front(self, contender: Contender) -> None:
        """While waiting in front, watch our place and mark our permits with it.

        This is no hold: no lease is to be renewed, and the watchdog must not count it.
        """
        self._is_settled = True
        contender.znode.watch()
        place = contender.znode.node.sequence
        if self._place != place:
            self._place = place
            self.restart()

    def _left_front(self) -> None:
        """Others have deleted our znode in the queue."""
        if self._is_settled:
            self._alarm.set()

    def _leave_queue(self) -> None:
        contender, self._contender = self._contender, None
        self._is_settled = False
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
            front = client.check(self._contender.znode.node.path)
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
                    self.is_new = True
                names = set(await question.names)
            except NoNodeError:
                self.unwatch()  # they were not armed
                await self._make_parent()
                question = self._ask(watches=self._is_settled)
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
        self._client.backend.shared(self._where.path, PathWarnings).warn(
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
        return self._alarm.arm(what) if wanted else None

    # --- leaving -------------------------------------------------------------------------------

    def restart(self) -> None:
        self._is_granted = False
        super().restart()

    def discard(self) -> Departure | None:
        gone = super().discard()
        # After the permits: the next in the queue counts them.
        self._leave_queue()
        return gone


def _curators_prefix(mark: str, session_id: int, serial: int) -> str:
    """The beginning of the name of a permit in Curator's layout."""
    return f"{mark}{session_id & _UNSIGNED:016x}-{serial:x}-{LEASE}"


MOST_AT_ONCE = 1000
"""The most permits of one acquisition: each is a znode with a watch, checked by each renewal."""


class _HeldPermits(Held):
    async def _confirmation(self) -> None:
        for check in [self._client.check(znode.node.path) for znode in self._place.znodes]:
            await check


async def _refuse_beside(client: CoordinationClient, where: SemaphoreParts) -> None:
    """Check the layout before a missing queue is created: kazoo would count it as a permit."""
    with suppress(NoNodeError):
        await refuse_misfits(client, where, await client.get_children(where.path))


@final
class Semaphore(HeldRecipe[Held]):
    """Permits that tasks and processes share, first come first served.

        semaphore = Semaphore(client, "/licences", 5)
        async with semaphore as held: ...                  # one permit
        async with semaphore.acquire(permits=3, timeout=5) as held: ...
        async with semaphore.try_acquire() as held:
            if held is not None: ...

    If a permit is lost, the body is cancelled before the servers could grant it to anybody else,
    and leaving raises `LockLost`. Several permits are acquired all at once or not at all, and lost
    together; `held.token` and `held.path` are those of the last created. No token is used twice,
    but several holders are valid at once, not only the one with the greatest token.

    A task that holds permits may try for more, or wait with a timeout, but not forever
    (`AlreadyHeldError`): others may wait for its permits.

    Args:
        limit: the most permits that are held at once, as far as this object grants them. All
            processes should agree on it. A published limit (`set_limit`) that is smaller counts
            instead; a greater one does not, unless `follow_limit` is set.
        follow_limit: whether a published limit replaces `limit` even if it is greater; False by
            default. Anybody who may create or write children of the path can publish one.
        layout: whom to contend with: Curator's `InterProcessSemaphoreV2`, or kazoo's `Semaphore`.
            kazoo's layout stores the limit on creation and never changes it. The stored limit is
            its published limit.

    The other arguments, and the errors, are those of `Lock`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        limit: int,
        *,
        follow_limit: bool = False,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        if not isinstance(layout, Layout):
            raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
        where = parts_of(path, layout)
        client, path = checked_client(client), checked_path(path)
        own = checked_count("limit", limit, most=MOST_PERMITS)
        self._rule = LimitRule(own, checked_flag("follow_limit", follow_limit))
        self._where = where
        # As long as this object exists, each warning about the path is given once.
        self._warnings = client.backend.shared(path, PathWarnings)
        self._queue = ContenderQueue(
            type(self).__name__,
            client,
            where.queue,
            layout,
            Role.LOCK,
            before_path=partial(_refuse_beside, client, where),
        )
        # With a count and a contest, it makes a place.
        self._permits = partial(Permits, self._queue, where, self._rule)
        contest: Contest[Held] = Contest(
            type(self).__name__,
            client,
            path,
            _HeldPermits,
            partial(self._permits, 1),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        super().__init__(contest)

    def _several(self, permits: int) -> Contest[Held]:
        """The contest of one acquisition of several permits."""
        checked_count("permits", permits, most=MOST_AT_ONCE)
        return self._contest.derived(partial(self._permits, permits))

    def acquire(self, *, permits: int = 1, timeout: float | None = None) -> TenureContext[Held]:
        """Acquire permits for the body of an `async with`: all of them, or none.

        Args:
            permits: how many, 1,000 at most. While we wait for many at the front of the queue, no
                smaller request overtakes us.
            timeout: how long to wait, in seconds. None waits forever, 0 tries once.

        Raises (on entering):
            UsageError: `permits` exceeds the limit. Checked at the front of the queue, since the
                limit may be raised before.
            InvalidDataError: the published limit is invalid.
            MixedLayoutError: the path has semaphores of another layout, or another recipe's
                contenders.

        For `AcquireTimeout`, other errors, cancellation and connection loss see `TenureContext`.
        """
        return TenureContext(self._several(permits), timeout)

    def try_acquire(self, *, permits: int = 1) -> TenureContext[Held | None]:
        """As `acquire`, but gives None at once if they are not free or others ask for permits.

        Others are waiters, and tries of other clients at the same time; tries of one client take
        turns.
        """
        return TenureContext(self._several(permits), 0, is_try=True)

    # --- the limit -----------------------------------------------------------------------------

    async def set_limit(self, limit: int) -> None:
        """Publish the number of permits, for all processes and permanently.

        Semaphores with `follow_limit=True` follow it. For the others, a smaller number counts in
        place of their own `limit`, and a greater one changes nothing: that includes this object.
        Curator's semaphores follow it if they were given a `SharedCount` at `limit` below the path.

        The first of the queue checks again at once. Lowering revokes no permits: none is granted
        until enough are released. kazoo's semaphores never read the limit again: their layout
        raises `UsageError`.

        On connection loss: raises `ConnectionLossError`, whose outcome says whether it may be
        published. It is safe to retry. Cancellation: the limit may still be published.
        """
        checked_count("limit", limit, most=MOST_PERMITS)
        if self._where.is_kazoos:
            raise UsageError(
                f"{self._path}: kazoo's semaphores go by the limit that they have begun with: let "
                "all programs stop, delete the path, and start them with another one"
            )
        data = limit.to_bytes(SIZE, "big", signed=True)
        path, parents = self._where.limit, CreateMode.CONTAINER
        await write(self._client, path, data, self._acl, parents=parents)

    async def limit(self) -> int:
        """Return the limit that counts for this object. May lag.

        It is the published one if there is one and `follow_limit` is set; else the argument, or the
        published one if that is smaller. `InvalidDataError` if the published one is invalid.
        """
        client, where = self._client, self._where
        return await over_sessions(client, lambda: self._counting(LimitReply(client, where)))

    async def _counting(self, reply: LimitReply) -> int:
        return self._rule.counting(await reply.published())

    async def available(self) -> int:
        """Return how many permits are free; 0 while others wait for them. May lag, as `holders`."""
        return await over_sessions(self._client, self._read_available)

    async def _read_available(self) -> int:
        limit = LimitReply(self._client, self._where)
        taken = self._client.get_children(self._where.permits)
        free = await self._counting(limit)
        return max(0, free - len(await listed(taken)))

    # --- who is there --------------------------------------------------------------------------

    async def holders(self) -> list[Participant]:
        """Return one participant for each held permit, in order of creation. May lag, as `Lock`."""
        return (await over_sessions(self._client, self._look))[0]

    async def contenders(self) -> list[Participant]:
        """Return `holders`, then one participant for each waiter, in queue order."""
        holders, waiting = await over_sessions(self._client, self._look)
        return holders + waiting

    async def _look(self) -> tuple[list[Participant], list[Participant]]:
        client, where = self._client, self._where
        limit = LimitReply(client, where)
        leases = client.get_children(where.permits)
        locks = client.get_children(where.queue)
        most = await self._counting(limit)
        names = await listed(leases)
        permits = await read_participants(client, where.permits, names, is_holder=True)
        permits.sort(key=lambda permit: permit.token)
        lock_names = names_of(where.layout, Role.LOCK)
        queue = await queue_order(client, where.queue, await listed(locks), lock_names)
        waiting = await read_participants(client, where.queue, queue, is_holder=False)
        if waiting and len(permits) > most:
            # The first of the queue creates its permits before they fit the limit.
            front = basename(waiting[0].path)
            mark = f"{sequence_of(front) or 0:010d}-"
            owner = waiting[0].session_id
            permits = [
                permit
                for permit in permits
                if permit.session_id != owner or not basename(permit.path).startswith(mark)
            ]
        return permits, waiting
