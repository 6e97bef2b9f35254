"""A test that hangs is reported, and the run goes on.

pytest-timeout raises in the main thread. That is between two steps of the event loop: a coroutine
test that hangs goes on waiting, and anyio's runner waits for it forever. So it is cancelled here.

Whatever has not ended after the same time once more, because it cannot be cancelled, ends its
process, with the stacks of all threads. With several workers, its test is reported as the one that
crashed, and a new worker takes the others.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import pytest_timeout
import trio


class HangGuard:
    """Ends tests whose time is over. A plugin of pytest, beside pytest-timeout."""

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
