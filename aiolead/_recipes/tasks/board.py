"""The task board."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import final

from ...abc import CoordinationClient
from ...errors import ConfigurationError
from ...model import ACL
from ...paths import join, validate
from .._core.arguments import OnDisconnect, checked_count, checked_number, checked_path
from .._core.contexts import TenureContext
from ..queues.item_names import ItemNames
from ..queues.producer import MOST_ITEMS, checked_bytes
from ..queues.work_queue import WorkQueue
from .board_view import BoardView
from .results import Results
from .task import Task
from .task_records import Progress
from .task_states import TaskResult

_PREFIX = "task-"
_NAMES = ItemNames(_PREFIX)


@final
class TaskBoard(WorkQueue[Task]):
    """A task board: tasks for any worker, with progress and results for everybody.

        task = await board.submit(b"...")
        result = await board.result(task)

        async with board.claim() as task:
            await task.report(0.5, "half of it")
            await task.finish(b"...")

        async with board.observe() as view:
            async for states in view: ...

    One worker at a time works on a task, under a claim. A task has one result, which is written in
    the transaction that deletes the task. The claim carries the progress: if the worker dies, both
    vanish, and the next worker gets the task. If the claim is lost, the body is cancelled before
    the servers can give the task to another worker.

    Tasks are first claimed in the order of submission.

    Args:
        client: the session.
        path: the path; `tasks`, `claims` and `results` below it are created when they are missing.
        max_tasks: how many tasks may wait or be worked on, at most 25,000. A soft limit, as that of
            a `Queue`.
        keep_results: how many results are kept, at most 20,000: the latest, and up to a quarter
            more.
        report_every: how often a worker's progress is written at most, in seconds.
        identity: the worker, as others see it; defaults to host name and process id.
        on_disconnect: what happens to claims when the connection is lost: `"keep"` keeps them while
            the lease lasts, `"resign"` releases them at once.
        acl: of tasks, claims and results, and of their paths; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _tenure = Task
    _to_hold = "async with board.claim() as task:"

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
        self._report_every = checked_number("report_every", report_every)
        tasks, claims = join(path, "tasks"), join(path, "claims")
        super().__init__(
            client,
            path,
            _NAMES,
            items=tasks,
            claims=claims,
            most=most,
            clock=time.time,
            on_invalid=None,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        self._data = Progress(self._identity).encode()
        self._results = Results(self._client, join(path, "results"), keep, self._acl)

    @staticmethod
    def _decode(body: bytes) -> tuple[bytes, ...]:
        return (body,)

    async def submit(self, data: bytes) -> str:
        """Add a task; return its name, for `result` and `observe`.

        Raises:
            QueueFullError: `max_tasks` are there.
            SequenceExhaustedError: the path has no more numbers.
            ServerError: what the server answers, such as `NoAuthError`.

        Cancellation: the task may be submitted or not.

        On connection loss: `ConnectionLossError`. With the outcome `UNKNOWN` it may have been
        submitted; submitting it again may do so twice.
        """
        return (await self._producer.put(_PREFIX, [checked_bytes(data)]))[0]

    def claim(self, *, timeout: float | None = None) -> TenureContext[Task]:
        """Claim the next task for the body of an `async with`.

        Leaving the body without `finish` or `fail` releases the task, for the next worker. The same
        happens when the process dies, once its session expires.

        Args:
            timeout: how long to wait for a task, in seconds; forever by default. 0 looks once.

        Raises (on entering):
            AcquireTimeout: there was none within that time.

        Raises (on leaving):
            ClaimLost: the claim was lost; the body, which was cancelled then, raised nothing else.

        Cancellation: claims nothing, or releases the task.

        On connection loss: waiting goes on, over expired sessions, too; a claim is held as long as
        the lease lasts.
        """
        return TenureContext(self, timeout)

    def try_claim(self) -> TenureContext[Task | None]:
        """As `claim`, but yields None, at once, if there is no task to be had."""
        return TenureContext(self, 0, is_try=True)

    async def result(self, task: str) -> TaskResult:
        """Wait for the result of a task.

        Args:
            task: its name.

        Raises:
            NoNodeError: neither the task nor its result exists: it was never submitted, or its
                result was among the oldest, which are not kept.
            NoAuthError: the result may not be read.
            InvalidDataError: the result is invalid.

        Cancellation: stops waiting.

        On connection loss: goes on waiting, over expired sessions, too.
        """
        if not isinstance(task, str) or _NAMES.key(task) is None:
            raise ConfigurationError(f"task: must be a name that submit() returned, not {task!r}")
        path = validate(join(self._available.items_path, task), name="task")
        return await self._results.wait_for(task, path)

    def observe(self) -> BoardView:
        """Observe all tasks with their states: `async with board.observe() as view`.

        A worker that dies is seen at once: its task waits again.
        """
        tasks, claims = self._available.items_path, self._available.claims_path
        return BoardView(self._client, tasks, claims, self._results.path, _NAMES)
