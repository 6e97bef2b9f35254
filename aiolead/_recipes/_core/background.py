"""What runs in the client's task group for as long as a context manager is open."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio
import anyio.lowlevel

from ...abc import CoordinationClient
from ...errors import AioleadError, ReleaseError, UsageError
from .error_policy import log_refusal
from .latest import Latest

V = TypeVar("V")


class Background(Latest[V], Generic[V]):
    """An iterator whose values come from a job of the client.

    Opened as a context manager, once. What ends the job ends the iteration: with the error, if it
    is one.
    """

    def __init__(self, client: CoordinationClient) -> None:
        super().__init__()
        self._client = client
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._entered = False
        self._refusal: ReleaseError | None = None
        """That our znode could not be deleted, as the job ended."""
        self._is_left = False

    async def __anext__(self) -> V:
        if not self._entered:
            # The job that gives the values was not started, so this would wait for ever.
            raise UsageError(f"{type(self).__name__}: not opened: use `async with ... as states`")
        return await super().__anext__()

    @abstractmethod
    async def _run(self) -> None:
        """The job. Cancelled when the context manager is left, or the client closed."""

    async def __aenter__(self) -> Self:
        if self._entered:
            raise UsageError(f"{type(self).__name__}: was entered already; make another one")
        self._entered = True
        await anyio.lowlevel.checkpoint()
        if self._client.state.is_final:
            await self._client.ready()  # raises what became of the client
        # No checkpoint from here on: who is cancelled while entering never leaves, and the client
        # may be closed meanwhile.
        self._client.backend.spawn(self._job, self._end)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._scope.cancel()
        with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
            await self._ended.wait()
        self._is_left = True
        refusal, self._refusal = self._refusal, None
        if refusal is None or refusal is exc:
            return
        if exc is None:
            raise refusal
        log_refusal(refusal)

    async def _job(self) -> None:
        with self._scope:
            await self._run()

    def _end(self, error: AioleadError | None) -> None:
        if isinstance(error, ReleaseError):
            if self._is_left:
                log_refusal(error)
            else:
                self._refusal = error
        self._finish(error)
        self._ended.set()
