"""One schedule, from its seed to its outcome."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from ...errors import ConfigurationError
from ..history import History
from ..invariants import Reading, Violation, margins, sometimes, violations
from .loops import Backend, run_virtual
from .schedule import Schedule
from .shrink import fewest
from .tally import Tally
from .timeline import SimulationError, Timeline
from .world import World

Scenario = Callable[[World], Awaitable[object]]
"""A scenario: starts programs in the world that it gets."""

TRIES = 200
"""How many runs shrinking may take."""

EXCERPT = 60
"""How many of the last events before a violation are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a schedule.

    Attributes:
        scenario: the schedule.
        schedule: with which faults.
        backend: on which event loop.
        violations: the violations; empty if nothing was.
        seen: how often each rare situation was reached; see `invariants.SITUATIONS`.
        done: how often each kind of fault was done.
        margins: how long before the servers deleted its znode each holder that lost its tenure had
            stopped, in seconds.
        digest: of the trace: the same seed gives the same digest.
        history: all that happened.
        virtual: how long it lasted, in seconds of virtual time.
    """

    scenario: Scenario = field(repr=False)
    schedule: Schedule
    backend: Backend
    violations: tuple[Violation, ...]
    seen: dict[str, int] = field(repr=False)
    done: dict[str, int] = field(repr=False)
    margins: tuple[float, ...] = field(repr=False)
    digest: str
    history: History = field(repr=False)
    virtual: float

    @property
    def replay_line(self) -> str:
        """The command that runs it again, to the same trace."""
        schedule = self.schedule
        words = [
            "python -m aiolead.testing.simulation replay",
            name_of(self.scenario),
            f"--backend {self.backend}",
        ]
        if schedule.is_of_seed:
            words.append(f"--seed {schedule.seed}")
            if schedule.is_reduced:
                words.append(f"--faults {','.join(map(str, schedule.numbers)) or 'none'}")
            if schedule.absent:
                words.append(f"--absent {','.join(schedule.absent)}")
            if schedule.engine:
                words.append(f"--engine {schedule.engine}")
        else:
            words.append(f"--schedule '{schedule.to_json()}'")
        return " ".join([*words, f"--digest {self.digest}"])

    def check(self) -> None:
        """Passes if nothing was wrong.

        Raises:
            AssertionError: something was. It says what, the fewest faults that still do it, what
                happened before it, and the command that does it again.
        """
        if self.violations:
            raise AssertionError(self.shrunk().tell())

    def shrunk(self) -> Outcome:
        """The outcome with the fewest faults, and then processes, that violates the same."""
        if not self.violations:
            return self
        wanted = {violation.invariant for violation in self.violations}
        best = self

        def still_fails(schedule: Schedule) -> bool:
            nonlocal best
            outcome = simulate(self.scenario, schedule=schedule, backend=self.backend)
            fails = not wanted.isdisjoint(violation.invariant for violation in outcome.violations)
            if fails:
                best = outcome
            return fails

        numbers = [fault.number for fault in self.schedule.faults]
        fewest(numbers, lambda kept: still_fails(self.schedule.only(kept)), TRIES)
        for name in names_in(best.history):
            still_fails(best.schedule.without([name]))
        return best

    def tell(self) -> str:
        """The violations, their schedule, the events before them, and how to repeat the run."""
        lines = [str(violation) for violation in self.violations] or ["Nothing was wrong."]
        lines.append(self.schedule.tell())
        if self.violations:
            lines += ["What happened before:", excerpt(self.history, self.violations[0].at)]
        return "\n".join([*lines, f"To replay it: {self.replay_line}"])


def simulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    schedule: Schedule | None = None,
    backend: Backend = "trio",
    faults: Iterable[int] | None = None,
    engine: str | None = None,
) -> Outcome:
    """Runs a scenario through one schedule.

    Args:
        scenario: the scenario: a coroutine function that gets a `World`.
        seed: of the schedule.
        schedule: the schedule itself, instead of a seed.
        backend: the event loop: `trio` or `asyncio`. (uvloop keeps its own time.)
        faults: the numbers of the faults that are kept; defaults to all.
        engine: the engine that the servers imitate: `zookeeper`, `clickhouse-keeper` or
            `raftkeeper`, with or without a version, as in `clickhouse-keeper:26.3`; defaults to
            that of the schedule, or ZooKeeper.

    Raises:
        ConfigurationError: neither or both of a seed and a schedule are given, or there is no such
            engine.
        Exception: an unexpected exception of a program.
    """
    if (seed is None) == (schedule is None):
        raise ConfigurationError("simulate: needs either a seed or a schedule")
    chosen = schedule if schedule is not None else Schedule.of(seed or 0)
    if faults is not None:
        chosen = chosen.only(faults)
    if engine is not None:
        chosen = chosen.on(engine)
    timeline = Timeline()
    worlds: list[World] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            world = World(chosen, timeline, tasks)
            worlds.append(world)
            await world.run(scenario)
            tasks.cancel_scope.cancel()

    wrong: list[Violation] = []
    with _Logs(lambda: worlds[-1] if worlds else None):
        try:
            run_virtual(main, backend=backend, seed=chosen.seed, timeline=timeline)
        except SimulationError as error:
            wrong.append(Violation("run", f"{type(error).__name__}: {error}", timeline.now))
        except Exception as error:
            if not worlds:
                raise
            trace = "".join(traceback.format_exception(error))
            wrong.append(Violation("run", f"a program failed:\n{trace}", timeline.now))
        finally:
            for world in worlds:
                world.at_end.close()
    world = worlds[-1]
    wrong += world.violations
    reading = Reading(world.history.events)
    bounds = world.bounds()
    wrong += violations(reading, bounds, skip=world.skip)
    return Outcome(
        scenario=scenario,
        schedule=chosen,
        backend=backend,
        violations=tuple(wrong),
        seen=dict(sometimes(world.history.events)),
        done=dict(world.done),
        margins=tuple(margin.seconds for margin in margins(reading, bounds)),
        digest=world.history.digest(),
        history=world.history,
        virtual=timeline.now,
    )


def explore(
    scenario: Scenario,
    seeds: Iterable[int],
    *,
    backend: Backend = "trio",
    engine: str | None = None,
    on_outcome: Callable[[Outcome], object] | None = None,
) -> Tally:
    """Runs a scenario through many schedules, and adds up what became of them.

    Args:
        scenario: the scenario.
        seeds: of the schedules.
        backend: the event loop.
        engine: the engine that the servers imitate; see `simulate`.
        on_outcome: called with each outcome.
    """
    tally = Tally()
    for seed in seeds:
        outcome = simulate(scenario, seed=seed, backend=backend, engine=engine)
        tally.add(outcome)
        if on_outcome is not None:
            on_outcome(outcome)
    return tally


class _Logs(logging.Handler):
    """Has what the library and the event loop log go to the history."""

    NAMES = ("aiolead", "asyncio", "trio")

    def __init__(self, world: Callable[[], World | None]) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world()
        # Events are no complaints; the history has their events already.
        if world is not None and not hasattr(record, "aiolead_event"):
            world.history.logged(record.levelname, record.getMessage())

    def __enter__(self) -> None:
        for name in self.NAMES:
            logging.getLogger(name).addHandler(self)

    def __exit__(self, *_: object) -> None:
        for name in self.NAMES:
            logging.getLogger(name).removeHandler(self)


# --- scenarios by name ---------------------------------------------------------------------------


def load_scenario(name: str) -> Scenario:
    """A scenario by its name: `path/to/file.py:function` or `package.module:function`.

    Raises:
        ConfigurationError: there is no such thing.
    """
    place, colon, function = name.rpartition(":")
    if not colon:
        raise ConfigurationError(f"scenario: needs file.py:function or module:function: {name!r}")
    try:
        module = (
            _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
        scenario: Scenario = getattr(module, function)
    except (ImportError, OSError, AttributeError) as error:
        raise ConfigurationError(f"scenario: {name}: {error}") from error
    return scenario


def _load_file(path: Path) -> object:
    full = path.resolve()
    name = f"simulated_{full.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(full):
        return loaded
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def name_of(scenario: Scenario) -> str:
    """The name of a scenario for `load_scenario`, from the current directory."""
    source = inspect.getsourcefile(scenario)
    function = getattr(scenario, "__qualname__", repr(scenario))
    if source is None:
        return f"{scenario.__module__}:{function}"
    path = Path(source)
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{function}"


def names_in(history: History) -> list[str]:
    """The programs of a history."""
    found = (getattr(event, "contender", "") for event in history.events)
    return sorted({who.partition("/")[0].partition(".")[0] for who in found if who})


def excerpt(history: History, at: float) -> str:
    """The last events of a history up to an instant."""
    lines = history.tell().splitlines()
    upto = sum(event.at <= at for event in history.events)
    return "\n".join(lines[max(0, upto - EXCERPT) : upto])
