"""Servers that are partitioned from the quorum, and how a session uses them."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from kit.clients import Owner
from session.script import PASSWORD, STAT, Script, Watcher

from aiolead._session.requests import UNPROVEN_WRITE, Call
from aiolead._session.watches import WatchKind
from aiolead._wire.codes import REFUSED_READ_ONLY, OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import encode_record, encode_reply
from aiolead._wire.replies import ReplyHeader, StatReply
from aiolead.errors import NotReadOnlyError, RemoteWireError, SessionExpiredError
from aiolead.model import Auth, EventType
from aiolead.model import SessionState as S


def connect_read_only(script: Script, session_id: int = 70) -> ConnectRequest:
    """A read-only server accepts the client."""
    request = script.open()
    script.feed(encode_record(ConnectResponse(8000, session_id, PASSWORD, read_only=True)))
    return request


def submit(script: Script, op: OpCode, **options: Any) -> Call[object]:
    return script.submit(Call(op, b"", lambda _reader: None, path="/a", **options))


@pytest.fixture
def script() -> Script:
    """A session that read-only servers may serve."""
    return Script(read_only=True)


@pytest.fixture
def partitioned(script: Script) -> Script:
    """The session, on a read-only server."""
    connect_read_only(script)
    return script


# --- the handshake -----------------------------------------------------------------------------


def test_handshake_says_whether_the_client_accepts_read_only_servers(script: Script) -> None:
    assert script.open().read_only
    assert not Script().open().read_only


def test_read_only_server_has_a_state_of_its_own(partitioned: Script) -> None:
    assert partitioned.states == [(S.READ_ONLY, 70)]
    assert partitioned.machine.is_read_only
    assert partitioned.machine.credentials is None  # the session cannot be resumed elsewhere


def test_session_of_the_ensemble_is_never_presented_to_one(script: Script) -> None:
    """Its answers about the session's znodes, and those ahead in a queue, may be undone."""
    script.connect(7)
    script.disconnect()
    request = script.open()
    assert (request.session_id, request.read_only) == (7, False)
    with pytest.raises(RemoteWireError, match="not asked for"):
        script.feed(encode_record(ConnectResponse(8000, 7, PASSWORD, read_only=True)))
    script.disconnect()
    assert script.machine.session_id == 7


def test_read_only_server_is_refused_by_clients_that_did_not_ask_for_it() -> None:
    script = Script()
    with pytest.raises(RemoteWireError, match="not asked for"):
        connect_read_only(script)
    assert script.states == []


def test_server_that_cannot_create_local_sessions_says_why(script: Script) -> None:
    """ZooKeeper 3.8, where local sessions are off: it answers the handshake with an error."""
    script.open()
    with pytest.raises(RemoteWireError, match=r"error -119 .* needs localSessionsEnabled"):
        script.feed(encode_reply(ReplyHeader(0, 7, NotReadOnlyError.code), None))


@pytest.mark.parametrize("credentials", ["none", "accepted", "pending"])
def test_local_session_expires_with_its_connection(credentials: str) -> None:
    auth = () if credentials == "none" else (Auth.digest("u", "p"),)
    script = Script(read_only=True, auth=auth)
    connect_read_only(script)
    assert script.states == ([] if auth else [(S.READ_ONLY, 70)])
    if credentials == "accepted":
        script.serve()
        assert script.states == [(S.READ_ONLY, 70)]
    script.disconnect()
    assert script.states[-2:] == [(S.EXPIRED, 70), (S.CONNECTING, 0)]
    request = script.connect(8)
    assert (request.session_id, request.read_only) == (0, True)
    script.serve()
    assert script.states[-1] == (S.CONNECTED, 8)


# --- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", sorted(REFUSED_READ_ONLY), ids=lambda op: op.name)
def test_write_is_refused_and_not_sent(partitioned: Script, op: OpCode) -> None:
    error = submit(partitioned, op, kind=UNPROVEN_WRITE).error()
    assert isinstance(error, NotReadOnlyError)
    assert error.path == "/a"
    assert partitioned.sent() == []


def test_waiting_writes_are_refused_and_waiting_reads_are_sent(script: Script) -> None:
    write = submit(script, OpCode.SET_DATA, kind=UNPROVEN_WRITE)
    submit(script, OpCode.EXISTS)
    connect_read_only(script)
    assert isinstance(write.error(), NotReadOnlyError)
    assert script.ops() == [OpCode.EXISTS]


def test_reads_are_sent_and_repeated_on_the_next_server(partitioned: Script) -> None:
    read = submit(partitioned, OpCode.EXISTS)
    assert partitioned.ops() == [OpCode.EXISTS]
    partitioned.disconnect()
    assert not read.is_done
    partitioned.connect(8)
    assert partitioned.ops() == [OpCode.EXISTS]


def test_watches_end_with_the_connection(partitioned: Script) -> None:
    watcher = Watcher(partitioned)
    arming = partitioned.machine.watches.begin(watcher.slot, "/a", "/a", WatchKind.DATA)
    submit(partitioned, OpCode.EXISTS, arming=arming)
    partitioned.sent()
    partitioned.reply(1, StatReply(STAT))
    partitioned.disconnect()
    assert watcher.types == [EventType.NONE]


def test_closed_client_stays_closed(partitioned: Script) -> None:
    partitioned.machine.closed()
    partitioned.disconnect()
    assert partitioned.machine.state is S.CLOSED


def test_closed_session_of_the_ensemble_is_not_presented_to_one(script: Script) -> None:
    script.connect(7)
    script.disconnect()
    goodbye = script.machine.close(script.now)
    script.machine.give_up_session()
    assert isinstance(goodbye.error(), SessionExpiredError)


# --- the lease ---------------------------------------------------------------------------------


def test_read_only_server_proves_and_renews_nothing(partitioned: Script) -> None:
    script, leases, lost = partitioned, partitioned.leases, []
    assert leases.deadline == -inf
    options: dict[str, Any] = {"urgent": True, "resign_on_disconnect": False, "now": script.now}
    leases.hold("/a", Owner(lost.append), **options)
    script.tick()
    assert len(lost) == 1
    assert script.sent() == []
    for _ in range(8):
        script.now += 1.0
        script.serve()
        script.tick()
    assert script.cuts == []  # pings are answered
    assert leases.deadline == -inf


def test_proof_of_an_earlier_session_does_not_count(script: Script) -> None:
    script.connect(7)
    assert script.deadline > script.now
    script.disconnect()
    script.machine.give_up_session()
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]
    connect_read_only(script)
    assert script.deadline == -inf
