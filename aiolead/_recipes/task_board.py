"""The task board: tasks under claims, their results, and a live view of all of them.

tasks/task-N     the data of the task
claims/task-N    JSON: worker and progress
results/task-N   a line of JSON: worker, and whether the task failed; then the data
"""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, cast, final

import anyio
import anyio.lowlevel

from .._util.parsing import MalformedError, json_object, real
from ..abc import CoordinationClient, FencedClient, Transaction
from ..errors import (
    AioleadError,
    ConfigurationError,
    Fenced,
    InvalidDataError,
    NoNodeError,
    SessionError,
)
from ..model import ACL, Stat
from ..paths import join, validate
from .attempts import RETRY_PAUSE, AttemptLimit
from .claims import Claimed, ItemClaim, V, attempts_of
from .codec import Codec, checked_codec, decoded, encoded
from .errors import Step, before_next_try, until_answered, with_parent
from .holding import Contest, HoldingRecipe, TenureContext
from .place_parts import Alarm
from .queue_items import MOST_ITEMS, AvailableItems, Content, ItemNames
from .queues import Consumption, ItemProducer
from .reading import catch_up, read_stats
from .recipe import (
    OnDisconnect,
    OnInvalid,
    checked_acl,
    checked_client,
    checked_count,
    checked_identity,
    checked_number,
    checked_on_invalid,
    checked_path,
    checked_text,
)
from .trimming import Trimmer
from .view import ChildReader, Observation, Reading, View, plain

if TYPE_CHECKING:
    from .hold import Body, Place

__all__ = ["TaskBoard"]
__types__ = ["BoardView", "Task", "TaskPhase", "TaskResult", "TaskState"]


class TaskPhase(enum.Enum):
    """The phase of a task."""

    WAITING = "waiting"
    """No worker has claimed it."""
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task.

    Attributes:
        task: its name.
        phase: whether it waits, is worked on, or has a result.
        worker: the worker that has it, or that finished it; None while it waits.
        since: the beginning of the phase, by the servers' clock, in seconds since 1970; None while
            it waits.
        progress: from 0.0 to 1.0, as the worker reported it; None if it did not.
        note: the note of the report, or why the task failed.
        attempts: how often it was claimed, as of the last claim that was seen; see `Task.attempts`.
    """

    task: str
    phase: TaskPhase
    worker: str | None = None
    since: float | None = None
    progress: float | None = None
    note: str = ""
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[V]):
    """The result of a task.

    Attributes:
        task: its name.
        data: as the worker gave it, in bytes.
        worker: the worker that finished it.
        is_failed: whether it failed.
        note: why it failed.
        attempts: how often the task was claimed; see `Task.attempts`.
        value: `data` as the board's `codec` decodes them. None if there are no data, and the codec
            refuses that.
    """

    task: str
    data: bytes
    worker: str
    is_failed: bool = False
    note: str = ""
    attempts: int = 0
    value: V | None = field(default=None, compare=False)


MAX_NOTE = 4096
"""Longest note, in bytes of UTF-8. Every observer of a board reads all notes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The data of a claim."""

    worker: str
    progress: float | None = None
    note: str = ""
    is_paused: bool = False
    """Whether the worker has released the task, which waits for its next attempt."""

    def encode(self) -> bytes:
        fields: dict[str, object] = {"worker": self.worker, "progress": self.progress}
        fields["note"] = self.note
        return _line(fields | {"paused": True} if self.is_paused else fields)

    @classmethod
    def decode(cls, body: bytes) -> Progress | None:
        """Decode the data of a claim; None if it is not the claim of a task board."""
        try:
            fields = json_object(body)
        except MalformedError:
            return None
        worker, note = fields.get("worker"), fields.get("note")
        if not (isinstance(worker, str) and isinstance(note, str) and "progress" in fields):
            return None
        try:
            progress = real(fields["progress"])
        except MalformedError:
            progress = -1.0
        is_paused = fields.get("paused") is True
        return cls(worker, progress if 0 <= progress <= 1 else None, note, is_paused)


def encode_result(result: TaskResult[Any]) -> bytes:
    """Encode a result, without the task's name: the znode has it."""
    head = {
        "worker": result.worker,
        "failed": result.is_failed,
        "note": result.note,
        "attempts": result.attempts,
    }
    return _line(head) + b"\n" + result.data


def decode_result(task: str, body: bytes) -> TaskResult[Any]:
    """Decode the result of a task, except for its value; raises ValueError if it is invalid."""
    head, newline, data = body.partition(b"\n")
    if not newline:
        raise MalformedError("its first line does not end")
    try:
        fields = json_object(head)
    except MalformedError as error:
        raise MalformedError(f"its first line {error}") from None
    worker, failed, note = (fields.get(name) for name in ("worker", "failed", "note"))
    if not (isinstance(worker, str) and isinstance(failed, bool) and isinstance(note, str)):
        raise MalformedError("its first line lacks worker, failed or note")
    attempts = fields.get("attempts")
    if type(attempts) is not int or not 0 <= attempts < 1 << 32:
        attempts = 0  # it is for people
    return TaskResult(task, data, worker, failed, note, attempts)


def _checked_note(note: str) -> str:
    return checked_text("note", note, most=MAX_NOTE)


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


class Results:
    """The results of a board; at a quarter more than `keep`, the oldest are deleted."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        keep: int,
        acl: Sequence[ACL] | None,
        codec: Codec[Any],
        identity: str,
    ) -> None:
        path = join(path, "results")
        self.path: str = path
        self.codec = codec
        self._client = client
        self._identity = identity
        self.acl = acl
        self.trimmer: Trimmer = Trimmer(client, path, keep, "Until then the result is kept")

    def add_failure(self, transaction: Transaction, item: str, note: str, attempts: int) -> None:
        """Add the result of a task that was given up; see `Failures`."""
        body = encode_result(TaskResult(item, b"", self._identity, True, note, attempts))
        transaction.create(join(self.path, item), body, acl=self.acl)
        self.trimmer.trim_later()

    async def wait_for(self, task: str, task_path: str) -> TaskResult[Any]:
        """Wait for the result of a task; see `TaskBoard.result`."""
        client, path = self._client, join(self.path, task)

        async def attempt() -> TaskResult[Any]:
            has_caught_up = False
            while True:
                with suppress(NoNodeError):
                    return await self._read(task, path)
                if await self._until_result(path, task_path):
                    continue
                if has_caught_up:
                    raise NoNodeError(task_path)
                # The task may have been submitted through a server that is ahead of this one.
                await catch_up(client, task_path)
                has_caught_up = True

        return await until_answered(client, attempt)

    async def _until_result(self, path: str, task_path: str) -> bool:
        """Wait until there may be a result; False if there is neither a result nor the task."""
        client, alarm = self._client, Alarm(self._client)
        try:
            # In this order: a result is created as its task is deleted.
            result = client.exists(path, watch=alarm.watch())
            # Servers send no event for an unreadable result, but one for its task's end.
            is_there = client.exists(task_path, watch=alarm.watch())
            again = client.exists(path)
            if await result is None and await again is None:
                if await is_there is None:
                    return False
                await alarm.wait()
            return True
        finally:
            alarm.close()

    async def _read(self, task: str, path: str) -> TaskResult[Any]:
        body, stat = await self._client.get(path)
        try:
            result = decode_result(task, body)
        except ValueError as error:
            raise InvalidDataError(path, error, version=stat.version) from error
        try:
            value = decoded(self.codec, path, result.data, stat)
        except InvalidDataError:
            if result.data:
                raise
            value = None
        return replace(result, value=value)


@final
class Task(Claimed[V]):
    """A task, held for the body of an `async with`.

    It is released when the body ends or the claim is lost, unless it was finished. `Tenure`
    describes `token`, `check()`, `fenced()` and the other members.
    """

    _progress: Progress | None = None  # not yet reported
    _is_reporting = False
    _fence: FencedClient

    def __init__(
        self,
        contest: Contest[Any],
        place: Place,
        body: Body,
        *,
        results: Results,
        report_every: float,
    ) -> None:
        self._results = results
        self._report_every = report_every
        super().__init__(contest, place, body)
        self._fence = self.fenced()
        self._over = anyio.Event()

    async def report(self, progress: float | None = None, note: str = "") -> None:
        """Report progress to observers of the board.

        `progress` is from 0.0 to 1.0, `note` any text of at most 4,096 bytes. Returns at once; the
        client writes in the background, at most once per `report_every`. The latest report wins. A
        report whose answer was lost is written again.

        Raises:
            ClaimLost: the claim was lost.
            UsageError: the task was released, or finished.
        """
        self._client.backend.check_home()
        if progress is not None:
            progress = checked_number("progress", progress, most=1.0)
        self._progress = Progress(self.identity, progress, _checked_note(note))
        self.check()
        if not self._is_reporting:
            self._is_reporting = True
            self._client.backend.spawn(self._report)
        await anyio.lowlevel.checkpoint()

    async def finish(self, data: V | bytes = b"") -> None:
        """Finish the task: delete it and write its result, `data`, in one transaction.

        With a `codec`, that encodes the data; empty bytes, the default, are no data.

        Returns once the servers have confirmed. The body goes on, but holds nothing. A task has one
        result: further calls have no effect.

        Raises:
            ClaimLost, UsageError: as `QueueItem.ack`.
            NodeExistsError: an earlier task of that name has a result: somebody has deleted a part
                of the board by hand.

        Cancellation, on connection loss: as `QueueItem.ack`.
        """
        await self._conclude(data)

    async def fail(self, note: str, data: V | bytes = b"") -> None:
        """Finish the task as failed: no other worker gets it. Otherwise as `finish`.

        `note` says why, in at most 4,096 bytes. To let another worker try, leave the body instead.
        """
        await self._conclude(data, _checked_note(note), is_failed=True)

    async def _conclude(self, data: Any, note: str = "", *, is_failed: bool = False) -> None:
        results = self._results
        if not (isinstance(data, bytes) and not data):
            data = encoded(results.codec, data, name="data")
        result = TaskResult(self.name, data, self.identity, is_failed, note, self.attempts)
        body = encode_result(result)
        path = join(results.path, self.name)
        was_done = self._is_done
        await with_parent(
            self._client,
            results.path,
            lambda: self._finish(lambda t: t.create(path, body, acl=results.acl)),
            acl=results.acl,
        )
        if not was_done:
            results.trimmer.trim_later()

    # --- reporting -------------------------------------------------------------------------------

    async def _report(self) -> None:
        try:
            while self._progress is not None and not self._over.is_set():
                progress, self._progress = self._progress, None
                try:
                    await self._fence.set(self.path, progress.encode())
                except (Fenced, SessionError):
                    raise
                except AioleadError as error:
                    await before_next_try(self._client, error, Step.ACQUIRE)
                    self._progress = self._progress or progress
                    continue
                with anyio.move_on_after(self._report_every):
                    await self._over.wait()
        except (Fenced, SessionError):
            return  # the claim that carries it is gone
        finally:
            self._is_reporting = False

    def _done(self) -> None:
        super()._done()
        self._over.set()

    @property
    def _data_of_pause(self) -> bytes:
        return Progress(self.identity, is_paused=True).encode()

    def _release(self) -> None:
        self._over.set()
        super()._release()


def _content(body: bytes) -> Content:
    return Content((body,))


_PREFIX = "task-"
_NAMES = ItemNames(_PREFIX)


@final
class BoardView(View[Mapping[str, TaskState]]):
    """All tasks with their states, by name, in the order of submission. See `View`.

    Reads only what has changed: a worker's report costs one read; a claim, and its end, two.
    """

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client, path, partial(Reading, client, self._read))
        self._attempts: dict[str, tuple[int, int]] = {}
        """Of each task, the claim that was there as it was looked at, and its attempts by then."""
        tasks, claims, results = (join(path, name) for name in ("tasks", "claims", "results"))
        # Of the tasks, only the names are read, and the `Stat` as a claim comes or goes.
        self._tasks: ChildReader[TaskState] = ChildReader(
            client, tasks, lambda *_: None, is_wanted=_is_task
        )
        self._claims = ChildReader(client, claims, _working, is_wanted=_is_task)
        self._results = ChildReader(client, results, _ended, is_wanted=_is_task, is_watched=False)

    async def _read(
        self, reading: Reading[Mapping[str, TaskState]]
    ) -> Observation[Mapping[str, TaskState]]:
        # In this order: a result is created as its task is deleted, so none is missed.
        for each in (self._tasks, self._claims, self._results):
            each.ask(reading)
        tasks = await self._tasks.names(reading)
        working = await self._claims.read(reading)
        ended = await self._results.read(reading)
        attempts = await self._count_attempts(tasks, {name: of[0] for name, of in working.items()})
        states = {
            name: replace(
                working[name][1] if name in working else TaskState(name, TaskPhase.WAITING),
                attempts=attempts[name],
            )
            for name in tasks
        }
        states |= ended
        names = sorted(states, key=lambda name: _NAMES.key(name) or (0, 0))
        return plain(MappingProxyType({name: states[name] for name in names}))

    async def _count_attempts(
        self, tasks: Sequence[str], claims: Mapping[str, int]
    ) -> dict[str, int]:
        """The attempts of all tasks; `claims` are those that are there, by their czxids."""
        client, path = self._client, join(self._path, "tasks")
        known = {name: self._attempts[name] for name in tasks if name in self._attempts}
        is_old = [name for name in tasks if known.get(name, (-1, 0))[0] != claims.get(name, 0)]
        found = await read_stats(client, path, is_old)
        for name in is_old:
            attempts = attempts_of(found[name]) if name in found else 0
            known[name] = claims.get(name, 0), attempts
        self._attempts = known
        return {name: count for name, (_, count) in known.items()}


def _is_task(name: str) -> bool:
    return _NAMES.key(name) is not None


def _working(name: str, data: bytes, stat: Stat) -> tuple[int, TaskState]:
    """The claim of a task, by its czxid, and the state of the task."""
    said = Progress.decode(data) or Progress("")
    if said.is_paused:
        return stat.czxid, TaskState(name, TaskPhase.WAITING)
    worker, since = said.worker or None, stat.ctime / 1000
    state = TaskState(name, TaskPhase.WORKING, worker, since, said.progress, said.note)
    return stat.czxid, state


def _ended(name: str, data: bytes, stat: Stat) -> TaskState:
    since = stat.ctime / 1000
    try:
        result = decode_result(name, data)
    except ValueError as error:
        note = f"the result cannot be read: {error}"
        return TaskState(name, TaskPhase.FAILED, None, since, None, note)
    phase = TaskPhase.FAILED if result.is_failed else TaskPhase.DONE
    return TaskState(name, phase, result.worker, since, None, result.note, result.attempts)


@final
class TaskBoard(HoldingRecipe[Task[V]], Generic[V]):
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
        codec: the format of the data of tasks and results, for `submit`, `task.value`, `finish` and
            `result.value`; defaults to unchanged bytes. A task that it refuses is invalid: see
            `on_invalid`.
        max_tasks: how many tasks may wait or be worked on, at most 25,000. A soft limit: see
            `Queue.put`.
        retry_pause: for how long a task rests when its second attempt ends without a result; see
            `Queue`.
        max_attempts: how many workers may get a task, one after the other, before it counts as
            failed; by default any number.
        dead_letters: the path of a queue that such tasks move to, if any; see `Queue`.
        keep_results: how many results are kept, at most 20,000: the latest, and up to a quarter
            more.
        report_every: least time between two writes of a worker's progress, in seconds.
        identity: the worker's name, for observers; defaults to host name and process id.
        on_invalid: called with the error of an invalid task, as for a `Queue`.
        on_disconnect: the fate of claims on connection loss, as for a `Queue`.
        acl: of tasks, claims, results and their paths; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        codec: Codec[V] | None = None,
        max_tasks: int = 10_000,
        retry_pause: float = RETRY_PAUSE,
        max_attempts: int | None = None,
        dead_letters: str | None = None,
        keep_results: int = 1_000,
        report_every: float = 0.5,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        checked_path(path)
        most = checked_count("max_tasks", max_tasks, most=MOST_ITEMS)
        keep = checked_count("keep_results", keep_results, most=20_000)
        report_every = checked_number("report_every", report_every)
        client, acl = checked_client(client), checked_acl(acl)
        tasks, claims = join(path, "tasks"), join(path, "claims")
        self._codec: Codec[Any] = Codec.raw() if codec is None else checked_codec(codec)
        self._available = AvailableItems(
            client,
            tasks,
            claims,
            _NAMES,
            clock=time.time,
            on_invalid=checked_on_invalid(on_invalid),
            acl=acl,
        )
        identity, pause = checked_identity(identity), checked_number("retry_pause", retry_pause)
        results = self._results = Results(client, path, keep, acl, self._codec, identity)
        others = (path, tasks, claims, results.path)
        limit = AttemptLimit.checked(
            client, max_attempts, dead_letters, acl, others=others, failures=results
        )
        kind = partial(cast("type[Task[V]]", Task), results=results, report_every=report_every)
        contest = Contest(
            type(self).__name__,
            client,
            path,
            kind,
            partial(ItemClaim, self._available, _content, self._codec, pause, limit),
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

    def consume(self) -> Consumption[Task[V]]:
        """Claim items one after the other, as an async iterator: see `Consumption`."""
        return Consumption(self._contest)

    async def submit(self, data: V) -> str:
        """Add a task; return its name, for `result` and `observe`.

        Raises, cancellation, on connection loss: as `Queue.put`, with `max_tasks` as the limit.
        """
        return (await self._producer.put(_PREFIX, [encoded(self._codec, data, name="data")]))[0]

    def claim(self, *, timeout: float | None = None) -> TenureContext[Task[V]]:
        """Claim the next task for the body of an `async with`.

        Waits for a task for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `finish` or `fail` releases the task for another attempt, as for `Queue.get`.

        Raises, cancellation, on connection loss: as `Queue.get`.
        """
        return self._context(timeout)

    def try_claim(self) -> TenureContext[Task[V] | None]:
        """As `claim`, but yields None at once if no task is free."""
        return self._context(0, is_try=True)

    async def result(self, task: str) -> TaskResult[V]:
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
        return BoardView(self._client, self.path)
