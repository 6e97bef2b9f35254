"""Recipes that are entered themselves: `async with recipe`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from ...abc import CoordinationClient
from ...model import ACL
from .arguments import OnDisconnect
from .contexts import TenureContext, TryContext
from .entries_by_task import EntriesByTask
from .holding_recipe import HoldingRecipe
from .tenure import Held, Tenure

T = TypeVar("T", bound=Tenure)


class Enterable(HoldingRecipe[T]):
    """One that is entered by any number of tasks, each for itself."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._entered: EntriesByTask[TenureContext[T]] = EntriesByTask()

    @abstractmethod
    def _context(self) -> TenureContext[T]:
        """What `async with` of the recipe itself is short for."""

    async def __aenter__(self) -> T:
        context = self._context()
        tenure = await context.__aenter__()
        self._entered.push(context)
        return tenure

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._entered.pop(self).__aexit__(exc_type, exc, traceback)


class HeldRecipe(Enterable[Held]):
    """One that is held as a lock is."""

    _tenure = Held

    def _context(self) -> TenureContext[Held]:
        return self.acquire()

    def acquire(self, *, timeout: float | None = None) -> TenureContext[Held]:
        """Holds it for the body of an `async with`.

        Args:
            timeout: how long to wait for it, in seconds; for ever by default. 0 tries once.

        Raises (on entering):
            AcquireTimeout: it was not ours within that time.

        For cancellation and loss see `TenureContext`.
        """
        return TenureContext(self, timeout)

    def try_acquire(self) -> TryContext[Held]:
        """As `acquire`, but gives None, at once, if it is not to be had."""
        return TryContext(self)
