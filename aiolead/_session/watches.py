"""One-shot watches as objects: armed by reads, fired by events, re-armed over reconnects."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator

from .._wire.codes import WatcherType
from .._wire.requests import SetWatches
from ..errors import UsageError
from ..model import EventType, WatchEvent

CHUNK = 128 * 1024
"""Most bytes of paths in one SetWatches: a fraction of what servers take (ZOOKEEPER-706)."""

SET_WATCHES = 20
"""Bytes of a SetWatches without its paths."""


class Kind(enum.Enum):
    """Which list of a server a watch is on, and which of SetWatches."""

    DATA = "data"
    EXIST = "exist"
    """Set by `exists` on a znode that was not there."""
    CHILD = "child"

    @property
    def wire(self) -> WatcherType:
        return WatcherType.CHILDREN if self is Kind.CHILD else WatcherType.DATA


FIRES: dict[EventType, tuple[Kind, ...]] = {
    EventType.CREATED: (Kind.EXIST, Kind.DATA),
    EventType.DATA_CHANGED: (Kind.DATA, Kind.EXIST),
    EventType.DELETED: (Kind.DATA, Kind.EXIST, Kind.CHILD),
    EventType.CHILDREN_CHANGED: (Kind.CHILD,),
}
"""Which watches an event consumes, as in ZooKeeper's `ZKWatchManager.materialize`."""


class WatchSlot:
    """One watch of one caller. Bound to a path and a kind while armed, or about to be.

    Args:
        registry: the session's watches.
        on_event: called synchronously when the watch fires.
    """

    __slots__ = (
        "_registry",
        "closed",
        "event",
        "kind",
        "label",
        "on_event",
        "path",
        "pending",
        "wire",
    )

    def __init__(
        self, registry: WatchRegistry, on_event: Callable[[WatchEvent], object] | None
    ) -> None:
        self._registry = registry
        self.on_event = on_event
        self.event: WatchEvent | None = None
        self.path: str | None = None
        self.label = ""
        """The path as the caller named it; differs from `path` by the chroot."""
        self.wire: WatcherType | None = None
        """What it is armed as, or about to be, to the server."""
        self.kind: Kind | None = None
        """What it is armed as."""
        self.pending = 0
        """How many reads that will arm it are unanswered."""
        self.closed = False

    @property
    def is_armed(self) -> bool:
        return self.kind is not None and self._registry.is_live

    def close(self) -> None:
        """Takes the watch back; it will not fire any more."""
        if not self.closed:
            self.closed = True
            self.on_event = None
            self._registry.drop(self)

    def fire(self, event: WatchEvent) -> None:
        self.event = event
        if self.on_event is not None:
            self.on_event(event)


class Arming:
    """A read that will arm a watch: the link between a call in flight and its slot."""

    __slots__ = ("_kind", "_path", "_registry", "_slot")

    def __init__(self, registry: WatchRegistry, slot: WatchSlot, path: str, kind: Kind) -> None:
        self._registry = registry
        self._slot = slot
        self._path = path
        self._kind = kind

    def armed(self, *, missing: bool = False) -> None:
        """The read was answered: the server watches now, maybe for a znode that is not there."""
        self._registry.armed(self._slot, self._path, Kind.EXIST if missing else self._kind)

    def abandon(self) -> None:
        """The read failed: the server does not watch."""
        self._registry.abandoned(self._slot, self._path, self._kind)


class WatchRegistry:
    """All watches of a session.

    Args:
        remove: asks the server to forget a watch that nobody here needs any more; for nothing,
            where there is no link, since only what is needed gets re-armed.
    """

    __slots__ = ("_armed", "_arming", "_remove", "is_live")

    def __init__(self, remove: Callable[[str, WatcherType], None]) -> None:
        self._remove = remove
        self._armed: dict[tuple[str, Kind], dict[WatchSlot, None]] = {}
        self._arming: Counter[tuple[str, WatcherType]] = Counter()
        self.is_live = False
        """Whether the server knows of all of them: false from a lost link to their re-arming."""

    def __len__(self) -> int:
        return sum(map(len, self._armed.values()))

    def begin(self, slot: WatchSlot, path: str, label: str, kind: Kind) -> Arming:
        """A read that arms the slot is about to be sent.

        Raises:
            UsageError: the slot is closed, or watches something else already.
        """
        if slot.closed:
            raise UsageError("the watch was closed")
        busy = slot.pending > 0 or slot.kind is not None
        if busy and (slot.path, slot.wire) != (path, kind.wire):
            raise UsageError(
                f"the watch is on {slot.label} already: make one watch for each thing to watch"
            )
        slot.path, slot.label, slot.wire = path, label, kind.wire
        slot.event = None
        slot.pending += 1
        self._arming[path, kind.wire] += 1
        return Arming(self, slot, path, kind)

    def armed(self, slot: WatchSlot, path: str, kind: Kind) -> None:
        self._settle(slot, path, kind)
        if slot.closed:  # ... while its read was in flight
            self._forget(path, kind)
            return
        if slot.kind is not None and slot.kind is not kind:
            self._discard(slot, path, slot.kind)
        slot.kind = kind
        self._armed.setdefault((path, kind), {})[slot] = None

    def abandoned(self, slot: WatchSlot, path: str, kind: Kind) -> None:
        self._settle(slot, path, kind)

    def _settle(self, slot: WatchSlot, path: str, kind: Kind) -> None:
        slot.pending -= 1
        key = (path, kind.wire)
        self._arming[key] -= 1
        if self._arming[key] <= 0:
            del self._arming[key]

    def drop(self, slot: WatchSlot) -> None:
        """The slot's owner does not want to hear of it any more."""
        path, kind = slot.path, slot.kind
        slot.kind = None
        if path is not None and kind is not None:
            self._discard(slot, path, kind)
            self._forget(path, kind)

    def _discard(self, slot: WatchSlot, path: str, kind: Kind) -> None:
        slots = self._armed.get((path, kind))
        if slots is not None:
            slots.pop(slot, None)
            if not slots:
                del self._armed[path, kind]

    def _forget(self, path: str, kind: Kind) -> None:
        """Removes the server's watch, unless somebody here still needs it, or is about to."""
        wire = kind.wire
        wanted = self._arming.get((path, wire), 0) or any(
            (path, other) in self._armed for other in Kind if other.wire is wire
        )
        if not wanted:
            self._remove(path, wire)

    def fire(self, type_: EventType, path: str, zxid: int) -> None:
        """An event came in: every watch that it consumes fires."""
        fired: list[WatchSlot] = []
        for kind in FIRES.get(type_, ()):
            fired.extend(self._armed.pop((path, kind), ()))
        for slot in fired:
            slot.kind = None
        for slot in fired:
            slot.fire(WatchEvent(type_, slot.label, zxid))

    def session_over(self) -> None:
        """The session ended: no watch of it can fire any more, and each is told so.

        Reads that were to arm one have failed by now; those in `_arming` are for the next session.
        """
        self.is_live = False
        slots = [slot for group in self._armed.values() for slot in group]
        self._armed.clear()
        for slot in slots:
            slot.kind = None
        for slot in slots:
            slot.fire(WatchEvent(EventType.NONE, slot.label))

    def rearm(self, relative_zxid: int, room: int) -> Iterator[SetWatches]:
        """The requests that re-arm everything on a new connection, in chunks.

        Args:
            relative_zxid: the last transaction that the client has seen; the server reports at
                once what changed since.
            room: how many bytes one request may have.
        """
        limit = min(CHUNK, room - SET_WATCHES)
        chunk: dict[Kind, list[str]] = {kind: [] for kind in Kind}
        size = 0
        for path, kind in self._armed:
            cost = len(path.encode()) + 4
            if size and size + cost > limit:
                yield _set_watches(relative_zxid, chunk)
                chunk = {kind: [] for kind in Kind}
                size = 0
            chunk[kind].append(path)
            size += cost
        if size:
            yield _set_watches(relative_zxid, chunk)


def _set_watches(zxid: int, chunk: dict[Kind, list[str]]) -> SetWatches:
    return SetWatches(
        zxid, tuple(chunk[Kind.DATA]), tuple(chunk[Kind.EXIST]), tuple(chunk[Kind.CHILD])
    )
