"""Waking and checking a task, by the event loop's own means.

Neither event loop is imported here: a running one is imported already.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Generator, Iterable
from contextlib import suppress
from math import inf
from typing import Any, final

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ...errors import AioleadError

_modules = sys.modules


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
            return checkpoint()
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
    trio = _modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        scope.deadline = trio.current_time() + seconds
        with suppress(trio.Cancelled):  # by the deadline: nothing else reaches us
            await wakeup.wait()
        return
    loop, alarms = _modules["asyncio"].get_running_loop(), _alarms
    if alarms is None or alarms.loop is not loop:
        alarms = _alarms = _Alarms(loop)
    at = alarms.at[wakeup] = loop.time() + seconds
    if at < alarms.rings_at:
        alarms.ring_at(at)
    try:
        await wakeup.wait()
    finally:
        alarms.at.pop(wakeup, None)


@final
class _Alarms:
    """Wakes tasks of one event loop of asyncio at their times (`at`), by one timer for all.

    Nearly every alarm is removed before its time. A timer for each would take more time than the
    rest of a wait: the event loop keeps cancelled ones for a while, and sorts them.
    """

    __slots__ = ("_timer", "at", "loop", "rings_at")

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.at: dict[Wakeup, float] = {}
        self.rings_at: float = inf
        self._timer: Any = None

    def ring_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.rings_at = self.loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        self._timer, self.rings_at, now = None, inf, self.loop.time()
        # asyncio's timers may be early, by what its clock can tell apart.
        for wakeup in [each for each, at in self.at.items() if at - _TICK <= now]:
            del self.at[wakeup]
            wakeup.set()
        if self.at:
            self.ring_at(min(self.at.values()))


_TICK = 0.001
"""How early a timer of asyncio may be, in seconds: uvloop's clock has milliseconds."""

_alarms: _Alarms | None = None
"""Those of the event loop that asked last. Another loop makes its own, which live on with it."""


# --- waiting for a reply -------------------------------------------------------------------------


class _TrioFuture:
    """As much of an `asyncio.Future` as one waiting task of trio needs; see `ReplyFuture`."""

    __slots__ = ("_lowlevel", "_task")

    def __init__(self, lowlevel: Any) -> None:
        self._lowlevel = lowlevel
        self._task: Any = lowlevel.current_task()

    def __await__(self) -> Generator[Any, Any, Any]:
        waits: Generator[Any, Any, Any]
        waits = self._lowlevel.wait_task_rescheduled(self._aborted).__await__()
        return waits

    def done(self) -> bool:
        return self._task is None

    def set_result(self, result: Any) -> None:
        self._resume(_modules["outcome"].Value(result))

    def set_exception(self, error: AioleadError) -> None:
        self._resume(_modules["outcome"].Error(error))

    def _resume(self, outcome: Any) -> None:
        task, self._task = self._task, None
        self._lowlevel.reschedule(task, outcome)

    def _aborted(self, _raise_cancel: object) -> Any:
        """Called by trio as it cancels the wait."""
        self._task = None
        return self._lowlevel.Abort.SUCCEEDED


def reply_future() -> Any:
    """A `ReplyFuture` of the current task: awaited, it resumes the task with the answer itself."""
    trio = _modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return _TrioFuture(trio.lowlevel)
    return _modules["asyncio"].get_running_loop().create_future()


def check_cancelled() -> Iterable[Any]:
    """Raise, by `yield from`, if the current task is cancelled."""
    trio = _modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        waits: Iterable[Any] = trio.lowlevel.checkpoint_if_cancelled().__await__()
        return waits
    return () if _modules["asyncio"].current_task() is _checked else _check_once().__await__()


_checked: Any = None
"""The task of asyncio that was not cancelled at its last look, and has not waited since."""


async def _check_once() -> None:
    """Raise if the current task of asyncio is cancelled: anyio's `checkpoint_if_cancelled`.

    Until the task waits, only it can cancel itself, which takes effect when it waits next. So one
    look is enough for all replies that it takes until then: a look takes a sixth of a request.
    """
    global _checked
    await checkpoint_if_cancelled()
    asyncio = _modules["asyncio"]
    _checked = asyncio.current_task()
    # Comes before the next step of the task, which is queued when it is woken.
    asyncio.get_running_loop().call_soon(_forget_checked)


def _forget_checked() -> None:
    global _checked
    _checked = None
