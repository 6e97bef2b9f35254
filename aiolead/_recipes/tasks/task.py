"""A task under a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

import anyio
import anyio.lowlevel

from ...abc import FencedClient
from ...errors import AioleadError, Fenced, SessionError
from ...paths import join
from .._core.error_policy import Step, before_next_try, with_parent
from ..queues.claimed import Claimed
from ..queues.work_queue import checked_bytes
from .task_records import Progress, TaskResult, checked_note, checked_progress, encode_result

if TYPE_CHECKING:
    from .._core.acquire import Acquirable
    from ..contest import Contest
    from .results import Results


@final
class Task(Claimed):
    """A task, held for the body of an `async with`.

    It is released when the body ends or the claim is lost, unless it was finished. `Tenure`
    describes `token`, `check()`, `fenced()` and the other members.
    """

    _progress: Progress | None = None  # not yet reported
    _is_reporting = False
    _fence: FencedClient

    def __init__(
        self,
        contest: Contest[Task],
        acquirable: Acquirable,
        on_lost: Callable[[], object],
        on_released: Callable[[], object] | None = None,
        *,
        results: Results,
        report_every: float,
    ) -> None:
        self._results = results
        self._report_every = report_every
        super().__init__(contest, acquirable, on_lost, on_released)
        self._fence = self.fenced()
        self._over = anyio.Event()

    @property
    def data(self) -> bytes:
        """The data of the task."""
        return self._claim.parts[0]

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
        self._progress = Progress(self.identity, checked_progress(progress), checked_note(note))
        self.check()
        if not self._is_reporting:
            self._is_reporting = True
            self._client.backend.spawn(self._report)
        await anyio.lowlevel.checkpoint()

    async def finish(self, data: bytes = b"") -> None:
        """Finish the task: delete it and write its result, `data`, in one transaction.

        Returns once the servers have confirmed. The body goes on, but holds nothing. A task has one
        result: further calls have no effect.

        Raises:
            ClaimLost, UsageError: as `QueueItem.ack`.
            NodeExistsError: an earlier task of that name has a result: somebody has deleted a part
                of the board by hand.

        Cancellation, on connection loss: as `QueueItem.ack`.
        """
        await self._conclude(TaskResult(self.name, checked_bytes(data), self.identity))

    async def fail(self, note: str, data: bytes = b"") -> None:
        """Finish the task as failed: no other worker gets it. Otherwise as `finish`.

        `note` says why, in at most 4,096 bytes. To let another worker try, leave the body instead.
        """
        result = TaskResult(self.name, checked_bytes(data), self.identity, True, checked_note(note))
        await self._conclude(result)

    async def _conclude(self, result: TaskResult) -> None:
        results, body = self._results, encode_result(result)
        path = join(results.path, self.name)
        was_done = self._is_done
        await with_parent(
            self._client,
            results.path,
            lambda: self._finish(lambda t: t.create(path, body, acl=results.acl)),
            acl=results.acl,
        )
        if not was_done:
            results.count()

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

    async def _release(self, scope: anyio.CancelScope | None = None) -> None:
        self._over.set()
        await super()._release(scope)
