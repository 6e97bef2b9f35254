"""Events of a client and of its recipes, as values of one type with stable names.

A client emits them to the log, and to the sinks of `connect(on_event=)`.
`docs/how-to/observability.md` describes each event and its fields.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ._util.escaping import as_line, get_logger, lasting, repr_with_session, shown_session
from .errors import LossReason

__all__ = ["Event", "EventName"]

Field = str | int | float

LOGGERS = {
    "client": get_logger("aiolead.client"),
    "session": get_logger("aiolead.client"),
    "lease": get_logger("aiolead.client"),
    "connection": get_logger("aiolead.connection"),
    "request": get_logger("aiolead.connection"),
    "contention": get_logger("aiolead.recipes"),
    "tenure": get_logger("aiolead.recipes"),
    "item": get_logger("aiolead.recipes"),
    "election": get_logger("aiolead.recipes"),
}
"""The loggers of events, by the first part of their names."""


class EventName(enum.StrEnum):
    """The stable names of events; `docs/how-to/observability.md` describes each."""

    CLIENT_STALLED = "client.stalled"
    SESSION_CONNECTING = "session.connecting"
    SESSION_CONNECTED = "session.connected"
    SESSION_READ_ONLY = "session.read_only"
    SESSION_SUSPENDED = "session.suspended"
    SESSION_EXPIRED = "session.expired"
    SESSION_AUTH_FAILED = "session.auth_failed"
    SESSION_CLOSED = "session.closed"
    CONNECTION_OPENED = "connection.opened"
    CONNECTION_FAILED = "connection.failed"
    CONNECTION_MISSING = "connection.missing"
    CONNECTION_LOST = "connection.lost"
    LEASE_RENEWED = "lease.renewed"
    LEASE_LATE = "lease.late"
    REQUEST_ENDED = "request.ended"
    CONTENTION_BEGUN = "contention.begun"
    CONTENTION_WAITING = "contention.waiting"
    CONTENTION_BLOCKED = "contention.blocked"
    CONTENTION_ENDED = "contention.ended"
    TENURE_BEGUN = "tenure.begun"
    TENURE_ENDED = "tenure.ended"
    ITEM_RETRIED = "item.retried"
    ITEM_GIVEN_UP = "item.given_up"
    ELECTION_CHANGED = "election.changed"


@dataclass(frozen=True, slots=True)
class Event:
    r"""Something that has happened. `str` gives the line that is logged.

    Other processes wrote paths, identities and reasons. Attributes have them unescaped; `str` and
    `as_dict` escape control characters, line separators and changes of direction, as `\x1b`,
    `\u2028`, `\u202e`, and leave out the middle of what has more than 4,000 characters.

    Attributes:
        name: the type of the event.
        level: its level, as in `logging`.
        session_id: the session concerned; 0 while there is none.
        path: the znode or recipe concerned, from the root of the servers' tree; empty if none is.
        fields: details by name. Never a password; of znodes' data only contenders' identities.
    """

    name: EventName
    level: int
    session_id: int = 0
    path: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        return repr_with_session(self)

    def __str__(self) -> str:
        line = _LINES[self.name]
        if isinstance(line, str):
            session = f"session {shown_session(self.session_id)}"
            words: dict[str, object] = {"self": self, "session": session}
            words |= {"more": _and_more(self), "subject": _subject(self)}
            words["failed"] = f": {error}" if (error := self.fields.get("error")) else ""
            return as_line(line.format_map(words | dict(self.fields)))
        return as_line(line(self))

    def as_dict(self) -> dict[str, Field]:
        """All but the level as a flat mapping, for structured logs. Text is escaped and cut."""
        whole: dict[str, Field] = {"event": str(self.name)}
        if self.session_id:
            whole["session_id"] = shown_session(self.session_id)
        if self.path:
            whole["path"] = as_line(self.path)
        for name, value in self.fields.items():
            whole[name] = as_line(value) if isinstance(value, str) else value
        return whole


EventSink = Callable[[Event], object]
"""Called with each event, in the client's event loop. It must be quick and must not use the client.
Its exceptions are logged once, and change nothing. If it has an attribute `wants_requests` that is
true, it also gets `request.ended`, in the context of the task that made the request."""


def _and_more(event: Event) -> str:
    """The end of a line that stands for others, which were logged at DEBUG."""
    hidden = event.fields.get("hidden")
    return f" (and {hidden} times before)" if hidden else ""


def _opened(event: Event) -> str:
    fields, session = event.fields, f"session {shown_session(event.session_id)}"
    if fields["session"] == "first":
        away = float(fields["away"])
        after = f" after {away:.1f} s" if away >= 1 else ""
        return f"connected to {fields['server']}{after}: {session}"
    kept = "kept" if fields["session"] == "kept" else "is new"
    return f"connected to {fields['server']} again after {fields['away']:.1f} s: {session} {kept}"


def _missing(event: Event) -> str:
    fields = event.fields
    attempts = fields["attempts"]
    if int(fields["reports"]) > 1:
        return f"still no server after {fields['away']:.0f} s: {attempts}"
    if fields["session"] == "first":
        return f"no server yet, trying: {attempts}"
    return f"no server, trying: {attempts}"


def _lost(event: Event) -> str:
    fields = event.fields
    if fields["error"] == "ConnectionLeft":
        return f"left {fields['server']}: {fields['reason']}"
    lease = ""
    if held := fields["held"]:
        holds = "1 hold" if held == 1 else f"{held} holds"
        lease = f"; the lease of {holds} ends in {fields['remaining']:.1f} s"
    return f"connection to {fields['server']} lost ({fields['reason']}){lease}{_and_more(event)}"


_LOSSES = {reason.name.lower(): reason for reason in LossReason}
_WANTED = (LossReason.CLOSED, LossReason.REVOKED)
"""Ends that somebody has asked for: their lines do not begin with LOST."""


def _subject(event: Event) -> str:
    recipe = event.fields.get("recipe")
    return f"leadership of {event.path}" if recipe == "Election" else f"{recipe} {event.path}"


def shown_holder(identity: str, age: float, before: int) -> str:
    """A holder for a message: `host-1:4711 (there for 2 h 3 min, 4 before us)`.

    Args:
        identity: its name, of which a hundred characters are shown.
        age: the age of its znode, in seconds. It may have waited before it held.
        before: how many contenders are before us, with the holder; 0 if that is unknown.
    """
    name = identity[:MOST_SHOWN] + ("..." if len(identity) > MOST_SHOWN else "")
    more = f", {before} before us" if before else ""
    return f"{name or 'a holder without a name'} (there for {lasting(age)}{more})"


OWNERLESS = "belongs to no session: it will never go away by itself"
"""The reason to warn of a persistent znode that contenders wait for."""


def _blocked(event: Event) -> str:
    from datetime import UTC, datetime

    znode = event.fields["znode"]
    try:
        created = datetime.fromtimestamp(float(event.fields["created"]), UTC)
        when = f"{created:%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        when = "at a time that is none"  # a server may say anything
    return (
        f"{znode}: contenders wait for this znode, which {OWNERLESS}. It was created {when}. If no "
        f"program needs it, delete it: aiolead rm {znode}"
    )


def _waiting(event: Event) -> str:
    fields, lasts = event.fields, lasting(float(event.fields["waited"]))
    behind = ""
    if fields["is_known"]:
        who = str(fields["holder"]), float(fields["age"]), int(fields["position"])
        behind = f" behind {shown_holder(*who)}"
    return f"waiting for {_subject(event)} for {lasts}{behind}"


def _ended(event: Event) -> str:
    fields, subject = event.fields, _subject(event)
    after = f"(token {fields['token']}) after {fields['lasted']:.1f} s"
    loss = _LOSSES.get(str(fields["reason"]))
    if loss is None or loss in _WANTED:
        why = fields["reason"] if loss is None else loss.value
        return f"{subject} has ended {after}: {why}"
    cause = f" ({fields['cause']})" if fields["cause"] else ""
    return f"LOST {subject} {after}: {loss.value}{cause}{_and_more(event)}"


_LINES: dict[EventName, str | Callable[[Event], str]] = {
    EventName.CLIENT_STALLED: "this process stood still for {lasted:.1f} s or more: its event loop "
    "was blocked, or the process or its machine was frozen{more}",
    EventName.SESSION_CONNECTING: "{session}: connecting",
    EventName.SESSION_CONNECTED: "{session}: connected",
    EventName.SESSION_READ_ONLY: "{session}: read-only",
    EventName.SESSION_SUSPENDED: "{session}: suspended",
    EventName.SESSION_EXPIRED: "{session} has expired: its ephemeral znodes are deleted",
    EventName.SESSION_AUTH_FAILED: "{session} has ended: {reason}",
    EventName.SESSION_CLOSED: "{session}: closed",
    EventName.CONNECTION_OPENED: _opened,
    EventName.CONNECTION_FAILED: "{server}: {reason}",
    EventName.CONNECTION_MISSING: _missing,
    EventName.CONNECTION_LOST: _lost,
    EventName.LEASE_RENEWED: "{session}: lease renewed in {took:.3f} s, {remaining:.3f} s are left",
    EventName.LEASE_LATE: "{session}: lease renewed late, in {took:.3f} s with a session timeout "
    "of {timeout:g} s, {remaining:.3f} s are left{more}",
    EventName.REQUEST_ENDED: "{server}: {operation} {znode}: {took:.3f} s{failed}",
    EventName.CONTENTION_BEGUN: "{recipe} {self.path}: {identity} waits",
    EventName.CONTENTION_WAITING: _waiting,
    EventName.CONTENTION_BLOCKED: _blocked,
    EventName.CONTENTION_ENDED: "{recipe} {self.path}: {identity} waited {waited:.3f} s: {outcome}",
    EventName.TENURE_BEGUN: "holds {subject} as {identity} (token {token})",
    EventName.TENURE_ENDED: _ended,
    EventName.ITEM_RETRIED: "{recipe} {self.path}: {identity} released {item} after attempt "
    "{attempt}, the next one follows in {delay:.3f} s",
    EventName.ITEM_GIVEN_UP: "{recipe} {self.path}: {identity} gave up {item} after attempt "
    "{attempt}",
    EventName.ELECTION_CHANGED: "Election {self.path}: {leaders} lead, first of all {identity!r}",
}


MOST_SHOWN = 100
"""The most characters of an identity in a line."""

FIRST_REPORT = 30.0
"""How long something lasts until it is reported again, in seconds; the pauses double."""


def next_report(lasts: float, due: float, longest: float) -> float:
    """When to report again what lasts so many seconds, after a report that was `due` earlier.

    Ever more rarely: the pauses double, up to `longest`.
    """
    while due <= lasts:
        due += min(max(due, FIRST_REPORT), longest)
    return due


class Limit:
    """How often something is shown: `burst` times within `period` seconds, by the caller's clock.

    The others are counted, and the next one that is shown gets the count.
    """

    __slots__ = ("_burst", "_hidden", "_period", "_shown")

    def __init__(self, burst: int, period: float) -> None:
        self._burst = burst
        self._period = period
        self._shown: deque[float] = deque(maxlen=burst)
        self._hidden = 0

    @property
    def has_hidden(self) -> bool:
        """Whether any were hidden since the last one that was shown."""
        return self._hidden > 0

    def admit(self, now: float, *, always: bool = False) -> tuple[bool, int]:
        """Whether to show one now, and how many were hidden since the last one that was shown."""
        if not always and len(self._shown) == self._burst and now - self._shown[0] < self._period:
            self._hidden += 1
            return False, 0
        self._shown.append(now)
        hidden, self._hidden = self._hidden, 0
        return True, hidden


def _always(_level: int) -> bool:
    return True


class EventHook:
    """Emits events to the log and, in order, to the sinks of one client; `Backend.events`.

    `prefix` is the chroot; events have paths from the root of the servers' tree.
    """

    __slots__ = ("_complained", "_prefix", "_sinks", "now", "trouble", "wants")

    def __init__(
        self,
        sinks: Sequence[EventSink] = (),
        prefix: str = "",
        clock: Callable[[], float] = time.monotonic,
        trouble: Callable[[], str] = str,
    ) -> None:
        self.trouble: Callable[[], str] = trouble
        """Returns why the servers confirm nothing now, as far as the client knows. Any thread may
        call it."""
        self._sinks = tuple(sinks)
        self.wants: Callable[[int], bool] = _always if self._sinks else _RECIPES.isEnabledFor
        """Returns whether a recipe's event of a level would reach anyone."""
        self._prefix = prefix
        self.now: Callable[[], float] = clock
        """The monotonic clock, in seconds: recipes keep it, to get durations."""
        self._complained: set[int] = set()

    @property
    def wants_requests(self) -> bool:
        """Whether a sink wants an event of each request: it has a true `wants_requests`."""
        return any(getattr(sink, "wants_requests", False) for sink in self._sinks)

    def below(self, prefix: str, clock: Callable[[], float]) -> EventHook:
        """The same hook for the client of one chroot."""
        hook = EventHook(self._sinks, prefix, clock, self.trouble)
        hook._complained = self._complained
        return hook

    def emit(
        self,
        name: EventName,
        level: int,
        *,
        session_id: int = 0,
        path: str = "",
        fields: Mapping[str, Field],
    ) -> None:
        """Emit an event. Never raises, whatever a sink or a log handler does."""
        event = Event(name, level, session_id, self._prefix + path, fields)
        self._guarded(-1, _log, event)
        for number, sink in enumerate(self._sinks):
            self._guarded(number, sink, event)

    def _guarded(self, number: int, sink: EventSink, event: Event) -> None:
        try:
            sink(event)
        except (Exception, _asyncios_cancellation()):
            # A plain function cannot be cancelled: the sink raised it by itself.
            if number in self._complained:
                return
            self._complained.add(number)
            self._guarded(-2, _complain, event)


_RECIPES = LOGGERS["tenure"]


def _asyncios_cancellation() -> type[BaseException]:
    # Imported only when a sink raises: programs on trio do not need asyncio.
    from asyncio import CancelledError

    return CancelledError


def _log(event: Event) -> None:
    logger = LOGGERS[event.name.partition(".")[0]]
    if logger.isEnabledFor(event.level):
        extra = {"aiolead_event": str(event.name), "aiolead_fields": event.as_dict()}
        logger.log(event.level, "%s", event, extra=extra)


def _complain(event: Event) -> None:
    get_logger("aiolead").exception("an event sink failed at %s; this is logged once", event.name)
