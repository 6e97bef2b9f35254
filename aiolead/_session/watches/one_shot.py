"""One-shot watches: armed by reads, fired by events, re-armed on new connections."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._util.internal_errors import call_back
from ..._wire.codes import WatcherType
from ...model import EventType, WatchEvent

if TYPE_CHECKING:
    from .registry import WatchRegistry


class WatchKind(enum.Enum):
    """The list of a server, and of SetWatches, that a watch is on."""

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
"""The watches that an event consumes, as in ZooKeeper's `ZKWatchManager.materialize`."""


@dataclass(slots=True, eq=False, repr=False)
class WatchSlot:
    """One watch of one caller, bound to a path and a kind while armed or about to be.

    Attributes:
        on_event: called synchronously when `event` fires the watch.
        label: the path as the caller named it, without the chroot.
        wire: its type on the server; `kind` is set while it is armed.
        pending: how many unanswered requests will arm it.
    """

    _registry: WatchRegistry
    on_event: Callable[[WatchEvent], object] | None
    event: WatchEvent | None = None
    path: str | None = None
    label: str = ""
    wire: WatcherType | None = None
    kind: WatchKind | None = None
    pending: int = 0
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
