"""Metrics and spans for OpenTelemetry (the extra `otel`).

Its API does nothing unless an SDK is configured.
"""

from __future__ import annotations

import time

from opentelemetry import metrics, trace

from ..events import Event, EventName
from .measures import MEASURES, Measure, Measures, MetricKind, PathLabel

__all__ = ["OpenTelemetrySink"]

SPAN = "aiolead.acquire"
"""The span of an acquisition; not of the hold, which may last for days."""


class OpenTelemetrySink:
    """Records metrics of clients' events, and a span for each acquisition.

    For `aiolead.connect(on_event=)`; one may serve any number of clients. The parent of a span is
    the current span of the waiting task. Attributes of spans follow the semantic conventions where
    there is one: `server.address`, `server.port`, `error.type`.

    Args:
        meter_provider: makes the metrics; defaults to the global one.
        tracer_provider: makes the spans; defaults to the global one.
        path_label: returns the attribute for a recipe's path; defaults to the path itself.
        requests: whether each request has a span as well, `zookeeper GET_DATA` for example, and is
            measured; recipes' requests, too. That costs each request some time.
    """

    def __init__(
        self,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        path_label: PathLabel | None = None,
        requests: bool = False,
    ) -> None:
        meter = metrics.get_meter("aiolead", meter_provider=meter_provider)
        self._tracer = trace.get_tracer("aiolead", tracer_provider=tracer_provider)
        self._measures = Measures(path_label)
        self._instruments = {measure: _instrument(measure, meter) for measure in MEASURES}
        self._servers: dict[int, str] = {}
        """The server of each live session."""
        self.wants_requests: bool = requests

    def __call__(self, event: Event) -> None:
        for measure, value, labels in self._measures.of(event):
            attributes = {f"aiolead.{name}": text for name, text in labels.items()}
            instrument = self._instruments[measure]
            if isinstance(instrument, metrics.Histogram):
                instrument.record(value, attributes)
            else:
                instrument.add(value, attributes)
        match event.name:
            case EventName.CONNECTION_OPENED:
                self._servers[event.session_id] = str(event.fields["server"])
            case EventName.SESSION_EXPIRED | EventName.SESSION_CLOSED:
                self._servers.pop(event.session_id, None)
            case EventName.CONTENTION_ENDED:
                self._trace_wait(event)
            case EventName.REQUEST_ENDED:
                self._trace_request(event)
            case _:
                pass

    def _trace_wait(self, event: Event) -> None:
        fields = event.fields
        attributes: dict[str, str | int | float] = {
            "aiolead.recipe": fields["recipe"],
            "aiolead.path": event.path,
            "aiolead.identity": fields["identity"],
            "aiolead.outcome": fields["outcome"],
            **_server(self._servers.get(event.session_id, "")),
        }
        self._trace(SPAN, trace.SpanKind.INTERNAL, fields["waited"], attributes, fields["error"])

    def _trace_request(self, event: Event) -> None:
        fields = event.fields
        attributes: dict[str, str | int | float] = {
            "aiolead.operation": fields["operation"],
            "aiolead.path": fields["znode"],
            **_server(str(fields["server"])),
        }
        name = f"zookeeper {fields['operation']}"
        self._trace(name, trace.SpanKind.CLIENT, fields["took"], attributes, fields["error"])

    def _trace(
        self,
        name: str,
        kind: trace.SpanKind,
        took: str | float,
        attributes: dict[str, str | int | float],
        error: str | float,
    ) -> None:
        """Record a span that ends now, below the current one."""
        ended = time.time_ns()
        if error:
            attributes["error.type"] = error
        started = ended - round(float(took) * 1e9)
        span = self._tracer.start_span(name, kind=kind, start_time=started, attributes=attributes)
        if error:
            span.set_status(trace.StatusCode.ERROR)
        span.end(ended)


def _server(name: str) -> dict[str, str | int]:
    """The attributes of a server that is called `zk1:2181`, or `zk1:2181 (10.0.0.1)`."""
    host, _, port = name.partition(" ")[0].rpartition(":")
    return {"server.address": host.strip("[]"), "server.port": int(port)} if host else {}


def _instrument(
    measure: Measure, meter: metrics.Meter
) -> metrics.Counter | metrics.UpDownCounter | metrics.Histogram:
    match measure.kind:
        case MetricKind.COUNT:
            return meter.create_counter(measure.name, description=measure.says)
        case MetricKind.LEVEL:
            return meter.create_up_down_counter(measure.name, description=measure.says)
        case MetricKind.TIME:
            return meter.create_histogram(
                measure.name,
                unit="s",
                description=measure.says,
                explicit_bucket_boundaries_advisory=measure.bounds,
            )
