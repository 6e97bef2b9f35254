"""Tells the same story to two servers and writes down what each answers, to be compared.

A `Stage` plays on one server: its actors are bare connections, and everything that comes back from
the server is put into `notes`, in a form in which two servers can agree: transaction ids are
counted from where the story began, times are left out, lists that have no order are sorted.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Protocol, Self

from kit.checks import PATIENCE
from kit.raw_client import PING_AFTER, Request

from aiolead._wire.codes import XID_EVENT, XID_PING, OpCode
from aiolead._wire.framing import FrameReader, encode_body, encode_record, encode_request
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader, Writer
from aiolead._wire.replies import (
    ACLReply,
    ChildrenReply,
    CreateReply,
    DataReply,
    ErrorResult,
    MultiReply,
    NamesReply,
    PathReply,
    ReplyHeader,
    StatReply,
    WatcherEvent,
)
from aiolead._wire.requests import CloseSession, Create, Exists
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Stat

NEW_SESSION = (0, bytes(16))


Address = tuple[str, int]


class Link(Protocol):
    """What is used of a socket."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def settimeout(self, seconds: float, /) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


def dial_tcp(address: Address) -> socket.socket:
    return socket.create_connection(address, PATIENCE)


class Stage:
    """One server, and who talks to it; or several that make one ensemble.

    Args:
        host: where the server is.
        port: where it listens.
        root: an empty znode; the story's paths stand below it.
        dial: opens a connection.
        leader: where its leader is, if that is another server; see `wait_applied`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        root: str,
        *,
        dial: Callable[[Address], Link] = dial_tcp,
        leader: Address | None = None,
    ) -> None:
        self.address = (host, port)
        self._leader = leader
        self.root = root
        self.dial = dial
        self.notes: list[Any] = []
        self._actors: list[Actor] = []
        self._sessions: dict[int, str] = {0: "nobody"}
        self._zxid = 0
        self._epochs: list[int] = []
        self._witness: Actor | None = None
        self._applied = self.answered = 0

    def begin(self) -> None:
        """Makes the root; the story counts its transaction ids from here."""
        if self._leader is not None:
            self._witness = Actor(self, "witness", self.dial(self._leader))
            self._witness.greet()
        with self.dial(self.address) as link:
            actor = Actor(self, "prologue", link)
            actor.greet()
            self._zxid = actor.raw(OpCode.CREATE2, encode_body(create(self.root)))
            actor.ask(CloseSession())
            self._zxid += 1
        self.notes.clear()

    def enter(self, name: str, at: Address | None = None, **greeting: Any) -> Actor:
        """A connection with a session: a new one, unless the greeting says which.

        `at` is the server's address, if it is not the stage's own.
        """
        actor = self.knock(name, at)
        actor.greet(**greeting)
        return actor

    def knock(self, name: str, at: Address | None = None) -> Actor:
        """A connection that has said nothing yet."""
        link = self.dial(at or self.address)
        actor = Actor(self, name, link)
        self._actors.append(actor)
        return actor

    def wait_applied(self) -> None:
        """Waits until the leader has applied what this server, a follower, has answered.

        A follower may be faster than its leader, which checks the next write against what it has
        prepared until then. That is not always what it applies: up to ZooKeeper 3.9 a `setACL` is
        prepared with the old ACL, and a container with the flag EPHEMERAL as an ephemeral znode.
        """
        if self._witness is not None:
            while self._applied < self.answered:
                self._applied = self._witness.raw(OpCode.EXISTS, encode_body(Exists("/")))

    def end(self) -> None:
        """Closes every session: one that ended in the next story would disturb its count."""
        told = len(self.notes)
        witness, self._witness = self._witness, None
        if witness is not None:
            witness.ask(CloseSession())
            witness.link.close()
        for actor in self._actors:
            actor.link.close()
        for session in dict.fromkeys(a.session for a in self._actors if a.session_id):
            with self.dial(self.address) as link:
                actor = Actor(self, "epilogue", link)
                actor.greet(session=session)
                if actor.session_id:
                    actor.ask(CloseSession())
        del self.notes[told:]

    def note(self, *words: Any) -> None:
        self.notes.append(words)

    # --- the forms in which servers can be compared ---------------------------------------------

    def zxid(self, zxid: int) -> int | tuple[str, int]:
        """Counted from the beginning; in a later epoch from that epoch's."""
        if zxid <= 0 or zxid >> 32 <= self._zxid >> 32:
            return zxid if zxid <= 0 else zxid - self._zxid
        epoch, counter = zxid >> 32, zxid & 0xFFFF_FFFF
        if epoch not in self._epochs:
            self._epochs.append(epoch)
        return f"later epoch {self._epochs.index(epoch)}", counter

    def session(self, session_id: int, name: str | None = None) -> str:
        if name is not None:
            self._sessions.setdefault(session_id, name)
        return self._sessions.get(session_id, "a stranger")

    def path(self, path: str) -> str:
        return path.replace(self.root, "~")

    def stat(self, stat: Stat) -> dict[str, Any]:
        return {
            "czxid": self.zxid(stat.czxid),
            "mzxid": self.zxid(stat.mzxid),
            "pzxid": self.zxid(stat.pzxid),
            "has times": (stat.ctime > 0, stat.mtime >= stat.ctime),
            "versions": (stat.version, stat.cversion, stat.aversion),
            "owner": self.session(stat.ephemeral_owner),
            "sizes": (stat.data_length, stat.num_children),
        }


class Actor:
    """One connection."""

    def __init__(self, stage: Stage, name: str, link: Link) -> None:
        self.stage = stage
        self.name = name
        self.link = link
        self.session_id = 0
        self.password = bytes(16)
        self._frames = FrameReader(1 << 24)
        self._ready: list[bytes] = []
        # No two connections of a session have a number in common: a server would take what was
        # committed for the one for the answer to the other (see `Depot`).
        self._xid = 1000 * len(stage._actors)
        self._extra_pings = 0  # their answers are still to come

    def greet(
        self,
        *,
        timeout: float = PATIENCE,
        session: tuple[int, bytes] = NEW_SESSION,
        seen: int = 0,
        old: bool = False,
    ) -> None:
        """The handshake. `old` leaves out the read-only flag, as clients before 3.4 do."""
        frame = encode_record(ConnectRequest(seen, round(timeout * 1000), *session))
        if old:
            frame = struct.pack(">i", len(frame) - 5) + frame[4:-1]
        self.link.sendall(frame)
        answer = self._next()
        if answer is None:
            self.stage.note(self.name, "is turned away")
            return
        response = ConnectResponse.read(Reader(answer))
        self.session_id, self.password = response.session_id, response.password
        who = self.stage.session(response.session_id, self.name)
        has_password = any(response.password)
        self.stage.note(self.name, "is", who, response.timeout_ms, has_password, len(answer))

    def ask(self, request: Request, *, xid: int | None = None) -> Any:
        """A request and its answer, with the events before it. Returns what was decoded."""
        return self.ask_raw(request.op, encode_body(request), xid=xid)

    def ask_raw(self, op: int, body: bytes = b"", *, xid: int | None = None) -> Any:
        if xid is None:
            self._xid += 1
            xid = self._xid
        self.stage.wait_applied()
        try:
            self.link.sendall(encode_request(xid, op, body))
        except (BrokenPipeError, ConnectionResetError):
            # The server has closed it, and the machine has heard of that already.
            self.stage.note(self.name, _name(op), "-> closed")
            return None
        while True:
            frame = self._next_answer() if op != OpCode.PING else self._next()
            if frame is None:
                self.stage.note(self.name, _name(op), "-> closed")
                return None
            r = Reader(frame)
            header = ReplyHeader.read(r)
            if header.xid == XID_EVENT:
                self._event(header, r)
                continue
            self.stage.answered = max(self.stage.answered, header.zxid)
            size = r.remaining
            body_notes, decoded = self._decode(op, header, r)
            right_xid = header.xid == (XID_PING if op == OpCode.PING else xid)
            self.stage.note(
                self.name,
                _name(op),
                "->",
                header.err,
                self.stage.zxid(header.zxid),
                body_notes,
                f"{size} bytes, all read" if not r.remaining else f"{r.remaining} of {size} left",
                "" if right_xid else f"xid {header.xid}",
            )
            return decoded

    def raw(self, op: int, body: bytes) -> int:
        """Sends a request and returns the zxid of the answer."""
        self._xid += 1
        self.link.sendall(encode_request(self._xid, op, body))
        frame = self._next_answer()
        assert frame is not None
        return ReplyHeader.read(Reader(frame)).zxid

    def ask_in_vain(self, request: Request, patience: float = 0.7) -> None:
        """A request that should not be answered within so many seconds; notes if it is."""
        self._xid += 1
        self.link.sendall(encode_request(self._xid, request.op, encode_body(request)))
        self.wait_in_vain(_name(request.op), patience)

    def wait_in_vain(self, for_what: str, patience: float = 0.7) -> None:
        """Nothing should come within so many seconds; notes if something does."""
        try:
            frame = self._next(patience)
        except TimeoutError:
            self.stage.note(self.name, for_what, "-> no answer")
        else:
            self.stage.note(self.name, for_what, "-> closed" if frame is None else "-> an answer")

    def wait_answer(self) -> None:
        """Notes the answer that comes late to what was asked in vain."""
        frame = self._next()
        if frame is None:
            self.stage.note(self.name, "closed by the server")
            return
        header = ReplyHeader.read(Reader(frame))
        self.stage.note(self.name, "is answered late", header.err)

    def stay(self) -> None:
        """Pings, which is not noted: a server closes a connection that is silent for long."""
        self.link.sendall(encode_request(XID_PING, OpCode.PING, b""))
        self._next()

    def wait_event(self, patience: float, beside: Actor | None = None) -> None:
        """Notes the event that comes within so many seconds, or that none does.

        Args:
            patience: how long, in seconds.
            beside: who stays meanwhile.
        """
        steps = 1 if beside is None else 10
        for _ in range(steps):
            if beside is not None:
                beside.stay()
            try:
                frame = self._next(patience / steps)
            except TimeoutError:
                continue
            break
        else:
            self.stage.note(self.name, "hears nothing")
            return
        if frame is None:
            self.stage.note(self.name, "closed by the server")
            return
        r = Reader(frame)
        self._event(ReplyHeader.read(r), r)

    def listen(self) -> None:
        """Notes what was sent so far: a ping's answer cannot overtake it."""
        self.ask_raw(OpCode.PING, xid=XID_PING)

    def listen_until_closed(self) -> None:
        """Notes the events that still come, and that the server closes the connection."""
        while (frame := self._next()) is not None:
            r = Reader(frame)
            self._event(ReplyHeader.read(r), r)
        self.stage.note(self.name, "closed by the server")

    def say(self, data: bytes) -> None:
        """Sends bytes, whatever they are."""
        self.link.sendall(data)

    def leave(self) -> None:
        """Closes the connection; the session lives on."""
        self.link.close()

    @property
    def session(self) -> tuple[int, bytes]:
        return self.session_id, self.password

    def _event(self, header: ReplyHeader, r: Reader) -> None:
        event = WatcherEvent.read(r)
        path = self.stage.path(event.path)
        zxid = self.stage.zxid(header.zxid)
        self.stage.note(self.name, "hears", event.type, path, event.state, header.err, zxid)

    def _decode(self, op: int, header: ReplyHeader, r: Reader) -> tuple[Any, Any]:
        if header.err or not r.remaining:
            return None, None
        stage = self.stage
        reply: Any
        match op:
            case OpCode.CREATE | OpCode.SYNC:
                reply = PathReply.read(r)
                return stage.path(reply.path), reply
            case OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
                reply = CreateReply.read(r)
                return (stage.path(reply.path), stage.stat(reply.stat)), reply
            case OpCode.EXISTS | OpCode.SET_DATA | OpCode.SET_ACL | OpCode.CHECK:
                reply = StatReply.read(r)
                return stage.stat(reply.stat), reply
            case OpCode.GET_DATA:
                reply = DataReply.read(r)
                return (reply.data, stage.stat(reply.stat)), reply
            case OpCode.GET_ACL:
                reply = ACLReply.read(r)
                return (reply.acl, stage.stat(reply.stat)), reply
            case OpCode.GET_CHILDREN | OpCode.GET_EPHEMERALS:
                reply = NamesReply.read(r)
                return sorted(map(stage.path, reply.names)), reply
            case OpCode.GET_CHILDREN2:
                reply = ChildrenReply.read(r)
                return (sorted(reply.names), stage.stat(reply.stat)), reply
            case OpCode.MULTI:
                reply = MultiReply.read(r)
                return [self._result(*result) for result in reply.results], reply
            case OpCode.WHO_AM_I:
                return sorted((r.text(), r.text()) for _ in range(r.i32())), None
            case OpCode.MULTI_READ:
                return list(self._multi_read(r)), None
            case _:
                # Numbers, and what nobody decodes.
                return [r.i32() for _ in range(r.remaining // 4)], None

    def _result(self, op: OpCode, result: Any) -> tuple[str, Any]:
        match result:
            case ErrorResult(code):
                return op.name, code
            case PathReply(path):
                return op.name, self.stage.path(path)
            case CreateReply(path, stat):
                return op.name, (self.stage.path(path), self.stage.stat(stat))
            case StatReply(stat):
                return op.name, self.stage.stat(stat)
            case _:
                return op.name, None

    def _multi_read(self, r: Reader) -> Any:
        while True:
            op, done, err = r.i32(), r.flag(), r.i32()
            if done:
                return
            match op:
                case OpCode.GET_DATA:
                    reply = DataReply.read(r)
                    yield op, err, reply.data, self.stage.stat(reply.stat)
                case OpCode.GET_CHILDREN:
                    yield op, err, sorted(NamesReply.read(r).names)
                case _:
                    yield op, err, r.i32()

    def _next_answer(self) -> bytes | None:
        """What comes next to a request: after a while, a ping helps the server along."""
        try:
            return self._next(PING_AFTER)
        except TimeoutError:
            with contextlib.suppress(ConnectionError):  # it is closed, as the next look tells
                self.link.sendall(encode_request(XID_PING, OpCode.PING, b""))
                self._extra_pings += 1
            return self._next()

    def _next(self, timeout: float = PATIENCE) -> bytes | None:
        """The next frame but the answers to pings that helped; None if the connection is closed."""
        deadline = time.monotonic() + timeout
        while True:
            while not self._ready:
                self.link.settimeout(max(deadline - time.monotonic(), 0.001))
                try:
                    data = self.link.recv(65536)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._ready.extend(self._frames.feed(data))
            frame = self._ready.pop(0)
            if not self._extra_pings or ReplyHeader.read(Reader(frame)).xid != XID_PING:
                return frame
            self._extra_pings -= 1


Story = Callable[[Stage], None]


def compare(story: Story, first: Stage, second: Stage) -> None:
    """Plays a story on two stages and fails where they part."""
    for stage in (first, second):
        stage.begin()
        try:
            story(stage)
        finally:
            stage.end()
    assert first.notes, "the story tells nothing"
    notes = zip_longest(first.notes, second.notes)
    for number, (one, other) in enumerate(notes):
        if one != other:
            before = "".join(f"\n      {note}" for note in first.notes[max(0, number - 3) : number])
            raise AssertionError(f"note {number}:{before}\n  1:  {one}\n  2:  {other}")


def create(
    path: str,
    data: bytes | None = b"",
    flags: int = 0,
    *,
    acl: tuple[ACL, ...] = OPEN_ACL_UNSAFE,
    op: OpCode = OpCode.CREATE2,
    ttl: int = -1,
) -> Create:
    return Create(path, data, acl, flags, ttl, op)


def body(*values: object) -> bytes:
    """A request's body of strings, bytes, ints (32 bits) and bools."""
    w = Writer()
    for value in values:
        match value:
            case bool():
                w.flag(value)
            case int():
                w.i32(value)
            case str():
                w.text(value)
            case bytes():
                w.blob(value)
            case _:
                raise TypeError(f"{value!r}")
    return bytes(w.buffer)


def _name(op: int) -> str:
    try:
        return OpCode(op).name
    except ValueError:
        return str(op)
