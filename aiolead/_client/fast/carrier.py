"""Carries the bytes of a connection over any byte stream, such as TLS.

A carrier passes on input as it arrives, and asks for output. It is the only writer: a caller that
is cancelled in the middle of a send would leave half a frame behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, final

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.lowlevel import checkpoint

from ..._util.host_tasks import open_group

READ_SIZE = 64 * 1024
"""How much is read at a time, in bytes. For much more, memory is mapped at each read."""


class Traffic(Protocol):
    """The bytes in both directions. The calls are synchronous; an exception is a defect."""

    def feed(self, data: bytes) -> bool:
        """Process input. If this returns True, call it with `b""` after others had their turn, and
        before any more input.
        """
        ...

    def take(self) -> bytes:
        """Return the next bytes to send: all that may leave, if they are fewer than `SEGMENT`."""
        ...


class Carrier(Protocol):
    @property
    def raw_socket(self) -> Any:
        """The socket, or an object with its `fileno()`; None if there is none."""
        ...

    def wake(self) -> None:
        """There may be output: `take` is called soon, for all there is by then."""
        ...

    def push(self) -> None:
        """Like `wake`, but `take` is called before this returns if its output can leave at once."""
        ...

    async def carry(self, traffic: Traffic) -> None:
        """Carries bytes, in a task of the client, until the connection has ended. Called once.

        Output under way is bounded by what `take` returns once. Raises `EndOfStream` if the other
        end closed the connection, `BrokenResourceError` if it broke, and defects of the traffic.
        """
        ...

    async def aclose(self) -> None: ...


@final
class StreamCarrier:
    """Carries bytes over any byte stream: one task receives, one sends."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._output = anyio.Event()
        self._why: Exception | None = None

    @property
    def raw_socket(self) -> Any:
        return self._stream.extra(SocketAttribute.raw_socket, None)  # noqa: S610 - no Django here

    def wake(self) -> None:
        self._output.set()

    def push(self) -> None:
        self.wake()

    async def carry(self, traffic: Traffic) -> None:
        async with open_group() as tasks:
            tasks.start_soon(self._end, self._read, traffic, tasks.cancel_scope)
            tasks.start_soon(self._end, self._write, traffic, tasks.cancel_scope)
        if self._why is not None:
            raise self._why

    async def _end(
        self,
        move: Callable[[Traffic], Awaitable[None]],
        traffic: Traffic,
        scope: anyio.CancelScope,
    ) -> None:
        # Kept out of the task group's exception group; the first of the two is the reason.
        try:
            await move(traffic)
        except Exception as error:
            self._why = self._why or error
            scope.cancel()

    async def _read(self, traffic: Traffic) -> None:
        while True:
            data = await self._stream.receive(READ_SIZE)
            while traffic.feed(data):
                await checkpoint()
                data = b""

    async def _write(self, traffic: Traffic) -> None:
        while True:
            self._output = anyio.Event()
            while data := traffic.take():
                await self._stream.send(data)
            await self._output.wait()

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)


async def dial_stream(address: str, port: int) -> StreamCarrier:
    return StreamCarrier(await anyio.connect_tcp(address, port))
