"""An event loop in a thread of its own, and the orders that other threads give it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from ...errors import UsageError

__all__ = ["LoopThread"]

_T = TypeVar("_T")

_PATIENCE = 30.0
"""How long an order may take, in seconds. Orders take microseconds; this only bounds a defect."""


class LoopThread:
    """A thread that runs an asyncio event loop until it is closed.

    Args:
        name: the name of the thread, and of its owner in messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        # Not `new_event_loop`: what the application's loops are made of must not matter here.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the thread carries out no order any more: it belongs to the process that this one
        was forked from, or the end of the interpreter has stopped it.
        """
        return os.getpid() != self._pid or sys.is_finalizing()

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Runs a coroutine in the thread and returns its result; to be called from elsewhere.

        Raises `UsageError` where the thread is out of reach.
        """
        if os.getpid() != self._pid:
            raise UsageError(
                f"{self._name} runs in process {self._pid}, of which this one, {os.getpid()}, was "
                "forked: use it there, or start another one in this process"
            )
        if sys.is_finalizing():
            raise UsageError(
                f"the interpreter ends, which has stopped {self._name}: leave its `with` block "
                "before the program ends"
            )
        # Not in the caller's context: by that of a task of trio, anyio would take this for trio.
        order = Context().run(asyncio.run_coroutine_threadsafe, work(), self._loop)
        try:
            return order.result(_PATIENCE)
        except BaseException:  # such as Ctrl-C: nobody waits for it any more
            order.cancel()
            raise

    def close(self) -> None:
        """Ends the thread, and cancels what still runs in it. Does nothing out of reach."""
        if self.is_out_of_reach:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_forever()
        # Only the orders that were interrupted are left, with what they have started.
        while tasks := asyncio.all_tasks(self._loop):
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(tasks))
