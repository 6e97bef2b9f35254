"""The task board."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import final

from ...abc import CoordinationClient
from ...errors import ConfigurationError
from ...model import ACL
from ...paths import join, validate
from .._core.arguments import OnDisconnect, checked_count, checked_number, checked_path
from .._core.candidate import Candidate
from .._core.contexts import TenureContext, TryContext
from ..queues.claiming import ClaimingRecipe
from ..queues.consuming import Consumption
from ..queues.naming import Naming
from ..queues.putting import MOST_ITEMS, Putter, checked_data
from .board_view import BoardView
from .results import Results
from .task import Task
from .task_records import Progress
from .task_states import TaskResult

_PREFIX = "task-"


@final
class TaskBoard(ClaimingRecipe[Task]):
    """Tasks that are announced, workers that take them, and everybody who looks on.

        task = await board.submit(b"...")
        result = await board.result(task)

        async with board.claim() as task:
            await task.report(0.5, "half of it")
            await task.finish(b"...")

        async with board.observe() as view:
            async for states in view: ...

    A task is worked on under a claim, by one worker at a time. It has one result, which comes in
    the transaction in which the task goes. The claim carries the progress, so that both vanish when
    the worker dies, and the task is there for the next one. The body is cancelled if the claim is
    lost, before the servers could give the task to anybody else.

    Tasks are first taken in the order in which they were announced.

    Args:
        client: the session.
        path: the path; what is needed below it is created when it is missing: `tasks`, `claims` and
            `results`.
        max_tasks: how many tasks may wait or be worked on, at most 25,000. A soft bound, as that
            of a `Queue`.
        keep_results: how many results are kept, at most 20,000: the latest, and up to a quarter
            more.
        report_every: how often a worker's progress is written at most, in seconds.
        identity: what others see as the worker; host name and process id by default.
        on_disconnect: what becomes of what is held when the link is lost: `"keep"` keeps it while
            the lease lasts, `"resign"` gives it up at once.
        acl: of tasks, claims and results, and of the paths where they have to be created; everybody
            everything by default.

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
            items=tasks,
            claims=claims,
            naming=Naming(_PREFIX),
            clock=time.time,
            on_invalid=None,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        self._data = Progress(self._identity).encode()
        self._putter = Putter(self._client, tasks, most, self._acl)
        self._results = Results(self._client, join(path, "results"), keep, self._acl)

    @staticmethod
    def _decode(body: bytes) -> tuple[bytes, ...]:
        return (body,)

    def _begin(
        self,
        candidate: Candidate,
        on_lost: Callable[[], object],
        on_resigned: Callable[[], object] | None = None,
    ) -> Task:
        task = super()._begin(candidate, on_lost, on_resigned)
        task._attach(self._results, self._report_every)
        return task

    async def submit(self, data: bytes) -> str:
        """Adds a task, and gives its name, which `result` and `view` know it by.

        Raises:
            QueueFullError: `max_tasks` are there already.
            SequenceExhaustedError: the path has no more numbers.
            ServerError: what the server says, such as `NoAuthError`.

        Cancellation: it may be announced or not.

        On connection loss: `ConnectionLossError`. With the outcome `UNKNOWN` it may be there;
        announced again, it may be there twice.
        """
        return (await self._putter.put(_PREFIX, [checked_data(data)]))[0]

    def claim(self, *, timeout: float | None = None) -> TenureContext[Task]:
        """Takes the next task for the body of an `async with`.

        Leaving the body before `finish` or `fail` gives it back, for the next worker. So does the
        death of the process, when its session ends.

        Args:
            timeout: how long to wait for a task, in seconds; for ever by default. 0 looks once.

        Raises (on entering):
            AcquireTimeout: there was none within that time.

        Raises (on leaving):
            ClaimLost: the claim was lost, and the body, which was cancelled then, raised nothing
                else.

        Cancellation: takes nothing, or gives back what is held.

        On connection loss: waiting goes on, over expired sessions, too; a claim is held as long as
        the lease lasts.
        """
        return TenureContext(self, timeout)

    def try_claim(self) -> TryContext[Task]:
        """As `work`, but gives None, at once, if there is no task to be had."""
        return TryContext(self)

    def consume(self) -> Consumption[Task]:
        """One task after the other: `async with board.consume() as tasks`, `async for`.

        See `Consumption`. Going on before `finish` or `fail` gives the task back.
        """
        return Consumption(self)

    async def result(self, task: str) -> TaskResult:
        """Waits for the result of a task.

        Args:
            task: its name.

        Raises:
            NoNodeError: there is no such task, nor a result: it was never announced, or its result
                was among the oldest, which are not kept.
            NoAuthError: it may not be read.
            InvalidDataError: somebody else has written what stands there.

        Cancellation: stops waiting.

        On connection loss: goes on waiting, over expired sessions, too.
        """
        if not isinstance(task, str) or Naming(_PREFIX).key(task) is None:
            raise ConfigurationError(f"task: must be a name that announce() gave, not {task!r}")
        path = validate(join(self._backlog.items, task), name="task")
        return await self._results.wait_for(task, path)

    def observe(self) -> BoardView:
        """All tasks and how they stand, live: `async with board.observe() as view`.

        A worker that dies is seen at once: its task waits again.
        """
        backlog = self._backlog
        return BoardView(
            self._client, backlog.items, backlog.claims, self._results.path, backlog.naming
        )
