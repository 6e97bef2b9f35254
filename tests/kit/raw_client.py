"""A bare ZooKeeper client: one socket, one request at a time, no event loop.

It shares the records with the library and nothing else, so tests of the servers, the proxy and the
client can look at a server through it whatever state the code under test is in.
"""

from __future__ import annotations

import socket
import time
import uuid
from typing import Protocol, Self

import pytest

import aiolead
from aiolead import CreateMode, Lock
from aiolead._wire.codes import XID_EVENT, XID_PING, OpCode, server_error
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import FrameReader, Reader, Writer, encode_record, encode_request
from aiolead._wire.replies import ReplyHeader
from aiolead._wire.requests import (
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetACL,
    SetData,
    Sync,
)
from aiolead._wire.versions import SRVR, Feature, Version, release_in
from aiolead.errors import EphemeralOnLocalSessionError
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Permission
from aiolead.paths import parse_connect_string

from .checks import PATIENCE


class Request(Protocol):
    """A request: an operation and its body."""

    @property
    def op(self) -> OpCode: ...

    def write(self, w: Writer) -> None: ...


SESSION = 200.0
"""The session timeout unless a test has its own, in seconds: clients of this kind send no pings, so
that it has to outlast everything that a test does between two requests on a busy machine. Servers
of the test kit grant 10 s by default, and this where tests start them so.
"""

PING_AFTER = 0.5
"""Seconds after which a server is helped along, where a test asks for that: a server of an ensemble
may not notice a request until another one comes (seen with 3.8.0; ZOOKEEPER-4537 is the likely
cause). It is a small part of the time for which a server that is isolated goes on serving.
"""


class RawClient:
    """A session on the first server of a connect string; its chroot is put before every path.

    Args:
        connect_string: as everywhere.
        session_timeout: in seconds; what the server grants may be less.
        timeout: for each answer, in seconds; a `TimeoutError` when it passes. It is there to end a
            test that hangs: in a run of all tests a real leader has taken more than five seconds.
        pings: whether to send a ping after `PING_AFTER` without an answer.
        session: id and password of a session to take over.
    """

    def __init__(
        self,
        connect_string: str,
        *,
        session_timeout: float = SESSION,
        timeout: float = 30.0,
        pings: bool = False,
        session: tuple[int, bytes] = (0, bytes(16)),
    ) -> None:
        target = parse_connect_string(connect_string)
        self._chroot = target.chroot
        self._timeout = timeout
        self._pings = pings
        self._frames = FrameReader(1 << 24)
        self._ready: list[bytes] = []
        self._xid = 0
        self.events: list[tuple[int, str]] = []
        self.socket = socket.create_connection(target.hosts[0], timeout)
        try:
            hello = ConnectRequest(0, round(session_timeout * 1000), *session)
            self.socket.sendall(encode_record(hello))
            self.session = ConnectResponse.read(Reader(self._next_frame(timeout)))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, exc: BaseException | None, _traceback: object) -> None:
        try:
            if exc is None:
                self.call(CloseSession())
        except (OSError, EOFError):
            pass  # The server is gone, or the test cut us off: it says so itself if that matters.
        finally:
            self.socket.close()

    def send(self, request: Request) -> int:
        """Sends a request without waiting for the answer; returns its xid."""
        self._xid += 1
        self.socket.sendall(encode_request(self._xid, request.op, request.encode()))
        return self._xid

    def receive(self) -> tuple[ReplyHeader, Reader]:
        """The next answer. Watch events that come before it are kept in `events`."""
        waits = min(PING_AFTER, self._timeout) if self._pings else self._timeout
        while True:
            try:
                reader = Reader(self._next_frame(waits))
            except TimeoutError:
                if waits == self._timeout:
                    raise
                self.socket.sendall(encode_request(XID_PING, OpCode.PING, b""))
                waits = self._timeout
                continue
            header = ReplyHeader.read(reader)
            if header.xid == XID_PING and self._pings:
                continue
            if header.xid != XID_EVENT:
                return header, reader
            kind, _, path = reader.i32(), reader.i32(), reader.text()
            self.events.append((kind, path))

    def call(self, request: Request) -> Reader:
        """Sends a request and returns its answer; raises the server's error."""
        xid = self.send(request)
        header, reader = self.receive()
        assert header.xid == xid
        if header.err:
            raise server_error(header.err)
        return reader

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        flags: int = 0,
        acl: tuple[ACL, ...] = OPEN_ACL_UNSAFE,
    ) -> str:
        request = Create(self._chroot + path, data, acl, flags, op=OpCode.CREATE)
        return self.call(request).text().removeprefix(self._chroot)

    def create_ttl(self, path: str, ttl_ms: int) -> None:
        mode = CreateMode.PERSISTENT_WITH_TTL
        path = self._chroot + path
        self.call(Create(path, b"", OPEN_ACL_UNSAFE, mode, ttl_ms, op=OpCode.CREATE_TTL))

    def delete(self, path: str, version: int = -1) -> None:
        self.call(Delete(self._chroot + path, version))

    def get(self, path: str) -> bytes:
        return self.call(GetData(self._chroot + path)).blob()

    def set(self, path: str, data: bytes, version: int = -1) -> None:
        self.call(SetData(self._chroot + path, data, version))

    def exists(self, path: str) -> None:
        """Raises `NoNodeError` if there is none."""
        self.call(Exists(self._chroot + path))

    def children(self, path: str) -> list[str]:
        request = GetChildren(self._chroot + path, op=OpCode.GET_CHILDREN)
        return sorted(self.call(request).texts())

    def sync(self, path: str) -> None:
        self.call(Sync(self._chroot + path))

    def wait(self, seconds: float) -> None:
        """From now on, waits so long for each answer."""
        self._timeout = seconds

    def drop(self) -> None:
        """Closes the connection without a goodbye; the session lives on for its timeout."""
        self.socket.close()

    def _next_frame(self, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        while not self._ready:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the server closed the connection")
            self._ready.extend(self._frames.feed(data))
        return self._ready.pop(0)


# --- versions -------------------------------------------------------------------------------------


def version_of(connect_string: str) -> Version:
    """The version that the first server of a connect string tells."""
    with socket.create_connection(parse_connect_string(connect_string).hosts[0], PATIENCE) as link:
        link.sendall(SRVR)
        told = b""
        while data := link.recv(65536):
            told += data
    release = release_in(told)
    assert release is not None, told
    return release.version


def backports_of(connect_string: str) -> frozenset[Feature]:
    """The features that the server has although its version came before them: found by trying."""
    tried = {Feature.EVENTS_NEED_READ: withholds_events(connect_string)}
    version = version_of(connect_string)
    for feature, has_it in tried.items():
        assert has_it or not feature.is_in(version), f"{version} lacks {feature}"
    return frozenset(f for f, has_it in tried.items() if has_it and not f.is_in(version))


def features_of(connect_string: str) -> frozenset[Feature]:
    """All that the server has."""
    version = version_of(connect_string)
    return backports_of(connect_string) | {f for f in Feature if f.is_in(version)}


def withholds_events(connect_string: str) -> bool:
    """Whether a watch on a znode says nothing once the client may not read it any more."""
    path = f"/versions-{uuid.uuid4().hex}"
    nobody_reads = (ACL(Permission.ALL & ~Permission.READ, "world", "anyone"),)
    with RawClient(connect_string) as writer, RawClient(connect_string) as watcher:
        writer.create(path, acl=OPEN_ACL_UNSAFE)
        watcher.call(GetData(path, watch=True))
        writer.call(SetACL(path, nobody_reads, -1))
        writer.call(SetData(path, b"", -1))
        watcher.sync("/")
        heard = list(watcher.events)
        writer.call(Delete(path, -1))
    return not heard


def text_of_version(connect_string: str) -> str:
    """The same as people write it, such as "3.9.3"."""
    return ".".join(map(str, version_of(connect_string)))


def has(connect_string: str, feature: Feature) -> bool:
    """Whether a server has a feature by its version, whatever a distributor brought to it."""
    return feature.is_in(version_of(connect_string))


def told_zxid(connect_string: str, zxid: int) -> int:
    """The zxid in a watch event of the change with this zxid."""
    return zxid if has(connect_string, Feature.EVENT_ZXIDS) else -1


# --- sessions of one server -----------------------------------------------------------------------


async def refuses_ephemerals(hosts: str) -> None:
    """Checks that one of them has everything but ephemeral znodes."""
    async with aiolead.connect(hosts, session_timeout=4) as client:
        for mode in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL):
            with pytest.raises(EphemeralOnLocalSessionError):
                await client.create("/e", mode=mode)
        with pytest.raises(EphemeralOnLocalSessionError):
            async with Lock(client, "/lock").acquire():
                raise AssertionError
        await client.create("/a")
        await client.delete("/a")
