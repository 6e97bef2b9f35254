"""Acquiring on entering and releasing on leaving: the `async with` of every tenure.

Only a cancel scope in the caller's task is held open over the body: no task group, which would wrap
what the body raises.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import anyio

from ..._tasks import current_task_id
from ...errors import AcquireTimeout, AioleadError, TenureLost, UsageError
from .arguments import checked_wait
from .entries_by_task import left_by_another
from .holding_recipe import HoldingRecipe
from .reached import Reached, try_at_once
from .tenure import Tenure

T = TypeVar("T", bound=Tenure)


class _Context(Generic[T]):
    __slots__ = ("_is_given_up", "_recipe", "_scope", "_task", "_tenure", "_timeout")

    def __init__(self, recipe: HoldingRecipe[T]) -> None:
        self._recipe = recipe
        self._tenure: T | None = None
        self._scope: anyio.CancelScope | None = None
        self._task: int | None = None  # which one is inside, or on its way
        self._is_given_up = False  # by another task, while that one may still be inside
        self._timeout: AcquireTimeout | None = None  # why the last wait was in vain

    if not TYPE_CHECKING:  # or else type checkers would take it for something to await

        def __await__(self) -> NoReturn:
            raise UsageError(
                f"{self._recipe!r}: is held for a block, write `async with` instead of `await`: "
                f"`{self._recipe._to_hold}`"
            )

    async def _acquire(self, timeout: float | None) -> T | None:
        """Gets in front within `timeout` seconds (0: without waiting), or leaves the line."""
        recipe = self._recipe
        task = recipe._enter(forever=timeout is None)
        if self._task is not None:
            recipe._tasks.leave(task, recipe)
            raise UsageError(f"{recipe!r}: another task uses this context manager; make one each")
        self._task = task
        self._is_given_up = False
        waiting = recipe._reporting.waits(recipe._client.session_id)
        candidate = recipe._candidate()
        tenure: T | None = None
        scope: anyio.CancelScope | None = None
        try:
            in_front = False
            if timeout is None:
                in_front = await candidate.reach_front()
            elif timeout == 0:
                in_front = await try_at_once(recipe._client, candidate)
            else:
                with Reached(recipe._client) as reached:
                    with anyio.move_on_after(timeout):
                        in_front = await candidate.reach_front()
                if not in_front:
                    self._timeout = reached.timeout(recipe, timeout)
            if in_front:
                # No checkpoint between winning and the body.
                scope = anyio.CancelScope()
                tenure = recipe._begin(candidate, scope.cancel)
        except BaseException as error:
            if waiting is not None:
                waiting.failed(error, recipe._client.session_id)
            raise
        finally:
            if tenure is None:
                candidate.discard()
                self._task = None
                recipe._tasks.leave(task, recipe)
        if tenure is not None and scope is not None:
            scope.__enter__()
            self._tenure, self._scope = tenure, scope
        if waiting is not None:
            waiting.ended("not held" if tenure is None else "held", recipe._client.session_id)
        if tenure is not None:
            tenure._has_begun()
        return tenure

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tenure, scope, task = self._tenure, self._scope, self._task
        if tenure is None or scope is None or task is None:
            return
        if current_task_id() != task:
            await self._give_up(tenure, task)
        self._tenure = self._scope = None
        left = exc
        try:
            if scope.__exit__(exc_type, exc, traceback):
                left = None
        except BaseException as rest:
            # What is left of a group once our own cancellation is taken out of it.
            left = rest
        try:
            if tenure.is_released:
                await tenure._confirmed()  # where another task has just resigned it
            else:
                await tenure._release()
        finally:
            self._task = None
            if not self._is_given_up:
                self._recipe._tasks.leave(task, self._recipe)
            tenure._has_ended()
        tenure._report_refusal(left)
        if left is None:
            # What has cancelled the body is raised in the place of that: nothing is swallowed.
            why = self._why_ended(tenure)
            if why is not None:
                raise why from None
            return
        if tenure.loss is not None and not isinstance(left, TenureLost):
            # What the body raised tells more than that it was also cancelled.
            left.add_note(str(tenure._error()))
        if left is exc:
            return
        context = left.__context__
        try:
            raise left
        finally:
            left.__context__ = context

    async def _give_up(self, tenure: T, task: int) -> NoReturn:
        """Another task leaves, mostly by closing a generator that was abandoned in the body.

        The task that entered may never come back, so the hold is released here. Its cancel scope
        only that task can leave, and still may.

        Raises:
            UsageError: always.
        """
        if not self._is_given_up:
            self._is_given_up = True
            self._recipe._tasks.leave(task, self._recipe)
        wrong = left_by_another(self._recipe)
        try:
            await tenure.release()
        except AioleadError as error:
            raise wrong from error
        raise wrong

    def _why_ended(self, tenure: T) -> BaseException | None:
        """What has cancelled the body, if anything has."""
        return None if tenure.loss is None else tenure._error()


class TenureContext(_Context[T]):
    """Waits for our turn.

    Raises (on entering):
        AcquireTimeout: it did not come within `timeout` seconds; says so if no server was reached.
        ConnectionLossError: `timeout` is 0, and there is no connection: nothing is waited for then,
            also by a client that has only begun to connect (`connect(connect_timeout=0)`).
        AlreadyHeldError: this task already holds the same object, or waits for it; or it holds the
            path by another object, and `timeout` sets no limit.

    Raises (on leaving):
        TenureLost: it was lost (`LeadershipLost`, `LockLost`), and the body, which was cancelled
            then and awaited, raised nothing else.
        UsageError: another task leaves than the one that entered, such as one that closes an
            abandoned async generator. What was held is released.
        ReleaseError: the servers refuse to delete our znode, and the body ended normally. If it
            raised, or was cancelled, that goes on, and the refusal is in the log.

    Cancellation, and the end of the time limit: leaves the line at once, without waiting for the
    servers, so that others may see us there for a moment. Leaving the body waits for their
    confirmation, for a third of the session timeout at most, also when it is cancelled, and over a
    lost link.
    """

    __slots__ = ("_wait",)

    def __init__(self, recipe: HoldingRecipe[T], timeout: float | None) -> None:
        super().__init__(recipe)
        self._wait = checked_wait(timeout)

    async def __aenter__(self) -> T:
        tenure = await self._acquire(self._wait)
        if tenure is None:
            timeout, self._timeout = self._timeout, None
            raise timeout or AcquireTimeout(f"{self._recipe!r}: not our turn within 0 seconds")
        return tenure


class TryContext(_Context[T]):
    """Does not wait: gives None where somebody else holds. Otherwise as `TenureContext`.

    Raises (on entering):
        ConnectionLossError: there is no connection, or it is lost meanwhile. It is not waited for,
            also by a client that has only begun to connect (`connect(connect_timeout=0)`).
    """

    __slots__ = ()

    async def __aenter__(self) -> T | None:
        return await self._acquire(0.0)
