"""The events that a stream has for its reader: in order, and bounded whatever comes."""

from __future__ import annotations

from collections import deque

from ...model import EventType, Missed, MissedReason, WatchEvent

MERGED = (EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED)
"""Of these, two say no more than one: that what is read now is not what it was."""


class _BufferedEvent:
    """A place in the line, so that what stands there can be replaced."""

    __slots__ = ("item",)

    def __init__(self, item: WatchEvent | Missed) -> None:
        self.item = item


class EventBuffer:
    """What was not read yet.

    Args:
        limit: how many entries there may be. Where one more would be needed, all make room for one
            `Missed`.
    """

    __slots__ = ("_entries", "_latest", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[_BufferedEvent] = deque()
        self._latest: dict[tuple[EventType, str], _BufferedEvent] = {}
        """Where a change of a path can be merged into one that nobody has read yet."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, event: WatchEvent) -> None:
        """An event came in.

        A change whose like is still unread is merged into that one, which keeps its place and says
        the later zxid: whoever reads the znode then sees both. Not, however, across a creation or
        a deletion of the znode.
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
        """Something may be missing here. Gaps with nothing in between are one."""
        self._latest.clear()
        last = self._entries[-1] if self._entries else None
        if last is not None and isinstance(last.item, Missed):
            last.item = Missed(_graver(last.item.reason, reason))
        elif len(self._entries) >= self._limit:
            self._overflow(reason)
        else:
            self._append(Missed(reason))

    def take(self) -> WatchEvent | Missed:
        """The oldest entry, which is read with this. There must be one."""
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
    """That the session is over must not get lost: its ephemeral znodes are, too."""
    return MissedReason.EXPIRED if MissedReason.EXPIRED in (first, second) else second
