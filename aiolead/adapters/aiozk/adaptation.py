"""The context manager that takes an aiozk session over and gives it back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, final

import anyio
from aiozk.session import Session
from aiozk.states import States

from ..._client.api.client import Client
from ..._client.connect import Connection, connect
from ..._client.connect_options import MAX_SESSION_TIMEOUT
from ..._client.core import Core
from ..._session.timing import SHORTEST
from ...errors import ConnectionLossError, SessionError, SessionExpiredError, UsageError
from ...model import SessionCredentials, SessionState
from ._adapted_session import (
    OLDEST,
    AdaptedSession,
    Bridge,
    BridgedConnection,
    connect_string,
    credentials_of,
    give_back,
    move,
    patience_of,
    take_over,
)
from .gate import check_ready

RECONNECTING = 1 / 3
"""How long leaving waits for aiozk to connect again, in session timeouts."""

LOOK_AGAIN = 0.01
"""The pause between two looks for something of ours, in seconds."""


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
        check_ready(session, Session, AdaptedSession)
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
        self._connection: Connection = connect(
            connect_string(self._session),
            # Servers grant what they like, so aiozk's timeout may be out of bounds.
            session_timeout=min(max(self._session.timeout, SHORTEST), MAX_SESSION_TIMEOUT),
            resume=credentials,
            **self._options,
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
                if credentials is not None:
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
            case _:
                pass  # not here: no credentials, never read-only

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
