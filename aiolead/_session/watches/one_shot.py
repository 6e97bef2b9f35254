"""One-shot watches as objects: armed by reads, fired by events, re-armed on new connections."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._internal_errors import call_back
from ..._wire.codes import WatcherType
from ...model import EventType, WatchEvent

if TYPE_CHECKING:
    from .registry import WatchRegistry


class WatchKind(enum.Enum):
    """Which list of a server a watch is on, and which of SetWatches."""

    DATA = "data"
    EXIST = "exist"
    """Set by `exists` on a znode that does not exist."""
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


@dataclass(slots=True, eq=False, repr=False)
class WatchSlot:
    """One watch of one caller. Bound to a path and a kind while armed, or about to be.

    Attributes:
        on_event: called synchronously when the watch fires.
        event: that has fired it.
        label: the path as the caller named it, without the chroot.
        wire: the type that it is armed as, or about to be, on the server.
        kind: the kind that it is armed as.
        is_sure: whether the server has confirmed that; see `BulkArming`.
        pending: how many unanswered reads will arm it.
    """

    _registry: WatchRegistry
    on_event: Callable[[WatchEvent], object] | None
    event: WatchEvent | None = None
    path: str | None = None
    label: str = ""
    wire: WatcherType | None = None
    kind: WatchKind | None = None
    is_sure: bool = True
    pending: int = 0
    closed: bool = False

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
