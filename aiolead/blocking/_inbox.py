"""The way from threads into the event loop and back, on which nobody waits for a lock.

A thread posts callables to the inbox of the event loop, and waits for a `ThreadResult` that the
event loop sets once. A signal handler may interrupt a thread at any instruction, and use the client
itself: a lock that the thread held there would block the handler, or the event loop. That is why
this has neither queues, nor `concurrent.futures.Future`, nor `threading.Event`, nor the event
loops' own ways to be woken from threads.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")

Act = Callable[[], object]

LONGEST_SLEEP = 1.0
"""In seconds. A signal that comes just before a thread sleeps does not wake it: Python calls the
handler, also that of Ctrl-C, when the thread runs again."""


class Flag:
    """Like a `threading.Event`, but `set` never waits, wherever its waiters were interrupted."""

    def __init__(self) -> None:
        self._is_set = False
        self._asleep: set[threading.Lock] = set()  # each operation on it is atomic

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'set' if self._is_set else 'unset'}>"

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it and wake all waiters."""
        self._is_set = True
        with suppress(KeyError):
            while True:
                self._asleep.pop().release()

    def clear(self) -> None:
        """Reset it: later calls of `wait` wait again."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds; return whether it is."""
        if self._is_set:
            return True
        bed = threading.Lock()
        bed.acquire()
        self._asleep.add(bed)
        left, until = LONGEST_SLEEP, 0.0 if timeout is None else time.monotonic() + timeout
        try:
            while not self._is_set:  # once it is set, nobody may wake us
                if timeout is not None:
                    left = min(LONGEST_SLEEP, until - time.monotonic())
                if left <= 0.0 or bed.acquire(timeout=left):
                    break
        finally:
            self._asleep.discard(bed)
        return self._is_set


class LostEvent(Flag, threading.Event):
    """A `Flag` that users may pass where a `threading.Event` is expected."""

    def __init__(self) -> None:
        threading.Event.__init__(self)
        super().__init__()


class ThreadResult(Generic[T]):
    """A value or an error: set once, in the event loop; waited for in threads."""

    def __init__(self) -> None:
        self._value: T
        self._error: BaseException | None = None
        self._flag = Flag()

    def is_set(self) -> bool:
        return self._flag.is_set()

    def set(self, value: T) -> bool:
        """Set the value, unless there is a result; return whether it was set."""
        if self._flag.is_set():
            return False
        self._value = value
        self._flag.set()
        return True

    def fail(self, error: BaseException) -> bool:
        """Set an error, unless there is a result; return whether it was set."""
        if self._flag.is_set():
            return False
        self._error = error
        self._flag.set()
        return True

    def set_from(self, act: Callable[[], T]) -> None:
        try:
            self.set(act())
        except BaseException as error:  # it belongs to the waiting thread
            self.fail(error)

    def wait(self) -> T:
        """Return or raise the result. An exception from a signal handler only ends the wait."""
        self._flag.wait()
        error = self._error
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error, self  # else the traceback would keep the error alive


class Inbox:
    """Callables that threads post, and that the event loop runs in the order in which they come."""

    def __init__(self) -> None:
        self.is_closed = False
        self._posted: deque[tuple[Act, Act]] = deque()
        self._deferred: deque[Act] = deque()
        self._has_deferred: anyio.Event | None = None
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)

    # --- in any thread -------------------------------------------------------------------------

    def post(self, act: Act, refuse: Act = lambda: None) -> None:
        """Have the event loop call `act`, or `refuse` if it ends before that. Never waits."""
        self._posted.append((partial(copy_context().run, act), refuse))
        # In this order: the event loop sets the flag, then empties the inbox. So either it finds
        # this, or we see the flag.
        if self.is_closed:
            self._run_posted()
        else:
            self._wake()

    def _wake(self) -> None:
        try:
            self._sender.send(b"!")
        except BlockingIOError:
            pass  # enough unread bytes wake it already
        except OSError:
            if not self.is_closed:  # else nobody would receive it
                raise

    def _run_posted(self) -> None:
        """Run what was posted; once the event loop has ended, in any thread, refuse it."""
        while True:
            try:
                act, refuse = self._posted.popleft()
            except IndexError:
                return
            if self.is_closed:
                refuse()
            else:
                act()

    # --- in the event loop ---------------------------------------------------------------------

    def defer(self, act: Act) -> None:
        """Call `act` in the task of `receive`; callables may run in a callback without a task."""
        self._deferred.append(partial(copy_context().run, act))
        if self._has_deferred is not None:
            self._has_deferred.set()

    async def receive(self, backend: str) -> None:
        """Run what threads post, until the inbox is closed."""
        if backend != "asyncio":
            while not self.is_closed:
                await anyio.wait_readable(self._receiver)
                self._receive()
                self._run_deferred()
            return
        # `anyio.wait_readable` takes as long as all else that a request does here: it registers
        # the socket for each wait.
        loop = asyncio.get_running_loop()
        loop.add_reader(self._receiver.fileno(), self._receive)
        try:
            while not self.is_closed:
                self._has_deferred = anyio.Event()
                self._run_deferred()
                await self._has_deferred.wait()
        finally:
            loop.remove_reader(self._receiver.fileno())

    def _receive(self) -> None:
        self._receiver.recv(4096)
        self._run_posted()

    def _run_deferred(self) -> None:
        while self._deferred:
            self._deferred.popleft()()

    def close(self) -> None:
        """Refuse whatever is posted from now on, and end `receive`."""
        self.is_closed = True
        self._run_posted()
        self._run_deferred()
        if self._has_deferred is not None:
            self._has_deferred.set()
        self._wake()

    def release(self) -> None:
        """Close the sockets, after the event loop has ended."""
        self._receiver.close()
        self._sender.close()
