"""The others on a path, as users see them: its contenders, and the holder that a waiter waits for.

An acquisition with a time limit that waits in vain names the holder in its error. The holder is
read once, shortly before that, or after long. Nothing depends on the answer: it is for people. So
that read is bounded in time, and an error of it only means that the holder stays unknown.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import anyio

from .._util.escaping import in_seconds
from ..abc import CoordinationClient, Reply
from ..errors import AcquireTimeout, AioleadError, BadVersionError, Blame, NoNodeError
from ..events import OWNERLESS, shown_holder
from ..model import Participant, SessionState, Stat
from ..paths import basename, join, sequence_of
from .errors import at_once
from .hold import Place, acquire, try_acquire
from .kernel import holding, in_order
from .layouts import Names, Role, names_of
from .neighbours import queue_order
from .reading import (
    MAX_DATA,
    asking,
    is_request,
    listed,
    over_sessions,
    participant,
    read_children,
    read_stats,
)

if TYPE_CHECKING:
    from .contender_queue import ContenderQueue

LONGEST = 1.0
"""The longest time for a read, in seconds."""

MOST_READ = 100
"""How many permits are read to find the oldest one, where names have no numbers."""


class Rival(NamedTuple):
    """A holder, as read from its znode.

    Attributes:
        identity: its name for itself.
        since: when its znode was created, in seconds since 1970, by the servers' clocks. It has
            held for so long at most, since it may have waited first.
        path: its znode.
        is_ownerless: whether no session owns it, so that it never goes away by itself.
        position: how many contenders were before us, with the holder; None if there is no queue.
        permits: how many permits are held, of which this holder has the oldest; None if there can
            be only one holder.
    """

    identity: str
    since: float
    path: str
    is_ownerless: bool
    position: int | None = None
    permits: int | None = None

    @property
    def age(self) -> float:
        """The age of its znode in seconds, as far as the clocks of servers and client agree."""
        return max(0.0, time.time() - self.since)

    def __str__(self) -> str:
        shown = shown_holder(self.identity, self.age, self.position or 0)
        is_one = self.permits is None or self.permits < 2
        return shown if is_one else f"{shown}, the oldest of {self.permits} permits"


HolderQuery: TypeAlias = Callable[[], Awaitable[Rival | None]]
"""Reads the holder that a place waits for; None if there is none any more."""


async def ask(
    client: CoordinationClient, query: HolderQuery | None, most: float = inf
) -> Rival | None:
    """Return the holder; None if it is unknown, also by an error or for lack of time.

    It takes `most` seconds, and `longest`, at most. Cancellation: propagates, as from any wait.
    """
    if query is None or client.state is not SessionState.CONNECTED:
        return None
    with anyio.move_on_after(min(most, longest(client))):
        try:
            return await query()
        except AioleadError:
            return None
    return None


def longest(client: CoordinationClient) -> float:
    """The longest time for a read, in seconds."""
    return min(LONGEST, client.session_timeout / 8)


@dataclass(slots=True, eq=False)
class LastLook:
    """A look for the holder, shortly before a wait ends that has a time limit.

    So the wait takes no longer than its limit, and one that ends before makes no request.

    Attributes:
        make_query: makes the query once it is due: a place may wait for others by then.
        limit: when the wait ends, on the clock of the event loop, in seconds.
        due: when to look.
        holder: the holder, once it is known.
    """

    make_query: Callable[[], HolderQuery | None]
    limit: float
    due: float
    holder: Rival | None = None


class LastLooks:
    """The looks of all that wait on one client: one job, which outlives short waits."""

    def __init__(self) -> None:
        self._looks: dict[LastLook, None] = {}
        self._is_running = False
        self._next_due = -inf
        self._is_earlier = anyio.Event()

    def add(
        self,
        client: CoordinationClient,
        make_query: Callable[[], HolderQuery | None],
        timeout: float,
    ) -> LastLook:
        """Look before `timeout` seconds are over, unless `remove` comes first."""
        limit = anyio.current_time() + timeout
        look = LastLook(make_query, limit, limit - min(timeout / 4, longest(client)))
        self._looks[look] = None
        if not self._is_running:
            if not client.state.is_final:
                self._is_running = True
                client.backend.spawn(partial(self._run, client))
        elif look.due < self._next_due:
            self._is_earlier.set()
        return look

    def remove(self, look: LastLook) -> None:
        self._looks.pop(look, None)

    async def _run(self, client: CoordinationClient) -> None:
        try:
            while self._looks:
                look = min(self._looks, key=lambda look: look.due)
                self._next_due, self._is_earlier = look.due, anyio.Event()
                with anyio.CancelScope(deadline=look.due):
                    await self._is_earlier.wait()
                    continue
                if look in self._looks:
                    del self._looks[look]
                    most = look.limit - anyio.current_time()
                    look.holder = await ask(client, look.make_query(), most)
        finally:
            self._is_running, self._next_due = False, -inf


@final
class TimeLimit:
    """The time limit of one acquisition: gets the place in time, or says why it has not.

    Attributes:
        place: the place that it has tried to get; None before.
    """

    __slots__ = (
        *("_client", "_holder", "_is_silent", "_label", "_obstacle", "_seconds"),
        *("_was_connected", "place"),
    )

    def __init__(
        self, client: CoordinationClient, label: str, seconds: float, *, is_silent: bool
    ) -> None:
        """`seconds` is 0 for one try without waiting; `is_silent`: nobody reads the error."""
        self._client = client
        self._label = label
        self._seconds = seconds
        self._is_silent = is_silent
        self.place: Place | None = None
        self._was_connected = True
        self._obstacle = ""
        self._holder: Rival | None = None

    def get(self, place: Place) -> Awaitable[bool]:
        """Get a place; return whether it is ours, with no checkpoint after that is known."""
        self.place = place
        return self._in_time(place, self._seconds) if self._seconds else self._at_once(place)

    async def _in_time(self, place: Place, timeout: float) -> bool:
        client = self._client
        in_front, look = False, None
        looks = client.backend.shared(None, LastLooks)
        if not self._is_silent:
            look = looks.add(client, partial(_query_of, place), timeout)
        self._was_connected = client.state is SessionState.CONNECTED
        # Usually it is connected, and thousands of waiters then need no subscription.
        unsubscribe = None if self._was_connected else client.backend.subscribe(self._on_state)
        try:
            with anyio.move_on_after(timeout):
                in_front = await acquire(client, place)
        finally:
            if unsubscribe is not None:
                unsubscribe()
            if look is not None:
                looks.remove(look)
        if not in_front:
            self._obstacle = place.obstacle()
            self._holder = None if look is None else look.holder
        return in_front

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        self._was_connected = self._was_connected or state is SessionState.CONNECTED

    async def _at_once(self, place: Place) -> bool:
        """Whether it may be held, without waiting for others or for a server."""
        client = self._client
        lost = "the connection was lost before it was known whether it is our turn: try again"
        in_front = await at_once(client, partial(try_acquire, client, place), lost=lost)
        if not in_front:
            holder = await ask(client, None if self._is_silent else _query_of(place))
            self._obstacle, self._holder = place.obstacle(), holder
        return in_front

    def timed_out(self) -> AcquireTimeout:
        """Make the error; names the holder, if that is known."""
        holder, within = self._holder, f"within {in_seconds(self._seconds)}"
        late = f"{self._label}: not our turn {within}"
        try:
            self._client.backend.check_connected()
        except AioleadError as error:
            if self._was_connected:
                late = f"{late}; now: {error}"
            else:
                late = f"{self._label}: no server was reached {within}: {error}"
            timed_out = AcquireTimeout(late)
            timed_out.blame = Blame.NETWORK
            return timed_out
        late = f"{late}, {self._obstacle}" if self._obstacle else late
        if holder is None:
            return AcquireTimeout(late)
        timed_out = AcquireTimeout(f"{late}, held by {holder}")
        timed_out.holder, timed_out.since = holder.identity, holder.since
        timed_out.position, timed_out.permits = holder.position, holder.permits
        return timed_out


def _query_of(place: Place) -> HolderQuery | None:
    """The query for the holder that a place waits for; None if it is known that nobody holds."""
    return None if place.obstacle().endswith(OWNERLESS) else place.holder_query()


def rival(
    path: str,
    data: bytes,
    stat: Stat,
    *,
    position: int | None = None,
    permits: int | None = None,
) -> Rival:
    who = participant(path, data, stat, is_holder=True)
    is_ownerless = not stat.ephemeral_owner
    return Rival(who.identity, stat.ctime / 1000, path, is_ownerless, position, permits)


async def front_of_queue(
    client: CoordinationClient, path: str, names: Names, own: str
) -> Rival | None:
    """The first contender before `own`, which may have left. Before a reader only writers count."""
    line = in_order(path, await listed(client.get_children(path)), names)
    if names.role.shares and names.is_reader(own):
        line = [name for name in line if not names.is_reader(name)]
    number = sequence_of(own)
    before = [name for name in line if (sequence_of(name) or 0) < (number or 0)]
    if not before:
        return None
    first = join(path, before[0])
    data, stat = await client.get(first)
    return rival(first, data, stat, position=len(before))


async def only_holder(client: CoordinationClient, path: str) -> Rival | None:
    """The owner of a znode that only one holder can have."""
    data, stat = await client.get(path)
    return rival(path, data, stat)


async def oldest_holder(
    client: CoordinationClient, folder: str, own: Collection[str]
) -> Rival | None:
    """The holder of the oldest permit in a folder, and how many there are; `own` are our paths."""
    there = await listed(client.get_children(folder))
    names = [name for name in there if join(folder, name) not in own]
    if not names:
        return None
    path = join(folder, await _oldest(client, folder, names))
    data, stat = await client.get(path)
    return rival(path, data, stat, permits=len(names))


async def _oldest(client: CoordinationClient, folder: str, names: Sequence[str]) -> str:
    """The name of the oldest znode: by its number, or by its `Stat` if names have none."""
    numbers = {name: sequence_of(name) for name in names}
    if None not in numbers.values():
        return min(names, key=lambda name: numbers[name] or 0)
    found = await read_stats(client, folder, names[:MOST_READ])
    return min(found, key=lambda name: found[name].czxid, default=names[0])


# --- all contenders of a queue, for users --------------------------------------------------------

Entry = tuple[Participant, bytes, Stat]
"""A contender, with the data and the `Stat` of its znode."""


async def entries(queue: ContenderQueue) -> list[Entry]:
    """The contenders in order, without any that leaves between the two round trips."""
    return await over_sessions(queue.client, partial(_read, queue))


async def _read(queue: ContenderQueue) -> list[Entry]:
    client, path, names = queue.client, queue.path, queue.names
    children = await listed(client.get_children(path))
    line = await queue_order(client, path, children, names)
    found = await read_children(client, path, line, most=MAX_DATA)
    holders = holding(list(found), queue.places, names)
    return [
        (participant(join(path, name), data, stat, is_holder=n < holders), data, stat)
        for n, (name, (data, stat)) in enumerate(found.items())
        if queue.shown in (None, _role_of(queue, name))
    ]


def _role_of(queue: ContenderQueue, name: str) -> Role:
    if not queue.role.shares:
        return queue.role
    return Role.READ if queue.names.is_reader(name) else Role.WRITE


def is_like_ours(queue: ContenderQueue, name: str) -> bool:
    """Whether a name is one that clients of ours give in this layout."""
    return names_of(queue.layout, _role_of(queue, name)).ours(name) is not None


async def ask_to_release(queue: ContenderQueue, asked: Iterable[Entry]) -> list[Participant]:
    """Ask contenders for their places, except those asked before; return those asked now."""
    client = queue.client
    now: list[tuple[Participant, Reply[Stat]]] = []
    for who, data, stat in asked:
        if is_request(data):
            continue
        request = asking(data, is_ours=is_like_ours(queue, basename(who.path)))
        # By version: it may have changed meanwhile.
        now.append((who, client.set(who.path, request, version=stat.version)))
    for who, answer in now:
        try:
            await answer
        except NoNodeError:
            continue
        except BadVersionError:
            # Its data has changed. If others have asked it, that is enough.
            with suppress(NoNodeError):
                data, stat = await client.get(who.path)
                if stat.czxid == who.token:
                    await ask_to_release(queue, [(who, data, stat)])
    return [who for who, _ in now]


# --- public methods of locks, which have the queue as `_queue`: to be assigned in their bodies ----

Inquiry: TypeAlias = Callable[[Any], Coroutine[Any, Any, list[Participant]]]
"""The type of the methods below. A class that has them names it, for readers and checkers."""


async def holders(self: Any) -> list[Participant]:
    """Return the holders. The server may lag: call `client.sync()` first where that matters."""
    return [who for who in await contenders(self) if who.is_holder]


async def contenders(self: Any) -> list[Participant]:
    """Return the holders and the waiters, in queue order. May lag, as `holders`."""
    return [who for who, _, _ in await entries(self._queue)]


async def revoke(self: Any) -> list[Participant]:
    """Ask the present holders to release; return those that were not asked before.

    Any process may call this, and no holder is forced. A holder checks
    `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
    notified if it is revocable.

    Raises:
        ConnectionLossError: the connection was lost before all answers came; it is safe to
            retry.
        ServerError: the servers refused the write, by `NoAuthError` for instance.
    """
    found = await entries(self._queue)
    return await ask_to_release(self._queue, [entry for entry in found if entry[0].is_holder])
