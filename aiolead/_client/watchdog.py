"""The watchdog: a thread that ends the process if a body outlives its lease.

`_session.overdue` decides. Renewals only move the time that the next look finds. A hold that
begins or is lost takes the lock, and wakes the thread only if it would look too late. The thread is
a daemon: it does not keep the process alive.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from types import ModuleType
from typing import NoReturn, final

from .._session.overdue import Overdue
from .._util.escaping import as_line, described, repr_with_session, shown_session
from ..errors import ConfigurationError, LossReason, UsageError

faulthandler: ModuleType | None
try:
    import faulthandler
except ImportError:  # isolated subinterpreters cannot load it
    faulthandler = None

EXIT_CODE = 70
"""`EX_SOFTWARE` of sysexits.h; neither Python nor the command `aiolead` exits with it."""

LEAST_LIMIT = 0.05
"""The least time for a report, in seconds; most take a few milliseconds."""

QUICK_SWITCHES = 1e-4
"""The interpreter's switch interval while the process is being ended; usually 5 ms."""


@final
@dataclass(frozen=True, slots=True)
class OverdueHold:
    """A hold that should have ended by now.

    Attributes:
        path: its znode, with the chroot.
        session_id: the session that owns the znode.
        reason: why it was lost, if its body ignored the cancellation; None if the loss was not even
            noticed, because the event loop does not run.
        remaining: seconds until the servers may give it to another contender; negative once they
            may.
    """

    path: str
    session_id: int
    reason: LossReason | None
    remaining: float

    def __repr__(self) -> str:
        return repr_with_session(self)

    def __str__(self) -> str:
        if self.reason is None:
            why = "the event loop does not run"
        else:
            why = f"its body goes on, although {self.reason}"
        return f"{self.path} (session {shown_session(self.session_id)}): {why}"


@final
@dataclass(frozen=True, slots=True)
class Overrun:
    """The report that a watchdog passes to its hook.

    Attributes:
        holds: all holds that are overdue at the same time.
    """

    holds: tuple[OverdueHold, ...]

    @property
    def remaining(self) -> float:
        """Seconds until the servers may give the first hold away, as of the hook's call."""
        return min(hold.remaining for hold in self.holds)

    def __str__(self) -> str:
        left = self.remaining
        when = f"in {left:.3f} s" if left > 0 else f"for {-left:.3f} s already"
        what = "; ".join(map(str, self.holds))
        return f"held for too long: {what}; the servers may have given it away {when}"

    def end_process(self, why: str = "") -> NoReturn:
        """Report, and end the process at once with exit code 70: the default of a watchdog.

        One line, with `why`, and the stacks of all threads go to the file descriptor of standard
        error, if it takes them in time. Nothing is cleaned up: no `finally`, no `atexit`, no
        flushing of files.
        """
        with suppress(BaseException):
            # Otherwise a busy thread would delay each of the next steps.
            sys.setswitchinterval(QUICK_SWITCHES)
            limit = max(LEAST_LIMIT, self.remaining / 2)
            within(limit, lambda: _report(f"{self}{why and f'; {why}'}"))
        os._exit(EXIT_CODE)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Watchdog:
    """A hard stop for code that does not stop by itself: for `connect(watchdog=...)`.

    While anything is held, a thread knows when the servers may give it to another contender. If the
    body still runs shortly before that (the event loop is blocked, or the body ignores its
    cancellation), the thread calls `on_overrun`, or ends the process. It does the same if a hold
    was lost otherwise and its body has not ended within the grace period.

    Args:
        on_overrun: called in a thread of its own, once for each hold; it must not need the event
            loop. If it returns, the process goes on. If it raises, or still runs when the servers
            may give the hold away (or after `reserve`, if that is later), the process is ended.
            Defaults to `Overrun.end_process`, called at once.
        reserve: how long before that time the thread acts, in seconds: what ending the process, or
            `on_overrun`, takes. At most half of the grace period; defaults to that half, or 0.25 if
            that is less. Bodies that take longer to stop than the grace period less this are hit.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    on_overrun: Callable[[Overrun], object] | None = None
    reserve: float | None = None

    def __post_init__(self) -> None:
        if self.on_overrun is not None and not callable(self.on_overrun):
            raise ConfigurationError(f"on_overrun: must be callable, not {self.on_overrun!r}")
        number = isinstance(self.reserve, (int, float)) and not isinstance(self.reserve, bool)
        if self.reserve is not None and not (number and self.reserve > 0):
            raise ConfigurationError(
                f"reserve: must be seconds above 0, not {described(self.reserve)}"
            )


def within(seconds: float, job: Callable[[], object]) -> str | None:
    """Run a job in its own thread for at most `seconds`; return what went wrong, or None."""
    problem: list[str] = [f"has not returned within {seconds:.3g} seconds"]

    def run() -> None:
        try:
            job()
        except BaseException as error:
            problem[:] = [f"raised {error!r}"]
        else:
            problem.clear()

    thread = threading.Thread(target=run, name="aiolead-watchdog-job", daemon=True)
    thread.start()
    thread.join(seconds)
    return problem[0] if problem else None


def _report(line: str) -> None:
    """Writes a line and all stacks to standard error. May block forever if nobody reads it."""
    text = f"aiolead: {as_line(line)}; this process ends with exit code {EXIT_CODE}\n".encode()
    # `sys.stderr` may be locked, by the very thread that is stuck.
    with os.fdopen(os.dup(2), "wb", buffering=0) as stderr:
        stderr.write(text)
        stderr.write(_stacks())


def _stacks() -> bytes:
    """Returns the stacks of all threads, as `faulthandler` shows them, up to 64 KiB.

    It lets no other thread run, so it must not write to what may be full, but to a pipe of our own.
    """
    if faulthandler is None:
        return b""
    source, sink = os.pipe()
    try:
        os.set_blocking(sink, False)
        faulthandler.dump_traceback(sink)
    finally:
        os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        return pipe.read()


LONGEST_SLEEP = 0.25
"""The longest sleep of a holder, in seconds: its clock stops in suspend, the lease's does not."""

ENDS_WITHIN = 1.0
"""How long closing waits for an idle thread to end, in seconds."""


@final
class Guard:
    """One client's watchdog; the thread calls `clock`, too.

    `end_process` gets the reason; it is called without a hook, or if that fails.

    Attributes:
        overdue: the holds that it watches; it is passed to the session's machine.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        watchdog: Watchdog,
        end_process: Callable[[Overrun, str], object] = Overrun.end_process,
    ) -> None:
        self._clock = clock
        self._on_overrun = watchdog.on_overrun
        self._end_process = end_process
        self.overdue: Overdue = Overdue(clock, watchdog.reserve, self._look_by)
        self._news = threading.Condition()
        self._looks_at = -inf  # guarded by `_news`; -inf while the thread is awake
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="aiolead-watchdog", daemon=True)

    def start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            raise UsageError(
                f"watchdog: needs a thread, and this process can start none ({error}): raise its "
                "limit (`ulimit -u`, `pids.max` of its cgroup), or connect without watchdog"
            ) from error

    def close(self) -> None:
        """Ends the thread, and waits for that unless a body still runs; then it ends later."""
        with self._news:
            self._closed = True
            self._news.notify()
        if self.overdue.is_idle and self._thread.is_alive():
            self._thread.join(ENDS_WITHIN)

    def _look_by(self, when: float) -> None:
        with self._news:
            if when < self._looks_at:
                self._news.notify()

    # --- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        rested = True  # whether the last sleep was not disturbed
        while True:
            with self._news:
                # An earlier deadline is stored before the lock is taken: either this look finds
                # it, or the thread already sleeps and is woken.
                now = self._clock()
                found, due = self.overdue.look(now)
                if not found:
                    if due == inf and self._closed:
                        return
                    if due == inf and not rested:
                        # A program that held something briefly will do so again.
                        due = now + LONGEST_SLEEP
                    self._looks_at = due
                    rested = not self._sleep(due - now)
                    self._looks_at = -inf
            if found:
                self._act(
                    Overrun(
                        tuple(
                            OverdueHold(hold.path, hold.session_id, hold.reason, remaining)
                            for hold, remaining in found
                        )
                    )
                )

    def _sleep(self, seconds: float) -> bool:
        """Returns whether it was woken."""
        return self._news.wait(None if seconds == inf else min(seconds, LONGEST_SLEEP))

    def _act(self, overrun: Overrun) -> None:
        hook = self._on_overrun
        if hook is None:
            self._end_process(overrun, "")
            return
        try:
            problem = within(max(overrun.remaining, self.overdue.reserve), lambda: hook(overrun))
        except RuntimeError as error:  # no thread could be started
            problem = f"could not be called: {error}"
        if problem is not None:
            self._end_process(overrun, f"on_overrun {problem}")
