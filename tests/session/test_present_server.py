"""Servers of other engines: requests that they do not know, and sessions that end at once."""

from __future__ import annotations

from typing import Any

import pytest
from session.script import PASSWORD, Script, connected

from aiolead._session.present_server import LOSSES, PresentServer
from aiolead._session.requests import WRITE, Call, close_call, multi_call, no_result
from aiolead._session.suspects import SHORT
from aiolead._wire.codes import OpCode
from aiolead._wire.handshake import ConnectResponse
from aiolead._wire.jute import Reader, encode_record
from aiolead._wire.replies import PathReply
from aiolead._wire.requests import Check, Create, Multi, RemoveWatches
from aiolead._wire.versions import ANY, Engine, Feature, Release, release_in
from aiolead.errors import (
    ConnectionLossError,
    LossReason,
    Outcome,
    RemoteWireError,
    SessionExpiredError,
    UnsupportedError,
)
from aiolead.model import OPEN_ACL_UNSAFE, Created, CreateMode
from aiolead.model import SessionState as S

KEEPER = Engine.CLICKHOUSE_KEEPER


def greeted(password: bytes = bytes(16), session_id: int = 7, **options: Any) -> PresentServer:
    server = PresentServer(**options)
    server.opened("s1:2181")
    server.greeted(ConnectResponse(8000, session_id, password))
    return server


def learn(server: PresentServer, release: Release | None) -> None:
    server.learned(server.name, release, is_connected=True)


def foreign(session_id: int = 7, **options: Any) -> Script:
    """A session with a server of another engine, which does not say which one."""
    script = Script(**options)
    script.open()
    greet(script, session_id)
    return script


def greet(script: Script, session_id: int = 7) -> None:
    script.feed(encode_record(ConnectResponse(8000, session_id, bytes(16))))


def create(script: Script, mode: CreateMode, op: OpCode = OpCode.CREATE2) -> Call[Created]:
    request = Create("/a", b"data", OPEN_ACL_UNSAFE, mode, op=op)

    def parse(r: Reader) -> Created:
        return Created(r.text(), r.stat())

    return script.submit(Call(op, request.encode(), parse, WRITE, "/a"))


# --- which release it is -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "release"),
    [
        (b"Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on", "3.9.3"),
        (b"ClickHouse Keeper version: v24.8.4.13-lts-abc\n", "ClickHouse Keeper 24.8.4"),
        (b"RaftKeeper version: RaftKeeper v2.3.0\n", "RaftKeeper 2.3.0"),
        (b"Another version: 3.9.3", "None"),
        (b"", "None"),
    ],
)
def test_release_in_an_answer_to_srvr(answer: bytes, release: str) -> None:
    assert str(release_in(answer)) == release


@pytest.mark.parametrize("feature", Feature)
def test_later_release_of_an_engine_has_what_earlier_ones_have(feature: Feature) -> None:
    for engine in (Engine.CLICKHOUSE_KEEPER, Engine.RAFTKEEPER):
        versions = [ANY, (1, 0, 0), (24, 8, 0), (25, 12, 0), (26, 6, 0), (26, 7, 0), (99, 0, 0)]
        had = [Release(engine, version).has(feature) for version in versions]
        assert had == sorted(had)


def test_server_with_session_passwords_lacks_nothing() -> None:
    server = greeted(PASSWORD)
    assert not server.is_foreign
    assert not server.is_unknown
    assert server.release is None
    assert server.lacking == frozenset()
    assert server.keeps_sessions


def test_least_is_assumed_of_another_engine_until_its_release_is_known() -> None:
    server = greeted()
    assert server.is_unknown
    assert not server.keeps_sessions
    assert {OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.REMOVE_WATCHES} <= server.lacking
    learn(server, Release(KEEPER, (26, 3, 0)))
    assert not server.is_unknown
    assert OpCode.CREATE2 not in server.lacking
    assert OpCode.CREATE_CONTAINER in server.lacking
    assert not server.keeps_sessions
    learn(server, Release(Engine.RAFTKEEPER, (2, 3, 0)))
    assert OpCode.CREATE2 in server.lacking
    assert server.keeps_sessions
    learn(server, Release(Engine.ZOOKEEPER, (3, 9, 0)))
    assert server.lacking == frozenset()
    assert server.keeps_sessions


def test_release_is_forgotten_with_the_connection() -> None:
    server = greeted()
    learn(server, Release(KEEPER, (26, 9, 0)))
    server.opened("s1:2181")
    server.greeted(ConnectResponse(8000, 8, bytes(16)))
    assert server.is_unknown
    assert OpCode.CREATE2 in server.lacking


def test_arguments_of_connect_settle_the_release() -> None:
    server = greeted(engine=KEEPER, version=(26, 7, 0))
    assert not server.is_unknown
    assert server.given == Release(KEEPER, (26, 7, 0))
    assert OpCode.CREATE_CONTAINER not in server.lacking
    assert OpCode.WHO_AM_I in server.lacking


def test_version_without_an_engine_says_nothing_about_another_engine() -> None:
    assert greeted(PASSWORD, version=(3, 9, 0)).given == Release(Engine.ZOOKEEPER, (3, 9, 0))
    server = greeted(version=(3, 9, 0))
    assert server.given is None
    assert OpCode.CREATE2 in server.lacking


def test_engine_zookeeper_is_believed() -> None:
    server = greeted(engine=Engine.ZOOKEEPER)
    assert not server.is_foreign
    assert server.lacking == frozenset()
    assert server.keeps_sessions


def test_engine_that_was_given_counts_whatever_the_handshake_shows() -> None:
    server = greeted(PASSWORD, engine=KEEPER)
    assert server.is_unknown
    assert not server.keeps_sessions
    assert OpCode.CREATE2 in server.lacking


def test_oldest_keeper_is_assumed_if_only_the_engine_is_given() -> None:
    server = greeted(engine=KEEPER)
    assert server.is_unknown
    assert OpCode.CREATE2 in server.lacking
    learn(server, Release(KEEPER, (26, 7, 0)))
    assert OpCode.CREATE2 not in server.lacking


# --- requests that it does not know --------------------------------------------------------------


@pytest.mark.parametrize("mode", [CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT])
def test_plain_create_gives_the_czxid_of_its_transaction(mode: CreateMode) -> None:
    script = foreign()
    script.sent()
    call = create(script, mode)
    packet = script.one()
    assert packet.op is OpCode.CREATE
    assert Create.read(Reader(packet.body), OpCode.CREATE).data == b"data"
    path = "/a0000000003" if mode.is_sequential else "/a"
    script.reply(packet.xid, PathReply(path), zxid=0x1234)
    created, stat = call.result()
    assert created == path
    assert (stat.czxid, stat.mzxid, stat.pzxid) == (0x1234, 0x1234, 0x1234)
    assert (stat.version, stat.num_children, stat.data_length) == (0, 0, 4)
    assert stat.ephemeral_owner == (7 if mode.is_ephemeral else 0)


def test_malformed_answer_to_a_plain_create_ends_the_connection() -> None:
    script = foreign()
    script.sent()
    call = create(script, CreateMode.PERSISTENT)
    packet = script.one()
    with pytest.raises(RemoteWireError):
        script.reply(packet.xid)
    assert isinstance(call.error(), RemoteWireError)


@pytest.mark.parametrize("op", [OpCode.CREATE_CONTAINER, OpCode.ADD_WATCH, OpCode.CHECK_WATCHES])
def test_other_unknown_operation_is_refused_and_not_sent(op: OpCode) -> None:
    script = foreign()
    script.sent()
    call = script.submit(Call(op, b"", no_result, path="/a"))
    assert script.sent() == []
    error = call.error()
    assert isinstance(error, UnsupportedError)
    assert error.outcome is Outcome.NOT_APPLIED
    assert "connect(server_version=" in str(error)
    assert 'engine="..."' in str(error)


def test_removal_of_a_watch_is_done_without_being_sent() -> None:
    script = foreign()
    script.sent()
    body = RemoveWatches("/a", 2).encode()
    call = script.submit(Call(OpCode.REMOVE_WATCHES, body, no_result))
    assert script.sent() == []
    assert call.is_done
    assert call.error() is None


def test_transaction_with_an_unknown_operation_is_refused() -> None:
    script = foreign()
    script.sent()
    container = Create("/a", b"", OPEN_ACL_UNSAFE, CreateMode.CONTAINER, op=OpCode.CREATE_CONTAINER)
    refused = script.submit(multi_call(Multi((Check("/", -1), container)), ["/", "/a"]))
    sent = script.submit(multi_call(Multi((Check("/", -1),)), ["/"]))
    assert script.ops() == [OpCode.MULTI]
    assert isinstance(refused.error(), UnsupportedError)
    assert not sent.is_done


def test_queued_create_is_sent_as_the_server_of_its_connection_knows_it() -> None:
    script = Script()
    create(script, CreateMode.PERSISTENT)
    script.open()
    greet(script)
    assert script.ops() == [OpCode.CREATE]
    script = Script()
    create(script, CreateMode.PERSISTENT)
    script.connect()
    assert script.ops() == [OpCode.CREATE2]


# --- sessions ------------------------------------------------------------------------------------


def test_session_of_another_engine_ends_with_its_connection() -> None:
    script = foreign()
    read = script.get("/a")
    script.sent()
    script.disconnect()
    assert script.states == [(S.CONNECTED, 7), (S.SUSPENDED, 7), (S.EXPIRED, 7), (S.CONNECTING, 0)]
    assert isinstance(read.error(), SessionExpiredError)
    request = script.open()
    assert (request.session_id, request.password) == (0, bytes(16))
    greet(script, 8)
    assert script.states[-1] == (S.CONNECTED, 8)


def test_hold_is_lost_with_the_connection_to_another_engine() -> None:
    script = foreign()
    holder = script.hold()
    assert holder.lost == []
    script.disconnect()
    assert holder.lost == [(LossReason.EXPIRED, script.now)]


def test_session_of_an_engine_that_keeps_sessions_is_resumed() -> None:
    script = foreign()
    learn(script.machine.server, Release(Engine.RAFTKEEPER, (2, 3, 0)))
    script.disconnect()
    assert script.states[-1] == (S.SUSPENDED, 7)
    assert script.open().session_id == 7
    greet(script)
    assert script.states[-1] == (S.CONNECTED, 7)


def test_closed_client_of_another_engine_stays_closed() -> None:
    script = foreign()
    script.submit(close_call())
    script.machine.closed()
    script.disconnect()
    assert script.states[-1] == (S.CLOSED, 7)


# --- experience ----------------------------------------------------------------------------------


def lose_over(script: Script, op: OpCode = OpCode.CREATE2) -> Call[Any]:
    """A request is sent, and the server closes the connection."""
    call = create(script, CreateMode.PERSISTENT, op)
    script.sent()
    script.now += 0.01
    script.machine.connection_lost(script.now, "the server closed the connection")
    script.down = True
    return call


def test_operation_that_costs_two_connections_is_not_sent_there_again() -> None:
    script = connected()
    learn(script.machine.server, None)
    for _ in range(LOSSES):
        assert isinstance(lose_over(script).error(), ConnectionLossError)
        script.connect()
    create(script, CreateMode.PERSISTENT)
    assert script.ops() == [OpCode.CREATE]


def test_operation_is_refused_once_it_is_known_to_be_unknown() -> None:
    script = connected()
    learn(script.machine.server, None)
    for _ in range(LOSSES):
        lose_over(script, OpCode.CREATE_TTL)
        script.connect()
    call = create(script, CreateMode.PERSISTENT, OpCode.CREATE_TTL)
    assert script.sent() == []
    assert "has closed the connection on each CREATE_TTL" in str(call.error())


def test_answered_operation_is_known() -> None:
    script = connected()
    lose_over(script)
    script.connect()
    create(script, CreateMode.PERSISTENT)
    packet = script.one()
    script.reply(packet.xid, err=-110)
    lose_over(script)
    script.connect()
    create(script, CreateMode.PERSISTENT)
    assert script.ops() == [OpCode.CREATE2]


def test_losses_far_apart_say_nothing() -> None:
    script = connected()
    for _ in range(LOSSES):
        lose_over(script)
        script.now += 1000
        script.connect()
    create(script, CreateMode.PERSISTENT)
    assert script.ops() == [OpCode.CREATE2]


def meet(server: PresentServer, name: str = "s1:2181") -> None:
    server.opened(name)
    server.greeted(ConnectResponse(8000, 7, PASSWORD))


def a_create(size: int = 0) -> Call[Any]:
    call: Call[Any] = Call(OpCode.CREATE2, b"", no_result, path="/a")
    call.size = size or call.size
    return call


def lose_connection(server: PresentServer) -> None:
    """The server closes the connection with a create in flight, and the client is back."""
    server.closed([a_create()], 0.0, 8.0)
    meet(server)


def test_long_request_says_nothing_about_its_operation() -> None:
    """A server may close the connection because of the length."""
    server = greeted(PASSWORD)
    call = a_create(size=SHORT + 1)
    for _ in range(LOSSES):
        server.closed([call], 0.0, 8.0)
        assert not server.suspected
        meet(server, "s1:2181")
    assert server.lacking == frozenset()


def test_missing_operation_is_remembered_for_its_server() -> None:
    server = greeted(PASSWORD)
    learn(server, None)
    for _ in range(LOSSES):
        lose_connection(server)
    assert server.lacking == {OpCode.CREATE2}
    meet(server, "s2:2181")
    assert server.lacking == frozenset()


def test_suspected_server_is_worth_asking() -> None:
    server = greeted(PASSWORD)
    assert not server.is_unknown
    lose_connection(server)
    assert server.is_unknown
    learn(server, Release(Engine.ZOOKEEPER, (3, 9, 3)))
    assert not server.is_unknown
    server.closed([a_create()], 0.0, 8.0)
    assert server.lacking == frozenset()


def test_nothing_is_concluded_before_a_server_has_said_what_it_is() -> None:
    """Two connections may be lost before its answer, for other reasons than the operation."""
    server = greeted(PASSWORD)
    for _ in range(2 * LOSSES):
        lose_connection(server)
    assert server.lacking == frozenset()
    assert server.is_unknown
    server.learned("s1:2181", None, is_connected=False)
    lose_connection(server)
    assert server.lacking == {OpCode.CREATE2}


def test_answer_of_a_zookeeper_server_counts_after_its_connection() -> None:
    server = greeted(PASSWORD)
    server.closed([a_create()], 0.0, 8.0)
    meet(server, "s2:2181")
    server.learned("s1:2181", Release(Engine.ZOOKEEPER, (3, 9, 3)), is_connected=False)
    assert server.release is None
    server.learned("s1:2181", None, is_connected=False)
    for _ in range(2 * LOSSES):
        meet(server, "s1:2181")
        server.closed([a_create()], 0.0, 8.0)
    assert server.lacking == frozenset()


def test_zookeeper_server_that_says_so_late_lacks_nothing() -> None:
    """It may have been too slow to answer at first."""
    server = greeted(PASSWORD)
    learn(server, None)
    for _ in range(LOSSES):
        lose_connection(server)
    assert server.lacking == {OpCode.CREATE2}
    assert server.is_unknown
    learn(server, Release(Engine.ZOOKEEPER, (3, 9, 3)))
    assert not server.is_unknown
    assert server.lacking == frozenset()


def test_zookeeper_server_that_says_so_is_not_suspected() -> None:
    server = greeted(PASSWORD)
    learn(server, Release(Engine.ZOOKEEPER, (3, 9, 3)))
    for _ in range(2 * LOSSES):
        server.closed([a_create()], 0.0, 8.0)
    assert not server.suspected
    assert server.lacking == frozenset()
