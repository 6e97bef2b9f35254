"""The lock that its holder may acquire again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Generic, TypeVar, cast, final

import anyio.lowlevel

from ..._tasks import current_task_id
from ...errors import UsageError
from .._core.contexts import TenureContext, left_by_another
from .._core.tenure import Held
from ..contention.layouts import Role
from .queued_lock import QueuedLock

R_co = TypeVar("R_co", covariant=True)


@dataclass(slots=True)
class _TaskHold:
    """The hold of a task, and how often the task has entered."""

    held: Held
    count: int = 1


class _ReentrantContext(TenureContext[R_co], Generic[R_co]):
    """The outermost block of a task acquires and releases; inner blocks count."""

    _within: int | None = None
    """The task, in an inner block."""
    _outer: _TaskHold | None = None

    @property
    def _holds(self) -> dict[int, _TaskHold]:
        assert isinstance(self._recipe, ReentrantLock)
        return self._recipe._holds

    async def __aenter__(self) -> R_co:
        task = current_task_id()
        entry = self._holds.get(task)
        if entry is None:
            held = await super().__aenter__()
            if isinstance(held, Held):
                self._holds[task] = _TaskHold(held)
            return held
        await anyio.lowlevel.checkpoint()
        if self._within is not None or self._task is not None:
            raise UsageError(f"{self._recipe!r}: this context manager is in use; make one each")
        entry.held.check()
        entry.count += 1
        self._within, self._outer = task, entry
        return cast(R_co, entry.held)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        outer, self._outer = self._outer, None
        if outer is None:
            # Also if another task leaves, which releases the lock.
            if self._task is not None and self._is_outermost(self._task):
                del self._holds[self._task]
            await super().__aexit__(exc_type, exc, traceback)
            return
        within, self._within = self._within, None
        outer.count -= 1
        if within != current_task_id():
            raise left_by_another(self._recipe)
        if exc is None:
            await anyio.lowlevel.checkpoint()

    def _is_outermost(self, task: int) -> bool:
        entry = self._holds.get(task)
        return entry is not None and entry.held is self._tenure


@final
class ReentrantLock(QueuedLock[Held]):
    """A `Lock` that the task that holds it may acquire again.

        async with lock as held:
            async with lock as again:  # the same tenure, at once
                assert again is held

    The holder is a task, not a process: any other task waits, even a child task of the holder. Only
    leaving the outermost block releases the lock, or raises `LockLost`. A loss cancels all blocks.

    Entering again takes no request. It raises `LockLost` if the lease has run out by the clock, and
    `UsageError` if the lock was released.

    Args: as for `Lock`. A `Lock` of the same path, and Curator's `InterProcessMutex`, contend with
    it. A task that holds one of them must not wait for the other.
    """

    _role = Role.LOCK
    _tenure = Held

    @cached_property
    def _holds(self) -> dict[int, _TaskHold]:
        return {}

    def _context(self, timeout: float | None = None, *, is_try: bool = False) -> TenureContext[Any]:
        return _ReentrantContext(self, timeout, is_try=is_try)

    @property
    def hold_count(self) -> int:
        """How many blocks of the current task hold it."""
        entry = self._holds.get(current_task_id())
        return 0 if entry is None else entry.count
