"""An awaitable one-shot watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, final

import anyio
import anyio.lowlevel

from ..._session.watches.one_shot import WatchSlot
from ..._session.watches.registry import WatchRegistry
from ...errors import UsageError
from ...model import WatchEvent


class _AwaitedSlot(WatchSlot):
    """The session's part of a watch; users hold another object, which they may drop."""

    __slots__ = ("_fired",)

    def __init__(
        self, registry: WatchRegistry, on_event: Callable[[WatchEvent], object] | None
    ) -> None:
        super().__init__(registry, on_event)
        self._fired: anyio.Event | None = None

    def fire(self, event: WatchEvent) -> None:
        super().fire(event)
        self._wake()

    def close(self) -> None:
        super().close()
        self._wake()

    def _wake(self) -> None:
        if self._fired is not None:
            self._fired.set()
            self._fired = None

    async def changed(self) -> None:
        if self._fired is None:
            self._fired = anyio.Event()
        await self._fired.wait()


@final
class ClientWatch:
    """See `aiolead.abc.Watch`. Also a context manager that closes the watch.

    A watch that is dropped without being closed is removed with the next request or ping, unless
    its `on_event` is still to be called.
    """

    __slots__ = ("__weakref__", "_registry", "_slot", "_told")

    def __init__(
        self, registry: WatchRegistry, on_event: Callable[[WatchEvent], object] | None
    ) -> None:
        self._registry = registry
        self._slot = _AwaitedSlot(registry, on_event)
        self._told: WatchEvent | None = None
        """The event that a `wait` has returned."""

    def __del__(self) -> None:
        # Runs in any thread, in the middle of anything: so it only leaves a note.
        if not self._slot.closed and self._slot.on_event is None:
            self._registry.dropped(self._slot)

    def _slot_in(self, registry: WatchRegistry) -> WatchSlot | None:
        """The session's part of it; None if it belongs to another client."""
        return self._slot if self._registry is registry else None

    @property
    def event(self) -> WatchEvent | None:
        """See `aiolead.abc.Watch.event`."""
        return self._slot.event

    @property
    def is_armed(self) -> bool:
        """See `aiolead.abc.Watch.is_armed`."""
        return self._slot.is_armed

    def close(self) -> None:
        """See `aiolead.abc.Watch.close`."""
        self._slot.close()

    async def wait(self) -> WatchEvent:
        """See `aiolead.abc.Watch.wait`."""
        slot = self._slot
        if (event := slot.event) is not None:
            await anyio.lowlevel.checkpoint()
            if event is self._told:
                raise UsageError(
                    "the watch has fired, and `wait` has returned its event: pass the watch to a "
                    "read (`get`, `exists`, `get_children`) to arm it again"
                )
        while event is None:
            if slot.closed:
                await anyio.lowlevel.checkpoint()
                raise UsageError("the watch was closed")
            await slot.changed()
            event = slot.event
        self._told = event
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
