"""Whether the machine has let this process run, for tests that cannot do without real time.

A test that lives by the session timeout of a real server fails for two reasons: something is wrong,
or the process was stopped for so long that its session could only end. A thread tells the two
apart: it wakes up again and again, and measures by how much it was late.

A coroutine test, all of which run in real time, and one that reaches a server over TCP or is marked
`keeps_time`, is repeated when it fails if, and only if, this process was stopped meanwhile for a
sixth of the session timeout or more. The report
says so. A test that fails while the process runs is red at once, and one that has failed `ATTEMPTS`
times is red whatever the machine did.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Self

import pytest
from _pytest.runner import runtestprotocol

SESSION = 4.0
"""The session timeout of tests that do not name theirs, in seconds."""

SHARE = 6
"""Which part of its session timeout a client can lose without losing more: it renews its lease four
times per timeout, and stops a good deal before the session ends."""

IN_REAL_TIME = frozenset(
    {"anyio_backend", "server", "embedded", "own", "hosts", "old_and_new_hosts", "run"}
)
"""What tests take that run in real time: coroutine tests do (those on virtual time are functions),
servers of whatever kind are reached over TCP, and so they are by commands."""

ATTEMPTS = 3

REPEATED = "repeated"
"""The outcome of an attempt that does not count."""

STOPPED = "stopped for"
"""The name of the property that says for how many seconds the process was."""


class StallMonitor:
    """Measures for how long this process does not run. A context manager.

    Attributes:
        longest: the longest time, in seconds, that the process could not run, so far.
        total: all such times, in seconds: what a bound on real time may leave out.
    """

    INTERVAL = 0.02

    def __init__(self) -> None:
        self.longest = self.total = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stall-monitor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            before = time.monotonic()
            is_over = self._is_over.wait(self.INTERVAL)
            late = time.monotonic() - before - self.INTERVAL
            self.longest = max(self.longest, late)
            self.total += late
            if is_over:
                return


def tolerates(item: pytest.Item) -> float | None:
    """For how long the process may be stopped while a test runs; None where it does not matter."""
    marker = item.get_closest_marker("keeps_time")
    if marker is not None:
        return float(marker.args[0]) / SHARE
    names = getattr(item, "fixturenames", ())
    is_real = item.get_closest_marker("real") is not None
    return SESSION / SHARE if is_real or not IN_REAL_TIME.isdisjoint(names) else None


class StallGuard:
    """Repeats tests that failed while this process was stopped. A plugin of pytest."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        longest = tolerates(item)
        if longest is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for attempt in range(1, ATTEMPTS + 1):
            with StallMonitor() as monitor:
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
            has_failed = any(report.failed for report in reports)
            again = has_failed and monitor.longest >= longest and attempt < ATTEMPTS
            for report in reports:
                if again and report.failed:
                    report.user_properties.append((STOPPED, monitor.longest))
                    report.outcome = REPEATED  # type: ignore[assignment]
                if not again or report.outcome == REPEATED:
                    item.ihook.pytest_runtest_logreport(report=report)
            if not again:
                break
            _forget_failed_setup(item)
            item._initrequest()  # type: ignore[attr-defined]
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        if report.outcome == REPEATED:
            return REPEATED, "R", ("REPEATED", {"yellow": True})
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        reports = terminalreporter.stats.get(REPEATED, ())
        if not reports:
            return
        terminalreporter.section("REPEATED: failed while this process was stopped", yellow=True)
        for report in reports:
            seconds = dict(report.user_properties)[STOPPED]
            terminalreporter.line(f"{report.nodeid}: stopped for {seconds:.2f} s")
            if crash := getattr(report.longrepr, "reprcrash", None):
                terminalreporter.line(f"    {crash.message.partition(chr(10))[0]}")


def _forget_failed_setup(item: pytest.Item) -> None:
    """Fixtures of a wider scope that failed are set up again; pytest keeps their error."""
    for definitions in getattr(item, "_fixtureinfo").name2fixturedefs.values():  # noqa: B009
        for definition in definitions:
            result = definition.cached_result
            if result is not None and result[2] is not None:
                definition.cached_result = None
