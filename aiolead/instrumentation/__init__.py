"""Sinks for events, for `aiolead.connect(on_event=)`, each in its own module.

    from aiolead.instrumentation.prometheus import PrometheusSink

    async with aiolead.connect(hosts, on_event=PrometheusSink()) as client:
        ...

A sink is any function that takes an `Event`; the log needs none. One sink may serve any number of
clients. `docs/how-to/observability.md` has the events and the metrics.
"""

from ..events import Event as Event
from ..events import EventName as EventName
from ..events import EventSink as EventSink

__all__ = ["Event", "EventName", "EventSink"]
