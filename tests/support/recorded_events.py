"""What the page about events says of them: what tests hold against what clients tell."""

from __future__ import annotations

import logging
import re

from aiolead.events import Event, EventName
from support.docs import ROOT

_ROW = re.compile(r"^\| `(\w+\.\w+)` \| (\w+) \| ((?:`\w+` ?)*) \| ", re.MULTILINE)


def _events() -> dict[EventName, tuple[int, tuple[str, ...]]]:
    page = (ROOT / "docs" / "how-to" / "observability.md").read_text("utf-8")
    rows = [(EventName(name), level, fields) for name, level, fields in _ROW.findall(page)]
    assert len({name for name, _, _ in rows}) == len(rows)
    return {
        name: (logging.getLevelNamesMapping()[level.upper()], tuple(re.findall(r"\w+", fields)))
        for name, level, fields in rows
    }


EVENTS = _events()
"""The level of each event, and the names of its fields, in order."""


class RecordedEvents:
    """A sink that keeps what it is told.

    Attributes:
        events: all of it, in order.
        wrong: what is not as the page says; a client takes no notice of sinks that raise.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.wrong: list[str] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        level, fields = EVENTS[event.name]
        if set(event.fields) != set(fields):
            self.wrong.append(f"{event.name} has the fields {sorted(event.fields)}")
        # How much a tenure matters is not always the same.
        if event.level != level and not event.name.startswith("tenure."):
            self.wrong.append(f"{event.name} has the level {event.level}")
        str(event)

    def names(self, *beginnings: str) -> list[str]:
        """The names of what was told, in order: all, or those with some beginnings."""
        return [
            event.name.value for event in self.events if event.name.startswith(beginnings or "")
        ]

    def of(self, name: EventName) -> list[Event]:
        return [event for event in self.events if event.name is name]
