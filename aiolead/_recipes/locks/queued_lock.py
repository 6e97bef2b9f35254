"""The base class of locks with a contender queue."""

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
        """Return the holders. The server may lag: call `client.sync()` first where that matters."""
        return [participant for participant in await self._contenders() if participant.is_holder]

    async def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `holders`."""
        return await self._contenders()

    async def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before.

        Any process may call this, and no holder is forced. A holder checks
        `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
        notified if it is revocable.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; it is safe to
                retry.
            ServerError: the servers refused the write, by `NoAuthError` for instance.
        """
        return await self._revoke((self._role,))
