"""Metrics for Prometheus, by its client library (the extra `prometheus`)."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from ..events import Event
from .measures import MEASURES, Measure, Measures, MetricKind, PathLabel

__all__ = ["PrometheusSink"]


class PrometheusSink:
    """Records metrics of clients' events; for `aiolead.connect(on_event=)`.

    Use one for all clients of a process: a registry takes each metric only once.

    Args:
        registry: where the metrics are registered; defaults to that of `prometheus_client`.
        path_label: returns the label for a recipe's path; defaults to the path itself. Every label
            is a time series that never ends.
        requests: whether each request is measured, recipes' requests, too. That costs each request
            some time.

    Raises:
        ValueError: the registry has such metrics already.
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry = REGISTRY,
        path_label: PathLabel | None = None,
        requests: bool = False,
    ) -> None:
        self.wants_requests: bool = requests
        self._measures = Measures(path_label)
        self._metrics = {measure: _metric(measure, registry) for measure in MEASURES}

    def __call__(self, event: Event) -> None:
        for measure, value, labels in self._measures.of(event):
            metric = self._metrics[measure]
            child = metric.labels(**labels) if labels else metric
            if isinstance(child, Histogram):
                child.observe(value)
            else:
                child.inc(value)


def _metric(measure: Measure, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, says, labels = measure.prometheus_name, measure.says, measure.labels
    match measure.kind:
        case MetricKind.COUNT:
            return Counter(name, says, labels, registry=registry)
        case MetricKind.LEVEL:
            return Gauge(name, says, labels, registry=registry)
        case MetricKind.TIME:
            return Histogram(name, says, labels, registry=registry, buckets=measure.bounds)
