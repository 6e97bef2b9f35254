"""One entry to virtual time, on asyncio and on trio."""

from __future__ import annotations

import gc
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, TypeVar, TypeVarTuple, cast

import anyio

from .timeline import SimulationError, Timeline

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Backend = Literal["asyncio", "trio"]
"""The event loop that the programs of a simulated world run on."""

DAY = 86400.0


def run_virtual(
    main: Callable[[*Ts], Awaitable[T]],
    *args: *Ts,
    backend: Backend = "asyncio",
    seed: int = 0,
    limit: float = DAY,
    timeline: Timeline | None = None,
) -> T:
    """Runs a coroutine function on virtual time, and returns its result.

    Time stands still while any task can run, and then jumps to what is due next. The run is a
    function of its arguments alone: the same seed gives the same run.

    Args:
        main: the coroutine function.
        args: its arguments.
        backend: on which event loop.
        seed: of the order in which trio runs tasks; asyncio's order is that of its queue.
        limit: how long it may take, in seconds of virtual time.
        timeline: the one to drive; a new one unless given.

    Raises:
        Deadlock: every task waits, and nothing is due.
        Livelock: something goes on and on without time moving.
        OutOfTime: the limit was reached.
        SimulationError: a thread was started, or I/O attempted.
        Exception: what `main` or a callback of the timeline raised, as it is.
    """
    timeline = timeline or Timeline()
    timeline.limit = timeline.now + limit

    async def guarded() -> T | None:
        threads = threading.active_count()
        with anyio.CancelScope() as scope:
            timeline.on_failure = partial(_end, timeline, scope)
            result = await main(*args)
            if threading.active_count() > threads:
                raise SimulationError("a simulated run has no threads, but some were started")
            return result
        return None  # cancelled, because of the timeline's failure

    was_collecting = gc.isenabled()
    gc.disable()  # what is collected when would depend on what ran before
    try:
        result = _run(guarded, backend, seed, timeline)
    except BaseException:
        if timeline.failure is not None:
            raise timeline.failure from None
        raise
    finally:
        timeline.on_failure = timeline.parking = None
        if was_collecting:
            gc.enable()
    if timeline.failure is not None:
        raise timeline.failure
    return cast(T, result)


def _end(timeline: Timeline, scope: anyio.CancelScope) -> None:
    if timeline.parking is not None:
        # Who is stopped cannot end.
        timeline.parking.resume_all()
    scope.cancel()


def _run(main: Callable[[], Awaitable[T]], backend: Backend, seed: int, timeline: Timeline) -> T:
    if backend == "trio":
        from . import _trio_clock  # trio is an extra

        return _trio_clock.run(main, timeline, seed)
    from . import _asyncio_loop

    return _asyncio_loop.run(main, timeline)
