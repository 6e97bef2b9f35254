"""Servers that answer with what no server answers: valid frames, absurd fields.

Whatever comes, a request ends within a bounded time, with a value of its type or an error of ours,
and the client goes on with the next server. On virtual time: waits are exact, and cost nothing.
Bytes that make no sense at all are in tests/parsing/test_fuzz.py.
"""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from client.client_fake import STAT, FakeServer, usual
from kit.virtual_time import SESSION, VirtualClock, passes

import aiolead
from aiolead import SASL, Auth, CreateMode
from aiolead._wire.codes import XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES, OpCode
from aiolead._wire.framing import encode_record, encode_reply, frame
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Record
from aiolead._wire.replies import (
    ChildrenReply,
    CreateReply,
    DataReply,
    DoneResult,
    ErrorResult,
    MultiReadReply,
    MultiReply,
    NamesReply,
    NumberReply,
    PathReply,
    ReplyHeader,
    StatReply,
    TokenReply,
    WatcherEvent,
    WhoAmIReply,
)
from aiolead._wire.requests import RequestHeader
from aiolead.errors import (
    AioleadError,
    AuthFailedError,
    ConnectFailed,
    ConnectionLossError,
    RemoteWireError,
    SessionExpiredError,
)
from aiolead.model import EventType, SessionState, Stat
from aiolead.testing.simulation import Backend, run_virtual

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

Answer = Callable[[RequestHeader], bytes | None]

MOST, LEAST = (1 << 31) - 1, -(1 << 31)
MOST_64, LEAST_64 = (1 << 63) - 1, -(1 << 63)
ABSURD_STAT = Stat(LEAST_64, MOST_64, LEAST_64, MOST_64, LEAST, LEAST, LEAST, -1, LEAST, LEAST, 0)
MEGABYTE = 1 << 20

BOUND = 6 * SESSION
"""How long any request may take whatever a server does: waiting for a connection, being sent again
for a while, and the last answer."""


class Hostile(FakeServer):
    def connect(self, hosts: str = "127.0.0.1:1", **options: Any) -> aiolead.types.Connection:
        options = {
            "session_timeout": SESSION,
            "clock": VirtualClock(),
            "server_version": "3.9.3",
            **options,
        }
        return super().connect(hosts, rng=random.Random(1), **options)


def play_virtually(backend: Backend, fake: FakeServer, play: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with fake:
            await play()

    run_virtual(main, backend=backend, limit=10_000)


# --- what is asked, and what is answered ---------------------------------------------------------


async def _watched(client: aiolead.Client) -> object:
    with client.backend.make_watch() as watch:
        return await client.get("/a", watch=watch)


REQUESTS: dict[str, Callable[[aiolead.Client], Awaitable[object]]] = {
    "create": lambda c: c.create("/a", b"data"),
    "create sequential": lambda c: c.create("/a-", mode=CreateMode.EPHEMERAL_SEQUENTIAL),
    "create container": lambda c: c.create("/a", mode=CreateMode.CONTAINER),
    "create with ttl": lambda c: c.create("/a", mode=CreateMode.PERSISTENT_WITH_TTL, ttl=60.0),
    "delete": lambda c: c.delete("/a"),
    "exists": lambda c: c.exists("/a"),
    "get": lambda c: c.get("/a"),
    "get watched": _watched,
    "set": lambda c: c.set("/a", b"data"),
    "get_children": lambda c: c.get_children("/a"),
    "get_children_and_stat": lambda c: c.get_children_and_stat("/a"),
    "get_acl": lambda c: c.get_acl("/a"),
    "set_acl": lambda c: c.set_acl("/a", aiolead.model.OPEN_ACL_UNSAFE),
    "sync": lambda c: c.sync("/a"),
    "check": lambda c: c.check("/a"),
    "transaction": lambda c: c.transaction().create("/a").set("/a", b"").delete("/a").commit(),
    "get_all_children_number": lambda c: c.get_all_children_number("/a"),
    "get_ephemerals": lambda c: c.get_ephemerals("/a"),
    "whoami": lambda c: c.whoami(),
    "get_config": lambda c: c.get_config(),
    "reconfig": lambda c: c.reconfig(leaving=[7]),
}


async def _reads(client: aiolead.Client) -> object:
    return await client.reads().get("/a").get_children("/a")


REQUESTS["reads"] = _reads


def body(record: Record | None = None, *, err: int = 0, zxid: int = 1) -> Answer:
    return lambda header: encode_reply(ReplyHeader(header.xid, zxid, err), record)


def raw(data: bytes) -> Answer:
    """Any bytes behind a header that is right."""
    return lambda header: frame(struct.pack(">iqi", header.xid, 1, 0) + data)


def count(number: int, rest: bytes = b"") -> Answer:
    return raw(struct.pack(">i", number) + rest)


def text(data: bytes) -> Answer:
    return count(len(data), data + bytes(100))


def before(event: bytes, then: Answer) -> Answer:
    return lambda header: event + (then(header) or b"")


def event(kind: int, path: str, state: int = 3) -> bytes:
    return encode_reply(ReplyHeader(XID_EVENT, MOST_64, 0), WatcherEvent(kind, path, state))


NAMES = ("", ".", "..", "a/b", "/", "\0", "a\nb", "\x1b[2J", "\u202e", "\u2028", "x" * 70_000)
ELSEWHERE = "/somewhere/else"

ANSWERS: dict[str, Answer] = {
    "nothing": raw(b""),
    "a byte": raw(b"\0"),
    "zeros": raw(bytes(200)),
    "ones": raw(b"\xff" * 200),
    "a megabyte of zeros": raw(bytes(MEGABYTE)),
    "a megabyte of ones": raw(b"\xff" * MEGABYTE),
    "a megabyte of sevens": raw(b"\x07" * MEGABYTE),
    "count -2": count(-2, bytes(100)),
    "count -2^31": count(LEAST, bytes(100)),
    "count 2^31 - 1": count(MOST, bytes(100)),
    "count of all that is there": count(100, bytes(100)),
    "text that is no UTF-8": text(b"\xff\xfe\xc0\x80" * 5),
    "text with surrogates": text(b"\xed\xa0\x80" * 5),
    "text with controls": text(b"/a\0\x1b]0;title\x07\r\n"),
    "an empty text": text(b""),
    "a path elsewhere": body(PathReply(ELSEWHERE)),
    "a path elsewhere, created": body(CreateReply(ELSEWHERE, STAT)),
    "an absurd stat": body(StatReply(ABSURD_STAT)),
    "data with an absurd stat": body(DataReply(b"data", ABSURD_STAT)),
    "null": body(DataReply(None, ABSURD_STAT)),
    "absurd names": body(NamesReply(NAMES)),
    "absurd names with a stat": body(ChildrenReply(NAMES, ABSURD_STAT)),
    "a hundred thousand names": body(NamesReply([f"n{n}" for n in range(100_000)])),
    "the same name a thousand times": body(NamesReply(["n"] * 1_000)),
    "a negative number": body(NumberReply(LEAST)),
    "absurd users": body(WhoAmIReply([(name, name) for name in NAMES])),
    "no results": body(MultiReply(())),
    "results of another transaction": body(
        MultiReply(((OpCode.CHECK, DoneResult(OpCode.CHECK)),) * 3)
    ),
    "results in another order": body(
        MultiReply(
            (
                (OpCode.SET_DATA, StatReply(STAT)),
                (OpCode.DELETE, DoneResult(OpCode.DELETE)),
                (OpCode.CREATE, PathReply("/a")),
            )
        )
    ),
    "the right results with a path elsewhere": body(
        MultiReply(
            (
                (OpCode.CREATE, PathReply(ELSEWHERE)),
                (OpCode.SET_DATA, StatReply(STAT)),
                (OpCode.DELETE, DoneResult(OpCode.DELETE)),
            )
        )
    ),
    "results that failed, and nothing did": body(MultiReply(((OpCode.ERROR, ErrorResult(0)),) * 3)),
    "results that failed of what does not exist": body(
        MultiReply(((OpCode.ERROR, ErrorResult(MOST)),) * 3)
    ),
    "ten thousand results": body(MultiReply(((OpCode.ERROR, ErrorResult(-1)),) * 10_000)),
    "reads that failed of what does not exist": body(MultiReadReply((ErrorResult(LEAST),) * 2)),
    "reads in another order": body(
        MultiReadReply((NamesReply(NAMES), DataReply(b"", ABSURD_STAT)))
    ),
    **{f"error {code}": body(err=code) for code in (1, MOST, LEAST, -1, -2, -8, -109, -9999)},
    "connection loss as an answer": body(err=-4),
    "zxid 2^63 - 1": lambda header: usual_or(header, zxid=MOST_64),
    "zxid -2^63": lambda header: usual_or(header, zxid=LEAST_64),
    "another xid": lambda header: encode_reply(ReplyHeader(header.xid + 1, 1, 0)),
    "xid 2^31 - 1": lambda _header: encode_reply(ReplyHeader(MOST, 1, 0)),
    "xid 0": lambda _header: encode_reply(ReplyHeader(0, 1, 0)),
    "an unknown xid": lambda _header: encode_reply(ReplyHeader(-77, 1, 0)),
    "the answer to a ping": lambda _header: encode_reply(ReplyHeader(XID_PING, 1, 0)),
    "the answer to watches": lambda _header: encode_reply(ReplyHeader(XID_SET_WATCHES, 1, 0)),
    "the answer to credentials": lambda _header: encode_reply(ReplyHeader(XID_AUTH, 1, 0)),
    "half a header": lambda _header: frame(b"\0" * 7),
    "an empty frame": lambda _header: frame(b""),
    "a frame of -1 bytes": lambda _header: struct.pack(">i", -1),
    "a frame of 2^31 - 1 bytes": lambda _header: struct.pack(">i", MOST) + bytes(1000),
    "a frame that never ends": lambda _header: struct.pack(">i", MEGABYTE) + bytes(1000),
    "twice": lambda header: 2 * (usual(header) or b""),
    "a handshake": lambda _header: encode_record(ConnectResponse(8000, 9, bytes(16))),
    "silence": lambda _header: None,
    "hanging up": lambda _header: b"",
    "an event of what is not watched": before(event(EventType.DELETED, ELSEWHERE), usual),
    "an event that does not exist": before(event(77, "/a"), usual),
    "an event of nothing": before(event(EventType.NONE, "", -112), usual),
    "an event with a deep path": before(event(EventType.CREATED, "/a" * 400_000), usual),
    "an event with a path of slashes": before(event(EventType.DELETED, "/" * MEGABYTE), usual),
    "ten thousand events": before(event(EventType.DATA_CHANGED, "/a") * 10_000, usual),
    "half an event": lambda _header: frame(struct.pack(">iqi", XID_EVENT, 1, 0) + b"\0"),
}


def usual_or(header: RequestHeader, *, zxid: int) -> bytes:
    record = DataReply(b"data", STAT) if header.op == OpCode.GET_DATA else None
    return encode_reply(ReplyHeader(header.xid, zxid, 0), record)


SKELETON = {OpCode.PING, OpCode.CLOSE_SESSION, OpCode.SET_WATCHES, OpCode.SET_WATCHES2}
"""What has to work for the client to be there at all."""


def honest(header: RequestHeader) -> bytes | None:
    if header.op == OpCode.ADD_WATCH:
        return encode_reply(ReplyHeader(header.xid, 1, 0), NumberReply(0))
    return usual(header)


def except_for_its_skeleton(answer: Answer) -> Answer:
    return lambda header: (honest if header.op in SKELETON else answer)(header)


SHAPES: dict[str, Callable[[Any], bool]] = {
    "create": lambda v: v.path == "/a" and isinstance(v.stat, Stat),
    "create sequential": lambda v: v.path.startswith("/a-") and isinstance(v.stat, Stat),
    "create container": lambda v: v.path == "/a",
    "create with ttl": lambda v: v.path == "/a",
    "exists": lambda v: v is None or isinstance(v, Stat),
    "get": lambda v: isinstance(v[0], bytes) and isinstance(v[1], Stat),
    "get_children": lambda v: all(isinstance(name, str) for name in v),
    "transaction": lambda v: v[0] == "/a" and isinstance(v[1], Stat) and v[2] is None,
    "get_all_children_number": lambda v: v >= 0,
    "get_ephemerals": lambda v: all(path.startswith("/a") for path in v),
}
"""What a value has to be, where the type of an answer's record does not say so by itself."""


async def served(client: aiolead.Client) -> None:
    """Asks until there is an answer."""
    with anyio.fail_after(BOUND):
        while True:
            with suppress(ConnectionLossError, RemoteWireError, SessionExpiredError):
                assert await client.get("/a") == (b"data", STAT)
                return


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=3)
@pytest.mark.parametrize("name", ANSWERS)
def test_any_answer_to_any_request(backend: Backend, name: str) -> None:
    """Each request ends, with a value or an error of ours; then the client serves as before."""
    fake, other, answer = Hostile(honest), Hostile(honest), ANSWERS[name]

    async def play() -> None:
        async with (
            other,
            other.connect() as unaffected,
            fake.connect() as client,
            client.watch("/a", recursive=True),
        ):
            session = unaffected.session_id
            for what, ask in REQUESTS.items():
                fake.answer = except_for_its_skeleton(answer)
                began = anyio.current_time()
                with anyio.move_on_after(BOUND + 1) as scope:
                    try:
                        value = await ask(client)
                    except AioleadError:
                        pass
                    else:
                        assert SHAPES.get(what, lambda _: True)(value), (what, value)
                assert not scope.cancelled_caught, f"{what} hangs"
                assert anyio.current_time() - began <= BOUND, what
                assert not client.state.is_final, what
                fake.answer = honest
                await served(client)
            assert unaffected.state is SessionState.CONNECTED
            assert unaffected.session_id == session
            assert other.connections == 1

    play_virtually(backend, fake, play)


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=3)
@pytest.mark.parametrize("name", ANSWERS)
def test_any_answer_to_credentials(backend: Backend, name: str) -> None:
    """They are shown to each server: `add_auth` ends, and so may the client, as refused."""
    fake, answer = Hostile(), ANSWERS[name]

    def say(header: RequestHeader) -> bytes | None:
        return answer(header) if header.op == OpCode.AUTH else honest(header)

    async def play() -> None:
        async with fake.connect() as client:
            fake.answer = say
            with anyio.fail_after(BOUND):
                try:
                    await client.add_auth(Auth.digest("user", "password"))
                except AuthFailedError:
                    assert client.state is SessionState.AUTH_FAILED
                except (ConnectionLossError, RemoteWireError):
                    assert not client.state.is_final

    play_virtually(backend, fake, play)


TOKENS: dict[str, Answer] = {
    **ANSWERS,
    "an empty token": body(TokenReply(b"")),
    "a token of a megabyte": body(TokenReply(b'nonce="' + b"x" * MEGABYTE)),
    "a token of commas": body(TokenReply(b"," * MEGABYTE)),
    "a token of quotes": body(TokenReply(b'"' * MEGABYTE)),
    "a token that is no text": body(TokenReply(b"\xff\x00" * 100)),
    "ten thousand realms": body(TokenReply(b'realm="a",' * 10_000)),
}


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=3)
@pytest.mark.parametrize("name", TOKENS)
def test_any_answer_to_a_login(backend: Backend, name: str) -> None:
    fake, answer = Hostile(), TOKENS[name]

    def say(header: RequestHeader) -> bytes | None:
        return answer(header) if header.op == OpCode.SASL else honest(header)

    async def play() -> None:
        fake.answer = say
        with anyio.fail_after(BOUND):
            with suppress(AuthFailedError, ConnectFailed):
                async with fake.connect(sasl=SASL.digest_md5("user", "password")):
                    pass

    play_virtually(backend, fake, play)


# --- handshakes ----------------------------------------------------------------------------------


def greeting(timeout: int = 8000, session: int = 9, password: bytes = bytes(16)) -> bytes:
    return encode_record(ConnectResponse(timeout, session, password))


GREETINGS: dict[str, bytes | None] = {
    "nothing": frame(b""),
    "a byte": frame(b"\0"),
    "zeros": frame(bytes(200)),
    "ones": frame(b"\xff" * 200),
    "a reply": encode_reply(ReplyHeader(1, MOST_64, 0)),
    "a session of nobody": greeting(session=0),
    "a negative session": greeting(session=LEAST_64),
    "a password of nothing": greeting(password=b""),
    "a password of a megabyte": greeting(password=bytes(MEGABYTE)),
    "a password of negative length": frame(struct.pack(">iiqi", 0, 8000, 9, -7)),
    "a password of 2^31 - 1 bytes": frame(struct.pack(">iiqi", 0, 8000, 9, MOST)),
    "a timeout of nothing": greeting(0),
    "a negative timeout": greeting(LEAST),
    "a timeout of a millisecond": greeting(1),
    "a timeout of 24 days": greeting(MOST),
    "read-only": encode_record(ConnectResponse(8000, 9, bytes(16), read_only=True)),
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "silence": None,
    "hanging up": b"",
    "events": event(EventType.DELETED, "/a") * 100,
    "twice": 2 * greeting(),
}


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=3)
@pytest.mark.parametrize("name", GREETINGS)
def test_any_answer_to_a_handshake(backend: Backend, name: str) -> None:
    """Entering ends; the server is asked now and then, and not as fast as it answers."""
    fake = Hostile(honest, lambda _: GREETINGS[name])

    async def play() -> None:
        with anyio.fail_after(BOUND):
            with suppress(ConnectFailed):
                async with fake.connect() as client:
                    await passes(1.0)
                    assert client.session_id
        assert fake.connections <= 100

    play_virtually(backend, fake, play)


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=3)
@pytest.mark.parametrize("name", GREETINGS)
def test_any_answer_to_a_handshake_when_there_is_another_server(
    backend: Backend, name: str
) -> None:
    bad, good = Hostile(honest, lambda _: GREETINGS[name]), Hostile(honest)

    async def play() -> None:
        async def dial(host: str, port: int) -> Any:
            return await (bad if port == 1 else good).dial(host, port)

        async with good, bad.connect("10.0.0.1:1,10.0.0.2:2", dial=dial) as client:
            for _ in range(3):
                await served(client)
                for stream in (*bad.streams, *good.streams):
                    stream.close()
                await passes(0.1)

    play_virtually(backend, bad, play)


# --- zxids ---------------------------------------------------------------------------------------


class Keeper(Hostile):
    """A server that has seen something, and hangs up on clients that have seen more."""

    def __init__(self) -> None:
        super().__init__(honest, self._greet)

    def _greet(self, request: ConnectRequest) -> bytes:
        return b"" if request.last_zxid_seen > 1000 else self._grant(request)


@pytest.mark.parametrize("is_expired", [False, True], ids=["goes on", "is over"])
def test_a_zxid_from_the_future_keeps_us_from_the_other_servers_for_a_while(
    backend: Backend, caplog: pytest.LogCaptureFixture, is_expired: bool
) -> None:
    """They hang up on who has seen more than they. When the session's time is up, it is given up;
    also where there is none any more, since the liar has ended it: that took for ever."""
    liar, honest_one = Hostile(ANSWERS["zxid 2^63 - 1"]), Keeper()
    dead = False

    async def play() -> None:
        nonlocal dead

        async def dial(host: str, port: int) -> Any:
            if dead:
                return await honest_one.dial(host, port)
            return await liar.dial(host, port)

        async with honest_one, liar.connect(dial=dial) as client:
            assert await client.get("/a") == (b"data", STAT)
            assert client.backend.last_zxid == MOST_64
            if is_expired:
                liar.greet = lambda _: greeting(0)
                liar.streams[-1].close()
                await passes(1.0)
                assert client.session_id == 0
            began, dead = anyio.current_time(), True
            liar.streams[-1].close()
            await served(client)
            assert anyio.current_time() - began <= 3 * SESSION
            assert client.backend.last_zxid == 1

    with caplog.at_level(logging.WARNING, "aiolead"):
        play_virtually(backend, liar, play)
    assert any("refuse" in record.getMessage() for record in caplog.records)


# --- what is held --------------------------------------------------------------------------------


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=3)
@pytest.mark.parametrize("name", ANSWERS)
def test_any_answer_to_the_renewals_of_a_lease(backend: Backend, name: str) -> None:
    """What is held is lost in time, or kept where the answer confirms it; the client goes on."""
    fake, answer = Hostile(honest), ANSWERS[name]

    def say(header: RequestHeader) -> bytes | None:
        return answer(header) if header.op in (OpCode.MULTI, OpCode.SYNC) else honest(header)

    async def play() -> None:
        async with fake.connect() as client:
            lost = anyio.Event()
            held = client.backend.lease.hold("/a", lambda _reason: lost.set(), urgent=True)
            fake.answer = say
            with anyio.fail_after(SESSION + 1):
                await lost.wait()
            held.release()
            fake.answer = honest
            await served(client)

    play_virtually(backend, fake, play)
