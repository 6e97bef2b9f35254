"""The task that acts for a thread in the event loop.

Recipes identify their users by task: a task must not wait for what it holds itself, blocks are left
in reverse order, and a loss cancels what runs inside the block. So a thread with an open block has
one task, its `ThreadProxyTask`, which enters the block, runs the thread's jobs in it and leaves it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

from ..errors import ClientClosedError, UsageError
from ._inbox import ThreadResult

T = TypeVar("T")


CLOSED = "the client was closed"


class ThreadJob(Generic[T]):
    """Something that a thread has its task do; `done` is the result.

    The thread sets `is_abandoned` when it no longer waits for the result, and `is_refused` if it
    asks while the client is being closed.
    """

    def __init__(self) -> None:
        self.done: ThreadResult[T] = ThreadResult()
        self.is_abandoned = False
        self.is_refused = False
        self.scope: anyio.CancelScope | None = None

    @abstractmethod
    async def run(self, task: ThreadProxyTask) -> None:
        """Do it and set the result."""

    def cancel(self) -> None:
        """Cancel it if it runs. In the event loop."""
        if self.scope is not None:
            self.scope.cancel()

    def fail(self, error: BaseException) -> None:
        self.done.fail(error)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to undo."""
        return self.done.is_set()


class CallJob(ThreadJob[T]):
    """A call to await."""

    def __init__(self, act: Callable[[], Awaitable[T]]) -> None:
        super().__init__()
        self._act = act

    async def run(self, task: ThreadProxyTask) -> None:
        self.done.set(await self._act())


class BlockJob(ThreadJob[T]):
    """A block: entered and left in the event loop when the thread enters and leaves it.

    `owner` is the thread's object. `wrap` turns the value of the context into the value that the
    thread gets, in the event loop. `task` is the thread's task, once the block is entered. `left`
    is the result of leaving. When the thread leaves, it sets `error`, what the body raised, then
    `is_left`.
    """

    def __init__(
        self, owner: object, context: AbstractAsyncContextManager[Any], wrap: Callable[[Any], T]
    ) -> None:
        super().__init__()
        self.owner = owner
        self.left: ThreadResult[None] = ThreadResult()
        self.error: BaseException | None = None
        self.is_left: bool = False
        self.task: ThreadProxyTask
        self._context = context
        self._wrap = wrap

    async def run(self, task: ThreadProxyTask) -> None:
        entered = await self._context.__aenter__()
        # No checkpoint from here until the task waits for the thread: the block is held.
        value = self._wrap(entered)
        task.blocks.append(value)
        try:
            self.done.set(value)
            await task.serve(self)
            error = self.error
            if error is None and self.is_abandoned:
                # Its body has not run: some holds end otherwise if their body has ended well.
                error = UsageError("the thread was interrupted while it entered the block")
            await self._context.__aexit__(
                type(error) if error else None, error, error.__traceback__ if error else None
            )
            self.left.set(None)
        finally:
            task.blocks.pop()

    async def give_up(self) -> None:
        """Release the hold, and have the task leave the block, without the thread."""
        self.is_left = True
        self.task.wake()
        # The task may be inside of another block, or of a call, for long.
        for tenure in getattr(self.done.wait(), "_tenures", tuple)():
            await tenure.release()

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.left.fail(error)

    @property
    def is_settled(self) -> bool:
        return self.left.is_set()


class ThreadProxyTask:
    """Runs one thread's jobs in the event loop, from entering its outermost block to leaving it.

    A call outside of any block has a task of its own.
    """

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        """The values that the thread got from its open blocks, innermost last."""
        self._jobs: deque[ThreadJob[Any]] = deque()
        self._running: list[ThreadJob[Any]] = []
        self._news: anyio.Event | None = None
        self._is_dismissed = False
        self._has_ended = False

    async def run(self, first: ThreadJob[Any]) -> None:
        """Run the first job and, while that is a block, the thread's jobs inside of it."""
        try:
            await self._run(first)
        finally:
            self._has_ended = True
            for job in self._jobs:  # too late: dismissed while others had to end first
                job.fail(self._why_cancelled(job))

    def post(self, job: ThreadJob[Any]) -> None:
        if self._has_ended:
            job.fail(UsageError("another thread has left the block of this one: try again"))
            return
        self._jobs.append(job)
        self.wake()

    def wake(self) -> None:
        """Look for what has changed: a job, or a block that was left."""
        if self._news is not None:
            self._news.set()

    def abandon(self, job: ThreadJob[Any]) -> None:
        """Undo a job for which the thread no longer waits."""
        job.cancel()
        self.wake()

    def dismiss(self) -> None:
        """End everything, whether or not the thread has left its blocks: the client is closed."""
        self._is_dismissed = True
        for job in self._running:
            job.cancel()
        self.wake()

    async def serve(self, block: BlockJob[Any]) -> None:
        """Run the thread's jobs inside a block, until it leaves the block."""
        while not (block.is_left or block.is_abandoned or self._is_dismissed):
            if self._jobs:
                await self._run(self._jobs.popleft())
                continue
            self._news = anyio.Event()
            # Also after a loss: the thread is still in the body, and the znode must outlast that.
            # The wait ends with the client at the latest, by `dismiss`.
            with anyio.CancelScope(shield=True):
                await self._news.wait()

    async def _run(self, job: ThreadJob[Any]) -> None:
        self._running.append(job)
        try:
            with anyio.CancelScope() as job.scope:
                if job.is_abandoned or job.is_refused or self._is_dismissed:
                    job.scope.cancel()
                # A client sends at the call, also in a cancelled task.
                await anyio.lowlevel.checkpoint_if_cancelled()
                await job.run(self)
            job.fail(self._why_cancelled(job))  # unless it is done
        except anyio.get_cancelled_exc_class():
            # A block around it was cancelled. The task goes on until the thread leaves that block.
            job.fail(self._why_cancelled(job))
        except BaseException as error:  # it belongs to the thread
            job.fail(error)
        finally:
            self._running.remove(job)

    def _why_cancelled(self, job: ThreadJob[Any]) -> BaseException:
        """Why the outermost block that has ended has, or that the client was closed."""
        for value in self.blocks:
            why: BaseException | None = getattr(value, "_why_ended", lambda: None)()
            # A mistaken use is reported where it was made, and as the block is left.
            if why is not None and not isinstance(why, UsageError):
                return why
        if self.blocks and not (self._is_dismissed or job.is_refused):
            return UsageError(
                f"{self.blocks[-1]!r} has ended: leave its `with` block, which raises the reason"
            )
        return ClientClosedError(CLOSED)
