"""A server in memory that answers as the test tells it to: nonsense, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from kit.clients import hooked

import aiolead
from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.framing import FrameReader, encode_record, encode_reply
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader
from aiolead._wire.replies import DataReply, ReplyHeader
from aiolead._wire.requests import RequestHeader
from aiolead.model import Stat
from aiolead.testing.streams import MemoryStream, memory_stream_pair

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def usual(header: RequestHeader) -> bytes | None:
    """What a server with nothing but the data `b"data"` answers."""
    if header.xid == XID_PING:
        return encode_reply(ReplyHeader(XID_PING, 0, 0))
    body = DataReply(b"data", STAT) if header.op == OpCode.GET_DATA else None
    return encode_reply(ReplyHeader(header.xid, 1, 0), body)


class FakeServer:
    """Serves sessions in memory, each connection in a task of its own.

    Args:
        answer: from the header of a request to what is sent for it, None for nothing.
        greet: from the handshake to what is sent for it; by default a session is granted as asked.

    Attributes:
        connections: how many there were.
        handshakes: what they began with.
        requests: the headers of all requests.
    """

    def __init__(
        self,
        answer: Callable[[RequestHeader], bytes | None] = usual,
        greet: Callable[[ConnectRequest], bytes | None] | None = None,
    ) -> None:
        self.answer = answer
        self.greet = greet or self._grant
        self.connections = 0
        self.handshakes: list[ConnectRequest] = []
        self.requests: list[RequestHeader] = []
        self.streams: list[MemoryStream] = []
        self._sessions = 6

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    def connect(self, hosts: str = "127.0.0.1:1", **options: Any) -> aiolead.types.Connection:
        return aiolead.connect(
            hosts, **hooked(**{"session_timeout": 8.0, "dial": self.dial, **options})
        )

    async def dial(self, _host: str, _port: int) -> ByteStream:
        await anyio.lowlevel.checkpoint()
        self.connections += 1
        ours, theirs = memory_stream_pair()
        self.streams.append(theirs)
        self._tasks.start_soon(self._serve, theirs)
        return ours

    def _grant(self, request: ConnectRequest) -> bytes:
        if request.session_id == 0:
            self._sessions += 1
        session = request.session_id or self._sessions
        return encode_record(ConnectResponse(request.timeout_ms, session, bytes(16)))

    async def _serve(self, stream: MemoryStream) -> None:
        frames, greeted = FrameReader(1 << 24), False
        try:
            while True:
                data_in = await stream.receive()
                if not greeted and data_in == b"srvr":
                    return stream.close()  # it answers no word
                for frame in frames.feed(data_in):
                    if greeted:
                        header = RequestHeader.read(Reader(frame))
                        self.requests.append(header)
                        data = self.answer(header)
                    else:
                        self.handshakes.append(ConnectRequest.read(Reader(frame)))
                        data, greeted = self.greet(self.handshakes[-1]), True
                    if data == b"":
                        return stream.close()
                    if data is not None:
                        await stream.send(data)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            stream.close()
