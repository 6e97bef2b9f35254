"""One-shot watches as objects: armed by reads, fired by events, re-armed over reconnects.

And the registry of all watches of a session, those that last (see `persistent`) included.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from ..._internal_errors import call_back
from ..._wire.codes import AddWatchMode, OpCode, WatcherType
from ..._wire.jute import Reader
from ..._wire.packets import encode_body
from ..._wire.refusal import server_error
from ..._wire.requests import AddWatch, RemoveWatches, SetWatches
from ...errors import AioleadError, ConnectionLossError, UsageError
from ...model import EventType, WatchEvent
from ..requests.request_queue import Call, WatchEffect
from .persistent import PersistentWatch, PersistentWatches, StreamSlot

CHUNK = 128 * 1024
"""Most bytes of paths in one SetWatches: a fraction of what servers take (ZOOKEEPER-706)."""

SET_WATCHES = 28
"""Bytes of a SetWatches, the longer one, without its paths."""


class WatchKind(enum.Enum):
    """Which list of a server a watch is on, and which of SetWatches."""

    DATA = "data"
    EXIST = "exist"
    """Set by `exists` on a znode that was not there."""
    CHILD = "child"

    @property
    def wire(self) -> WatcherType:
        return WatcherType.CHILDREN if self is WatchKind.CHILD else WatcherType.DATA


FIRES: dict[EventType, tuple[WatchKind, ...]] = {
    EventType.CREATED: (WatchKind.EXIST, WatchKind.DATA),
    EventType.DATA_CHANGED: (WatchKind.DATA, WatchKind.EXIST),
    EventType.DELETED: (WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD),
    EventType.CHILDREN_CHANGED: (WatchKind.CHILD,),
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
        "is_sure",
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
        self.label: str = ""
        """The path as the caller named it; differs from `path` by the chroot."""
        self.wire: WatcherType | None = None
        """What it is armed as, or about to be, to the server."""
        self.kind: WatchKind | None = None
        """What it is armed as."""
        self.is_sure: bool = True
        """Whether the server has confirmed what it is armed as; see `together`."""
        self.pending: int = 0
        """How many reads that will arm it are unanswered."""
        self.closed: bool = False

    @property
    def is_armed(self) -> bool:
        return self.kind is not None and self.is_sure and self._registry.is_live

    def close(self) -> None:
        """Takes the watch back; it will not fire any more."""
        if not self.closed:
            self.closed = True
            self.on_event = None
            self._registry.drop(self)

    def fire(self, event: WatchEvent) -> None:
        self.event = event
        if self.on_event is not None:
            call_back(self.on_event, event)


class Arming:
    """A read that will arm a watch: the link between a call in flight and its slot."""

    __slots__ = ("_kind", "_path", "_registry", "_slot", "told")

    def __init__(
        self, registry: WatchRegistry, slot: WatchSlot, path: str, kind: WatchKind
    ) -> None:
        self._registry = registry
        self._slot = slot
        self._path = path
        self._kind = kind
        self.told: int = registry.told
        """What the server had been told of persistent watches before it was asked."""

    def sending(self, body: bytes) -> bytes:
        """The request as it goes out: with its flag, the last byte, or without."""
        self.told = self._registry.told
        return body if self._registry.is_one_shot(self._path, self._kind) else body[:-1] + b"\0"

    def armed(self, *, missing: bool = False) -> None:
        """The read was answered: the server watches now, maybe for a znode that is not there."""
        kind = WatchKind.EXIST if missing else self._kind
        self._registry.armed(self._slot, self._path, kind, self.told)

    def abandon(self) -> None:
        """The read failed: the server does not watch."""
        self._registry.abandoned(self._slot, self._path, self._kind)


class Joining:
    """A request that sets a persistent watch: the link between a call in flight and its stream."""

    __slots__ = ("_registry", "_stream")

    def __init__(self, registry: WatchRegistry, stream: StreamSlot) -> None:
        self._registry = registry
        self._stream = stream

    def sending(self, body: bytes) -> bytes | None:
        return self._registry.joining(self._stream)

    def armed(self, *, missing: bool = False) -> None:
        self._stream.is_set = True
        self._registry.joined(self._stream)

    def abandon(self) -> None:
        self._stream.closed = True
        self._registry.joined(self._stream)


class Leaving:
    """A request that removes all watches of a path."""

    __slots__ = ("_path", "_registry")

    def __init__(self, registry: WatchRegistry, path: str) -> None:
        self._registry = registry
        self._path = path

    def sending(self, body: bytes) -> bytes | None:
        return self._registry.leaving(self._path)

    def armed(self, *, missing: bool = False) -> None:
        pass

    def abandon(self) -> None:
        pass  # with the connection, and with that the server's watches


class WatchRegistry:
    """All watches of a session.

    Args:
        ask: sends the server a request of ours, on this connection or never: where there is none,
            nothing is to be asked, since only what is needed gets re-armed.
        seen: the last transaction that an answer has shown.
    """

    __slots__ = (
        "_armed",
        "_arming",
        "_ask",
        "_dropped",
        "_seen",
        "is_live",
        "persistent",
        "told",
        "unanswered",
    )

    def __init__(
        self,
        ask: Callable[[Call[None]], None],
        seen: Callable[[], int],
    ) -> None:
        self._ask = ask
        self._seen = seen
        self._armed: dict[tuple[str, WatchKind], dict[WatchSlot, None]] = {}
        self._arming: Counter[tuple[str, WatcherType]] = Counter()
        self._dropped: deque[WatchSlot] = deque()
        self.persistent: PersistentWatches = PersistentWatches()
        self.told: int = 0
        """Counts what servers were told of persistent watches."""
        self.is_live: bool = False
        """Whether the server knows of all of them: false from a lost link to their re-arming."""
        self.unanswered: int = 0
        """How many of the requests that re-arm are."""

    def __len__(self) -> int:
        return sum(map(len, self._armed.values())) + len(self.persistent)

    # --- one-shot watches ----------------------------------------------------------------------

    def begin(self, slot: WatchSlot, path: str, label: str, kind: WatchKind) -> Arming:
        """A read that arms the slot is about to be sent.

        Raises:
            UsageError: the slot is closed, or watches something else already.
        """
        self.reserve(slot, path, label, kind)
        return Arming(self, slot, path, kind)

    def reserve(self, slot: WatchSlot, path: str, label: str, kind: WatchKind) -> None:
        """A request that arms the slot is about to be sent.

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

    def is_one_shot(self, path: str, kind: WatchKind) -> bool:
        """Whether the server has to be told of such a watch; see `persistent`."""
        mode = self.persistent.mode(path)
        return mode is None or (mode is AddWatchMode.RECURSIVE and kind is WatchKind.CHILD)

    def armed(self, slot: WatchSlot, path: str, kind: WatchKind, told: int) -> None:
        self._settle(slot, path, kind)
        if slot.closed:  # ... while its read was in flight
            self._forget(path, kind)
            return
        if slot.kind is not None and slot.kind is not kind:
            self._discard(slot, path, slot.kind)
        slot.kind = kind
        self._armed.setdefault((path, kind), {})[slot] = None
        if told != self.told:  # ... and a persistent watch may have come or gone behind the read
            self._set_again(path)

    def abandoned(self, slot: WatchSlot, path: str, kind: WatchKind) -> None:
        self._settle(slot, path, kind)

    def arm_early(self, slot: WatchSlot, path: str) -> None:
        """Its request goes out now, and events may come before the answer; see `together`."""
        if slot.closed:
            return
        slot.is_sure = slot.kind is WatchKind.DATA
        if slot.kind is WatchKind.EXIST:
            self._discard(slot, path, slot.kind)
        slot.kind = WatchKind.DATA
        self._armed.setdefault((path, WatchKind.DATA), {})[slot] = None

    def armed_early(self, slot: WatchSlot, path: str) -> None:
        """The request of one that was armed early was answered."""
        slot.is_sure = True
        self._settle(slot, path, WatchKind.DATA)
        if slot.closed:
            self._forget(path, WatchKind.DATA)

    def disarm(self, slot: WatchSlot) -> None:
        """The server was not told of it after all."""
        slot.is_sure = True
        path, kind, slot.kind = slot.path, slot.kind, None
        if path is not None and kind is not None:
            self._discard(slot, path, kind)

    def _settle(self, slot: WatchSlot, path: str, kind: WatchKind) -> None:
        slot.pending -= 1
        key = (path, kind.wire)
        self._arming[key] -= 1
        if self._arming[key] <= 0:
            del self._arming[key]

    def _set_again(self, path: str) -> None:
        """Tells the server of the one-shot watches that a persistent one has ended, or fed."""
        kinds = [k for k in WatchKind if (path, k) in self._armed and self.is_one_shot(path, k)]
        if kinds:
            request = _set_watches(self._seen(), ((path, kind) for kind in kinds))
            self._send(request)

    def _send(self, request: SetWatches | RemoveWatches, effect: WatchEffect | None = None) -> None:
        self._ask(
            Call(
                request.op,
                encode_body(request),
                _nothing,
                is_write=True,
                bound=True,
                arming=effect,
                on_error=_not_set_again if isinstance(request, SetWatches) else None,
            )
        )

    def dropped(self, slot: WatchSlot) -> None:
        """The slot's owner is gone. For finalizers: in any thread, at any time."""
        self._dropped.append(slot)

    def sweep(self) -> None:
        """Closes what was dropped."""
        while self._dropped:
            self._dropped.popleft().close()

    def drop(self, slot: WatchSlot) -> None:
        """The slot's owner does not want to hear of it any more."""
        path, kind = slot.path, slot.kind
        slot.kind = None
        if path is not None and kind is not None:
            self._discard(slot, path, kind)
            self._forget(path, kind)

    def _discard(self, slot: WatchSlot, path: str, kind: WatchKind) -> None:
        slots = self._armed.get((path, kind))
        if slots is not None:
            slots.pop(slot, None)
            if not slots:
                del self._armed[path, kind]

    def _forget(self, path: str, kind: WatchKind) -> None:
        """Removes the server's watch, unless somebody here still needs it, or is about to."""
        wire = kind.wire
        wanted = (
            self._arming.get((path, wire), 0)
            or any((path, other) in self._armed for other in WatchKind if other.wire is wire)
            # Beside a persistent watch it stays: what removes the one may remove the other.
            or path in self.persistent.by_path
        )
        if not wanted:
            request = RemoveWatches(path, wire)
            self._send(request)

    # --- persistent watches --------------------------------------------------------------------

    def join(self, stream: StreamSlot) -> tuple[AddWatch, Joining]:
        """A stream is about to be opened, or once more: the request to send for it, also where
        others have set its watch: with the answer, the server surely watches.
        """
        stream.closed = False
        persistent = self.persistent.by_path.setdefault(stream.path, PersistentWatch())
        persistent.streams[stream] = None
        persistent.joining += 1
        mode = AddWatchMode.RECURSIVE if stream.recursive else AddWatchMode.PERSISTENT
        return AddWatch(stream.path, mode), Joining(self, stream)

    def joining(self, stream: StreamSlot) -> bytes | None:
        """The request goes out now: what it is to say. Nothing, if the stream was closed."""
        if stream.closed:
            return None
        persistent = self.persistent.by_path[stream.path]
        recursive = stream.recursive or persistent.mode is AddWatchMode.RECURSIVE
        mode = AddWatchMode.RECURSIVE if recursive else AddWatchMode.PERSISTENT
        if recursive or mode is not persistent.mode:  # a recursive one ends others each time
            persistent.mode = mode
            self.told += 1
            self._set_again(stream.path)
        return encode_body(AddWatch(stream.path, mode))

    def joined(self, stream: StreamSlot) -> None:
        """The request was answered, or has failed: then the stream is closed."""
        persistent = self.persistent.by_path[stream.path]
        persistent.joining -= 1
        if stream.closed:
            persistent.streams.pop(stream, None)
            self._unless_needed(stream.path, persistent)

    def leave(self, stream: StreamSlot) -> None:
        """The stream was closed."""
        stream.closed = True
        persistent = self.persistent.by_path.get(stream.path)
        if persistent is not None and stream in persistent.streams:
            del persistent.streams[stream]
            self._unless_needed(stream.path, persistent)

    def _unless_needed(self, path: str, persistent: PersistentWatch) -> None:
        if persistent.is_needed:
            return
        if persistent.mode is None:
            del self.persistent.by_path[path]
        else:
            self._send(RemoveWatches(path, WatcherType.ANY), Leaving(self, path))

    def leaving(self, path: str) -> bytes | None:
        """The request that removes it goes out now, unless it is needed again."""
        persistent = self.persistent.by_path.get(path)
        if persistent is None or persistent.is_needed:
            return None
        del self.persistent.by_path[path]
        self.told += 1
        self._set_again(path)
        return encode_body(RemoveWatches(path, WatcherType.ANY))

    # --- events --------------------------------------------------------------------------------

    def fire(self, type_: EventType, path: str, zxid: int) -> None:
        """An event came in: every watch that it consumes fires, and every stream is told."""
        if type_ not in FIRES:
            return  # that a watch was removed: Java's client says so to itself, no server does
        fired: list[WatchSlot] = []
        for kind in FIRES.get(type_, ()):
            fired.extend(self._armed.pop((path, kind), ()))
        for slot in fired:
            slot.kind = None
        for slot in fired:
            slot.fire(WatchEvent(type_, slot.label, zxid))
        if self.persistent.by_path:
            self.persistent.fire(type_, path, zxid)

    # --- links and sessions --------------------------------------------------------------------

    def link_lost(self) -> None:
        """The server has forgotten everything."""
        self.is_live = False
        self.unanswered = 0
        self.persistent.link_lost()

    def rearmed(self, err: int) -> None:
        """One of the requests that re-arm was answered; after the last, all is told again.

        Raises:
            ConnectionLossError: the server refuses: the link must be cut.
        """
        if err:
            raise _not_set_again(server_error(err))
        self.unanswered -= 1
        self._if_live()

    def _if_live(self) -> None:
        if not self.unanswered:
            self.is_live = True
            self.persistent.set_again()

    def end(self, error: Callable[[], AioleadError]) -> None:
        """The client is closed, or was refused: the streams end."""
        self.persistent.end(error)

    def session_over(self) -> None:
        """The session ended: no watch of it can fire any more, and each is told so.

        Streams go on in the next one, and are told when their watches are set there.
        Reads that were to arm one have failed by now; those in `_arming` are for the next session.
        """
        self.is_live = False
        slots = [slot for group in self._armed.values() for slot in group]
        self._armed.clear()
        for slot in slots:
            slot.kind = None
        for slot in slots:
            slot.fire(WatchEvent(EventType.NONE, slot.label))
        self.persistent.session_over()

    def rearm(self, relative_zxid: int, room: int) -> Iterator[SetWatches]:
        """The requests that re-arm everything on a new connection, in chunks.

        Args:
            relative_zxid: the last transaction that the client has seen; the server reports at
                once what changed since.
            room: how many bytes one request may have.
        """
        for request in self._requests(relative_zxid, min(CHUNK, room - SET_WATCHES)):
            self.unanswered += 1
            yield request
        self._if_live()

    def _requests(self, relative_zxid: int, limit: int) -> Iterator[SetWatches]:
        self.told += 1
        persistent = self.persistent.told_again()
        early: list[tuple[str, List]] = []
        late: list[tuple[str, List]] = []
        for path, kind in self._armed:
            ended = kind is WatchKind.CHILD and self.persistent.mode(path) is AddWatchMode.RECURSIVE
            (late if ended else early).append((path, kind))
        for group in (early, persistent, late):
            chunk: list[tuple[str, List]] = []
            size = 0
            for path, list_ in group:
                cost = len(path.encode()) + 4
                if size and size + cost > limit:
                    yield _set_watches(relative_zxid, chunk)
                    chunk, size = [], 0
                chunk.append((path, list_))
                size += cost
            if size:
                yield _set_watches(relative_zxid, chunk)


def _not_set_again(error: AioleadError) -> NoReturn:
    """A server that refuses to watch must not be taken for one that has nothing to report."""
    raise ConnectionLossError(f"the server does not set watches again: {error}")


def _nothing(_: Reader) -> None:
    return None


List = WatchKind | AddWatchMode
"""Which list of SetWatches a path is on."""


def _set_watches(zxid: int, watches: Iterable[tuple[str, List]]) -> SetWatches:
    chunk: defaultdict[List, list[str]] = defaultdict(list)
    for path, list_ in watches:
        chunk[list_].append(path)
    persistent = chunk[AddWatchMode.PERSISTENT] or chunk[AddWatchMode.RECURSIVE]
    return SetWatches(
        zxid,
        tuple(chunk[WatchKind.DATA]),
        tuple(chunk[WatchKind.EXIST]),
        tuple(chunk[WatchKind.CHILD]),
        tuple(chunk[AddWatchMode.PERSISTENT]),
        tuple(chunk[AddWatchMode.RECURSIVE]),
        OpCode.SET_WATCHES2 if persistent else OpCode.SET_WATCHES,
    )
