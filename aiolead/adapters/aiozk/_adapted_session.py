"""An aiozk session while it is adapted: its take-over, its requests, its return.

aiozk's own connecting, repairing and pinging stop meanwhile. The object stays the same, since the
application and aiozk's recipes have it; only its class changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiozk import exc
from aiozk.connection import Connection
from aiozk.session import Session
from aiozk.states import States

from ..._session.lease.timing import LONGEST_UNASKED
from ...model import SessionCredentials
from ...paths import format_host
from .bridge import Bridge

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
        """Close the session; everything held on it is lost first."""
        if self.is_over:
            return
        self.is_over = True
        await self.end()
        self.started = False

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
