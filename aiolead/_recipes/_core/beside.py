"""A function that runs beside a body, and is cancelled and awaited when the body is left."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any

import anyio

from ..._util.shielding import wait_through
from ..._util.tasks import trio_here
from .body_scope import BodyScope
from .contexts import propagate


@asynccontextmanager
async def beside_body(run: Callable[[], Awaitable[object]], subject: object) -> AsyncIterator[None]:
    """Run a function while the body of an `async with` runs.

    An exception of the function cancels the body, and is raised on leaving, unchanged. An error of
    the body becomes a note on it. Otherwise an exception of the body propagates unchanged.
    `subject` is named in the error for a task that leaves what another one has entered.

    Only a cancel scope is open in the task of the body. On asyncio a task group of anyio would
    replace the body's exception if the task was cancelled before. On trio a nursery would copy a
    group that the body raises, and end the event loop if another task leaves it. So the function
    runs in an ordinary task of asyncio, or in a system task of trio: a cancelled scope around the
    body reaches it only as the body is left.
    """
    failure: BaseException | None = None
    left: BaseException | None = None
    body, running, ended = BodyScope(subject), anyio.CancelScope(), anyio.Event()

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
    body.enter()
    try:
        yield
    except BaseException as error:
        left = error
    running.cancel()
    try:
        await wait_through(ended)
    except BaseException as error:
        left = error
    left = body.leave(left)
    if failure is not None:
        if isinstance(left, Exception):
            failure.add_note(f"the body raised, too: {left!r}")
        propagate(failure, None)
    if left is not None:
        raise left


def _start(function: Callable[[], Any], ended: anyio.Event) -> None:
    """Start a task that is none of a task group."""
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

    Around it trio protects the task: an interrupt there would end the event loop.
    """
    await run()
