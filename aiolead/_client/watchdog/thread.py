"""The watchdog's thread: sleeps until something may be overdue, looks, and acts.

`_session.lease.overdue` decides. Renewals only move the time that the next look finds. A hold that
begins or is lost takes the lock, and wakes the thread only if it would look too late. The thread is
a daemon: it does not keep the process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from typing import final

from ..._session.lease.overdue import Overdue
from ..._session.machine import SessionMachine
from .settings import OverdueHold, Overrun, Watchdog, within

LONGEST_SLEEP = 0.25
"""The longest sleep of a holder, in seconds: its clock stops in suspend, the lease's does not."""

ENDS_WITHIN = 1.0
"""How long closing waits for an idle thread to end, in seconds."""


@final
class Guard:
    """One client's watchdog, made before its machine is used; the thread calls `clock`, too.

    `end_process` gets the reason; it is called without a hook, or if that fails.
    """

    def __init__(
        self,
        machine: SessionMachine,
        clock: Callable[[], float],
        watchdog: Watchdog,
        end_process: Callable[[Overrun, str], object] = Overrun.end_process,
    ) -> None:
        self._clock = clock
        self._on_overrun = watchdog.on_overrun
        self._end_process = end_process
        self._overdue = Overdue(machine, clock, watchdog.reserve, self._look_by)
        machine.leases.observer = self._overdue
        self._news = threading.Condition()
        self._looks_at = -inf  # guarded by `_news`; -inf while the thread is awake
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="aiolead-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, and waits for that unless a body still runs; then it ends later."""
        with self._news:
            self._closed = True
            self._news.notify()
        if self._overdue.is_idle and self._thread.is_alive():
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
                found, due = self._overdue.look(now)
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
            problem = within(max(overrun.remaining, self._overdue.reserve), lambda: hook(overrun))
        except RuntimeError as error:  # no thread could be started
            problem = f"could not be called: {error}"
        if problem is not None:
            self._end_process(overrun, f"on_overrun {problem}")
