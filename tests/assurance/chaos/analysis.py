"""Holders in histories: pure functions of the events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from aiolead.testing.history import Event
from aiolead.testing.invariants import Reading


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which one contender believed that it held, and its process ran."""

    contender: str
    start: float
    end: float


def beliefs(events: Iterable[Event] | Reading) -> list[Span]:
    """The times in which contenders believed that they held.

    A belief ends when its holder releases, is notified of its loss, or is killed. Time in which its
    process is stopped does not count, since the process cannot act. It counts again when the
    process continues without a notification.
    """
    found: list[Span] = []
    for turn in Reading.of(events).holds():
        start = turn.hold.at
        for stop in turn.stops:
            if stop.end > start and stop.start < turn.over:
                if stop.start > start:
                    found.append(Span(turn.contender, start, stop.start))
                start = max(start, stop.end)
        if start < turn.over:
            found.append(Span(turn.contender, start, turn.over))
    return sorted(found, key=lambda span: span.start)


def overlap(spans: Sequence[Span], until: float = inf) -> float:
    """For how many seconds there were two holders or more, up to a certain time."""
    changes = sorted(
        change
        for span in spans
        if span.start < until
        for change in ((span.start, 1), (min(span.end, until), -1))
    )
    total, holders, last = 0.0, 0, 0.0
    for at, change in changes:
        if holders >= 2:
            total += at - last
        holders, last = holders + change, at
    return total
