"""The signals that ask a command to end, and its concurrent tasks."""

from __future__ import annotations

import os
import signal
import termios
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self, TypeVar

import anyio

from .exits import Exit, die_of
from .output import undo_at_once

T = TypeVar("T")
R = TypeVar("R")

ENDS_WITHIN = 0.9
"""Seconds that a clean end may take after a signal, also while nobody reads the output."""
PATIENT_FOR = 0.5
"""Seconds from which another signal ends the process at once: one Ctrl-C may send two signals."""

_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_AT_ONCE = (signal.SIGTERM, signal.SIGINT)
ENDING = (*_ASKING, signal.SIGQUIT)
_PASSED_ON = (*ENDING, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)


class Signals:
    """A context manager that collects SIGTERM, SIGINT and SIGHUP, or all that is `passed_on`.

    Python's signal handler records a signal, not the event loop: `pending` is reliable where
    something must not begin after a signal. The process dies, whatever it does, if the block is not
    left soon after, or at a second SIGTERM or SIGINT; with signals that are `passed_on` to a
    command, only after `end_soon`. Signals ignored at the start stay ignored, for `nohup` and
    background jobs of shell scripts. `survives`: the process never dies, as a shell that goes on.
    """

    def __init__(self, *, passed_on: bool = False, survives: bool = False) -> None:
        self._passed_on = passed_on
        self._may_die = not passed_on and not survives
        self._first_at = 0.0
        self.first: int | None = None
        self._waiting: deque[int] = deque()
        self._before: dict[signal.Signals, Any] = {}
        self._pipe = (-1, -1)
        self._code: Exit | None = None

    def __enter__(self) -> Self:
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        for number in _PASSED_ON if self._passed_on else _ASKING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._end_now)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._change_wakeup(self._pipe[1], -1)
        for number, before in self._before.items():
            signal.signal(number, before)
        for end in self._pipe:
            os.close(end)

    @property
    def pending(self) -> bool:
        """Whether a signal came that asks to end, and `next` has not returned it yet."""
        return any(number in ENDING for number in self._waiting)

    async def next(self) -> int:
        """Wait for a signal that was not returned yet. Cancellation loses none."""
        # Python only notes a signal that comes just before asyncio sleeps, and runs the handler
        # when the loop wakes up next. A write to the pipe wakes the loop. Trio wakes itself. The
        # loop of a shell runs in another thread.
        if threading.current_thread() is threading.main_thread():
            self._change_wakeup(-1, self._pipe[1])
        while not self._waiting:
            await anyio.wait_readable(self._pipe[0])
            with suppress(BlockingIOError):
                os.read(self._pipe[0], 4096)
        return self._waiting.popleft()

    def _change_wakeup(self, old: int, new: int) -> None:
        """Have signals write to the descriptor `new`, if `old` is the one that they write to."""
        found = signal.set_wakeup_fd(new, warn_on_full_buffer=False)
        if found != old:
            signal.set_wakeup_fd(found, warn_on_full_buffer=False)

    def end_soon(self, code: Exit | None = None) -> None:
        """Have the process exit with a code, or die of the first signal, if the end takes long."""
        self._code = code
        signal.setitimer(signal.ITIMER_REAL, ENDS_WITHIN)

    def _end_now(self, number: int, _frame: FrameType | None) -> None:
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)  # also while a terminal is put in order
        undo_at_once()
        if self._code is not None and not self._code.number:
            os._exit(self._code)
        die_of(self._code.number if self._code is not None else self.first or number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first is None:
            if number in ENDING:
                self.first, self._first_at = number, now
                if self._may_die:
                    self.end_soon()
        elif number in _AT_ONCE and self._may_die and now - self._first_at >= PATIENT_FOR:
            self._end_now(number, None)
        self._waiting.append(number)
        # A full pipe wakes the reader just as well.
        with suppress(BlockingIOError):
            os.write(self._pipe[1], b"\0")


def has_terminal() -> bool:
    """Whether standard input is a terminal, with this process in its foreground."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def without_sigttou() -> Iterator[None]:
    """Block the signal that stops a background process when it changes its terminal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])


class Job:
    """This process as a part of a shell's job, with the terminal that the job may have."""

    def __init__(self) -> None:
        self.has_given_terminal: bool = False
        """Whether the terminal belongs to the child, with this process's consent."""
        self._modes: list[Any] = []

    def give_terminal(self) -> bool:
        """Whether the child may have the terminal: this process's job is in its foreground."""
        with suppress(OSError), _terminal() as terminal:
            if os.tcgetpgrp(terminal) == os.getpgrp():
                self._modes = termios.tcgetattr(terminal)
                self.has_given_terminal = True
                return True
        return False

    def take_terminal(self, *, with_modes: bool = False) -> None:
        """Take the terminal back, if it was given; `with_modes` as it was then."""
        if not self.has_given_terminal:
            return
        self.has_given_terminal = False
        with suppress(OSError, termios.error), _terminal() as terminal:
            os.tcsetpgrp(terminal, os.getpgrp())
            if with_modes:
                termios.tcsetattr(terminal, termios.TCSADRAIN, self._modes)

    def suspend(self) -> None:
        """Stop this process, and the job if the terminal was given; return once it continues.

        The system ignores this where nobody could continue a job.
        """
        whom = 0 if self.has_given_terminal else os.getpid()
        self.take_terminal()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(whom, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)

    def relay(self, number: int) -> None:
        """Send a signal to the rest of the job, as the terminal would have done."""
        before = signal.signal(number, signal.SIG_IGN)
        os.kill(0, number)
        signal.signal(number, before)


@contextmanager
def _terminal() -> Iterator[int]:
    """The controlling terminal, where a process in the background may change it, too."""
    terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    try:
        with without_sigttou():
            yield terminal
    finally:
        os.close(terminal)


async def each_at_once(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """The results of some work for each of the items, done at the same time; in their order."""
    found: dict[int, R] = {}

    async def run(n: int, item: T) -> None:
        found[n] = await work(item)

    async with anyio.create_task_group() as tasks:
        for n, item in enumerate(items):
            tasks.start_soon(run, n, item)
    return [found[n] for n in sorted(found)]


async def first_of(*works: Callable[[], Awaitable[T]]) -> T:
    """Run tasks until one ends or fails, and cancel the rest; return its result.

    Its error is raised without a group.
    """
    results: list[T] = []
    failures: list[Exception] = []

    async def run(work: Callable[[], Awaitable[T]]) -> None:
        try:
            results.append(await work())
        except Exception as error:
            while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            failures.append(error)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for work in works:
            tasks.start_soon(run, work)
    if failures:
        raise failures[0]
    return results[0]
