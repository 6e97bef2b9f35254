"""A server in memory that answers with what the test says: nonsense, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import anyio
from kit.clients import hooked

import aiolead
from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import FrameReader, Reader, Record, encode_record, encode_reply
from aiolead._wire.replies import DataReply, NumberReply, ReplyHeader
from aiolead._wire.requests import RequestHeader
from aiolead.model import Stat
from aiolead.testing.streams import MemoryStream, memory_stream_pair

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def usual(header: RequestHeader) -> bytes | None:
    """The answer of a server on which every znode has the data `b"data"`."""
    if header.xid == XID_PING:
        return encode_reply(ReplyHeader(XID_PING, 0, 0))
    return ok(header, DataReply(b"data", STAT) if header.op == OpCode.GET_DATA else None)


def ok(header: RequestHeader, record: Record | None = None, *, zxid: int = 1) -> bytes:
    """The answer that a request has succeeded."""
    return encode_reply(ReplyHeader(header.xid, zxid, 0), record)


def error(header: RequestHeader, code: int) -> bytes:
    """The answer that a request has failed."""
    return encode_reply(ReplyHeader(header.xid, 1, code))


class FakeServer:
    """Serves sessions in memory, each connection in a task of its own.

    Args:
        answer: returns what is sent for the header of a request: None for nothing, and no bytes
            to close the connection.
        greet: returns what is sent for a handshake. By default, a session is granted as asked.

    Attributes:
        connections: the number of all connections.
        handshakes: their handshakes.
        requests: the headers of all requests.
        streams: the server's end of each connection.
        latency: how long it takes to connect, in seconds.
        grant: the session timeout that is granted, in milliseconds; None for the one asked for.
        password: the password of each session.
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
        self.latency = 0.0
        self.grant: int | None = None
        self.password = b"p" * 16
        self._sessions = 6

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    def connect(self, hosts: str = "127.0.0.1:1", **options: Any) -> aiolead.types.Connection:
        given = {"session_timeout": 8.0, "server_version": "3.9.3", "dial": self.dial, **options}
        return aiolead.connect(hosts, **hooked(**given))

    async def dial(self, _host: str, _port: int) -> MemoryStream:
        await anyio.sleep(self.latency)
        self.connections += 1
        ours, theirs = memory_stream_pair()
        self.streams.append(theirs)
        self._tasks.start_soon(self._serve, theirs)
        return ours

    def _grant(self, request: ConnectRequest) -> bytes:
        if request.session_id == 0:
            self._sessions += 1
        session = request.session_id or self._sessions
        timeout = request.timeout_ms if self.grant is None else self.grant
        return encode_record(ConnectResponse(timeout, session, self.password))

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


def hang_up(fake: FakeServer) -> None:
    """Closes the connection, and every later one at its handshake."""
    fake.greet = lambda _: b""
    fake.streams[-1].close()


def refusing_later_auth(fake: FakeServer) -> Callable[[RequestHeader], bytes | None]:
    """The answers of a server that accepts credentials on its first connection only."""

    def answer(header: RequestHeader) -> bytes | None:
        match header.op:
            case OpCode.AUTH if fake.connections > 1:
                return error(header, -115)
            case OpCode.AUTH:
                return ok(header)
            case OpCode.ADD_WATCH:
                return ok(header, NumberReply(0))
        return usual(header)

    return answer
