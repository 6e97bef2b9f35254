"""The kinds of events by name, and their fields: for what writes and reads events as values."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from .events import (
    Acted,
    Began,
    CallbackAdded,
    CallbackCalled,
    Cancelled,
    ClosedByGuardian,
    Continued,
    Counted,
    Ended,
    Entered,
    Event,
    FaultBegan,
    FaultEnded,
    Healed,
    Hostile,
    Joined,
    Killed,
    LeaderChanged,
    Left,
    Leftover,
    Lived,
    Logged,
    Looked,
    NodeCreated,
    NodeDeleted,
    Notified,
    Peeked,
    Reached,
    Read,
    Requested,
    Revoked,
    Session,
    SessionOpened,
    SessionOver,
    SteppedDown,
    Stopped,
    Withdrew,
    Wrote,
)


def fields_of(event: Event) -> tuple[Any, ...]:
    """The values of an event's fields, in the order of `names_of`."""
    return _GETTERS[type(event)](event)


def names_of(kind: type[Event]) -> tuple[str, ...]:
    """The names of the fields of a kind of events."""
    return tuple(kind.__dataclass_fields__)


KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        *(Joined, Cancelled, Withdrew, Entered, SteppedDown, Left, Looked, Acted, Revoked),
        *(Read, Wrote, Session, Began, Ended, Killed, Stopped, Continued),
        *(Lived, ClosedByGuardian),
        *(Peeked, CallbackAdded, CallbackCalled, Hostile),
        *(FaultBegan, FaultEnded, Healed),
        *(NodeCreated, NodeDeleted, SessionOpened, SessionOver, LeaderChanged, Notified),
        Requested,
        *(Leftover, Counted, Logged, Reached),
    )
}
"""All kinds of events, by name."""

# A getter of one field only would not give a tuple.
_GETTERS: dict[type[Event], Callable[[Event], tuple[Any, ...]]] = {
    kind: attrgetter(*names_of(kind)) for kind in KINDS.values() if kind is not Healed
}
_GETTERS[Healed] = lambda event: (event.at,)
