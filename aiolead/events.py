"""What happens, as values: one type of event, with names that stay as they are.

`docs/observability.md` says which there are, when each is told, and what its fields mean. A client
tells them to the log, and to the sinks that were passed to `connect(on_event=)`.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ._escaping import escaped
from ._logging import get_logger

__all__ = ["Event", "EventName"]

Field = str | int | float

LOGGERS = {
    "session": get_logger("aiolead.client"),
    "lease": get_logger("aiolead.client"),
    "connection": get_logger("aiolead.connection"),
    "contention": get_logger("aiolead.recipes"),
    "tenure": get_logger("aiolead.recipes"),
    "election": get_logger("aiolead.recipes"),
}
"""Where events are logged, by the first part of their names."""

# Whether what a library logs is shown is for the program to say; until it does, nothing is.
get_logger("aiolead").addHandler(logging.NullHandler())


class EventName(enum.StrEnum):
    """What may happen. The names are stable; `docs/observability.md` describes each."""

    SESSION_CONNECTING = "session.connecting"
    SESSION_CONNECTED = "session.connected"
    SESSION_READ_ONLY = "session.read_only"
    SESSION_SUSPENDED = "session.suspended"
    SESSION_EXPIRED = "session.expired"
    SESSION_AUTH_FAILED = "session.auth_failed"
    SESSION_CLOSED = "session.closed"
    CONNECTION_OPENED = "connection.opened"
    CONNECTION_FAILED = "connection.failed"
    CONNECTION_LOST = "connection.lost"
    LEASE_RENEWED = "lease.renewed"
    LEASE_LATE = "lease.late"
    CONTENTION_BEGUN = "contention.begun"
    CONTENTION_ENDED = "contention.ended"
    TENURE_BEGUN = "tenure.begun"
    TENURE_ENDED = "tenure.ended"
    ELECTION_CHANGED = "election.changed"


@dataclass(frozen=True, slots=True)
class Event:
    r"""Something that has happened. `str` gives the line that is logged.

    Paths, identities and reasons were written by other processes. The attributes have them as they
    are; `str` and `as_dict` escape control characters, line separators and changes of direction, as
    `\x1b`, `\u2028`, `\u202e`.

    Attributes:
        name: what.
        level: how much it matters, as `logging` counts.
        session_id: the session that it speaks of; 0 while there is none.
        path: the znode or recipe that it speaks of, from the root of the servers' tree; empty where
            it speaks of none.
        fields: what else there is to say, by name. Never a password, and never a znode's data but
            for the identities of contenders.
    """

    name: EventName
    level: int
    session_id: int = 0
    path: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        line = _LINES[self.name].format(
            self=self, session=f"session {_hex(self.session_id)}", **self.fields
        )
        return escaped(line)

    def as_dict(self) -> dict[str, Field]:
        """All of it, flat, but for the level: for structured logs. Texts are escaped."""
        whole: dict[str, Field] = {"event": str(self.name)}
        if self.session_id:
            whole["session_id"] = _hex(self.session_id)
        if self.path:
            whole["path"] = escaped(self.path)
        for name, value in self.fields.items():
            whole[name] = escaped(value) if isinstance(value, str) else value
        return whole


EventSink = Callable[[Event], object]
"""Is called with each event, in the client's event loop. It must be quick, and must not use the
client. What it raises is logged, once, and changes nothing."""


_STATE = "{session}: "
_LINES: dict[EventName, str] = {
    # These say what was logged before there were events.
    EventName.SESSION_CONNECTING: _STATE + "connecting",
    EventName.SESSION_CONNECTED: _STATE + "connected",
    EventName.SESSION_READ_ONLY: _STATE + "read-only",
    EventName.SESSION_SUSPENDED: _STATE + "suspended",
    EventName.SESSION_EXPIRED: _STATE + "expired",
    EventName.SESSION_AUTH_FAILED: _STATE + "auth failed",
    EventName.SESSION_CLOSED: _STATE + "closed",
    EventName.CONNECTION_OPENED: "{server}: {session}",
    EventName.CONNECTION_FAILED: "{server}: {reason}",
    EventName.CONNECTION_LOST: "{server}: {reason}",
    EventName.LEASE_RENEWED: _STATE + "lease renewed in {took:.3f} s, {remaining:.3f} s are left",
    EventName.LEASE_LATE: _STATE
    + "lease renewed late, in {took:.3f} s with a session timeout of {timeout:g} s, "
    "{remaining:.3f} s are left",
    EventName.CONTENTION_BEGUN: "{recipe} {self.path}: {identity} waits",
    EventName.CONTENTION_ENDED: "{recipe} {self.path}: {identity} waited {waited:.3f} s: {outcome}",
    EventName.TENURE_BEGUN: "{recipe} {self.path}: {identity} holds it, token {token}",
    EventName.TENURE_ENDED: "{recipe} {self.path}: {identity} held it for {lasted:.3f} s, token "
    "{token}: {reason}",
    EventName.ELECTION_CHANGED: "Election {self.path}: {leaders} lead, first of all {identity!r}",
}


def _hex(session_id: int) -> str:
    return f"0x{session_id:x}"


class EventHub:
    """Tells the log, and the sinks of one client.

    Args:
        sinks: who is told of every event, in order.
    """

    __slots__ = ("_complained", "_sinks")

    def __init__(self, sinks: Sequence[EventSink] = ()) -> None:
        self._sinks = tuple(sinks)
        self._complained: set[int] = set()

    def hears(self, level: int) -> bool:
        """Whether anybody would hear of what a recipe tells at that level: asked before it does."""
        return bool(self._sinks) or _RECIPES.isEnabledFor(level)

    def tell(
        self,
        name: EventName,
        level: int,
        *,
        session_id: int = 0,
        path: str = "",
        fields: Mapping[str, Field],
    ) -> None:
        """Tells of an event. Never raises, whatever a sink or a handler of the log does."""
        event = Event(name, level, session_id, path, fields)
        self._guarded(-1, _log, event)
        for number, sink in enumerate(self._sinks):
            self._guarded(number, sink, event)

    def _guarded(self, number: int, sink: EventSink, event: Event) -> None:
        try:
            sink(event)
        except (Exception, _asyncios_cancellation()):
            # Nobody can cancel a plain function: it comes from what the sink itself has looked at.
            if number in self._complained:
                return
            self._complained.add(number)
            self._guarded(-2, _complain, event)


_RECIPES = LOGGERS["tenure"]


def _asyncios_cancellation() -> type[BaseException]:
    # Asked for only where something is raised: programs on trio have no use for all of asyncio.
    from asyncio import CancelledError

    return CancelledError


def _log(event: Event) -> None:
    logger = LOGGERS[event.name.partition(".")[0]]
    if logger.isEnabledFor(event.level):
        extra = {"aiolead_event": str(event.name), "aiolead_fields": event.as_dict()}
        logger.log(event.level, "%s", event, extra=extra)


def _complain(event: Event) -> None:
    get_logger("aiolead").exception("an event sink failed at %s; this is told once", event.name)


class ViewHook:
    """An `aiolead.abc.EventHook`: the hub, as the client of one chroot tells it things.

    Args:
        hub: who is told.
        prefix: the chroot: paths are told from the root of the servers' tree.
        clock: tells the time, in seconds.
    """

    __slots__ = ("_clock", "_hub", "_prefix")

    def __init__(
        self, hub: EventHub, prefix: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._hub = hub
        self._prefix = prefix
        self._clock = clock

    def hears(self, level: int) -> bool:
        """See `EventHub.hears`."""
        return self._hub.hears(level)

    def now(self) -> float:
        """Seconds on the clock."""
        return self._clock()

    def tell(
        self,
        name: EventName,
        level: int,
        *,
        session_id: int,
        path: str,
        fields: Mapping[str, Field],
    ) -> None:
        """See `EventHub.tell`."""
        self._hub.tell(name, level, session_id=session_id, path=self._prefix + path, fields=fields)
