"""The latest data, or children, of a znode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator
from types import TracebackType
from typing import Self, TypeVar, final

import anyio
import anyio.lowlevel

from ..errors import (
    AioleadError,
    ConnectionLossError,
    NoNodeError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    ThrottledOpError,
    TooManyRequestsError,
    UsageError,
)
from ..model import SessionState, Stat
from .core import Core
from .operations import Scope
from .reply import PendingReply
from .watch import ClientWatch

T = TypeVar("T")
R = TypeVar("R")

OVERLOADED = (
    ThrottledOpError,
    RequestTimeoutError,
    OperationTimeoutError,
    TooManyRequestsError,
)
"""What is said where there is too much to do just now, by the server or by the client itself."""

PAUSE = 1.0
"""Before reading again then, in seconds."""


class View(AsyncIterable[T]):
    """The latest value of something, and an async iterator over what it becomes.

    The latest value wins: a slow reader may skip values, never the last one. Each iteration has a
    position of its own and begins with the present value. It does not end while the client lives;
    then it raises `ClientClosedError`, or `AuthFailedError`. A server that refuses to read for
    another reason than that there is no such znode ends it, too: `NoAuthError`.

    Entering waits for the first value, and raises what a read would; leaving takes the watch back.

    Cancellation: of the wait for a value loses none.

    On connection loss, and in the next session after an expiry: reads again, and tells only what
    has changed.
    """

    def __init__(self, core: Core, scope: Scope, path: str) -> None:
        scope.full(path)
        self._core = core
        self._scope = scope
        self._path = path
        self._changed = anyio.Event()
        """Set when what was read last may have changed."""
        self._watch = self._new_watch()
        self._job = anyio.CancelScope()
        self._news = anyio.Event()
        self._count = 0
        """How many values there were; 0 before the view is open."""
        self._value: T
        self._ended: AioleadError | None = None
        self._entered = self._closed = self._was_lost = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._path}, {'live' if self.is_live else 'not live'}>"

    @property
    def value(self) -> T:
        """The latest value.

        Raises:
            UsageError: the view is not open yet.
        """
        self._check_open()
        return self._value

    @property
    def is_live(self) -> bool:
        """Whether a server watches now, and so would tell us if the value changed."""
        return not self._closed and self._watch.is_armed

    async def __aenter__(self) -> Self:
        if self._entered:
            raise UsageError("the view was entered already: make another one")
        self._core.check_home()
        self._entered = True
        try:
            self._publish(await self._read())
        except BaseException:
            self._close()
            raise
        self._unsubscribe = self._core.subscribe(self._on_state)
        self._on_state(self._core.machine.state, 0)
        self._core.start(self._follow, self._end)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._unsubscribe()
        self._close()

    def _close(self) -> None:
        self._closed = True
        self._job.cancel()
        self._watch.close()
        self._wake()

    def __aiter__(self) -> AsyncIterator[T]:
        self._check_open()
        return _Iteration(self)

    def _check_open(self) -> None:
        if not self._count:
            raise UsageError("the view was not opened: use `async with ... as view`")

    # --- reading -------------------------------------------------------------------------------

    def _new_watch(self) -> ClientWatch:
        return ClientWatch(self._core.machine.watches, lambda _event: self._changed.set())

    @abstractmethod
    async def _read(self) -> T:
        """Reads the value, and has it watched."""

    @abstractmethod
    def _is_news(self, before: T, after: T) -> bool:
        """Whether readers are to hear of the new value."""

    async def _ask(self, reply: PendingReply[R]) -> R:
        self._core.submit(reply)
        return await reply

    async def _exists(self) -> bool:
        """Whether the znode is there; that is watched, too."""
        return await self._ask(self._scope.exists(self._core, self._path, self._watch)) is not None

    async def _follow(self) -> None:
        """Reads again whenever the watch fires, as it also does when its session is over.

        And after a lost connection: a server that guards reads does not tell what has happened
        meanwhile to a znode that we may not read any more.
        """
        with self._job:
            while True:
                await self._changed.wait()
                self._changed = anyio.Event()
                self._publish(await self._read_at_last())

    async def _read_at_last(self) -> T:
        while True:
            try:
                return await self._read()
            except (ConnectionLossError, SessionExpiredError):
                await self._core.ready(read_only=True)
            except OVERLOADED:
                await anyio.sleep(PAUSE)

    def _publish(self, value: T) -> None:
        is_news = not self._count or self._is_news(self._value, value)
        self._value = value
        if is_news:
            self._count += 1
            self._wake()

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        if state.is_final:
            self._end(self._core.machine.ended())
        elif state is SessionState.SUSPENDED:
            self._was_lost = True
        elif state is SessionState.CONNECTED and self._was_lost:
            self._was_lost = False
            self._changed.set()

    def _end(self, error: AioleadError | None) -> None:
        if error is not None and self._ended is None:
            self._ended = error
            self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def _next(self, seen: int) -> tuple[int, T]:
        """The latest value that comes after the first `seen`, and how many there are with it."""
        await anyio.lowlevel.checkpoint()
        while not self._closed:
            if self._count > seen:
                return self._count, self._value
            if self._ended is not None:
                raise self._ended
            await self._news.wait()
        raise StopAsyncIteration


class _Iteration(AsyncIterator[T]):
    """One reader of a view, with its position."""

    def __init__(self, view: View[T]) -> None:
        self._view = view
        self._seen = 0

    async def __anext__(self) -> T:
        self._seen, value = await self._view._next(self._seen)
        return value


@final
class DataView(View[tuple[bytes, Stat] | None]):
    """The latest data and `Stat` of a znode; None while there is no such znode. See `View`."""

    async def _read(self) -> tuple[bytes, Stat] | None:
        while True:
            try:
                return await self._ask(self._scope.get(self._core, self._path, self._watch))
            except NoNodeError:
                if not await self._exists():
                    return None

    def _is_news(self, before: tuple[bytes, Stat] | None, after: tuple[bytes, Stat] | None) -> bool:
        if before is None or after is None:
            return before is not after
        return before[1].mzxid != after[1].mzxid


@final
class ChildrenView(View[list[str] | None]):
    """The latest children of a znode, sorted; None while there is no such znode. See `View`."""

    async def _read(self) -> list[str] | None:
        while True:
            try:
                reply = self._scope.get_children(self._core, self._path, self._watch)
                names = await self._ask(reply)
                return sorted(names)
            except NoNodeError:
                if not await self._exists():
                    return None
                # Created in between; this watch is for its data, and not for its children.
                self._watch.close()
                self._watch = self._new_watch()

    def _is_news(self, before: list[str] | None, after: list[str] | None) -> bool:
        return before != after
