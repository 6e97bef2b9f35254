"""An asyncio event loop on virtual time, without any I/O."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context, copy_context
from itertools import count
from math import inf
from typing import Any, Self, TypeVar, TypeVarTuple, cast

import anyio
from anyio._backends import _asyncio as backend

from .parking import PROCESS, Parking
from .timeline import SimulationError, Timeline

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Handle:
    """A callback that is ready, or a timer's; as asyncio's own class, in fewer steps.

    Attributes:
        callback: the callback; None once it has been cancelled.
        context: in which to call it: that of a task is known by it (see `parking`).
    """

    __slots__ = ("args", "callback", "context")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = copy_context() if context is None else context

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None


class TimerHandle(Handle):
    """A timer.

    Attributes:
        is_due: it has left the heap of timers.
    """

    __slots__ = ("_loop", "_when", "is_due")

    def __init__(
        self,
        loop: VirtualLoop,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        super().__init__(callback, args, context)
        self._loop = loop
        self._when = when
        self.is_due = False

    def cancel(self) -> None:
        if self.callback is not None and not self.is_due:
            self._loop.timer_cancelled()
        super().cancel()

    def when(self) -> float:
        return self._when


class _Task(asyncio.Task[T]):
    """A task that is quick to describe, as anyio does for the message of every cancellation."""

    def __repr__(self) -> str:
        return f"<Task {self.get_name()}>"


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is ready, in order; when nothing is, moves the timeline to what is due next.

    Methods that would need a socket, a thread or a signal raise.

    Attributes:
        ready: the handles that are to run. May be replaced by a deque that holds some back.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.set_debug(False)
        self.ready: deque[Handle] = deque()
        self._timeline = timeline
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._timer_numbers = count()
        self._timers_cancelled = 0
        self._has_stopped = False
        self._thread = threading.get_ident()
        timeline.parking = Parking(self, "ready")

    # --- what runs when ------------------------------------------------------------------------

    def time(self) -> float:
        return self._timeline.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = Handle(callback, args, context)
        self.ready.append(handle)
        return cast(asyncio.Handle, handle)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._timeline.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = TimerHandle(self, when, callback, args, context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), handle))
        return cast(asyncio.TimerHandle, handle)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        # Threads that belong to a simulated process run while this one waits (see `threads`).
        if threading.get_ident() != self._thread and PROCESS.get() is None:
            raise SimulationError("another thread has to do with a simulated run")
        return self.call_soon(callback, *args, context=context)

    def timer_cancelled(self) -> None:
        """Timers that were cancelled stay in the heap; when they are its larger part, they go."""
        self._timers_cancelled += 1
        if self._timers_cancelled > 64 and self._timers_cancelled * 2 > len(self._timers):
            self._timers[:] = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        text = None if name is None else str(name)
        # The base class is annotated to take generators, too; a task of Python 3.12 is not.
        work = cast("Coroutine[Any, Any, T]", coro)
        return _Task(work, loop=self, name=text, context=context, **options)

    # --- running -------------------------------------------------------------------------------

    def run_forever(self) -> None:
        self._has_stopped = False
        super().run_forever()

    def stop(self) -> None:
        self._has_stopped = True
        super().stop()

    def _run_once(self) -> None:
        """All of it, until `stop`: the base class calls this in a loop of its own."""
        timeline = self._timeline
        while not self._has_stopped:
            try:
                if self.ready:
                    # As far as the queue goes now, so that what runs in circles is noticed.
                    timeline.count(len(self.ready))
                    for _ in range(len(self.ready)):
                        handle = self.ready.popleft()
                        if handle.callback is not None:
                            handle.context.run(handle.callback, *handle.args)
                            if timeline.between is not None:
                                timeline.between()
                        if self._has_stopped or not self.ready:
                            break
                else:
                    self._advance()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                if timeline.failure is not None and isinstance(error, SimulationError):
                    raise
                timeline.fail(error)

    def _advance(self) -> None:
        timers, timeline = self._timers, self._timeline
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        timeline.advance(timers[0][0] if timers else inf)
        while timers and timers[0][0] <= timeline.now:
            handle = heapq.heappop(timers)[2]
            if handle.callback is None:
                self._timers_cancelled -= 1
            else:
                handle.is_due = True
                self.ready.append(handle)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """End the run for errors that asyncio only logs: an exception that nobody retrieved."""
        error = context.get("exception")
        if not isinstance(error, BaseException):
            error = SimulationError(str(context.get("message")))
        self._timeline.fail(error)

    def close(self) -> None:
        self.ready.clear()
        self._timers.clear()
        super().close()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        raise SimulationError("a simulated run has no threads")


class _Ordered(dict[Any, None]):
    """A set that is iterated over in the order of insertion."""

    add = dict.setdefault
    remove = dict.__delitem__

    def discard(self, item: Any) -> None:
        self.pop(item, None)


class _OrderedScope(backend.CancelScope):
    """Cancels its tasks in their order: anyio's own goes by their addresses in memory.

    It tries again and again until they have ended, which those of a stopped process cannot; so it
    does that in the name of who has entered it, and is stopped with them.
    """

    __slots__ = ("_context",)

    def __init__(self, deadline: float = inf, shield: bool = False) -> None:
        super().__init__(deadline, shield)
        self._child_scopes = cast(set[Any], _Ordered())
        self._tasks = cast(set[Any], _Ordered())
        self._context: Context | None = None

    def __enter__(self) -> Self:
        self._context = copy_context()
        return super().__enter__()

    def _deliver_cancellation(self, origin: backend.CancelScope) -> bool:
        tries_again = super()._deliver_cancellation(origin)
        if origin is self and isinstance(self._cancel_handle, Handle) and self._context is not None:
            self._cancel_handle.context = self._context
        return tries_again


@contextmanager
def _ordered_scopes() -> Iterator[None]:
    internals: Any = backend
    before = internals.CancelScope
    internals.CancelScope = _OrderedScope
    try:
        yield
    finally:
        internals.CancelScope = before


def run(main: Callable[[], Awaitable[T]], timeline: Timeline) -> T:
    """Runs a coroutine function on virtual time.

    Raises:
        Whatever `main` raises.
        SimulationError: the run did not end although it was asked to.
    """
    with _ordered_scopes():
        return anyio.run(
            main,
            backend="asyncio",
            backend_options={"loop_factory": lambda: VirtualLoop(timeline)},
        )
