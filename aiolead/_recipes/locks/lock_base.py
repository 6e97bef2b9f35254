"""What all locks in a line have: `async with`, who holds it, and asking for it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Generic, TypeVar

from ...abc import CoordinationClient
from ...model import ACL, Participant
from .._core.arguments import OnDisconnect
from .._core.contexts import TenureContext, TryContext
from .._core.entries_by_task import EntriesByTask
from .._core.tenure import Held
from ..contention.layouts import Layout
from ..contention.queue_recipe import QueuedRecipe

H = TypeVar("H", bound=Held)


class Locking(QueuedRecipe[H], Generic[H]):
    """A lock in a line; see `Lock`."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(
            client,
            path,
            identity=identity,
            places=1,
            layout=layout,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        self._entered: EntriesByTask[TenureContext[H]] = EntriesByTask()

    def acquire(self, *, timeout: float | None = None) -> TenureContext[H]:
        """Holds the lock for the body of an `async with`.

        Args:
            timeout: how long to wait for it, in seconds; for ever by default. 0 tries once.

        Raises (on entering):
            AcquireTimeout: it was not ours within that time.

        For cancellation and loss see `TenureContext`.
        """
        return TenureContext(self, timeout)

    def try_acquire(self) -> TryContext[H]:
        """As `acquire`, but gives None, at once, if somebody else holds the lock."""
        return TryContext(self)

    async def __aenter__(self) -> H:
        context = self.acquire()
        held = await context.__aenter__()
        self._entered.push(context)
        return held

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._entered.pop(self).__aexit__(exc_type, exc, traceback)

    async def holders(self) -> list[Participant]:
        """Who holds the lock.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        return [participant for participant in await self._line() if participant.is_holder]

    async def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order. A read, as `holders`."""
        return await self._line()

    async def revoke(self) -> list[Participant]:
        """Asks whoever holds the lock now to let go of it, from any process. Nobody is forced.

        A holder sees `held.is_revocation_requested`, or waits for `held.revocation_requested()`;
        one of Curator's hears of it if it is revocable.

        Returns:
            Whom it has asked: holders that were not asked before.

        Raises:
            ConnectionLossError: the link was lost before all answers came; ask again.
            ServerError: what the server says to the write, such as `NoAuthError`.
        """
        return await self._revoke((self._role,))
