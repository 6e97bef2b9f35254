"""Group membership: the members and their data."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import final

from .._util.escaping import repr_with_session
from ..abc import CoordinationClient
from ..model import Stat
from ..paths import join
from .persistent_node import PersistentNode
from .reading import over_sessions, read_children
from .recipe import Recipe, checked_name, default_identity
from .view import ChildReader, Observation, Reading, View, plain

__all__ = ["Group"]
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
            identity = f"{default_identity()}:{uuid.uuid4().hex[:8]}"
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
