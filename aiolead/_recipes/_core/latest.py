"""An async iterator over the latest of a series of values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, TypeVar, cast

import anyio
import anyio.lowlevel

V = TypeVar("V")


class Latest(AsyncIterator[V], Generic[V]):
    """Values that one side publishes and the other iterates over.

    The latest wins: who is slow may miss values, but never the last one.
    """

    def __init__(self) -> None:
        self._value: V | None = None
        self._is_new = False
        self._over = False
        self._error: Exception | None = None
        self._wake = anyio.Event()

    @property
    def current(self) -> V | None:
        """The latest value, whatever has been iterated over; None before the first."""
        return self._value

    def _publish(self, value: V) -> None:
        """Makes a value the latest. Ignored if it equals the one before."""
        if value != self._value:
            self._value = value
            self._is_new = True
            self._wake.set()

    def _finish(self, error: Exception | None = None) -> None:
        """Ends the iteration after the latest value, with the error if there is one."""
        self._over = True
        self._error = error
        self._wake.set()

    async def __anext__(self) -> V:
        if self._is_new or self._over:
            await anyio.lowlevel.checkpoint()
        while not self._is_new:
            if self._over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            if self._wake.is_set():
                self._wake = anyio.Event()  # never replaced while somebody waits for it
            await self._wake.wait()
        self._is_new = False
        return cast(V, self._value)
