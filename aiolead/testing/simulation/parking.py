"""Stopping the tasks of a process while time goes on, as SIGSTOP does.

Every task knows its process by a context variable, which the tasks that it starts inherit. While a
process is stopped, its callbacks are put aside as they come to the loop's queue; when it goes on,
it finds everything that has happened meanwhile: bytes wait in the buffers, and timers fire late.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Any

PROCESS: ContextVar[object | None] = ContextVar("aiolead_simulated_process", default=None)
"""The process that a task belongs to; the world itself belongs to none."""


class Parking:
    """Where the tasks of stopped processes wait; there is one for each run.

    Args:
        loop: has the queue of what can run, as an attribute that may be replaced. Its items know
            their `context`: trio's tasks do, and the handles of `VirtualLoop`.
        queue: the name of that attribute.
    """

    def __init__(self, loop: Any, queue: str) -> None:
        self._loop = loop
        self._queue = queue
        self._stops: dict[object, _Stop] = {}

    def stop(self, process: object, *, after: int = 0) -> None:
        """Nothing of the process runs any more; without effect if it is stopped already.

        Args:
            process: the value of `PROCESS` in the context of its tasks.
            after: how many more times one of its tasks may be woken, so that a process can also be
                caught in the middle of what it does at one instant.
        """
        if process in self._stops:
            return
        stop = self._stops[process] = _Stop(after)
        queue: deque[Any] = getattr(self._loop, self._queue)
        if after == 0:
            stop.parked = [item for item in queue if item.context.get(PROCESS) is process]
            queue = deque(item for item in queue if item.context.get(PROCESS) is not process)
        setattr(self._loop, self._queue, _Sieve(queue, self._stops))

    def resume(self, process: object) -> None:
        """The process goes on; without effect if it is not stopped."""
        stop = self._stops.pop(process, None)
        if stop is None:
            return
        queue: deque[Any] = getattr(self._loop, self._queue)
        if not self._stops:
            # The sieve costs time, and most of the time nobody is stopped.
            queue = deque(queue)
            setattr(self._loop, self._queue, queue)
        # A loop looks at its sockets before it looks at the time.
        stop.parked.sort(key=_is_timer)
        queue.extend(stop.parked)

    def resume_all(self) -> bool:
        """Every process goes on; returns whether any was stopped."""
        stopped = list(self._stops)
        for process in stopped:
            self.resume(process)
        return bool(stopped)

    def is_stopped(self, process: object) -> bool:
        return process in self._stops


class _Stop:
    """One process's being stopped."""

    __slots__ = ("after", "parked")

    def __init__(self, after: int) -> None:
        self.after = after
        self.parked: list[Any] = []


class _Sieve(deque[Any]):
    """The queue of a loop while some process is stopped: its callbacks are put aside."""

    def __init__(self, items: deque[Any], stops: dict[object, _Stop]) -> None:
        super().__init__(items)
        self._stops = stops

    def append(self, item: Any) -> None:
        stop = self._stops.get(item.context.get(PROCESS))
        if stop is None:
            super().append(item)
        elif stop.after > 0:
            stop.after -= 1
            super().append(item)
        else:
            stop.parked.append(item)


def _is_timer(item: Any) -> bool:
    return getattr(item, "is_due", False)
