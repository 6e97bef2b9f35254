"""The `WatchEffect` of each call that sets or removes a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
