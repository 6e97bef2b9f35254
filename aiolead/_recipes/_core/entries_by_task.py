"""Which context managers tasks have entered through a recipe itself: `async with lock`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..._tasks import current_task_id
from ...errors import UsageError

C = TypeVar("C")


def left_by_another(recipe: object) -> UsageError:
    """What to raise where a task leaves what another one has entered."""
    return UsageError(
        f"{recipe!r} was not entered by this task but by another task, so it was released without "
        "leaving its block: enter and leave in one task; close async generators where they are "
        "iterated, with `async with contextlib.aclosing(...)`"
    )


@dataclass(slots=True)
class _TaskEntry(Generic[C]):
    """One `async with`.

    Attributes:
        context: what was entered.
        frame: the frame that has the statement; known by its id, so that it is not kept alive.
        is_given_up: whether another task has left it.
    """

    context: C
    frame: int
    is_given_up: bool = False


class EntriesByTask(Generic[C]):
    """The context managers that tasks have entered through the recipe itself.

    `push` and `pop` are to be called by `__aenter__` and `__aexit__` of the recipe.
    """

    def __init__(self) -> None:
        self._by_task: dict[int, list[_TaskEntry[C]]] = {}

    def push(self, context: C) -> None:
        """The current task has entered it."""
        entries = self._by_task.setdefault(current_task_id(), [])
        entries.append(_TaskEntry(context, _statement()))

    def pop(self, recipe: object) -> C:
        """What the current task leaves.

        If it has entered nothing, what another one has entered: by the same statement, where that
        is an abandoned generator's, or the only thing there is. That is left in place for the other
        task, which may still leave it.

        Raises:
            UsageError: there is nothing, or several tasks are inside and it is not known whose
                entry is left.
        """
        task = current_task_id()
        entries = self._by_task.get(task)
        if entries is not None:
            entry = entries.pop()
            if not entries:
                del self._by_task[task]
            return entry.context
        left = [each for all_ in self._by_task.values() for each in all_ if not each.is_given_up]
        if len(left) > 1:
            statement = _statement()
            left = [each for each in left if each.frame == statement]
        if len(left) != 1:
            raise UsageError(f"{recipe!r} was not entered by this task")
        left[0].is_given_up = True
        return left[0].context


def _statement() -> int:
    """The id of the frame that has entered, or leaves: the caller of the caller of our caller."""
    frame = inspect.currentframe()
    for _ in range(3):
        frame = frame.f_back if frame is not None else None
    return id(frame)
