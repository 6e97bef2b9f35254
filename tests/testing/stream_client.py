"""A bare client over any byte stream: one request at a time, on the test's own event loop."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream
from kit.raw_client import Request

from aiolead._wire.codes import XID_EVENT, XID_PING, OpCode, server_error
from aiolead._wire.framing import FrameReader, encode_body, encode_record, encode_request
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import Create
from aiolead.model import OPEN_ACL_UNSAFE, EventType
from aiolead.testing import EmbeddedServer

NEW_SESSION = (0, bytes(16))

ENDED = (anyio.EndOfStream, anyio.BrokenResourceError)
"""How a connection that the server closed looks."""


class StreamClient:
    """One connection."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.session_id = 0
        self.password = b""
        self.timeout = 0.0
        self.events: list[tuple[EventType, str]] = []
        self._frames = FrameReader(1 << 26)
        self._ready: list[bytes] = []
        self._xid = 0

    @property
    def session(self) -> tuple[int, bytes]:
        return self.session_id, self.password

    async def greet(
        self, timeout: float = 5.0, session: tuple[int, bytes] = NEW_SESSION
    ) -> StreamClient:
        await self.stream.send(encode_record(ConnectRequest(0, round(timeout * 1000), *session)))
        response = ConnectResponse.read(Reader(await self.next_frame()))
        self.session_id, self.password = response.session_id, response.password
        self.timeout = response.timeout_ms / 1000
        return self

    async def ask(self, request: Request) -> Reader:
        """The answer's body; raises the server's error."""
        self._xid += 1
        await self.stream.send(encode_request(self._xid, request.op, encode_body(request)))
        return await self._answer()

    async def ping(self) -> None:
        await self.stream.send(encode_request(XID_PING, OpCode.PING))
        await self._answer()

    async def create(self, path: str, flags: int = 0) -> str:
        return (await self.ask(Create(path, b"", OPEN_ACL_UNSAFE, flags))).text()

    async def hear(self) -> tuple[EventType, str]:
        """Waits for the next event."""
        while not self.events:
            self._take(await self.next_frame())
        return self.events.pop(0)

    async def next_frame(self) -> bytes:
        while not self._ready:
            self._ready.extend(self._frames.feed(await self.stream.receive()))
        return self._ready.pop(0)

    async def wait_closed(self) -> BaseException:
        """Waits until the server has closed the connection; says how."""
        try:
            while True:
                self._take(await self.next_frame())
        except ENDED as end:
            return end

    async def _answer(self) -> Reader:
        while True:
            if reply := self._take(await self.next_frame()):
                header, r = reply
                if header.err:
                    raise server_error(header.err)
                return r

    def _take(self, frame: bytes) -> tuple[ReplyHeader, Reader] | None:
        r = Reader(frame)
        header = ReplyHeader.read(r)
        if header.xid != XID_EVENT:
            return header, r
        event = WatcherEvent.read(r)
        self.events.append((EventType(event.type), event.path))
        return None


async def dial(server: EmbeddedServer, transport: str) -> StreamClient:
    """A connection that has said nothing yet; `transport` is "tcp" or "memory"."""
    if transport == "tcp":
        return StreamClient(await anyio.connect_tcp("127.0.0.1", server.port))
    return StreamClient(await server.connect_stream())
