"""What all locks with a contender queue have."""

from __future__ import annotations

from typing import TypeVar

from ...model import Participant
from .._core.enterable import HeldRecipe
from .._core.tenure import Held
from ..contention.queue_recipe import QueuedRecipe

H = TypeVar("H", bound=Held)


class QueuedLock(QueuedRecipe[H], HeldRecipe[H]):
    """A lock with a contender queue; see `Lock`."""

    async def holders(self) -> list[Participant]:
        """Who holds the lock.

        Reads from the connected server, which may lag; call `client.sync()` first where that
        matters.
        """
        return [participant for participant in await self._contenders() if participant.is_holder]

    async def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order. A read, as `holders`."""
        return await self._contenders()

    async def revoke(self) -> list[Participant]:
        """Ask the present holders to release the lock, from any process. Nobody is forced.

        A holder sees `held.is_revocation_requested`, or waits for `held.revocation_requested()`;
        one of Curator's is notified if it is revocable.

        Returns:
            Whom it has asked: holders that were not asked before.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; ask again.
            ServerError: what the server says to the write, such as `NoAuthError`.
        """
        return await self._revoke((self._role,))
