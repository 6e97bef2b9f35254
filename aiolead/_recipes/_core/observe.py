"""The latest value of something: whether it is live, and iterators over its changes.

`ClientJob` runs a job of the client for a block. `LatestValue` has the value that such a job keeps,
and its readers. `View` reads the value from the servers: a subclass says how, with watches on
whatever can change it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio
import anyio.lowlevel

from ...abc import CoordinationClient, Watch
from ...errors import AioleadError, RequestRefusedError, UsageError
from ...model import SessionState, WatchEvent
from .error_policy import Action, Step, action_for, before_next_try, pause_until
from .observation import Observation

T = TypeVar("T")


def leaves_here(client: CoordinationClient, error: BaseException | None) -> bool:
    """Whether a block is left where its client belongs; raises `UsageError` elsewhere.

    False in a forked child that `error` ends: nothing of the parent's changes, and `error`
    propagates.
    """
    if error is not None and client.backend.is_forked:
        return False
    client.backend.check_home()
    return True


class ClientJob:
    """A job of the client for the body of an `async with`, to be entered once."""

    def __init__(self, client: CoordinationClient) -> None:
        client.backend.check_home()
        self._client = client
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._entered = False

    async def __aenter__(self) -> Self:
        self._client.backend.check_home()
        if self._entered:
            raise UsageError(f"{type(self).__name__}: was entered already; make another one")
        self._entered = True
        if self._client.state.is_final:
            await self._client.ready()  # raises what became of the client
        self._client.backend.spawn(self._job, self._end)
        try:
            await self._opened()
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not leaves_here(self._client, exc):
            return
        self._close()
        with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
            await self._ended.wait()

    def _close(self) -> None:
        self._scope.cancel()

    async def _job(self) -> None:
        with self._scope:
            await self._run()

    def _end(self, error: AioleadError | None) -> None:
        self._ended.set()

    @abstractmethod
    async def _run(self) -> None:
        """Do the job; cancelled when the context manager is left, or the client closed."""

    @abstractmethod
    async def _opened(self) -> None:
        """Wait until the body may begin; raise why it may not."""


class LatestValue(ClientJob, AsyncIterable[T], Generic[T]):
    """The latest value that a job of the client keeps; for its readers see `View`.

    An iteration ends with the job: with its error, if it has failed.

    Threads and forks: a view is made, entered and iterated in the client's event loop;
    elsewhere that raises `UsageError`. Any thread may read its properties. In a forked child
    `value` is what it was at the fork, and `is_live` is False.
    """

    def __init__(self, client: CoordinationClient) -> None:
        super().__init__(client)
        self._closed = False
        self._latest: Observation[T]
        """The last published observation; only valid if there was one."""
        self._count = 0
        self._error: AioleadError | None = None
        self._news = anyio.Event()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {'live' if self.is_live else 'not live'}>"

    @property
    def value(self) -> T:
        """The latest value; `UsageError` if the view is not open yet."""
        self._check_open()
        return self._latest.value

    @property
    def is_live(self) -> bool:
        """Whether a change of the value would be reported now. False in a forked child."""
        is_open = self._count > 0 and not (self._closed or self._ended.is_set())
        return is_open and not self._client.backend.is_forked

    def __aiter__(self) -> AsyncIterator[T]:
        self._check_open()
        return _Iteration(self)

    def _check_open(self) -> None:
        if not self._count:
            raise UsageError(f"{type(self).__name__}: was not opened: use `async with ... as view`")

    async def _opened(self) -> None:
        await self._next(0)

    def _close(self) -> None:
        self._closed = True
        super()._close()
        self._wake()

    def _end(self, error: AioleadError | None) -> None:
        self._error = error
        super()._end(error)
        self._wake()

    def _publish(self, observation: Observation[T]) -> None:
        is_news = not self._count or self._latest.mark != observation.mark
        self._latest = observation
        if is_news:
            self._count += 1
            self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def _next(self, seen: int) -> tuple[int, T]:
        """The latest value after the first `seen`, and the number of values up to it."""
        self._client.backend.check_home()
        await anyio.lowlevel.checkpoint()
        while not self._closed:
            if self._count > seen:
                return self._count, self._latest.value
            if self._error is not None:
                raise self._error
            if self._ended.is_set():
                break
            await self._news.wait()
        raise StopAsyncIteration


class View(LatestValue[T]):
    """The latest value of something on the servers, and an async iterator over its changes.

    The latest value wins: a slow reader may skip values, never the last one. Each iteration has its
    own position and begins with the present value. It lasts as long as the client, and then raises
    `ClientClosedError` or `AuthFailedError`. A permanent refusal, such as `NoAuthError`, ends it,
    too.

    A context manager, to be entered once. Entering waits for the first value, over as many
    connections as it takes, and raises what a read would; leaving closes the watches.

    Cancellation: a cancelled wait loses no value. On connection loss, and in the next session after
    an expiry: reads again, and reports what has changed. If the reply is longer than
    `Limits.max_reply`, entering raises `RequestRefusedError`; an open view keeps its value, is not
    live, and reads again after growing pauses.
    """

    _served_in: tuple[SessionState, ...] = (SessionState.CONNECTED,)
    """The states in which a server can be asked."""

    def __init__(self, client: CoordinationClient) -> None:
        super().__init__(client)
        self._watches: dict[str, Watch] = {}
        self._asked: set[str] = set()
        """The watches that the present reading has asked for."""
        self._changed = anyio.Event()
        """Set when the last reading may be outdated."""
        self._session_id = 0

    @property
    def is_live(self) -> bool:
        """Whether a server watches now, and so would report a change of the value."""
        return (
            super().is_live
            and not self._changed.is_set()
            and self._client.state in self._served_in
            and all(watch.is_armed for watch in self._watches.values())
        )

    # --- for subclasses ------------------------------------------------------------------------

    @abstractmethod
    async def _read(self) -> Observation[T]:
        """Read the value, with watches (`_watch`) on whatever can change it.

        Called again after a lost connection or session, and after a pause for an overloaded server.
        Any other error ends the view. Its result may be thrown away: compare with what was
        published (`_latest`), never with what was read.
        """

    def _watch(self, name: str) -> Watch:
        """Return the present reading's watch of a name.

        A name always stands for the same znode and type of read (data and existence are one type,
        children another). A watch that a reading has not asked for is closed after it.
        """
        self._asked.add(name)
        watch = self._watches.get(name)
        if watch is None:
            watch = self._watches[name] = self._client.backend.make_watch(self._on_event)
        return watch

    def _unwatch(self, name: str) -> None:
        """Close a watch that the present reading asked for and does not need."""
        self._asked.discard(name)
        self._drop_watches([name])

    # --- following -----------------------------------------------------------------------------

    async def _run(self) -> None:
        unsubscribe = self._client.backend.subscribe(self._on_state)
        try:
            await self._follow()
        finally:
            unsubscribe()
            self._drop_watches(self._watches)

    async def _follow(self) -> None:
        while True:
            self._changed = anyio.Event()
            try:
                observation = await self._look()
            except AioleadError as error:
                await self._before_next_try(error)
                continue
            self._publish(observation)
            await self._changed.wait()

    async def _before_next_try(self, error: AioleadError) -> None:
        """Wait as the error policy says, or raise the error, which ends the view."""
        if isinstance(error, RequestRefusedError):
            if not self._count:
                raise error  # to the task that opens the view
            await pause_until(self._client, error, self._changed)
            return
        if action_for(error, Step.FOLLOW) is not Action.RECONNECT:
            await before_next_try(self._client, error, Step.FOLLOW)
            return
        while self._client.state not in self._served_in:
            if self._client.state.is_final:
                await self._client.ready()  # raises what became of the client
            self._changed = anyio.Event()
            await self._changed.wait()

    async def _look(self) -> Observation[T]:
        """Read the value within one session, and no older value than before."""
        client = self._client
        while True:
            self._asked.clear()
            session_id = client.session_id
            is_other = self._session_id not in (0, session_id)
            if is_other and client.state is not SessionState.READ_ONLY:
                # A local session may begin on a server that lags behind the last one.
                await client.sync()
            observation = await self._read()
            if client.session_id == session_id:
                break
        self._session_id = session_id
        self._drop_watches([name for name in self._watches if name not in self._asked])
        return observation

    def _drop_watches(self, names: Iterable[str]) -> None:
        for name in list(names):
            self._watches.pop(name).close()

    def _on_event(self, _event: WatchEvent) -> None:
        self._changed.set()

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        if state in self._served_in or state.is_final:
            self._changed.set()


class _Iteration(AsyncIterator[T]):
    def __init__(self, latest: LatestValue[T]) -> None:
        self._latest = latest
        self._seen = 0

    async def __anext__(self) -> T:
        self._seen, value = await self._latest._next(self._seen)
        return value
