"""Leftovers, growth, logged errors, callbacks and requests: I15 to I19, I17 excepted, and I27."""

from __future__ import annotations

from collections.abc import Iterable

from ..history.events import (
    Counted,
    Event,
    Hostile,
    Left,
    Leftover,
    Logged,
    Looked,
    Requested,
    SteppedDown,
    Withdrew,
)
from .bounds import Bounds, Violation
from .reading import Reading

SERIOUS = frozenset({"ERROR", "CRITICAL"})

UNNOTICED = ("was never awaited", "was never retrieved", "Unclosed", "unclosed")
"""The messages of the interpreter and event loops, at any level, about unhandled results."""


def nothing_left(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I15: at the end there is nothing left of what should be gone (`Leftover`)."""
    return [
        Violation("I15", f"{left.count} {left.kind} left{_of(left.what)}", left.at)
        for _, left in Reading.of(events).all(Leftover)
        if left.count
    ]


def _of(what: str) -> str:
    return f": {what}" if what else ""


def no_growth(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I16: repeated counts (`Counted`) do not grow.

    It has grown if the least of the second half is more than the most of the first. The first count
    is taken while things get going, and left out; fewer than four others say nothing.
    """
    counts: dict[str, list[Counted]] = {}
    for _, counted in Reading.of(events).all(Counted):
        counts.setdefault(counted.kind, []).append(counted)
    wrong: list[Violation] = []
    for kind, (_, *samples) in counts.items():
        if len(samples) >= 4:
            middle = len(samples) // 2
            most = max(sample.count for sample in samples[:middle])
            least = min(sample.count for sample in samples[middle:])
            if least > most:
                text = f"{kind} grew from {most} at most to {least} at least"
                wrong.append(Violation("I16", text, samples[-1].at))
    return wrong


def no_errors_logged(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I18: nothing is logged as an error, and nothing was left unawaited or unretrieved."""
    return [
        Violation("I18", f"logged at {logged.level}: {logged.text}", logged.at)
        for _, logged in Reading.of(events).all(Logged)
        if logged.level in SERIOUS or any(words in logged.text for words in UNNOTICED)
    ]


def paced(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I27: no session sends requests again and again while nothing changes (`Requested`).

    A loop without a pause sends as many as the round trip allows, thousands in a session timeout.
    The requests of hostile sessions do not count.
    """
    reading = Reading.of(events)
    hostile = {each.session_id for _, each in reading.all(Hostile)}
    wrong: list[Violation] = []
    for _, sent in reading.all(Requested):
        quiet = bounds.requests * sent.seconds / bounds.session_timeout
        most = quiet + bounds.requests_per_change * sent.changes
        if sent.count > most and sent.session_id not in hostile:
            text = (
                f"session {sent.session_id:#x} sent {sent.count} requests in {sent.seconds:g} s "
                f"with {sent.changes} changes, at most {most:.0f} are allowed"
            )
            wrong.append(Violation("I27", text, sent.since + sent.seconds))
    return wrong


def told_once(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I19: a loss is signalled once, of a hold that began, and before its holder enters again."""
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for line in reading.by_line:
        last: dict[str, tuple[float, float]] = {}
        for turn in reading.holds_in(line):
            if len(turn.stepped) > 1:
                text = f"{line}: {turn} was notified {len(turn.stepped)} times of its loss"
                wrong.append(Violation("I19", text, turn.stepped[1][1].at))
            closed_pos, told_pos = last.get(turn.contender, (-1.0, -1.0))
            if turn.entered_pos < closed_pos:
                text = f"{line}: {turn} entered before it had left its last hold"
                wrong.append(Violation("I19", text, turn.hold.at))
            elif turn.entered_pos < told_pos:
                text = f"{line}: {turn} entered before it was notified of the loss of its last hold"
                wrong.append(Violation("I19", text, turn.hold.at))
            last[turn.contender] = (turn.closed_pos, turn.stepped[0][0] if turn.stepped else -1.0)
    for stray in reading.strays:
        if isinstance(stray, (SteppedDown, Left, Looked)):
            text = f"{stray.line}: {stray.contender} never entered with token {stray.token}"
            wrong.append(Violation("I19", text, stray.at))
        elif isinstance(stray, Withdrew):
            text = f"{stray.line}: {stray.contender} withdrew without having waited"
            wrong.append(Violation("I19", text, stray.at))
    return wrong
