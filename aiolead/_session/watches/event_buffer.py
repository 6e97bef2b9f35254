"""The events that a stream keeps for its reader: in order and bounded."""

from __future__ import annotations

from collections import deque

from ...model import EventType, Missed, MissedReason, WatchEvent

MERGED = (EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED)
"""Types that can be merged: each only says that there is something new to read."""


class _BufferedEvent:
    """An entry whose content can be replaced."""

    __slots__ = ("item",)

    def __init__(self, item: WatchEvent | Missed) -> None:
        self.item = item


class EventBuffer:
    """Unread events, at most `limit`: one more replaces all of them by a `Missed`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[_BufferedEvent] = deque()
        self._latest: dict[tuple[EventType, str], _BufferedEvent] = {}
        """The unread change of each path, which later ones are merged into."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, event: WatchEvent) -> None:
        """Add an event.

        A change is merged into an unread one of the same path and type, which keeps its position
        and gets the later zxid; but not across a creation or a deletion of the znode.
        """
        key = event.type, event.path
        if (same := self._latest.get(key)) is not None:
            same.item = event
        elif len(self._entries) >= self._limit:
            self._overflow(MissedReason.OVERFLOW)
        else:
            entry = self._append(event)
            if event.type in MERGED:
                self._latest[key] = entry
            else:
                for type_ in MERGED:
                    self._latest.pop((type_, event.path), None)

    def miss(self, reason: MissedReason) -> None:
        """Record that events may be missing here. Adjacent gaps are merged."""
        self._latest.clear()
        last = self._entries[-1] if self._entries else None
        if last is not None and isinstance(last.item, Missed):
            last.item = Missed(_graver(last.item.reason, reason))
        elif len(self._entries) >= self._limit:
            self._overflow(reason)
        else:
            self._append(Missed(reason))

    def take(self) -> WatchEvent | Missed:
        """Remove and return the oldest entry; there must be one."""
        entry = self._entries.popleft()
        item = entry.item
        if isinstance(item, WatchEvent):
            key = item.type, item.path
            if self._latest.get(key) is entry:
                del self._latest[key]
        return item

    def _append(self, item: WatchEvent | Missed) -> _BufferedEvent:
        entry = _BufferedEvent(item)
        self._entries.append(entry)
        return entry

    def _overflow(self, reason: MissedReason) -> None:
        for entry in self._entries:
            if isinstance(entry.item, Missed):
                reason = _graver(entry.item.reason, reason)
        self._entries.clear()
        self._latest.clear()
        self._append(Missed(reason))


def _graver(first: MissedReason, second: MissedReason) -> MissedReason:
    """Prefer `EXPIRED`, which must not get lost: the session's ephemeral znodes are gone."""
    return MissedReason.EXPIRED if MissedReason.EXPIRED in (first, second) else second
