"""That things happen, in time and in order, and no alarm without a fire: I9 to I14 but for I12."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from math import inf

from ...errors import LossReason
from ..history.events import (
    RESIGNED,
    Began,
    Continued,
    Ended,
    Event,
    FaultBegan,
    FaultEnded,
    Healed,
    Killed,
    LeaderChanged,
    Notified,
    Session,
    Stopped,
)
from .bounds import Bounds, Violation
from .reading import Reading, Stop, Turn, wholes


def progress(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I9: once nothing is broken, nobody waits for a place that is free, and all are served.

    A place may stay free for the bound of progress while somebody waits: counted from the end of
    the faults, or from when somebody in the line was killed, stopped or continued. When the run is
    complete, nobody waits any more, and nobody holds.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for line in reading.by_line:
        if reading.healed is not None:
            wrong += _idle(line, reading, reading.healed, bounds)
        if bounds.is_complete:
            wrong += _unserved(line, reading)
    return wrong


def _idle(line: str, reading: Reading, healed: float, bounds: Bounds) -> list[Violation]:
    """Each time for which a place was free although somebody waited, if it is too long."""
    turns = reading.by_line[line]
    steps: list[tuple[float, float, int, int, Turn | None]] = []
    for turn in turns:
        steps.append((turn.begun_pos, turn.begun, 1, 0, None))
        if turn.entered is not None:
            begin = turn.entered
            steps.append((turn.entered_pos, begin.at, -1, begin.permits, turn))
            steps.append((turn.over_pos, turn.over, 0, -begin.permits, None))
        else:
            steps.append((turn.closed_pos, turn.closed_at, -1, 0, None))
    steps += [(pos, at, 0, 0, None) for pos, at in _disturbances(turns, reading)]
    steps.sort(key=lambda step: step[0])
    wrong: list[Violation] = []
    places = bounds.places_in(line)
    waiting = held = 0
    shares = False
    since, told = inf, False  # since when a place was free and somebody waited
    for _, at, more_waiting, more_held, entered in steps:
        until = min(at, reading.end)
        if until - max(since, healed) > bounds.progress and not told:
            told = True
            text = (
                f"{line}: a place was free from {since:.4f} to {until:.4f} while {waiting} waited"
            )
            wrong.append(Violation("I9", text, max(since, healed) + bounds.progress))
        if at == inf:
            break
        disturbed = more_waiting == more_held == 0
        waiting += more_waiting
        held += more_held
        shares = shares or (entered is not None and bool(entered.hold.mode))
        if waiting <= 0 or held >= (1 if shares else places):
            since, told = inf, False
        elif since == inf or disturbed or entered is not None:
            since, told = at, False
    return wrong


def _disturbances(turns: list[Turn], reading: Reading) -> Iterable[tuple[int, float]]:
    """When somebody of a line was killed, stopped or continued."""
    names = {name for turn in turns for name in wholes(turn.contender)}
    kinds: tuple[type[Killed | Stopped | Continued], ...] = (Killed, Stopped, Continued)
    for kind in kinds:
        for pos, event in reading.all(kind):
            if event.contender in names:
                yield pos, event.at


def _unserved(line: str, reading: Reading) -> list[Violation]:
    """Everybody who joined, stayed and never held, and everybody who never left."""
    wrong: list[Violation] = []
    for turn in reading.by_line[line]:
        if turn.closed is None:
            since = turn.begun if turn.entered is None else turn.entered.at
            doing = "waited" if turn.entered is None else "held"
            text = f"{line}: {turn.contender} has {doing} since {since:.4f}"
            wrong.append(Violation("I9", text, reading.end))
    return wrong


def first_come_first_served(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I10: holders enter in the order in which their znodes were created.

    If the history has the servers' events, in queues with one place. (Where there are more, those
    who are in front may enter in any order; I4 says who is in front. Readers pass readers.) A
    contender that enters after an operator deleted its znode, and before it was notified, does not
    count.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []
    for line in reading.by_line:
        if bounds.places_in(line) > 1:
            continue
        latest: Turn | None = None
        newest = 0
        for turn in reading.holds_in(line):
            if turn.node is None or turn.hold.mode == "read" or turn.was_revoked_before:
                continue
            if latest is None or turn.node.czxid >= newest:
                latest, newest = turn, turn.node.czxid
            else:
                text = f"{line}: {latest} entered before {turn}, whose znode is older"
                wrong.append(Violation("I10", text, turn.hold.at))
    return wrong


def bounded_calls(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I11: calls with a time limit end within it, returning or raising, whatever is broken.

    That is, at most `slack` later; time in which the process was stopped does not count. An attempt
    that does not wait (`timeout=0`) has the session timeout.
    """
    reading = Reading.of(events)
    wrong: list[Violation] = []

    def look(who: str, what: str, begin: float, end: float | None, within: float) -> None:
        until = reading.end if end is None else end
        if until - begin <= within + bounds.slack:
            return
        stops = reading.stops_of(who)
        until -= sum(max(0.0, min(s.end, until) - max(s.start, begin)) for s in stops)
        if until - begin > within + bounds.slack:
            state = "has not ended" if end is None else "ended"
            text = f"{what} of {who} {state} {until - begin:.4f} s after it began, not {within:g}"
            wrong.append(Violation("I11", text, begin + within))

    for turn in reading.turns:
        if turn.joined is not None and turn.joined.wait is not None:
            limit = turn.joined.wait or bounds.session_timeout
            ended = turn.entered or turn.closed
            end = None if ended is None else ended.at
            look(turn.contender, f"{turn.line}: waiting", turn.joined.at, end, limit)
    for began, end in _calls(reading):
        if began.within is not None:
            look(began.contender, began.call, began.at, end, began.within)
    return wrong


def _calls(reading: Reading) -> Iterable[tuple[Began, float | None]]:
    """Each call with its end; None if it has not ended. Those of killed processes end there."""
    under_way: dict[tuple[str, str], Began] = {}
    steps: list[tuple[int, Began | Ended | Killed]]
    steps = [*reading.all(Began), *reading.all(Ended), *reading.all(Killed)]
    steps.sort(key=lambda step: step[0])
    for _, step in steps:
        if isinstance(step, Killed):
            for key in [key for key in under_way if step.contender in wholes(key[0])]:
                yield under_way.pop(key), step.at
        elif isinstance(step, Began):
            under_way[step.contender, step.call] = step
        elif (began := under_way.pop((step.contender, step.call), None)) is not None:
            yield began, step.at
    for began in under_way.values():
        yield began, None


def no_false_alarm(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I13: while no fault lasts longer than is `harmless`, no session and no hold is lost.

    Holds may be more delicate than sessions (`harmless_to_holds`). A loss because a program closes
    its own client is no alarm.

    Faults with less than the time to recover between them count as one; so do times without a
    leader, and stops. A loss is excused by a longer fault that ended less than the bound of
    progress before it, and by a severe one (`FaultBegan`).

    Only if the history has faults, or `Healed` says that there were none.
    """
    reading = Reading.of(events)
    losses = list(_losses(reading, bounds))
    if not losses or not (reading.has(FaultBegan) or reading.has(Healed)):
        return []
    outages = _outages(reading, bounds)
    starts = [outage.start for outage in outages]
    wrong: list[Violation] = []
    for text, at, harmless in losses:
        number = bisect_right(starts, at) - 1
        while number >= 0 and outages[number].end > at - bounds.progress:
            if outages[number].end - outages[number].start > harmless:
                break
            number -= 1
        else:
            wrong.append(Violation("I13", f"{text}, and nothing was broken for long", at))
    return wrong


def _losses(reading: Reading, bounds: Bounds) -> Iterator[tuple[str, float, float]]:
    """Each loss of a session or a hold, in words; when it was, and what must not have caused it."""
    for _, session in reading.all(Session):
        if session.state == "expired":
            text = f"{session.contender} lost its session 0x{session.session_id:x}"
            yield text, session.at, bounds.longest_harmless
    for turn in reading.holds():
        if turn.revoked == inf and turn.was_lost:
            step = next((step for _, step in turn.stepped if step.why != RESIGNED), None)
            if step is not None and step.why == LossReason.CLOSED.value:
                continue  # Its own program has closed the client.
            why = f": {step.why}" if step is not None and step.why else ""
            at = turn.closed_at if step is None else step.at
            text = f"{turn.line}: {turn} lost its hold{why}"
            yield text, at, bounds.longest_harmless_to_holds


def _outages(reading: Reading, bounds: Bounds) -> list[Stop]:
    """When something was broken, in order, none of them close to the next."""
    found = [*_faults(reading, bounds), *_leaderless(reading), *reading.all_stops()]
    found.sort(key=lambda outage: outage.start)
    merged: list[Stop] = []
    for outage in found:
        if merged and outage.start <= merged[-1].end + bounds.contact + bounds.tick:
            merged[-1].end = max(merged[-1].end, outage.end)
        else:
            merged.append(Stop(outage.start, outage.end))
    return merged


def _faults(reading: Reading, bounds: Bounds) -> list[Stop]:
    found: list[Stop] = []
    under_way: dict[tuple[str, str], list[Stop]] = {}
    healings = [event.at for _, event in reading.all(Healed)]
    steps: list[tuple[int, FaultBegan | FaultEnded]]
    steps = [*reading.all(FaultBegan), *reading.all(FaultEnded)]
    steps.sort(key=lambda step: step[0])
    for _, step in steps:
        same = under_way.setdefault((step.kind, step.target), [])
        if isinstance(step, FaultEnded):
            if same:
                same.pop().end = step.at
            continue
        healing = bisect_left(healings, step.at)
        outage = Stop(step.at, healings[healing] if healing < len(healings) else inf)
        found.append(outage)
        if step.severe:
            # It may take effect later, and never counts as short.
            outage.end = max(outage.end, step.at + bounds.session_timeout)
        else:
            same.append(outage)
    return found


def _leaderless(reading: Reading) -> list[Stop]:
    """When the ensemble had no leader."""
    found: list[Stop] = []
    for _, change in reading.all(LeaderChanged):
        if found and found[-1].end == inf:
            if change.leader:
                found[-1].end = change.at
        elif not change.leader:
            found.append(Stop(change.at))
    return found


def no_herd(events: Iterable[Event] | Reading, bounds: Bounds) -> list[Violation]:
    """I14: the departure of one wakes a bounded number of others, however many wait.

    At most `woken` sessions that wait in the queue, or one more than there are places, are notified
    that a znode was deleted. Only where `Notified` was reported. A notification of a path that
    existed several times counts for the last deletion.
    """
    reading = Reading.of(events)
    told: dict[str, list[tuple[int, int]]] = {}
    for pos, event in reading.all(Notified):
        told.setdefault(event.path, []).append((pos, event.session_id))
    if not told:
        return []
    wrong: list[Violation] = []
    for line, path in reading.parents.items():
        places = bounds.places_in(line)
        most = max(bounds.woken, places + 1 if places > 1 else 0)
        nodes = reading.nodes.get(path, ())
        until: dict[str, float] = {}
        for node in reversed(nodes):
            end, until[node.path] = until.get(node.path, inf), node.deleted_pos
            woken = {
                session_id
                for pos, session_id in told.get(node.path, ())
                if node.deleted_pos < pos < end and session_id != node.owner
            }
            if len(woken) > most:
                # Contenders that have left since, or watch without waiting, are not part of the
                # herd.
                woken &= {
                    other.owner
                    for other in nodes
                    if node.created_pos < other.created_pos < node.deleted_pos < other.deleted_pos
                }
            if len(woken) > most:
                text = f"{line}: the deletion of {node.path} woke {len(woken)} waiters"
                wrong.append(Violation("I14", text, node.deleted))
    return wrong
