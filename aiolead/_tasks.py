"""Which task runs, and waiting until another one wakes it: what anyio has, for a fraction.

`anyio.get_current_task` describes the task, and `anyio.Event` lets any number of tasks wait. Where
thousands wait for their turn, each with an event of its own, it is these that the memory goes to:
about 1.3 kB of each waiter on asyncio, 0.7 kB on trio. So here is the part that is needed. Neither
loop is imported for it: whoever runs on one has it, and may do without the other.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Any, final

import anyio
import anyio.lowlevel

__all__ = ["Wakeup", "current_task_id", "trio_here"]


def current_task_id() -> int:
    """The same as `anyio.get_current_task().id`."""
    trio = trio_here()
    if trio is not None:
        return id(trio.lowlevel.current_task())
    task = sys.modules["asyncio"].current_task()
    return id(task) if task is not None else anyio.get_current_task().id


@final
class Wakeup:
    """As `anyio.Event`, for one task at a time that waits."""

    __slots__ = ("_future", "_is_set", "_task")

    def __init__(self) -> None:
        self._is_set = False
        self._future: Any = None
        """Of asyncio, what is waited for."""
        self._task: Any = None
        """Of trio, who waits."""

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Wakes who waits; whoever begins to wait from now on does not."""
        self._is_set = True
        future, task = self._future, self._task
        self._future = self._task = None
        if task is not None:
            sys.modules["trio"].lowlevel.reschedule(task)
        elif future is not None and not future.done():  # else it was cancelled, and has not run yet
            future.set_result(None)

    def wait(self) -> Awaitable[None]:
        """Waits until it is set; to be awaited at once. Cancellation: leaves it as it is.

        Raises:
            RuntimeError: another task waits for it.
        """
        if self._is_set:
            return anyio.lowlevel.checkpoint()
        if self._task is not None or (self._future is not None and not self._future.done()):
            raise RuntimeError("another task waits for this: use anyio.Event")
        trio = trio_here()
        if trio is not None:
            self._task = trio.lowlevel.current_task()
            rescheduled: Awaitable[None] = trio.lowlevel.wait_task_rescheduled(self._aborted)
            return rescheduled
        # Itself, and not a coroutine that waits for it, which would take twice as much memory.
        future: Awaitable[None] = sys.modules["asyncio"].get_running_loop().create_future()
        self._future = future
        return future

    def _aborted(self, _raise_cancel: object) -> Any:
        """Trio cancels the wait."""
        self._task = None
        return sys.modules["trio"].lowlevel.Abort.SUCCEEDED


def trio_here() -> Any:
    """Trio, if what runs is a task of it: also where its loop is a guest of asyncio's."""
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_task() else None
