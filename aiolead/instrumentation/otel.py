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
    the current span of the waiting task.

    Args:
        meter_provider: makes the metrics; defaults to the global one.
        tracer_provider: makes the spans; defaults to the global one.
        path_label: returns the attribute for a recipe's path; defaults to the path itself.
    """

    def __init__(
        self,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        path_label: PathLabel | None = None,
    ) -> None:
        meter = metrics.get_meter("aiolead", meter_provider=meter_provider)
        self._tracer = trace.get_tracer("aiolead", tracer_provider=tracer_provider)
        self._measures = Measures(path_label)
        self._instruments = {measure: _instrument(measure, meter) for measure in MEASURES}

    def __call__(self, event: Event) -> None:
        for measure, value, labels in self._measures.of(event):
            attributes = {f"aiolead.{name}": text for name, text in labels.items()}
            instrument = self._instruments[measure]
            if isinstance(instrument, metrics.Histogram):
                instrument.record(value, attributes)
            else:
                instrument.add(value, attributes)
        if event.name is EventName.CONTENTION_ENDED:
            self._trace(event)

    def _trace(self, event: Event) -> None:
        ended, fields = time.time_ns(), event.fields
        span = self._tracer.start_span(
            SPAN,
            start_time=ended - round(float(fields["waited"]) * 1e9),
            attributes={
                "aiolead.recipe": fields["recipe"],
                "aiolead.path": event.path,
                "aiolead.identity": fields["identity"],
                "aiolead.outcome": fields["outcome"],
            },
        )
        if fields["outcome"] == "failed":
            span.set_status(trace.StatusCode.ERROR)
        span.end(ended)


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
