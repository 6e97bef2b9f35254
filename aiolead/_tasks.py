"""Which task runs, and waiting until another one wakes it: what anyio has, for a fraction.

`anyio.get_current_task` describes the task, and `anyio.Event` lets any number of tasks wait. Where
thousands wait for their turn, each with an event of its own, it is these that the memory goes to:
about 1.3 kB of each waiter on asyncio, 0.7 kB on trio. So here is the part that is needed. Neither
loop is imported for it: whoever runs on one has it, and may do without the other.
"""

from __future__ import annotations

import sys
from typing import Any, final

import anyio
import anyio.lowlevel

__all__ = ["Wakeup", "current_task_id"]


def current_task_id() -> int:
    """The same as `anyio.get_current_task().id`."""
    trio = _trio()
    if trio is not None:
        return id(trio.lowlevel.current_task())
    task = sys.modules["asyncio"].current_task()
    return id(task) if task is not None else anyio.get_current_task().id


@final
class Wakeup:
    """As `anyio.Event`, for one task at a time that waits."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: Any = None
        """Of asyncio the future, of trio the task."""

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Wakes who waits; whoever begins to wait from now on does not."""
        self._is_set = True
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return
        asyncio = sys.modules.get("asyncio")
        if asyncio is None or not isinstance(waiter, asyncio.Future):
            sys.modules["trio"].lowlevel.reschedule(waiter)
        elif not waiter.done():  # its task was cancelled, and has not run since
            waiter.set_result(None)

    async def wait(self) -> None:
        """Waits until it is set. Cancellation: leaves it as it is.

        Raises:
            RuntimeError: another task waits for it.
        """
        if self._is_set:
            await anyio.lowlevel.checkpoint()
            return
        if self._waiter is not None:
            raise RuntimeError("another task waits for this: use anyio.Event")
        trio = _trio()
        if trio is not None:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._aborted)
            return
        self._waiter = sys.modules["asyncio"].get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _aborted(self, _raise_cancel: object) -> Any:
        """Trio cancels the wait."""
        self._waiter = None
        return sys.modules["trio"].lowlevel.Abort.SUCCEEDED


def _trio() -> Any:
    """Trio, if what runs is a task of it: also where its loop is a guest of asyncio's."""
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_task() else None
