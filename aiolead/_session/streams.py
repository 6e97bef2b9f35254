"""Persistent watches on the server, and the streams that share them.

For one connection and one path, servers before 3.9 keep one watch: each request replaces the
earlier one (ZOOKEEPER-4466). A one-shot watch ends a persistent one, and a recursive one ends a
one-shot watch for children. Therefore, for each path:

* While a persistent watch is set, one-shot watches are not: its events fire them. The exception is
  a watch for children under a recursive watch, which does not report those: it is set behind the
  recursive one, and does not end it.
* Of the two persistent modes the recursive one is set. It does not report lists of
  children; for other streams, these follow from the events of the children.
* When the last stream leaves, everything is removed. The remaining one-shot watches are set again,
  relative to the last zxid seen, so that what happens in between is reported.

Each request is decided as it is put on the wire, since the order in which the server gets them
counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from sys import maxsize

from .._wire.codes import AddWatchMode
from ..errors import AioleadError
from ..model import EventType, Missed, MissedReason, WatchEvent
from ..paths import told_path

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


@dataclass(eq=False, repr=False, kw_only=True)
class StreamSlot:
    """One stream of events, as the session sees it.

    Attributes:
        path: the watched path on the server.
        prefix: the chroot, which its owner does not see.
        limit: how many events it keeps for its reader.
        on_news: called synchronously when there is something to read.
        is_set: whether a server has ever confirmed its watch; from then on it is re-armed.
        gap: the gap to report to the reader when the watch is set again.
        ended: why there will be no more events.
    """

    path: str = field(kw_only=False)
    prefix: str = field(kw_only=False)
    recursive: bool
    limit: int
    on_news: Callable[[], object]
    is_set: bool = False
    gap: MissedReason | None = None
    ended: AioleadError | None = None
    closed: bool = False

    def __post_init__(self) -> None:
        self.events: EventBuffer = EventBuffer(self.limit)

    def report(self, type_: EventType, path: str, zxid: int) -> None:
        label = told_path(path[len(self.prefix) :] or "/")
        self.events.put(WatchEvent(type_, label, zxid))
        self.on_news()

    def rearmed(self) -> None:
        if self.gap is not None:
            self.events.miss(self.gap)
            self.gap = None
            self.on_news()

    def end(self, error: AioleadError) -> None:
        self.ended = error
        self.on_news()

    def take(self) -> WatchEvent | Missed | None:
        """The next event; None if there is none yet. Raises the error that ended the stream."""
        if self.events:
            return self.events.take()
        if self.ended is not None:
            raise self.ended
        return None


@dataclass(eq=False, repr=False)
class PersistentWatch:
    """The persistent watch on one path.

    `joining` requests to set it are unanswered; the server of this connection watches in `mode`.
    """

    streams: dict[StreamSlot, None] = field(default_factory=dict)
    joining: int = 0
    mode: AddWatchMode | None = None

    @property
    def is_needed(self) -> bool:
        return bool(self.streams) or self.joining > 0


class PersistentWatches:
    """All persistent watches of a session, by path."""

    def __init__(self) -> None:
        self.by_path: dict[str, PersistentWatch] = {}
        self._setting_again: dict[str, int] = {}
        """How many unanswered requests set one-shot watches of such a path again."""
        self._last: dict[str, EventType] = {}
        """Whether the last event of such a path was a creation or a deletion."""

    def __len__(self) -> int:
        return sum(len(persistent.streams) for persistent in list(self.by_path.values()))

    def mode(self, path: str) -> AddWatchMode | None:
        """The mode in which the server watches exactly this path."""
        persistent = self.by_path.get(path)
        return None if persistent is None else persistent.mode

    def fire(self, type_: EventType, path: str, zxid: int) -> None:
        """Pass an event to the streams; the server sends one for all watches that it concerns."""
        if path in self._setting_again and self._is_repeated(type_, path):
            return
        of_children = type_ is EventType.CHILDREN_CHANGED
        persistent = self.by_path.get(path)
        for stream in persistent.streams if persistent is not None else ():
            if not (of_children and stream.recursive):
                stream.report(type_, path, zxid)
        if of_children:
            return  # of a one-shot watch, if it is below a stream's path
        longest = max(map(len, self.by_path))
        for above in ancestors(path, longest):
            persistent = self.by_path.get(above)
            for stream in persistent.streams if persistent is not None else ():
                if stream.recursive:
                    stream.report(type_, path, zxid)
        if type_ is not EventType.DATA_CHANGED and path != "/":
            self._fire_for_parent(path.rpartition("/")[0] or "/", zxid)

    def _fire_for_parent(self, path: str, zxid: int) -> None:
        persistent = self.by_path.get(path)
        if persistent is not None and persistent.mode is AddWatchMode.RECURSIVE:
            for stream in persistent.streams:
                if not stream.recursive:
                    stream.report(EventType.CHILDREN_CHANGED, path, zxid)

    def setting_again(self, path: str) -> None:
        """One-shot watches of a path are about to be set again; `set_again` follows.

        The server then reports what has happened to the znode since, although it has sent that to
        the streams before.
        """
        self._setting_again[path] = self._setting_again.get(path, 0) + 1

    def set_again(self, path: str) -> None:
        """Such a request was answered, or has failed."""
        left = self._setting_again.pop(path, 1) - 1
        if left:
            self._setting_again[path] = left
        else:
            self._last.pop(path, None)

    def _is_repeated(self, type_: EventType, path: str) -> bool:
        """Whether a creation or deletion is reported again: the other one has to come between."""
        if type_ not in (EventType.CREATED, EventType.DELETED):
            return False
        before = self._last.get(path)
        self._last[path] = type_
        return before is type_

    def connection_lost(self) -> None:
        """The server has forgotten everything; events are missed from now on."""
        self._setting_again.clear()
        self._last.clear()
        for path, persistent in list(self.by_path.items()):
            persistent.mode = None
            if not persistent.is_needed:
                del self.by_path[path]
        self._gap(MissedReason.RECONNECTED)

    def session_over(self) -> None:
        self._gap(MissedReason.EXPIRED)

    def _gap(self, reason: MissedReason) -> None:
        for stream in self._streams():
            if stream.is_set and stream.gap is not MissedReason.EXPIRED:
                stream.gap = reason

    def to_rearm(self) -> list[tuple[str, AddWatchMode]]:
        """The watches to set on a new connection, in order: old servers keep a path's last one."""
        paths: dict[AddWatchMode, list[str]] = {mode: [] for mode in AddWatchMode}
        for path, persistent in self.by_path.items():
            for mode in AddWatchMode:
                recursive = mode is AddWatchMode.RECURSIVE
                if any(s.is_set and s.recursive is recursive for s in persistent.streams):
                    persistent.mode = mode
                    paths[mode].append(path)
        return [(path, mode) for mode, group in paths.items() for path in group]

    def rearmed(self) -> None:
        """The server watches again: readers can now read what they have missed."""
        for stream in self._streams():
            stream.rearmed()

    def end(self, error: Callable[[], AioleadError]) -> None:
        for stream in self._streams():
            stream.end(error())

    def _streams(self) -> Iterator[StreamSlot]:
        return (stream for persistent in self.by_path.values() for stream in persistent.streams)


def ancestors(path: str, longest: int = maxsize) -> Iterator[str]:
    """Every path above this one that is not longer than `longest`, the nearest first.

    The limit bounds the look-ups: a server can report a path of a megabyte, half of it slashes.
    """
    end = path.rfind("/", 0, longest + 1)
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
    if path != "/":
        yield "/"
