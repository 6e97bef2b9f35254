"""A bare client over any byte stream: one request at a time, on the event loop of the test."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream
from kit.raw_client import Request
from testing.wire_core import NEW_SESSION, Talk

from aiolead._wire.codes import XID_PING, OpCode, server_error
from aiolead._wire.jute import Reader, encode_request
from aiolead._wire.requests import Create
from aiolead.model import OPEN_ACL_UNSAFE, EventType
from aiolead.testing import EmbeddedServer

ENDED = (anyio.EndOfStream, anyio.BrokenResourceError)
"""The errors of a connection that the server has closed."""


class StreamClient(Talk):
    """One connection."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__()
        self.stream = stream
        self._ready: list[bytes] = []

    async def greet(
        self, timeout: float = 5.0, session: tuple[int, bytes] = NEW_SESSION
    ) -> StreamClient:
        await self.stream.send(self.hello(timeout, session))
        self.welcomed(await self.next_frame())
        return self

    async def ask(self, request: Request) -> Reader:
        """The body of the answer. Raises the error of the server."""
        await self.stream.send(self.request(request.op, request.encode()))
        return await self._answer()

    async def ping(self) -> None:
        await self.stream.send(encode_request(XID_PING, OpCode.PING))
        await self._answer()

    async def create(self, path: str, flags: int = 0) -> str:
        return (await self.ask(Create(path, b"", OPEN_ACL_UNSAFE, flags))).text()

    async def hear(self) -> tuple[EventType, str]:
        """Wait for the next event."""
        while not self.events:
            self.reply(await self.next_frame())
        return self.events.pop(0)

    async def next_frame(self) -> bytes:
        while not self._ready:
            self._ready.extend(self._frames.feed(await self.stream.receive()))
        return self._ready.pop(0)

    async def wait_closed(self) -> BaseException:
        """Wait until the server has closed the connection. Return the error that shows it."""
        try:
            while True:
                self.reply(await self.next_frame())
        except ENDED as end:
            return end

    async def _answer(self) -> Reader:
        while not (reply := self.reply(await self.next_frame())):
            pass
        header, r = reply
        if header.err:
            raise server_error(header.err)
        return r


async def dial(server: EmbeddedServer, transport: str) -> StreamClient:
    """A connection without a session; `transport` is "tcp" or "memory"."""
    if transport == "tcp":
        return StreamClient(await anyio.connect_tcp("127.0.0.1", server.port))
    return StreamClient(await server.connect_stream())
