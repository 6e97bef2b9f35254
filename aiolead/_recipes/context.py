"""Acquiring on entering and releasing on leaving: the `async with` of every tenure.

Only a cancel scope in the caller's task is held open over the body: no task group, which would wrap
what the body raises.
"""

from __future__ import annotations

from types import TracebackType
from typing import Generic, TypeVar

import anyio

from ..errors import AcquireTimeout, TenureLost
from .base import QueuedRecipe, checked_wait
from .tenure import Tenure

T = TypeVar("T", bound=Tenure)


class _Context(Generic[T]):
    def __init__(self, recipe: QueuedRecipe[T]) -> None:
        self._recipe = recipe
        self._tenure: T | None = None
        self._scope: anyio.CancelScope | None = None
        self._task = 0

    async def _acquire(self, wait: float | None) -> T | None:
        """Gets in front within `wait` seconds (0: without waiting), or leaves the line."""
        recipe = self._recipe
        self._task = recipe.tasks.enter()
        contender = recipe.contender()
        in_front = False
        try:
            if wait is None:
                in_front = await contender.reach_front()
            elif wait == 0:
                in_front = await contender.try_front()
            else:
                with anyio.move_on_after(wait):
                    in_front = await contender.reach_front()
        finally:
            if not in_front:
                contender.discard()
                recipe.tasks.leave(self._task)
        if not in_front:
            return None
        # No checkpoint between winning and the body.
        self._scope = anyio.CancelScope()
        self._scope.__enter__()
        self._tenure = recipe.begin(contender, self._scope.cancel)
        return self._tenure

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        tenure, scope = self._tenure, self._scope
        if tenure is None or scope is None:
            return False
        self._tenure = self._scope = None
        swallowed = bool(scope.__exit__(exc_type, exc, traceback))
        try:
            if not tenure.is_resigned:
                await tenure.release()
        finally:
            self._recipe.tasks.leave(self._task)
        if tenure.loss is None:
            return swallowed
        if exc is not None and not swallowed:
            # What the body raised tells more than that it was also cancelled.
            if not isinstance(exc, TenureLost):
                exc.add_note(str(tenure.error()))
            return False
        raise tenure.error() from None


class TenureContext(_Context[T]):
    """Waits for our turn.

    Raises (on entering):
        AcquireTimeout: it did not come within `wait` seconds.
        AlreadyHeldError: this task already holds the same object, or waits for it.

    Raises (on leaving):
        TenureLost: it was lost (`LeadershipLost`, `LockLost`), and the body, which was cancelled
            then and awaited, raised nothing else.

    Cancellation: leaves the line at once, without waiting for the servers. Leaving the body waits
    for their confirmation, for a third of the session timeout at most, also when it is cancelled.
    """

    def __init__(self, recipe: QueuedRecipe[T], wait: float | None) -> None:
        super().__init__(recipe)
        self._wait = checked_wait(wait)

    async def __aenter__(self) -> T:
        tenure = await self._acquire(self._wait)
        if tenure is None:
            raise AcquireTimeout(f"{self._recipe!r}: not our turn within {self._wait:g} seconds")
        return tenure


class TryContext(_Context[T]):
    """Does not wait: gives None where somebody else holds. Otherwise as `TenureContext`."""

    async def __aenter__(self) -> T | None:
        return await self._acquire(0.0)
