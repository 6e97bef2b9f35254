"""The commands `replay` and `soak`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..invariants import REPORTED, SITUATIONS
from .loops import Backend
from .report import write_report
from .run import load_scenario, simulate
from .schedule import Schedule
from .soak import Job, PlainProgress, jobs, soak, status
from .tally import Tally

app: App = App(
    name="python -m aiolead.testing.simulation",
    help="Runs programs in a made-up world, where a seed decides what goes wrong.",
    result_action="return_value",
)

console: Console = Console()


@app.command
def replay(
    scenario: str,
    *,
    seed: int | None = None,
    schedule: str | None = None,
    backend: Backend = "trio",
    faults: str | None = None,
    absent: str | None = None,
    engine: str | None = None,
    digest: str | None = None,
    trace: bool = False,
) -> int:
    """Runs one schedule, and says what happened.

    Parameters
    ----------
    scenario
        The scenario: path/to/file.py:function or package.module:function.
    seed
        The seed of the schedule.
    schedule
        The schedule itself, as one line of JSON, instead of a seed.
    backend
        The event loop.
    faults
        Only these faults of it, by their numbers, with commas; or "none". Default: all.
    absent
        Processes that are not started, by their names, with commas.
    engine
        The engine that the servers imitate, as NAME or NAME:VERSION. Default: ZooKeeper.
    digest
        The expected digest of the trace. If it is another one, the exit code is 3.
    trace
        Show the whole history, also if nothing was wrong.
    """
    if (seed is None) == (schedule is None):
        console.print("Either --seed or --schedule is needed.")
        return 2
    chosen = Schedule.of(seed) if seed is not None else Schedule.parse(schedule or "")
    if faults is not None:
        chosen = chosen.only([] if faults == "none" else map(int, faults.split(",")))
    if absent:
        chosen = chosen.without(absent.split(","))
    if engine is not None:
        chosen = chosen.on(engine)
    outcome = simulate(load_scenario(scenario), schedule=chosen, backend=backend)
    out = sys.stdout
    out.write(chosen.tell() + "\n")
    if trace or outcome.violations:
        out.write(outcome.history.tell() + "\n")
    for violation in outcome.violations:
        out.write(f"VIOLATION {violation}\n")
    out.write(f"{len(outcome.violations)} violations, digest {outcome.digest}\n")
    if digest is not None and digest != outcome.digest:
        out.write(f"NOT THE SAME TRACE: its digest was {digest}\n")
        return 3
    return 1 if outcome.violations else 0


@app.command(name="soak")
def soak_command(
    *scenarios: str,
    seeds: int | None = None,
    minutes: float | None = None,
    first: int = 0,
    backend: Annotated[Literal["asyncio", "trio", "both"], Parameter()] = "both",
    jobs_: Annotated[int, Parameter(name="--jobs")] = 2,
    engine: str | None = None,
    report: Path = Path("soak-report"),
) -> int:
    """Runs many schedules, and writes a report. Ctrl-C ends it early, with the report.

    Parameters
    ----------
    scenarios
        The scenarios: path/to/file.py:function or package.module:function.
    seeds
        How many seeds.
    minutes
        How many minutes; without a number of seeds, this alone ends it.
    first
        The first seed.
    backend
        The event loop, or both, each with the same seeds.
    jobs_
        How many processes.
    engine
        The engine that the servers imitate, as NAME or NAME:VERSION. Default: ZooKeeper.
    report
        The directory of the report.
    """
    if not scenarios or (seeds is None and minutes is None):
        console.print("Needed: at least one scenario, and --seeds or --minutes.")
        return 2
    for name in scenarios:
        load_scenario(name)
    backends: list[Backend] = ["trio", "asyncio"] if backend == "both" else [backend]
    planned = None if seeds is None else seeds * len(scenarios) * len(backends)
    work = jobs(scenarios, backends, first, seeds, engine)
    start = time.monotonic()
    known = [*SITUATIONS, *REPORTED]
    if console.is_terminal:
        with _screen() as screen:
            show = _Bar(screen, planned, known, start)
            total, ran = soak(work, workers=jobs_, minutes=minutes, progress=show)
    else:
        show_plain = PlainProgress(planned, known)
        total, ran = soak(work, workers=jobs_, minutes=minutes, progress=show_plain)
    seconds = time.monotonic() - start
    page = write_report(
        report,
        total,
        scenarios=scenarios,
        seeds=ran,
        seconds=seconds,
        workers=jobs_,
        situations=known,
    )
    console.print(status(total, seconds, None, known), highlight=False, soft_wrap=True)
    console.print(f"The report: {page}", highlight=False, soft_wrap=True)
    return 1 if total.failures else 0


def _screen() -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
    )


class _Bar:
    def __init__(
        self, screen: Progress, planned: int | None, known: list[str], start: float
    ) -> None:
        self._screen = screen
        self._known = known
        self._start = start
        self._task = screen.add_task("", total=planned)

    def __call__(self, _job: Job, found: Tally, total: Tally) -> None:
        for failure in found.failures:
            text = f"VIOLATION {failure.violations[0]}\n  {failure.replay}"
            self._screen.console.print(text, highlight=False, markup=False, soft_wrap=True)
        seconds = time.monotonic() - self._start
        self._screen.update(
            self._task,
            completed=total.total,
            description=status(total, seconds, None, self._known),
        )
