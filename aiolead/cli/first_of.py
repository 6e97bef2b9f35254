"""Concurrent tasks, of which the first to end ends the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


async def first_of(*works: Callable[[], Awaitable[object]]) -> None:
    """Run tasks until one ends or fails, and cancel the rest; raise its error without a group."""
    failures: list[Exception] = []

    async def run(work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
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
