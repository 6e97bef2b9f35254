"""Plays the same story on two servers, and compares their answers.

A `Stage` plays on one server. Its actors are bare connections. Everything that the server sends is
put into `notes` in a form that is the same for equal servers: transaction ids count from the
beginning of the story, times are left out, lists without an order are sorted.

A story is a function of a stage. Most of it is text, see `Stage.play`:

    a, b: enters
    a: create ~/x data; set ~/x more 0; multi check ~/x 1 | delete ~/x
    b: get ~/x watch; listens
"""

from __future__ import annotations

import contextlib
import inspect
import shlex
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import fields
from itertools import zip_longest
from types import ModuleType
from typing import Any

from kit.checks import PATIENCE
from kit.raw_client import PING_AFTER, Request
from testing.wire_core import NEW_SESSION, Talk, create

from aiolead._wire.codes import XID_EVENT, XID_PING, OpCode
from aiolead._wire.jute import Reader, Record, Writer, encode_request
from aiolead._wire.replies import (
    ACLReply,
    ChildrenReply,
    CreateReply,
    DataReply,
    MultiReadReply,
    MultiReply,
    NamesReply,
    PathReply,
    ReplyHeader,
    StatReply,
    WatcherEvent,
    WhoAmIReply,
)
from aiolead._wire.requests import (
    AuthPacket,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    SetACL,
    SetData,
    Sync,
)
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Auth, Permission, Stat

ANN = Auth.digest("ann", "secret")
ANYONE_READS = ACL(Permission.READ, "world", "anyone")

Address = tuple[str, int]


def dial_tcp(address: Address) -> socket.socket:
    return socket.create_connection(address, PATIENCE)


class Stage:
    """A server, or an ensemble, and the connections to it.

    Args:
        host: the host of the server.
        port: the port of the server.
        root: a path for a znode, below which a story writes.
        dial: opens a connection.
        leader: the address of the leader, if that is another server; see `wait_applied`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        root: str,
        *,
        dial: Callable[[Address], Any] = dial_tcp,
        leader: Address | None = None,
    ) -> None:
        self.address = (host, port)
        self._leader = leader
        self.root = root
        self.dial = dial
        self.notes: list[Any] = []
        self._actors: list[Actor] = []
        self._names: dict[str, Actor] = {}
        self._sessions: dict[int, str] = {0: "nobody"}
        self._zxid = 0
        self._epochs: list[int] = []
        self._witness: Actor | None = None
        self._applied = self.answered = 0

    def begin(self) -> None:
        """Create the root. Transaction ids count from here."""
        if self._leader is not None:
            self._witness = Actor(self, "witness", self.dial(self._leader))
            self._witness.greet()
        with self.dial(self.address) as link:
            actor = Actor(self, "prologue", link)
            actor.greet()
            self._zxid = actor.raw(OpCode.CREATE2, create(self.root).encode())
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
        self._names[name] = actor
        return actor

    def play(self, text: str) -> None:
        """Play lines such as `a, b: create ~/x data; delete ~/x`: actors, and their requests.

        Requests are those of `REQUESTS`. `~` is the root. A read that ends in `watch` sets a watch.
        `enters` opens a session, `listens` notes the events so far, `until closed` notes events up
        to the end of the connection, and `leaves` closes it.
        """
        for line in filter(None, map(str.strip, text.splitlines())):
            names, _, statements = line.partition(": ")
            for name in names.split(", "):
                for statement in statements.split("; "):
                    self._do(name, statement.strip())

    def _do(self, name: str, statement: str) -> None:
        match statement:
            case "enters":
                self.enter(name)
            case "listens":
                self._names[name].listen()
            case "until closed":
                self._names[name].listen_until_closed()
            case "leaves":
                self._names[name].leave()
            case _:
                request = self.request(statement)
                xid = -4 if isinstance(request, AuthPacket) else None
                self._names[name].ask(request, xid=xid)

    def request(self, text: str) -> Request:
        """The request that a text stands for. A check alone is a transaction."""
        verb, _, rest = text.partition(" ")
        if verb == "multi":
            return Multi(tuple(map(self._operation, filter(None, rest.split(" | ")))))
        operation = self._operation(text)
        return Multi((operation,)) if isinstance(operation, Check) else operation

    def _operation(self, text: str) -> Any:
        words = [
            self.root + word[1:] if word.startswith("~") else word for word in shlex.split(text)
        ]
        given = [word.partition("=") for word in words[1:]]
        named = {name: value for name, sign, value in given if sign}
        return REQUESTS[words[0]](*[name for name, sign, _ in given if not sign], **named)

    def wait_applied(self) -> None:
        """Waits until the leader has applied what this server, a follower, has answered.

        A follower may be faster than its leader, which checks the next write against what it has
        prepared until then. That is not always what it applies: up to ZooKeeper 3.9 a `setACL` is
        prepared with the old ACL, and a container with the flag EPHEMERAL as an ephemeral znode.
        """
        if self._witness is not None:
            while self._applied < self.answered:
                self._applied = self._witness.raw(OpCode.EXISTS, Exists("/").encode())

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

    def plain(self, value: Any) -> Any:
        """A decoded answer, as servers can be compared: lists without an order are sorted."""
        match value:
            case Stat():
                return {
                    "zxids": [self.zxid(each) for each in (value.czxid, value.mzxid, value.pzxid)],
                    "has times": (value.ctime > 0, value.mtime >= value.ctime),
                    "versions": (value.version, value.cversion, value.aversion),
                    "owner": self.session(value.ephemeral_owner),
                    "sizes": (value.data_length, value.num_children),
                }
            case Record():
                return tuple(self.plain(getattr(value, each.name)) for each in fields(value))
            case str():
                return self.path(value)
            case list() | tuple():
                made = [self.plain(each) for each in value]
                is_unordered = all(isinstance(each, str) for one in value for each in _parts(one))
                return sorted(made) if is_unordered else made
            case _:
                return value


def _parts(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


class Actor(Talk):
    """A connection, whose answers and events are noted."""

    def __init__(self, stage: Stage, name: str, link: Any) -> None:
        super().__init__()
        self.stage = stage
        self.name = name
        self.link = link
        self.password = bytes(16)
        self._ready: list[bytes] = []
        # Connections of one session have no request number in common. A server would take the
        # commit of one for the answer to the other (see `Depot`).
        self._xid = 1000 * len(stage._actors)
        self._extra_pings = 0
        """Pings of `_next_answer` whose answers are still to come."""

    def note(self, *words: Any) -> None:
        self.stage.note(self.name, *words)

    def greet(
        self,
        *,
        timeout: float = PATIENCE,
        session: tuple[int, bytes] = NEW_SESSION,
        seen: int = 0,
        old: bool = False,
    ) -> None:
        """The handshake. `old` leaves out the read-only flag, as clients before 3.4 do."""
        frame = self.hello(timeout, session, seen)
        if old:
            frame = struct.pack(">i", len(frame) - 5) + frame[4:-1]
        self.say(frame)
        answer = self._next()
        if answer is None:
            self.note("is turned away")
            return
        response = self.welcomed(answer)
        who = self.stage.session(response.session_id, self.name)
        self.note("is", who, response.timeout_ms, any(response.password), len(answer))

    def ask(self, request: Request, *, xid: int | None = None) -> None:
        """Note the answer to a request, and the events before it."""
        self.ask_raw(request.op, request.encode(), xid=xid)

    def ask_raw(self, op: int, body: bytes = b"", *, xid: int | None = None) -> None:
        data = self.request(op, body) if xid is None else encode_request(xid, op, body)
        xid = self._xid if xid is None else xid
        self.stage.wait_applied()
        frame: bytes | None = None
        # A server that has closed the connection is seen at the next write, or at the next read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.say(data)
            while frame := self._next() if op == OpCode.PING else self._next_answer():
                if not self._event(frame):
                    break
        if frame is None:
            self.note(_name(op), "-> closed")
            return
        r = Reader(frame)
        header = ReplyHeader.read(r)
        self.stage.answered = max(self.stage.answered, header.zxid)
        size = r.remaining
        decoded = None
        if not header.err and size and op in REPLIES:
            decoded = REPLIES[op].read(r)
        elif not header.err:
            decoded = [r.i32() for _ in range(size // 4)]  # numbers, or undecoded
        is_right = header.xid == (XID_PING if op == OpCode.PING else xid)
        self.note(
            *(_name(op), "->", header.err, self.stage.zxid(header.zxid)),
            self.stage.plain(decoded),
            f"{size} bytes, all read" if not r.remaining else f"{r.remaining} of {size} left",
            "" if is_right else f"xid {header.xid}",
        )

    def raw(self, op: int, body: bytes) -> int:
        """Send a request. Return the zxid of the answer, which is not noted."""
        self.say(self.request(op, body))
        frame = self._next_answer()
        assert frame is not None
        return ReplyHeader.read(Reader(frame)).zxid

    def ask_in_vain(self, request: Request, patience: float) -> None:
        """Note whether a request is answered within so many seconds."""
        self.say(self.request(request.op, request.encode()))
        try:
            frame = self._next(patience)
        except TimeoutError:
            self.note(_name(request.op), "-> no answer")
        else:
            self.note(_name(request.op), "-> closed" if frame is None else "-> an answer")

    def wait_answer(self) -> None:
        """Note the late answer to a request that was asked in vain."""
        frame = self._next()
        self.note(*_CLOSED if frame is None else _late(frame))

    def wait_event(self, patience: float, beside: Actor | None = None) -> None:
        """Note the event that comes within so many seconds, or that none does.

        `beside` pings meanwhile: a server closes a connection that is silent for long.
        """
        steps = 1 if beside is None else 10
        for _ in range(steps):
            if beside is not None:
                beside.say(encode_request(XID_PING, OpCode.PING, b""))
                beside._next()
            with contextlib.suppress(TimeoutError):
                frame = self._next(patience / steps)
                if frame is None:
                    self.note(*_CLOSED)
                else:
                    self._event(frame)
                return
        self.note("hears nothing")

    def listen(self) -> None:
        """Note the events so far. The answer to a ping cannot overtake them."""
        self.ask_raw(OpCode.PING, xid=XID_PING)

    def listen_until_closed(self) -> None:
        """Note the events up to the end of the connection."""
        while frame := self._next():
            self._event(frame)
        self.note(*_CLOSED)

    def say(self, data: bytes) -> None:
        self.link.sendall(data)

    def leave(self) -> None:
        """Close the connection. The session lives on."""
        self.link.close()

    def _event(self, frame: bytes) -> bool:
        """Note an event. Return whether the frame is one."""
        r = Reader(frame)
        header = ReplyHeader.read(r)
        if header.xid != XID_EVENT:
            return False
        event, zxid = WatcherEvent.read(r), self.stage.zxid(header.zxid)
        path = self.stage.path(event.path)
        self.note("hears", event.type, path, event.state, header.err, zxid)
        return True

    def _next_answer(self) -> bytes | None:
        """The next frame after a request. After a while, a ping helps the server along."""
        try:
            return self._next(PING_AFTER)
        except TimeoutError:
            with contextlib.suppress(ConnectionError):  # the next read shows that it is closed
                self.say(encode_request(XID_PING, OpCode.PING, b""))
                self._extra_pings += 1
            return self._next()

    def _next(self, timeout: float = PATIENCE) -> bytes | None:
        """The next frame, without answers to extra pings; None if the connection is closed."""
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


_CLOSED = ("closed by the server",)


def _late(frame: bytes) -> tuple[Any, ...]:
    return "is answered late", ReplyHeader.read(Reader(frame)).err


Story = Callable[[Stage], None]


def stories_in(module: ModuleType) -> list[Any]:
    """The stories of a module: its public functions."""
    return [
        each
        for name, each in vars(module).items()
        if inspect.isfunction(each) and each.__module__ == module.__name__ and name[0] != "_"
    ]


def compare(story: Story, first: Stage, second: Stage) -> None:
    """Play a story on two stages. Fail at the first note that differs."""
    for stage in (first, second):
        stage.begin()
        try:
            story(stage)
        finally:
            stage.end()
    assert first.notes, "the story notes nothing"
    notes = zip_longest(first.notes, second.notes)
    for number, (one, other) in enumerate(notes):
        if one != other:
            before = "".join(f"\n      {note}" for note in first.notes[max(0, number - 3) : number])
            raise AssertionError(f"note {number}:{before}\n  1:  {one}\n  2:  {other}")


REPLIES: dict[int, Any] = {
    OpCode.CREATE: PathReply,
    OpCode.SYNC: PathReply,
    OpCode.CREATE2: CreateReply,
    OpCode.CREATE_CONTAINER: CreateReply,
    OpCode.CREATE_TTL: CreateReply,
    OpCode.EXISTS: StatReply,
    OpCode.SET_DATA: StatReply,
    OpCode.SET_ACL: StatReply,
    OpCode.CHECK: StatReply,
    OpCode.GET_DATA: DataReply,
    OpCode.GET_ACL: ACLReply,
    OpCode.GET_CHILDREN: NamesReply,
    OpCode.GET_EPHEMERALS: NamesReply,
    OpCode.GET_CHILDREN2: ChildrenReply,
    OpCode.MULTI: MultiReply,
    OpCode.WHO_AM_I: WhoAmIReply,
    OpCode.MULTI_READ: MultiReadReply,
}


ACLS: dict[str, tuple[ACL, ...]] = {
    "none": (),
    "all": OPEN_ACL_UNSAFE,
    "auth": (ACL(Permission.ALL, "auth", ""),),
    "ann": (ANN.acl(),),
    "readable": (ANYONE_READS, ANN.acl()),
    "unreadable": (ACL(Permission.ALL & ~Permission.READ, "world", "anyone"), ANN.acl()),
}


def _create(path: str, data: str = "", **how: str) -> Create:
    options: dict[str, Any] = {name: int(how[name]) for name in ("flags", "ttl") if name in how}
    options["op"] = OpCode[how.get("op", "CREATE2")]
    return create(path, _data(data), acl=ACLS[how.get("acl", "all")], **options)


def _data(text: str) -> bytes | None:
    return None if text == "null" else text.encode()


REQUESTS: dict[str, Callable[..., Any]] = {
    "create": _create,
    "delete": lambda path, version=-1: Delete(path, int(version)),
    "set": lambda path, data="", version=-1: SetData(path, _data(data), int(version)),
    "check": lambda path, version=-1: Check(path, int(version)),
    "get": lambda path, watch="": GetData(path, bool(watch)),
    "exists": lambda path, watch="": Exists(path, bool(watch)),
    "children": lambda path, watch="": GetChildren(path, bool(watch)),
    "names": lambda path: GetChildren(path, op=OpCode.GET_CHILDREN),
    "ephemerals": lambda path="": GetEphemerals(path),
    "acl": GetACL,
    "setacl": lambda path, acl, version=-1: SetACL(path, ACLS[acl], int(version)),
    "auth": lambda: AuthPacket(ANN.scheme, ANN.credential),
    "sync": Sync,
    "close": CloseSession,
}
"""The requests that `Stage.play` knows. Arguments are those of the record, or `name=value`."""


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
