"""Tasks that hold something at the same time, or one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from kit.clients import eventually

from aiolead import TenureLost


class Crowd:
    """Tasks by name, each of which enters a context and stays there until the test lets it leave.

    Attributes:
        inside: the holds of the tasks that are inside now, by name.
        log: the names of the tasks that have entered, in order.
        most: for each of them, the largest number of tasks that were inside together with it.
        losses: the error of each task that has lost its hold.
        left: the names of the tasks that have ended.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._leave: dict[str, anyio.Event] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self.inside: dict[str, Any] = {}
        self.log: list[str] = []
        self.most: dict[str, int] = {}
        self.losses: dict[str, TenureLost] = {}
        self.left: set[str] = set()

    def come(self, *names: str, to: AbstractAsyncContextManager[Any]) -> None:
        """Start tasks that enter a context, which all of them share."""
        for name in names:
            self._leave[name] = anyio.Event()
            self._scopes[name] = anyio.CancelScope()
            self._tasks.start_soon(self._stay, name, to)

    async def _stay(self, name: str, context: AbstractAsyncContextManager[Any]) -> None:
        try:
            with self._scopes[name]:
                async with context as held:
                    self.inside[name] = held
                    self.log.append(name)
                    for each in self.inside:
                        self.most[each] = max(self.most.get(each, 0), len(self.inside))
                    try:
                        await self._leave[name].wait()
                    finally:
                        del self.inside[name]
        except TenureLost as lost:
            self.losses[name] = lost
        self.left.add(name)

    def leave(self, *names: str) -> None:
        """Let tasks leave as soon as they are inside; by default all."""
        for name in names or self._leave:
            self._leave[name].set()

    def cancel(self, name: str) -> None:
        self._scopes[name].cancel()

    async def are_inside(self, *names: str) -> None:
        await eventually(
            lambda: sorted(self.inside) == sorted(names),
            f"{names} are inside; there are {list(self.inside)}",
        )


@asynccontextmanager
async def crowd() -> AsyncIterator[Crowd]:
    """At the end of the block all tasks may leave, and are waited for."""
    async with anyio.create_task_group() as tasks:
        them = Crowd(tasks)
        yield them
        them.leave()
