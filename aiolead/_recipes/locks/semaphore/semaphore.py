"""The semaphore."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from typing import final

from ....abc import CoordinationClient, Reply
from ....errors import ConfigurationError, NoNodeError, UsageError
from ....model import ACL, Participant
from ....paths import basename, join, sequence_of
from ..._core.arguments import OnDisconnect, checked_count
from ..._core.candidate import Candidate
from ..._core.contexts import TenureContext, TryContext
from ..._core.entered import Enterable
from ..._core.tenure import Held
from ...contention.layouts import Layout, Role
from ...contention.local_contenders import LocalContenders
from ...contention.neighbours import in_line
from .arrangement import arranged
from .limit import MOST_PERMITS, ask, publish
from .permits import Permits

MOST_AT_ONCE = 1000
"""How many permits may be held as one: each is a znode, that renewals check and watches watch."""


class _HeldPermits(Held):
    """One or more permits, held as one."""

    async def _confirmation(self) -> None:
        candidate = self._candidate
        paths = candidate.paths if isinstance(candidate, Permits) else [self.path]
        checks = [self._client.check(path) for path in paths]
        for check in checks:
            await check


@final
class Semaphore(Enterable[Held]):
    """A number of permits that any number of tasks and processes share, first come first served.

        semaphore = Semaphore(client, "/licences", 5)
        async with semaphore as held: ...                  # one permit
        async with semaphore.acquire(permits=3, timeout=5) as held: ...
        async with semaphore.try_acquire() as held:
            if held is not None: ...

    The body is cancelled if a permit is lost, before the servers could give it to anybody else;
    `LockLost` is then raised on leaving. Several permits are had all at once or not at all, and
    lost together; `held.token` and `held.path` are those of the last one that was created. No token
    is used twice; but several holders hold at once, so the greatest is not the only good one.

    A task that holds permits may try for more, with a limit of time or none at all, but not wait
    for ever: others may wait for what it has.

    Args:
        client: the session that holds the permits.
        path: the semaphore; what is missing is created, as containers. Nothing else should use it.
        limit: how many permits there are where nobody has used `set_limit`. All should agree.
        identity: what others see as the holder; host name and process id by default.
        layout: whom to contend with: Curator's `InterProcessSemaphoreV2`, or kazoo's `Semaphore`.
            In the layout of kazoo the limit is stored as the semaphore is created, and stays.
        on_disconnect: what becomes of held permits when the link is lost: `"keep"` keeps them
            while the lease lasts, `"resign"` gives them up at once.
        acl: of our znodes, and of what has to be created; everybody everything by default.

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
        where = arranged(path, layout)
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._default = checked_count("limit", limit, most=MOST_PERMITS)
        self._permits = 1
        self._where = where
        # What is known of the line outlives one try at permits.
        self._line = (
            self._client.backend.shared(where.line, LocalContenders) if where.is_kazoos else None
        )

    def _candidate(self) -> Candidate:
        return Permits(
            self._client, self._where, self._permits, self._default, self._data, self._acl
        )

    def _context(self) -> TenureContext[Held]:
        return self.acquire()

    def _several(self, permits: int) -> Semaphore:
        """The same, for so many permits, and for one acquisition."""
        several = copy.copy(self)
        several._permits = checked_count("permits", permits, most=MOST_AT_ONCE)
        return several

    def acquire(self, *, permits: int = 1, timeout: float | None = None) -> TenureContext[Held]:
        """Holds permits for the body of an `async with`: all of them, or none.

        Args:
            permits: how many. While we wait for many at the front, nobody passes us who needs less.
            timeout: how long to wait for them, in seconds; for ever by default. 0 tries once.

        Raises (on entering):
            AcquireTimeout: they were not ours within that time.
            AlreadyHeldError: this task holds permits of this semaphore, and there is no `timeout`.
            UsageError: there are not so many permits, even if all were free. That is found out when
                it is our turn: by then the limit may have been raised.
            InvalidDataError: what is published as the limit is none.
            MixedLayoutError: there are semaphores of another layout on the path.

        For cancellation and loss see `TenureContext`.
        """
        return TenureContext(self._several(permits), timeout)

    def try_acquire(self, *, permits: int = 1) -> TryContext[Held]:
        """As `acquire`, but gives None at once if they are not free or others wait for permits."""
        return TryContext(self._several(permits))

    # --- the limit -----------------------------------------------------------------------------

    async def set_limit(self, limit: int) -> None:
        """Publishes how many permits there are, for everybody, from now on and for good.

        Whoever waits at the front looks again at once. Lowering takes no permit away: nobody gets
        one until enough were given back.

        On connection loss: raises `ConnectionLossError`, which says whether it may have happened;
        publishing the same limit again does no harm.

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
        return await ask(self._client, self._where).value(self._default)

    async def available(self) -> int:
        """How many permits are free now; 0 while somebody waits for them. A read, as `holders`."""
        limit = ask(self._client, self._where)
        taken = self._client.get_children(self._where.permits)
        free = await limit.value(self._default)
        try:
            return max(0, free - len(await taken))
        except NoNodeError:
            return free

    # --- who is there --------------------------------------------------------------------------

    async def holders(self) -> list[Participant]:
        """One participant for each permit that is held, in the order in which they were created.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        return (await self._look())[0]

    async def contenders(self) -> list[Participant]:
        """One participant for each permit that is held, then one for each who waits, in order.

        A read, as `holders`.
        """
        holders, waiting = await self._look()
        return holders + waiting

    async def _look(self) -> tuple[list[Participant], list[Participant]]:
        limit = ask(self._client, self._where)
        leases = self._client.get_children(self._where.permits)
        locks = self._client.get_children(self._where.line)
        most = await limit.value(self._default)
        permits = await self._found(self._where.permits, leases)
        waiting = await self._found(self._where.line, locks)
        if waiting and len(permits) > most:
            # Whoever is at the front makes its permits before there is room for them.
            front = basename(waiting[0].path)
            mark = f"{sequence_of(front) or 0:010d}-"
            owner = waiting[0].session_id
            permits = [
                permit
                for permit in permits
                if permit.session_id != owner or not basename(permit.path).startswith(mark)
            ]
        return permits, waiting

    async def _found(self, path: str, listing: Reply[list[str]]) -> list[Participant]:
        """The znodes of a listing, in order; those that go meanwhile are left out."""
        try:
            names = await listing
        except NoNodeError:
            return []
        is_line = path == self._where.line
        if is_line:
            names = await in_line(self._client, path, names, self._where.layout, Role.LOCK)
        looks = [(join(path, name), self._client.get(join(path, name))) for name in names]
        found: list[Participant] = []
        for where, look in looks:
            with suppress(NoNodeError):
                data, stat = await look
                found.append(
                    Participant(
                        identity=data.decode(errors="replace"),
                        path=where,
                        token=stat.czxid,
                        session_id=stat.ephemeral_owner,
                        is_holder=not is_line,
                    )
                )
        if not is_line:
            found.sort(key=lambda permit: permit.token)
        return found
