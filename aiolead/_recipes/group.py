"""Group membership, and the split of work among the members.

The split is rendezvous hashing with bounds: each pair of an item and a member has a score, a hash
of both names. In the order of scores, an item goes to a member that has less than its share. So all
members have the same number of items, give or take one; a member that comes or goes moves little
more than its own share; and every process computes the same.
"""

from __future__ import annotations

import enum
import hashlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NoReturn, final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from .._util.escaping import repr_with_session
from .._util.misuse import check_worker
from ..abc import CoordinationClient
from ..errors import AioleadError, ConfigurationError, UsageError
from ..model import ACL, Stat
from ..paths import join
from .hold import Held, beside_loss, without_cancellation
from .lock import Lock
from .persistent_node import PersistentNode
from .reading import over_sessions, read_children
from .recipe import (
    OnDisconnect,
    Recipe,
    checked_identity,
    checked_name,
    checked_number,
    checked_on_disconnect,
    checked_several,
)
from .view import ChildReader, Observation, Reading, View, plain

__all__ = ["Group", "Partitioner"]
__types__ = ["ChangeKind", "Member", "MemberChange", "MembersView", "Membership"]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        id: its identity.
        data: its data.
        session_id: the session that it lives by; 0 for a znode that is not ephemeral.
        czxid: the transaction by which it joined; another one each time that it joins.
        mzxid: the transaction that set its data.
        since: when it joined, by the servers' wall clock, in seconds since 1970.
    """

    id: str
    data: bytes
    session_id: int
    czxid: int
    mzxid: int
    since: float

    def __repr__(self) -> str:
        return repr_with_session(self)


class ChangeKind(enum.Enum):
    """The type of a change."""

    JOINED = "joined"
    UPDATED = "updated"
    """Its data was set."""
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A change of one member: its state now, and before.

    If it has left, both are its last state. If it has joined, `before` is None.
    """

    kind: ChangeKind
    member: Member
    before: Member | None


def changes_between(
    before: Mapping[str, Member], after: Mapping[str, Member]
) -> list[MemberChange]:
    """The changes between two states: first the members that left, then the others."""
    left: list[MemberChange] = []
    others: list[MemberChange] = []
    for name, was in before.items():
        now = after.get(name)
        if now is None or now.czxid != was.czxid:
            left.append(MemberChange(ChangeKind.LEFT, was, was))
    for name, now in after.items():
        earlier = before.get(name)
        if earlier is None or earlier.czxid != now.czxid:
            others.append(MemberChange(ChangeKind.JOINED, now, None))
        elif earlier.mzxid != now.mzxid:
            others.append(MemberChange(ChangeKind.UPDATED, now, earlier))
    return left + others


@final
class Membership(PersistentNode):
    """Membership in a group, for the body of an `async with`. See `Group.join`.

    `set` sets the data that the other members see.
    """

    _is_contended = False  # only members of that name want the znode, and they create it again

    @property
    def identity(self) -> str:
        """The member's name in the group."""
        return self._prefix.rpartition("/")[2]


@final
class MembersView(View[Mapping[str, Member]]):
    """A view of the members of a group, by identity. See `Group.observe` and `View`."""

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client, path, partial(_reading, client, path), shared_by=())

    def changes(self) -> AsyncIterator[MemberChange]:
        """Iterate over changes one by one; the first ones are the present members.

        The changes add up to the latest members: after a lost connection, or for a slow reader,
        they are the differences. So a member that joined and left in between may be missing. Any
        number of readers may iterate at once.
        """
        return _Changes(self)


def _reading(client: CoordinationClient, path: str) -> Reading[Mapping[str, Member]]:
    """The reading of the members for all observers of one client."""
    children = ChildReader(client, path, _member)

    async def read(reading: Reading[Mapping[str, Member]]) -> Observation[Mapping[str, Member]]:
        children.ask(reading)
        return plain(MappingProxyType(await children.read(reading)))

    return Reading(client, read)


class _Changes(AsyncIterator[MemberChange]):
    """One reader of the changes, with the members that it knows."""

    def __init__(self, view: MembersView) -> None:
        self._values = aiter(view)
        self._known: Mapping[str, Member] = {}
        self._pending: list[MemberChange] = []

    async def __anext__(self) -> MemberChange:
        while not self._pending:
            members = await anext(self._values)
            self._pending = changes_between(self._known, members)[::-1]
            self._known = members
        return self._pending.pop()


@final
class Group(Recipe):
    """A group of members: ephemeral znodes `<path>/<identity>`, as with Curator's `GroupMember`.

        async with group.join(b"10.0.0.7:80", identity="web-1") as membership:
            await membership.set(b"10.0.0.7:81")

        async with group.observe() as view:
            async for members in view: ...            # identity -> Member, the latest
            async for change in view.changes(): ...   # joined, updated, left

    Membership is not exclusive, and not under the lease: a member that has lost its connection
    stays listed until its session expires.

    Args: `client`, `path` and `acl`, as for `Lock`. A malformed one raises `ConfigurationError`.
    """

    def join(
        self, data: bytes = b"", *, identity: str | None = None, timeout: float | None = None
    ) -> Membership:
        """Be a member for the body of an `async with`. Leaving the block leaves the group at once.

        Entering waits until the member is listed. If another client has a member of that name, for
        instance of a process that died a moment ago, it waits for that member's end. A member that
        is deleted, or whose session expires, joins again.

        Args:
            data: the data that the other members see; a megabyte at most.
            identity: the member's name; defaults to host name, process id and a random part.
            timeout: how long entering waits, in seconds; forever by default. 0 tries once.

        Raises, cancellation: as `PersistentNode`.
        """
        if identity is None:
            identity = f"{checked_identity(None)}:{uuid.uuid4().hex[:8]}"
        path = join(self._path, checked_name("identity", identity))
        return Membership(self._client, path, data, timeout=timeout, acl=self._acl)

    def observe(self) -> MembersView:
        """Observe the members: the latest ones, and their changes. Need not be a member.

        The observers of one client share their reads.
        """
        return MembersView(self._client, self._path)

    async def members(self) -> dict[str, Member]:
        """Return the members by identity, in two round trips. May lag, as `Lock.holders`."""
        read = partial(read_children, self._client, self._path)
        found = await over_sessions(self._client, read)
        return {name: _member(name, data, stat) for name, (data, stat) in found.items()}


def _member(name: str, data: bytes, stat: Stat) -> Member:
    return Member(name, data, stat.ephemeral_owner, stat.czxid, stat.mzxid, since=stat.ctime / 1000)


def score(key: str, name: str) -> float:
    """The score of a pair, between 0 and 1: the same everywhere and forever."""
    text = f"{len(key)}:{key}{name}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2.0**52


class Split:
    """Which member gets which item. Caches the sorted pairs, since sorting is slow."""

    def __init__(self) -> None:
        self._items: frozenset[str] = frozenset()
        self._members: frozenset[str] = frozenset()
        self._ranked: list[tuple[float, str, str]] = []

    def shares(self, items: Iterable[str], members: Iterable[str]) -> dict[str, list[str]]:
        """The items of each member."""
        self._rank(frozenset(items), frozenset(members))
        shares: dict[str, list[str]] = {member: [] for member in self._members}
        if not shares:
            return shares
        left = set(self._items)
        least, extra = divmod(len(left), len(shares))
        for _, item, member in self._ranked:
            share = shares[member]
            if item not in left or len(share) > least:
                continue
            if len(share) == least:
                if extra == 0:
                    continue
                extra -= 1
            share.append(item)
            left.discard(item)
        return shares

    def _rank(self, items: frozenset[str], members: frozenset[str]) -> None:
        """Sort all pairs, the best score first."""
        if self._items - items or self._members - members:
            self._ranked = [
                pair for pair in self._ranked if pair[1] in items and pair[2] in members
            ]
        known = self._items & items
        for item in items:
            for member in members - self._members if item in known else members:
                # Names break ties, so that the order is the same in every process.
                self._ranked.append((-score(item, member), item, member))
        # Fast: timsort merges the new pairs into the sorted ones.
        self._ranked.sort()
        self._items, self._members = items, members


MAX_ITEMS = 2_000
"""The most items: each is a lock, and is hashed with each member."""

LONGEST_QUIET = 10
"""After so many quiet periods a new split applies even if members keep coming and going."""

Worker = Callable[[str, Held], Awaitable[object]]


@final
class Partitioner(Recipe):
    """Splits items among the members of a group, and runs a worker for each item of its own share.

        partitioner = aiolead.Partitioner(client, "/crawler", ["de", "en", "fr", "pl"])
        await partitioner.run(crawl)      # crawl(item, held), a task for each item of the share

    The list of members determines the split: all have the same number of items, give or take one,
    and a member that comes or goes moves little more than its own share. An item is owned by its
    lock, under the lease: it never has two owners. On a hand-over the next owner waits until the
    worker of the previous one has ended.

    All members should use the same items: an item on which they disagree has at most one owner, and
    possibly none.

    Args:
        path: the path: `<path>/party` has the members, `<path>/locks` a lock for each item.
        items: the items: names of znodes; 2,000 at most.
        identity: the name of this member; defaults to host name, process id and a random part. A
            process that restarts under its old name within the quiet period gets its own items
            back, and no others move.
        quiet: how long members must not change before a new split applies, in seconds; defaults to
            0. After ten times that it applies anyway. Items of a member that has left wait as long.

    The other arguments, and the errors, are those of `Lock`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        items: Iterable[str],
        *,
        identity: str | None = None,
        quiet: float = 0.0,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        self._items = _checked_items(items)
        if identity is not None:
            checked_name("identity", identity)
        self._identity = identity
        self._quiet = checked_number("quiet", quiet)
        self._on_disconnect: OnDisconnect = checked_on_disconnect(on_disconnect)
        self._split = Split()
        self._is_running = False
        self._changed = anyio.Event()
        self._members: frozenset[str] = frozenset()
        self._members_changed = 0
        self._shares: dict[str, anyio.CancelScope] = {}
        """The scope of each item of the share, from the queue for its lock to the release."""
        self._owned: set[str] = set()
        self._errors: list[Exception] = []
        """The exceptions of workers."""
        self._refusal: AioleadError | None = None
        """The error by which membership, or any of the locks, cannot be kept."""

    def __repr__(self) -> str:
        return f"<Partitioner {self._path}, owns {len(self._owned)} of {len(self._items)} items>"

    @property
    def items(self) -> frozenset[str]:
        """The items that are split."""
        return self._items

    @property
    def owned(self) -> frozenset[str]:
        """The items that this member owns now. Their workers run, or have returned."""
        return frozenset(self._owned)

    @property
    def members(self) -> frozenset[str]:
        """The present members, as far as they are known; empty before `run`."""
        return self._members

    def update_items(self, items: Iterable[str]) -> None:
        """Split other items from now on; cancel the workers of removed ones.

        Raises `ConfigurationError` as the constructor, and `UsageError` outside of the client's
        event loop.
        """
        self._client.backend.check_home()
        self._items = _checked_items(items)
        self._changed.set()

    async def run(self, worker: Worker) -> NoReturn:
        """Be a member, and run `worker(item, held)`, in a task, for each item of the share.

        If an item moves to another member or is removed, or its lock is lost, its worker is
        cancelled; when the worker has ended, the item is released. A worker that returns keeps its
        item: no worker runs for it again until it has moved.

        Raises:
            Exception: a worker's exception, unchanged, once all others were cancelled and have
                ended; an `ExceptionGroup` only if several raised.
            ServerError, SessionError: membership, or a lock, cannot be kept.
            UsageError: it runs already, or this client has a member of that name already.
            ConfigurationError: `worker` does not take an item and its hold, or is not async.

        Cancellation: cancels the workers, waits for them, releases their items and leaves. On
        connection loss: workers continue while the lease lasts (not with `on_disconnect="resign"`).
        Then they are cancelled, and run again once this member owns the items again.
        """
        check_worker(worker, "item", "held")
        if self._is_running:
            raise UsageError(f"{self!r} runs already")
        self._is_running = True
        try:
            group = Group(self._client, join(self._path, "party"), acl=self._acl)
            joining = group.join(identity=self._identity)
            async with joining as membership, group.observe() as view:
                await self._share(view, membership.identity, worker)
        finally:
            self._is_running = False
            self._members = frozenset()
        raise AssertionError("sharing does not end by itself")

    async def _share(self, view: MembersView, me: str, worker: Worker) -> None:
        """Share the items as the member `me` until something ends it; raise what that is."""
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    tasks.start_soon(self._follow, view, me, tasks.cancel_scope)
                    await self._assign(me, tasks, worker)
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            self._shares.clear()
            self._owned.clear()
            errors, self._errors = self._errors, []
            refusal, self._refusal = self._refusal, None
            if len(errors) > 1:
                raise ExceptionGroup(f"{len(errors)} workers have failed", errors)
            if errors:
                raise errors[0]
            if refusal is not None:
                raise refusal

    async def _follow(self, view: MembersView, me: str, everything: anyio.CancelScope) -> None:
        try:
            async for members in view:
                # Only ephemeral znodes show which members are alive. This one is, even if it is
                # not listed for a moment, which must not move items.
                alive = frozenset(id_ for id_, member in members.items() if member.session_id)
                if alive | {me} != self._members:
                    self._members = alive | {me}
                    self._members_changed += 1
                    self._changed.set()
        except AioleadError as error:
            self._refusal = error
            everything.cancel()

    async def _assign(self, me: str, tasks: TaskGroup, worker: Worker) -> None:
        """Start and stop workers as members and items change."""
        acted_upon: frozenset[str] = frozenset()
        while True:
            self._changed = anyio.Event()
            if not self._members:
                await self._changed.wait()
                continue
            if self._members != acted_upon:
                await self._wait_for_quiet(acted_upon)
                acted_upon = self._members
            wanted = set(self._split.shares(self._items, acted_upon)[me])
            for item, scope in self._shares.items():
                if item not in wanted:
                    scope.cancel()
            for item in sorted(wanted - self._shares.keys()):
                scope = self._shares[item] = anyio.CancelScope()
                tasks.start_soon(self._own, item, scope, worker, tasks.cancel_scope)
            await self._changed.wait()

    async def _wait_for_quiet(self, acted_upon: frozenset[str]) -> None:
        """Wait until the members stay the same, or are those of the present split again."""
        with anyio.move_on_after(LONGEST_QUIET * self._quiet):
            while self._members != acted_upon:
                count = self._members_changed
                await anyio.sleep(self._quiet)
                if count == self._members_changed:
                    return

    async def _own(
        self, item: str, scope: anyio.CancelScope, worker: Worker, everything: anyio.CancelScope
    ) -> None:
        """Hold one item, from the queue for its lock to the release."""
        lock = Lock(
            self._client,
            join(join(self._path, "locks"), item),
            identity=self._identity,
            on_disconnect=self._on_disconnect,
            acl=self._acl,
        )
        try:
            with scope:
                while True:
                    await self._hold(item, lock, worker)
        except (Exception, BaseExceptionGroup) as error:
            failure = without_cancellation(error)
            if not isinstance(failure, Exception):
                raise
            if failure is not self._refusal:
                self._errors.append(failure)
            everything.cancel()
        finally:
            if self._shares.get(item) is scope:
                del self._shares[item]
            # The item may belong to the share again since its worker began to end.
            self._changed.set()

    async def _hold(self, item: str, lock: Lock, worker: Worker) -> None:
        token = 0
        try:
            async with lock.acquire() as held:
                token = held.token
                self._owned.add(item)
                try:
                    await worker(item, held)
                    await anyio.sleep_forever()
                finally:
                    self._owned.discard(item)
        except (AioleadError, BaseExceptionGroup) as error:
            # A group, if tasks of the worker's own task group have called `held.check()`.
            if token == 0 and isinstance(error, AioleadError):
                self._refusal = error
            left = beside_loss(token, error)
            if left is error:
                raise
            if left is not None:
                raise left from None


def _checked_items(items: Iterable[str]) -> frozenset[str]:
    several = checked_several("items", items, "names")
    found = frozenset(checked_name("items", item) for item in several)
    if len(found) > MAX_ITEMS:
        raise ConfigurationError(f"items: are {len(found)}, at most {MAX_ITEMS} are allowed")
    return found
