"""The barrier and the double barrier: the public recipes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, final

from ...abc import CoordinationClient
from ...errors import AioleadError, BarrierLost, NodeExistsError, NoNodeError
from ...model import ACL, CreateMode, EventType, Participant
from ...paths import basename, join, parent
from .._core.arguments import OnDisconnect, checked_count
from .._core.contexts import Entries, TenureContext
from .._core.error_policy import Step, before_next_try, with_parent
from .._core.holding_recipe import HoldingRecipe
from .._core.participants import read_participants
from .._core.reading import listed, over_sessions
from .._core.recipe import Recipe
from .._core.reporting import PathWarnings
from .._core.tenure import Tenure
from ..contest import Contest
from .barrier_membership import READY, BarrierMembership, members_among

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
        acl: of the znode and of the parents; open to everybody by default.

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
        """Whether the barrier is set.

        Reads from the connected server, which may lag; call `client.sync()` first where that
        matters.
        """
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
        assert isinstance(self._acquirable, BarrierMembership)
        return self._acquirable

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


def _membership(count: int, contest: Contest[Any]) -> BarrierMembership:
    return BarrierMembership(contest.client, contest.path, count, contest.data, contest.acl)


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
        identity: the name that others see; defaults to host name and process id.
        on_disconnect: when the connection is lost, `"keep"` (the default) keeps the place while the
            lease lasts, `"resign"` leaves at once.
        acl: of the znodes, and of the path if it has to be created; open to everybody by default.

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
        contest = Contest.of(
            type(self).__name__,
            client,
            path,
            BarrierMember,
            partial(_membership, checked_count("count", count, most=MOST_MEMBERS)),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            to_hold="async with barrier.enter() as member:",
            to_try="",
        )
        super().__init__(contest)
        self._warnings = self._client.backend.shared(path, PathWarnings)
        self._entries: Entries[BarrierMember] = Entries(contest.label)

    async def __aenter__(self) -> BarrierMember:
        return await self._entries.enter(self.enter())

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._entries.leave(exc_type, exc, traceback)

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
        return _BarrierContext(self._contest, timeout)

    async def members(self) -> list[Participant]:
        """The members, first come first; `is_holder` are those that are inside.

        Reads from the connected server, which may lag; call `client.sync()` first where that
        matters.
        """
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
