"""An answer that one thread gives and others wait for.

`concurrent.futures.Future` and `threading.Event` lock what they are made of, also while they are
set. A signal handler that interrupts the thread that waits, at the wrong instruction, leaves that
locked for as long as it runs; and whoever sets it, which is the event loop, stands still. So here
is one that is never locked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Flag(threading.Event):
    """An event whose `set` waits for nobody, wherever those who wait for it were interrupted."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._asleep: set[threading.Lock] = set()  # what it does is one step for other threads

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'set' if self._is_set else 'unset'}>"

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Wakes all who wait; whoever begins to wait from now on does not."""
        self._is_set = True
        with suppress(KeyError):
            while True:
                self._asleep.pop().release()

    def clear(self) -> None:
        """Has those wait who begin to from now on."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set, for so many seconds at most; says whether it is."""
        if self._is_set:
            return True
        bed = threading.Lock()
        bed.acquire()
        self._asleep.add(bed)
        try:
            if not self._is_set:  # or else nobody may wake us
                bed.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            self._asleep.discard(bed)
        return self._is_set


class Answer(Generic[T]):
    """A value or an error: set once, in the event loop; waited for in threads."""

    def __init__(self) -> None:
        self._value: T
        self._error: BaseException | None = None
        self._is_there = Flag()

    def is_there(self) -> bool:
        """Whether it is set."""
        return self._is_there.is_set()

    def set(self, value: T) -> bool:
        """Sets the value, unless there is an answer; says whether it did."""
        if self.is_there():
            return False
        self._value = value
        self._is_there.set()
        return True

    def fail(self, error: BaseException) -> bool:
        """Sets an error, unless there is an answer; says whether it did."""
        if self.is_there():
            return False
        self._error = error
        self._is_there.set()
        return True

    def settle(self, act: Callable[[], T]) -> None:
        """Sets what a call gives, or raises."""
        try:
            self.set(act())
        except BaseException as error:  # it is that of the thread that waits
            self.fail(error)

    def result(self) -> T:
        """Waits for it; gives the value, or raises the error.

        An exception that a signal handler raises ends the wait, and changes nothing else.
        """
        self._is_there.wait()
        error = self._error
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error, self  # or else the error's traceback would keep itself alive
