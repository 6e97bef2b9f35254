"""Holds that other threads, processes and writers read or interfere with: I24 to I26."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from ...errors import LossReason
from ..history.events import RESIGNED, Event, Killed, Peeked
from .bounds import Bounds, Violation
from .reading import Reading, Turn

_DRIFT = 1e-3
"""How much faster or slower a clock may run, generously."""

_ROUNDED = 1e-6
"""Seconds by which times are rounded."""


AGAIN = "after another thread has read that it does not"


def truthful_elsewhere(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I24: reads by other threads never say that a hold lasts when it is over; by children, never.

    For threads it is over when its body has ended, when its loss was signalled, when the next
    contender has entered, and when the servers have deleted its znode by themselves. A blocked
    event loop is no excuse, since the clock decides. Once a thread has read that it is over, nobody
    reads that it lasts. The `remaining` that a thread reads ends before the servers delete the
    znode. No read raises an unexpected error.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for turn in reading.holds():
        if turn.peeks:
            wrong += _lies(turn, reading, bounds)
    return wrong


def _lies(turn: Turn, reading: Reading, bounds: Bounds) -> Iterator[Violation]:
    over: int | None = None
    for pos, peek in turn.peeks:
        who = f"{turn.line}: a {peek.where} of {turn} "
        if peek.error:
            yield Violation("I24", f"{who}got {peek.error} from {peek.call}", peek.at)
        elif not peek.held:
            if over is None and peek.where == "thread":
                over = pos
        elif over is not None and peek.where == "thread":
            yield Violation("I24", f"{who}read by {peek.call} that it holds {AGAIN}", peek.at)
        else:
            why = _why_it_is_over(turn, pos, peek, reading, bounds)
            if why is not None:
                yield Violation("I24", f"{who}read by {peek.call} that it holds: {why}", peek.at)

    for pos, look in turn.looks:
        if look.held and over is not None and pos > over:
            yield Violation("I24", f"{turn.line}: {turn} says that it holds {AGAIN}", look.at)


def _why_it_is_over(
    turn: Turn, pos: int, peek: Peeked, reading: Reading, bounds: Bounds
) -> str | None:
    if peek.where == "child":
        return "a child never does"
    if turn.closed_pos < pos and not isinstance(turn.closed, Killed):
        return "it had left"
    if turn.stepped and turn.stepped[0][0] < pos:
        return "it was notified of the loss"
    if turn.revoked < inf or reading.was_taken(turn):
        return None
    node = turn.node
    if node is not None and node.deleted < inf and node.by == 0:
        if node.deleted_pos < pos:
            return f"its znode was deleted at {node.deleted:.4f}"
        if peek.at + peek.remaining * (1 - _DRIFT) > node.deleted + _ROUNDED:
            return f"for {peek.remaining:.4f} s, and its znode was deleted at {node.deleted:.4f}"
    if bounds.places_in(turn.line) == 1:
        # A holder that had lost its place to an operator before it entered is no next contender.
        later = [
            each
            for each in reading.holds_in(turn.line)
            if turn.entered_pos < each.entered_pos < pos and not each.was_revoked_before
        ]
        if later:
            return f"{later[-1]} had entered"
    return None


def ends_when_lost(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I25: a hold that anybody knows to be lost ends, and its callback is called.

    Its body ends in its grace period, counted from the signal, or from the first read by another
    thread that says that it is over. Time in which its process does not run does not count. If its
    holder added a callback, that was called once for a loss, and never without a loss. Checked for
    holds that have been read elsewhere (`Peeked`), or have a callback (`CallbackAdded`).
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for turn in reading.holds():
        if not turn.peeks and turn.called_back is None:
            continue
        if turn.hold.stubborn or any(step.why == RESIGNED for _, step in turn.stepped):
            continue
        known = _known_to_be_lost(turn)
        if known is not None:
            at, how = known
            end = min(turn.closed_at, reading.end)
            missed = sum(max(0.0, min(s.end, end) - max(s.start, at)) for s in turn.stops)
            if end - at - missed > bounds.body + bounds.slack:
                text = f"{turn.line}: {turn} {how} at {at:.4f}, and its body ran on until {end:.4f}"
                wrong.append(Violation("I25", text, at))
        if turn.called_back is not None and not isinstance(turn.closed, Killed):
            was_lost = bool(turn.stepped)
            if turn.called_back != was_lost:
                lost = "lost" if was_lost else "not lost"
                text = f"{turn.line}: {turn} was {lost}, its callback called {turn.called_back}x"
                wrong.append(Violation("I25", text, min(turn.closed_at, reading.end)))
    return wrong


def _known_to_be_lost(turn: Turn) -> tuple[float, str] | None:
    """When that was known first, and how."""
    known = [(pos, step.at, "was notified of the loss") for pos, step in turn.stepped[:1]]
    known += [
        (pos, peek.at, "was over, as another thread read,")
        for pos, peek in turn.peeks
        if peek.where == "thread" and not peek.held and not peek.error and pos < turn.closed_pos
    ][:1]
    if not known:
        return None
    _, at, how = min(known)
    return at, how


def own_znodes(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I26: a held znode is ephemeral, of the holder's session, and only that session deletes it.

    No client deletes an ephemeral znode of another client in a queue, except a hostile one, or one
    that its owner is about to delete: the proof of each may meet the other's delete. A hold
    is lost as *deleted* only if a hostile session or an operator has deleted its znode. Only if the
    history has the servers' events.
    """
    reading = Reading.of(events)
    if not any(reading.nodes.values()):
        return []
    wrong: list[Violation] = []
    for turn in reading.holds():
        node = turn.node
        if node is not None and (node.owner == 0 or node.owner in reading.hostile):
            whose = "a hostile session's" if node.owner else "no session's"
            text = f"{turn.line}: {turn} entered with a znode that is {whose}: {node.path}"
            wrong.append(Violation("I26", text, turn.hold.at))
        wrong += _lost_to_nobody(turn, reading)
    for line, parent in reading.parents.items():
        revoked = [turn for turn in reading.by_line[line] if turn.revoked < inf]
        for node in reading.nodes.get(parent, ()):
            by = node.by
            if by in (0, node.owner) or by in reading.hostile or node.was_changed:
                continue
            if not any(turn.node in (None, node) for turn in revoked):
                text = (
                    f"{line}: the session 0x{by:x} deleted {node.path}, a znode of the session "
                    f"0x{node.owner:x}"
                )
                wrong.append(Violation("I26", text, node.deleted))
    return wrong


def _lost_to_nobody(turn: Turn, reading: Reading) -> Iterator[Violation]:
    """A hold that was lost as if somebody had deleted its znode."""
    node = turn.node
    if turn.revoked < inf or node is None:
        return
    for pos, step in turn.stepped[:1]:
        if step.why == LossReason.DELETED.value and node.by not in reading.hostile:
            if node.deleted_pos > pos:
                text = f"{turn.line}: {turn} was lost as deleted, and its znode was there"
                yield Violation("I26", text, step.at)
            elif node.by == node.owner:
                text = f"{turn.line}: the znode of {turn} was deleted by its own session"
                yield Violation("I26", text, step.at)
