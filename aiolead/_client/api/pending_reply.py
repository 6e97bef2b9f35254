"""The awaitable answer to a request."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeVar

from anyio.lowlevel import checkpoint

from ..._session.requests import Call
from ..._util.escaping import escaped, get_logger
from ...errors import AioleadError, ClientClosedError, UsageError
from ..fast import check_cancelled, reply_future

T = TypeVar("T")

_logger = get_logger("aiolead.client")


class _Unseen:
    """Reports a failure that nobody asked about. Made only for those, so that others cost nothing.

    It is logged, and a `RuntimeWarning`, which tests can turn into an error.
    """

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what: str | None = what

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self.what is not None:
            _logger.warning("a request that was never awaited has failed: %s", self.what)
            _warn(
                f"a request that was never awaited has failed: {escaped(self.what)}",
                RuntimeWarning,
                stacklevel=2,
            )


@dataclass(slots=True, eq=False, repr=False)
class PendingReply(Call[T], Coroutine[Any, Any, T]):
    """A call whose answer can be awaited; see `aiolead.abc.Reply`.

    It has a coroutine's methods, so that a task can be made of it, as by
    `tasks.create_task(client.get(path))`. Unlike a coroutine it may be awaited again, and by
    several tasks.

    Threads and forks: any thread may look whether it is done, and ask for its result or error
    then. Only the client's event loop may await it, or register callbacks; that is not checked.
    """

    _was_awaited: bool = field(default=False, init=False)
    _unseen: _Unseen | None = field(default=None, init=False)
    _steps: Generator[Any, Any, T] | None = field(default=None, init=False)
    """The wait of the task that was made of it."""

    def __repr__(self) -> str:
        # Also the sentence in the TypeError of an anyio that starts nothing but `async def`.
        return f"<request {self}: await it, in an `async def` if a task group is to start that>"

    def __bool__(self) -> NoReturn:
        raise UsageError(f"a request has no truth value: await it, as in `if await ...:` ({self})")

    def __await__(self) -> Generator[Any, Any, T]:
        # No generator: the task is resumed with the answer, through no function of ours.
        if self.is_done:
            return self._await_answered()
        self._was_awaited = True
        waiter = reply_future()
        if self._waiter is None and self._callbacks is None:
            self._waiter = waiter
        else:  # in its turn, behind the callbacks and other waiters
            self.add_done_callback(partial(self._wake, waiter))
        waits: Generator[Any, Any, T] = waiter.__await__()
        return waits

    # --- of a coroutine, for tasks that are made of it -----------------------------------------

    cr_running: ClassVar[bool] = False
    cr_frame: ClassVar[None] = None

    @property
    def cr_suspended(self) -> bool:
        """For `inspect.getcoroutinestate`, by which anyio asks whether a task has begun."""
        return self._steps is not None

    def send(self, value: Any, /) -> Any:
        if self._steps is not None and not self.is_done:
            # The task that waits is resumed once it is done. Its wait cannot be shared: cancelling
            # one of the tasks would cancel the other.
            raise UsageError(f"a task was made of this request already: await it there ({self})")
        return self._step(lambda steps: steps.send(value))

    def throw(self, *error: Any) -> Any:
        return self._step(lambda steps: steps.throw(*error))

    def close(self) -> None:
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    def _step(self, step: Callable[[Generator[Any, Any, T]], Any]) -> Any:
        steps = self._steps
        if steps is None:
            steps = self._steps = self.__await__()
        try:
            return step(steps)
        except BaseException:  # the end of it: StopIteration, if there is an answer
            self._steps = None
            raise

    def _await_answered(self) -> Generator[Any, Any, T]:
        if self._was_awaited:
            yield from checkpoint().__await__()
        else:
            self._was_awaited = True
            if self._error is not None:
                self._see()
            # A thousand replies that were answered together do not take a thousand turns of the
            # event loop. This starves nobody: for each of them, the client had to wait once.
            yield from check_cancelled()
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def result(self) -> T:
        if self.is_done and self._error is None:
            value: T = self._value
            return value
        self._see()
        return Call.result(self)  # which raises

    def error(self) -> AioleadError | None:
        if self._error is not None:
            self._see()
        return self._error

    def fail(self, error: AioleadError) -> None:
        Call.fail(self, error)  # calls the callbacks, which may ask for the error
        if self._was_awaited or not self.is_users:
            return
        # A closed client has dropped everything under way: that needs no report.
        if not isinstance(error, ClientClosedError):
            self._unseen = _Unseen(f"{self}: {error}")

    def _see(self) -> None:
        """Notes that somebody asks for the outcome."""
        if self.is_done:
            self._was_awaited = True
            if self._unseen is not None:
                self._unseen.what = None
