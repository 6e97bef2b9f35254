"""Many schedules, in processes of their own, with their progress."""

from __future__ import annotations

import faulthandler
import itertools
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import TextIO

from .loops import Backend
from .run import explore, load_scenario
from .tally import Tally

BLOCK = 40
"""How many seeds a worker runs before it reports."""

HUNG = 300.0
"""Real seconds for one block after which its worker says where it hangs, and ends."""


@dataclass(frozen=True, slots=True)
class Job:
    """Some seeds of one scenario on one event loop."""

    scenario: str
    backend: Backend
    seeds: range
    engine: str | None = None


def jobs(
    scenarios: Sequence[str],
    backends: Sequence[Backend],
    first: int,
    count: int | None,
    engine: str | None = None,
) -> Iterator[Job]:
    """The work of a soak: block after block of seeds, each for every scenario and event loop.

    Args:
        scenarios: as `load_scenario` takes them.
        backends: the event loops.
        first: the first seed.
        count: how many seeds; None for no end.
        engine: the engine that the servers imitate; see `simulate`.
    """
    starts = itertools.count(first, BLOCK) if count is None else range(first, first + count, BLOCK)
    for start in starts:
        end = start + BLOCK if count is None else min(start + BLOCK, first + count)
        for scenario in scenarios:
            for backend in backends:
                yield Job(scenario, backend, range(start, end), engine)


def run_job(job: Job) -> Tally:
    """Runs a job, in a worker."""
    faulthandler.dump_traceback_later(HUNG, exit=True)
    try:
        return explore(
            load_scenario(job.scenario), job.seeds, backend=job.backend, engine=job.engine
        )
    finally:
        faulthandler.cancel_dump_traceback_later()


def soak(
    work: Iterator[Job],
    *,
    workers: int,
    minutes: float | None,
    progress: Callable[[Job, Tally, Tally], object],
) -> tuple[Tally, dict[str, range]]:
    """Does the work until it is done, the time is over, or SIGINT (Ctrl-C) or SIGTERM comes.

    Args:
        work: the job.
        workers: how many processes do it.
        minutes: after how many minutes of real time no more work is begun.
        progress: called after each job with it, what it has found, and the sum so far.

    Returns:
        The sum of all outcomes, and which seeds were run, by event loop.

    Raises:
        concurrent.futures.process.BrokenProcessPool: a worker died, or has hung.
    """
    end = None if minutes is None else time.monotonic() + 60 * minutes
    # Also where a shell has it ignored, for what runs in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    total = Tally()
    seeds: dict[str, range] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _only_main_is_interrupted) as pool:
        running: dict[Future[Tally], Job] = {}
        over = False
        while running or not over:
            try:
                while not over and len(running) < 2 * workers:
                    job = None if end is not None and time.monotonic() > end else next(work, None)
                    if job is None:
                        over = True
                    else:
                        running[pool.submit(run_job, job)] = job
                done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:
                # Time for schedules in progress to finish, in seconds.
                over = True
                for future in [future for future in running if future.cancel()]:
                    del running[future]
                continue
            for future in done:
                job = running.pop(future)
                found = future.result()
                total.merge(found)
                before = seeds.get(job.backend, job.seeds)
                seeds[job.backend] = range(
                    min(before.start, job.seeds.start), max(before.stop, job.seeds.stop)
                )
                progress(job, found, total)
    return total, seeds


def _only_main_is_interrupted() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class PlainProgress:
    """A line now and then, for where there is no screen.

    Args:
        planned: how many schedules there are to be; None if it is the time that ends it.
        known: the situations that are to be reached.
        out: where to.
        every: seconds between two lines.
    """

    def __init__(
        self,
        planned: int | None,
        known: list[str],
        out: TextIO | None = None,
        every: float = 10.0,
    ) -> None:
        self._planned = planned
        self._known = known
        self._out = out or sys.stderr
        self._every = every
        self._start = self._last = time.monotonic()

    def __call__(self, _job: Job, found: Tally, total: Tally) -> None:
        for failure in found.failures:
            print(f"VIOLATION {failure.violations[0]}\n  {failure.replay}", file=self._out)
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            print(status(total, now - self._start, self._planned, self._known), file=self._out)


def status(total: Tally, seconds: float, planned: int | None, known: list[str]) -> str:
    """How far it is, in one line."""
    rate = total.total / seconds if seconds else 0.0
    of = "" if planned is None else f" of {planned}"
    left = (
        ""
        if planned is None or not rate
        else f", {(planned - total.total) / rate / 60:.1f} min left"
    )
    text = (
        f"{total.total}{of} schedules, {60 * rate:.0f} a minute{left}, "
        f"{len(total.failures)} with violations"
    )
    if known:
        name, count = total.rarest(known)
        text += f"; rarest situation: {name} ({count or 'not yet'})"
    return text
