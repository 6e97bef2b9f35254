"""The live view of a task board."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import final

from ...abc import CoordinationClient
from ...model import Stat
from .._core.children import ChildReader
from .._core.observe import View
from ..queues.item_names import ItemNames
from .task_records import Progress, decode_result
from .task_states import TaskPhase, TaskState


@final
class BoardView(View[Mapping[str, TaskState]]):
    """All tasks with their states, by name, in the order of submission. See `View`.

    Reads only what has changed: a worker's report costs one read.
    """

    def __init__(
        self, client: CoordinationClient, tasks: str, claims: str, results: str, names: ItemNames
    ) -> None:
        super().__init__(client)
        self._key = names.key

        def is_task(name: str) -> bool:
            return names.key(name) is not None

        # Of the tasks, only the names are read.
        self._tasks: ChildReader[TaskState] = ChildReader(
            self, tasks, lambda *_: None, is_wanted=is_task
        )
        self._claims = ChildReader(self, claims, _working, is_wanted=is_task)
        self._results = ChildReader(self, results, _ended, is_wanted=is_task, is_watched=False)

    async def _read(self) -> Mapping[str, TaskState]:
        # In this order: a result is created as its task is deleted, so none is missed.
        for each in (self._tasks, self._claims, self._results):
            each.ask()
        tasks = await self._tasks.names()
        working = await self._claims.read()
        ended = await self._results.read()
        states = {name: working.get(name, TaskState(name, TaskPhase.WAITING)) for name in tasks}
        states |= ended
        names = sorted(states, key=lambda name: self._key(name) or (0, 0))
        return MappingProxyType({name: states[name] for name in names})


def _working(name: str, data: bytes, stat: Stat) -> TaskState:
    said = Progress.decode(data) or Progress("")
    since = stat.ctime / 1000
    return TaskState(name, TaskPhase.WORKING, said.worker or None, since, said.progress, said.note)


def _ended(name: str, data: bytes, stat: Stat) -> TaskState:
    since = stat.ctime / 1000
    try:
        result = decode_result(name, data)
    except ValueError as error:
        note = f"the result cannot be read: {error}"
        return TaskState(name, TaskPhase.FAILED, None, since, None, note)
    phase = TaskPhase.FAILED if result.is_failed else TaskPhase.DONE
    return TaskState(name, phase, result.worker, since, None, result.note)
