"""The latest value of something: whether it is live, and iterators over its changes.

`ClientJob` runs a job of the client for a block. `LatestValue` has the value that such a job keeps,
and its readers. `View` reads the value from the servers: a subclass says how, with watches on
whatever can change it. `SharedView` has one reading of the servers for all views of the same thing
in one session.

A reading may be thrown away: one that meets another session is repeated. So a read changes nothing
that readers see. It returns an `Observation`, and only its publication counts: what is news, and
every property of a view, goes by the observation that was published last.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, final

import anyio
import anyio.lowlevel

from ..abc import CoordinationClient, Reply, Watch
from ..errors import AioleadError, NoNodeError, RequestRefusedError, UsageError
from ..model import SessionState, Stat, WatchEvent
from .errors import Action, Step, action_for, before_next_try, pause_until
from .reading import read_children, read_data

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """The result of one reading: the value, and its mark.

    It is news to readers if its mark differs from that of the observation published before it. A
    subclass adds what else its view shows.
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


class SharedReading(View[T]):
    """A view that passes each reading on to the views that share it. Not for users."""

    def __init__(self, client: CoordinationClient) -> None:
        super().__init__(client)
        self.views: dict[SharedView[T], None] = {}  # ordered, unlike a set
        self._began_with: set[SharedView[T]] = set()
        """The views that were there when the present reading began."""
        self._is_outdated = False

    @property
    def has_ended(self) -> bool:
        return self._closed or self._ended.is_set()

    def start(self) -> None:
        self._client.backend.spawn(self._job, self._end)

    def add(self, view: SharedView[T]) -> None:
        """Pass on what is known, if nothing can have changed since; else the next reading."""
        self.views[view] = None
        if self.is_live and not self._is_outdated:
            view._publish(self._latest)

    async def remove(self, view: SharedView[T]) -> None:
        """End the reading if that was the last view."""
        del self.views[view]
        if not self.views:
            self._close()
            with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
                await self._ended.wait()

    async def follow(self) -> None:
        """Wait for the end of the reading; raise why it has ended."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    async def _look(self) -> Observation[T]:
        self._began_with = set(self.views)
        return await super()._look()

    def _publish(self, observation: Observation[T]) -> None:
        self._is_outdated = False
        super()._publish(observation)
        is_live = self.is_live
        for view in list(self.views):
            # A view that has joined during the reading must see what its client wrote before.
            if is_live or view in self._began_with:
                view._publish(observation)

    def _outdate(self, observation: Observation[T]) -> None:
        """Pass on what was not read now; views that have nothing yet wait for a reading."""
        self._is_outdated = True
        super()._publish(observation)
        for view in list(self.views):
            if view._count:
                view._publish(observation)


class SharedReadings:
    """The readings of one session at one path, by what is read there."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, SharedReading[Any]] = {}


class SharedView(View[T]):
    """A view that shares its reading with all others of the session with the same path and key."""

    _reading: SharedReading[T]

    def __init__(self, client: CoordinationClient, path: str, key: Hashable = None) -> None:
        super().__init__(client)
        self._path = path
        self._readings = client.backend.shared(path, SharedReadings)
        # Views of the client with another chroot name the same znodes by other paths.
        self._key = (type(self), path, key)

    @abstractmethod
    def _make_reading(self) -> SharedReading[T]:
        """Return the reading to start when there is none."""

    @property
    def is_live(self) -> bool:
        return super().is_live and self._reading.is_live

    async def _run(self) -> None:
        by_key = self._readings.by_key
        reading: SharedReading[T] | None = by_key.get(self._key)
        if reading is None or reading.has_ended:
            if self._client.state.is_final:
                await self._client.ready()  # raises what became of the client
            reading = by_key[self._key] = self._make_reading()
            reading.start()
        self._reading = reading
        reading.add(self)
        try:
            await reading.follow()
        finally:
            await reading.remove(self)
            if reading.has_ended and by_key.get(self._key) is reading:
                del by_key[self._key]

    async def _read(self) -> Observation[T]:
        raise AssertionError("the shared reading reads")


E = TypeVar("E")


class ChildReader(Generic[E]):
    """Reads the children of a znode repeatedly, and never all of them because of one change.

    One watch is on the list of children, one on each child. Only what is new, or whose watch has
    fired, is read again. A missing znode has no children.

    `entry` makes a child's entry from its name, data and `Stat`, or None to leave it out.
    `is_wanted` says by its name whether to read a child, `is_watched` whether changes of its data
    matter.
    """

    def __init__(
        self,
        view: View[Any],
        path: str,
        entry: Callable[[str, bytes, Stat], E | None],
        *,
        is_wanted: Callable[[str], bool] = lambda _name: True,
        is_watched: bool = True,
    ) -> None:
        self._view = view
        self._client = view._client
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

    def ask(self) -> None:
        """Request the list if it may have changed; several readers may ask in one segment."""
        self._forget_changed()
        self._listing = self._list() if self._names is None else None

    async def names(self) -> list[str]:
        """The names of the children, sorted. Call `ask` first."""
        view, listing = self._view, self._listing
        while listing is not None:
            try:
                self._names = [name for name in sorted(await listing) if self._is_wanted(name)]
            except NoNodeError:
                view._unwatch(self._below)  # it was not armed
                if await self._client.exists(self._path, watch=view._watch(self._path)) is None:
                    self._names = []
                    break
                listing = self._list()
            else:
                if self._path in view._watches:
                    view._unwatch(self._path)
                break
        names = self._names or []
        # Keep the watches of children that are not read again now.
        keys = {self._path, self._below, *(self._below + name for name in names)}
        view._asked |= keys & view._watches.keys()
        return names

    async def read(self) -> dict[str, E]:
        """The entries of the children by name, sorted. Call `ask` first."""
        names = await self.names()
        missing = [name for name in names if name not in self.known]
        watch = (lambda name: self._view._watch(self._below + name)) if self._is_watched else None
        found = await read_children(self._client, self._path, missing, watch=watch)
        for name, (data, stat) in found.items():
            self.known[name] = self._entry(name, data, stat)
        self.known = {name: self.known[name] for name in names if name in self.known}
        return {name: entry for name, entry in self.known.items() if entry is not None}

    def _list(self) -> Reply[list[str]]:
        return self._client.get_children(self._path, watch=self._view._watch(self._below))

    def _forget_changed(self) -> None:
        for key, watch in self._view._watches.items():
            if watch.event is None:
                continue
            if key in (self._path, self._below):
                self._names = None
            elif key.startswith(self._below):
                # Deleted or set: if it is still listed, it may have been created again.
                self.known.pop(key.removeprefix(self._below), None)


class _ZnodeView(View[T]):
    _served_in = (SessionState.CONNECTED, SessionState.READ_ONLY)

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client)
        client.backend.full_path(path)  # refuses malformed paths
        self._path = path

    def __repr__(self) -> str:
        live = "live" if self.is_live else "not live"
        return f"<{type(self).__name__} of {self._path}, {live}>"


@final
class DataView(_ZnodeView[tuple[bytes, Stat] | None]):
    """The latest data and `Stat` of a znode; None while it does not exist. See `View`.

    It also works over a read-only server, if the client accepts one.
    """

    async def _read(self) -> Observation[tuple[bytes, Stat] | None]:
        data, stat = await read_data(self._client, self._path, self._watch("data"))
        if stat is None:
            return plain(None)
        # Other parts of the `Stat` change with the children, which is no news.
        return Observation((data, stat), stat.mzxid)


@final
class ChildrenView(_ZnodeView[list[str] | None]):
    """The latest children of a znode, sorted; None while it does not exist.

    It also works over a read-only server, if the client accepts one. See `View`.
    """

    async def _read(self) -> Observation[list[str] | None]:
        client = self._client
        while True:
            try:
                names = await client.get_children(self._path, watch=self._watch("children"))
                return plain(sorted(names))
            except NoNodeError:
                self._unwatch("children")  # it was not armed
                if await client.exists(self._path, watch=self._watch("existence")) is None:
                    return plain(None)
                self._unwatch("existence")
