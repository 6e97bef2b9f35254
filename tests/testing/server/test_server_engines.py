"""The embedded server as ClickHouse Keeper and RaftKeeper: where these differ from ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest
from testing.wire_core import World, create

from aiolead._wire.codes import AddWatchMode, OpCode
from aiolead._wire.jute import Reader, Writer, frame
from aiolead._wire.replies import ErrorResult, MultiReadReply, NamesReply
from aiolead._wire.requests import AddWatch, Check, Create, Exists, GetData, Multi, SetData, WhoAmI
from aiolead._wire.versions import Engine, Feature, Version, release_in
from aiolead.model import OPEN_ACL_UNSAFE, EventType
from aiolead.testing._server.connection import Closing

OLD, MIDDLE, NEW = (24, 8, 0), (26, 3, 0), (26, 9, 0)
KEEPERS = pytest.mark.parametrize("version", [OLD, MIDDLE, NEW], ids=["old", "middle", "new"])
EPHEMERAL, CONTAINER = 1, 4


def keeper(version: Version = OLD) -> World:
    return World(engine=Engine.CLICKHOUSE_KEEPER, version=version)


@KEEPERS
def test_unknown_operation_ends_the_session(version: Version) -> None:
    world = keeper(version)
    client, other = world.client(), world.client()
    client.create("/mine", flags=EPHEMERAL, op=OpCode.CREATE)
    client.feed(client.request(OpCode.WHO_AM_I, WhoAmI().encode()))
    assert client.answers() == []
    assert client.closing is Closing.FLUSH
    world.core.lost(client.connection)
    assert not world.core.sessions.get(client.session_id)
    assert other.ask(Exists("/mine"))[0] == -101


@pytest.mark.parametrize(
    ("op", "since"),
    [
        *((op, MIDDLE) for op in (15, 17, 18, 101, 105, 106)),
        (OpCode.CREATE_CONTAINER, NEW),
        *((op, None) for op in (102, 103, 104, 107)),
    ],
)
def test_operations_of_each_version(op: int, since: Version | None) -> None:
    for version in (OLD, MIDDLE, NEW):
        settings = keeper(version).core.settings
        assert settings.takes(OpCode(op)) is (since is not None and version >= since)


def test_unknown_operation_in_a_transaction_ends_the_session() -> None:
    client = keeper(MIDDLE).client()
    container = Create("/c", b"", OPEN_ACL_UNSAFE, CONTAINER, op=OpCode.CREATE_CONTAINER)
    body = Multi((Check("/", -1), container)).encode()
    client.feed(client.request(OpCode.MULTI, body))
    assert client.closing is Closing.FLUSH


@KEEPERS
def test_lost_connection_ends_the_session(version: Version) -> None:
    world = keeper(version)
    client, other = world.client(), world.client()
    client.create("/mine", flags=EPHEMERAL, op=OpCode.CREATE)
    other.ask(GetData("/mine", watch=True))
    world.core.lost(client.connection)
    assert other.heard() == [(EventType.DELETED, "/mine")]


def test_each_handshake_begins_another_session() -> None:
    world = keeper()
    client = world.client()
    again = world.client(session=client.session)
    assert again.session_id != client.session_id
    assert again.password == bytes(16)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_client_that_has_seen_more_is_served(version: Version) -> None:
    client = keeper(version).connect()
    assert client.greet(seen=1 << 40) is not None


def test_answer_to_the_handshake_has_no_read_only_flag() -> None:
    client = keeper().connect()
    client.feed(client.hello(5.0, (0, bytes(16))))
    (answer,) = client.read()
    assert len(answer) == 36


def test_first_packet_of_another_length_is_no_handshake() -> None:
    client = keeper().connect()
    hello = client.hello(5.0, (0, b""))
    assert len(hello) == 4 + 29
    client.feed(hello)
    assert client.closing is Closing.NOW


def test_czxid_of_a_plain_create_is_the_zxid_of_its_answer() -> None:
    client = keeper().client()
    client.feed(client.request(OpCode.CREATE, create("/a", op=OpCode.CREATE).encode()))
    ((header, _),) = client.answers()
    err, r = client.ask(Exists("/a"))
    assert err == 0
    assert r.stat().czxid == header.zxid


def test_events_of_recursive_watches_have_the_watched_path() -> None:
    """ClickHouse issue 115475."""
    client = keeper(MIDDLE).client()
    client.create("/a")
    client.create("/a/b")
    client.ask(AddWatch("/a", AddWatchMode.RECURSIVE))
    client.ask(GetData("/a/b", watch=True))
    client.feed(client.request(OpCode.SET_DATA, SetData("/a/b", b"x", -1).encode()))
    client.answers()
    assert client.events == [(EventType.DATA_CHANGED, "/a/b"), (EventType.DATA_CHANGED, "/a")]


@pytest.mark.parametrize(
    ("engine", "version", "release"),
    [
        (Engine.CLICKHOUSE_KEEPER, OLD, "ClickHouse Keeper 24.8.0"),
        (Engine.RAFTKEEPER, (2, 3, 0), "RaftKeeper 2.3.0"),
    ],
)
def test_server_reports_its_engine(engine: Engine, version: Version, release: str) -> None:
    for word in (b"srvr", b"stat"):
        client = World(engine=engine, version=version).connect()
        client.feed(word)
        assert str(release_in(client.connection.take())) == release


def test_failed_read_without_a_body_is_read_as_one() -> None:
    """ClickHouse Keeper answers so to several reads: the error is in the header of the result."""
    w = Writer()
    w.multi_header(OpCode.GET_DATA, -101)
    w.multi_header(OpCode.GET_CHILDREN, 0)
    w.texts(("a",))
    w.multi_end()
    results = MultiReadReply.read(Reader(bytes(w.buffer))).results
    assert results == (ErrorResult(-101), NamesReply(["a"]))


# --- RaftKeeper ----------------------------------------------------------------------------------


def raftkeeper(**options: Any) -> World:
    return World(engine=Engine.RAFTKEEPER, version=(2, 3, 0), **options)


def test_raftkeeper_resumes_sessions() -> None:
    world = raftkeeper()
    client = world.client()
    client.create("/mine", flags=EPHEMERAL, op=OpCode.CREATE)
    world.core.lost(client.connection)
    again = world.client(session=client.session)
    assert again.session_id == client.session_id
    assert again.ask(Exists("/mine"))[0] == 0


def test_raftkeeper_refuses_an_expired_session_with_a_protocol_version_of_its_own() -> None:
    client = raftkeeper().connect()
    response = client.greet(session=(99, bytes(16)))
    assert response is not None
    assert (response.protocol_version, response.timeout_ms) == (42, -1)


def test_raftkeeper_does_not_answer_what_it_does_not_know() -> None:
    client = raftkeeper().client()
    client.feed(client.request(OpCode.CREATE2, create("/a").encode()))
    assert client.answers() == []
    assert client.closing is Closing.NO
    assert client.ask(Exists("/a"))[0] == -101


def test_zookeeper_is_what_it_was() -> None:
    settings = World().core.settings
    assert settings.is_zookeeper
    assert settings.keeps_sessions
    assert all(settings.has(f) for f in (Feature.CREATE2, Feature.RECURSIVE_WATCHES))
    client = World().connect()
    client.feed(frame(b"short"))
    assert client.closing is Closing.NOW
