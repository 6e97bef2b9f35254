"""The signals that ask a command to end."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

import anyio

from .output import has_lost_reader, undo_at_once

__all__ = ["Signals", "until_signal"]

LOOK_EVERY = 1.0
"""How often it is looked whether somebody reads, in seconds: what has nothing to say for an hour
would not notice it by writing."""

PATIENT_FOR = 0.5
"""How long after the first signal another one ends the process at once, in seconds. A shell, or
whatever runs us, may send two of them for one Ctrl-C."""

_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_AT_ONCE = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Notes SIGTERM, SIGINT and SIGHUP for as long as it is entered.

    They are noted as Python itself learns of them, not when the event loop comes round to it: so
    `pending` can be trusted where something must not be begun after a signal.

    Whoever sends SIGTERM or SIGINT once more, after a while, wants no orderly end: the process dies
    of it, whatever it does or waits for.

    A signal that was ignored when the process began stays ignored, as `nohup` and background jobs
    of a shell script want it.

    Args:
        passed_on: whether signals are for a command that is run, so that none of them ends us.
    """

    def __init__(self, *, passed_on: bool = False) -> None:
        self._passed_on = passed_on
        self._first_at = 0.0
        self.first: int | None = None
        """The first signal that came."""
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

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        for end in self._pipe:
            os.close(end)

    @property
    def pending(self) -> bool:
        """Whether a signal came that `next` has not returned yet."""
        return bool(self._waiting)

    async def next(self) -> int:
        """Waits for a signal that was not returned yet. Cancellation: loses none."""
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


async def until_signal(
    signals: Signals, work: Callable[[], Awaitable[object]], *, followed: bool = False
) -> int:
    """Does some work; a signal cancels it. What it raises leaves bare.

    Args:
        signals: where they come from.
        work: the work.
        followed: whether all of it is for who reads standard output, so that it ends with that one.

    Returns:
        the signal, or 0 if the work came to its end.

    Raises:
        BrokenPipeError: it was to be followed, and nobody reads any more.
    """
    number = 0
    failure: Exception | None = None

    async def listen() -> None:
        nonlocal number
        number = await signals.next()
        tasks.cancel_scope.cancel()

    async def look() -> None:
        nonlocal failure
        while True:
            if has_lost_reader():
                failure = BrokenPipeError()
                tasks.cancel_scope.cancel()
            await anyio.sleep(LOOK_EVERY)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        if followed:
            tasks.start_soon(look)
        try:
            await work()
        except Exception as error:
            failure = _bare(error)
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return number


def _bare(error: Exception) -> Exception:
    """An error without the groups of the task groups that it came through."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
