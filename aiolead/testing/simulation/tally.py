"""The sum of many outcomes."""

from __future__ import annotations

import collections
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run import Outcome


@dataclass(frozen=True, slots=True)
class Failure:
    """A schedule that found something.

    Attributes:
        schedule: the schedule, in its short form.
        backend: the event loop.
        violations: the violations.
        replay: the command that does it again.
    """

    schedule: str
    backend: str
    violations: tuple[str, ...]
    replay: str


@dataclass(slots=True)
class Tally:
    """The sum of outcomes.

    Attributes:
        schedules: how many there were, by event loop.
        virtual: seconds that passed in their worlds.
        faults: how often each kind of fault was done.
        seen: how often each rare situation was reached.
        reached_in: in how many schedules it was.
        margins: of every holder that lost its tenure, in seconds; see `Outcome.margins`.
        failures: the findings.
    """

    schedules: collections.Counter[str] = field(default_factory=collections.Counter)
    virtual: float = 0.0
    faults: collections.Counter[str] = field(default_factory=collections.Counter)
    seen: collections.Counter[str] = field(default_factory=collections.Counter)
    reached_in: collections.Counter[str] = field(default_factory=collections.Counter)
    margins: array[float] = field(default_factory=lambda: array("d"))
    failures: list[Failure] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many schedules there were."""
        return self.schedules.total()

    def add(self, outcome: Outcome) -> None:
        """Counts one more outcome."""
        self.schedules[outcome.backend] += 1
        self.virtual += outcome.virtual
        self.faults.update(outcome.done)
        self.seen.update(outcome.seen)
        self.reached_in.update(name for name, count in outcome.seen.items() if count)
        self.margins.extend(outcome.margins)
        if outcome.violations:
            self.failures.append(
                Failure(
                    str(outcome.schedule),
                    outcome.backend,
                    tuple(map(str, outcome.violations)),
                    outcome.replay_line,
                )
            )

    def merge(self, other: Tally) -> None:
        """Adds another tally to this one."""
        self.schedules.update(other.schedules)
        self.virtual += other.virtual
        self.faults.update(other.faults)
        self.seen.update(other.seen)
        self.reached_in.update(other.reached_in)
        self.margins.extend(other.margins)
        self.failures.extend(other.failures)

    def rarest(self, known: list[str]) -> tuple[str, int]:
        """The situation that the fewest schedules have reached, and how many did."""
        return min(((name, self.reached_in[name]) for name in known), key=lambda pair: pair[1])
