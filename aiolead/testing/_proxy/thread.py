"""An event loop in a thread of its own, and the orders that other threads give it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["LoopThread"]

_T = TypeVar("_T")

_PATIENCE = 30.0
"""How long an order may take, in seconds. Orders take microseconds; this only bounds a defect."""


class LoopThread:
    """A thread that runs an asyncio event loop until it is closed."""

    def __init__(self, name: str) -> None:
        # Not `new_event_loop`: what the application's loops are made of must not matter here.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Runs a coroutine in the thread and returns its result; to be called from elsewhere."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(_PATIENCE)

    def close(self) -> None:
        """Ends the thread. Everything that ran in it must have ended before."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()
