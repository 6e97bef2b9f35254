"""Persistent watches: what the server is told to watch, and the streams that share it.

For one connection and one path, servers before 3.9 know one watch, whatever is asked of them: each
request replaces what an earlier one has set (ZOOKEEPER-4466), so that a one-shot watch ends a
persistent one, and a recursive one ends a one-shot watch for children. Therefore, for each path:

* while a persistent watch is set, one-shot watches are not: they live on its events, too. The one
  exception are those for children where it is a recursive one, which does not report those; they
  are set behind it, which leaves it whole;
* of two kinds of persistent watches the recursive one is set. What it does not say to streams that
  are not recursive, that the list of children has changed, follows from the events of the children;
* when the last stream goes, everything is removed, and the one-shot watches that are left are set
  again, relative to what was seen by then: what happens in between is reported.

Which of it is due is decided when a request is put on the wire, since what counts is the order in
which the server is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from sys import maxsize

from ..._wire.codes import AddWatchMode
from ...errors import AioleadError
from ...model import EventType, Missed, MissedReason, WatchEvent
from ...paths import told_path
from .event_buffer import EventBuffer


class StreamSlot:
    """One stream of events, as the session sees it.

    Args:
        path: what it watches, on the server.
        prefix: what its owner does not see of the paths: the chroot.
        recursive: whether it sees everything below the path.
        limit: how many events it keeps for its reader.
        on_news: called synchronously when there is something to read.
    """

    __slots__ = (
        "_prefix",
        "closed",
        "ended",
        "events",
        "gap",
        "is_set",
        "on_news",
        "path",
        "recursive",
    )

    def __init__(
        self,
        path: str,
        prefix: str,
        *,
        recursive: bool,
        limit: int,
        on_news: Callable[[], object],
    ) -> None:
        self.path: str = path
        self.recursive: bool = recursive
        self.on_news: Callable[[], object] = on_news
        self._prefix = prefix
        self.events: EventBuffer = EventBuffer(limit)
        self.is_set: bool = False
        """Whether a server has once confirmed its watch; from then on it is set again."""
        self.gap: MissedReason | None = None
        """What the reader is to be told when the watch is set again."""
        self.ended: AioleadError | None = None
        """Why nothing will come any more."""
        self.closed: bool = False

    def tell(self, type_: EventType, path: str, zxid: int) -> None:
        label = told_path(path[len(self._prefix) :] or "/")
        self.events.put(WatchEvent(type_, label, zxid))
        self.on_news()

    def set_again(self) -> None:
        if self.gap is not None:
            self.events.miss(self.gap)
            self.gap = None
            self.on_news()

    def end(self, error: AioleadError) -> None:
        self.ended = error
        self.on_news()

    def take(self) -> WatchEvent | Missed | None:
        """What is to be read next; None if there is nothing yet.

        Raises:
            AioleadError: nothing will come any more.
        """
        if self.events:
            return self.events.take()
        if self.ended is not None:
            raise self.ended
        return None


class PersistentWatch:
    """The persistent watch on one path."""

    __slots__ = ("joining", "mode", "streams")

    def __init__(self) -> None:
        self.streams: dict[StreamSlot, None] = {}
        self.joining = 0
        """How many requests that will set it are unanswered."""
        self.mode: AddWatchMode | None = None
        """What this connection's server was told to watch."""

    @property
    def is_needed(self) -> bool:
        return bool(self.streams) or self.joining > 0


class PersistentWatches:
    """All persistent watches of a session, by path."""

    __slots__ = ("by_path",)

    def __init__(self) -> None:
        self.by_path: dict[str, PersistentWatch] = {}

    def __len__(self) -> int:
        return sum(len(persistent.streams) for persistent in self.by_path.values())

    def mode(self, path: str) -> AddWatchMode | None:
        """What the server was told to watch at exactly this path."""
        persistent = self.by_path.get(path)
        return None if persistent is None else persistent.mode

    def fire(self, type_: EventType, path: str, zxid: int) -> None:
        """An event came in; the server sends one, whatever of ours it is for."""
        of_children = type_ is EventType.CHILDREN_CHANGED
        persistent = self.by_path.get(path)
        for stream in persistent.streams if persistent is not None else ():
            if not (of_children and stream.recursive):
                stream.tell(type_, path, zxid)
        if of_children:
            return  # ... of a one-shot watch, where streams above see it
        longest = max(map(len, self.by_path))
        for above in ancestors(path, longest):
            persistent = self.by_path.get(above)
            for stream in persistent.streams if persistent is not None else ():
                if stream.recursive:
                    stream.tell(type_, path, zxid)
        if type_ is not EventType.DATA_CHANGED and path != "/":
            self._fire_for_parent(path.rpartition("/")[0] or "/", zxid)

    def _fire_for_parent(self, path: str, zxid: int) -> None:
        persistent = self.by_path.get(path)
        if persistent is not None and persistent.mode is AddWatchMode.RECURSIVE:
            for stream in persistent.streams:
                if not stream.recursive:
                    stream.tell(EventType.CHILDREN_CHANGED, path, zxid)

    def link_lost(self) -> None:
        """The server has forgotten everything; what happens from now on is not reported."""
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

    def told_again(self) -> list[tuple[str, AddWatchMode]]:
        """What the server of a new connection is to be told, in this order: of two watches on one
        path, older ones keep the later.
        """
        told: dict[AddWatchMode, list[str]] = {mode: [] for mode in AddWatchMode}
        for path, persistent in self.by_path.items():
            for mode in AddWatchMode:
                recursive = mode is AddWatchMode.RECURSIVE
                if any(s.is_set and s.recursive is recursive for s in persistent.streams):
                    persistent.mode = mode
                    told[mode].append(path)
        return [(path, mode) for mode, paths in told.items() for path in paths]

    def set_again(self) -> None:
        """The server watches again: now a reader can see what it has missed."""
        for stream in self._streams():
            stream.set_again()

    def end(self, error: Callable[[], AioleadError]) -> None:
        """Nothing will come any more."""
        for stream in self._streams():
            stream.end(error())

    def _streams(self) -> Iterator[StreamSlot]:
        return (stream for persistent in self.by_path.values() for stream in persistent.streams)


def ancestors(path: str, longest: int = maxsize) -> Iterator[str]:
    """Every path above that is not longer than some length, the nearest first.

    A server can report a path of a megabyte with a slash in every other place: what is longer than
    whatever is watched is passed over in one go.
    """
    end = path.rfind("/", 0, longest + 1)
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
    if path != "/":
        yield "/"
