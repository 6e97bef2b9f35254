"""One connection of the embedded server: a reader, a writer, and the core between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from .._util.host_tasks import open_group
from ._server.connection import Closing, Connection
from ._server.core import Core

HANDSHAKE_TIMEOUT = 10.0
"""Seconds that a client has until its session must stand, as with real servers."""

FLUSH_TIMEOUT = 1.0
"""Seconds that a client has to read the last replies before its connection is closed."""


class Transport(Protocol):
    """The carrier of a connection: a TCP socket, or a stream in memory."""

    async def receive(self, max_bytes: int = 65536) -> bytes: ...

    async def send(self, data: bytes, /) -> None: ...

    def close(self) -> None: ...

    def reset(self) -> None: ...


class Gate:
    """Where everybody waits while the server is paused."""

    def __init__(self) -> None:
        self._opened: anyio.Event | None = None

    @property
    def is_open(self) -> bool:
        return self._opened is None

    def close(self) -> None:
        if self._opened is None:
            self._opened = anyio.Event()

    def open(self) -> None:
        if self._opened is not None:
            self._opened.set()
            self._opened = None

    async def wait(self) -> None:
        while self._opened is not None:
            await self._opened.wait()


class Link:
    """Moves bytes between a transport and its connection in the core.

    Args:
        now: the server's clock.
        deliver: to be called after the core was: wakes every connection with something to send.
        failed: to be called with what nobody expects.
    """

    def __init__(
        self,
        core: Core,
        connection: Connection,
        transport: Transport,
        gate: Gate,
        now: Callable[[], float],
        deliver: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._core = core
        self._connection = connection
        self._transport = transport
        self._gate = gate
        self._now = now
        self._deliver = deliver
        self._failed = failed
        self._scope = anyio.CancelScope()
        self._woken = anyio.Event()
        self._sent = anyio.Event()

    async def serve(self) -> None:
        """Runs until the connection is over. Raises only cancellation."""
        try:
            with self._scope:
                async with open_group() as tasks:
                    tasks.start_soon(self._guard, self._write)
                    await self._guard(self._read)
                    # The client may have closed one direction only, to read the last replies.
                    self._connection.close_after_flush()
                    self.wake()
        finally:
            self.cut()

    def wake(self) -> None:
        """The core has something to send, or wants the connection closed."""
        match self._connection.closing:
            case Closing.NOW:
                self._scope.cancel()
            case Closing.FLUSH:
                self._scope.deadline = min(
                    self._scope.deadline, anyio.current_time() + FLUSH_TIMEOUT
                )
                self._woken.set()
            case Closing.NO:
                self._woken.set()

    def cut(self, *, reset: bool = False) -> None:
        """Closes the connection at once, whatever is queued."""
        self._core.lost(self._connection)
        if reset:
            self._transport.reset()
        else:
            self._transport.close()
        self._scope.cancel()

    async def _guard(self, loop: Callable[[], Awaitable[None]]) -> None:
        try:
            await loop()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        except Exception as error:
            self._failed(error)
            self._scope.cancel()

    async def _read(self) -> None:
        connection, core = self._connection, self._core
        handshake_ends = anyio.current_time() + HANDSHAKE_TIMEOUT
        while connection.closing is Closing.NO:
            limit = float("inf") if connection.is_established else handshake_ends
            data = b""
            with anyio.CancelScope(deadline=limit):
                data = await self._transport.receive()
            await self._gate.wait()
            if not data:
                return
            is_done = core.receive(connection, data, self._now())
            self._deliver()
            while not is_done:
                if connection.is_full:
                    # The client has to read first. If it never does, its session will end.
                    self._sent = anyio.Event()
                    await self._sent.wait()
                else:
                    await anyio.sleep(core.pace)
                await self._gate.wait()
                is_done = core.resume(connection, self._now())
                self._deliver()

    async def _write(self) -> None:
        connection = self._connection
        try:
            while True:
                await self._woken.wait()
                self._woken = anyio.Event()
                await self._gate.wait()
                if data := connection.take():
                    await self._transport.send(data)
                    self._sent.set()
                if connection.closing is Closing.FLUSH and not connection.unsent_bytes:
                    return
        finally:
            # Without a writer there is nothing to read for.
            self._scope.cancel()
