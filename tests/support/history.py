"""What happened, and whether it may have: an independent checker of recipes with holders.

Contenders report what they do to a `History`, with the times of one clock. The checks are pure
functions of the events. They know nothing of the library: only what its users were promised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TypeVar

E = TypeVar("E", bound="Event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a contender did, or that befell it.

    Attributes:
        at: when, in seconds on the history's clock.
        line: what is contended for.
        contender: who.
    """

    at: float
    line: str
    contender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Event):
    """It wants to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrew(Event):
    """It does not want to hold any more, and never did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered(Event):
    """It holds: the first statement of its body runs."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Event):
    """The last statement of its body has run, whether it wanted to leave or had to."""

    token: int
    was_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked(Event):
    """An operator took its hold away, before the time that the servers had promised.

    No holder can know of that in time. So its hold ends here, as one ends with its process.
    """


@dataclass(frozen=True, slots=True)
class Hold:
    """One unbroken time of holding, from `start` to `end`; `end` is infinite while it lasts."""

    line: str
    contender: str
    token: int
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.contender} (token {self.token}) from {self.start:.4f} to {self.end:.4f}"


class History:
    """The events so far, in the order in which they were reported.

    Args:
        clock: seconds; the same for all that report.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.events: list[Event] = []

    def joined(self, line: str, contender: str) -> None:
        self.events.append(Joined(at=self.clock(), line=line, contender=contender))

    def withdrew(self, line: str, contender: str) -> None:
        self.events.append(Withdrew(at=self.clock(), line=line, contender=contender))

    def entered(self, line: str, contender: str, token: int) -> None:
        self.events.append(Entered(at=self.clock(), line=line, contender=contender, token=token))

    def left(self, line: str, contender: str, token: int, *, was_lost: bool = False) -> None:
        self.events.append(
            Left(at=self.clock(), line=line, contender=contender, token=token, was_lost=was_lost)
        )

    def revoked(self, line: str, contender: str) -> None:
        self.events.append(Revoked(at=self.clock(), line=line, contender=contender))

    def check(self, *, places: int = 1) -> None:
        """Fails unless nothing forbidden has happened, and everybody who stayed was served."""
        wrong = violations(self.events, places=places)
        if wrong:
            raise AssertionError("\n".join([*wrong, "The history:", self.tell()]))

    def tell(self) -> str:
        """All events, one per line."""
        start = self.events[0].at if self.events else 0.0
        return "\n".join(f"{event.at - start:9.4f}  {_describe(event)}" for event in self.events)


def violations(events: Iterable[Event], *, places: int = 1) -> list[str]:
    """Everything that is wrong with a history that has ended, in words.

    Args:
        events: in the order in which they were reported.
        places: how many may hold at once in each line.
    """
    by_line: dict[str, list[Event]] = {}
    for event in events:
        by_line.setdefault(event.line, []).append(event)
    wrong: list[str] = []
    for line in by_line.values():
        wrong += overlaps(holds(line), places)
        wrong += falling_tokens(holds(line))
        wrong += unserved(line)
    return wrong


def holds(events: Sequence[Event]) -> list[Hold]:
    """The holds of one line, in the order in which they began."""
    found: list[Hold] = []
    for number, event in enumerate(events):
        if isinstance(event, Entered):
            later = [e for e in events[number + 1 :] if e.contender == event.contender]
            end = next((e.at for e in later if isinstance(e, (Left, Revoked))), inf)
            found.append(Hold(event.line, event.contender, event.token, event.at, end))
    return found


def overlaps(line: Sequence[Hold], places: int = 1) -> list[str]:
    """Each begin of a hold at which more than `places` held."""
    wrong: list[str] = []
    for hold in line:
        others = [o for o in line if o is not hold and o.start <= hold.start < o.end]
        if len(others) >= places:
            names = " and of ".join(map(str, others))
            wrong.append(f"{hold.line}: the hold of {hold} began during that of {names}")
    return wrong


def falling_tokens(line: Sequence[Hold]) -> list[str]:
    """Each hold whose token is not above that of the hold that began before it."""
    return [
        f"{hold.line}: the token of {hold} is not above that of {before}"
        for before, hold in pairwise(line)
        if hold.token <= before.token
    ]


def unserved(events: Sequence[Event]) -> list[str]:
    """Each contender that joined, stayed and never held, and each that never left."""
    wrong: list[str] = []
    last: dict[str, Event] = {}
    for event in events:
        if not isinstance(event, Revoked):
            last[event.contender] = event
    for contender, event in last.items():
        if isinstance(event, Joined):
            wrong.append(f"{event.line}: {contender} has waited since {event.at:.4f}")
        elif isinstance(event, Entered):
            wrong.append(f"{event.line}: {contender} has held since {event.at:.4f}")
    return wrong


def of_type(events: Iterable[Event], kind: type[E], contender: str | None = None) -> list[E]:
    """The events of a kind, of one contender or of all."""
    return [
        event
        for event in events
        if isinstance(event, kind) and contender in (None, event.contender)
    ]


def _describe(event: Event) -> str:
    token = getattr(event, "token", None)
    suffix = "" if token is None else f" (token {token})"
    if isinstance(event, Left) and event.was_lost:
        suffix += ", lost"
    return f"{event.line}: {event.contender} {type(event).__name__.lower()}{suffix}"
