"""Recipes that are context managers themselves: `async with lock`."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..._tasks import current_task_id
from ...errors import UsageError
from .contexts import TenureContext
from .holding_recipe import HoldingRecipe
from .tenure import Held

R = TypeVar("R")
H = TypeVar("H", bound=Held)


class Enterable(Generic[R]):
    """A recipe that any number of tasks can enter, each for itself."""

    @abstractmethod
    def _context(self) -> TenureContext[R]:
        """The context that `async with recipe` enters."""

    _entered: dict[int, TenureContext[R]] | None = None
    """The innermost context of each task; made when it is first needed."""

    async def __aenter__(self) -> R:
        context = self._context()
        held = await context.__aenter__()
        task = context._task or current_task_id()  # an inner level of a reentrant one has none
        entered = self._entered
        if entered is None:
            entered = self._entered = {}
        context._statement = id(sys._getframe(1))
        context._entered_before = entered.get(task)
        entered[task] = context
        return held

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, entered = current_task_id(), self._entered or {}
        context = entered.pop(task, None)
        if context is None:
            context = self._left_by_another(id(sys._getframe(1)))
        elif context._entered_before is not None:
            entered[task] = context._entered_before
        await context._leave(task, exc_type, exc, traceback)

    def _left_by_another(self, statement: int) -> TenureContext[R]:
        """Find the context of another task that the current one, which has entered none, leaves.

        It is the one that was entered by the same statement (that of an abandoned generator), or
        the only open one. It is kept, since its own task may still leave it. Raises `UsageError` if
        there is none, or several tasks are inside and it is not known whose context is left.
        """
        inside = list((self._entered or {}).values())
        left = [each for inner in inside for each in _with_outer(inner) if each._statement]
        if len(left) > 1:
            left = [each for each in left if each._statement == statement]
        if len(left) != 1:
            raise UsageError(f"{self!r} was not entered by this task")
        left[0]._check_home()
        left[0]._statement = 0
        return left[0]


def _with_outer(inner: TenureContext[R]) -> Iterator[TenureContext[R]]:
    """A context and those around it in the same task."""
    context: TenureContext[R] | None = inner
    while context is not None:
        yield context
        context = context._entered_before


class HeldRecipe(HoldingRecipe[H], Enterable[H]):
    """A recipe that is held as a lock is."""

    def _context(self, timeout: float | None = None, *, is_try: bool = False) -> TenureContext[Any]:
        return TenureContext(self, timeout, is_try=is_try)

    def acquire(self, *, timeout: float | None = None) -> TenureContext[H]:
        """Acquire it for the body of an `async with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._context(timeout)

    def try_acquire(self) -> TenureContext[H | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._context(0, is_try=True)
