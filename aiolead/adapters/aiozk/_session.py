"""An aiozk session while it is adapted: its take-over, its return, and its requests over ours.

aiozk encodes and decodes its requests; they are sent, repeated and failed like our own, and callers
get aiozk's errors. Its own connecting, repairing and pinging stop meanwhile. The object stays the
same, since the application and aiozk's recipes have it; only its class changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, final

import anyio
from aiozk import exc, protocol
from aiozk.connection import Connection
from aiozk.session import Session
from aiozk.states import States

from ..._client.api.client import Client
from ..._client.api.client_watches import ClientWatch
from ..._client.connect import Connection as OwnConnection
from ..._client.connect import connect
from ..._client.connect_options import MAX_SESSION_TIMEOUT
from ..._client.core import Core
from ..._session.requests import READ, UNPROVEN_WRITE, Call
from ..._session.timing import LONGEST_UNASKED, SHORTEST
from ..._session.watches import Arming, WatchKind, WatchSlot
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
    SessionExpiredError,
    UsageError,
)
from ...model import (
    ACL,
    EventType,
    Permission,
    SessionCredentials,
    SessionState,
    WatchEvent,
)
from ...paths import format_host

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
        self._core.check_home()  # before a watch is reserved
        call = self._core.submit(self._call(request))
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
            self._watches[path, kind] = ClientWatch(self._core, fired)
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


OLDEST = (3, 5, 1)
"""The oldest server version for aiolead, for an aiozk that has never seen a version."""

DRAIN = 1 / 8
"""How long to wait for the answers on aiozk's own connection, in session timeouts."""

LEAST_WAIT = 0.1
"""The least time for a cancelled task to end, in seconds."""


class AdaptedSession(Session):  # type: ignore[misc]  # aiozk has no types
    """An aiozk session whose requests are served by a bridge.

    `is_bridged` is set while the bridge may be used, and once it is no longer needed. `is_over`
    means that the application has closed the session, by `end`.
    """

    bridge: Bridge
    is_bridged: asyncio.Event
    end: Callable[[], Awaitable[None]]
    is_over: bool

    async def start(self) -> None:
        if self.is_over:
            raise exc.SessionLost("the client was closed: leave its adaptation first")
        await self.is_bridged.wait()

    async def send(self, request: Any) -> Any:
        """Sends a request, as often as the application's `RetryPolicy` says."""
        try:
            while True:
                await self.retry_policy.enforce(request)
                if type(self) is AdaptedSession:
                    await self.is_bridged.wait()
                if type(self) is not AdaptedSession:  # aiozk's own again
                    self.retry_policy.clear(request)
                    return await self.send(request)
                try:
                    return await self.bridge.ask(request)
                except exc.ConnectError:
                    continue
        finally:
            # Else aiozk keeps a request's retries, and applies them to the next one at its address.
            self.retry_policy.clear(request)

    async def close(self) -> None:
        """Close the session; everything held on it is lost first.

        Closing goes on if the caller is cancelled; further calls wait for its end.
        """
        self.is_over = True
        await self.end()

    def set_heartbeat(self) -> None:
        """Does nothing: aiolead sends the pings."""

    def create_heartbeat(self) -> None:
        """Does nothing, like `set_heartbeat`."""

    async def set_existing_watches(self) -> None:
        """Does nothing: watches are set again with the connection."""


def credentials_of(session: Any) -> SessionCredentials | None:
    if not session.session_id:
        return None
    return SessionCredentials(
        session.session_id, session.password, session.timeout, session.last_zxid or 0
    )


def patience_of(session: Any) -> float:
    """How long to wait for aiozk's own connection, in seconds: the granted timeout at most."""
    timeout: float = session.timeout
    return min(timeout, LONGEST_UNASKED)


def connect_string(session: Any) -> str:
    return ",".join(format_host(host, int(port)) for host, port in session.hosts)


async def take_over(session: Any, bridge: Bridge, end: Callable[[], Awaitable[None]]) -> None:
    """Stops aiozk's own tasks, also if cancelled. From now on, requests wait for the bridge."""
    repairs = session.repair_loop_task
    repairs.remove_done_callback(session._on_repair_loop_done)  # which calls it an error
    repairs.cancel()
    session.__class__ = AdaptedSession
    session.bridge, session.is_bridged = bridge, asyncio.Event()
    session.end, session.is_over = end, False
    if session.heartbeat_handle is not None:
        session.heartbeat_handle.cancel()
    if session.heartbeat_task is not None:
        session.heartbeat_task.cancel()
    move(session, States.SUSPENDED)
    if isinstance(session.conn, Connection):  # and not one of ours, from the last time
        await _hang_up(session.conn, patience_of(session) * DRAIN)
    await asyncio.wait([repairs], timeout=max(LEAST_WAIT, patience_of(session) * DRAIN))


def give_back(session: Any, *, last_zxid: int) -> None:
    """Restarts aiozk's own tasks, unless the application has closed its client."""
    session.__class__ = Session
    is_over, is_bridged = session.is_over, session.is_bridged
    del session.bridge, session.is_bridged, session.end, session.is_over
    is_bridged.set()
    if is_over:
        return
    session.last_zxid = last_zxid
    session.repair_loop_task = asyncio.create_task(session.repair_loop())
    session.repair_loop_task.add_done_callback(session._on_repair_loop_done)
    session.set_heartbeat()


def move(session: Any, state: str) -> None:
    """Reports a state to the application, if it is new."""
    states = session.state
    if (states.current_state, state) in states.valid_transitions:
        states.transition_to(state)


async def _hang_up(conn: Any, patience: float) -> None:
    """Ends only aiozk's connection, once its requests are answered."""
    groups = [conn.pending.values(), *conn.pending_specials.values()]
    waiting = [future for group in groups for future in group if not future.done()]
    try:
        if waiting:
            await asyncio.wait(waiting, timeout=patience)
    finally:
        conn.closing = True
        if conn.pending_count():
            conn.abort()  # each fails with a lost connection
        if conn.writer is not None:
            conn.writer.transport.abort()
        if conn.read_loop_task is not None:
            conn.read_loop_task.cancel()
    if conn.read_loop_task is not None:
        await asyncio.wait([conn.read_loop_task], timeout=max(LEAST_WAIT, patience))


# --- the context manager -----------------------------------------------------------------------

RECONNECTING = 1 / 3
"""How long leaving waits for aiozk to connect again, in session timeouts."""

LOOK_AGAIN = 0.01
"""The pause between two looks for something of ours, in seconds."""


def _default_acl(zk: Any) -> list[ACL]:
    """The ACL of znodes that the application's own requests create without one."""
    entries = zk.default_acl
    return [ACL(Permission(entry.perms), entry.id.scheme, entry.id.id) for entry in entries]


@final
class Adaptation:
    """The context manager that `adapt` returns; it can be entered once."""

    def __init__(self, zk: Any, options: dict[str, Any]) -> None:
        self._zk = zk
        self._session = zk.session
        self._options = options
        self._entered = False
        self._is_leaving = False
        self._ended: anyio.Event | None = None
        """Set once the session is ended, after the application has begun to close its client."""

    async def __aenter__(self) -> Client:
        if self._entered:
            raise UsageError("the adaptation was entered already: call adapt() again")
        session = self._session
        _check_ready(session)
        credentials = credentials_of(session)
        self._prepare(credentials)
        self._entered = True
        try:
            await take_over(session, self._bridge, self._end)
            try:
                self._client = await self._connection.__aenter__()
            except SessionExpiredError:
                # aiozk would have noticed, too, and begun another session.
                self._forget_session()
                self._prepare(None)
                session.bridge = self._bridge
                self._client = await self._connection.__aenter__()
        except BaseException:
            if type(session) is AdaptedSession:
                give_back(session, last_zxid=session.last_zxid or 0)
            raise
        version = None if session.conn is None else session.conn.version_info
        session.conn = BridgedConnection(self._bridge, version or OLDEST)
        self._client.backend.subscribe(self._on_state)
        self._on_state(self._client.state, self._client.session_id)
        chroot = self._zk.chroot
        return self._client.chroot(chroot) if chroot and chroot != "/" else self._client

    async def __aexit__(self, *exc_info: object) -> None:
        if not self._core.leaves_here(exc_info):
            return
        try:
            if self._session.is_over:
                await self._end()
            elif not await self._let_go():
                self._forget_session()
            await self._connection.__aexit__(*exc_info)
        finally:
            give_back(self._session, last_zxid=self._core.machine.last_zxid)
            if self._session.started:
                # aiozk's `close`, which often comes next, does not work while it has no connection.
                with anyio.move_on_after(patience_of(self._session) * RECONNECTING, shield=True):
                    await self._session.ensure_safe_state()

    def _prepare(self, credentials: SessionCredentials | None) -> None:
        """Makes the client and the bridge, which checks the arguments; sends nothing."""
        self._connection: OwnConnection = connect(
            connect_string(self._session),
            # Servers grant what they like, so aiozk's timeout may be out of bounds.
            session_timeout=min(max(self._session.timeout, SHORTEST), MAX_SESSION_TIMEOUT),
            resume=credentials,
            **{"default_acl": _default_acl(self._zk), **self._options},
        )
        self._core.is_session_shared = True
        self._core.machine.keep()  # aiozk's requests go through this client
        self._bridge = Bridge(self._session, self._core)
        self._bridge.take_watches()

    @property
    def _core(self) -> Core:
        return self._connection._host.core

    # --- the session as aiozk sees it ----------------------------------------------------------

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        session = self._session
        match state:
            case SessionState.CONNECTED:
                credentials = self._core.machine.credentials
                assert credentials is not None
                session.session_id = credentials.session_id
                session.password = credentials.password
                session.timeout = credentials.timeout
                if not self._is_leaving:
                    session.is_bridged.set()
                move(session, States.CONNECTED)
            case SessionState.SUSPENDED:
                move(session, States.SUSPENDED)
            case SessionState.EXPIRED:
                self._forget_session()
            case SessionState.CONNECTING:  # to the session that follows an expired one
                self._bridge.take_watches()
            case SessionState.CLOSED if session.is_over:
                move(session, States.LOST)
            case SessionState.CLOSED:
                session.is_bridged.clear()  # until it is aiozk's own again
                move(session, States.SUSPENDED)
        # The other states, of read-only servers and of credentials, do not occur here.

    def _forget_session(self) -> None:
        self._session.session_id = None
        self._session.password = b"\x00"
        move(self._session, States.LOST)

    async def _end(self) -> None:
        """Ends the session, as the application closes its client; see `AdaptedSession.close`.

        A task of the client does it, once. So it goes on if asyncio cancels a caller, or if the
        loss of a hold does, in whose body the call is.
        """
        if self._core.machine.state.is_final:
            return
        if self._ended is None:
            self._ended = ended = anyio.Event()
            self._core.start(self._close_session, lambda _error: ended.set())
        timing = self._core.machine.timing
        with anyio.move_on_after(timing.holders_wait + timing.close_wait, shield=True):
            await self._ended.wait()
        await self._ended.wait()

    async def _close_session(self) -> None:
        await self._connection._host.close_session()
        self._core.machine.closed()
        self._session.started = False

    # --- leaving -------------------------------------------------------------------------------

    async def _let_go(self) -> bool:
        """End every hold, then the client without its session; return whether that succeeded.

        It fails while something of ours is left in the session. A waiter has watches, requests
        under way, or a background job; a waiter between two requests has sent its next one by the
        time that ours is answered. Nothing else runs between the look and the end of the client.
        """
        machine = self._core.machine
        machine.leases.close()
        with anyio.move_on_after(machine.timing.holders_wait, shield=True):
            await self._core.holders_gone()
            self._is_leaving = True
            self._session.is_bridged.clear()  # later requests are aiozk's own
            while not (machine.state.is_final or self._session.is_over):
                with suppress(ConnectionLossError, SessionError):
                    await self._client.backend.unlimited().exists("/")
                    is_used = self._core.spawned or len(machine.watches) > self._bridge.watching
                    if machine.requests.is_idle and not is_used:
                        machine.closed()
                        return True
                await anyio.sleep(LOOK_AGAIN)
        return False


def _check_ready(session: Any) -> None:
    """Raise `UsageError` unless a session can be adapted here and now."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "zk: aiozk lives on asyncio, and this runs on another event loop: use aiolead.connect"
        ) from None
    kind: type = type(session)
    if kind is AdaptedSession:
        raise UsageError("zk: the client is adapted already: share the client that this has given")
    if kind is not Session:
        raise UsageError(f"zk: its session is a {kind.__name__}, and not aiozk's own")
    task = session.repair_loop_task
    if session.closing or (task is not None and not session.started):
        raise UsageError("zk: the client was closed: make another one, and start it")
    if task is None:
        raise UsageError("zk: the client was not started: await zk.start() first")
    if task.get_loop() is not loop:
        raise UsageError("zk: the client belongs to another event loop: adapt it there")
