"""A function that runs beside a body, and is cancelled and awaited when the body is left.

`BodyScope` is the cancel scope of the body.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any, final

import anyio

from .._util.misuse import left_by_another
from .._util.shielding import wait_through
from .._util.tasks import trio_here
from .holding import Contest, leave_scope, propagate


@final
class BodyScope:
    """Cancels the body of an `async with`.

    Frameworks often run the hooks for start and stop in different tasks. Only the task that entered
    a cancel scope of anyio can leave it, and once that task has ended, nobody has to.

    Args:
        subject: is named in the error for a task that leaves too early.
    """

    __slots__ = ("_scope", "_subject", "_task")

    def __init__(self, subject: object) -> None:
        self._subject = subject
        self._scope = anyio.CancelScope()
        self._task: Any = None

    def enter(self) -> None:
        self._task = current_task()
        self._scope.__enter__()

    def cancel(self) -> None:
        """Cancel the body, also one that is entered later."""
        self._scope.cancel()

    def leave(self, error: BaseException | None) -> BaseException | None:
        """Leave the scope; return what propagates.

        That is the body's exception, unchanged, or None if it is only the cancellation of this
        scope. It is a `UsageError` in another task, as long as the task that entered has not ended:
        the body may still run there, and no other task can leave the scope.
        """
        if current_task() is not self._task:
            if _has_ended(self._task):
                return error
            wrong = left_by_another(self._subject)
            wrong.__cause__ = error
            return wrong
        kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
        return leave_scope(self._scope, kind, error, traceback)


def current_task() -> Any:
    trio = trio_here()
    return sys.modules["asyncio"].current_task() if trio is None else trio.lowlevel.current_task()


def _has_ended(task: Any) -> bool:
    return task.coro.cr_frame is None if trio_here() is not None else task.done()


@asynccontextmanager
async def beside_body(
    run: Callable[[], Awaitable[object]], contest: Contest[Any]
) -> AsyncIterator[None]:
    """Run a function that holds, or waits to hold, while the body of an `async with` runs.

    An exception of the function cancels the body, and is raised on leaving, unchanged. An error of
    the body becomes a note on it. Otherwise an exception of the body propagates unchanged. So does
    one that ends the program, such as `SystemExit`: then the function's error becomes a note.
    The body's task counts as one that takes part in the contest, since a hold of the function may
    last until the body has ended. The contest is named in the error for a task that leaves what
    another one has entered.

    Only a cancel scope is open in the task of the body. On asyncio a task group of anyio would
    replace the body's exception if the task was cancelled before. On trio a nursery would copy a
    group that the body raises, and end the event loop if another task leaves it. So the function
    runs in an ordinary task of asyncio, or in a system task of trio: a cancelled scope around the
    body reaches it only as the body is left.
    """
    failure: BaseException | None = None
    left: BaseException | None = None
    body, running, ended = BodyScope(contest), anyio.CancelScope(), anyio.Event()

    async def beside() -> None:
        nonlocal failure
        try:
            with running:
                await _interruptible(run)
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise
        except BaseException as error:
            # Also `SystemExit` and `KeyboardInterrupt`: each ends the program by way of the body.
            # In a system task of trio they would end the event loop at once.
            failure = error
            body.cancel()
        finally:
            ended.set()

    _start(beside, ended)
    task = contest.enter(forever=False, is_checked=False)
    body.enter()
    try:
        yield
    except BaseException as error:
        left = error
    contest.leave(task)
    running.cancel()
    try:
        await wait_through(ended)
    except BaseException as error:
        left = error
    left = body.leave(left)
    if failure is not None and isinstance(left, (KeyboardInterrupt, SystemExit)):
        left.add_note(f"the function beside the body failed: {failure!r}")
    elif failure is not None:
        if isinstance(left, Exception):
            failure.add_note(f"the body raised, too: {left!r}")
        propagate(failure, None)
    if left is not None:
        raise left


def _start(function: Callable[[], Any], ended: anyio.Event) -> None:
    """Start a task that belongs to no task group."""
    trio = trio_here()
    if trio is None:
        task = sys.modules["asyncio"].create_task(function())
        # A task that is cancelled before it has begun never begins.
        task.add_done_callback(lambda _task: ended.set())
        return
    trio.lowlevel.disable_ki_protection(_interruptible)
    trio.lowlevel.spawn_system_task(function, context=copy_context())


async def _interruptible(run: Callable[[], Awaitable[object]]) -> None:
    """Run code of the program, which Ctrl-C may interrupt in a system task of trio, too.

    The code around it is protected by trio, since an interrupt there would end the event loop.
    """
    await run()
