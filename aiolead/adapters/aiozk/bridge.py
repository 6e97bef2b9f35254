"""aiozk's own requests, over a connection of ours.

aiozk encodes and decodes them; they are sent, repeated and failed like our own. Callers get aiozk's
errors.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from aiozk import exc, protocol

from ..._client.api.client_watch import ClientWatch
from ..._client.core import Core
from ..._session.requests.call import READ, UNPROVEN_WRITE, Call
from ..._session.watches.arming import Arming
from ..._session.watches.one_shot import WatchKind, WatchSlot
from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ...errors import (
    AioleadError,
    ClientClosedError,
    ConnectionLossError,
    NoNodeError,
    RemoteWireError,
    ServerError,
    SessionError,
    UsageError,
)
from ...model import EventType, WatchEvent

READS = frozenset(
    {
        OpCode.EXISTS,
        OpCode.GET_DATA,
        OpCode.GET_ACL,
        OpCode.GET_CHILDREN,
        OpCode.GET_CHILDREN2,
        OpCode.SYNC,
    }
)
"""Requests that may be sent again over the next connection."""

OURS = frozenset({OpCode.PING, OpCode.AUTH, OpCode.SET_WATCHES, OpCode.SASL, OpCode.CLOSE_SESSION})
"""Requests about the connection or session: aiolead's own while it is adapted."""

KINDS: dict[Any, WatchKind] = {
    protocol.WatchEvent.CREATED: WatchKind.EXIST,
    protocol.WatchEvent.DELETED: WatchKind.DATA,
    protocol.WatchEvent.DATA_CHANGED: WatchKind.DATA,
    protocol.WatchEvent.CHILDREN_CHANGED: WatchKind.CHILD,
}
"""Which watch serves a callback's events. aiozk itself forgets the deletions."""

MISSING = object()
"""The answer to `exists` for no znode: an error to aiozk, but its watch is set."""


class Bridge:
    def __init__(self, session: Any, core: Core) -> None:
        self._session = session
        self._core = core
        self._watches: dict[tuple[str, WatchKind], ClientWatch] = {}
        self._loop = asyncio.get_running_loop()

    async def ask(self, request: Any) -> Any:
        """Returns the answer, or raises aiozk's error. Waits forever for a server."""
        try:
            await self._core.ready()
        except SessionError as error:
            raise self._translated(error) from None
        _, response = await self.submit(request)
        return response

    def submit(self, request: Any) -> asyncio.Future[tuple[int, Any]]:
        """Hands a request over; the future gets the transaction id and aiozk's response."""
        call = self._core.submit(self._call(request), limited=False)
        future: asyncio.Future[tuple[int, Any]] = self._loop.create_future()

        def settle() -> None:
            if future.done():
                return  # its caller was cancelled
            error = call.error()
            if error is not None:
                future.set_exception(self._translated(error))
            elif call.result() is MISSING:
                future.set_exception(exc.NoNode())
            else:
                future.set_result((self._core.machine.last_zxid, call.result()))

        call.add_done_callback(settle)
        return future

    def _call(self, request: Any) -> Call[Any]:
        op: int = request.opcode
        if op in OURS:
            raise UsageError(f"aiozk: the adapter handles {request} while it is open")
        # The operation stands before the body, and goes into the header.
        body: bytes = request.serialize()[4:]
        key = _watched(request)
        watch = None if key is None else self._begin(*key)

        def parse(r: Reader) -> Any:
            try:
                return protocol.response_xref[op].deserialize(r.rest())
            except Exception as error:  # its parser may raise anything
                raise RemoteWireError(f"no answer that aiozk can read: {error}") from error

        def on_error(error: AioleadError) -> Any:
            is_missing = op == OpCode.EXISTS and isinstance(error, NoNodeError)
            return MISSING if is_missing else error

        # An answer to a transaction of aiozk's proves nothing: a failed one is answered, too.
        kind = READ if op in READS else UNPROVEN_WRITE
        call = Call(op, body, parse, kind=kind, arming=watch, on_error=on_error)
        if key is not None:
            call.add_done_callback(partial(self._forget_idle, *key))
        return call

    def _translated(self, error: AioleadError) -> Exception:
        found: Exception = error
        if isinstance(error, ServerError):
            found = exc.get_response_error(error.code)
        elif isinstance(error, ClientClosedError) and not getattr(self._session, "is_over", False):
            found = _unconnected()  # the session is about to be aiozk's again
        elif isinstance(error, SessionError):
            found = exc.SessionLost(str(error))
        elif isinstance(error, (ConnectionLossError, RemoteWireError)):
            found = _unconnected()
        return found

    # --- watches -------------------------------------------------------------------------------

    @property
    def watching(self) -> int:
        return sum(self._slot(*key).kind is not None for key in self._watches)

    def take_watches(self) -> None:
        """Watches what aiozk has callbacks for. Called without a connection: the next handshake
        sets these watches, relative to the last zxid, as aiozk does; also in another session.
        """
        for (type_, path), callbacks in self._session.watch_callbacks.items():
            kind = KINDS.get(type_)
            if callbacks and kind is not None and (path, kind) not in self._watches:
                self._begin(path, kind).armed()

    def _begin(self, path: str, kind: WatchKind) -> Arming:
        registry = self._core.machine.watches
        if (path, kind) not in self._watches:
            fired = partial(self._fired, path, kind)
            self._watches[path, kind] = ClientWatch(registry, fired)
        return registry.begin(self._slot(path, kind), path, path, kind)

    def _slot(self, path: str, kind: WatchKind) -> WatchSlot:
        slot = self._watches[path, kind]._slot_in(self._core.machine.watches)
        assert slot is not None
        return slot

    def _fired(self, path: str, kind: WatchKind, event: WatchEvent) -> None:
        self._forget_idle(path, kind)
        if event.type is EventType.NONE:
            return  # the session is over: aiozk reports that by its state
        state = protocol.WatchEvent.CONNECTED
        self._session.event_dispatch(
            protocol.WatchEvent(type=int(event.type), state=state, path=event.path)
        )

    def _forget_idle(self, path: str, kind: WatchKind) -> None:
        """Drops a watch that is neither armed nor about to be."""
        if (path, kind) in self._watches:
            slot = self._slot(path, kind)
            if slot.kind is None and not slot.pending:
                del self._watches[path, kind]


def _watched(request: Any) -> tuple[str, WatchKind] | None:
    if not getattr(request, "watch", False):
        return None
    is_listing = request.opcode in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
    return request.path, WatchKind.CHILD if is_listing else WatchKind.DATA


def _unconnected() -> Exception:
    """An error after which the application's `RetryPolicy` may repeat the request."""
    error: Exception = exc.ConnectError(BridgedConnection.host, BridgedConnection.port)
    return error


class BridgedConnection:
    """The object that aiozk uses as its connection; `version` is the servers', as aiozk read it."""

    start_read_only = False
    read_loop_task = None
    host: str = "aiolead"
    port: int = 0

    def __init__(self, bridge: Bridge, version: tuple[int, ...]) -> None:
        self._bridge = bridge
        self.version_info = version

    def send(self, request: Any, xid: int | None = None) -> asyncio.Future[tuple[int, Any]]:
        """See aiozk's `Connection.send`; `xid` is ours to choose."""
        return self._bridge.submit(request)

    async def close(self, timeout: float) -> None:
        """Does nothing: the connection is aiolead's."""

    def abort(self, exception: Any = None) -> None:
        """Does nothing: every request is answered or fails by itself."""
