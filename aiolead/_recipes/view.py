"""The latest value of something: whether it is live, and iterators over its changes.

`LatestValue` has the value that a job of the client keeps, and its readers. The job of a `View`
follows a `Reading`, which reads the value from the servers whenever it may have changed. Views of
the same thing in one session may share a reading.

A result may be thrown away: a reading that meets another session is repeated. So reading changes
nothing that readers see. It returns an `Observation`, and only its publication counts: what is
news, and every property of a view, goes by the observation that was published last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar, final

import anyio
import anyio.lowlevel

from ..abc import CoordinationClient, Reply, Watch
from ..errors import AioleadError, NoNodeError, RequestRefusedError, UsageError
from ..model import SessionState, Stat, WatchEvent
from .errors import Action, Step, action_for, before_next_try, pause_until
from .reading import read_children, read_data

__types__ = ["ChildrenView", "DataView", "View"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """The result of one reading: the value, and its mark.

    It is news to readers if its mark differs from that of the observation published before it. A
    subclass has what else its view shows.
    """

    value: T
    mark: object


def plain(value: T) -> Observation[T]:
    """An observation of a value that is another one if it is not equal."""
    return Observation(value, value)


def leaves_here(client: CoordinationClient, error: BaseException | None) -> bool:
    """Whether a block is left where its client belongs; raises `UsageError` elsewhere.

    False in a forked child that `error` ends: nothing of the parent's changes, and `error`
    propagates.
    """
    if error is not None and client.backend.is_forked:
        return False
    client.backend.check_home()
    return True


@final
class ClientJob:
    """A job of the client for the body of an `async with`, to be entered once.

    `run` does the job; it is cancelled when the block is left, or the client closed. `on_end` is
    called, synchronously, with the error that has ended the job, or None.
    """

    def __init__(
        self,
        client: CoordinationClient,
        run: Callable[[], Awaitable[object]],
        on_end: Callable[[AioleadError | None], object],
    ) -> None:
        client.backend.check_home()
        self._client = client
        self._run = run
        self._on_end = on_end
        self._scope = anyio.CancelScope()
        self._is_started = False
        self.ended = anyio.Event()
        """Set once the job has ended."""

    async def start(self, owner: str) -> None:
        """Start the job; `owner` is named in the error if it was started before."""
        self._client.backend.check_home()
        if self._is_started:
            raise UsageError(f"{owner}: was entered already; make another one")
        self._is_started = True
        if self._client.state.is_final:
            await self._client.ready()  # raises what became of the client
        self._client.backend.spawn(self._work, self._end)

    def cancel(self) -> None:
        self._scope.cancel()

    async def end(self) -> None:
        """Cancel the job and wait for its end, for a third of the session timeout at most."""
        self._scope.cancel()
        with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
            await self.ended.wait()

    async def _work(self) -> None:
        with self._scope:
            await self._run()

    def _end(self, error: AioleadError | None) -> None:
        self.ended.set()
        self._on_end(error)


class LatestValue(AsyncIterable[T], ABC, Generic[T]):
    """The latest value that a job of the client keeps; for its readers see `View`.

    `_run` is the job, which calls `_publish`. An iteration ends with the job, and raises the error
    that has ended it.

    Threads and forks: a view is made, entered and iterated in the client's event loop;
    elsewhere that raises `UsageError`. Any thread may read its properties. In a forked child
    `value` is what it was at the fork, and `is_live` is False.
    """

    def __init__(self, client: CoordinationClient, path: str) -> None:
        self._client = client
        self._path = path
        self._job = ClientJob(client, self._run, self._end)
        self._closed = False
        self._latest: Observation[T]
        """The last published observation; only valid if there was one."""
        self._count = 0
        self._error: AioleadError | None = None
        self._news = anyio.Event()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._path}, {'live' if self.is_live else 'not live'}>"

    @property
    def value(self) -> T:
        """The latest value; `UsageError` if the view is not open yet."""
        self._check_open()
        return self._latest.value

    @property
    def is_live(self) -> bool:
        """Whether a change of the value would be reported now. False in a forked child."""
        is_open = self._count > 0 and not (self._closed or self._job.ended.is_set())
        return is_open and not self._client.backend.is_forked

    def __aiter__(self) -> AsyncIterator[T]:
        self._check_open()
        return _Iteration(self)

    async def __aenter__(self) -> Self:
        await self._job.start(type(self).__name__)
        try:
            await self._next(0)
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
        if leaves_here(self._client, exc):
            self._close()
            await self._job.end()

    @abstractmethod
    async def _run(self) -> None:
        """Publish values; cancelled when the context manager is left, or the client closed."""

    def _publish(self, observation: Observation[T]) -> None:
        is_news = not self._count or self._latest.mark != observation.mark
        self._latest = observation
        if is_news:
            self._count += 1
            self._wake()

    def _end(self, error: AioleadError | None) -> None:
        self._error = error
        self._wake()

    def _close(self) -> None:
        self._closed = True
        self._job.cancel()
        self._wake()

    def _check_open(self) -> None:
        if not self._count:
            raise UsageError(
                f"{type(self).__name__}: was not opened: enter it by `async with` "
                "(in a thread, `with`)"
            )

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
            if self._job.ended.is_set():
                break
            await self._news.wait()
        raise StopAsyncIteration


class _Iteration(AsyncIterator[T]):
    def __init__(self, latest: LatestValue[T]) -> None:
        self._latest = latest
        self._seen = 0

    async def __anext__(self) -> T:
        self._seen, value = await self._latest._next(self._seen)
        return value


# --- reading from the servers --------------------------------------------------------------------

Read: TypeAlias = "Callable[[Reading[T]], Awaitable[Observation[T]]]"

SERVED: tuple[SessionState, ...] = (SessionState.CONNECTED,)
SERVED_OR_READ_ONLY = (*SERVED, SessionState.READ_ONLY)


class Reading(Generic[T]):
    """Reads a value again whenever it may have changed, and publishes it to its views.

    `read` reads the value once, with watches (`watch`) on whatever can change it. It is called
    again after a lost connection or session, and after a pause for an overloaded server; any other
    error ends the reading. Its result may be thrown away: it compares with what a view has
    published, never with what it read before. `served_in` has the states in which a server can be
    asked.
    """

    def __init__(
        self,
        client: CoordinationClient,
        read: Read[T],
        served_in: tuple[SessionState, ...] = SERVED,
    ) -> None:
        self._client = client
        self._read = read
        self._served_in = served_in
        self._job = ClientJob(client, self._run, self._end)
        self._error: AioleadError | None = None
        self._views: dict[View[T], anyio.CancelScope] = {}
        """The scope of each view's wait for the end."""
        self._refusal: RequestRefusedError | None = None
        """The last refusal of a request of a reading."""
        self._is_refused = False
        """Whether the present reading was refused, and pauses."""
        self._began_with: set[View[T]] = set()
        """The views that were there when the present reading began."""
        self._latest: Observation[T] | None = None
        self._is_outdated = False
        self._is_closed = False
        self.watches: dict[str, Watch] = {}
        self._asked: set[str] = set()
        """The watches that the present reading has asked for."""
        self._changed = anyio.Event()
        """Set when the last reading may be outdated."""
        self._session_id = 0

    @property
    def is_live(self) -> bool:
        """Whether a server watches now, and so would report a change of the value."""
        watches = tuple(self.watches.values())  # any thread may ask, while a reading adds some
        return (
            not (self.has_ended or self._changed.is_set() or self._latest is None)
            and self._client.state in self._served_in
            and all(watch.is_armed for watch in watches)
        )

    @property
    def has_ended(self) -> bool:
        return self._is_closed or self._job.ended.is_set()

    # --- for `read` ----------------------------------------------------------------------------

    def watch(self, name: str) -> Watch:
        """Return the present reading's watch of a name.

        A name always stands for the same znode and type of read (data and existence are one type,
        children another). A watch that a reading has not asked for is closed after it.
        """
        self._asked.add(name)
        watch = self.watches.get(name)
        if watch is None:
            watch = self.watches[name] = self._client.backend.make_watch(self._on_event)
        return watch

    def keep(self, names: Iterable[str]) -> None:
        """Ask for those watches of the names that are there."""
        self._asked.update(name for name in names if name in self.watches)

    def unwatch(self, name: str) -> None:
        """Close a watch that the present reading does not need, if it is there."""
        self._asked.discard(name)
        watch = self.watches.pop(name, None)
        if watch is not None:
            watch.close()

    def ask_children(self, path: str) -> Reply[list[str]]:
        """Request the children of a znode, and watch them."""
        return self._client.get_children(path, watch=self.watch(f"{path}/"))

    async def children(self, path: str, listing: Reply[list[str]]) -> list[str] | None:
        """The children of a znode; None if it does not exist, whose creation is then watched."""
        while True:
            try:
                names = await listing
            except NoNodeError:
                self.unwatch(f"{path}/")  # it was not armed
            else:
                self.unwatch(path)
                return sorted(names)
            if await self._client.exists(path, watch=self.watch(path)) is None:
                return None
            listing = self.ask_children(path)

    # --- for views -----------------------------------------------------------------------------

    async def follow(self, view: View[T]) -> None:
        """Publish to a view until it is cancelled, or the reading ends; raise why it has ended.

        A view without a value is not kept waiting by a refused request: that is raised.
        """
        scope = self._views[view] = anyio.CancelScope()
        if self.is_live and not self._is_outdated and self._latest is not None:
            view._publish(self._latest)
        try:
            with scope:
                if self._is_refused and not view._count:
                    scope.cancel()
                await self._job.ended.wait()
            if scope.cancelled_caught:
                assert self._refusal is not None, "nothing else cancels it"
                raise self._refusal
            if self._error is not None:
                raise self._error
        finally:
            del self._views[view]
            if not self._views:
                self._is_closed = True
                await self._job.end()

    def _publish(self, observation: Observation[T]) -> None:
        self._is_outdated = False
        self._latest = observation
        is_live = self.is_live
        for view in list(self._views):
            # A view that has joined during the reading must see what its client wrote before.
            if is_live or view in self._began_with:
                view._publish(observation)

    def _outdate(self, observation: Observation[T]) -> None:
        """Publish what was not read now; views that have nothing yet wait for a reading."""
        self._is_outdated = True
        self._latest = observation
        for view in list(self._views):
            if view._count:
                view._publish(observation)

    # --- following -----------------------------------------------------------------------------

    async def start(self) -> None:
        await self._job.start(type(self).__name__)

    def _end(self, error: AioleadError | None) -> None:
        self._error = error

    async def _run(self) -> None:
        unsubscribe = self._client.backend.subscribe(self._on_state)
        try:
            await self._follow()
        finally:
            unsubscribe()
            for name in list(self.watches):
                self.unwatch(name)

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
        """Wait as the error policy says, or raise the error, which ends the reading."""
        if isinstance(error, RequestRefusedError):
            if self._latest is None:
                raise error  # to the task that opens the view
            self._refusal, self._is_refused = error, True
            for view, scope in self._views.items():
                if not view._count:
                    scope.cancel()
            await pause_until(self._client, error, self._changed)
            self._is_refused = False
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
        self._began_with = set(self._views)
        while True:
            self._asked.clear()
            session_id = client.session_id
            is_other = self._session_id not in (0, session_id)
            if is_other and client.state is not SessionState.READ_ONLY:
                # A local session may begin on a server that lags behind the last one.
                await client.sync()
            observation = await self._read(self)
            if client.session_id == session_id:
                break
        self._session_id = session_id
        for name in [name for name in self.watches if name not in self._asked]:
            self.unwatch(name)
        return observation

    def _on_event(self, _event: WatchEvent) -> None:
        self._changed.set()

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        if state in self._served_in or state.is_final:
            self._changed.set()


class _Readings(dict[Hashable, Reading[Any]]):
    """The readings of one session at one path, by what is read there."""


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

    _reading: Reading[T]

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        make_reading: Callable[[], Reading[T]],
        *,
        shared_by: Hashable = None,
    ) -> None:
        """`shared_by`: views of one class, path, session and this value share a reading."""
        super().__init__(client, path)
        self._make_reading = make_reading
        is_shared = shared_by is not None
        self._readings = client.backend.shared(path, _Readings) if is_shared else _Readings()
        # Views of the client with another chroot name the same znodes by other paths.
        self._key = (type(self), path, shared_by)

    @property
    def is_live(self) -> bool:
        """Whether a server watches now, and so would report a change of the value."""
        return super().is_live and self._reading.is_live

    async def _run(self) -> None:
        by_key = self._readings
        reading: Reading[T] | None = by_key.get(self._key)
        if reading is None or reading.has_ended:
            reading = by_key[self._key] = self._make_reading()
            await reading.start()
        self._reading = reading
        try:
            await reading.follow(self)
        finally:
            if reading.has_ended and by_key.get(self._key) is reading:
                del by_key[self._key]


E = TypeVar("E")


class ChildReader(Generic[E]):
    """Reads the children of a znode repeatedly; a change makes it read only what has changed.

    One watch is on the list of children, one on each child. Only what is new, or whose watch has
    fired, is read again. A missing znode has no children.

    `entry` makes a child's entry from its name, data and `Stat`, or None to leave it out.
    `is_wanted` says by its name whether to read a child, `is_watched` whether changes of its data
    matter.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        entry: Callable[[str, bytes, Stat], E | None],
        *,
        is_wanted: Callable[[str], bool] = lambda _name: True,
        is_watched: bool = True,
    ) -> None:
        self._client = client
        self._path = path
        self._below = f"{path}/"
        self._is_wanted = is_wanted
        self._entry = entry
        self._is_watched = is_watched
        self._listing: Reply[list[str]] | None = None
        self._names: list[str] | None = None
        """The list, until its watch fires."""
        self.known: dict[str, E | None] = {}
        """The entries, None for those left out, until their watches fire."""

    def ask(self, reading: Reading[Any]) -> None:
        """Request the list if it may have changed; several readers may ask in one segment."""
        for key, watch in reading.watches.items():
            if watch.event is None:
                continue
            if key in (self._path, self._below):
                self._names = None
            elif key.startswith(self._below):
                # Deleted or set: if it is still listed, it may have been created again.
                self.known.pop(key.removeprefix(self._below), None)
        self._listing = reading.ask_children(self._path) if self._names is None else None

    async def names(self, reading: Reading[Any]) -> list[str]:
        """The names of the children, sorted. Call `ask` first."""
        if self._listing is not None:
            found = await reading.children(self._path, self._listing)
            self._names = [name for name in found or () if self._is_wanted(name)]
        names = self._names or []
        # Keep the watches of children that are not read again now.
        reading.keep([self._path, self._below, *(self._below + name for name in names)])
        return names

    async def read(self, reading: Reading[Any]) -> dict[str, E]:
        """The entries of the children by name, sorted. Call `ask` first."""
        names = await self.names(reading)
        missing = [name for name in names if name not in self.known]
        watch = (lambda name: reading.watch(self._below + name)) if self._is_watched else None
        found = await read_children(self._client, self._path, missing, watch=watch)
        for name, (data, stat) in found.items():
            self.known[name] = self._entry(name, data, stat)
        self.known = {name: self.known[name] for name in names if name in self.known}
        return {name: entry for name, entry in self.known.items() if entry is not None}


# --- the views of one znode ----------------------------------------------------------------------


@final
class DataView(View[tuple[bytes, Stat] | None]):
    """The latest data and `Stat` of a znode; None while it does not exist. See `View`.

    It also works over a read-only server, if the client accepts one.
    """

    def __init__(self, client: CoordinationClient, path: str) -> None:
        client.backend.full_path(path)  # refuses malformed paths
        super().__init__(client, path, partial(Reading, client, self._read, SERVED_OR_READ_ONLY))

    async def _read(
        self, reading: Reading[tuple[bytes, Stat] | None]
    ) -> Observation[tuple[bytes, Stat] | None]:
        data, stat = await read_data(self._client, self._path, reading.watch("data"))
        if stat is None:
            return plain(None)
        # Other parts of the `Stat` change with the children, which is no news.
        return Observation((data, stat), stat.mzxid)


@final
class ChildrenView(View[list[str] | None]):
    """The latest children of a znode, sorted; None while it does not exist.

    It also works over a read-only server, if the client accepts one. See `View`.
    """

    def __init__(self, client: CoordinationClient, path: str) -> None:
        client.backend.full_path(path)  # refuses malformed paths
        super().__init__(client, path, partial(Reading, client, self._read, SERVED_OR_READ_ONLY))

    async def _read(self, reading: Reading[list[str] | None]) -> Observation[list[str] | None]:
        return plain(await reading.children(self._path, reading.ask_children(self._path)))
