"""The awaitable answer to a request."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..._escaping import get_logger
from ..._session.requests.call import Call
from ..._tasks import Wakeup
from ...errors import AioleadError, ClientClosedError

T = TypeVar("T")

_logger = get_logger("aiolead.client")


class _Unseen:
    """Logs a failure that nobody asked about. Made only for those, so that others cost nothing."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what: str | None = what

    def __del__(self) -> None:
        if self.what is not None:
            _logger.warning("a request that was never awaited has failed: %s", self.what)


class PendingReply(Call[T]):
    """A call whose answer can be awaited; see `aiolead.abc.Reply`.

    Attributes:
        is_reported: set where a user gets it: a failure is logged if it is dropped without having
            been awaited or asked for its error.
    """

    __slots__ = ("_unseen", "_was_awaited", "is_reported")

    is_reported: bool

    def __await__(self) -> Generator[Any, Any, T]:
        if not self._done:
            self._was_awaited = True
            wakeup = Wakeup()
            self.add_done_callback(wakeup.set)
            yield from wakeup.wait().__await__()
        elif hasattr(self, "_was_awaited"):
            yield from checkpoint().__await__()
        else:
            self._was_awaited = True
            if self._error is not None:
                self._see()
            # A thousand replies that were answered together do not take a thousand turns of the
            # event loop. This starves nobody: for each of them, the client had to wait once.
            yield from checkpoint_if_cancelled().__await__()
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def result(self) -> T:
        if self._error is not None:
            self._see()
        return super().result()

    def error(self) -> AioleadError | None:
        if self._error is not None:
            self._see()
        return self._error

    def _fail(self, error: AioleadError) -> None:
        super()._fail(error)  # calls the callbacks, which may ask for the error
        if not hasattr(self, "is_reported") or hasattr(self, "_was_awaited"):
            return
        # A closed client has dropped everything under way: that needs no report.
        if not isinstance(error, ClientClosedError):
            self._unseen = _Unseen(f"{self}: {error}")

    def _see(self) -> None:
        """Notes that somebody asks for the outcome."""
        if self._done:
            self._was_awaited = True
            if hasattr(self, "_unseen"):
                self._unseen.what = None
