"""The `WatchEffect` of each call that sets or removes a watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..._wire.framing import encode_body
from ..._wire.requests import SetWatches
from .one_shot import WatchKind, WatchSlot
from .persistent import StreamSlot

if TYPE_CHECKING:
    from .registry import WatchRegistry


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


class BulkArming:
    """One SetWatches that arms several one-shot watches, on a connection of any age.

    The answer to a read precedes the events of its watch. The answer to SetWatches has no content,
    and what has happened already is reported by events before it. So the watches are armed here
    when the request is sent. If the connection is lost before the answer, they are re-armed like
    all others, and the request is sent again, as reads are, with what is left to be watched.

    `slots` are data watches with the paths of znodes that are known to have existed. A znode that
    has changed after the zxid `since` fires its watch at once.
    """

    __slots__ = ("_is_sent", "_registry", "_since", "_slots")

    def __init__(
        self, registry: WatchRegistry, slots: Sequence[tuple[WatchSlot, str]], since: int
    ) -> None:
        self._registry = registry
        self._slots = slots
        self._since = since
        self._is_sent = False

    @property
    def body(self) -> bytes:
        """The request at its longest."""
        return encode_body(SetWatches(self._since, tuple(path for _, path in self._slots)))

    def sending(self, body: bytes) -> bytes:
        if not self._is_sent:
            self._is_sent = True
            for slot, path in self._slots:
                self._registry.arm_early(slot, path)
        wanted = [path for slot, path in self._slots if self._is_due(slot, path)]
        if len(wanted) == len(self._slots):
            return body
        return encode_body(SetWatches(self._since, tuple(wanted)))

    def _is_due(self, slot: WatchSlot, path: str) -> bool:
        """Whether it has neither fired nor been closed since it was first sent."""
        return slot.kind is WatchKind.DATA and self._registry.is_one_shot(path, WatchKind.DATA)

    def armed(self, *, missing: bool = False) -> None:
        for slot, path in self._slots:
            self._registry.armed_early(slot, path)

    def abandon(self) -> None:
        for slot, path in self._slots:
            self._registry.abandoned(slot, path, WatchKind.DATA)
            if self._is_sent:
                self._registry.disarm(slot)


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
