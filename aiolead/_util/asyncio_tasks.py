"""Tasks of asyncio that a native cancellation does not end.

A program that ends often cancels all tasks of its event loop, as `asyncio.run` does itself. Were
the client's tasks cancelled with the others, its connection would be lost before the session is
closed, and the next leader would have to wait for the session timeout. So it would be if an
embedded server ended first.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, cast, final

from .host_tasks import name_of

SCOPES = "cancel scope"
"""Is in the message of each cancellation by one of anyio's scopes, and in no other one."""


@final
class OwnTask(asyncio.Task[None]):
    """A task that only cancel scopes cancel: any other cancellation is noted and ignored.

    So what runs in it must not use `asyncio.timeout` or `asyncio.TaskGroup`, which cancel the task
    that they are in; see `in_ordinary_task`.
    """

    def __init__(
        self, coro: Coroutine[Any, Any, None], spawner: Spawner, loop: Any, name: str
    ) -> None:
        self.aiolead_spawner = spawner
        self._was_cancelled = self._is_awaited_by_owner = False
        super().__init__(coro, loop=loop, name=name)

    def __repr__(self) -> str:
        # anyio puts it into the message of each cancellation, and that of asyncio is slow.
        return f"<{self.get_name()}>"

    def cancel(self, msg: Any | None = None) -> bool:
        if isinstance(msg, str) and SCOPES in msg:
            return super().cancel(msg)
        if self.done():
            return False
        if self.aiolead_spawner.is_forked():
            return super().cancel(msg)
        self._was_cancelled = True
        self.aiolead_spawner.cancelled()
        self._end_for_owner()
        return True

    def add_done_callback(self, fn: Any, /, *, context: Any = None) -> None:
        super().add_done_callback(fn, context=context)
        if self.aiolead_spawner.is_called_by_owner():
            self._is_awaited_by_owner = True
            self._end_for_owner()

    def _end_for_owner(self) -> None:
        # The owner has to close the host, so it would wait forever.
        if self._was_cancelled and self._is_awaited_by_owner:
            self.aiolead_spawner.on_abandoned()


@final
class Spawner:
    """Starts tasks of one host.

    Args:
        on_abandoned: called once one of the tasks was cancelled natively, and the task that has
            made this object (the owner) has ended, or waits for the cancelled task: the program
            ends, and nobody else is known to close the host.
        is_forked: whether this is a forked child.
    """

    def __init__(self, on_abandoned: Callable[[], object], is_forked: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self.on_abandoned = on_abandoned
        self.is_forked = is_forked
        self._was_cancelled = False
        owner = asyncio.current_task()
        # Weak: a task that has failed keeps what its frames refer to, such as a client.
        self._owner = None if owner is None else weakref.ref(owner)
        self._tasks: set[OwnTask] = set()  # the event loop itself has weak references only

    def __call__(self, function: object, run: Callable[[], Any]) -> None:
        task = OwnTask(run(), self, self._loop, name_of(function))
        self._tasks.add(task)
        asyncio.Task.add_done_callback(task, self._ended)

    def _ended(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(cast(OwnTask, task))
        # It was reported. So asyncio need not log that nobody has retrieved it.
        if not task.cancelled():
            task.exception()

    def is_called_by_owner(self) -> bool:
        """Whether the task that has made this object is the present one."""
        return self._owner is not None and asyncio.current_task(self._loop) is self._owner()

    def cancelled(self) -> None:
        """Called when a task was cancelled natively."""
        if self._was_cancelled:
            return
        self._was_cancelled = True
        owner = None if self._owner is None else self._owner()
        if owner is None:
            self._loop.call_soon(self.on_abandoned)
        else:
            owner.add_done_callback(lambda _owner: self.on_abandoned())
