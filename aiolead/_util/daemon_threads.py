"""Calls what may block for long in daemon threads, which nobody waits for.

An event loop's own threads cannot be abandoned: `asyncio.run` waits for the default executor,
uvloop for libuv's threads, and Python itself, at its end, for those of anyio.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio

from .shielding import wait_through
from .tasks import trio_here

T = TypeVar("T")

ENDED = (RuntimeError, OSError)
"""Raised by an event loop that has ended, if another thread has it call something; `OSError` by one
of trio that was ended by force, such as by `sys.exit` in a signal handler."""


async def in_daemon_thread(
    function: Callable[[], T],
    name: str,
    on_end: Callable[[], object] | None = None,
    *,
    to_its_end: bool = False,
) -> T:
    """Call a function in a new daemon thread; return its result, or raise its exception.

    `on_end` is called in the event loop once the thread has ended, unless that loop has ended.

    Cancellation: abandons the thread. With `to_its_end`, it is put off until the thread has ended.
    """
    tell = _loop_caller()
    ended = anyio.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def finish() -> None:
        ended.set()
        if on_end is not None:
            on_end()

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # raised where it is awaited
            failures.append(error)
        with suppress(*ENDED):
            tell(finish)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except BaseException:  # the system has no more threads
        finish()
        raise
    await (wait_through(ended) if to_its_end else ended.wait())
    if failures:
        raise failures.pop()  # a list of frames that refer to it would be a cycle
    return results[0]


def _loop_caller() -> Callable[[Callable[[], object]], object]:
    """The function by which other threads have the running event loop call something."""
    trio = trio_here()
    caller: Callable[[Callable[[], object]], object]
    if trio is not None:
        caller = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        caller = sys.modules["asyncio"].get_running_loop().call_soon_threadsafe
    return caller
