"""Several one-shot watches that one request sets: a SetWatches, which is meant for new connections.

A server takes it at any time. To a read, the answer says whether there is something to watch, and
its events come after that. This one is answered with nothing, and what has happened already is told
by events, which come before the answer. So these watches are armed here as the request goes out.

While it is unanswered, their link may be lost. Then they are set again like all others, and the
request is sent again, as reads are: with what is left to be watched.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._wire.packets import encode_body
from ..._wire.requests import SetWatches
from .one_shot import WatchKind, WatchRegistry, WatchSlot


class Together:
    """The link between the request, as a call in flight, and the slots that it arms.

    Args:
        registry: the session's watches.
        slots: what is armed, and where: of data, of znodes that are known to have been there.
        since: a transaction; what has changed a znode after it is told, instead of watched for.
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
        """The request, as long as it can get."""
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
        """Whether it is to be set: it has neither fired nor been closed since it was sent first."""
        return slot.kind is WatchKind.DATA and self._registry.is_one_shot(path, WatchKind.DATA)

    def armed(self, *, missing: bool = False) -> None:
        """It was answered: whatever has not fired is watched for."""
        for slot, path in self._slots:
            self._registry.armed_early(slot, path)

    def abandon(self) -> None:
        """It has failed."""
        for slot, path in self._slots:
            self._registry.abandoned(slot, path, WatchKind.DATA)
            if self._is_sent:
                self._registry.disarm(slot)
