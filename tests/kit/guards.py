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

import asyncio
import inspect
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median
from types import FrameType
from typing import Any, Self

import pytest
import pytest_timeout
import trio
from _pytest.runner import runtestprotocol

SESSION = 4.0
"""The session timeout of tests that do not name theirs, in seconds."""

SHARE = 6
"""Which part of its session timeout a client can lose without losing more: it renews its lease four
times per timeout, and stops a good deal before the session ends."""

IN_REAL_TIME = frozenset(
    {"anyio_backend", "server", "embedded", "own", "hosts", "old_and_new_hosts", "run"}
)
"""The fixtures of tests in real time: coroutine tests (those on virtual time are functions), and
tests that reach a server over TCP, as commands do."""

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

    def __exit__(self, *_: object) -> None:
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


# --- tests that hang ------------------------------------------------------------------------------


class HangGuard:
    """Ends tests whose time is over. A plugin of pytest, beside pytest-timeout.

    pytest-timeout alone raises inside of the event loop. Measured: of two coroutine tests that wait
    forever it ends the first one, and the second one never ends. With this plugin both fail with
    the stacks of their tasks, and the tests after them run. It costs no time that can be measured.
    """

    def __init__(self) -> None:
        self._end: Callable[[], object] | None = None
        """Ends the coroutine test whose function runs."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(
        self, item: pytest.Item, settings: pytest_timeout.Settings
    ) -> bool | None:
        if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
            return None

        def first(*_: object) -> None:
            __tracebackhide__ = True
            start(second)
            if self._end is None:
                pytest_timeout.timeout_sigalrm(item, settings)
            elif settings.disable_debugger_detection or not pytest_timeout.is_debugging():
                self._end()

        def second(*_: object) -> None:
            # In another thread, since it shows the stacks of all others.
            end = threading.Thread(target=pytest_timeout.timeout_timer, args=(item, settings))
            end.start()
            end.join()

        def start(handler: Callable[[int, FrameType | None], None]) -> None:
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, settings.timeout)

        def cancel() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

        item.cancel_timeout = cancel  # type: ignore[attr-defined]
        start(first)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Iterator[None]:
        function = pyfuncitem.obj
        if inspect.iscoroutinefunction(function) and "anyio_backend" in pyfuncitem.funcargs:
            pyfuncitem.obj = self._cancellable(function)
        try:
            return (yield)
        finally:
            pyfuncitem.obj = function

    def _cancellable(self, function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
        async def test(**arguments: Any) -> None:
            __tracebackhide__ = True
            stacks: list[str] = []
            ends = _ends_on_trio if trio.lowlevel.in_trio_run() else _ends_on_asyncio
            with ends(stacks) as self._end:
                try:
                    await function(**arguments)
                finally:
                    self._end = None
            if stacks:
                pytest.fail("\n  ".join(["its time is over; it was at", *stacks]))

        return test


@contextmanager
def _ends_on_trio(stacks: list[str]) -> Iterator[Callable[[], object]]:
    token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()

    def end() -> None:
        stacks.extend(_of_task(task))
        scope.cancel()

    with trio.CancelScope() as scope:
        yield lambda: token.run_sync_soon(end)


@contextmanager
def _ends_on_asyncio(stacks: list[str]) -> Iterator[Callable[[], object]]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        for each in asyncio.all_tasks(loop):
            stacks.extend((f"task {each.get_name()}:", *_of_coroutine(each.get_coro())))
        task.cancel()

    try:
        yield lambda: loop.call_soon_threadsafe(end)
    except asyncio.CancelledError:
        if not stacks:
            raise
        task.uncancel()


def _of_task(task: trio.lowlevel.Task) -> Iterator[str]:
    """Where a task of trio and those that it waits for are."""
    yield f"task {task.name}:"
    yield from _of_coroutine(task.coro)
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _of_task(child)


def _of_coroutine(awaited: Any) -> Iterator[str]:
    """Where a coroutine is, and what it awaits."""
    while awaited is not None:
        for name in ("cr_frame", "gi_frame", "ag_frame"):
            if frame := getattr(awaited, name, None):
                yield f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        further = (
            getattr(awaited, name, None) for name in ("cr_await", "gi_yieldfrom", "ag_await")
        )
        awaited = next((each for each in further if each is not None), None)


# --- margins --------------------------------------------------------------------------------------

MARGIN = "safety margin: "
"""The beginning of the names of recorded properties with a margin in seconds."""


def report_margins(terminalreporter: Any) -> None:
    """Prints them, from the properties that tests have recorded."""
    margins: dict[str, list[float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name.startswith(MARGIN) and getattr(report, "when", "") == "call":
                    margins.setdefault(name.removeprefix(MARGIN), []).append(value)
    if margins:
        terminalreporter.section("safety margins")
        width = max(map(len, margins))
        for name, values in sorted(margins.items()):
            terminalreporter.line(
                f"{name:{width}}  n={len(values):<3}  min {min(values):+.3f} s"
                f"  median {median(values):+.3f} s  max {max(values):+.3f} s"
            )
