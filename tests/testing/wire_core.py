"""Clients of the core of the embedded server, without sockets, event loop and running clock."""

from __future__ import annotations

import random
from typing import Any

from kit.raw_client import Request

from aiolead._wire.codes import XID_EVENT, OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import FrameReader, Reader, encode_record, encode_request
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import Create
from aiolead.model import ACL, OPEN_ACL_UNSAFE, EventType
from aiolead.testing._server.connection import Closing, Connection
from aiolead.testing._server.core import Core
from aiolead.testing._server.settings import Settings
from aiolead.testing._server.store import Store

NEW_SESSION = (0, bytes(16))


class World:
    """A server and the time it is there; with a store, it goes on where the server before ended."""

    def __init__(self, store: Store | None = None, **settings: Any) -> None:
        self.core = Core(Settings(**settings), random.Random(1), store)
        self.now = 1000.0

    def connect(self, address: str = "127.0.0.1") -> Client:
        """A connection that has said nothing yet."""
        connection = self.core.connect(address)
        assert connection is not None
        return Client(self, connection)

    def client(self, timeout: float = 5.0, session: tuple[int, bytes] = NEW_SESSION) -> Client:
        """A connection with a session."""
        client = self.connect()
        client.greet(timeout, session)
        assert client.session_id
        return client

    def pass_time(self, seconds: float) -> None:
        """Moves the clock on, calling `tick` when the core wants it."""
        end = self.now + seconds
        while (deadline := self.core.next_deadline(self.now)) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.core.tick(self.now)
        self.now = end


class Talk:
    """The protocol of one connection, without input and output: requests, replies and events."""

    def __init__(self) -> None:
        self.session_id = 0
        self.password = b""
        self.timeout = 0.0
        self.events: list[tuple[EventType, str]] = []
        self._frames = FrameReader(1 << 28)
        self._xid = 0

    @property
    def session(self) -> tuple[int, bytes]:
        return self.session_id, self.password

    def hello(self, timeout: float, session: tuple[int, bytes], seen: int = 0) -> bytes:
        return encode_record(ConnectRequest(seen, round(timeout * 1000), *session))

    def welcomed(self, frame: bytes) -> ConnectResponse:
        response = ConnectResponse.read(Reader(frame))
        self.session_id, self.password = response.session_id, response.password
        self.timeout = response.timeout_ms / 1000
        return response

    def request(self, op: int, body: bytes = b"") -> bytes:
        self._xid += 1
        return encode_request(self._xid, op, body)

    def reply(self, frame: bytes) -> tuple[ReplyHeader, Reader] | None:
        """A reply; None for an event, which goes to `events`."""
        r = Reader(frame)
        header = ReplyHeader.read(r)
        if header.xid != XID_EVENT:
            return header, r
        event = WatcherEvent.read(r)
        self.events.append((EventType(event.type), event.path))
        return None


class Client(Talk):
    """One connection to a core. Answers are read at once, unless the test delays that."""

    def __init__(self, world: World, connection: Connection) -> None:
        super().__init__()
        self.world = world
        self.connection = connection

    @property
    def closing(self) -> Closing:
        return self.connection.closing

    def feed(self, data: bytes) -> bool:
        return self.world.core.receive(self.connection, data, self.world.now)

    def greet(
        self, timeout: float = 5.0, session: tuple[int, bytes] = NEW_SESSION, seen: int = 0
    ) -> ConnectResponse | None:
        self.feed(self.hello(timeout, session, seen))
        frames = self.read()
        return self.welcomed(frames[0]) if frames else None

    def read(self) -> list[bytes]:
        """The frames that are waiting for the client."""
        return list(self._frames.feed(self.connection.take()))

    def ask(self, request: Request) -> tuple[int, Reader]:
        """The error code and the body of the answer."""
        return self.ask_raw(request.op, request.encode())

    def ask_raw(self, op: int, body: bytes = b"") -> tuple[int, Reader]:
        self.feed(self.request(op, body))
        header, r = self.answers()[-1]
        assert header.xid == self._xid
        return header.err, r

    def answers(self) -> list[tuple[ReplyHeader, Reader]]:
        """The replies that are waiting."""
        return [reply for frame in self.read() if (reply := self.reply(frame))]

    def heard(self) -> list[tuple[EventType, str]]:
        """The events since the last time."""
        assert self.answers() == []
        heard, self.events = self.events, []
        return heard

    def create(self, path: str, data: bytes = b"", flags: int = 0, **options: Any) -> str:
        err, r = self.ask(create(path, data, flags, **options))
        assert err == 0
        return r.text()


def create(
    path: str,
    data: bytes = b"",
    flags: int = 0,
    *,
    acl: tuple[ACL, ...] = OPEN_ACL_UNSAFE,
    op: OpCode = OpCode.CREATE2,
    ttl: int = -1,
) -> Create:
    return Create(path, data, acl, flags, ttl, op)
