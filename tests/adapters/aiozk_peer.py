"""aiozk clients for tests: started, and ended whatever state they have come into."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any

import aiozk
import anyio
from aiozk.states import States
from kit.checks import PATIENCE

import aiolead
from aiolead.adapters.aiozk._session import Adaptation
from aiolead.paths import parse_connect_string


@asynccontextmanager
async def started(hosts: str, **options: Any) -> AsyncIterator[Any]:
    """An `aiozk.ZKClient`, started; `hosts` may have a chroot."""
    target = parse_connect_string(hosts)
    servers = ",".join(f"{host}:{port}" for host, port in target.hosts)
    options = {"session_timeout": 8.0, "chroot": target.chroot or None, **options}
    zk = aiozk.ZKClient(servers, **options)
    try:
        with anyio.fail_after(PATIENCE):
            await zk.start()
        yield zk
    finally:
        await end(zk)


async def end(zk: Any) -> None:
    """Closes a client where that works, and ends it where not: aiozk's `close` may hang."""
    session = zk.session
    with anyio.CancelScope(shield=True):
        if session.state == States.CONNECTED and session.started:
            with suppress(Exception), anyio.fail_after(1):
                await zk.close()
    session.closing = True
    tasks = [session.repair_loop_task, session.heartbeat_task]
    if session.heartbeat_handle is not None:
        session.heartbeat_handle.cancel()
    conn = session.conn
    if conn is not None:
        tasks.append(conn.read_loop_task)
        if getattr(conn, "writer", None) is not None:
            conn.writer.transport.abort()
    for task in tasks:
        if task is not None:
            task.cancel()
    # A transport reports its end in the next round of the loop.
    with anyio.CancelScope(shield=True):
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class Adapted:
    """A client on the session of an aiozk client, as a context manager like `aiolead.connect`.

    Args:
        hosts: a connect string.
        session_timeout: that aiozk asks for.
        **options: for `aiolead.connect`.
    """

    def __init__(self, hosts: str, session_timeout: float, **options: Any) -> None:
        self._started = started(hosts, session_timeout=session_timeout)
        self._options = options

    async def __aenter__(self) -> aiolead.Client:
        self.zk = await self._started.__aenter__()
        try:
            # Hooks such as clocks are for tests only.
            self._adaptation = Adaptation(self.zk, self._options)
            return await self._adaptation.__aenter__()
        except BaseException:
            await end(self.zk)
            raise

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._adaptation.__aexit__(exc_type, exc, traceback)
        finally:
            await self._started.__aexit__(None, None, None)
