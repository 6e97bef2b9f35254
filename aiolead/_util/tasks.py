"""The current task's id, and waking one waiting task, at a fraction of anyio's cost.
Also what all kinds of task groups have in common.

`anyio.get_current_task` describes the task, and an `anyio.Event` wakes any number of tasks. These
take most of the memory of a waiter, of which there may be thousands: about 1.3 kB each on asyncio,
0.7 kB on trio. Neither event loop is imported here: a running one is imported already.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Any, Protocol, TypeVarTuple, final

import anyio
import anyio.lowlevel

Ts = TypeVarTuple("Ts")

_modules = sys.modules


class AnyTaskGroup(Protocol):
    """The common part of `anyio.TaskGroup` and the groups of the client's tasks."""

    cancel_scope: anyio.CancelScope

    def start_soon(self, function: Callable[[*Ts], Awaitable[Any]], /, *args: *Ts) -> object: ...


def current_task_id() -> int:
    """Equal to `anyio.get_current_task().id`."""
    trio = _modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return id(trio.lowlevel.current_task())
    task = _modules["asyncio"].current_task()
    return id(task) if task is not None else anyio.get_current_task().id


@final
class Wakeup:
    """An `anyio.Event` for at most one waiting task at a time."""

    __slots__ = ("_future", "_is_set", "_task")

    def __init__(self) -> None:
        self._is_set = False
        self._future: Any = None  # of asyncio: what the task waits for
        self._task: Any = None  # of trio: the waiting task

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Wake the waiting task; later calls of `wait` return at once."""
        self._is_set = True
        future, task = self._future, self._task
        self._future = self._task = None
        if task is not None:
            _modules["trio"].lowlevel.reschedule(task)
        elif future is not None and not future.done():  # done: cancelled, and has not run yet
            future.set_result(None)

    def wait(self) -> Awaitable[None]:
        """Wait until it is set; await the result at once. Cancellation leaves it as it is.

        Raises `RuntimeError` if another task waits for it.
        """
        if self._is_set:
            return anyio.lowlevel.checkpoint()
        if self._task is not None or (self._future is not None and not self._future.done()):
            raise RuntimeError("another task waits for this: use anyio.Event")
        trio = _modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_task():
            self._task = trio.lowlevel.current_task()
            rescheduled: Awaitable[None] = trio.lowlevel.wait_task_rescheduled(self._aborted)
            return rescheduled
        # The future itself: a coroutine around it takes twice as much memory.
        future: Awaitable[None] = _modules["asyncio"].get_running_loop().create_future()
        self._future = future
        return future

    def _aborted(self, _raise_cancel: object) -> Any:
        """Called by trio as it cancels the wait."""
        self._task = None
        return _modules["trio"].lowlevel.Abort.SUCCEEDED


async def wait_shielded(
    wakeup: Wakeup, seconds: float, scope: anyio.CancelScope | None = None
) -> None:
    """Wait until it is set, or for so many seconds, whatever scope around it is cancelled.

    `scope` is the innermost one of the current task, if it is not cancelled and is left next: then
    the wait needs no scope of its own. asyncio's own cancellation ends the wait.

    On trio the end of the time cancels `scope`, whatever the wait had to do with it: leave it
    without an exception then. On asyncio it wakes the task, since a cancellation from elsewhere at
    that very moment would be taken for ours.
    """
    global _alarms
    if scope is None:
        with anyio.CancelScope() as own:
            await wait_shielded(wakeup, seconds, own)
        return
    scope.shield = True
    if (trio := trio_here()) is not None:
        scope.deadline = trio.current_time() + seconds
        with suppress(trio.Cancelled):  # by the deadline: nothing else reaches us
            await wakeup.wait()
        return
    loop, alarms = _modules["asyncio"].get_running_loop(), _alarms
    if alarms is None or alarms.loop is not loop:
        alarms = _alarms = _Alarms(loop)
    alarms.set(wakeup, seconds)
    try:
        await wakeup.wait()
    finally:
        alarms.unset(wakeup)


@final
class _Alarms:
    """Wakes tasks of one event loop of asyncio at their times, by one timer for all.

    Nearly every alarm is unset before its time. A timer for each would take more time than the rest
    of a wait: the event loop keeps cancelled ones for a while, and sorts them.
    """

    __slots__ = ("_at", "_rings_at", "_timer", "loop")

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._at: dict[Wakeup, float] = {}
        self._timer: Any = None
        self._rings_at = inf

    def set(self, wakeup: Wakeup, seconds: float) -> None:
        at = self._at[wakeup] = self.loop.time() + seconds
        if at < self._rings_at:
            self._ring_at(at)

    def unset(self, wakeup: Wakeup) -> None:
        self._at.pop(wakeup, None)

    def _ring_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = self.loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        self._timer, self._rings_at, now = None, inf, self.loop.time()
        # asyncio's timers may be early, by what its clock can tell apart.
        for wakeup in [each for each, at in self._at.items() if at - _TICK <= now]:
            del self._at[wakeup]
            wakeup.set()
        if self._at:
            self._ring_at(min(self._at.values()))


_TICK = 0.001
"""How early a timer of asyncio may be, in seconds: uvloop's clock has milliseconds."""

_alarms: _Alarms | None = None
"""Those of the event loop that asked last. Another loop makes its own, which live on with it."""


def trio_here() -> Any:
    """Trio if the current task is trio's, also in a guest loop of asyncio; else None."""
    trio = _modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_task() else None
