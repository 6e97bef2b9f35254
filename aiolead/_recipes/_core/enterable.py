"""Recipes that are context managers themselves: `async with lock`."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..._tasks import current_task_id
from ...errors import UsageError
from .contexts import TenureContext
from .holding_recipe import HoldingRecipe
from .tenure import Held

R = TypeVar("R")
H = TypeVar("H", bound=Held)


@dataclass(slots=True)
class _TaskEntry(Generic[R]):
    """One `async with`; `frame` is only an id, so that the frame is not kept alive."""

    context: TenureContext[R]
    frame: int
    outer: _TaskEntry[R] | None
    """The entry of the same task before this one."""
    is_given_up: bool = False

    def all(self) -> Iterator[_TaskEntry[R]]:
        """This entry and the outer ones."""
        entry: _TaskEntry[R] | None = self
        while entry is not None:
            yield entry
            entry = entry.outer


class Enterable(Generic[R]):
    """A recipe that any number of tasks can enter, each for itself."""

    @abstractmethod
    def _context(self) -> TenureContext[R]:
        """The context that `async with recipe` enters."""

    _entered: dict[int, _TaskEntry[R]] | None = None
    """The innermost entry of each task; made when it is first needed."""

    async def __aenter__(self) -> R:
        context = self._context()
        held = await context.__aenter__()
        task = context._task or current_task_id()  # an inner level of a reentrant one has none
        entered = self._entered
        if entered is None:
            entered = self._entered = {}
        entered[task] = _TaskEntry(context, _statement(), entered.get(task))
        return held

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._left(_statement()).__aexit__(exc_type, exc, traceback)

    def _left(self, statement: int) -> TenureContext[R]:
        """Find the context that the current task leaves.

        If this task has entered nothing, it leaves what another task entered: by the same statement
        (that of an abandoned generator), or the only open entry. The entry is kept, since its own
        task may still leave it. Raises `UsageError` if there is none, or several tasks are inside
        and it is not known whose entry is left.
        """
        task, entered = current_task_id(), self._entered or {}
        entry = entered.pop(task, None)
        if entry is not None:
            if entry.outer is not None:
                entered[task] = entry.outer
            return entry.context
        left = [each for entry in entered.values() for each in entry.all() if not each.is_given_up]
        if len(left) > 1:
            left = [each for each in left if each.frame == statement]
        if len(left) != 1:
            raise UsageError(f"{self!r} was not entered by this task")
        left[0].is_given_up = True
        return left[0].context


def _statement() -> int:
    """The id of the frame that enters or leaves: the caller's caller."""
    return id(sys._getframe(2))


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
