"""The barrier and the double barrier.

A member of a double barrier has one znode from entering to leaving.

A *round* lasts from the creation of `ready` to its removal; its number is the czxid of that znode.
A waiting member is inside once `ready` is younger than its own znode. If `ready` is older, it joins
the round if another member is older than `ready`, and so still inside. If there is none, the round
is over, and `ready` has to go first.

So a member that is inside was there when `ready` was created, or has seen another one inside that
was. The `ready` of a round whose members have all died lets nobody in.

A member is a child that a session owns, with the name of a member: a UUID, as Curator gives it,
or its digits alone, as kazoo does. Other children do not count, so that nobody can make a round
begin too early, or last forever, by creating persistent znodes. A listing shows names only. So
before a member relies on others' being there, it reads who owns them.

The member that sees that enough are there creates `ready`, which lets all of them in. The last one
to leave removes it, also one that gives up before it has seen `ready`: others may have counted it.
If all have died, the next member that finds nobody else removes it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, final

from ..abc import CoordinationClient, Reply, Watch
from ..errors import (
    AioleadError,
    BadVersionError,
    BarrierLost,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ReleaseError,
    TransactionError,
)
from ..model import ACL, CreateMode, EventType, Participant, Stat
from ..paths import basename, join, parent
from .errors import TRIES, Step, before_next_try, in_background, until_done, with_parent
from .fixed import Fixed
from .hold import Tenure, answered
from .holding import Contest, HoldingRecipe, TenureContext, enter_recipe, leave_recipe
from .naming import Departure
from .place_parts import WatchingPlace
from .reading import catch_up, listed, over_sessions, read_participants, read_stats
from .recipe import OnDisconnect, Recipe, checked_count
from .reporting import PathWarnings
from .znode import NodeGone, Znode, ZnodeState

__all__ = ["Barrier", "DoubleBarrier"]
__types__ = ["BarrierMember"]

READY = "ready"

_MEMBER = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII)


def members_among(names: Iterable[str]) -> set[str]:
    """Return the names that members may have; whether they are members, their owners say."""
    return {name for name in names if _MEMBER.fullmatch(name)}


async def _is_alone(
    client: CoordinationClient, path: str, names: Reply[list[str]], own: str
) -> bool:
    """Whether a listing has no member but `own`.

    A child that has gone since counts as a member: while it was there, a newcomer that saw it may
    have joined the round.
    """
    others = sorted(members_among(await names) - {own})
    # Usually there are none, or the first one is a member.
    for some in (others[:1], others[1:]):
        found = await read_stats(client, path, some)
        if len(found) < len(some) or any(stat.ephemeral_owner for stat in found.values()):
            return False
    return True


async def remove_ready(
    client: CoordinationClient, path: str, round_: int, *, own: str = ""
) -> None:
    """Remove the `ready` of a round (`round_` is its czxid), if no member but `own` is there.

    Several members may do it at the same time, and requests may be slow: one that was meant for
    this round may arrive in the next. A delete goes by name and version, and all new znodes have
    the same version. So the version of the path counts the removals: each removal is a transaction
    that is refused if another one came first. The members are listed after that version was read:
    `keep_ready` of one that came later has the removal refused.

    If others have put znodes below `ready`, it stays, with a warning. Raises `ConnectionLossError`:
    it may have been removed.
    """
    ready = join(path, READY)
    get, exists, names = client.get(path), client.exists(ready), client.get_children(path)
    try:
        stat = await exists
        data, counter = await get
        if stat is not None and stat.czxid == round_ and await _is_alone(client, path, names, own):
            removal = client.transaction().set(path, data, version=counter.version)
            await removal.delete(ready, version=stat.version).commit()
    except TransactionError as error:
        if isinstance(error.cause, NoAuthError):
            await _remove_uncounted(client, path, round_, own)
        elif isinstance(error.cause, NotEmptyError):
            _warn_of_children(client, path)
        elif not isinstance(error.cause, (NoNodeError, BadVersionError)):
            raise
    except NoNodeError:
        pass


async def _remove_uncounted(client: CoordinationClient, path: str, round_: int, own: str) -> None:
    """Remove it where the ACL of the path forbids to write: by a version of its own."""
    ready = join(path, READY)
    write, names = client.set(ready, b""), client.get_children(path)
    try:
        stat = await write
        if stat.czxid == round_ and await _is_alone(client, path, names, own):
            await client.delete(ready, version=stat.version)
    except (NoNodeError, BadVersionError):
        pass  # another member has done it, or is about to
    except NotEmptyError:
        _warn_of_children(client, path)


def _warn_of_children(client: CoordinationClient, path: str) -> None:
    client.backend.shared(path, PathWarnings).warn_of_children(
        join(path, READY), "Until then no round of the barrier begins"
    )


async def keep_ready(client: CoordinationClient, path: str, round_: int) -> bool:
    """Keep the `ready` of a round until our znode is gone; return whether it is still there.

    No other round can begin until then, so none can count on a znode that we withdraw.
    """
    ready = join(path, READY)
    try:
        data, counter = await client.get(path)
        write, exists = client.set(path, data, version=counter.version), client.exists(ready)
        await write
        stat = await exists
    except NoAuthError:
        try:
            stat = await client.set(ready, b"")
        except NoNodeError:
            return False
    except (NoNodeError, BadVersionError):
        return False
    return stat is not None and stat.czxid == round_


async def tidy(client: CoordinationClient, path: str, *, is_current: bool) -> None:
    """Remove `ready` if no member is left: for a member that does not wait for the others.

    `is_current`: the member's own delete was answered, so that the server shows what was before.
    """

    async def remove() -> None:
        if not is_current:
            await catch_up(client, path)
        stat = await client.exists(join(path, READY))
        if stat is not None:
            await remove_ready(client, path, stat.czxid)

    await until_done(client, 0, remove)


_UNSIGNED = (1 << 64) - 1
"""Session ids are signed."""


class BarrierMembership(WatchingPlace):
    """One member, once, as a `Place`; a round begins with `count` of them."""

    def __init__(self, count: int, contest: Contest[Any]) -> None:
        super().__init__(contest)
        self._ready = join(self._path, READY)
        self._count = count
        self._own = self._new_member()
        self._round: int | None = None
        self._departure: Departure | None = None
        self._may_leave_ready = False
        """Whether our znode may have been counted by a member that created `ready`."""
        self._kept = 0
        self._older: list[str] = []
        self._ownerless: set[str] = set()
        """Children with names of members that no session owns."""
        self._is_stuck = False
        """Whether others have put znodes below the `ready` of a round that is over."""
        self.stays_to_the_end = False
        """Whether `others_left` is going to be called, which takes care of `ready`."""

    def _new_member(self) -> Znode:
        # A unique name, by which a lost create is found again; a UUID as in Curator.
        client = self._client
        name = uuid.UUID(int=(client.session_id & _UNSIGNED) << 64 | client.backend.serial())
        naming = Fixed(client, join(self._path, str(name)), is_contended=False)
        return Znode(client, naming, self._data, self._acl, self._alarm)

    @property
    def round(self) -> int:
        """The number of the round; only valid once inside."""
        if self._round is None:
            raise AssertionError("not inside")
        return self._round

    def obstacle(self) -> str:
        return f"since {self._ready} has znodes below it" if self._is_stuck else ""

    @property
    def znodes(self) -> Sequence[Znode]:
        return (self._own,)

    # --- entering ------------------------------------------------------------------------------

    async def get(self, *, wait: bool) -> bool:
        if self._round is not None:
            return True
        while True:
            self._alarm.renew()
            self._is_stuck = False
            watch = self._alarm.watch()
            members: set[str] | None = None
            if self._own.state is ZnodeState.ABSENT:
                if await self._has_to_stay_away(watch):
                    self.is_new = False
                    await self._alarm.wait()
                    continue
                stat, members = await self._join(watch)
            else:
                if not await self._own.resolve():
                    raise NodeGone
                stat = await self._client.exists(self._ready, watch=watch)
            self._own.check()
            if stat is not None and stat.czxid > self._own.node.token:
                self._round = stat.czxid
                return True
            if members is None:
                members = await self._members()
            if self._own.node.name not in members:
                raise NodeGone
            if stat is not None:
                if await self._is_under_way(stat.czxid, members, wait=wait):
                    return True
            elif len(members) >= self._count and await self._are_enough(members):
                self._own.check()
                if await self._decide():
                    return True
                continue
            if not wait and not self._alarm.is_set:
                return False
            if self._own.state is not ZnodeState.ABSENT:
                self._own.watch()  # so that it need not be read when its turn comes
            self.is_new = False
            await self._alarm.wait()

    async def _join(self, watch: Watch) -> tuple[Stat | None, set[str]]:
        """Create our znode, and ask what is there, in one round trip."""
        client = self._client
        self._own = self._new_member()
        self._older = []
        self._may_leave_ready = True
        for _ in range(TRIES):
            with client.pipelined():
                create = self._own.create()
                exists = client.exists(self._ready, watch=watch)
                names = client.get_children(self._path)
            try:
                await create
                self.is_new = True
                return await exists, members_among(await names) - self._ownerless
            except NoNodeError:
                await exists
                await client.ensure_path(self._path, mode=CreateMode.CONTAINER, acl=self._acl)
                if self._own.state is not ZnodeState.ABSENT:
                    break  # created, but gone with the path since
        raise NodeGone

    async def _members(self) -> set[str]:
        try:
            names = await self._client.get_children(self._path)
        except NoNodeError:
            raise NodeGone from None
        return members_among(names) - self._ownerless

    async def _are_enough(self, listed: set[str]) -> bool:
        """Whether enough of the listed names are members, by their owners: one round trip.

        One that has gone since is not counted: it does not come in.
        """
        others = listed - {self._own.node.name}
        return 1 + await self._owned(sorted(others)) >= self._count

    async def _owned(self, names: Sequence[str]) -> int:
        """How many of the names are members, by their owners; the others do not count any more."""
        found = await read_stats(self._client, self._path, names)
        ownerless = {name for name, stat in found.items() if not stat.ephemeral_owner}
        self._ownerless |= ownerless
        return len(found) - len(ownerless)

    async def _decide(self) -> bool:
        """Let all members in, as enough are there; False if another one was quicker."""
        try:
            created = await self._client.create(self._ready, acl=self._acl)
        except NodeExistsError:
            return False
        except NoNodeError:
            raise NodeGone from None
        self._round = created.stat.czxid
        return True

    async def _is_under_way(self, round_: int, members: set[str], *, wait: bool) -> bool:
        """Whether we may join a round that began before we came; else wakes us to look again.

        If no member from its beginning is left, it is over. Then a member that is alone removes
        `ready`. Of several, only the oldest stays, so that it will be alone; the others withdraw,
        and come again when `ready` or all of the older ones are gone.

        A member calls `keep_ready` before it withdraws. Otherwise the oldest member, which had
        listed itself alone, could remove `ready`, and a next round could count the znode that is
        about to go.
        """
        client = self._client
        own = self._own.node
        others = sorted(members - {own.name})
        if not others:
            await remove_ready(client, self._path, round_, own=own.name)
            await self._look_below_ready()
            return False
        looks = [client.get(join(self._path, name), watch=self._alarm.watch()) for name in others]
        tokens: dict[str, int] = {}
        for name, look in zip(others, looks, strict=True):
            try:
                _, stat = await look
            except NoNodeError:
                self._alarm.set()
            else:
                if stat.ephemeral_owner:
                    tokens[name] = stat.czxid
                else:
                    self._ownerless.add(name)
                    self._alarm.set()
        if any(token < round_ for token in tokens.values()):
            self._round = round_
            return True
        older = [name for name, token in tokens.items() if token < own.token]
        if wait and older:
            if await keep_ready(client, self._path, round_):
                self._kept, self._older = round_, older
                self._own.withdraw()
            else:
                self._alarm.set()  # the next round may count on us
        return False

    async def _look_below_ready(self) -> None:
        """Wake us to look again, unless others have put znodes below `ready`: watch those.

        A lagging server may still show a `ready` that is removed. Then the watch on it fires soon.
        """
        try:
            below = await self._client.get_children(self._ready, watch=self._alarm.watch())
        except NoNodeError:
            below = []
        self._is_stuck = bool(below)
        if not below:
            self._alarm.set()

    async def _has_to_stay_away(self, watch: Watch) -> bool:
        """Whether what we withdrew for is there: that `ready`, and one of the older members."""
        if not self._older:
            return False
        client = self._client
        ready = client.exists(self._ready, watch=watch)
        looks = [
            client.exists(join(self._path, each), watch=self._alarm.watch()) for each in self._older
        ]
        stat = await ready
        older = [each for each, look in zip(self._older, looks, strict=True) if await look]
        if stat is None or stat.czxid != self._kept:
            return False
        self._older = older
        return bool(older)

    def restart(self) -> None:
        super().restart()
        self._round, self._older = None, []

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        delete = super().discard()
        if delete is not None:
            self._departure = delete
        if self._may_leave_ready and not self.stays_to_the_end:
            self.left_early()
        return delete

    def left_early(self) -> None:
        """Remove `ready` after our znode is gone, if no other member is left to do it."""
        self._may_leave_ready = False
        is_current = self._departure is not None
        tidy_up = partial(tidy, self._client, self._path, is_current=is_current)
        job = partial(in_background, self._ready, tidy_up)
        if self._departure is None:
            self._client.backend.spawn(job)
        else:
            self._departure.add_done_callback(lambda: self._client.backend.spawn(job))

    async def others_left(self, name: str) -> None:
        """Wait until all others have left or died. `name` is that of our znode.

        Each member watches the one after it in a circle, and `ready`: a departure wakes few, the
        end all.

        Our own znode goes first. While it is there, a newcomer that sees `ready` joins the round,
        so nobody may remove `ready`, or leave. Once it is gone, an empty listing proves that nobody
        is left who could let a newcomer join. Raises `ReleaseError` if the servers refuse to delete
        it.
        """
        await self._own_left()
        while True:
            self._alarm.renew()
            try:
                if await self._is_over(name):
                    return
                await self._alarm.wait()
            except AioleadError as error:
                await before_next_try(self._client, error, Step.ASK)
            finally:
                self._alarm.close()

    async def _own_left(self) -> None:
        """Wait until our znode is gone, over as many connections as it takes; raise a refusal."""
        departure = self._departure
        if departure is None:
            return
        error = await answered(departure)
        if isinstance(error, ReleaseError):
            raise error

    async def _is_over(self, name: str) -> bool:
        client = self._client
        exists = client.exists(self._ready, watch=self._alarm.watch())
        listing = client.get_children(self._path)
        stat = await exists
        try:
            left = sorted(members_among(await listing) - self._ownerless)
        except NoNodeError:
            return True
        if stat is None or stat.czxid != self._round:
            return True
        if not left:
            await remove_ready(client, self._path, stat.czxid)
            return True
        after = next((other for other in left if other > name), left[0])
        try:
            _, stat = await client.get(join(self._path, after), watch=self._alarm.watch())
        except NoNodeError:
            self._alarm.set()
        else:
            if not stat.ephemeral_owner:
                await self._owned(left)
                self._alarm.set()
        return False


_MARK = b"aiolead barrier"
"""The data of the znode, by which people see what it is; no library reads them."""


@final
class Barrier(Recipe):
    """A barrier that any process sets and removes, and that others wait at while it is set.

        barrier = Barrier(client, "/maintenance")
        await barrier.set()
        ...
        await barrier.remove()      # other processes: await barrier.wait()

    It stays set until a process removes it, whatever happens to the process that set it.

    Args:
        client: the session.
        path: the znode that exists while the barrier is set; missing parents become containers.
        acl: of the znode and of the parents; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    async def set(self) -> None:
        """Set the barrier. No effect if it is set.

        On connection loss: raises `ConnectionLossError`, which says whether it may be set. It is
        safe to retry. Cancellation: it may be set all the same.
        """
        with suppress(NodeExistsError):
            await with_parent(
                self._client,
                parent(self._path),
                lambda: self._client.create(self._path, _MARK, acl=self._acl),
                mode=CreateMode.CONTAINER,
                acl=self._acl,
            )

    async def remove(self) -> None:
        """Remove the barrier: every waiter goes on. No effect if it is not set.

        Raises `NotEmptyError` if others have put znodes below it: it stays set until those are
        deleted.

        On connection loss, cancellation: as for `set`.
        """
        with suppress(NoNodeError):
            await self._client.delete(self._path)

    async def is_set(self) -> bool:
        """Whether the barrier is set. May lag, as `Lock.holders`."""
        client, path = self._client, self._path
        return await over_sessions(client, lambda: client.exists(path)) is not None

    async def wait(self) -> None:
        """Wait until the barrier is removed; return at once if it is not set.

        A lagging server lets no client through: the quorum is asked first, by a write that changes
        nothing. A removal counts even if the barrier is set again at once, and if it comes during a
        lost connection or between two sessions.

        Raises:
            SessionError: the client was closed, or its credentials were refused.

        Cancellation: stops waiting.
        """
        client = self._client
        seen: int | None = None  # the czxid of the znode that has to go
        while True:
            watch = client.backend.make_watch()
            try:
                # As `catch_up`, but a barrier that is not set takes one request: this one.
                await client.check(self._path)
                _, stat = await client.get(self._path, watch=watch)
                if seen is not None and stat.czxid != seen:
                    return  # removed meanwhile, and set again
                seen = stat.czxid
                event = await watch.wait()
                if event.type is EventType.DELETED:
                    return
            except NoNodeError:
                return
            except AioleadError as error:
                await before_next_try(client, error, Step.ASK)
            finally:
                watch.close()


MOST_MEMBERS = 1_000_000


class BarrierMember(Tenure):
    """One unbroken time inside a double barrier."""

    _lost_error = BarrierLost

    @property
    def _membership(self) -> BarrierMembership:
        assert isinstance(self._place, BarrierMembership)
        return self._place

    @property
    def round(self) -> int:
        """The number of the round: the same for all its members, and greater for later rounds."""
        return self._membership.round


class _BarrierContext(TenureContext[BarrierMember]):
    """Waits for the others on entering, and again on leaving."""

    async def _leave(
        self,
        current: int,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        member = self._tenure
        if exc is not None or member is None:
            await super()._leave(current, exc_type, exc, traceback)
            return
        membership: BarrierMembership = member._membership
        membership.stays_to_the_end = True
        try:
            await super()._leave(current, exc_type, exc, traceback)
            await membership.others_left(basename(member.path))
        except BaseException:
            membership.left_early()
            raise


@final
class DoubleBarrier(HoldingRecipe[BarrierMember]):
    """Lets `count` members in together, and out together.

        async with DoubleBarrier(client, "/step-1", 5) as member:   # waits until five are there
            await compute()
        # here all five have computed

    Nobody is let in before `count` members are there at one moment. `count` is a threshold, not a
    limit: a member that comes during a round joins it, also one that died and was restarted.
    Leaving waits until all have left; a member that dies counts until its session ends. Then the
    same path serves for another round.

    If others put znodes below `ready`, no server deletes it. A round that has begun ends as usual.
    The next one begins once those znodes are gone: a line at WARNING names `ready`.

    A membership is under the lease, as a lock is: a partitioned member's body is cancelled, and
    `BarrierLost` raised, before its session ends and the others go on. So once `async with` is
    left, no body of the round runs any more.

    Args:
        client: the session.
        path: the barrier; created as a container if missing. Nothing else should use it. Only
            ephemeral children with names of members count (UUIDs, as Curator's and kazoo's).
        count: how many members there have to be. All must agree on it.
        identity, on_disconnect, acl: as for `Lock`; `"resign"` leaves the barrier at once.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        count: int,
        *,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        contest = Contest(
            type(self).__name__,
            client,
            path,
            BarrierMember,
            partial(BarrierMembership, checked_count("count", count, most=MOST_MEMBERS)),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            to_hold="async with barrier.enter() as member:",
            to_try="",
        )
        super().__init__(contest, partial(_BarrierContext, contest))
        self._warnings = self._client.backend.shared(path, PathWarnings)

    async def __aenter__(self) -> BarrierMember:
        return await enter_recipe(self._entered, self.enter())

    __aexit__ = leave_recipe

    def enter(self, *, timeout: float | None = None) -> TenureContext[BarrierMember]:
        """Enter for the body of an `async with`.

        A body that ends normally is followed by a wait for the others' bodies to end. One that
        raises, or is cancelled, leaves at once: nobody waits for it.

        Args:
            timeout: how long to wait for the others to come, in seconds. None, the default, waits
                forever; 0 enters only if this member makes it enough, or during a round. It does
                not limit the wait on leaving.

        Raises (on entering):
            AcquireTimeout: not enough came within that time.

        Raises (on leaving): as `TenureContext`; a loss is raised as `BarrierLost`.

        On connection loss while leaving: waits until the member's own znode is known to be gone,
        over as many connections as it takes, and then for the others. Cancellation: while entering,
        leaves nothing behind; while waiting for the others to leave, they do not notice.
        """
        return self._context(timeout)

    async def members(self) -> list[Participant]:
        """The members, oldest first; `is_holder` are those inside. May lag, as `Lock.holders`."""
        return await over_sessions(self._client, self._read_members)

    async def _read_members(self) -> list[Participant]:
        client, path = self._client, self._path
        exists = client.exists(join(path, READY))
        listing = client.get_children(path)
        ready = await exists
        names = sorted(members_among(await listed(listing)))
        found = await read_participants(client, path, names, is_holder=ready is not None)
        members = [each for each in found if each.session_id]
        return sorted(members, key=lambda member: member.token)
