"""Which context managers tasks have entered through a recipe itself: `async with lock`."""

from __future__ import annotations

from typing import Generic, TypeVar

from .._tasks import current_task_id
from ..errors import UsageError

C = TypeVar("C")


class Entries(Generic[C]):
    """The context managers that tasks have entered through the recipe itself."""

    def __init__(self) -> None:
        self._by_task: dict[int, list[C]] = {}

    def push(self, context: C) -> None:
        """The current task has entered it."""
        self._by_task.setdefault(current_task_id(), []).append(context)

    def pop(self, recipe: object) -> C:
        """What the current task leaves.

        Raises:
            UsageError: it has entered none.
        """
        task = current_task_id()
        contexts = self._by_task.get(task)
        if contexts is None:
            raise UsageError(f"{recipe!r} was not entered by this task")
        context = contexts.pop()
        if not contexts:
            del self._by_task[task]
        return context
