"""All watches of a session: one-shot and persistent ones.

One-shot watches (`WatchSlot`) are armed by reads, fired by events, and set again on new
connections. Persistent ones serve the streams of `streams`.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, NoReturn

from .._util.internal_errors import call_back
from .._wire.codes import AddWatchMode, OpCode, WatcherType, server_error
from .._wire.requests import AddWatch, RemoveWatches, SetWatches
from ..errors import OVERLOADED, AioleadError, ConnectionLossError, UsageError
from ..model import EventType, WatchEvent
from .requests import WATCH_CHANGE, Call, WatchEffect, no_result
from .streams import PersistentWatch, PersistentWatches, StreamSlot

CHUNK = 128 * 1024
"""Most bytes of paths in one SetWatches: a fraction of what servers accept (ZOOKEEPER-706)."""

SET_WATCHES = 28
"""Bytes of a SetWatches2 without its paths."""


class WatchKind(enum.Enum):
    """The list of a server, and of SetWatches, that a watch is on."""

    DATA = "data"
    EXIST = "exist"
    """Set by `exists` on a znode that does not exist."""
    CHILD = "child"

    wire: WatcherType
    """The type of the server's watch."""

    def __init__(self, list_: str) -> None:
        self.wire = WatcherType.CHILDREN if list_ == "child" else WatcherType.DATA

    # The kinds are keys of dicts for each event; that of `Enum` is written in Python.
    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__


List = WatchKind | AddWatchMode
"""The list of SetWatches that a path is on."""

FIRES: dict[EventType, tuple[WatchKind, ...]] = {
    EventType.CREATED: (WatchKind.EXIST, WatchKind.DATA),
    EventType.DATA_CHANGED: (WatchKind.DATA, WatchKind.EXIST),
    EventType.DELETED: (WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD),
    EventType.CHILDREN_CHANGED: (WatchKind.CHILD,),
}
"""The watches that an event consumes, as in ZooKeeper's `ZKWatchManager.materialize`."""


@dataclass(slots=True, eq=False, repr=False)
class WatchSlot:
    """One watch of one caller, bound to a path and a kind while armed or about to be.

    Attributes:
        on_event: called synchronously when `event` fires the watch.
        label: the path as the caller named it, without the chroot.
        wire: its type on the server; `kind` is set while it is armed.
        pending: how many unanswered requests will arm it.
        is_of_data: whether a read of the data arms it, which proves that it may be read: servers
            from 3.8.4 and 3.9.2 on do not report what happens to a znode that may not.
    """

    _registry: WatchRegistry
    on_event: Callable[[WatchEvent], object] | None
    event: WatchEvent | None = None
    path: str | None = None
    label: str = ""
    wire: WatcherType | None = None
    kind: WatchKind | None = None
    pending: int = 0
    is_of_data: bool = False
    closed: bool = False

    @property
    def is_armed(self) -> bool:
        return self.kind is not None and self._registry.is_live

    def close(self) -> None:
        """Withdraw the watch; it does not fire any more."""
        if not self.closed:
            self.closed = True
            self.on_event = None
            self._registry.drop(self)

    def fire(self, event: WatchEvent) -> None:
        self.event = event
        if self.on_event is not None:
            call_back(self.on_event, event)


class Arming:
    """A read that arms a watch."""

    __slots__ = ("_changes", "_kind", "_path", "_registry", "_slot")

    def __init__(
        self, registry: WatchRegistry, slot: WatchSlot, path: str, kind: WatchKind
    ) -> None:
        self._registry = registry
        self._slot = slot
        self._path = path
        self._kind = kind
        self._changes = registry.persistent_changes  # when it was sent

    def sending(self, body: bytes) -> bytes:
        """Return the body with its watch flag, the last byte, or without."""
        self._changes = self._registry.persistent_changes
        return body if self._registry.is_one_shot(self._path, self._kind) else body[:-1] + b"\0"

    def armed(self, *, missing: bool = False) -> None:
        kind = WatchKind.EXIST if missing else self._kind
        self._registry.armed(self._slot, self._path, kind, self._changes)

    def abandon(self) -> None:
        self._registry.abandoned(self._slot, self._path, self._kind)


class Joining:
    """A request that sets a persistent watch for a stream."""

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

    def __init__(self, registry: WatchRegistry, path: str) -> None:
        self._registry = registry
        self._path = path

    def sending(self, body: bytes) -> bytes | None:
        return self._registry.leaving(self._path)

    def armed(self, *, missing: bool = False) -> None:
        pass

    def abandon(self) -> None:
        pass  # the connection is lost, and with it the server's watches


class SettingAgain:
    """A request that sets the one-shot watches of a path again, beside persistent ones."""

    def __init__(self, persistent: PersistentWatches, path: str) -> None:
        self._persistent = persistent
        self._path = path
        persistent.setting_again(path)

    def sending(self, body: bytes) -> bytes | None:
        return body

    def armed(self, *, missing: bool = False) -> None:
        self._persistent.set_again(self._path)

    def abandon(self) -> None:
        self._persistent.set_again(self._path)


class WatchRegistry:
    """All watches of a session.

    `ask` sends a request on this connection or never: on a new one, only what is needed is set.
    `seen` returns the last zxid of any answer. `put_off` returns when to ask an overloaded server
    again that has dropped so many requests in a row.
    """

    def __init__(
        self,
        ask: Callable[[Call[None]], None],
        seen: Callable[[], int],
        put_off: Callable[[int], float],
    ) -> None:
        self._ask = ask
        self._seen = seen
        self._put_off = put_off
        # By kind and path. Nearly always there is one watch: then without a dict for it.
        self._armed: dict[WatchKind, dict[str, WatchSlot | dict[WatchSlot, None]]] = {
            kind: {} for kind in WatchKind
        }
        self._arming: dict[tuple[str, WatcherType], int] = {}
        """How many requests in flight are to arm such a watch, where there are any."""
        self.dropped_slots: deque[WatchSlot] = deque()
        """The slots that `sweep` closes."""
        self.persistent: PersistentWatches = PersistentWatches()
        self.persistent_changes: int = 0
        """How many requests about persistent watches were sent."""
        self.is_live: bool = False
        """Whether the server knows all watches: false from a lost connection to the re-arming."""
        self.unanswered: int = 0
        """How many re-arming requests are unanswered."""
        self._rearming: list[SetWatches] = []
        """The re-arming requests of this connection, until the server has accepted all of them."""
        self._dropped = 0
        """How often in a row an overloaded server has dropped any of them."""
        self._is_dropped = False
        self._unwatched_since = inf
        """The zxid since which changes are not reported, while an overloaded server drops them."""
        self.again_at: float = inf
        """When to send them again; see `rearm_again`."""

    def __len__(self) -> int:
        # Any thread may count them: it counts a copy, which is made in one step.
        armed = sum(
            len(each) if isinstance(each, dict) else 1
            for slots in self._armed.values()
            for each in list(slots.values())
        )
        return armed + len(self.persistent)

    # --- one-shot watches ----------------------------------------------------------------------

    def begin(
        self, slot: WatchSlot, path: str, label: str, kind: WatchKind, *, is_of_data: bool = False
    ) -> Arming:
        """Prepare a read that arms a slot. `UsageError` if it is closed, or watches other data."""
        if slot.closed:
            raise UsageError("the watch was closed")
        busy = slot.pending > 0 or slot.kind is not None
        if busy and (slot.path, slot.wire) != (path, kind.wire):
            raise UsageError(
                f"the watch is on {slot.label} already: make one watch for each thing to watch"
            )
        slot.path, slot.label, slot.wire = path, label, kind.wire
        slot.event = None
        slot.is_of_data = is_of_data
        slot.pending += 1
        key = (path, kind.wire)
        self._arming[key] = self._arming.get(key, 0) + 1
        return Arming(self, slot, path, kind)

    def join_armed(self, slot: WatchSlot, path: str, label: str) -> bool:
        """Arm a new slot beside those that reads of a znode's data have armed, without a request.

        Return False if there are none. From now on an event fires all of them: the server has one
        watch for them.
        """
        there = self._armed[WatchKind.DATA].get(path)
        if there is None or not any(each.is_of_data for each in _all(there)):
            return False
        slot.path, slot.label, slot.wire = path, label, WatcherType.DATA
        slot.is_of_data = True
        self._put(slot, path, WatchKind.DATA)
        return True

    def is_one_shot(self, path: str, kind: WatchKind) -> bool:
        """Whether a watch of this kind is set on the server; see `streams`."""
        mode = self.persistent.mode(path)
        return mode is None or (mode is AddWatchMode.RECURSIVE and kind is WatchKind.CHILD)

    def armed(self, slot: WatchSlot, path: str, kind: WatchKind, changes: int) -> None:
        """A read was answered; `changes` is what `persistent_changes` was when it was sent."""
        self.abandoned(slot, path, kind)
        if slot.closed:  # while its read was in flight
            self._remove(path, kind)
            return
        if slot.kind is not None and slot.kind is not kind:
            self._discard(slot)
        self._put(slot, path, kind)
        if changes != self.persistent_changes:
            # A persistent watch may have been set or removed behind the read.
            self._set_again(path)

    def abandoned(self, slot: WatchSlot, path: str, kind: WatchKind) -> None:
        """A request that was to arm the slot is no longer in flight."""
        slot.pending -= 1
        key = (path, kind.wire)
        left = self._arming.pop(key) - 1
        if left:
            self._arming[key] = left

    def dropped(self, slot: WatchSlot) -> None:
        """The slot's owner is gone. For finalizers: callable in any thread, at any time."""
        self.dropped_slots.append(slot)

    def sweep(self) -> None:
        """Close the slots whose owners are gone."""
        while self.dropped_slots:
            self.dropped_slots.popleft().close()

    def drop(self, slot: WatchSlot) -> None:
        path, kind = slot.path, slot.kind
        self._discard(slot)
        if path is not None and kind is not None:
            self._remove(path, kind)

    def _put(self, slot: WatchSlot, path: str, kind: WatchKind) -> None:
        slot.kind = kind
        armed = self._armed[kind]
        there = armed.get(path)
        if there is None or there is slot:
            armed[path] = slot
        elif isinstance(there, dict):
            there[slot] = None
        else:
            armed[path] = {there: None, slot: None}

    def _discard(self, slot: WatchSlot) -> None:
        path, kind, slot.kind = slot.path, slot.kind, None
        if path is None or kind is None:
            return
        armed = self._armed[kind]
        there = armed.get(path)
        if isinstance(there, dict):
            there.pop(slot, None)
        if there is slot or there == {}:
            del armed[path]

    def _remove(self, path: str, kind: WatchKind) -> None:
        """Remove the server's watch, unless it is still needed here, or about to be."""
        wire = kind.wire
        wanted = (
            (path, wire) in self._arming
            or any(path in armed for kind, armed in self._armed.items() if kind.wire is wire)
            # Beside a persistent watch it stays: removing the one may remove the other.
            or path in self.persistent.by_path
        )
        if not wanted:
            self._send(RemoveWatches(path, wire))

    def _set_again(self, path: str) -> None:
        """Set a path's one-shot watches again: a persistent one was set or removed there."""
        kinds = [k for k in WatchKind if path in self._armed[k] and self.is_one_shot(path, k)]
        if kinds:
            request = _set_watches(self._seen(), ((path, kind) for kind in kinds))
            self._send(
                request,
                SettingAgain(self.persistent, path),
                on_error=lambda error: self._not_set_again(request, error),
            )

    def _not_set_again(self, request: SetWatches, error: AioleadError) -> None:
        self._check_passing(error)
        self._rearming.append(request)
        self._drop([request])

    def _send(
        self,
        request: SetWatches | RemoveWatches,
        effect: WatchEffect | None = None,
        *,
        on_error: Callable[[AioleadError], None] | None = None,
    ) -> None:
        body = request.encode()
        self._ask(
            Call(request.op, body, no_result, kind=WATCH_CHANGE, arming=effect, on_error=on_error)
        )

    # --- persistent watches --------------------------------------------------------------------

    def join(self, stream: StreamSlot) -> tuple[AddWatch, Joining]:
        """Prepare to open a stream, possibly again: return the request to send.

        It is sent even if another stream has set the watch: the answer proves that the server
        watches.
        """
        stream.closed = False
        persistent = self.persistent.by_path.setdefault(stream.path, PersistentWatch())
        persistent.streams[stream] = None
        persistent.joining += 1
        mode = AddWatchMode.RECURSIVE if stream.recursive else AddWatchMode.PERSISTENT
        return AddWatch(stream.path, mode), Joining(self, stream)

    def joining(self, stream: StreamSlot) -> bytes | None:
        """Return the body to send now; None if the stream was closed."""
        if stream.closed:
            return None
        persistent = self.persistent.by_path[stream.path]
        recursive = stream.recursive or persistent.mode is AddWatchMode.RECURSIVE
        mode = AddWatchMode.RECURSIVE if recursive else AddWatchMode.PERSISTENT
        if recursive or mode is not persistent.mode:  # a recursive one ends others each time
            persistent.mode = mode
            self.persistent_changes += 1
            self._set_again(stream.path)
        return AddWatch(stream.path, mode).encode()

    def joined(self, stream: StreamSlot) -> None:
        """The request was answered, or has failed: then the stream is closed."""
        persistent = self.persistent.by_path[stream.path]
        persistent.joining -= 1
        if stream.closed:
            persistent.streams.pop(stream, None)
            self._remove_unneeded(stream.path, persistent)

    def leave(self, stream: StreamSlot) -> None:
        stream.closed = True
        persistent = self.persistent.by_path.get(stream.path)
        if persistent is not None and stream in persistent.streams:
            del persistent.streams[stream]
            self._remove_unneeded(stream.path, persistent)

    def _remove_unneeded(self, path: str, persistent: PersistentWatch) -> None:
        if persistent.is_needed:
            return
        if persistent.mode is None:
            del self.persistent.by_path[path]
        else:
            self._send(RemoveWatches(path, WatcherType.ANY), Leaving(self, path))

    def leaving(self, path: str) -> bytes | None:
        """Return the body of the removal to send now; None if the watch is needed again."""
        persistent = self.persistent.by_path.get(path)
        if persistent is None or persistent.is_needed:
            return None
        del self.persistent.by_path[path]
        self.persistent_changes += 1
        self._set_again(path)
        return RemoveWatches(path, WatcherType.ANY).encode()

    # --- events --------------------------------------------------------------------------------

    def fire(self, type_: EventType, path: str, zxid: int) -> None:
        """Fire every watch that the event consumes, and pass it to every stream."""
        if type_ not in FIRES:
            return  # a watch was removed: only Java's client reports this, to itself
        fired: list[WatchSlot] = []
        for kind in FIRES[type_]:
            there = self._armed[kind].pop(path, None)
            if there is not None:
                fired.extend(_all(there))
        for slot in fired:
            slot.kind = None
        for slot in fired:
            slot.fire(WatchEvent(type_, slot.label, zxid))
        if self.persistent.by_path:
            self.persistent.fire(type_, path, zxid)

    # --- connections and sessions --------------------------------------------------------------

    def connection_lost(self) -> None:
        self.is_live = False
        self.unanswered = 0
        self._begin_rearming()
        self.persistent.connection_lost()

    def session_over(self) -> None:
        """Fire every watch with `NONE`: it cannot fire any more.

        Streams continue in the next session, and report when their watches are set there. Reads
        that were to arm a watch have failed by now; those in `_arming` are for the next session.
        """
        self.is_live = False
        self._unwatched_since = inf
        slots = [
            slot for armed in self._armed.values() for each in armed.values() for slot in _all(each)
        ]
        for armed in self._armed.values():
            armed.clear()
        for slot in slots:
            slot.kind = None
        for slot in slots:
            slot.fire(WatchEvent(EventType.NONE, slot.label))
        self.persistent.session_over()

    def end(self, error: Callable[[], AioleadError]) -> None:
        """End the streams: the client is closed, or was refused."""
        self.persistent.end(error)

    def rearm(self, relative_zxid: int, room: int) -> Iterator[SetWatches]:
        """The requests, of `room` bytes at most, that re-arm everything on a new connection.

        The server reports at once what has changed since `relative_zxid`, or since an overloaded
        server did not set them.
        """
        since = int(min(relative_zxid, self._unwatched_since))
        for request in self._requests(since, min(CHUNK, room - SET_WATCHES)):
            self._rearming.append(request)
            self.unanswered += 1
            yield request
        self._set_live()

    def rearmed(self, err: int) -> None:
        """A re-arming request was answered. `ConnectionLossError`: the server refuses it.

        An overloaded server drops it. It is asked again on the same connection, later and later: a
        new connection would be more work for it, and would cost a renewal of the lease.
        """
        if err:
            self._check_passing(server_error(err))
            self._is_dropped = True
        self.unanswered -= 1
        self._set_live()

    def longest_unanswered(self) -> int:
        """The length of the longest re-arming request in flight, in bytes; 0 if there is none."""
        sent = self._rearming if self.unanswered else ()
        return max((len(request.encode()) for request in sent), default=0)

    def rearm_again(self) -> Iterator[SetWatches]:
        """The requests that re-arm what an overloaded server has not, and that is still needed.

        All of them are sent again, since their order matters.
        """
        requests = [self._still_needed(request) for request in self._rearming]
        self._begin_rearming()
        self._rearming = [request for request in requests if request is not None]
        for request in self._rearming:
            self.unanswered += 1
            yield request
        self._set_live()

    def _begin_rearming(self) -> None:
        self._rearming = []
        self._is_dropped = False
        self.again_at = inf

    def _still_needed(self, request: SetWatches) -> SetWatches | None:
        armed, persistent = self._armed, self.persistent.by_path
        left = replace(
            request,
            data=tuple(path for path in request.data if path in armed[WatchKind.DATA]),
            exist=tuple(path for path in request.exist if path in armed[WatchKind.EXIST]),
            child=tuple(path for path in request.child if path in armed[WatchKind.CHILD]),
            persistent=tuple(path for path in request.persistent if path in persistent),
            recursive=tuple(path for path in request.recursive if path in persistent),
        )
        has_any = left.data or left.exist or left.child or left.persistent or left.recursive
        return left if has_any else None

    def _set_live(self) -> None:
        if self.unanswered:
            return
        if self._is_dropped:
            self._drop(self._rearming)
        elif self.again_at == inf:
            self._begin_rearming()
            self._dropped = 0
            self._unwatched_since = inf
            self.is_live = True
            self.persistent.rearmed()

    def _drop(self, requests: Iterable[SetWatches]) -> None:
        """An overloaded server has dropped requests: send them again later."""
        self.is_live = self._is_dropped = False
        since = (request.relative_zxid for request in requests)
        self._unwatched_since = min(self._unwatched_since, *since)
        if self.again_at == inf:
            self.again_at = self._put_off(self._dropped)
            self._dropped += 1

    def _check_passing(self, error: AioleadError) -> None:
        """Raise `ConnectionLossError` unless the server is only overloaded.

        A server that refuses to watch must not be taken for one that has nothing to report.
        """
        if not isinstance(error, OVERLOADED):
            _rearming_refused(error)

    def _requests(self, relative_zxid: int, limit: int) -> Iterator[SetWatches]:
        self.persistent_changes += 1
        persistent = self.persistent.to_rearm()
        early: list[tuple[str, List]] = []
        late: list[tuple[str, List]] = []
        for kind, armed in self._armed.items():
            for path in armed:
                mode = self.persistent.mode(path)
                ended = kind is WatchKind.CHILD and mode is AddWatchMode.RECURSIVE
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


def _all(there: WatchSlot | dict[WatchSlot, None]) -> Iterable[WatchSlot]:
    """The watches of one kind on one path."""
    return there if isinstance(there, dict) else (there,)


def _rearming_refused(error: AioleadError) -> NoReturn:
    raise ConnectionLossError(f"the server does not set watches again: {error}")


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
