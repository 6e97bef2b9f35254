"""All tasks of a board and how they stand, live."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import final

from ...abc import CoordinationClient, Reply
from ...errors import NoNodeError
from ...model import Stat
from ...paths import join
from .._core.observe import View
from ..queues.naming import Naming
from .task_records import Progress, decode_result
from .task_states import TaskPhase, TaskState

_Read = tuple[bytes, Stat]

_AT_ONCE = 200
"""How many znodes are read in one go."""


@final
class BoardView(View[Mapping[str, TaskState]]):
    """All tasks and how they stand, by their names, in the order in which they were announced.

    `view.value` is the latest, `view.is_live` whether a server would tell us of a change now, and
    `async for states in view` gives the present one and what it becomes. See `View`.

    What has not changed is not read again: a report of a worker costs one read.
    """

    def __init__(
        self, client: CoordinationClient, tasks: str, claims: str, results: str, naming: Naming
    ) -> None:
        super().__init__(client)
        self._tasks = tasks
        self._claims = claims
        self._results = results
        self._naming = naming
        self._lists: dict[str, list[str]] = {}
        self._guards: dict[str, str] = {}  # the watch that tells of a change of each list
        self._working: dict[str, TaskState] = {}
        self._finished: dict[str, TaskState] = {}

    async def _read(self) -> Mapping[str, TaskState]:
        # In this order: as a task goes its result comes, so none is missed.
        asked = [self._ask(path) for path in (self._tasks, self._claims, self._results)]
        tasks, claims, results = [await self._listed(path, reply) for path, reply in asked]
        self._working = await self._read_claims(claims)
        self._finished = await self._read_results(results)
        states = {name: TaskState(name, TaskPhase.WAITING) for name in tasks}
        states |= {name: state for name, state in self._working.items() if name in states}
        states |= self._finished
        names = sorted(states, key=lambda name: self._naming.key(name) or (0, 0))
        return MappingProxyType({name: states[name] for name in names})

    # --- lists -----------------------------------------------------------------------------------

    def _ask(self, path: str) -> tuple[str, Reply[list[str]] | None]:
        """Asks for the children of a path, unless we would have been told of a change."""
        guard = self._guards.get(path)
        watch = None if guard is None else self._watches.get(guard)
        if guard is not None and watch is not None and watch.is_armed:
            self._asked.add(guard)
            return path, None
        return path, self._client.get_children(path, watch=self._watch(f"{path}/"))

    async def _listed(self, path: str, reply: Reply[list[str]] | None) -> list[str]:
        while reply is not None:
            self._guards.pop(path, None)
            try:
                names = await reply
            except NoNodeError:
                self._asked.discard(f"{path}/")  # a list that is not there is not watched
                if await self._client.exists(path, watch=self._watch(path)) is not None:
                    reply = self._client.get_children(path, watch=self._watch(f"{path}/"))
                    continue
                self._lists[path], self._guards[path] = [], path
            else:
                self._lists[path] = [name for name in names if self._naming.key(name) is not None]
                self._guards[path] = f"{path}/"
            reply = None
        return self._lists[path]

    # --- what they say ---------------------------------------------------------------------------

    async def _read_claims(self, names: list[str]) -> dict[str, TaskState]:
        known: dict[str, TaskState] = {}
        asked: list[str] = []
        for name in names:
            watch = self._watch(join(self._claims, name))
            if name in self._working and watch.is_armed:
                known[name] = self._working[name]
            else:
                asked.append(name)
        for name, (body, stat) in (await self._get(self._claims, asked, watched=True)).items():
            said = Progress.decode(body) or Progress("")
            known[name] = TaskState(
                name,
                TaskPhase.WORKING,
                said.worker or None,
                stat.ctime / 1000,
                said.progress,
                said.note,
            )
        return known

    async def _read_results(self, names: list[str]) -> dict[str, TaskState]:
        known = {name: self._finished[name] for name in names if name in self._finished}
        asked = [name for name in names if name not in known]
        for name, (body, stat) in (await self._get(self._results, asked, watched=False)).items():
            since = stat.ctime / 1000
            try:
                said = decode_result(name, body)
            except ValueError as error:
                note = f"the result cannot be read: {error}"
                known[name] = TaskState(name, TaskPhase.FAILED, None, since, None, note)
                continue
            phase = TaskPhase.FAILED if said.is_failed else TaskPhase.DONE
            known[name] = TaskState(name, phase, said.worker, since, None, said.note)
        return known

    async def _get(self, path: str, names: list[str], *, watched: bool) -> dict[str, _Read]:
        """The znodes of these names, but those that are gone by now."""
        found: dict[str, _Read] = {}
        for start in range(0, len(names), _AT_ONCE):
            looks: list[tuple[str, Reply[_Read]]] = []
            for name in names[start : start + _AT_ONCE]:
                one = join(path, name)
                watch = self._watch(one) if watched else None
                looks.append((name, self._client.get(one, watch=watch)))
            for name, look in looks:
                try:
                    found[name] = await look
                except NoNodeError:
                    continue
        return found
