"""Awaitable one-shot watches, and the events of persistent watches as async iterators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Self, final

import anyio
import anyio.lowlevel

from ..._session.requests import WATCH_CHANGE
from ..._session.streams import StreamSlot
from ..._session.watches import WatchRegistry, WatchSlot
from ..._util.escaping import described
from ..._wire.codes import OpCode
from ..._wire.replies import NumberReply
from ..._wire.versions import Feature
from ...errors import ConfigurationError, UsageError
from ...model import Missed, WatchEvent
from ..core import Core, PendingReply
from .server_features import read_with

if TYPE_CHECKING:
    from .operations import Scope  # which imports this


class _AwaitedSlot(WatchSlot):
    """The session's part of a watch; users hold another object, which they may drop."""

    __slots__ = ("_fired",)

    def __init__(
        self, registry: WatchRegistry, on_event: Callable[[WatchEvent], object] | None
    ) -> None:
        super().__init__(registry, on_event)
        self._fired: anyio.Event | None = None

    def fire(self, event: WatchEvent) -> None:
        super().fire(event)
        self._wake()

    def close(self) -> None:
        super().close()
        self._wake()

    def _wake(self) -> None:
        if self._fired is not None:
            self._fired.set()
            self._fired = None

    async def changed(self) -> None:
        if self._fired is None:
            self._fired = anyio.Event()
        await self._fired.wait()


@final
class ClientWatch:
    """A one-shot watch: made by `client.backend.make_watch`, armed by passing it to a read.

    The client re-arms it after a reconnect, relative to what it had seen. It fires at most once per
    arming; another read arms it again. When its session ends, it reports an event of type `NONE`.
    It is a context manager, too, which closes it. A watch that is dropped without being closed is
    removed with the next request or ping, unless its `on_event` is still to be called.

    Threads and forks: any thread may read and close it; closed from elsewhere, it is removed
    with the next request or ping. Only the client's event loop may wait for it; that is not
    checked.
    """

    __slots__ = ("__weakref__", "_core", "_slot", "_told")

    def __init__(self, core: Core, on_event: Callable[[WatchEvent], object] | None) -> None:
        self._core = core
        self._slot = _AwaitedSlot(core.machine.watches, on_event)
        self._told: WatchEvent | None = None
        """The event that a `wait` has returned."""

    def __del__(self) -> None:
        # Runs in any thread, in the middle of anything: so it only leaves a note.
        if not self._slot.closed and self._slot.on_event is None:
            self._core.machine.watches.dropped(self._slot)

    def _slot_in(self, registry: WatchRegistry) -> WatchSlot | None:
        """The session's part of it; None if it belongs to another client."""
        return self._slot if self._core.machine.watches is registry else None

    @property
    def event(self) -> WatchEvent | None:
        """The event that fired; None while no server has reported one."""
        return self._slot.event

    @property
    def is_armed(self) -> bool:
        """Whether a server watches now. Only then does silence mean that nothing happened."""
        return self._slot.is_armed

    def close(self) -> None:
        """Remove the watch; from the server, too, unless this client has another one there."""
        if self._core.is_here():
            self._slot.close()
        else:
            self._core.machine.watches.dropped(self._slot)

    async def wait(self) -> WatchEvent:
        """Wait for the event; return at once if it has fired already.

        All waiting tasks get it. Raises `UsageError` if it was already returned and the watch not
        armed again by another read, or if the watch was closed before it fired. Cancellation leaves
        the watch armed, and its event for the next `wait`. On connection loss, the wait goes on;
        events that happened meanwhile are reported afterwards.
        """
        slot = self._slot
        if (event := slot.event) is not None:
            await anyio.lowlevel.checkpoint()
            if event is self._told:
                raise UsageError(
                    "the watch has fired, and `wait` has returned its event: pass the watch to a "
                    "read (`get`, `exists`, `get_children`) to arm it again"
                )
        while event is None:
            if slot.closed:
                await anyio.lowlevel.checkpoint()
                raise UsageError("the watch was closed")
            await slot.changed()
            event = slot.event
        self._told = event
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def joined_watch(
    core: Core, full: str, path: str, on_event: Callable[[WatchEvent], object] | None
) -> ClientWatch | None:
    """See `aiolead.abc.Backend.join_watch`; `full` is the path on the servers."""
    watch = ClientWatch(core, on_event)
    return watch if core.machine.watches.join_armed(watch._slot, full, path) else None


MAX_EVENTS = 10_000
"""How many unread events a stream keeps by default."""


@final
class WatchStream(AsyncIterator[WatchEvent | Missed]):
    """Every event of a persistent watch, in order, with `Missed` where some may be missing.

    Made by `Client.watch`. A context manager, entered once:
    `async with client.watch(path) as events: async for event in events:`.

    Entering waits until the server watches, and raises what a read would. Leaving removes the watch
    from the server, unless another stream of this client watches the same path. The iteration lasts
    as long as the client; then it raises `ClientClosedError`, or `AuthFailedError`. Of several
    tasks that iterate, one gets each event. Cancelling the wait for an event loses none. On
    connection loss the stream goes on, with a `Missed` as soon as the watch is set again.

    Threads and forks: any thread may read its properties; everything else raises `UsageError`
    outside of the client's event loop. In a forked child `is_live` is False.
    """

    def __init__(self, core: Core, scope: Scope, path: str, recursive: bool, limit: int) -> None:
        full = scope.full(path)
        if type(limit) is not int or limit < 1:
            raise ConfigurationError(f"max_events: must be 1 or more, not {described(limit)}")
        self._core = core
        self._path = path
        self._slot = StreamSlot(
            full, scope.prefix, recursive=recursive, limit=limit, on_news=self._on_news
        )
        self._news = anyio.Event()
        self._state = "new"

    def __repr__(self) -> str:
        kind = "recursive " if self._slot.recursive else ""
        return f"<{kind}WatchStream of {self._path}, {self._state}, {self.unread} unread>"

    @property
    def unread(self) -> int:
        """How many events, gaps included, are unread."""
        return len(self._slot.events)

    @property
    def is_live(self) -> bool:
        """Whether a server watches now; false while the connection is down."""
        if self._core.is_forked:
            return False
        return self._state == "open" and self._slot.is_set and self._core.machine.watches.is_live

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise UsageError("the stream was entered already: call watch() again")
        self._core.check_home()
        self._state = "opening"
        try:
            recursive = self._slot.recursive
            feature = Feature.RECURSIVE_WATCHES if recursive else Feature.PERSISTENT_WATCHES
            await read_with(self._core, feature, self._make_request)
        except BaseException:
            self._close()
            raise
        self._state = "open"
        return self

    def _make_request(self) -> PendingReply[int]:
        request, joining = self._core.machine.watches.join(self._slot)
        return PendingReply(
            OpCode.ADD_WATCH,
            request.encode(),
            lambda r: NumberReply.read(r).number,  # 0: errors are in the header
            path=self._path,
            # Bound: the next server may be an older one.
            kind=WATCH_CHANGE,
            arming=joining,
        )

    async def __aexit__(self, *exc_info: object) -> None:
        if self._core.leaves_here(exc_info):
            self._close()

    def _close(self) -> None:
        self._state = "closed"
        self._core.machine.watches.leave(self._slot)
        self._news.set()

    def _on_news(self) -> None:
        self._news.set()

    async def __anext__(self) -> WatchEvent | Missed:
        if self._state == "new":
            raise UsageError(
                "the stream was not opened: enter it by `async with` (in a thread, `with`)"
            )
        self._core.check_home()
        # Events that came together do not take a turn of the event loop each. This starves nobody:
        # for more of them, the reader waits.
        await anyio.lowlevel.checkpoint_if_cancelled()
        while self._state != "closed":
            if (item := self._slot.take()) is not None:
                return item
            if self._news.is_set():  # else another task waits for it
                self._news = anyio.Event()
            await self._news.wait()
        raise StopAsyncIteration
