"""One entry to virtual time, on asyncio and on trio."""

from __future__ import annotations

import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeVar, TypeVarTuple, cast

import anyio

from .timeline import SimulationError, Timeline

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Backend = Literal["asyncio", "trio"]
"""The event loop that the programs of a simulated world run on."""

HOUR = 3600.0


def run_virtual(
    main: Callable[[*Ts], Awaitable[T]],
    *args: *Ts,
    backend: Backend = "asyncio",
    seed: int = 0,
    limit: float = HOUR,
    timeline: Timeline | None = None,
) -> T:
    """Runs a coroutine function on virtual time, and returns its result.

    Time stands still while any task can run, and then jumps to what is due next. The run is a
    function of its arguments alone: the same seed gives the same run. There can be only one at a
    time in a process of the operating system.

    Args:
        main: the coroutine function.
        args: its arguments.
        backend: on which event loop.
        seed: of the order in which trio runs tasks; asyncio's order is that of its queue.
        limit: how long it may take, in seconds of virtual time. A run that fails has some more, so
            that its tasks can wind up.
        timeline: the one to drive; defaults to a new one.

    Raises:
        Deadlock: every task waits, and nothing is due.
        Livelock: something goes on and on without time moving.
        OutOfTime: the limit was reached.
        SimulationError: it attempted I/O or wanted a thread, or another run is under way.
        Exception: an exception of `main` or a callback of the timeline, unchanged.
    """
    timeline = timeline or Timeline()
    timeline.limit = timeline.now + limit

    async def guarded() -> T | None:
        with anyio.CancelScope() as scope:
            timeline.on_failure = partial(_end, timeline, scope)
            return await main(*args)
        return None  # cancelled, because of the timeline's failure

    with _alone(), _without_threads(), _without_collector():
        try:
            result = _run(guarded, backend, seed, timeline)
        except BaseException as error:
            if timeline.failure is None or timeline.failure is error:
                raise
            raise timeline.failure from error
        finally:
            timeline.on_failure = timeline.parking = None
            timeline.between = timeline.on_between = None
    if timeline.failure is not None:
        raise timeline.failure
    return cast(T, result)


def _run(main: Callable[[], Awaitable[T]], backend: Backend, seed: int, timeline: Timeline) -> T:
    if backend == "trio":
        from . import _trio_clock  # trio is an extra

        return _trio_clock.run(main, timeline, seed)
    from . import _asyncio_loop

    return _asyncio_loop.run(main, timeline)


def _end(timeline: Timeline, scope: anyio.CancelScope) -> None:
    if timeline.parking is not None:
        # A stopped process cannot end.
        timeline.parking.resume_all()
    scope.cancel()


_only_run = threading.Lock()


@contextmanager
def _alone() -> Iterator[None]:
    """A run changes what belongs to the whole process: trio's random numbers, and what is below."""
    if not _only_run.acquire(blocking=False):
        raise SimulationError("another simulated run is under way in this process")
    try:
        yield
    finally:
        _only_run.release()


@contextmanager
def _without_threads() -> Iterator[None]:
    """A thread runs in real time, and so would make the run another one every time."""
    thread: Any = threading.Thread
    ours, start = threading.get_ident(), thread.start

    def refuse(self: threading.Thread) -> None:
        if threading.get_ident() == ours:
            raise SimulationError("a simulated run has no threads")
        start(self)

    thread.start = refuse
    try:
        yield
    finally:
        thread.start = start


@contextmanager
def _without_collector() -> Iterator[None]:
    """When garbage is collected depends on what ran before, and shows through weak references.

    The garbage of a run is collected after it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
