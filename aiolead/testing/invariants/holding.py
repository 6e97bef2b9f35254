"""Holding, and the right to hold: I1 to I4, I23, and the registers written under a lock."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from math import inf

from ...errors import LossReason
from ..history.events import Acted, Event, Read, Value, Wrote
from .bounds import Bounds, Margin, Violation
from .reading import Node, Reading, Turn

_ROUNDED = 1e-6
"""Seconds by which times are rounded."""

MOST = 20
"""How many overlaps are reported for one line: where exclusion is broken, all overlap with all."""


def one_holder(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I1: the bodies of one line have ended before anybody else's begins.

    Not more than `places` at once; where readers share, no writer with anybody. A holder whose
    process was stopped cannot end its body meanwhile, but when it runs again it must not say that
    it holds once somebody else has entered.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for line in reading.by_line:
        wrong += _overlaps(line, reading.holds_in(line), bounds)
    return wrong


def _overlaps(line: str, holds: list[Turn], bounds: Bounds) -> list[Violation]:
    wrong: list[Violation] = []
    overtaken: dict[Turn, Turn] = {}
    active: list[Turn] = []
    places = bounds.places_in(line)
    for turn in holds:
        begin = turn.hold
        if turn.was_revoked_before and begin.at - turn.revoked <= bounds.session_timeout:
            continue  # it was over before it began, as no lease can tell
        active = [other for other in active if other.over_pos > turn.entered_pos]
        if active and not _fit(turn, active, places):
            late = []
            for other in active:
                if other.is_excused(begin.at, bounds.session_timeout, bounds.slack):
                    if _is_given_away(other, turn, places):
                        overtaken.setdefault(other, turn)
                else:
                    late.append(other)
            if not _fit(turn, late, places):
                others = " and of ".join(map(_span, late))
                text = f"{line}: the hold of {_span(turn)} began during that of {others}"
                wrong.append(Violation("I1", text, begin.at))
                if len(wrong) >= MOST:
                    break
        active.append(turn)
    for turn in holds:
        wrong += _false_claims(turn, overtaken.get(turn))
    return wrong


def _is_given_away(turn: Turn, to: Turn, places: int) -> bool:
    """Whether it was the place of this one, of several who were stopped, that another one got."""
    return places == 1 or (turn.node is not None and turn.node.deleted_pos < to.entered_pos)


def _fit(turn: Turn, others: list[Turn], places: int) -> bool:
    """Whether somebody may hold beside others."""
    begin = turn.hold
    if begin.mode:
        return not others or {begin.mode, *(other.hold.mode for other in others)} == {"read"}
    return begin.permits + sum(other.hold.permits for other in others) <= places


def _false_claims(turn: Turn, overtaker: Turn | None) -> list[Violation]:
    """Each claim to hold after a reported loss, a departure, or being overtaken."""
    limits = [(turn.closed_pos, "it had left")]
    if turn.stepped:
        limits.append((turn.stepped[0][0], "it was notified of the loss"))
    if overtaker is not None:
        limits.append((overtaker.entered_pos, f"{overtaker} had entered"))
    since, why = min(limits)
    return [
        Violation("I1", f"{turn.line}: {turn} says that it holds although {why}", look.at)
        for pos, look in turn.looks
        if look.held and pos > since
    ]


def _span(turn: Turn) -> str:
    return f"{turn} from {turn.hold.at:.4f} to {turn.over:.4f}"


def stop_before_expiry(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I2: every body has ended before the servers delete its znode.

    Not if an operator has it deleted, and not if the process was stopped: they cannot know.
    """
    wrong: list[Violation] = []
    for turn in Reading.of(events).holds():
        node = turn.node
        if node is not None and node.deleted_pos < turn.over_pos and not _unable(turn, bounds):
            text = (
                f"{turn.line}: the znode of {turn} was deleted at {node.deleted:.4f}, "
                f"{turn.over - node.deleted:.4f} s before its body had ended"
            )
            wrong.append(Violation("I2", text, node.deleted))
    return wrong


def margins(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Margin]:
    """How much earlier than the servers each loser has stopped.

    Of those who could know, and whose znode the servers deleted by themselves. An end in the
    instant of the deletion has a margin of 0: that is none.
    """
    found: list[Margin] = []
    for turn in Reading.of(events).holds():
        node = turn.node
        if (
            node is not None
            and node.deleted < inf
            and node.by == 0
            and turn.was_lost
            and turn.over < inf
            and not _unable(turn, bounds)
        ):
            why = turn.stepped[0][1].why if turn.stepped else ""
            found.append(
                Margin(turn.line, turn.contender, turn.hold.token, why, turn.over, node.deleted)
            )
    return found


def told_in_time(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I23: a body whose lease runs out has its grace period, however many have to be cancelled.

    The servers delete its znode no earlier than that after its loss was signalled, and later by the
    time that it takes to cancel the others of its session that are signalled at the same time. An
    operator may delete it any time.
    """
    reading = Reading.of(events)
    sessions: defaultdict[int, list[tuple[float, Turn]]] = defaultdict(list)
    for turn in reading.holds():
        if turn.stepped and turn.stepped[0][1].why == LossReason.UNCONFIRMED.value:
            sessions[turn.hold.session_id].append((turn.stepped[0][1].at, turn))
    wrong: list[Violation] = []
    for lost in sessions.values():
        for signalled, turn in lost:
            node = turn.node
            if node is None or node.deleted == inf or node.by or _unable(turn, bounds):
                continue
            if reading.was_taken(turn):
                continue
            others = sum(at == signalled for at, _ in lost) - 1
            needed = bounds.body + others * bounds.losing
            left = node.deleted - signalled
            if left < needed - _ROUNDED:
                text = (
                    f"{turn.line}: the loss of {turn} was signalled {left:.4f} s before its znode "
                    f"was deleted, with {others} others at that time, which takes {needed:.4f} s"
                )
                wrong.append(Violation("I23", text, signalled))
    return wrong


def _unable(turn: Turn, bounds: Bounds) -> bool:
    """Whether a holder could not know in time that its znode would be deleted."""
    node = turn.node
    return turn.revoked < inf or (
        node is not None
        and node.deleted < inf
        and turn.is_excused(node.deleted, bounds.session_timeout, bounds.slack)
    )


def fencing(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I3: tokens rise with the order of holds, and a resource that goes by them is right.

    With several places, holders may enter in another order than that of their tokens, so no two
    must have the same. Where readers share that goes for them, among themselves. If the history has
    the servers' events, a token is the transaction that created the znode. A contender that enters
    after an operator deleted its znode, and before it was notified, has a token that others have
    overtaken.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for line in reading.by_line:
        wrong += _tokens(line, reading.holds_in(line), bounds.places_in(line))
    return wrong + _resources(reading, bounds)


def _tokens(line: str, holds: list[Turn], places: int) -> list[Violation]:
    wrong: list[Violation] = []
    seen: dict[int, Turn] = {}
    greatest: Turn | None = None
    greatest_alone: Turn | None = None
    for turn in holds:
        token, at = turn.hold.token, turn.hold.at
        before = seen.setdefault(token, turn)
        above = greatest_alone if turn.hold.mode == "read" else greatest
        if before is not turn:
            text = f"{line}: the token of {turn} is also that of {before}"
            wrong.append(Violation("I3", text, at))
        elif turn.was_revoked_before:
            pass
        elif places == 1 and above is not None and token < above.hold.token:
            text = f"{line}: the token of {turn} is not above that of {above}"
            wrong.append(Violation("I3", text, at))
        if turn.node is not None and token != turn.node.czxid:
            text = f"{line}: the token of {turn} is not the czxid {turn.node.czxid} of its znode"
            wrong.append(Violation("I3", text, at))
        if greatest is None or token > greatest.hold.token:
            greatest = turn
        if turn.hold.mode != "read" and (
            greatest_alone is None or token > greatest_alone.hold.token
        ):
            greatest_alone = turn
    return wrong


def _resources(reading: Reading, bounds: Bounds) -> list[Violation]:
    """The actions of a resource that keeps the greatest token, compared with the right ones."""
    wrong: list[Violation] = []
    greatest: dict[tuple[str, str], int] = {}
    for pos, act in reading.all(Acted):
        key = (act.line, act.resource)
        seen = greatest.get(key, -1)
        who = f"{act.line}: {act.contender} (token {act.token})"
        if act.accepted:
            if act.token < seen:
                text = f"{who} was not refused although token {seen} was seen before"
                wrong.append(Violation("I3", text, act.at))
            greatest[key] = max(seen, act.token)
        elif bounds.places_in(act.line) == 1:
            holder = reading.latest_holder(act.line, pos)
            if (
                holder is not None
                and not holder.hold.mode
                and (holder.contender, holder.hold.token) == (act.contender, act.token)
                and pos < holder.over_pos
            ):
                wrong.append(Violation("I3", f"{who} was refused although it holds", act.at))
    return wrong


def truthful_return(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I4: a contender that enters was in front during its call, with its session's znode.

    Only if the history has the servers' events. In front: fewer than `places` znodes were there
    that are older, of the same parent and ephemeral. If the queue is the znode itself, such as a
    claim, its siblings are other queues: only its existence is checked.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    places = {path: bounds.places_in(line) for line, path in reading.parents.items()}
    front = {
        node: since
        for path, nodes in reading.nodes.items()
        for node, since in _in_front(nodes, places.get(path, 1))
    }
    for turn in reading.holds():
        begin, node = turn.hold, turn.node
        who = f"{turn.line}: {turn} entered"
        if node is None:
            if begin.path and reading.nodes:
                wrong.append(Violation("I4", f"{who} without a znode: {begin.path}", begin.at))
            continue
        if begin.session_id and node.owner != begin.session_id:
            text = f"{who} with a znode of the session 0x{node.owner:x}: {node.path}"
            wrong.append(Violation("I4", text, begin.at))
        if node.deleted_pos < turn.joined_pos:
            if turn.was_revoked_before and node.by != node.owner:
                continue  # An operator took it away between the answer and the report.
            text = f"{who} though its znode was gone before it joined: {node.path}"
            wrong.append(Violation("I4", text, begin.at))
        # Readers pass other readers; whom they must not pass only their recipe's names tell.
        elif (
            begin.mode != "read"
            and begin.path != turn.line
            and front.get(node, -1) >= min(turn.entered_pos, node.deleted_pos)
        ):
            wrong.append(Violation("I4", f"{who} though others were before it", begin.at))
    return wrong


def _in_front(nodes: list[Node], places: int) -> Iterable[tuple[Node, float]]:
    """Each znode of a parent with the position since when fewer than `places` are before it.

    Nobody comes in front of a znode later: so that is when the last but `places - 1` of those that
    were there before it had gone.
    """
    last: list[float] = []  # the latest departures of older znodes, at most `places`, as a heap
    for node in sorted(nodes, key=lambda node: node.czxid):
        yield node, last[0] if len(last) == places else -1
        if len(last) < places:
            heapq.heappush(last, node.deleted_pos)
        else:
            heapq.heappushpop(last, node.deleted_pos)


def lock_set(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """Registers that are read, changed and written under a lock: no update may be lost.

    Every write that the register took has been made from what was in it: the value that the writer
    had read last, with the same token, is the one that was written last.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    values: dict[str, tuple[Value, Wrote]] = {}
    known: dict[tuple[str, str, int], Value] = {}
    steps: list[tuple[int, Read | Wrote]] = [*reading.all(Read), *reading.all(Wrote)]
    steps.sort(key=lambda step: step[0])
    for _, step in steps:
        key = (step.contender, step.key, step.token)
        if isinstance(step, Read):
            known[key] = step.value
        elif step.accepted:
            if step.key in values and key in known and known[key] != values[step.key][0]:
                before = values[step.key][1]
                text = (
                    f"{step.key}: {step.contender} (token {step.token}) wrote {step.value!r} over "
                    f"{before.value!r} of {before.contender} (token {before.token}), having read "
                    f"{known[key]!r}"
                )
                wrong.append(Violation("lock-set", text, step.at))
            values[step.key] = (step.value, step)
            known[key] = step.value
    return wrong
