"""The signals that ask a command to end."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

import anyio

__all__ = ["Signals", "until_signal"]

_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """Notes SIGTERM, SIGINT and SIGHUP for as long as it is entered.

    They are noted as Python itself learns of them, not when the event loop comes round to it: so
    `pending` can be trusted where something must not be begun after a signal.

    A signal that was ignored when the process began stays ignored, as `nohup` and background jobs
    of a shell script want it.
    """

    def __init__(self) -> None:
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
        if self.first is None:
            self.first = number
        self._waiting.append(number)
        # A full pipe wakes the reader just as well.
        with suppress(BlockingIOError):
            os.write(self._pipe[1], b"\0")


async def until_signal(signals: Signals, work: Callable[[], Awaitable[object]]) -> int:
    """Does some work; a signal cancels it. What it raises leaves bare.

    Returns:
        the signal, or 0 if the work came to its end.
    """
    number = 0
    failure: Exception | None = None

    async def listen() -> None:
        nonlocal number
        number = await signals.next()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        try:
            await work()
        except Exception as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return number
