"""Groups: who is there, and with what data."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from ...abc import CoordinationClient
from ...errors import NoNodeError
from ...model import ACL, Stat
from ...paths import join
from .._core.arguments import (
    checked_acl,
    checked_client,
    checked_data,
    checked_name,
    checked_path,
    default_identity,
)
from .entries import AT_ONCE, Entries
from .persistent_node import KeptNode


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        id: what it is called.
        data: what it tells the others.
        session_id: the session that it lives by; 0 for a znode that is not ephemeral.
        czxid: the transaction by which it joined: whoever joins again has another one.
        mzxid: the transaction that set its data.
        since: when it joined by the servers' wall clock, in seconds since 1970.
    """

    id: str
    data: bytes
    session_id: int
    czxid: int
    mzxid: int
    since: float


class ChangeKind(enum.Enum):
    """What has become of a member."""

    JOINED = "joined"
    UPDATED = "updated"
    """Its data was set."""
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What has become of one member.

    Attributes:
        kind: that.
        member: as it is now; of one that has left, as it was.
        before: as it was before; None for one that has joined.
    """

    kind: ChangeKind
    member: Member
    before: Member | None


def changes_between(
    before: Mapping[str, Member], after: Mapping[str, Member]
) -> list[MemberChange]:
    """What turns one group into another: who has left, then who has joined or changed."""
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
class Membership(KeptNode):
    """Being a member, for the body of an `async with`. Made by `Group.join`; see there."""

    @property
    def identity(self) -> str:
        """What the others call us."""
        return self._prefix.rpartition("/")[2]

    async def update(self, data: bytes) -> None:
        """Tells the others something else: when this returns, the servers have confirmed that, or
        what a later call has asked for.

        Raises:
            ServerError, SessionError: membership has ended; the body is cancelled, too.

        Cancellation: the data remains what is wanted.

        On connection loss: goes on; after an expired session we join again with it.
        """
        await self._written(self._want(data))


@final
class MembersView(Entries[Member]):
    """The members of a group, by id. Made by `Group.members`; see there."""

    def _entry(self, name: str, data: bytes, stat: Stat) -> Member:
        return _member(name, data, stat)

    def changes(self) -> AsyncIterator[MemberChange]:
        """Who joins, changes and leaves, one after the other; first, everybody who is there.

        What it has told adds up to the latest members: whoever is slow, or has had no link for a
        while, gets the differences between what it knows and what is now. So a member that came and
        left in between may be missing; the last word never is. Any number of these may be used at
        once.
        """
        return _Changes(self)


class _Changes(AsyncIterator[MemberChange]):
    """One reader, with what it has been told."""

    def __init__(self, view: MembersView) -> None:
        self._values = aiter(view)
        self._told: Mapping[str, Member] = {}
        self._pending: list[MemberChange] = []

    async def __anext__(self) -> MemberChange:
        while not self._pending:
            members = await anext(self._values)
            self._pending = changes_between(self._told, members)[::-1]
            self._told = members
        return self._pending.pop()


@final
class Group:
    """Who is there: each is an ephemeral znode `<path>/<id>`, as with Curator's `GroupMember`.

        async with group.join(b"10.0.0.7:80", identity="web-1") as membership:
            await membership.update(b"10.0.0.7:81")

        async with group.observe() as view:
            async for members in view: ...            # id -> Member, the latest
            async for change in view.changes(): ...   # joined, updated, left

    Being a member is no exclusive right, and not under the lease: a member that has lost its link
    is listed until its session ends.

    Args:
        client: the session.
        path: the path; created, as a container, when it is missing. Nothing else should use it.
        acl: of the members' znodes, and of the path where it has to be created; everybody
            everything by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self, client: CoordinationClient, path: str, *, acl: Sequence[ACL] | None = None
    ) -> None:
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._acl = checked_acl(acl)

    def __repr__(self) -> str:
        return f"<Group {self._path}>"

    @property
    def path(self) -> str:
        """The path of the group."""
        return self._path

    def join(
        self, data: bytes = b"", *, identity: str | None = None, timeout: float | None = None
    ) -> Membership:
        """Is a member for the body of an `async with`.

        Entering waits until we are in. Where a member of that name is already, that of a process
        that died a moment ago perhaps, it waits for its end. Whoever is thrown out, or loses its
        session, joins again. Leaving tells the others at once.

        Args:
            data: what the others are told; a megabyte at most.
            identity: what they call us; by default host name, process id and something random.
            timeout: how long to wait for a member of the same name, in seconds; forever by default.
                0 tries once.

        Raises (on entering):
            AcquireTimeout: we were not in within `timeout` seconds.
            ServerError: the servers refuse it: `NoAuthError`, for instance.
            UsageError: this client is a member of that name already.

        Raises (on leaving):
            ReleaseError: the servers refuse to delete our znode: see `PersistentNode`.
            ServerError: they have refused to let us join again; the body was cancelled then.
            SessionError: the client was closed.

        Cancellation: leaves nothing behind. Leaving waits for the servers' confirmation, for a
        third of the session timeout at most.
        """
        if identity is None:
            identity = f"{default_identity()}:{uuid.uuid4().hex[:8]}"
        path = join(self._path, checked_name("identity", identity))
        return Membership(self._client, path, checked_data(data), timeout=timeout, acl=self._acl)

    def observe(self) -> MembersView:
        """The members, followed: the latest ones, an iterator over what they become, and one over
        the changes. A member need not be one itself to look.
        """
        return MembersView(self._client, self._path)

    async def members(self) -> dict[str, Member]:
        """The members as they are now, in two round trips.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        client = self._client
        members: dict[str, Member] = {}
        try:
            names = sorted(await client.get_children(self._path))
        except NoNodeError:
            return members
        for start in range(0, len(names), AT_ONCE):
            batch = names[start : start + AT_ONCE]
            looks = [(name, client.get(join(self._path, name))) for name in batch]
            for name, look in looks:
                try:
                    data, stat = await look
                except NoNodeError:
                    continue
                members[name] = _member(name, data, stat)
        return members


def _member(name: str, data: bytes, stat: Stat) -> Member:
    return Member(name, data, stat.ephemeral_owner, stat.czxid, stat.mzxid, since=stat.ctime / 1000)
