"""A connection of the simulated network as programs see it: a byte stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from .connection import Wire
from .network import Network

MAX_UNSENT = 1024 * 1024
"""With this many bytes on their way, `send` waits."""


class SimulatedStream(ByteStream):
    """One end of a connection; made by `dial`."""

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._chunks: deque[bytes] = deque()
        self._changed: anyio.Event | None = None
        self._is_closed = False
        self._is_broken = False
        self._has_ended = False
        self._is_receiving = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {}

    # --- told by the network ---------------------------------------------------------------------

    def opened(self, wire: Wire | None) -> None:
        self._wire = wire
        self._is_broken = wire is None
        self._wake()

    def received(self, data: bytes) -> None:
        self._chunks.append(data)
        self._wake()

    def ended(self) -> None:
        self._has_ended = True
        self._wake()

    def broken(self) -> None:
        self._is_broken = True
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    # --- for the program -------------------------------------------------------------------------

    async def wait_opened(self) -> None:
        """Waits for an answer to the attempt to connect.

        Raises:
            ConnectionRefusedError: it was refused.
        """
        if self._wire is None and not self._is_broken:
            self._changed = anyio.Event()
            await self._changed.wait()
        if self._wire is None:
            raise ConnectionRefusedError("connection refused")

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Waits for at least one byte.

        Raises:
            EndOfStream: the peer will send no more.
            BrokenResourceError: the connection was reset.
            ClosedResourceError: this end was closed.
            BusyResourceError: another task is receiving.
        """
        if self._is_receiving:
            raise anyio.BusyResourceError("receiving from")
        self._is_receiving = True
        try:
            if self._chunks or self._is_broken or self._has_ended or self._is_closed:
                await checkpoint()
            else:
                self._changed = anyio.Event()
                await self._changed.wait()
        finally:
            self._is_receiving = False
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self._chunks:
            return self._take(max_bytes)
        if self._is_broken:
            raise anyio.BrokenResourceError
        raise anyio.EndOfStream

    def _take(self, max_bytes: int) -> bytes:
        chunks = self._chunks
        data = chunks.popleft() if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if len(data) > max_bytes:
            chunks.append(data[max_bytes:])
            data = data[:max_bytes]
        return data

    async def send(self, item: bytes) -> None:
        """Sends all of it, or nothing if it is cancelled.

        Raises:
            BrokenResourceError: the connection was reset.
            ClosedResourceError: this end was closed.
        """
        await checkpoint()
        wire = self._wire
        if self._is_closed or wire is None:
            raise anyio.ClosedResourceError
        if self._is_broken:
            raise anyio.BrokenResourceError
        wire.send(bytes(item))
        if wire.unsent > MAX_UNSENT:
            room = anyio.Event()
            wire.when_sent(room.set)
            await room.wait()

    async def send_eof(self) -> None:
        await checkpoint()
        if self._wire is not None:
            self._wire.end()

    async def aclose(self) -> None:
        self.close()
        await checkpoint()

    def close(self) -> None:
        """Closes this end at once."""
        self._is_closed = True
        if self._wire is not None:
            self._wire.close()
        self._wake()

    @property
    def is_open(self) -> bool:
        return self._wire is not None and self._wire.is_open

    def abort(self) -> None:
        """Ends the connection as the kernel does when the process is no more.

        Accepted bytes are still sent; unread bytes turn the close into a reset.
        """
        self._is_broken = True
        if self._wire is not None:
            if self._chunks:
                self._wire.reset()
            else:
                self._wire.close()
        self._chunks.clear()
        self._wake()


async def dial(network: Network, source: str, target: str) -> SimulatedStream:
    """Opens a connection from a host to an address, `host:port`.

    Raises:
        ConnectionRefusedError: nobody listens there, or a fault refuses.

    Cancellation: gives the attempt up.
    """
    stream = SimulatedStream()
    abandon = network.connect(source, target, stream, stream.opened)
    try:
        await stream.wait_opened()
    except BaseException:
        abandon()
        stream.close()
        raise
    return stream
