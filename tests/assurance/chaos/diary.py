"""A contender's own history: a file of lines, each written as it happens."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Self

from aiolead.testing.history import Event, History, Looked


def confirmations(history: Path) -> Path:
    """The file beside a history that says what stores have confirmed: store and element, in lines.

    They are no events: when a store took something, only the store knows.
    """
    return history.with_suffix(".added")


class Diary:
    """The history of one contender in one queue.

    A context manager. Its clock is CLOCK_MONOTONIC, which all processes of a machine share.

    Args:
        path: the file; appended to, one system call for each line, so that SIGKILL loses nothing.
        line: the contended path.
        contender: its name.
    """

    def __init__(self, path: Path, line: str, contender: str) -> None:
        self.line = line
        self.contender = contender
        self._elements = 0
        self._token = 0
        self._is_waiting = False
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._added = confirmations(path).open("a", buffering=1, encoding="utf-8")
        # kazoo's listeners are called in another thread.
        self._lock = threading.Lock()
        self.history = History(self.clock, sink=self._write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._added.close()

    @staticmethod
    def clock() -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)

    def _write(self, line: str) -> None:
        with self._lock:
            self._file.write(line)

    def joined(self) -> None:
        self._is_waiting = True
        self.history.joined(self.line, self.contender)

    def withdrew(self, why: str) -> None:
        """It does not wait any longer. Without effect on one that does not."""
        if self._is_waiting:
            self._is_waiting = False
            self.history.withdrew(self.line, self.contender, why)

    def entered(self, token: int | None = None, path: str = "", session_id: int = 0) -> None:
        """It was notified that it holds.

        Args:
            token: where a library gives its users none, the time stands in.
            path: its znode, if its user can know.
            session_id: the same.
        """
        self._is_waiting = False
        self._token = time.monotonic_ns() if token is None else token
        self.history.entered(
            self.line, self.contender, self._token, path=path, session_id=session_id
        )

    def left(self, *, lost: str = "") -> None:
        """It does not hold any more, as far as it knows.

        Args:
            lost: why it had to stop; empty if it wanted to.
        """
        if lost:
            self.history.stepped_down(self.line, self.contender, self._token, lost)
        self.history.left(self.line, self.contender, self._token, was_lost=bool(lost))

    def session(self, state: str, session_id: int) -> None:
        self.history.session(self.contender, state, session_id)

    def looked(self, *, held: bool, at: float) -> None:
        """It asked at `at` whether it holds, and got this answer.

        The time is taken first. A process that is stopped between the two has a later answer.
        """
        look = Looked(at=at, line=self.line, contender=self.contender, token=self._token, held=held)
        self.history.record(look)

    def new_element(self) -> str:
        """An element that it has never added to anything."""
        self._elements += 1
        return f"{self.contender}:{self._elements}"

    def added(self, store: str, element: str) -> None:
        """A store has confirmed that it has the element."""
        with self._lock:
            self._added.write(f"{store} {element}\n")


class Chronicle(History):
    """The faults of contenders, connections and servers. Several threads report them."""

    def __init__(self) -> None:
        super().__init__(Diary.clock)
        self._lock = threading.Lock()

    def record(self, event: Event) -> None:
        with self._lock:
            super().record(event)
