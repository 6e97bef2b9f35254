"""A thread's task in the event loop.

The recipes go by tasks: what a task holds it must not wait for, blocks are left in the reverse
order, losing one cancels what happens inside of it. So a thread that has something open has one
task that does everything for it, in order: its deputy. It opens a block, does in it what the thread
asks for, and leaves it when the thread does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

from ..errors import ClientClosedError, TenureLost, UsageError
from ._answer import Answer

T = TypeVar("T")

CLOSED = "the client was closed"


class Job(Generic[T]):
    """Something that a thread has its deputy do, and what came of it.

    Attributes:
        done: the answer; set in the event loop, waited for in the thread.
        abandoned: set by the thread that does not wait for it any more.
        is_refused: set by the thread that asks for it, where the client is being closed.
    """

    def __init__(self) -> None:
        self.done: Answer[T] = Answer()
        self.abandoned = False
        self.is_refused = False
        self.scope: anyio.CancelScope | None = None

    @abstractmethod
    async def perform(self, deputy: Deputy) -> None:
        """Does it, and settles the answer."""

    def cancel(self) -> None:
        """Has it end, if it runs. In the event loop."""
        if self.scope is not None:
            self.scope.cancel()

    def fail(self, error: BaseException) -> None:
        """Settles it with an error, unless it is settled."""
        self.done.fail(error)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left of it that could be undone."""
        return self.done.is_there()


class Call(Job[T]):
    """A call, to be awaited."""

    def __init__(self, act: Callable[[], Awaitable[T]]) -> None:
        super().__init__()
        self._act = act

    async def perform(self, deputy: Deputy) -> None:
        self.done.set(await self._act())


class Block(Job[T]):
    """A block: entered in the event loop when the thread enters it, and left when it leaves.

    Args:
        context: what is entered.
        wrap: makes of what it gives what the thread is given; called in the event loop.
    """

    def __init__(self, context: AbstractAsyncContextManager[Any], wrap: Callable[[Any], T]) -> None:
        super().__init__()
        self.left: Answer[None] = Answer()
        """That it has been left; or what leaving has raised."""
        self.is_left = False
        """Set by the thread that leaves it."""
        self.error: BaseException | None = None
        """Set before that: what the body raised."""
        self._context = context
        self._wrap = wrap

    async def perform(self, deputy: Deputy) -> None:
        value = await self._context.__aenter__()
        # No checkpoint from here on until the deputy waits: it is held.
        deputy.blocks.append(value)
        try:
            self.done.set(self._wrap(value))
            await deputy.serve(self)
            error = self.error
            await self._context.__aexit__(
                type(error) if error else None, error, error.__traceback__ if error else None
            )
            self.left.set(None)
        finally:
            deputy.blocks.pop()

    @property
    def is_over(self) -> bool:
        return self.is_left or self.abandoned

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.left.fail(error)

    @property
    def is_settled(self) -> bool:
        return self.left.is_there()


class Deputy:
    """Does what one thread asks for, from the outermost block that it enters until it has left it.

    A call without a block around it has a deputy of its own. All of this runs in the event loop.
    """

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        """What the open blocks gave, the innermost last."""
        self._jobs: deque[Job[Any]] = deque()
        self._running: list[Job[Any]] = []
        self._news: anyio.Event | None = None
        self._dismissed = False

    async def run(self, first: Job[Any]) -> None:
        """Does the first job and, while that is a block, what the thread asks for inside of it."""
        try:
            await self._do(first)
        finally:
            for job in self._jobs:  # come too late: it was dismissed, with others to end first
                job.fail(self._loss())

    def post(self, job: Job[Any]) -> None:
        """The thread asks for something."""
        self._jobs.append(job)
        self.wake()

    def wake(self) -> None:
        """The thread has left a block."""
        if self._news is not None:
            self._news.set()

    def abandon(self, job: Job[Any]) -> None:
        """The thread does not wait for a job any more: it is undone."""
        job.cancel()
        self.wake()

    def dismiss(self) -> None:
        """The client is closed: everything ends, whether or not the thread has left its blocks."""
        self._dismissed = True
        for job in self._running:
            job.cancel()
        self.wake()

    async def serve(self, block: Block[Any]) -> None:
        """Does what the thread asks for inside of a block, until it leaves that."""
        while not (block.is_over or self._dismissed):
            if self._jobs:
                await self._do(self._jobs.popleft())
                continue
            self._news = anyio.Event()
            # Whatever is lost meanwhile: the thread is in the body, and what is held is released
            # after that, not before. It ends with the client at the latest, by `dismiss`.
            with anyio.CancelScope(shield=True):
                await self._news.wait()

    async def _do(self, job: Job[Any]) -> None:
        self._running.append(job)
        try:
            with anyio.CancelScope() as job.scope:
                if job.abandoned or job.is_refused or self._dismissed:
                    job.scope.cancel()
                # A client hands over at the call, also in a task that is cancelled.
                await anyio.lowlevel.checkpoint_if_cancelled()
                await job.perform(self)
            job.fail(self._loss())  # unless it is done
        except anyio.get_cancelled_exc_class():
            # Something around it is lost. The task goes on, for the thread to leave what is open.
            job.fail(self._loss())
        except BaseException as error:  # it is the thread's
            job.fail(error)
        finally:
            self._running.remove(job)

    def _loss(self) -> BaseException:
        for held in self.blocks:
            if held is not None and held.loss is not None:
                try:
                    held.check()
                except TenureLost as lost:
                    return lost
                except UsageError:  # it was given up after that
                    continue
        return ClientClosedError(CLOSED)
