"""Servers that answer with what no server answers: valid frames, absurd fields.

In each case, a request ends within a bounded time, with a value of its type or an error of aiolead,
and the client goes on with the next server. On virtual time, waits are exact and cost nothing.
Bytes that make no sense at all are in tests/parsing/test_fuzz.py.
"""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from client.fake_server import STAT, FakeServer, hang_up, ok, usual
from kit.clients import Owner, eventually
from kit.virtual_time import SESSION, passes, virtually

import aiolead
from aiolead import SASL, Auth, CreateMode, admin
from aiolead._wire.codes import XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES, OpCode
from aiolead._wire.config_text import MAX_SERVERS
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Record, encode_record, encode_reply, frame
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

Answer = Callable[[RequestHeader], bytes | None]

MOST, LEAST = (1 << 31) - 1, -(1 << 31)
MOST_64, LEAST_64 = (1 << 63) - 1, -(1 << 63)
ABSURD_STAT = Stat(LEAST_64, MOST_64, LEAST_64, MOST_64, LEAST, LEAST, LEAST, -1, LEAST, LEAST, 0)
MEGABYTE = 1 << 20

BOUND = 6 * SESSION
"""How long any request may take whatever a server does: waiting for a connection, being sent again
for a while, and the last answer."""


# --- what is asked, and what is answered ---------------------------------------------------------


async def _watched(client: aiolead.Client) -> object:
    with client.backend.make_watch() as watch:
        return await client.get("/a", watch=watch)


async def _reads(client: aiolead.Client) -> object:
    return await client.reads().get("/a").get_children("/a")


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
    "get_ephemerals": lambda c: admin.get_ephemerals(c, "/a"),
    "whoami": admin.whoami,
    "get_config": admin.get_config,
    "reconfig": lambda c: admin.reconfig(c, leaving=[7]),
    "reads": _reads,
}


def body(record: Record | None = None, *, err: int = 0, zxid: int = 1) -> Answer:
    return lambda header: encode_reply(ReplyHeader(header.xid, zxid, err), record)


def multi(*results: PathReply | StatReply | DoneResult | ErrorResult) -> Answer:
    ops = {PathReply: OpCode.CREATE, StatReply: OpCode.SET_DATA, ErrorResult: OpCode.ERROR}
    return body(
        MultiReply(
            [
                (each.op if isinstance(each, DoneResult) else ops[type(each)], each)
                for each in results
            ]
        )
    )


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


DELETED = DoneResult(OpCode.DELETE)
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
    "results of another transaction": multi(*[DoneResult(OpCode.CHECK)] * 3),
    "results in another order": multi(StatReply(STAT), DELETED, PathReply("/a")),
    "the right results with a path elsewhere": multi(
        PathReply(ELSEWHERE), StatReply(STAT), DELETED
    ),
    "failed results with the code for success": multi(*[ErrorResult(0)] * 3),
    "failed results with an unknown code": multi(*[ErrorResult(MOST)] * 3),
    "ten thousand results": multi(*[ErrorResult(-1)] * 10_000),
    "failed reads with an unknown code": body(MultiReadReply((ErrorResult(LEAST),) * 2)),
    "reads in another order": body(
        MultiReadReply((NamesReply(NAMES), DataReply(b"", ABSURD_STAT)))
    ),
    **{f"error {code}": body(err=code) for code in (1, MOST, LEAST, -1, -2, -8, -109, -9999)},
    "connection loss as an answer": body(err=-4),
    "zxid 2^63 - 1": lambda header: data(header, zxid=MOST_64),
    "zxid -2^63": lambda header: data(header, zxid=LEAST_64),
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


def data(header: RequestHeader, *, zxid: int) -> bytes:
    return ok(header, DataReply(b"data", STAT) if header.op == OpCode.GET_DATA else None, zxid=zxid)


SKELETON = {OpCode.PING, OpCode.CLOSE_SESSION, OpCode.SET_WATCHES, OpCode.SET_WATCHES2}
"""The operations that have to work for the client to be connected at all."""


def honest(header: RequestHeader) -> bytes | None:
    return ok(header, NumberReply(0)) if header.op == OpCode.ADD_WATCH else usual(header)


def only_to(ops: set[OpCode], answer: Answer) -> Answer:
    """Answers honestly, except to some operations."""
    return lambda header: (answer if header.op in ops else honest)(header)


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
"""The condition for a value, where the type of an answer's record does not say so by itself."""


async def served(client: aiolead.Client) -> None:
    """Asks until there is an answer."""
    with anyio.fail_after(BOUND):
        while True:
            with suppress(ConnectionLossError, RemoteWireError, SessionExpiredError):
                assert await client.get("/a") == (b"data", STAT)
                return


def each_of(table: Mapping[str, object]) -> Callable[..., Any]:
    """A test for each name in a table, of which `make test` runs a third."""
    marks = pytest.mark.exhaustive(
        "every answer is tried on one of several kinds of requests", one_in=3
    )
    return lambda test: marks(pytest.mark.parametrize("name", table)(test))


@each_of(ANSWERS)
@virtually
async def test_any_answer_to_any_request_ends_it(name: str) -> None:
    """Each request ends, with a value or an error; then the client serves as before."""
    hostile = only_to(set(OpCode) - SKELETON, ANSWERS[name])
    async with (
        FakeServer(honest) as other,
        FakeServer(honest) as fake,
        other.connect() as unaffected,
        fake.connect() as client,
        client.watch("/a", recursive=True),
    ):
        session = unaffected.session_id
        for what, ask in REQUESTS.items():
            fake.answer = hostile
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


@each_of(ANSWERS)
@virtually
async def test_any_answer_to_credentials_ends_add_auth(name: str) -> None:
    """They are shown to each server: `add_auth` ends, and so may the client, as refused."""
    async with FakeServer() as fake, fake.connect() as client:
        fake.answer = only_to({OpCode.AUTH}, ANSWERS[name])
        with anyio.fail_after(BOUND):
            try:
                await client.add_auth(Auth.digest("user", "password"))
            except AuthFailedError:
                assert client.state is SessionState.AUTH_FAILED
            except (ConnectionLossError, RemoteWireError):
                assert not client.state.is_final


TOKENS: dict[str, Answer] = {
    **ANSWERS,
    "an empty token": body(TokenReply(b"")),
    "a token of a megabyte": body(TokenReply(b'nonce="' + b"x" * MEGABYTE)),
    "a token of commas": body(TokenReply(b"," * MEGABYTE)),
    "a token of quotes": body(TokenReply(b'"' * MEGABYTE)),
    "a token that is no text": body(TokenReply(b"\xff\x00" * 100)),
    "ten thousand realms": body(TokenReply(b'realm="a",' * 10_000)),
}


@each_of(TOKENS)
@virtually
async def test_any_answer_to_a_login_ends_it(name: str) -> None:
    async with FakeServer(only_to({OpCode.SASL}, TOKENS[name])) as fake:
        with anyio.fail_after(BOUND), suppress(AuthFailedError, ConnectFailed):
            async with fake.connect(sasl=SASL.digest_md5("user", "password")):
                pass


# --- handshakes ----------------------------------------------------------------------------------


def greeting(timeout: int = 8000, session: int = 9, password: bytes = b"p" * 16) -> bytes:
    return encode_record(ConnectResponse(timeout, session, password))


GREETINGS: dict[str, bytes | None] = {
    "nothing": frame(b""),
    "a byte": frame(b"\0"),
    "zeros": frame(bytes(200)),
    "ones": frame(b"\xff" * 200),
    "a reply": encode_reply(ReplyHeader(1, MOST_64, 0)),
    "a session of nobody": greeting(session=0),
    "a negative session": greeting(session=LEAST_64),
    "no leader": encode_record(ConnectResponse(8000, -1, bytes(16), protocol_version=42)),
    "a password of zeros": greeting(password=bytes(16)),
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


@each_of(GREETINGS)
@virtually
async def test_any_answer_to_a_handshake_ends_connecting(name: str) -> None:
    """The server is asked now and then, and not as fast as it answers."""
    async with FakeServer(honest, lambda _: GREETINGS[name]) as fake:
        with anyio.fail_after(BOUND), suppress(ConnectFailed):
            async with fake.connect() as client:
                await passes(1.0)
                assert client.session_id
        assert fake.connections <= 100


@each_of(GREETINGS)
@virtually
async def test_another_server_is_used_whatever_one_answers_to_a_handshake(name: str) -> None:
    async with FakeServer(honest, lambda _: GREETINGS[name]) as bad, FakeServer(honest) as good:

        async def dial(host: str, port: int) -> Any:
            return await (bad if port == 1 else good).dial(host, port)

        # With this seed, both servers are tried first at times.
        rng = random.Random(1)
        async with bad.connect("10.0.0.1:1,10.0.0.2:2", dial=dial, rng=rng) as client:
            for _ in range(3):
                await served(client)
                for stream in (*bad.streams, *good.streams):
                    stream.close()
                await passes(0.1)


# --- zxids ---------------------------------------------------------------------------------------


class Keeper(FakeServer):
    """A server that has seen something, and hangs up on clients that have seen more."""

    def _grant(self, request: ConnectRequest) -> bytes:
        return b"" if request.last_zxid_seen > 1000 else super()._grant(request)


@pytest.mark.parametrize("is_expired", [False, True], ids=["goes on", "is over"])
@virtually
async def test_zxid_from_the_future_costs_the_session_at_most(
    caplog: pytest.LogCaptureFixture, is_expired: bool
) -> None:
    """Honest servers hang up on a client that has seen more than they have. When the session's time
    is up, it is given up. That holds also if the lying server has ended the session before."""
    caplog.set_level(logging.WARNING, "aiolead")
    async with FakeServer(ANSWERS["zxid 2^63 - 1"]) as liar, Keeper(honest) as keeper:
        is_dead = False

        async def dial(host: str, port: int) -> Any:
            return await (keeper if is_dead else liar).dial(host, port)

        async with liar.connect(dial=dial) as client:
            assert await client.get("/a") == (b"data", STAT)
            assert client.backend.last_zxid == MOST_64
            if is_expired:
                liar.greet = lambda _: greeting(0)
                liar.streams[-1].close()
                await passes(1.0)
                assert client.session_id == 0
            began, is_dead = anyio.current_time(), True
            liar.streams[-1].close()
            await served(client)
            assert anyio.current_time() - began <= 3 * SESSION
            assert client.backend.last_zxid == 1
    assert any("refuse" in record.getMessage() for record in caplog.records)


# --- renewals ------------------------------------------------------------------------------------


@each_of(ANSWERS)
@virtually
async def test_any_answer_to_renewals_ends_or_confirms_a_hold(name: str) -> None:
    """A hold is lost in time, or kept where the answer confirms it; the client goes on."""
    async with FakeServer(honest) as fake, fake.connect() as client:
        lost = anyio.Event()
        held = client.backend.lease.hold("/a", Owner(lambda _reason: lost.set()), urgent=True)
        fake.answer = only_to({OpCode.MULTI, OpCode.SYNC}, ANSWERS[name])
        with anyio.fail_after(SESSION + 1):
            await lost.wait()
        held.release()
        fake.answer = honest
        await served(client)


# --- configurations of the ensemble --------------------------------------------------------------


def member(number: object, host: str, port: object = 2181) -> str:
    return f"server.{number}={host}:2888:3888:participant;{host}:{port}"


REFUSED: dict[str, bytes] = {
    "forty thousand servers": "\n".join(member(n, "h") for n in range(40_000)).encode(),
    "a number of 5,000 digits": member("1" * 5_000, "zk1").encode(),
    "a port of 5,000 digits": member(1, "zk1", "1" * 5_000).encode(),
    "a name of a megabyte": member(1, "x" * 300_000).encode(),
    "a name with null in it": member(1, "zk\0one").encode(),
    "a name with controls": member(1, "zk\x1b[2Jone").encode(),
    "an address with null in it": member(1, "[::1\0]").encode(),
    "a zone with null in it": member(1, "[fe80::1%\0]").encode(),
    "no UTF-8": b"server.1=\xff\xfe:1:2;3",
    "semicolons": b"server.1=" + b";" * MEGABYTE,
    "spaces": b"server.1" + b" " * MEGABYTE + b"\nserver.2=",
}
TAKEN: dict[str, bytes] = {
    # Such names are resolved to nothing, without asking anybody.
    "a name with a long label": member(1, "x" * 64 + ".example").encode(),
    "a name of dots": member(1, "...").encode(),
    "a name of letters that are none": member(1, "\ufffd\u0378").encode(),
    "one server, a thousand times": "\n".join([member(1, "127.0.0.1")] * 999).encode(),
    "addresses": b"server.1=" + b"|".join([b"127.0.0.1:1:2"] * 50_000) + b";2181",
    "line separators": "\u2028".join(member(n, "127.0.0.1") for n in range(3)).encode(),
    "a version of a megabyte": b"version=" + b"f" * MEGABYTE,
    "zeros": bytes(MEGABYTE),
}


def telling(config: bytes) -> Answer:
    """A server that says this of its ensemble."""
    return only_to({OpCode.GET_DATA}, lambda header: ok(header, DataReply(config, STAT)))


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=4)
@pytest.mark.parametrize("name", [*REFUSED, *TAKEN])
async def test_client_goes_on_with_any_configuration_of_the_ensemble(name: str) -> None:
    """With the servers of the configuration, or with those that it has."""
    options: dict[str, Any] = {"observe_config": True, "session_timeout": 1.0}
    async with (
        FakeServer(telling((REFUSED | TAKEN)[name])) as fake,
        fake.connect(**options) as client,
    ):
        await eventually(lambda: any(r.op == OpCode.GET_DATA for r in fake.requests), "followed")
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        if name in REFUSED:
            with pytest.raises(RemoteWireError, match="no configuration of an ensemble") as caught:
                await admin.get_config(client)
            assert len(str(caught.value)) < 500
        fake.streams[-1].close()
        if name in REFUSED:
            await eventually(lambda: client.state is SessionState.CONNECTED, "connected again")
        else:
            await anyio.sleep(0.25)
        assert not client.state.is_final
        # A list of servers that the program gives brings it back, whatever was taken.
        client.update_hosts("127.0.0.1:1")
        await eventually(lambda: client.state is SessionState.CONNECTED, "connected in the end")


async def test_configuration_may_have_as_many_servers_as_allowed() -> None:
    members = [member(n, f"10.0.{n // 256}.{n % 256}") for n in range(MAX_SERVERS)]
    async with FakeServer(telling("\n".join(members).encode())) as fake, fake.connect() as client:
        assert len((await admin.get_config(client)).servers) == MAX_SERVERS


# --- session timeouts that no client has asked for ---------------------------------------------

FOREVER = 0x7FFF_FFFF
"""The longest timeout that a server can grant, in milliseconds: 24 days."""


@asynccontextmanager
async def granting(timeout: int, answer: Answer = usual) -> AsyncIterator[FakeServer]:
    async with FakeServer(answer) as fake:
        fake.grant = timeout
        yield fake


@asynccontextmanager
async def lasts_at_most(seconds: float) -> AsyncIterator[None]:
    began = anyio.current_time()
    yield
    assert anyio.current_time() - began <= seconds


async def reached(client: aiolead.Client, wanted: SessionState) -> None:
    """Waits until the session comes into a state."""
    there = anyio.Event()
    client.backend.subscribe(lambda state, _session: state is wanted and there.set())
    await there.wait()


@pytest.mark.parametrize(("holds", "longest"), [(False, SESSION / 3), (True, SESSION * 4 / 3)])
@virtually
async def test_closing_waits_as_long_as_was_asked_for(holds: bool, longest: float) -> None:
    """For the answer, and for holders. Its waits are shielded, so that SIGTERM and SIGINT would do
    nothing for as long."""
    unanswered = set() if holds else {OpCode.CLOSE_SESSION}
    async with granting(FOREVER, only_to(unanswered, lambda _: None)) as fake:
        async with lasts_at_most(longest + 0.1), fake.connect() as client:
            if holds:
                client.backend.lease.hold("/a", Owner())  # it is never released


@virtually
async def test_silent_server_is_left_as_soon_as_was_asked_for() -> None:
    async with granting(FOREVER, lambda _header: None) as fake, fake.connect() as client:
        async with lasts_at_most(SESSION):
            await reached(client, SessionState.SUSPENDED)


@virtually
async def test_request_waits_for_a_server_as_long_as_was_asked_for() -> None:
    async with granting(FOREVER) as fake, fake.connect() as client:
        hang_up(fake)
        await passes(0.1)
        async with lasts_at_most(SESSION + 0.1):
            with pytest.raises(ConnectionLossError):
                await client.set("/a", b"")


@virtually
async def test_recipes_get_the_timeout_that_was_asked_for() -> None:
    async with granting(FOREVER) as fake, fake.connect() as client:
        assert client.session_timeout == SESSION
        assert client.statistics().session_timeout == FOREVER / 1000


@virtually
async def test_session_that_every_server_refuses_ends_after_a_minute() -> None:
    """If more was granted than was asked for. The servers may keep the session for so long, but the
    program did not ask for that."""
    async with granting(FOREVER) as fake, fake.connect() as client:
        hang_up(fake)
        async with lasts_at_most(65):
            await reached(client, SessionState.EXPIRED)


@virtually
async def test_hold_is_lost_a_minute_after_the_last_answer_of_a_server() -> None:
    async with granting(FOREVER) as fake, fake.connect() as client:
        lost = anyio.Event()
        hold = client.backend.lease.hold("/a", Owner(lambda _reason: lost.set()))
        assert client.backend.lease.remaining() <= 60
        fake.greet = lambda _: None
        fake.streams[-1].close()
        async with lasts_at_most(60):
            await lost.wait()
        hold.release()


@pytest.mark.parametrize(
    ("granted", "is_reported"),
    [(FOREVER, True), (81_000, True), (700, True), (4_000, False), (8_000, False), (40_000, False)],
)
@virtually
async def test_grant_that_is_far_off_is_reported_once(
    caplog: pytest.LogCaptureFixture, granted: int, is_reported: bool
) -> None:
    caplog.set_level(logging.WARNING, "aiolead")
    async with granting(granted) as fake, fake.connect():
        await passes(1.0)
        for _ in range(3 if is_reported else 0):
            fake.streams[-1].close()
            await passes(1.0)
        assert len(fake.handshakes) == (4 if is_reported else 1)
    if is_reported:
        (said,) = [
            each for each in map(logging.LogRecord.getMessage, caplog.records) if "grant" in each
        ]
        assert f"{granted / 1000:g} s" in said
        assert "8 s were asked for" in said
    else:
        assert not caplog.records


@pytest.mark.parametrize("granted", [1, 99])
@virtually
async def test_server_that_grants_next_to_nothing_is_refused(granted: int) -> None:
    """Pings and renewals follow from the timeout: with 1 ms the client would do nothing else."""
    async with granting(granted) as fake:
        with pytest.raises(ConnectFailed) as caught:
            async with fake.connect(connect_timeout=10.0):
                pass
        ((_, why),) = caught.value.attempts
        assert isinstance(why, RemoteWireError)
        assert f"{granted / 1000:g} seconds" in str(why)
        # There was no ping, and there were no more attempts than with a server that hangs up.
        assert not fake.requests
        assert fake.connections <= 40


@virtually
async def test_shortest_grant_costs_a_few_pings_a_second() -> None:
    async with granting(100) as fake, fake.connect():
        await passes(10.0)
        assert len([each for each in fake.requests if each.xid == XID_PING]) <= 10 * 31


@virtually
async def test_session_goes_on_at_a_server_that_grants_enough() -> None:
    async with granting(8_000) as fake, fake.connect() as client:
        fake.grant = 1
        fake.streams[-1].close()
        await passes(2.0)
        assert client.state is SessionState.SUSPENDED
        fake.grant = 8_000
        await client.get("/a")
        assert client.session_id == 7
        assert client.session_timeout == 8.0


@pytest.mark.parametrize("granted", [0, -1, -0x8000_0000])
@virtually
async def test_grant_of_no_time_ends_the_session(granted: int) -> None:
    async with granting(8_000) as fake, fake.connect() as client:
        states: list[SessionState] = []
        client.backend.subscribe(lambda state, _session: states.append(state))
        fake.grant = granted
        fake.streams[-1].close()
        await passes(0.5)
        fake.grant = 8_000
        await client.get("/a")
        assert states[:2] == [SessionState.SUSPENDED, SessionState.EXPIRED]


@virtually
async def test_password_that_no_server_would_take_back_is_refused() -> None:
    """It is part of every handshake. With one of a megabyte, all other servers would refuse."""
    async with FakeServer() as fake:
        fake.password = bytes(MEGABYTE)
        with pytest.raises(ConnectFailed) as caught:
            async with fake.connect(connect_timeout=2.0):
                pass
        ((_, why),) = caught.value.attempts
        assert isinstance(why, RemoteWireError)
        assert "a password of 1048576 bytes" in str(why)
