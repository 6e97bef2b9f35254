"""Blocks of aiolead in tasks that are cancelled, and in tasks that enter for others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest
import trio
import uvloop

on_asyncio = pytest.mark.parametrize(
    "anyio_backend",
    [
        pytest.param(("asyncio", {"debug": True}), id="asyncio"),
        pytest.param(("asyncio", {"loop_factory": uvloop.new_event_loop}), id="asyncio+uvloop"),
    ],
    indirect=True,
)
"""A test of asyncio's own tasks runs on its event loops only."""

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Runs a program on an event loop of its own."""


def _on_asyncio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def _on_uvloop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


ON_ASYNCIO: dict[str, Run] = {"asyncio": _on_asyncio, "asyncio+uvloop": _on_uvloop}
ON_EVERY_LOOP: dict[str, Run] = {**ON_ASYNCIO, "trio": trio.run}

Body = Callable[[Callable[[], object]], Awaitable[str]]
"""Is passed a function to call once it is inside of its block."""


async def end_of_cancelled(body: Body, how: str) -> str:
    """The exception or the result of a task that is cancelled once it is inside of its block.

    Args:
        body: the coroutine function of the task.
        how: "native" for `task.cancel()`, "scope" for a cancel scope of anyio.
    """
    inside = anyio.Event()
    with anyio.CancelScope() as scope:

        async def runs() -> str:
            try:
                return await body(inside.set if how == "native" else scope.cancel)
            except asyncio.CancelledError:
                if how == "scope":
                    raise
                return "CancelledError"
            except Exception as error:
                return f"{type(error).__name__}: {error}"

        if how == "scope":
            return await runs()
        task = asyncio.create_task(runs())
        await inside.wait()
        await asyncio.sleep(0)
        task.cancel()
        return await task
    return "cancelled"


async def in_ordinary_task(function: Callable[[], Awaitable[object]]) -> None:
    """Run it in a task that no task group of anyio wraps, as frameworks run their hooks."""
    if trio.lowlevel.in_trio_run():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(function)
    else:

        async def hook() -> None:
            await function()

        await asyncio.create_task(hook())
