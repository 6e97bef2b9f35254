"""Virtual time: callbacks at instants, and a clock that jumps from one to the next.

The world (network, servers, faults) is made of such callbacks alone; programs are tasks of an event
loop, which asks the timeline for the time, and moves it when none of its tasks can run: see
`loops.run_virtual`. At one instant the world comes first, then the tasks that it woke, then, if
they asked for something at once, the world again; only when nothing is left does time move.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .parking import Parking

MAX_STEPS = 200_000
"""Callbacks and task steps at one instant, after which a run is taken to be going in circles."""

GRACE = 300.0
"""Seconds of virtual time that the tasks of a failed run have for winding up."""


class SimulationError(Exception):
    """A simulated run that cannot go on."""


class Deadlock(SimulationError):
    """Every task waits, and nothing is due that could wake one."""


class Livelock(SimulationError):
    """Something goes on and on without time moving."""


class OutOfTime(SimulationError):
    """The run did not end within its limit of virtual time."""


class Timer:
    """A callback that is to run at an instant; see `Timeline.at`."""

    __slots__ = ("_do", "_timeline", "when")

    def __init__(self, timeline: Timeline, when: float, do: Callable[[], object]) -> None:
        self.when: float = when
        self._do: Callable[[], object] | None = do
        self._timeline = timeline

    @property
    def is_pending(self) -> bool:
        """Whether the callback is still to run."""
        return self._do is not None

    def cancel(self) -> None:
        """Has the callback not run; without effect if it has run already."""
        if self._do is not None:
            self._do = None
            self._timeline._forget_one()


class Timeline:
    """Callbacks at instants of virtual time.

    Attributes:
        now: seconds since the start of the run.
        failure: the first error, if any: the run raises it.
        steps: callbacks and task steps since time moved last.
        between: called after each step of a task; see `between_steps`.
    """

    def __init__(self) -> None:
        self.now: float = 0.0
        self.steps: int = 0
        self.failure: BaseException | None = None
        self.limit: float = inf
        """The instant after which nothing runs any more, in seconds."""
        self.on_failure: Callable[[], object] | None = None
        """Set by the loop: ends what is running."""
        self.parking: Parking | None = None
        """Set by the loop: stops the tasks of a process."""
        self.between: Callable[[], object] | None = None
        self.on_between: Callable[[bool], object] | None = None
        """Set by a loop that has to know whether `between` is wanted."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._cancelled = 0

    def at(self, when: float, do: Callable[[], object]) -> Timer:
        """Call `do` at an instant; those of one instant run in the order of these calls.

        Args:
            when: seconds since the start; an instant in the past is due now, yet never within this
                call.
            do: the callback: synchronous. Its exception ends the run.
        """
        if not when > self.now:
            when = self.now
        timer = Timer(self, when, do)
        heapq.heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    def after(self, delay: float, do: Callable[[], object]) -> Timer:
        """Call `do` in `delay` seconds; see `at`."""
        return self.at(self.now + delay, do)

    def between_steps(self, call: Callable[[], object] | None) -> None:
        """Calls something after each step of a task, until it is replaced or taken back (None)."""
        self.between = call
        if self.on_between is not None:
            self.on_between(call is not None)

    def fail(self, error: BaseException) -> None:
        """Ends the run with an error, unless one has ended it already."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure()

    # --- for the loop that drives it -----------------------------------------------------------

    def advance(self, deadline: float) -> None:
        """Moves time to the next instant at which something is due, and runs the callbacks of it.

        To be called when no task can run.

        Args:
            deadline: when the next timer of a task is due.

        Raises:
            SimulationError: there is no such instant, or it is beyond the limit, and the run has
                not ended although it was asked to.
        """
        heap = self._heap
        while heap and heap[0][2]._do is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        when = heap[0][0] if heap and heap[0][0] < deadline else deadline
        if when > self.now:
            if when > self.limit:
                self._end_of_time(when)
                return
            self.now = when
            self.steps = 0
        while heap and heap[0][0] <= self.now:
            timer = heapq.heappop(heap)[2]
            do = timer._do
            if do is None:
                self._cancelled -= 1
                continue
            timer._do = None
            self.steps += 1
            try:
                if self.steps > MAX_STEPS:
                    self.count(0)
                do()
            except BaseException as error:
                if self.failure is not None and isinstance(error, SimulationError):
                    raise
                # Of an error after the first one: a world that is broken breaks further.
                self.fail(error)
                return

    def count(self, steps: int) -> None:
        """Counts what runs without time moving.

        Raises:
            Livelock: that were too many steps.
        """
        self.steps += steps
        if self.steps > MAX_STEPS:
            self.steps = 0
            if self.parking is not None and self.parking.resume_all():
                # A scope around the tasks of a stopped process was cancelled: on asyncio it tries
                # again and again until they end, and they could not.
                return
            raise Livelock(f"more than {MAX_STEPS} steps at {self.now:.6f} s")

    def _end_of_time(self, when: float) -> None:
        error: SimulationError
        if when == inf:
            error = Deadlock(f"at {self.now:.6f} s every task waits, and nothing is due")
        else:
            error = OutOfTime(f"not over after {self.limit:g} s of virtual time")
        if self.failure is not None:
            # It was asked to end, and does not.
            raise error from self.failure
        self.limit += GRACE
        self.fail(error)

    def _forget_one(self) -> None:
        """Timers that were cancelled stay in the heap; when they are its larger part, they go."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if entry[2]._do is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
