"""The signals that ask a command to end."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self

import anyio

from .first_of import first_of
from .output import has_lost_reader, undo_at_once

LOOK_EVERY = 1.0
"""How often to check for a reader, in seconds: an idle command does not notice by writing."""

PATIENT_FOR = 0.5
"""Seconds from which another signal ends the process at once: one Ctrl-C may send two signals."""

_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_AT_ONCE = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """A context manager that collects SIGTERM, SIGINT and SIGHUP.

    Python's signal handler records a signal, not the event loop: `pending` is reliable where
    something must not begin after a signal. A second SIGTERM or SIGINT, after a while, kills the
    process, whatever it does; not if signals are `passed_on` to a command. Signals ignored at the
    start stay ignored, for `nohup` and background jobs of shell scripts.
    """

    def __init__(self, *, passed_on: bool = False) -> None:
        self._passed_on = passed_on
        self._first_at = 0.0
        self.first: int | None = None
        self._waiting: deque[int] = deque()
        self._before: dict[signal.Signals, Any] = {}
        self._pipe = (-1, -1)

    def __enter__(self) -> Self:
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        for number in _ASKING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        for end in self._pipe:
            os.close(end)

    @property
    def pending(self) -> bool:
        """Whether a signal came that `next` has not returned yet."""
        return bool(self._waiting)

    async def next(self) -> int:
        """Wait for a signal that was not returned yet. Cancellation loses none."""
        while not self._waiting:
            await anyio.wait_readable(self._pipe[0])
            with suppress(BlockingIOError):
                os.read(self._pipe[0], 4096)
        return self._waiting.popleft()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self._first_at = number, now
        elif number in _AT_ONCE and not self._passed_on and now - self._first_at >= PATIENT_FOR:
            for each in self._before:
                signal.signal(each, signal.SIG_DFL)  # also while a terminal is put in order
            undo_at_once()
            os.kill(os.getpid(), number)
        self._waiting.append(number)
        # A full pipe wakes the reader just as well.
        with suppress(BlockingIOError):
            os.write(self._pipe[1], b"\0")


@contextmanager
def without_sigttou() -> Iterator[None]:
    """Block the signal that stops a background process when it changes its terminal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])


async def until_signal(
    signals: Signals, work: Callable[[], Awaitable[object]], *, followed: bool = False
) -> int:
    """Do some work; a signal cancels it. Return the signal, or 0 if the work ended by itself.

    Its exceptions propagate without exception groups. With `followed`, raises BrokenPipeError when
    nobody reads standard output any more.
    """
    number = 0

    async def listen() -> None:
        nonlocal number
        number = await signals.next()

    async def check_reader() -> None:
        while True:
            if has_lost_reader():
                raise BrokenPipeError
            await anyio.sleep(LOOK_EVERY)

    await first_of(listen, work, *([check_reader] if followed else []))
    return number
