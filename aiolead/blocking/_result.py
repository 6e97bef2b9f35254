"""A result that the event loop sets once and other threads wait for. Nothing here is ever locked.

`concurrent.futures.Future` and `threading.Event` hold a lock while they are set. A signal handler
that interrupts the waiting thread at the wrong instruction keeps that lock for as long as it runs,
which blocks the event loop that sets the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


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
        try:
            if not self._is_set:  # else nobody may wake us
                bed.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
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
