"""The semaphore."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import final

from ....abc import CoordinationClient, Reply
from ....errors import ConfigurationError, NoNodeError, UsageError
from ....model import ACL, Participant
from ....paths import basename, sequence_of
from ..._core.arguments import OnDisconnect, checked_count
from ..._core.contexts import TenureContext
from ..._core.enterable import HeldRecipe
from ..._core.participants import read_participants
from ..._core.tenure import Held
from ...contention.layouts import Layout, Role
from ...contention.local_contenders import LocalContenders
from ...contention.neighbours import queue_order
from .parts import MOST_PERMITS, LimitReply, parts_of, publish
from .permits import Permits

MOST_AT_ONCE = 1000
"""How many permits may be held as one: each is a znode, that renewals check and watches watch."""


class _HeldPermits(Held):
    """One or more permits, held as one."""

    async def _confirmation(self) -> None:
        assert isinstance(self._acquirable, Permits)
        for check in [self._client.check(path) for path in self._acquirable.paths]:
            await check


@final
class Semaphore(HeldRecipe[Held]):
    """A number of permits that any number of tasks and processes share, first come first served.

        semaphore = Semaphore(client, "/licences", 5)
        async with semaphore as held: ...                  # one permit
        async with semaphore.acquire(permits=3, timeout=5) as held: ...
        async with semaphore.try_acquire() as held:
            if held is not None: ...

    The body is cancelled if a permit is lost, before the servers could give it to anybody else;
    `LockLost` is then raised on leaving. Several permits are acquired all at once or not at all,
    and lost together; `held.token` and `held.path` are those of the last one that was created. No
    token is used twice; but several holders hold at once, so the greatest is not the only good one.

    A task that holds permits may try for more, with a timeout or none at all, but not wait forever:
    others may wait for what it has.

    Args:
        client: the session that holds the permits.
        path: the semaphore; what is missing is created, as containers. Nothing else should use it.
        limit: how many permits there are where nobody has used `set_limit`. All should agree.
        identity: what others see as the holder; defaults to host name and process id.
        layout: whom to contend with: Curator's `InterProcessSemaphoreV2`, or kazoo's `Semaphore`.
            In the layout of kazoo the limit is stored as the semaphore is created, and stays.
        on_disconnect: what becomes of held permits when the connection is lost: `"keep"` keeps them
            while the lease lasts, `"resign"` releases them at once.
        acl: of our znodes, and of what has to be created; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _tenure = _HeldPermits

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        limit: int,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        if not isinstance(layout, Layout):
            raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
        where = parts_of(path, layout)
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._default = checked_count("limit", limit, most=MOST_PERMITS)
        self._permits = 1
        self._where = where
        # What is known of the queue outlives one attempt at permits.
        self._local = (
            self._client.backend.shared(where.queue, LocalContenders) if where.is_kazoos else None
        )

    def _acquirable(self) -> Permits:
        return Permits(
            self._client, self._where, self._permits, self._default, self._data, self._acl
        )

    def _several(self, permits: int) -> Semaphore:
        """The same, for so many permits, and for one acquisition."""
        several = copy.copy(self)
        several._permits = checked_count("permits", permits, most=MOST_AT_ONCE)
        return several

    def acquire(self, *, permits: int = 1, timeout: float | None = None) -> TenureContext[Held]:
        """Acquire permits for the body of an `async with`: all of them, or none.

        Args:
            permits: how many. While we wait for many at the front of the queue, nobody who needs
                less passes us.
            timeout: how long to wait for them, in seconds. None waits forever, 0 tries once.

        Raises (on entering):
            AcquireTimeout: not acquired within that time.
            AlreadyHeldError: this task holds permits of this semaphore, and `timeout` is None.
            UsageError: there are not so many permits, even if all were free. That is found out when
                it is our turn: by then the limit may have been raised.
            InvalidDataError: what is published as the limit is none.
            MixedLayoutError: there are semaphores of another layout on the path.

        For other errors, cancellation and connection loss see `TenureContext`.
        """
        return self._several(permits)._context(timeout)

    def try_acquire(self, *, permits: int = 1) -> TenureContext[Held | None]:
        """As `acquire`, but gives None at once if they are not free or others wait for permits."""
        return self._several(permits)._context(0, is_try=True)

    # --- the limit -----------------------------------------------------------------------------

    async def set_limit(self, limit: int) -> None:
        """Publish how many permits there are, for everybody, from now on and for good.

        The first of the queue looks again at once. Lowering takes no permit away: nobody gets one
        until enough were released.

        On connection loss: raises `ConnectionLossError`, which says whether it may be published. It
        is safe to retry.

        Cancellation: it may be published all the same.

        Raises:
            UsageError: it is in the layout of kazoo, whose semaphores never look at it again.
        """
        checked_count("limit", limit, most=MOST_PERMITS)
        if self._where.is_kazoos:
            raise UsageError(
                f"{self._path}: kazoo's semaphores go by the limit that they have begun with: let "
                "all programs stop, delete the path, and start them with another one"
            )
        await publish(self._client, self._where.limit, limit, self._acl)

    async def limit(self) -> int:
        """How many permits there are: what was published, else the argument. A read, as `holders`.

        Raises:
            InvalidDataError: what is published is no limit.
        """
        return await LimitReply(self._client, self._where).value(self._default)

    async def available(self) -> int:
        """How many permits are free; 0 while somebody waits for them. A read, as `holders`."""
        limit = LimitReply(self._client, self._where)
        taken = self._client.get_children(self._where.permits)
        free = await limit.value(self._default)
        return max(0, free - len(await _names(taken)))

    # --- who is there --------------------------------------------------------------------------

    async def holders(self) -> list[Participant]:
        """One participant for each permit that is held, in the order in which they were created.

        Reads from the connected server, which may lag; call `client.sync()` first where that
        matters.
        """
        return (await self._look())[0]

    async def contenders(self) -> list[Participant]:
        """One participant for each permit that is held, then one for each who waits, in order.

        A read, as `holders`.
        """
        holders, waiting = await self._look()
        return holders + waiting

    async def _look(self) -> tuple[list[Participant], list[Participant]]:
        client, where = self._client, self._where
        limit = LimitReply(client, where)
        leases = client.get_children(where.permits)
        locks = client.get_children(where.queue)
        most = await limit.value(self._default)
        names = await _names(leases)
        permits = await read_participants(client, where.permits, names, is_holder=True)
        permits.sort(key=lambda permit: permit.token)
        queue = await queue_order(client, where.queue, await _names(locks), where.layout, Role.LOCK)
        waiting = await read_participants(client, where.queue, queue, is_holder=False)
        if waiting and len(permits) > most:
            # The first of the queue makes its permits before there is room for them.
            front = basename(waiting[0].path)
            mark = f"{sequence_of(front) or 0:010d}-"
            owner = waiting[0].session_id
            permits = [
                permit
                for permit in permits
                if permit.session_id != owner or not basename(permit.path).startswith(mark)
            ]
        return permits, waiting


async def _names(listing: Reply[list[str]]) -> list[str]:
    """The names of a listing; none where the path is missing."""
    try:
        return await listing
    except NoNodeError:
        return []
