"""The task board, and its live view."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import final

from ...abc import CoordinationClient
from ...errors import ConfigurationError
from ...model import ACL, Stat
from ...paths import join, validate
from .._core.arguments import (
    OnDisconnect,
    checked_acl,
    checked_client,
    checked_count,
    checked_number,
    checked_path,
)
from .._core.children import ChildReader
from .._core.contexts import TenureContext
from .._core.holding_recipe import HoldingRecipe
from .._core.observation import Observation, plain
from .._core.observe import View
from ..contest import Contest
from ..queues.available_items import AvailableItems
from ..queues.claim import claim_item
from ..queues.item_format import ItemNames
from ..queues.work_queue import MOST_ITEMS, Consumption, ItemProducer, checked_bytes
from .results import Results
from .task import Task
from .task_records import Progress, TaskPhase, TaskResult, TaskState, decode_result

_PREFIX = "task-"
_NAMES = ItemNames(_PREFIX)


@final
class BoardView(View[Mapping[str, TaskState]]):
    """All tasks with their states, by name, in the order of submission. See `View`.

    Reads only what has changed: a worker's report costs one read.
    """

    def __init__(self, client: CoordinationClient, tasks: str, claims: str, results: str) -> None:
        super().__init__(client)
        # Of the tasks, only the names are read.
        self._tasks: ChildReader[TaskState] = ChildReader(
            self, tasks, lambda *_: None, is_wanted=_is_task
        )
        self._claims = ChildReader(self, claims, _working, is_wanted=_is_task)
        self._results = ChildReader(self, results, _ended, is_wanted=_is_task, is_watched=False)

    async def _read(self) -> Observation[Mapping[str, TaskState]]:
        # In this order: a result is created as its task is deleted, so none is missed.
        for each in (self._tasks, self._claims, self._results):
            each.ask()
        tasks = await self._tasks.names()
        working = await self._claims.read()
        ended = await self._results.read()
        states = {name: working.get(name, TaskState(name, TaskPhase.WAITING)) for name in tasks}
        states |= ended
        names = sorted(states, key=lambda name: _NAMES.key(name) or (0, 0))
        return plain(MappingProxyType({name: states[name] for name in names}))


def _is_task(name: str) -> bool:
    return _NAMES.key(name) is not None


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


def _whole(body: bytes) -> tuple[bytes, ...]:
    return (body,)


@final
class TaskBoard(HoldingRecipe[Task]):
    """A task board: tasks for any worker, with progress and results for everybody.

        task = await board.submit(b"...")
        result = await board.result(task)

        async with board.claim() as task:
            await task.report(0.5, "half of it")
            await task.finish(b"...")

        async with board.observe() as view:
            async for states in view: ...

    One worker at a time works on a task, under a claim that carries the progress. If the worker
    dies, both vanish, and the next worker gets the task. If the claim is lost, the body is
    cancelled before the servers can give the task to another worker. A task has one result, written
    in the transaction that deletes the task. Tasks are first claimed in the order of submission.

    Args:
        client: the session.
        path: the path; `tasks`, `claims` and `results` below it are created if missing.
        max_tasks: how many tasks may wait or be worked on, at most 25,000. A soft limit: see
            `Queue.put`.
        keep_results: how many results are kept, at most 20,000: the latest, and up to a quarter
            more.
        report_every: least time between two writes of a worker's progress, in seconds.
        identity: the worker's name for others; defaults to host name and process id.
        on_disconnect: the fate of claims on connection loss, as for a `Queue`.
        acl: of tasks, claims, results and their paths; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        max_tasks: int = 10_000,
        keep_results: int = 1_000,
        report_every: float = 0.5,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        checked_path(path)
        most = checked_count("max_tasks", max_tasks, most=MOST_ITEMS)
        keep = checked_count("keep_results", keep_results, most=20_000)
        report_every = checked_number("report_every", report_every)
        client, acl = checked_client(client), checked_acl(acl)
        tasks, claims = join(path, "tasks"), join(path, "claims")
        self._available = AvailableItems(client, tasks, claims, _NAMES, clock=time.time, acl=acl)
        self._results = Results(client, join(path, "results"), keep, acl)
        contest = Contest.of(
            type(self).__name__,
            client,
            path,
            partial(Task, results=self._results, report_every=report_every),
            partial(claim_item, self._available, _whole),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            data_of=lambda identity: Progress(identity).encode(),
            is_guarded=False,
            to_hold="async with board.claim() as task:",
            to_try="async with board.try_claim() as task:",
        )
        super().__init__(contest)
        self._producer = ItemProducer(client, tasks, most, self._acl)

    def consume(self) -> Consumption[Task]:
        """Claim items one after the other, as an async iterator: see `Consumption`."""
        return Consumption(self._contest)

    async def submit(self, data: bytes) -> str:
        """Add a task; return its name, for `result` and `observe`.

        Raises, cancellation, on connection loss: as `Queue.put`, with `max_tasks` as the limit.
        """
        return (await self._producer.put(_PREFIX, [checked_bytes(data)]))[0]

    def claim(self, *, timeout: float | None = None) -> TenureContext[Task]:
        """Claim the next task for the body of an `async with`.

        Waits for a task for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `finish` or `fail` releases the task for the next worker. If the process dies, its
        session's expiry does the same.

        Raises, cancellation, on connection loss: as `Queue.get`.
        """
        return TenureContext(self._contest, timeout)

    def try_claim(self) -> TenureContext[Task | None]:
        """As `claim`, but yields None at once if no task is free."""
        return TenureContext(self._contest, 0, is_try=True)

    async def result(self, task: str) -> TaskResult:
        """Wait for the result of a task, given its name.

        Raises:
            NoNodeError: neither the task nor its result exists: it was never submitted, or its
                result was too old to be kept.
            NoAuthError: the result may not be read.
            InvalidDataError: the result is invalid.

        Cancellation: stops waiting. On connection loss: waits on, also across expired sessions.
        """
        if not isinstance(task, str) or not _is_task(task):
            raise ConfigurationError(f"task: must be a name that submit() returned, not {task!r}")
        path = validate(join(self._available.items_path, task), name="task")
        return await self._results.wait_for(task, path)

    def observe(self) -> BoardView:
        """Observe all tasks with their states: `async with board.observe() as view`.

        When a worker's claim ends, its task is seen to wait again.
        """
        tasks, claims = self._available.items_path, self._available.claims_path
        return BoardView(self._client, tasks, claims, self._results.path)
