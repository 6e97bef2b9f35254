"""The one process, thread and event loop that a client belongs to.

A client has no locks, and its socket and session belong to one process. Used elsewhere, it would
mix up frames, wake tasks of a loop that does not run, or end the parent's session. So every entry
point checks, cheaply: one call returns this thread's event loop, and an object that is replaced in
the child shows a fork. A forked child inherits the connections, but must neither write to them nor
read from them: there they are replaced by `/dev/null`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .._util.daemon_threads import ENDED
from .._util.internal_errors import call_back
from ..errors import UsageError

process = object()
"""A different object in each process that Python knows to be forked."""

_sockets: dict[int, tuple[Any, Any]] = {}
"""Both ends of each client connection, by descriptor: a number may be reused."""


def _in_child() -> None:
    global process
    process = object()
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        for fileno, ends in _sockets.items():
            if _ends(fileno) == ends:
                # Closing it would remove it from the event loop's epoll, which is the parent's as
                # well; and the number might be reused before the stream closes it.
                os.dup2(nothing, fileno)
    finally:
        os.close(nothing)
    _sockets.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@contextlib.contextmanager
def kept_from_children(raw: Any) -> Iterator[None]:
    """While this is open, a forked process has no access to the connection of `raw`."""
    fileno = -1 if raw is None else raw.fileno()
    ends = _ends(fileno)
    if ends is not None:
        _sockets[fileno] = ends
    try:
        yield
    finally:
        _sockets.pop(fileno, None)


def _ends(fileno: int) -> tuple[Any, Any] | None:
    try:
        with socket.socket(fileno=os.dup(fileno)) as sock:
            return sock.getsockname(), sock.getpeername()
    except OSError:
        return None  # not connected, or no socket any more


class LoopAffinity:
    """The process, thread and event loop to which a client belongs, once they are bound.

    Attributes:
        process: compared with `process` of this module by what must cost no call; see `is_forked`.
    """

    __slots__ = ("_is_asyncio", "_loop", "_pid", "_running", "_soon", "_thread", "process")

    def __init__(self) -> None:
        self._running: Callable[[], object] = _nowhere
        self._loop: object = None
        self._is_asyncio = False
        self._soon: Callable[[Callable[[], object]], object] | None = None
        self.process: object = process
        self._pid = os.getpid()
        self._thread = threading.get_ident()

    def bind(self) -> None:
        """From now on the client belongs to this process, thread and event loop."""
        self._running = _loop_teller()
        loop: Any = self._running()
        self._loop = loop
        self._is_asyncio = hasattr(loop, "call_soon_threadsafe")
        self._soon = loop.call_soon_threadsafe if self._is_asyncio else loop.run_sync_soon
        self.process = process
        self._pid = os.getpid()
        self._thread = threading.get_ident()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the client's."""
        return process is not self.process

    def call_soon(self, function: Callable[[], object]) -> None:
        """Has the event loop call a function soon; without effect once the event loop has ended.

        Any thread of this process may call it, and any signal handler.
        """
        if self._soon is not None and not self.is_forked:  # else it would wake the parent's loop
            with contextlib.suppress(*ENDED):
                self._soon(partial(call_back, function))

    def is_here(self) -> bool:
        """Whether this is the process, thread and event loop; all are before `bind`."""
        try:
            return self._running() is self._loop and process is self.process
        except RuntimeError:
            return False  # no event loop here at all

    def is_in_task(self) -> bool:
        """Whether a task of the event loop calls this, and not a callback of it."""
        if self._soon is None or not self.is_here():
            return False
        if self._is_asyncio:
            return sys.modules["asyncio"].current_task() is not None
        in_task: bool = sys.modules["trio"].lowlevel.in_trio_task()
        return in_task

    def check(self) -> None:
        """Raises `UsageError` in another process, thread or event loop, or in none."""
        try:
            if self._running() is self._loop and process is self.process:
                return
        except RuntimeError:
            pass
        raise UsageError(self._elsewhere())

    def _elsewhere(self) -> str:
        if self.is_forked:
            return (
                f"the client belongs to process {self._pid}, of which this one, {os.getpid()}, was "
                "forked: connect in this process, too"
            )
        if threading.get_ident() != self._thread:
            return (
                "the client belongs to the event loop of another thread: call it there, for "
                "instance by anyio.from_thread.run"
            )
        return "the client belongs to another event loop: connect in this one, too"


def _nowhere() -> None:
    """The event loop of a client that is not bound."""


def _loop_teller() -> Callable[[], object]:
    """Returns the function that returns the running event loop, or raises `RuntimeError`."""
    teller: Callable[[], object]
    # Neither library is imported: a program on one of them may lack the other.
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        teller = asyncio.get_running_loop
        with contextlib.suppress(RuntimeError):
            teller()
            return teller
    teller = sys.modules["trio"].lowlevel.current_trio_token
    return teller
