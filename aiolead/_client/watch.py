"""A one-shot watch, as something to await."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel

from .._session.watches import WatchRegistry, WatchSlot
from ..errors import UsageError
from ..model import WatchEvent


class ClientWatch(WatchSlot):
    """See `aiolead.abc.Watch`. Also a context manager that closes the watch."""

    __slots__ = ("_fired",)

    def __init__(
        self, registry: WatchRegistry, on_event: Callable[[WatchEvent], object] | None
    ) -> None:
        super().__init__(registry, on_event)
        self._fired: anyio.Event | None = None

    def belongs_to(self, registry: WatchRegistry) -> bool:
        """Whether it was made for this client's watches."""
        return self._registry is registry

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

    async def wait(self) -> WatchEvent:
        """Waits for the event. Cancellation: leaves the watch armed.

        Raises:
            UsageError: the watch was closed before anything happened.
        """
        if (event := self.event) is not None:
            await anyio.lowlevel.checkpoint()
            return event
        while self.event is None:
            if self.closed:
                await anyio.lowlevel.checkpoint()
                raise UsageError("the watch was closed")
            if self._fired is None:
                self._fired = anyio.Event()
            await self._fired.wait()
        return self.event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
