"""The parsers of bytes from the network, and the rules that hold for any bytes.

Each target takes bytes and returns nothing. It raises only if something is wrong: an exception that
is none of ours, a buffer that grows beyond what was allowed, a request that is never settled.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from aiolead._client.api.client import Client
from aiolead._client.core import Core
from aiolead._client.net.opener import Opener
from aiolead._client.net.supervisor import Supervisor
from aiolead._session.lease import HeldZnode
from aiolead._session.machine import SessionMachine
from aiolead._session.observer import SessionObserver
from aiolead._wire import handshake, replies, requests, versions
from aiolead._wire.codes import OpCode
from aiolead._wire.config_text import format_config, parse_config
from aiolead._wire.digest_md5 import DigestMD5
from aiolead._wire.jute import FrameReader, Reader, Writer
from aiolead.admin import decode_limits, decode_usage, encode_limits
from aiolead.errors import (
    AioleadError,
    AuthFailedError,
    ConnectionLossError,
    LossReason,
    RemoteWireError,
    SessionExpiredError,
    SessionMovedError,
)
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Auth, CreateMode, Permission, Quota, SessionState
from aiolead.testing._server.core import Core as Server
from aiolead.testing._server.settings import Settings

LIMIT = 1 << 16
"""The largest frame that the targets accept, in bytes."""

ALLOWED = (
    RemoteWireError,
    ConnectionLossError,
    AuthFailedError,
    SessionExpiredError,
    SessionMovedError,
)
"""The errors that bytes may raise in a session machine; its connection is closed then."""


# --- frames and records ------------------------------------------------------------------------


def chunks(data: bytes, least: int = 1) -> list[bytes]:
    """The bytes in pieces: the first of them says how large those are."""
    if not data:
        return []
    size = data[0] + least
    return [data[start : start + size] for start in range(1, len(data), size)]


def frames(data: bytes) -> None:
    """The frame reader: any cut gives the same frames, and no length makes it buffer too much."""
    found: list[bytes] = []
    reader = FrameReader(LIMIT)
    try:
        for chunk in chunks(data):
            found += reader.feed(chunk)
            assert reader.buffered <= LIMIT + 4 + len(chunk)
    except RemoteWireError:
        return
    assert found == list(FrameReader(LIMIT).feed(data[1:]))


def records() -> dict[str, Callable[[Reader], Any]]:
    """The reader of each record of the protocol; one for each operation that it depends on."""
    found: dict[str, Callable[[Reader], Any]] = {}
    for module in (handshake, requests, replies):
        for name, value in vars(module).items():
            if not dataclasses.is_dataclass(value):
                continue
            if not (getattr(value, "layout", ()) or "read" in vars(value)):
                continue
            read: Any = value.read
            if "op" in inspect.signature(read).parameters:
                for op in _OPS[name]:
                    found[f"{name} {op.name}"] = lambda r, read=read, op=op: read(r, op)
            else:
                found[name] = read
    return found


_OPS = {
    "Create": (OpCode.CREATE, OpCode.CREATE_TTL),
    "GetChildren": (OpCode.GET_CHILDREN,),
    "SetWatches": (OpCode.SET_WATCHES, OpCode.SET_WATCHES2),
}
_READERS = list(records().values())


def record(data: bytes) -> None:
    """A record's reader: refuses, or gives what is written as it was read."""
    if not data:
        return
    read = _READERS[data[0] % len(_READERS)]
    try:
        value = read(Reader(data[1:]))
    except RemoteWireError:
        return
    w = Writer()
    value.write(w)
    assert read(Reader(bytes(w.buffer))) == value


def version(data: bytes) -> None:
    """The version that a server reports."""
    versions.release_in(data)


def quota(data: bytes) -> None:
    """Data of the znodes in which servers keep quotas."""
    for decode in (decode_limits, decode_usage):
        try:
            value: Any = decode(data)
        except RemoteWireError:
            continue
        if isinstance(value, Quota):
            assert decode_limits(encode_limits(value)) == value


def config(data: bytes) -> None:
    """Data of `/zookeeper/config`, read and written again."""
    try:
        found = parse_config(data)
    except RemoteWireError:
        return
    assert parse_config(format_config(found.servers, found.version)) == found


def login(data: bytes) -> None:
    """A server's side of a SASL login: a challenge, and the answer to ours."""
    mechanism = DigestMD5("ann", "secret", make_nonce=lambda: "nonce")
    mechanism.step(b"")
    try:
        for token in chunks(data, 40):
            mechanism.step(token)
    except AuthFailedError:
        return
    assert not mechanism.is_complete or b"rspauth" in data


# --- a session's machine -----------------------------------------------------------------------


class Talker:
    """A client without I/O that has said all that clients say, and waits for answers.

    Attributes:
        machine: its session machine.
        calls: its requests.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        unconnected = partial(Supervisor, servers=(), rng=random.Random(1), opener=Opener())
        core = Core(self._make, unconnected, lambda: self.now)
        self.machine = core.machine
        self.client = Client(core, "")
        self.calls: list[Any] = []
        self._watches: list[Any] = []  # a watch that is dropped is removed
        self._held: HeldZnode | None = None

    def _make(self, observer: SessionObserver) -> SessionMachine:
        return SessionMachine(
            session_timeout=8.0,
            auth=[Auth.digest("ann", "secret")],
            max_request=LIMIT,
            max_reply=LIMIT,
            max_in_flight=1000,
            max_queued=1000,
            max_ephemeral_paths=768 * 1024,
            tick_time=None,
            grace_period=None,
            observer=observer,
        )

    def ask(self) -> None:
        """One request of each kind, watched where that is possible."""
        client, watches = self.client, self._watches

        def watch() -> Any:
            watches.append(client.backend.make_watch())
            return watches[-1]

        mine = (ACL(Permission.ALL, "auth", ""),)
        self.calls += [
            client.create("/a", b"data"),
            client.create("/a/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL),
            client.create("/mine", acl=mine),
            client.create("/c", mode=CreateMode.CONTAINER),
            client.create("/t", mode=CreateMode.PERSISTENT_WITH_TTL, ttl=60.0),
            client.get("/a", watch=watch()),
            client.set("/a", b"more"),
            client.get("/none", watch=watch()),
            client.exists("/none", watch=watch()),
            client.exists("/a"),
            client.get_children("/", watch=watch()),
            client.get_children_and_stat("/a"),
            client.get_acl("/mine"),
            client.set_acl("/mine", OPEN_ACL_UNSAFE),
            client.sync(),
            client.check("/a"),
            client.check("/a", version=7),
            client.transaction().create("/a/b").set("/a", b"x").check("/a").delete("/a/b").commit(),
            client.transaction().create("/a/b").check("/none").delete("/a/b").commit(),
            client.delete("/c"),
        ]

    def open(self) -> None:
        self.machine.connection_made(self.now)

    def lose(self) -> None:
        self.machine.connection_lost(self.now)

    def said(self) -> bytes:
        """Returns all that it has to send, and sends it."""
        said = bytearray()
        while data := self.machine.data_to_send(self.now):
            said += data
        return bytes(said)

    def hear(self, data: bytes) -> bool:
        """Takes bytes; False if the connection is to be closed for them."""
        try:
            self.machine.receive(data, self.now)
            while self.machine.decoding is not None:
                self.machine.receive(b"", self.now)
        except ALLOWED:
            return False
        # The buffer of an incomplete frame never exceeds the limit of a frame.
        assert self.machine._frames.buffered <= LIMIT + 4 + len(data)
        return True

    def pass_time(self, seconds: float = 0.2) -> bool:
        """Time passes; False if the connection is to be closed. A session holds /a."""
        self.now += seconds
        if self._held is None and self.machine.state is SessionState.CONNECTED:
            self._held = self.machine.leases.hold(
                "/a", _Owner(), urgent=False, resign_on_disconnect=False, now=self.now
            )
        due = self.machine.tick(self.now)
        assert self.machine.next_deadline() > 0
        return due is None

    def close(self) -> None:
        """All requests are settled now."""
        if self._held is not None:
            self._held.release()
        self.machine.closed()
        for call in self.calls:
            assert call.is_done, call
            assert call.error() is None or isinstance(call.error(), AioleadError)


class _Owner:
    """The owner of a hold that does nothing when it ends."""

    def hold_settled(self) -> None:
        pass

    def hold_lost(self, reason: LossReason) -> None:
        pass


def machine(data: bytes) -> None:
    """A whole client, to which a server says these bytes: over one link after the other."""
    talker = Talker()
    talker.ask()
    talker.open()
    for chunk in chunks(data, 20):
        talker.said()
        if not (talker.hear(chunk) and talker.pass_time(0.01)):
            talker.lose()
            if talker.machine.state.is_final:
                break
            talker.open()
    talker.close()


def server(data: bytes) -> None:
    """The embedded server, to which a client says these bytes."""
    core = Server(Settings(max_frame=LIMIT), random.Random(1))
    connection = core.connect("127.0.0.1")
    assert connection is not None
    now = 1000.0
    for chunk in chunks(data, 20):
        core.receive(connection, chunk, now)
        while connection.take():
            core.resume(connection, now)
        core.take_woken()
        now += 0.01
        core.tick(now)
    core.lost(connection)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "frames": frames,
    "record": record,
    "version": version,
    "quota": quota,
    "config": config,
    "login": login,
    "machine": machine,
    "server": server,
}


# --- where to begin ----------------------------------------------------------------------------


def talk() -> tuple[bytes, bytes]:
    """The bytes of a client and of the embedded server if nothing goes wrong.

    At the end of it the client holds something, and has that confirmed.
    """
    talker = Talker()
    core = Server(Settings(), random.Random(1))
    connection = core.connect("127.0.0.1")
    assert connection is not None
    talker.open()
    to_server, to_client = bytearray(), bytearray()
    for then in (talker.ask, talker.pass_time, talker.pass_time, talker.close):
        while said := talker.said():
            to_server += said
            core.receive(connection, said, talker.now)
            answer = connection.take()
            to_client += answer
            assert talker.hear(answer)
        then()
    assert core.traffic.requests["MULTI"] == 5, "the hold was confirmed"
    return bytes(to_server), bytes(to_client)


def seeds(target: str) -> list[bytes]:
    """Bytes that make sense to a target, for a fuzzer to change."""
    from wire.golden import NAMES
    from wire.golden import frames as recorded

    said = [each for name in NAMES for each in recorded(name)]
    to_server, to_client = talk()
    match target:
        case "frames":
            return [b"\x07" + b"".join(each.data for each in said[:20])]
        case "record":
            skip = {True: 8, False: 16}
            bodies = {each.data[4 + skip[each.to_server] :] for each in said}
            return [bytes([n]) + body for n in range(len(_READERS)) for body in sorted(bodies)[:40]]
        case "version":
            return [b"Zookeeper version: 3.8.0-abc, built on 2024-12-29 17:54 UTC\n"]
        case "quota":
            return [b"count=10,bytes=-1=;byteHardLimit=1000;countHardLimit=-1", b"count=4,bytes=11"]
        case "config":
            return [
                b"server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:1:2\nversion=100000000",
                b"server.3=[::1]:2888:3888|b:1:2:observer;[::1]:2181\ngroup.1=1:2\nversion=ff",
            ]
        case "login":
            challenge = (
                b'realm="zk-sasl-md5",nonce="n0nce",charset=utf-8,algorithm=md5-sess,qop="auth"'
            )
            return [bytes([len(challenge) - 40]) + challenge + b"rspauth=0123456789abcdef"]
        case "machine":
            return [bytes([size]) + to_client for size in (0, 100, 255)]
        case _:
            return [bytes([size]) + to_server for size in (0, 100, 255)]
