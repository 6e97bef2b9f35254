"""Trio on virtual time: a clock that moves the timeline whenever no task can run.

This hangs on some private names of trio: all of them are in this file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import trio
from trio._core import _run, _thread_cache

from .parking import Parking
from .timeline import SimulationError, Timeline

T = TypeVar("T")

internals: Any = _run
internals_of_threads: Any = _thread_cache


class VirtualClock(trio.abc.Clock):
    """Trio asks how long to sleep exactly when no task can run: that is when time moves."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._runner: Any = None
        self._steps: _Steps | None = None

    def start_clock(self) -> None:
        self._runner = runner = internals.GLOBAL_RUN_CONTEXT.runner
        runner.io_manager = _NoIO(runner, self._timeline)
        self._timeline.parking = Parking(runner, "runq")
        self._timeline.on_between = self._between

    def current_time(self) -> float:
        return self._timeline.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        timeline, runner = self._timeline, self._runner
        if runner.entry_queue.size():
            return 0.0
        timeline.advance(deadline)
        while not runner.runq and not runner.entry_queue.size():
            # The tasks that ran woke nobody, but may have changed a deadline.
            deadline = runner.deadlines.next_deadline()
            if deadline <= timeline.now:
                break
            timeline.advance(deadline)
        return 0.0

    def _between(self, is_wanted: bool) -> None:
        """Calls `Timeline.between` after each step, while that is wanted: it costs time."""
        instrument = self._steps
        if is_wanted and instrument is None:
            self._steps = instrument = _Steps(self._timeline)
            self._runner.instruments.add_instrument(instrument)
        elif not is_wanted and instrument is not None:
            self._steps = None
            self._runner.instruments.remove_instrument(instrument)


class _Steps(trio.abc.Instrument):
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._timeline.between is not None:
            self._timeline.between()


class _NoIO:
    """Stands where trio asks the operating system for events: there are none."""

    def __init__(self, runner: Any, timeline: Timeline) -> None:
        self._runner = runner
        self._real = runner.io_manager
        self._timeline = timeline

    def get_events(self, timeout: float) -> Any:
        try:
            self._timeline.count(1)
        except SimulationError as error:
            if self._timeline.failure is not None:
                raise
            self._timeline.fail(error)
        # The entry queue wakes its task through a socket: at the end of a run, and when somebody
        # interrupts it at the keyboard.
        return self._real.get_events(0) if self._runner.entry_queue.size() else ()

    def process_events(self, events: Any) -> None:
        if events:
            self._real.process_events(events)

    async def wait_readable(self, fd: Any) -> None:
        if fd is not self._runner.entry_queue.wakeup.wakeup_sock:
            raise SimulationError("a simulated run has no I/O")
        await self._real.wait_readable(fd)

    async def wait_writable(self, fd: Any) -> None:
        raise SimulationError("a simulated run has no I/O")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def no_idle_threads() -> Iterator[None]:
    """Hides the threads that trio keeps for later: a run is to have none, not even these."""
    cache = internals_of_threads.THREAD_CACHE
    idle, cache._idle_workers = cache._idle_workers, {}
    try:
        yield
    finally:
        cache._idle_workers = idle | cache._idle_workers


@contextmanager
def seeded_scheduler(seed: int) -> Iterator[None]:
    """Has trio shuffle the tasks that can run by a seed, instead of at random."""
    before = internals._ALLOW_DETERMINISTIC_SCHEDULING
    state = internals._r.getstate()
    internals._ALLOW_DETERMINISTIC_SCHEDULING = True
    internals._r.seed(seed)
    try:
        yield
    finally:
        internals._ALLOW_DETERMINISTIC_SCHEDULING = before
        internals._r.setstate(state)


def run(main: Callable[[], Awaitable[T]], timeline: Timeline, seed: int) -> T:
    """Runs a coroutine function on virtual time.

    Raises:
        Whatever `main` raises.
        SimulationError: the run did not end although it was asked to.
    """
    with seeded_scheduler(seed), no_idle_threads():
        try:
            return trio.run(main, clock=VirtualClock(timeline))
        except trio.TrioInternalError as error:
            if isinstance(error.__cause__, SimulationError):
                raise error.__cause__ from None
            raise
