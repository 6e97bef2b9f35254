"""The lock."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import final

import anyio

from ..abc import CoordinationClient
from ..errors import UsageError
from ..model import ACL, Participant
from .arguments import OnSuspend
from .context import TenureContext, TryContext
from .layout import Layout, Role
from .queued import QueuedRecipe
from .tenure import Held


@final
class Lock(QueuedRecipe[Held]):
    """A lock that one task of one process holds at a time, first come first served.

        async with lock as held: ...
        async with lock.hold(wait=5) as held: ...
        async with lock.try_hold() as held:
            if held is not None: ...

    The body is cancelled if the lock is lost, before the servers could give it to anybody else;
    `LockLost` is then raised on leaving. Not re-entrant: a task that asks for what it holds gets
    `AlreadyHeldError`. One object may be used by any number of tasks; they exclude each other.

    Args:
        client: the session that holds it.
        path: the path; created, as a container, when it is missing. Nothing else should use it.
        identity: what others see as the holder; host name and process id by default.
        layout: whom to contend with; see `Layout`.
        on_suspend: what becomes of a held lock when the link is lost: `"ride-out"` keeps it while
            the lease lasts, `"surrender"` gives it up at once.
        acl: of our znode, and of the path where it has to be created; everybody everything by
            default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _role = Role.LOCK
    _tenure = Held

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_suspend: OnSuspend = "ride-out",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(
            client,
            path,
            identity=identity,
            places=1,
            layout=layout,
            on_suspend=on_suspend,
            acl=acl,
        )
        self._entered: dict[int, TenureContext[Held]] = {}

    def hold(self, *, wait: float | None = None) -> TenureContext[Held]:
        """Holds the lock for the body of an `async with`.

        Args:
            wait: how long to wait for it, in seconds; for ever by default. 0 tries once.

        Raises (on entering):
            AcquireTimeout: it was not ours within that time.

        For cancellation and loss see `TenureContext`.
        """
        return TenureContext(self, wait)

    def try_hold(self) -> TryContext[Held]:
        """As `hold`, but gives None, at once, if somebody else holds the lock."""
        return TryContext(self)

    async def __aenter__(self) -> Held:
        context = self.hold()
        held = await context.__aenter__()
        self._entered[anyio.get_current_task().id] = context
        return held

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        context = self._entered.pop(anyio.get_current_task().id, None)
        if context is None:
            raise UsageError(f"{self!r} was not entered by this task")
        return await context.__aexit__(exc_type, exc, traceback)

    async def holders(self) -> list[Participant]:
        """Who holds the lock: one participant, or none.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        return [participant for participant in await self._line() if participant.is_holder]

    async def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order. A read, as `holders`."""
        return await self._line()
