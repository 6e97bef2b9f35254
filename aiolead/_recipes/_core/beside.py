"""A function that runs beside a body, and is cancelled and awaited when the body is left."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from ..._shielding import wait_through
from ..._tasks import trio_here
from .contexts import left_by_another, propagate

_Run = Callable[[], Awaitable[object]]


def beside_body(run: _Run, subject: object) -> AbstractAsyncContextManager[None, bool | None]:
    """Run a function while the body of an `async with` runs.

    An exception of the function cancels the body, and is raised on leaving, unchanged. Otherwise
    an exception of the body propagates unchanged. `subject` is named in the error for a task that
    leaves what another one has entered.

    On asyncio no task group is open in the task of the body: one would replace the body's exception
    if the task was cancelled before. A nursery of trio does not do that.
    """
    return _in_nursery(run) if trio_here() is not None else _in_task(run, subject)


@asynccontextmanager
async def _in_task(run: _Run, subject: object) -> AsyncIterator[None]:
    asyncio = sys.modules["asyncio"]
    failure: Exception | None = None
    left: BaseException | None = None
    body, running, ended = anyio.CancelScope(), anyio.CancelScope(), anyio.Event()

    async def beside() -> None:
        nonlocal failure
        try:
            with running:
                await run()
        except Exception as error:
            failure = error
            body.cancel()
        finally:
            ended.set()

    entered_by = asyncio.current_task()
    body.__enter__()
    task = asyncio.create_task(beside())
    # A task that is cancelled before it has begun never begins.
    task.add_done_callback(lambda _task: ended.set())
    try:
        yield
    except BaseException as error:
        left = error
    running.cancel()
    try:
        await wait_through(ended)
    except BaseException as error:
        left = error
    if asyncio.current_task() is entered_by:
        left = _left(body, left)
    elif not entered_by.done():
        # Its scope is open in the other task, and nobody else can leave it.
        raise left_by_another(subject) from left
    if failure is not None:
        raise failure from None
    if left is not None:
        raise left


def _left(scope: anyio.CancelScope, left: BaseException | None) -> BaseException | None:
    """Leave a scope; return the exception that is left."""
    try:
        kind, traceback = (None, None) if left is None else (type(left), left.__traceback__)
        return None if scope.__exit__(kind, left, traceback) else left
    except BaseException as error:
        return error


@asynccontextmanager
async def _in_nursery(run: _Run) -> AsyncIterator[None]:
    failure: Exception | None = None

    async def beside() -> None:
        nonlocal failure
        try:
            await run()
        except anyio.get_cancelled_exc_class():
            pass  # by leaving the body, or by what cancels the body as well
        except Exception as error:
            failure = error
            tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beside)
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if failure is not None:
            raise failure from None
        left, *others = group.exceptions
        if others:
            raise
        # The body's exception, unchanged: the group is not its context either.
        propagate(left, None)
    if failure is not None:
        raise failure
