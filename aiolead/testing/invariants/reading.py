"""A history, read once: turns, znodes and stops, as all the checks want to have them.

Events are ordered by their *position* in the history. Many may have the same time, in virtual time
above all; positions still show which came first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, Self, TypeVar

from ..history.events import (
    RESIGNED,
    CallbackAdded,
    CallbackCalled,
    Cancelled,
    Continued,
    Entered,
    Event,
    FaultBegan,
    Healed,
    Hostile,
    Joined,
    Killed,
    Left,
    Looked,
    NodeCreated,
    NodeDeleted,
    Peeked,
    Revoked,
    Session,
    SteppedDown,
    Stopped,
    Withdrew,
)

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Stop:
    """A time in which a process did not run."""

    start: float
    end: float = inf


@dataclass(slots=True, eq=False)
class Node:
    """The life of a znode, as the servers know it."""

    path: str
    czxid: int
    owner: int
    created: float
    created_pos: float
    deleted: float = inf
    deleted_pos: float = inf
    by: int = 0
    was_changed: bool = False

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(slots=True, eq=False)
class Turn:
    """The acts of one contender between joining a queue and leaving it.

    Attributes:
        joined: None if that was not reported.
        entered: None if it never held.
        closed: the `Left`, `Withdrew` or `Killed` that ended it; None while it goes on.
        over: when its hold counts as ended (see `_settle`); infinite while it lasts.
        stepped: each signal that the hold was lost.
        looks: the answers when it asked whether it held.
        peeks: the answers when other threads, or forked children, asked.
        called_back: how often its callback for a loss was called; None if it has none.
        replaced: the first sign that its client had another session by then.
        node: its znode, if the servers reported it.
    """

    line: str
    contender: str
    joined: Joined | None = None
    joined_pos: float = -1
    entered: Entered | None = None
    entered_pos: float = inf
    closed: Left | Withdrew | Killed | None = None
    closed_pos: float = inf
    over: float = inf
    over_pos: float = inf
    cancelled: Cancelled | None = None
    revoked_pos: float = inf
    revoked: float = inf
    stepped: list[tuple[int, SteppedDown]] = field(default_factory=list)
    looks: list[tuple[int, Looked]] = field(default_factory=list)
    peeks: list[tuple[int, Peeked]] = field(default_factory=list)
    called_back: int | None = None
    replaced: tuple[int, Session] | None = None
    stops: list[Stop] = field(default_factory=list)
    node: Node | None = None

    @property
    def hold(self) -> Entered:
        """The beginning of its hold. Only if it held."""
        if self.entered is None:
            raise AssertionError("it never held")
        return self.entered

    @property
    def begun(self) -> float:
        """When it joined, or entered if that was not reported."""
        return self.hold.at if self.joined is None else self.joined.at

    @property
    def begun_pos(self) -> float:
        return self.entered_pos if self.joined is None else self.joined_pos

    @property
    def closed_at(self) -> float:
        return inf if self.closed is None else self.closed.at

    @property
    def was_lost(self) -> bool:
        """Whether it lost its hold, rather than left or resigned."""
        if isinstance(self.closed, Left) and self.closed.was_lost:
            return True
        return any(step.why != RESIGNED for _, step in self.stepped)

    def __str__(self) -> str:
        token = f" (token {self.entered.token})" if self.entered is not None else ""
        return f"{self.contender}{token}"

    @property
    def was_revoked_before(self) -> bool:
        """Whether its place was taken away by an operator before it entered."""
        return self.revoked_pos < self.entered_pos

    def is_excused(self, instant: float, horizon: float, slack: float) -> bool:
        """Whether it could not know at an instant that its hold was over: its process was stopped.

        Time in which a process does not run does not count. So the hold is shortened by the stops
        that it was in, or had come out of within `horizon` seconds, and then by those that followed
        before it was over.
        """
        missed = 0.0
        for stop in self.stops:
            was_in = stop.start <= instant and stop.end > instant - horizon
            if was_in or (missed > 0.0 and instant < stop.start < self.over):
                if stop.end == inf:
                    # It ran up to a stop that followed.
                    return was_in or stop.start - missed <= instant + slack
                missed += max(0.0, min(stop.end, self.over) - max(stop.start, self.hold.at))
        return missed > 0.0 and self.over - missed <= instant + slack


class Reading:
    """A history in the shape in which the checks read it.

    Attributes:
        turns: in the order in which they began.
        by_line: the same, by line.
        nodes: all ephemeral znodes, in the order of their creation; by parent. Without those of
            hostile sessions.
        hostile: the sessions of writers that forge znodes.
        parents: the path under which the znodes of a line are, where it is known.
        strays: reports about holds that never began.
        end: the time of the last event.
        healed: since when nothing is broken any more; None if something still is, or may be.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.turns: list[Turn] = []
        self.by_line: defaultdict[str, list[Turn]] = defaultdict(list)
        self.nodes: defaultdict[str, list[Node]] = defaultdict(list)
        self.hostile: set[int] = set()
        self.parents: dict[str, str] = {}
        self.strays: list[Event] = []
        self.end: float = 0.0
        self._by_kind: defaultdict[type[Event], list[tuple[int, Any]]] = defaultdict(list)
        self._holds: dict[str, list[Turn]] = {}
        self._current: dict[tuple[str, str], Turn] = {}
        self._open: defaultdict[str, dict[Turn, None]] = defaultdict(dict)
        self._by_token: dict[tuple[str, str, int], Turn] = {}
        self._revocations: defaultdict[tuple[str, str], list[tuple[int, Revoked]]] = defaultdict(
            list
        )
        self._by_path: defaultdict[str, list[Node]] = defaultdict(list)
        self._by_czxid: dict[int, Node] = {}
        self._stops: defaultdict[str, list[Stop]] = defaultdict(list)
        for pos, event in enumerate(events):
            kind = type(event)
            self._by_kind[kind].append((pos, event))
            handler = _HANDLERS.get(kind)
            if handler is not None:
                handler(self, pos, event)
            self.end = event.at
        self.healed: float | None = self._when_healed()
        for turn in self.turns:
            turn.stops = self.stops_of(turn.contender)
            _settle(turn)

    @classmethod
    def of(cls, events: Iterable[Event] | Self) -> Self:
        """The reading of events; of a reading, itself."""
        return events if isinstance(events, cls) else cls(events)  # type: ignore[arg-type]

    def all(self, kind: type[E]) -> list[tuple[int, E]]:
        """The events of a kind, with their positions."""
        return self._by_kind.get(kind, [])

    def has(self, kind: type[Event]) -> bool:
        """Whether there is an event of a kind."""
        return kind in self._by_kind

    def holds(self) -> Iterator[Turn]:
        """The turns in which something was held, in the order in which they began."""
        return (turn for turn in self.turns if turn.entered is not None)

    def holds_in(self, line: str) -> list[Turn]:
        """The holds of a line, in the order in which they began."""
        if line not in self._holds:
            held = [turn for turn in self.by_line[line] if turn.entered is not None]
            self._holds[line] = sorted(held, key=lambda turn: turn.entered_pos)
        return self._holds[line]

    def latest_holder(self, line: str, pos: float) -> Turn | None:
        """The contender of a queue that had entered last before a position."""
        holds = self.holds_in(line)
        index = bisect_left(holds, pos, key=lambda turn: turn.entered_pos)
        return holds[index - 1] if index else None

    def was_taken(self, turn: Turn) -> bool:
        """Whether an operator deleted its znode, while it held or after it had left."""
        node = turn.node
        if node is None or node.deleted == inf or node.by:
            return False
        revocations = self._revocations.get((turn.line, turn.contender), ())
        return any(turn.hold.at <= event.at <= node.deleted for _, event in revocations)

    def stops_of(self, contender: str) -> list[Stop]:
        """When the contender's process did not run, in order."""
        if not self._stops:
            return []
        stops = [stop for name in wholes(contender) for stop in self._stops.get(name, ())]
        return sorted(stops, key=lambda stop: stop.start)

    def all_stops(self) -> list[Stop]:
        """When any process did not run."""
        return [stop for stops in self._stops.values() for stop in stops]

    # --- contenders ----------------------------------------------------------------------------

    def _begin(self, line: str, contender: str) -> Turn:
        turn = Turn(line, contender)
        self.turns.append(turn)
        self.by_line[line].append(turn)
        self._current[line, contender] = turn
        for name in wholes(contender):
            self._open[name][turn] = None
        return turn

    def _close(self, turn: Turn, pos: int, event: Left | Withdrew | Killed) -> None:
        turn.closed, turn.closed_pos = event, pos
        for name in wholes(turn.contender):
            self._open[name].pop(turn, None)

    def _on_joined(self, pos: int, event: Joined) -> None:
        turn = self._begin(event.line, event.contender)
        turn.joined, turn.joined_pos = event, pos

    def _on_entered(self, pos: int, event: Entered) -> None:
        turn = self._current.get((event.line, event.contender))
        if turn is None or turn.closed is not None or turn.entered is not None:
            turn = self._begin(event.line, event.contender)
        turn.entered, turn.entered_pos = event, pos
        self._by_token[event.line, event.contender, event.token] = turn
        if event.path:
            nodes = self._by_path.get(event.path)
            turn.node = nodes[-1] if nodes else None
            own = self._by_czxid.get(event.token)
            if turn.revoked < inf and own is not None and own.path == event.path:
                # An operator deleted it before this was reported, and another client may have
                # created the next one at the same path.
                turn.node = own
            self.parents.setdefault(event.line, event.path.rpartition("/")[0])
        else:
            turn.node = self._by_czxid.get(event.token)
        # A campaign's term may have begun and ended before it is reported here.
        before = self._revocations.get((event.line, event.contender))
        if before and turn.node and turn.node.created_pos < before[-1][0]:
            self._revoke(turn, *before[-1])

    def _on_withdrew(self, pos: int, event: Withdrew) -> None:
        turn = self._current.get((event.line, event.contender))
        if turn is None or turn.closed is not None or turn.entered is not None:
            self.strays.append(event)
        else:
            self._close(turn, pos, event)

    def _held(
        self, event: SteppedDown | Looked | Left | Peeked | CallbackAdded | CallbackCalled
    ) -> Turn | None:
        turn = self._by_token.get((event.line, event.contender, event.token))
        if turn is None:
            self.strays.append(event)
        return turn

    def _on_left(self, pos: int, event: Left) -> None:
        if (turn := self._held(event)) is not None:
            self._close(turn, pos, event)

    def _on_stepped_down(self, pos: int, event: SteppedDown) -> None:
        if (turn := self._held(event)) is not None:
            turn.stepped.append((pos, event))

    def _on_looked(self, pos: int, event: Looked) -> None:
        if (turn := self._held(event)) is not None:
            turn.looks.append((pos, event))

    def _on_peeked(self, pos: int, event: Peeked) -> None:
        if (turn := self._held(event)) is not None:
            turn.peeks.append((pos, event))

    def _on_callback_added(self, _pos: int, event: CallbackAdded) -> None:
        if (turn := self._held(event)) is not None:
            turn.called_back = 0

    def _on_callback_called(self, _pos: int, event: CallbackCalled) -> None:
        if (turn := self._held(event)) is not None:
            turn.called_back = (turn.called_back or 0) + 1

    def _on_cancelled(self, pos: int, event: Cancelled) -> None:
        turn = self._current.get((event.line, event.contender))
        if turn is not None and turn.closed is None and turn.cancelled is None:
            turn.cancelled = event

    def _on_revoked(self, pos: int, event: Revoked) -> None:
        self._revocations[event.line, event.contender].append((pos, event))
        turn = self._current.get((event.line, event.contender))
        if turn is not None and turn.closed is None:
            self._revoke(turn, pos, event)

    def _revoke(self, turn: Turn, pos: int, event: Revoked) -> None:
        if turn.revoked == inf:
            turn.revoked, turn.revoked_pos = event.at, pos

    def _on_killed(self, pos: int, event: Killed) -> None:
        for turn in list(self._open.get(event.contender, ())):
            self._close(turn, pos, event)

    def _on_session(self, pos: int, event: Session) -> None:
        if event.state != "connected":
            return
        for turn in self._open.get(event.contender, ()):
            entered = turn.entered
            if (
                entered is not None
                and entered.session_id not in (0, event.session_id)
                and turn.replaced is None
            ):
                turn.replaced = (pos, event)

    # --- processes and faults ------------------------------------------------------------------

    def _on_stopped(self, _pos: int, event: Stopped) -> None:
        self._stops[event.contender].append(Stop(event.at))

    def _on_continued(self, _pos: int, event: Continued) -> None:
        stops = self._stops[event.contender]
        if stops and stops[-1].end == inf:
            stops[-1].end = event.at

    def _when_healed(self) -> float | None:
        faults, healings = self.all(FaultBegan), self.all(Healed)
        if not healings:
            return None if faults else -inf
        pos, healed = healings[-1]
        return None if faults and faults[-1][0] > pos else healed.at

    def _on_hostile(self, _pos: int, event: Hostile) -> None:
        self.hostile.add(event.session_id)

    # --- servers -------------------------------------------------------------------------------

    def _on_created(self, pos: int, event: NodeCreated) -> None:
        node = Node(event.path, event.czxid, event.owner, event.at, pos)
        self._by_path[event.path].append(node)
        self._by_czxid[event.czxid] = node
        if event.owner and event.owner not in self.hostile:
            self.nodes[node.parent].append(node)

    def _on_deleted(self, pos: int, event: NodeDeleted) -> None:
        nodes = self._by_path.get(event.path)
        if nodes and nodes[-1].deleted_pos == inf:
            node = nodes[-1]
            node.deleted, node.deleted_pos, node.by = event.at, pos, event.by
            node.was_changed = event.was_changed


_HANDLERS: dict[type[Event], Callable[[Reading, int, Any], None]] = {
    Joined: Reading._on_joined,
    Entered: Reading._on_entered,
    Withdrew: Reading._on_withdrew,
    Left: Reading._on_left,
    SteppedDown: Reading._on_stepped_down,
    Looked: Reading._on_looked,
    Peeked: Reading._on_peeked,
    CallbackAdded: Reading._on_callback_added,
    CallbackCalled: Reading._on_callback_called,
    Hostile: Reading._on_hostile,
    Cancelled: Reading._on_cancelled,
    Revoked: Reading._on_revoked,
    Killed: Reading._on_killed,
    Session: Reading._on_session,
    Stopped: Reading._on_stopped,
    Continued: Reading._on_continued,
    NodeCreated: Reading._on_created,
    NodeDeleted: Reading._on_deleted,
}


def wholes(name: str) -> list[str]:
    """A name and all that it is a part of: `a/b/c`, `a/b` and `a`."""
    if "/" not in name:
        return [name]
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _settle(turn: Turn) -> None:
    """Says when the hold counts as ended.

    Most often that is when its body has ended, or its process. It is earlier if an operator took
    it away, which no holder can know in time; if its holder resigned; and for a body that does not
    heed its cancellation: there, the time counts at which it was notified, or found out for good.
    """
    ends = [(turn.closed_pos, turn.closed_at), (turn.revoked_pos, turn.revoked)]
    for pos, step in turn.stepped:
        if step.why == RESIGNED or (turn.entered is not None and turn.entered.stubborn):
            ends.append((pos, step.at))
    if turn.entered is not None and turn.entered.stubborn:
        found: tuple[float, float] | None = None
        for pos, look in turn.looks:
            if look.held:
                found = None
            elif found is None:
                found = (pos, look.at)
        if found is not None:
            ends.append(found)
    turn.over_pos, turn.over = min(ends)
