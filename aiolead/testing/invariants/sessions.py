"""Sessions and what they own: I5 to I8, I12, I21 and I22."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf

from ..history.events import (
    RESIGNED,
    Cancelled,
    ClosedByGuardian,
    Continued,
    Event,
    Killed,
    LeaderChanged,
    Left,
    OfContender,
    Read,
    Revoked,
    Session,
    Stopped,
    Withdrew,
)
from ..history.kinds import KINDS
from .bounds import Bounds, Violation
from .reading import Node, Reading, Turn, wholes

REPORTED_BY_OTHERS = (Killed, Stopped, Continued, ClosedByGuardian, Revoked, Cancelled)
"""Events about a process, or a contender in it, that show no sign of its life."""


def no_zombie(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I5: once its client has another session, nothing of the old one counts as held."""
    wrong: list[Violation] = []
    for turn in Reading.of(events).holds():
        if turn.replaced is None:
            continue
        since, session = turn.replaced
        who = f"{turn.line}: {turn} of the session 0x{turn.hold.session_id:x}"
        told = turn.stepped[0][1].at if turn.stepped else turn.over - bounds.body
        if told > session.at + bounds.slack:
            text = (
                f"{who} was not notified when its client had the session 0x{session.session_id:x}"
            )
            wrong.append(Violation("I5", text, session.at))
        for pos, look in turn.looks:
            if look.held and pos > since:
                text = f"{who} counts as held in the session 0x{session.session_id:x}"
                wrong.append(Violation("I5", text, look.at))
    return wrong


def exactly_once(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I6: a turn leaves no znode behind, and has but one for itself.

    A surplus znode (a repeated create, a forgotten delete) must be gone within the bound of
    progress, counted from the end of the turn or of the faults, whichever is later. Only if the
    history has the servers' events, and each contender has its own client in the queue.
    """
    reading = Reading.of(events)
    if reading.healed is None:
        return []
    wrong: list[Violation] = []
    for turn, nodes in _znodes(reading):
        if not _gave_up(turn):
            wrong += _overstayed("I6", turn, nodes, reading, bounds)
        for first, second in pairwise(nodes):
            until = min(first.deleted, second.deleted, reading.end)
            since = max(second.created, reading.healed)
            if first.owner == second.owner and until > since + bounds.progress:
                text = f"{turn.line}: {turn} had {first.path} and {second.path} at once"
                wrong.append(Violation("I6", text, second.created))
    return wrong


def leaves_nothing(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I12: a call that is cancelled, or times out, ends soon and leaves no znode behind.

    A cancelled call that waits ends within `slack`, a cancelled body in its grace period. The
    znode is gone within the bound of progress, as for I6.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for turn in reading.turns:
        if turn.cancelled is not None and not (turn.entered and turn.entered.stubborn):
            late = _cancelled_late(turn, reading, bounds)
            if late is not None:
                wrong.append(late)
    if reading.healed is not None:
        for turn, nodes in _znodes(reading):
            if _gave_up(turn):
                wrong += _overstayed("I12", turn, nodes, reading, bounds)
    return wrong


def released_in_time(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I21: a contender that has left does not block the queue until its session ends.

    The znode of a turn is gone within `release`, counted from the end of the turn, of the faults,
    or from when the servers had their latest leader. Only if the history has the servers' events. A
    client that was closed, or whose session or process has ended, can delete nothing.
    """
    reading = Reading.of(events)
    if reading.healed is None or bounds.release is None:
        return []
    leaders = [event.at for _, event in reading.all(LeaderChanged)]
    calm = max([reading.healed, *leaders[-1:]])
    last: dict[Node, Turn] = {}
    for turn in reading.holds():
        if turn.node is not None:
            last[turn.node] = turn
    for turn, nodes in _znodes(reading):
        for node in nodes:
            last.setdefault(node, turn)
    ended = _ended_sessions(reading)
    wrong: list[Violation] = []
    for node, turn in last.items():
        if turn.closed is None or isinstance(turn.closed, Killed):
            continue
        since = max(turn.closed_at, node.created, calm)
        until = min(node.deleted, reading.end, ended.get(node.owner, inf))
        if until > since + bounds.release + bounds.slack:
            text = (
                f"{turn.line}: {turn} {_ended(turn)}, and {node.path} stayed for "
                f"{until - since:.4f} s although its session lived"
            )
            wrong.append(Violation("I21", text, since + bounds.release))
    return wrong


def _ended_sessions(reading: Reading) -> dict[int, float]:
    """When the client of a session was closed, had lost it, or was killed; by session."""
    steps: list[tuple[int, Session | Killed]] = [*reading.all(Session), *reading.all(Killed)]
    steps.sort(key=lambda step: step[0])
    current: dict[str, int] = {}
    ended: dict[int, float] = {}
    for _, step in steps:
        if isinstance(step, Killed):
            for client in [name for name in current if step.contender in wholes(name)]:
                ended.setdefault(current.pop(client), step.at)
        elif step.state in ("expired", "closed"):
            session_id = current.pop(step.contender, step.session_id)
            ended.setdefault(session_id, step.at)
        elif step.session_id:
            current[step.contender] = step.session_id
    return ended


def _cancelled_late(turn: Turn, reading: Reading, bounds: Bounds) -> Violation | None:
    if turn.cancelled is None:
        return None
    at = turn.cancelled.at
    limit = bounds.slack + (0.0 if turn.entered is None else bounds.body)
    if any(step.why == RESIGNED for _, step in turn.stepped):
        limit += bounds.session_timeout / 3  # it waits for the servers to confirm it
    end = turn.closed_at if turn.closed is not None else reading.end
    missed = sum(max(0.0, min(s.end, end) - max(s.start, at)) for s in turn.stops)
    if end - at - missed <= limit:
        return None
    if turn.entered is None:
        # A contender that takes turn after turn (`Election.run`) may still be releasing the
        # previous one, and waits for the servers to confirm that, too.
        limit += max(0.0, _left_before(turn, reading) + bounds.session_timeout / 3 - at)
        if end - at - missed <= limit:
            return None
    text = f"{turn.line}: {turn} was cancelled and has not ended {end - at:.4f} s later"
    return Violation("I12", text, at)


def _left_before(turn: Turn, reading: Reading) -> float:
    """When the same contender has left its turn before this one; minus infinity if it had none."""
    return max(
        (
            other.closed_at
            for other in reading.turns
            if (other.line, other.contender) == (turn.line, turn.contender)
            and isinstance(other.closed, Left)
            and other.closed_pos < turn.begun_pos
        ),
        default=-inf,
    )


def _gave_up(turn: Turn) -> bool:
    closed = turn.closed
    return turn.cancelled is not None or (isinstance(closed, Withdrew) and closed.why != "error")


def _overstayed(
    name: str, turn: Turn, nodes: list[Node], reading: Reading, bounds: Bounds
) -> Iterator[Violation]:
    """Each znode that is there for too long after its turn."""
    if turn.closed is None or reading.healed is None:
        return
    for node in nodes:
        since = max(turn.closed_at, node.created, reading.healed)
        if min(node.deleted, reading.end) > since + bounds.progress:
            text = f"{turn.line}: {turn} {_ended(turn)}, and its znode is still there: {node.path}"
            yield Violation(name, text, since + bounds.progress)


def _ended(turn: Turn) -> str:
    closed = turn.closed
    if isinstance(closed, Withdrew):
        return f"withdrew ({closed.why})" if closed.why else "withdrew"
    return "left" if isinstance(closed, Left) else "was killed"


def _znodes(reading: Reading) -> Iterator[tuple[Turn, list[Node]]]:
    """The znodes that were made for each turn, in the order of their creation.

    A znode belongs to the last turn that its session's only contender in the line had begun. Lines
    in which somebody enters without having joined are left out.
    """
    clients: dict[int, set[str]] = {}
    for _, session in reading.all(Session):
        if session.session_id:
            clients.setdefault(session.session_id, set()).add(session.contender)
    for line, path in reading.parents.items():
        if any(turn.joined is None for turn in reading.by_line[line]):
            continue
        turns: dict[str, list[Turn]] = {}
        by_client: dict[str, set[str]] = {}
        owners: dict[int, set[str]] = {}
        for turn in reading.by_line[line]:
            turns.setdefault(turn.contender, []).append(turn)
            for whole in wholes(turn.contender):
                by_client.setdefault(whole, set()).add(turn.contender)
            if turn.entered is not None and turn.entered.session_id:
                owners.setdefault(turn.entered.session_id, set()).add(turn.contender)
        for session_id, names in clients.items():
            for name in names:
                owners.setdefault(session_id, set()).update(by_client.get(name, ()))
        own: dict[Turn, list[Node]] = {}
        for node in reading.nodes.get(path, ()):
            contenders = owners.get(node.owner, set())
            if len(contenders) == 1:
                begun = turns[next(iter(contenders))]
                index = bisect_left(begun, node.created_pos, key=lambda turn: turn.joined_pos)
                if index:
                    own.setdefault(begun[index - 1], []).append(node)
        yield from own.items()


def session_continuity(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I7: a listener is notified of another session only after the expiry of the old one."""
    wrong: list[Violation] = []
    last: dict[str, int] = {}
    expired: dict[str, int] = {}
    for _, event in Reading.of(events).all(Session):
        who, session_id = event.contender, event.session_id
        if event.state == "expired":
            expired[who] = last.pop(who, session_id) or session_id
        elif event.state == "closed":
            last.pop(who, None)  # the next one is that of another client
        elif event.state == "connected":
            before = last.get(who, session_id)
            if before != session_id:
                text = f"{who}: the session 0x{before:x} became 0x{session_id:x} without expiring"
                wrong.append(Violation("I7", text, event.at))
            elif expired.get(who) == session_id:
                text = f"{who}: the session 0x{session_id:x} is back after it had expired"
                wrong.append(Violation("I7", text, event.at))
            last[who] = session_id
    return wrong


def monotonic_reads(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I8: nobody reads an older state of a znode after a newer one."""
    wrong: list[Violation] = []
    newest: dict[tuple[str, str], int] = {}
    for _, read in Reading.of(events).all(Read):
        if read.zxid >= 0:
            key = (read.contender, read.key)
            before = newest.get(key, -1)
            if read.zxid < before:
                text = f"{read.key}: {read.contender} read zxid {read.zxid} after {before}"
                wrong.append(Violation("I8", text, read.at))
            newest[key] = max(before, read.zxid)
    return wrong


def closed_after_death(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I22: no session guardian closes a session while a thread of the owner runs.

    A process shows that it runs by each event that it reports itself. `Killed` is reported after
    its death, so it may come later than the guardian's close; but it has to come.
    """
    reading = Reading.of(events)
    shown: dict[str, list[float]] = {}
    for kind in KINDS.values():
        if issubclass(kind, OfContender) and kind not in REPORTED_BY_OTHERS:
            for _, event in reading.all(kind):
                for whole in wholes(event.contender):
                    shown.setdefault(whole, []).append(event.at)
    wrong: list[Violation] = []
    for _, closed in reading.all(ClosedByGuardian):
        who, at = closed.contender, closed.at
        deaths = [killed.at for _, killed in reading.all(Killed) if killed.contender == who]
        lives = shown.get(who, [])
        died = max((death for death in deaths if death <= at), default=-inf)
        if died >= max((life for life in lives if life <= at), default=-inf) and died > -inf:
            continue
        until = min((death for death in deaths if death > at), default=inf)
        late = [life for life in lives if at < life < until]
        if late:
            text = f"{who} ran {late[-1] - at:.4f} s after its guardian had closed its session"
            wrong.append(Violation("I22", text, at))
        elif until == inf:
            wrong.append(Violation("I22", f"{who}: its session was closed, and it lives", at))
    return wrong
