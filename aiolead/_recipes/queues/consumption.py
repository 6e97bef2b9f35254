"""The async iterator that `consume` returns: one item after the other."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

import anyio
import anyio.lowlevel

from ..._tasks import current_task_id
from ...errors import UsageError
from .._core.acquire import Acquirable
from .._core.contexts import TenureScope, left_by_another
from .claimed import Claimed

C = TypeVar("C", bound=Claimed)


class Consumption(TenureScope[C]):
    """Items, claimed one after the other: `async with queue.consume() as items`.

    An item is held until the next one is requested or the block is left, and is then released
    unless it was finished. The iteration never ends by itself.

    One cancel scope is around the whole block, since none can be around the body of an `async for`.
    So a lost claim ends the block; enter another one to continue.

    Raises (on leaving):
        ClaimLost: a claim was lost, and the cancelled body raised nothing else.

    Cancellation: the item is released. Leaving waits for the servers' confirmation, for a third of
    the session timeout at most.
    """

    async def __aenter__(self) -> Self:
        await anyio.lowlevel.checkpoint()
        if self._task is not None:
            raise UsageError(f"{self._recipe!r}: this is in use already; make another one")
        self._task = self._recipe._tasks.enter(self._recipe, forever=True)
        self._failure: Exception | None = None
        self._scope = anyio.CancelScope()
        self._scope.__enter__()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> C:
        """Release the last item, then wait for the next one. Cancellation claims nothing."""
        recipe, scope = self._recipe, self._scope
        if scope is None or current_task_id() != self._task:
            raise UsageError(f"{recipe!r}: use `async with ... as items`, and iterate in its task")
        await self._release_last()
        try:
            tenure = await recipe._contend(Acquirable.acquire, scope.cancel)
        except Exception as error:
            self._failure = error
            raise
        assert tenure is not None
        self._tenure = tenure
        return tenure

    async def _release_last(self) -> None:
        tenure, self._tenure = self._tenure, None
        if tenure is None:
            return
        try:
            if not tenure.is_released:
                await tenure._release()
        finally:
            tenure._has_ended()
        tenure._report_refusal(None)
        if tenure.loss is not None:
            self._failure = tenure._error()
            raise self._failure

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        scope, task = self._scope, self._task
        if scope is None or task is None or self._tenure is not None:
            await super().__aexit__(exc_type, exc, traceback)
            return
        if current_task_id() != task:
            raise left_by_another(self._recipe)
        self._scope = self._task = None
        self._recipe._tasks.leave(task, self._recipe)
        if scope.__exit__(exc_type, exc, traceback) and exc is not None:
            # `__anext__` raised it, but the body went on.
            assert self._failure is not None, "nothing else cancels the body"
            raise self._failure
