"""The semaphore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

from ....abc import CoordinationClient
from ....errors import ConfigurationError, UsageError
from ....model import ACL, Participant
from ....paths import basename, sequence_of
from ..._core.arguments import (
    OnDisconnect,
    checked_client,
    checked_count,
    checked_flag,
    checked_path,
)
from ..._core.contexts import TenureContext
from ..._core.holding_recipe import HeldRecipe
from ..._core.participants import read_participants
from ..._core.reading import listed, over_sessions
from ..._core.reporting import PathWarnings
from ..._core.tenure import Held
from ...contention.layouts import Layout, Role
from ...contention.neighbours import queue_order
from ...contention.queue_znode import LocalContenders
from ...contest import Contest
from .parts import MOST_PERMITS, LimitReply, LimitRule, SemaphoreParts, parts_of, publish
from .permits import Permits

MOST_AT_ONCE = 1000
"""The most permits of one acquisition: each is a znode with a watch, checked by each renewal."""


class _HeldPermits(Held):
    async def _confirmation(self) -> None:
        assert isinstance(self._acquirable, Permits)
        for check in [self._client.check(path) for path in self._acquirable.paths]:
            await check


def _permits(
    where: SemaphoreParts,
    permits: int,
    rule: LimitRule,
    warnings: PathWarnings,
    contest: Contest[Any],
) -> Permits:
    return Permits(contest.client, where, permits, rule, contest.data, contest.acl, warnings)


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
        self._warnings = client.backend.shared(path, PathWarnings)
        self._where = where
        # The knowledge about the queue outlives one attempt.
        self._local = (
            client.backend.shared(where.queue, LocalContenders) if where.is_kazoos else None
        )
        contest: Contest[Held] = Contest.of(
            type(self).__name__,
            client,
            path,
            _HeldPermits,
            self._attempt(1),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        super().__init__(contest)

    def _attempt(self, permits: int) -> Callable[[Contest[Any]], Permits]:
        return partial(_permits, self._where, permits, self._rule, self._warnings)

    def _several(self, permits: int) -> Contest[Held]:
        """The contest of one acquisition of several permits."""
        checked_count("permits", permits, most=MOST_AT_ONCE)
        return self._contest.derived(self._attempt(permits))

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
        """As `acquire`, but gives None at once if they are not free or others wait for permits."""
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
        await publish(self._client, self._where.limit, limit, self._acl)

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
        queue = await queue_order(client, where.queue, await listed(locks), where.layout, Role.LOCK)
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
