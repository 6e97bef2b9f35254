"""The newest state, for everybody who listens: made once, however many they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, final

import anyio

from .web import Send

__all__ = ["Live"]

BEAT = 5.0
"""How often who listens hears that nothing is new, in seconds."""
PAUSE = 0.1
"""Least time between two states, in seconds."""


@final
class Live:
    """Sends the newest state to whoever listens, as server-sent events.

    Whoever is slow skips states, and never misses the last one.

    Args:
        make: makes the state, as it is now.
        clock: tells the time that is in the state.
    """

    def __init__(self, make: Callable[[], dict[str, Any]], clock: Callable[[], float]) -> None:
        self._make = make
        self._clock = clock
        self._version = 0
        self._made: tuple[int, bytes] = (-1, b"")
        self._news = anyio.Event()

    def changed(self) -> None:
        """There is a new state. It is made if somebody wants it."""
        self._version += 1
        self._news.set()
        self._news = anyio.Event()

    def state(self) -> bytes:
        """The state as it is now, as JSON on one line."""
        version, state = self._made
        if version != self._version:
            # What is no text of Unicode, which a path may be, is escaped by that.
            state = json.dumps(self._make(), separators=(",", ":")).encode("ascii")
            self._made = self._version, state
        return state

    async def follow(self, send: Send) -> None:
        """Sends the state, and again whenever it has changed, until it is cancelled."""
        # The browser is to try again soon after it has lost us.
        await send(b"retry: 1000\n\n")
        sent = -1
        while True:
            if sent != self._version:
                sent = self._version
                await send(b"event: state\ndata: %s\n\n" % self.state())
                await anyio.sleep(PAUSE)
            news = self._news
            if sent == self._version:
                with anyio.move_on_after(BEAT) as waiting:
                    await news.wait()
                if waiting.cancelled_caught:
                    await send(b"event: beat\ndata: %.3f\n\n" % self._clock())
