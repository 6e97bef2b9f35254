"""A task under a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import anyio
import anyio.lowlevel

from ...abc import FencedClient
from ...errors import AioleadError, Fenced, NoNodeError, SessionError
from ...paths import join
from .._core.error_policy import Step, before_next_try
from ..queues.claimed import Claimed
from ..queues.putting import checked_data
from .task_records import Progress, checked_note, checked_progress, encode_result
from .task_states import TaskResult

if TYPE_CHECKING:
    from .results import Results


@final
class Task(Claimed):
    """A task, which is ours for as long as the body lasts.

    It is given back when the body ends, or the claim on it is lost, unless it was finished before
    that. Beside what follows, it has what every tenure has: `token`, `check()`, `fenced()` and so
    on.
    """

    _results: Results
    _report_every: float
    _progress: Progress | None = None  # that nobody has been told of
    _is_reporting = False
    _fence: FencedClient

    def _attach(self, results: Results, report_every: float) -> None:
        """To be called before anything else."""
        self._results = results
        self._report_every = report_every
        self._fence = self.fenced()
        self._over = anyio.Event()

    @property
    def data(self) -> bytes:
        """What was announced."""
        return self._claim.parts[0]

    async def report(self, progress: float | None = None, note: str = "") -> None:
        """Says how far it is, to whoever looks at the board.

        Returns at once: the client says it when it can. The latest report wins; those that come
        faster than `report_every` are left out. After a lost connection it is said again.

        Args:
            progress: from 0.0 to 1.0.
            note: anything, at most 4,096 bytes.

        Raises:
            ClaimLost: the claim was lost.
            UsageError: the task was given up, or finished.
        """
        self._progress = Progress(self.identity, checked_progress(progress), checked_note(note))
        self.check()
        if not self._is_reporting:
            self._is_reporting = True
            self._client.backend.spawn(self._report)
        await anyio.lowlevel.checkpoint()

    async def finish(self, data: bytes = b"") -> None:
        """The task is done: it goes, and its result comes, in one transaction.

        Returns when the servers have confirmed it. After that nothing is held, while the body goes
        on. A task has one result: to do it again does nothing.

        Args:
            data: the result.

        Raises:
            ClaimLost: the claim was lost, or the task was deleted by others.
            NodeExistsError: there is a result already, of another task that had the same name:
                somebody has deleted a part of the board by hand.
            UsageError: the task was given up, or another task is finishing it.

        Cancellation: it may be finished or not; leaving the body gives it back if it is not.

        On connection loss: looks whether it was finished, and tries again if it was not. If the
        session ends before that is known, the claim is lost, and somebody else may get the task.
        """
        await self._conclude(TaskResult(self.name, checked_data(data), self.identity))

    async def fail(self, note: str, data: bytes = b"") -> None:
        """The task has failed, for good: nobody else gets it. Otherwise as `finish`.

        What somebody else should try again is given back instead: leave the body.

        Args:
            note: why, at most 4,096 bytes.
            data: the result, if there is any.
        """
        result = TaskResult(self.name, checked_data(data), self.identity, True, checked_note(note))
        await self._conclude(result)

    async def _conclude(self, result: TaskResult) -> None:
        path, body = join(self._results.path, self.name), encode_result(result)
        was_done = self._is_done
        acl = self._results.acl
        try:
            await self._finish(lambda transaction: transaction.create(path, body, acl=acl))
        except NoNodeError:
            await self._results.make()
            await self._finish(lambda transaction: transaction.create(path, body, acl=acl))
        if not was_done:
            self._results.count()

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
            return  # nobody needs to know any more
        finally:
            self._is_reporting = False

    def _done(self) -> None:
        super()._done()
        self._over.set()

    async def _release(self) -> None:
        self._over.set()
        await super()._release()
