"""Metrics from events: the same measures for every metrics system."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .._util.escaping import escaped
from ..events import Event, EventName

__all__ = ["MEASURES", "Measure", "Measures", "MetricKind", "PathLabel"]

PathLabel = Callable[[Event], str]
"""Returns the label for a recipe's path. Put very many paths into few groups."""


class MetricKind(enum.Enum):
    COUNT = "counter"
    LEVEL = "gauge"
    """The values are changes of it, up or down."""
    TIME = "histogram"
    """Durations in seconds."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric: its name with dots, description, label names, and a histogram's bucket bounds."""

    name: str
    kind: MetricKind
    says: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        name = self.name.replace(".", "_")
        match self.kind:
            case MetricKind.COUNT:
                return f"{name}_total"
            case MetricKind.TIME:
                return f"{name}_seconds"
            case MetricKind.LEVEL:
                return name


SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets for a few round trips."""
LONG = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)
"""Buckets for waits and holds of any length."""

_RECIPE = ("recipe", "path")

STANDSTILL = Measure(
    "aiolead.client.standstill", MetricKind.TIME, "times that the process stood still", (), SHORT
)
CONNECTED = Measure("aiolead.session.connected", MetricKind.LEVEL, "clients with a live session")
CHANGES = Measure(
    "aiolead.session.changes", MetricKind.COUNT, "changes of sessions' states", ("state",)
)
AWAY = Measure(
    "aiolead.session.away", MetricKind.TIME, "time until a lost connection was restored", (), SHORT
)
ATTEMPTS = Measure(
    "aiolead.connection.attempts",
    MetricKind.COUNT,
    "attempts to connect",
    ("outcome", "server", "error"),
)
LOSSES = Measure(
    "aiolead.connection.losses",
    MetricKind.COUNT,
    "connections that were lost",
    ("server", "error"),
)
MISSING = Measure(
    "aiolead.connection.missing", MetricKind.COUNT, "reports that no server serves the client"
)
REQUEST = Measure(
    "aiolead.request",
    MetricKind.TIME,
    "requests until their answers",
    ("operation", "error"),
    SHORT,
)
RENEWAL = Measure("aiolead.lease.renewal", MetricKind.TIME, "renewals of leases", (), SHORT)
LATE = Measure("aiolead.lease.late", MetricKind.COUNT, "late renewals of leases")
CONTENDERS = Measure("aiolead.contenders", MetricKind.LEVEL, "waiting contenders", _RECIPE)
LONG_WAITS = Measure(
    "aiolead.contention.waiting", MetricKind.COUNT, "reports of waits that take long", _RECIPE
)
BLOCKED = Measure(
    "aiolead.contention.blocked", MetricKind.COUNT, "reports of znodes that block a path", ("path",)
)
WAIT = Measure("aiolead.wait", MetricKind.TIME, "waits of contenders", (*_RECIPE, "outcome"), LONG)
HELD = Measure("aiolead.held", MetricKind.LEVEL, "current terms and holds", _RECIPE)
TENURE = Measure(
    "aiolead.tenure", MetricKind.TIME, "durations of ended terms and holds", _RECIPE, LONG
)
ENDS = Measure("aiolead.tenures.ended", MetricKind.COUNT, "ends of terms", (*_RECIPE, "reason"))
HANDOVERS = Measure(
    "aiolead.election.changes", MetricKind.COUNT, "changes of observed leaders", ("path",)
)

RETRIES = Measure(
    "aiolead.items.retried", MetricKind.COUNT, "items released for another attempt", _RECIPE
)
GIVEN_UP = Measure(
    "aiolead.items.given_up", MetricKind.COUNT, "items given up after their last attempt", _RECIPE
)

MEASURES: tuple[Measure, ...] = (
    STANDSTILL,
    CONNECTED,
    CHANGES,
    AWAY,
    ATTEMPTS,
    LOSSES,
    MISSING,
    REQUEST,
    RENEWAL,
    LATE,
    CONTENDERS,
    LONG_WAITS,
    BLOCKED,
    WAIT,
    HELD,
    TENURE,
    ENDS,
    HANDOVERS,
    RETRIES,
    GIVEN_UP,
)

_IS_CONNECTED = ("connected", "read-only")

Value = tuple[Measure, float, dict[str, str]]


class Measures:
    """Reads the values of measures from events; a path's label defaults to the path itself."""

    def __init__(self, path_label: PathLabel | None = None) -> None:
        self._path_label = path_label or _path

    def of(self, event: Event) -> Iterator[Value]:
        """Yields the measures that an event changes, with their values and labels."""
        name, fields = event.name, event.fields
        match name:
            case EventName.CLIENT_STALLED:
                yield STANDSTILL, float(fields["lasted"]), {}
            case EventName.CONNECTION_OPENED:
                yield ATTEMPTS, 1, {"outcome": "opened", **_server(event)}
            case EventName.CONNECTION_FAILED:
                yield ATTEMPTS, 1, {"outcome": "failed", **_server(event)}
            case EventName.CONNECTION_LOST:
                yield LOSSES, 1, _server(event)
            case EventName.CONNECTION_MISSING:
                yield MISSING, 1, {}
            case EventName.REQUEST_ENDED:
                labels = {name: str(fields[name]) for name in REQUEST.labels}
                yield REQUEST, float(fields["took"]), labels
            case EventName.LEASE_RENEWED:
                yield RENEWAL, float(fields["took"]), {}
            case EventName.LEASE_LATE:
                yield LATE, 1, {}
            case EventName.CONTENTION_BEGUN:
                yield CONTENDERS, 1, self._recipe(event)
                # The series exists, at 0, before there is a first leader.
                yield HELD, 0, self._recipe(event)
            case EventName.CONTENTION_WAITING:
                yield LONG_WAITS, 1, self._recipe(event)
            case EventName.CONTENTION_BLOCKED:
                yield BLOCKED, 1, {"path": self._path_label(event)}
            case EventName.CONTENTION_ENDED:
                yield CONTENDERS, -1, self._recipe(event)
                outcome = {"outcome": str(fields["outcome"])}
                yield WAIT, float(fields["waited"]), self._recipe(event) | outcome
            case EventName.TENURE_BEGUN:
                yield HELD, 1, self._recipe(event)
            case EventName.TENURE_ENDED:
                yield HELD, -1, self._recipe(event)
                yield TENURE, float(fields["lasted"]), self._recipe(event)
                yield ENDS, 1, self._recipe(event) | {"reason": str(fields["reason"])}
            case EventName.ITEM_RETRIED:
                yield RETRIES, 1, self._recipe(event)
            case EventName.ITEM_GIVEN_UP:
                yield GIVEN_UP, 1, self._recipe(event)
            case EventName.ELECTION_CHANGED:
                yield HANDOVERS, 1, {"path": self._path_label(event)}
            case _:
                yield from self._of_session(event)

    def _of_session(self, event: Event) -> Iterator[Value]:
        state = event.name.partition(".")[2]
        yield CHANGES, 1, {"state": state}
        is_connected = event.name in (EventName.SESSION_CONNECTED, EventName.SESSION_READ_ONLY)
        rise = int(is_connected) - int(event.fields["before"] in _IS_CONNECTED)
        if rise:
            yield CONNECTED, rise, {}
        if away := event.fields.get("away"):
            yield AWAY, float(away), {}

    def _recipe(self, event: Event) -> dict[str, str]:
        return {"recipe": str(event.fields["recipe"]), "path": self._path_label(event)}


def _path(event: Event) -> str:
    return escaped(event.path)


def _server(event: Event) -> dict[str, str]:
    """The server that an event is about, and the type of the error, if there is one."""
    fields = event.fields
    return {"server": escaped(str(fields["server"])), "error": str(fields.get("error", ""))}
