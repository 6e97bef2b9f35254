"""A connection in memory: two byte streams, each the other's peer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint, checkpoint_if_cancelled

__all__ = ["MemoryStream", "memory_stream_pair"]

DEFAULT_CAPACITY = 64 * 1024


class _Pipe:
    """One direction: a bounded buffer between a sender and a receiver."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._buffer = bytearray()
        self._changed = anyio.Event()
        self.has_ended = False
        """The sender will send no more; buffered bytes can still be received."""
        self.is_deserted = False
        """The receiver has closed: sending makes no sense."""
        self.is_broken: bool = False
        self.is_receiving = False
        self.is_sending = False

    def touch(self) -> None:
        """Wakes both sides, so that they look again."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def break_(self) -> None:
        self.is_broken = True
        self._buffer.clear()
        self.touch()

    async def wait(self) -> None:
        await self._changed.wait()

    def room(self) -> int:
        return max(0, self._capacity - len(self._buffer))

    def put(self, data: bytes | memoryview) -> None:
        if data:
            self._buffer += data
            self.touch()

    def get(self, max_bytes: int) -> bytes:
        data = bytes(self._buffer[:max_bytes])
        if data:
            del self._buffer[:max_bytes]
            self.touch()
        return data


class MemoryStream(ByteStream):
    """One end of a connection in memory; made by `memory_stream_pair`.

    Behaves as a TCP connection does: what was sent before `aclose` or `send_eof` still arrives,
    sending to a peer that has closed fails, and `reset` destroys what is on its way. A cancelled
    `send` may have sent a part.
    """

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._is_closed = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {}

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Waits for at least one byte.

        Raises:
            EndOfStream: the peer will send no more.
            BrokenResourceError: the connection was reset.
            ClosedResourceError: this end was closed.
            BusyResourceError: another task is receiving.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes: must be at least 1, not {max_bytes}")
        pipe = self._incoming
        if pipe.is_receiving:
            raise anyio.BusyResourceError("receiving from")
        pipe.is_receiving = True
        try:
            await checkpoint_if_cancelled()
            waited = False
            while True:
                if self._is_closed:
                    raise anyio.ClosedResourceError
                if pipe.is_broken:
                    raise anyio.BrokenResourceError
                if data := pipe.get(max_bytes):
                    break
                if pipe.has_ended:
                    raise anyio.EndOfStream
                await pipe.wait()
                waited = True
            if not waited:
                await cancel_shielded_checkpoint()
            return data
        finally:
            pipe.is_receiving = False

    async def send(self, item: bytes) -> None:
        """Sends all of it, waiting for the peer where it is slow.

        Raises:
            BrokenResourceError: the peer has closed, or the connection was reset.
            ClosedResourceError: this end was closed.
            BusyResourceError: another task is sending.
        """
        pipe = self._outgoing
        if pipe.is_sending:
            raise anyio.BusyResourceError("sending to")
        pipe.is_sending = True
        try:
            await checkpoint_if_cancelled()
            view = memoryview(item)
            waited = False
            while True:
                if self._is_closed or pipe.has_ended:
                    raise anyio.ClosedResourceError
                if pipe.is_broken or pipe.is_deserted:
                    raise anyio.BrokenResourceError
                room = pipe.room()
                pipe.put(view[:room])
                view = view[room:]
                if not view:
                    break
                await pipe.wait()
                waited = True
            if not waited:
                await cancel_shielded_checkpoint()
        finally:
            pipe.is_sending = False

    def push(self, item: bytes) -> None:
        """Sends all of it at once, however much the peer has not received yet.

        Raises:
            BrokenResourceError: the peer has closed, or the connection was reset.
            ClosedResourceError: this end was closed.
        """
        pipe = self._outgoing
        if self._is_closed or pipe.has_ended:
            raise anyio.ClosedResourceError
        if pipe.is_broken or pipe.is_deserted:
            raise anyio.BrokenResourceError
        pipe.put(item)

    def receive_nowait(self) -> bytes:
        """Return the bytes that have arrived; empty if there are none."""
        return self._incoming.get(sys.maxsize)

    async def send_eof(self) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError
        self._end()
        await checkpoint()

    async def aclose(self) -> None:
        self.close()
        await checkpoint()

    def close(self) -> None:
        """Closes this end at once; the peer reads what is left, then the end of the stream."""
        self._is_closed = True
        self._end()
        self._incoming.is_deserted = True
        self._incoming.touch()

    def reset(self) -> None:
        """Closes this end, and breaks the peer's: nothing that is on its way arrives."""
        self._is_closed = True
        self._outgoing.break_()
        self._incoming.break_()

    def _end(self) -> None:
        self._outgoing.has_ended = True
        self._outgoing.touch()


def memory_stream_pair(
    capacity: int = DEFAULT_CAPACITY,
) -> tuple[MemoryStream, MemoryStream]:
    """Two ends of a new connection.

    Args:
        capacity: how many bytes each direction holds before `send` waits for the receiver.
    """
    if capacity < 1:
        raise ValueError(f"capacity: must be at least 1 byte, not {capacity}")
    there, back = _Pipe(capacity), _Pipe(capacity)
    return MemoryStream(back, there), MemoryStream(there, back)
