"""The cancel scope of a body that another task may leave once the one that entered has ended."""

from __future__ import annotations

import sys
from typing import Any, final

import anyio

from ..._util.tasks import trio_here
from .contexts import left_by_another


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
        self._task = _current_task()
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
        if _current_task() is not self._task:
            if _has_ended(self._task):
                return error
            wrong = left_by_another(self._subject)
            wrong.__cause__ = error
            return wrong
        try:
            kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
            return None if self._scope.__exit__(kind, error, traceback) else error
        except BaseException as rest:
            return rest  # of a group, without the cancellation of this scope


def _current_task() -> Any:
    trio = trio_here()
    return sys.modules["asyncio"].current_task() if trio is None else trio.lowlevel.current_task()


def _has_ended(task: Any) -> bool:
    return task.coro.cr_frame is None if trio_here() is not None else task.done()
