"""Events as values, and their effects: the log, metrics, spans. No client takes part."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
from kit.pages import EVENTS
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry

import aiolead
from aiolead._recipes.reporting import RecipeReporting
from aiolead._session.states import TRANSITIONS
from aiolead.errors import LossReason
from aiolead.events import (
    LOGGERS,
    Event,
    EventHook,
    EventName,
    EventSink,
    Limit,
    next_report,
)
from aiolead.instrumentation.measures import LONG, MEASURES, Measures, MetricKind
from aiolead.instrumentation.otel import OpenTelemetrySink
from aiolead.instrumentation.prometheus import PrometheusSink
from aiolead.instrumentation.structlog import StructlogSink
from aiolead.model import SessionState

ROOT = Path(aiolead.__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to" / "observability.md").read_text("utf-8")
FOLDER = ROOT / "examples" / "observability"

SAMPLES: dict[str, str | int | float] = {
    "age": 8000.0, "attempt": 3, "attempts": "zk1:2181: refused", "away": 0.25,
    "before": "connected", "cause": "", "created": 1e9, "delay": 0.2, "error": "OSError",
    "held": 0, "hidden": 0, "holder": "host-2", "identity": "host-1", "is_known": 1,
    "item": "queue-0000000007", "lasted": 3.5, "leaders": 1, "operation": "GET_DATA",
    "outcome": "held", "position": 4, "reason": "expired", "recipe": "Lock",
    "remaining": 5.5, "reports": 1, "server": "zk1:2181",
    "session": "kept", "timeout": 8.0, "token": 17, "took": 0.125, "waited": 2.5,
    "znode": "/app/lock/a-0000000000",
}  # fmt: skip


def _event(name: EventName, **fields: str | int | float) -> Event:
    """An event as the page describes it."""
    levels, names = EVENTS[name]
    return Event(name, levels[0], 0x2A, "/app/lock", {n: SAMPLES[n] for n in names} | fields)


LATE = _event(EventName.LEASE_LATE)


def _emit(hub: EventHook, event: Event = LATE) -> None:
    hub.emit(
        event.name, event.level, session_id=event.session_id, path=event.path, fields=event.fields
    )


def _fails_with(error: BaseException) -> EventSink:
    def sink(_: Event) -> None:
        raise error

    return sink


# --- names, lines, the log ---------------------------------------------------------------------


def test_page_has_exactly_the_events() -> None:
    assert set(EVENTS) == set(EventName)
    assert {name.partition(".")[0] for name in EventName} == set(LOGGERS)


@pytest.mark.parametrize("name", EventName)
def test_event_is_a_line_of_the_log_and_a_dict(
    name: EventName, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aiolead")
    event = _event(name)
    _emit(EventHook(), event)
    (record,) = caplog.records
    assert record.getMessage() == str(event)
    assert "{" not in str(event)
    assert record.levelno == event.level
    assert record.name == LOGGERS[name.partition(".")[0]].name
    extra = vars(record)
    assert extra["aiolead_event"] == name.value
    who = {"event": name.value, "session_id": "0x2a", "path": "/app/lock"}
    assert extra["aiolead_fields"] == who | event.fields
    assert type(extra["aiolead_event"]) is str


def test_log_lines_of_sessions_and_connections() -> None:
    refused = _event(EventName.SESSION_AUTH_FAILED, reason="a credential was refused")
    assert str(refused) == "session 0x2a has ended: a credential was refused"
    negative = Event(EventName.SESSION_CLOSED, logging.DEBUG, -(0xC8 << 55), None, {})
    assert str(negative) == "session 0x9c00000000000000: closed"
    assert negative.as_dict()["session_id"] == "0x9c00000000000000"
    assert str(_event(EventName.SESSION_READ_ONLY)) == "session 0x2a: read-only"
    lost = _event(EventName.CONNECTION_LOST, reason="EOF {x}")
    assert str(lost) == "connection to zk1:2181 lost (EOF {x})"


PRINT = """
import logging, sys
from aiolead.events import EventHook, EventName
if sys.argv[1:]:
    exec(sys.argv[1])
fields = {"took": 3, "remaining": 4, "timeout": 10, "hidden": 0}
for level in (logging.DEBUG, logging.INFO, logging.WARNING):
    EventHook().emit(EventName.LEASE_LATE, level, fields={**fields, "took": level})
"""


@pytest.mark.parametrize(
    ("first", "count"),
    [("", 1), ("logging.getLogger('aiolead').setLevel(logging.CRITICAL)", 0)],
    ids=["unconfigured", "silenced"],
)
def test_program_without_logging_configuration_prints_warnings(first: str, count: int) -> None:
    assert logging.getLogger("aiolead").handlers == []
    command = [sys.executable, "-c", PRINT, *([first] if first else [])]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60.0
    )
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == count
    assert all(line.startswith("session 0x0: lease renewed late, in 30.000 s") for line in lines)


# --- repeated lines ----------------------------------------------------------------------------


def test_limit_shows_a_burst_and_counts_the_rest() -> None:
    limit = Limit(burst=2, period=60.0)
    assert [limit.admit(now) for now in (0.0, 1.0, 2.0, 59.0)] == [
        (True, 0),
        (True, 0),
        (False, 0),
        (False, 0),
    ]
    assert limit.admit(60.0) == (True, 2)
    assert limit.admit(60.5) == (False, 0)
    assert limit.admit(61.0) == (True, 1)


def test_reports_of_what_lasts_become_rare() -> None:
    due, dues = 0.0, []
    while due < 2_500:
        due = next_report(due + 0.2, due, 600.0)
        dues.append(due)
    assert dues == [30, 60, 120, 240, 480, 960, 1560, 2160, 2760]
    assert next_report(100.0, 0.0, 600.0) == 120


# --- sinks and hooks ---------------------------------------------------------------------------


def test_failing_sink_is_logged_once_and_disturbs_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received: list[Event] = []

    class Filter(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("a filter")

    hub = EventHook([_fails_with(ValueError()), received.append, _fails_with(ValueError())])
    bad = Filter()
    LOGGERS["lease"].addFilter(bad)
    try:
        for _ in range(3):
            _emit(hub)
    finally:
        LOGGERS["lease"].removeFilter(bad)
    assert [event.name for event in received] == [EventName.LEASE_LATE] * 3
    complaints = [record for record in caplog.records if record.levelno >= logging.ERROR]
    kinds = [record.exc_info[0] for record in complaints if record.exc_info]
    assert kinds == [RuntimeError, ValueError, ValueError]


def test_cancelled_error_of_a_sink_cancels_no_task() -> None:
    _emit(EventHook([_fails_with(asyncio.CancelledError())]))


def test_keyboard_interrupt_of_a_sink_propagates() -> None:
    with pytest.raises(KeyboardInterrupt):
        _emit(EventHook([_fails_with(KeyboardInterrupt())]))


def test_sinks_want_every_level_and_the_log_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiolead.recipes")
    assert EventHook().wants(logging.INFO)
    assert not EventHook().wants(logging.DEBUG)
    assert EventHook([print]).wants(logging.DEBUG)


class _LossHook:
    """A hook that wants only losses."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.emitted: list[str] = []

    def wants(self, level: int) -> bool:
        self.asked[level] += 1
        return level >= logging.WARNING

    def now(self) -> float:
        return 0.0

    def emit(self, name: EventName, level: int, **_: Any) -> None:
        self.emitted.append(name)


class _Client:
    """A client that was closed, so that it reports losses at once."""

    state = SessionState.CLOSED

    def __init__(self, events: object) -> None:
        self.backend = SimpleNamespace(events=events, shared=lambda _path, make: make())


def test_recipes_emit_only_the_levels_that_the_hook_wants() -> None:
    losses = _LossHook()
    client: Any = _Client(losses)
    unread: Any = None
    reporting = RecipeReporting(client, "Lock", "/lock", "host-1", is_rare=False)
    assert reporting.waits(1) is None
    reporting.begun(unread)
    reporting.ended(17, 1, "released", 0.5)
    assert losses.emitted == []
    assert losses.asked == {logging.INFO: 1, logging.DEBUG: 2}
    reporting.lost(17, 1, LossReason.EXPIRED, 0.5)
    assert losses.emitted == [EventName.TENURE_ENDED]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OSError(), "failed"),
        (GeneratorExit(), "cancelled"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
def test_interrupted_wait_is_reported_without_an_event_loop(
    error: BaseException, outcome: str
) -> None:
    received: list[Event] = []
    client: Any = _Client(EventHook([received.append]))
    waiting = RecipeReporting(client, "Lock", "/lock", "host-1", is_rare=False).waits(1)
    assert waiting is not None
    waiting.failed(error, 1)
    assert received[-1].fields["outcome"] == outcome
    assert len(set(received)) == 2


def test_paths_of_events_begin_at_the_root() -> None:
    received: list[Event] = []
    hook = EventHook([received.append]).below("/app", time.monotonic)
    fields = _event(EventName.TENURE_BEGUN).fields
    hook.emit(EventName.TENURE_BEGUN, logging.DEBUG, session_id=1, path="/lock", fields=fields)
    assert received[0].path == "/app/lock"


# --- metrics -----------------------------------------------------------------------------------


def _values(*events: Event) -> Counter[tuple[str, str]]:
    """The sums of some events, by measure and labels."""
    sums: Counter[tuple[str, str]] = Counter()
    measures = Measures()
    for event in events:
        for measure, value, labels in measures.of(event):
            assert tuple(labels) == measure.labels
            sums[measure.name, " ".join(labels.values())] += (
                1 if measure.kind is MetricKind.TIME else int(value)
            )
    return sums


@pytest.mark.parametrize("name", EventName)
def test_every_event_is_measured(name: EventName) -> None:
    assert _values(_event(name))


def test_every_measure_is_measured_by_some_event() -> None:
    assert {name for name, _ in _values(*map(_event, EventName))} == {m.name for m in MEASURES}


def _walks(state: SessionState, steps: int) -> Iterator[list[SessionState]]:
    """All ways of a session, from a state on, that end in so many steps or are over before."""
    if steps == 0 or state.is_final:
        yield [state]
        return
    for after in {to for (before, _), to in TRANSITIONS.items() if before is state}:
        for way in _walks(after, steps - 1):
            yield [state, *way]


def test_session_is_counted_as_live_exactly_while_it_is() -> None:
    ways = list(_walks(SessionState.CONNECTING, 6))
    assert len(ways) > 50
    for way in ways:
        live = 0
        for before, state in pairwise(way):
            name = EventName("session." + state.name.lower())
            event = Event(name, 10, 1, fields={"before": before.value})
            live += _values(event)["aiolead.session.connected", ""]
            assert live == (state in (SessionState.CONNECTED, SessionState.READ_ONLY)), way


def test_holds_and_waits_add_up_to_zero() -> None:
    names = ("CONTENTION_BEGUN", "CONTENTION_ENDED", "TENURE_BEGUN", "TENURE_ENDED")
    sums = _values(*(_event(EventName[name]) for name in names))
    assert sums["aiolead.contenders", "Lock /app/lock"] == 0
    assert sums["aiolead.held", "Lock /app/lock"] == 0
    assert sums["aiolead.wait", "Lock /app/lock held"] == 1
    assert sums["aiolead.tenures.ended", "Lock /app/lock expired"] == 1


def test_page_has_exactly_the_metrics() -> None:
    row = r"^\| `(aiolead\.\S+)` \| `(\w+)` \|(.*?)\| (.*) \|$"
    rows = re.findall(row, PAGE, re.MULTILINE)
    assert [(name, other, labels.strip(), says) for name, other, labels, says in rows] == [
        (m.name, m.prometheus_name, " ".join(f"`{label}`" for label in m.labels), m.says)
        for m in MEASURES
    ]


# --- sinks of other libraries ------------------------------------------------------------------


def _registry(*events: Event, **options: Any) -> CollectorRegistry:
    registry = CollectorRegistry()
    sink = PrometheusSink(registry=registry, **options)
    for event in events:
        sink(event)
    return registry


def test_prometheus_has_every_metric_under_its_name() -> None:
    registry = _registry(*map(_event, EventName))
    families = {family.name for family in registry.collect()}
    assert families == {m.prometheus_name.removesuffix("_total") for m in MEASURES}
    value, recipe = registry.get_sample_value, {"recipe": "Lock", "path": "/app/lock"}
    assert value("aiolead_held", recipe) == 0
    assert value("aiolead_wait_seconds_sum", recipe | {"outcome": "held"}) == 2.5
    opened = {"outcome": "opened", "server": "zk1:2181", "error": ""}
    assert value("aiolead_connection_attempts_total", opened) == 1
    assert value("aiolead_lease_renewal_seconds_count") == 1


def test_label_of_paths_can_be_chosen() -> None:
    begun = _event(EventName.TENURE_BEGUN)
    registry = _registry(begun, begun, path_label=lambda event: event.path.split("/")[1])
    assert registry.get_sample_value("aiolead_held", {"recipe": "Lock", "path": "app"}) == 2


def test_held_is_zero_before_the_first_leader() -> None:
    registry = _registry(_event(EventName.CONTENTION_BEGUN, recipe="Election"))
    labels = {"recipe": "Election", "path": "/app/lock"}
    assert registry.get_sample_value("aiolead_held", labels) == 0


def test_opentelemetry_has_the_same_metrics() -> None:
    reader = InMemoryMetricReader()
    sink = OpenTelemetrySink(meter_provider=MeterProvider([reader]))
    for name in EventName:
        sink(_event(name))
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert set(metrics) == {m.name for m in MEASURES}
    for measure in MEASURES:
        metric = metrics[measure.name]
        assert metric.unit == ("s" if measure.kind is MetricKind.TIME else "")
        for point in metric.data.data_points:
            assert set(point.attributes) == {f"aiolead.{label}" for label in measure.labels}
    (wait,) = metrics["aiolead.wait"].data.data_points
    assert (wait.sum, wait.explicit_bounds) == (2.5, LONG)


def test_opentelemetry_has_a_span_of_each_wait() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    sink = OpenTelemetrySink(meter_provider=MeterProvider(), tracer_provider=provider)
    with provider.get_tracer("test").start_as_current_span("around") as around:
        sink(_event(EventName.CONNECTION_OPENED))
        sink(_event(EventName.CONTENTION_ENDED, error=""))
        sink(_event(EventName.CONTENTION_ENDED, outcome="failed", error="NoAuthError"))
        sink(_event(EventName.TENURE_ENDED))
    held, failed, _ = exporter.get_finished_spans()
    assert held.name == "aiolead.acquire"
    assert held.parent == around.get_span_context()
    assert held.end_time - held.start_time == 2_500_000_000
    assert held.attributes == {
        "aiolead.recipe": "Lock",
        "aiolead.path": "/app/lock",
        "aiolead.identity": "host-1",
        "aiolead.outcome": "held",
        "server.address": "zk1",
        "server.port": 2181,
    }
    assert held.status.status_code is StatusCode.UNSET
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "NoAuthError"


def test_structlog_has_names_and_keys() -> None:
    event = _event(EventName.TENURE_ENDED)
    with structlog.testing.capture_logs() as logs:
        StructlogSink()(event)
    keys = {"event": "tenure.ended", "session_id": "0x2a", "path": "/app/lock"}
    assert logs == [keys | {"log_level": "debug"} | event.fields]


# --- the dashboard and the alerts --------------------------------------------------------------


def _shown(text: str) -> set[str]:
    """The metrics that a text names."""
    return set(re.findall(r"\baiolead_\w+", text))


def _exposed() -> dict[str, set[str]]:
    """The metrics of Prometheus, with the labels of each."""
    return {
        sample.name: set(sample.labels)
        for family in _registry(*map(_event, EventName)).collect()
        for sample in family.samples
    }


@pytest.mark.parametrize("file", ["dashboard.json", "alerts.yaml"])
def test_every_shown_metric_exists(file: str) -> None:
    text, exposed = (FOLDER / file).read_text("utf-8"), _exposed()
    shown = _shown(text)
    assert shown
    assert shown <= exposed.keys()
    for name, selector in re.findall(r"\b(aiolead_\w+)\{(.*?)\}", text.replace('\\"', '"')):
        assert set(re.findall(r"(\w+)\s*!?=~?\s*\"", selector)) <= exposed[name], name
    states = {name.partition(".")[2] for name in EventName if name.startswith("session.")}
    for shown_states in re.findall(r'state=~?"(.*?)"', text.replace('\\"', '"')):
        assert set(shown_states.split("|")) <= states


def test_dashboard_shows_every_metric_without_overlaps() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {m.prometheus_name for m in MEASURES} <= {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in _shown(json.dumps(dashboard))
    }
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__all", "__rate_interval"} <= (
        variables
    )
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) == 23


def test_every_alert_has_an_expression_a_severity_and_a_summary() -> None:
    rules = (FOLDER / "alerts.yaml").read_text("utf-8").split("      - alert: ")[1:]
    assert len(rules) >= 6
    for rule in rules:
        for line in ("        expr: ", "          severity: ", "          summary: "):
            assert rule.count(line) == 1, rule
