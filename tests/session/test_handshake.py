"""The handshake: new, moved, resumed and expired sessions, and what is sent around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from session.script import NO_NODE, PASSWORD, START, Script, connected, failure_of

from aiolead._session.requests import MAX_XID, WRITE, Call
from aiolead._wire.codes import XID_AUTH, XID_SET_WATCHES, OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import FrameReader, Reader, encode_record, frame
from aiolead._wire.requests import Check, Multi
from aiolead.errors import (
    ConnectionLossError,
    LossReason,
    Outcome,
    RemoteWireError,
    SessionExpiredError,
)
from aiolead.model import Auth, EventType, SessionCredentials
from aiolead.model import SessionState as S

AUTH = [Auth.digest("a", "secret"), Auth.digest("b", "secret")]
GIVEN = SessionCredentials(7, PASSWORD, timeout=4.0, last_zxid=0x55)


# --- a new session -----------------------------------------------------------------------------


def test_new_session() -> None:
    script = Script(session_timeout=6.5)
    request = script.connect(timeout=6.5)
    assert (request.session_id, request.password) == (0, bytes(16))
    assert (request.last_zxid_seen, request.timeout_ms) == (0, 6500)
    assert not request.read_only
    assert script.states == [(S.CONNECTED, 7)]
    assert script.machine.session_id == 7
    assert script.machine.last_contact == START


def test_reads_leave_with_the_first_handshake() -> None:
    script = Script()
    calls = [script.get("/a"), script.get("/b")]
    script.open()
    early = script.sent()
    assert [packet.xid for packet in early] == [1, 2]
    script.greet()
    for packet in early:
        script.answer(packet)
    assert [call.is_done for call in calls] == [True, True]
    assert script.sent() == []


def test_requests_behind_a_write_wait_for_the_answer_to_the_handshake() -> None:
    script = Script()
    script.get("/a")
    script.write()
    script.get("/b")
    script.open()
    assert [packet.xid for packet in script.sent()] == [1]
    script.get("/c")  # too late for that segment
    assert script.sent() == []
    script.greet()
    assert [packet.xid for packet in script.sent()] == [2, 3, 4]


def _moved(script: Script) -> None:
    script.connect()
    script.disconnect()


def _next_session(script: Script) -> None:
    _moved(script)
    script.machine.give_up_session()
    script.machine.last_zxid = 100  # as where the servers say themselves that it has expired


@pytest.mark.parametrize(
    ("options", "before"),
    [
        ({}, _moved),
        ({}, _next_session),
        ({"auth": AUTH}, None),
        ({"on_challenge": lambda _: None}, None),
        ({"read_only": True}, None),
        ({"resume": SessionCredentials(7, PASSWORD, 8.0, 100)}, None),
    ],
    ids=["a moved session", "a later session", "credentials", "SASL", "read-only", "resumed"],
)
def test_other_handshakes_leave_alone(
    options: dict[str, Any], before: Callable[[Script], None] | None
) -> None:
    script = Script(**options)
    if before is not None:
        before(script)
    script.get("/a")
    script.open()
    assert script.sent() == []


def test_reads_of_a_failed_handshake_are_sent_again() -> None:
    script = Script()
    calls = [script.get("/a"), script.get("/b")]
    script.open()
    script.write()
    script.disconnect()
    script.open()
    assert [packet.xid for packet in script.sent()] == [3, 4]
    script.reconnect()
    script.serve()
    assert [call.result() for call in calls] == [b"data", b"data"]


def test_reads_sent_with_the_handshake_wait_no_longer_than_others() -> None:
    script = Script()
    script.now += 3
    call = script.get("/a")
    script.now += 1
    script.open()
    assert script.machine.next_deadline() == START + 3 + 8.0
    script.advance(START + 3 + 8.0 - script.now)
    assert script.cuts
    assert failure_of(call) == (ConnectionLossError, Outcome.NOT_APPLIED)


@pytest.mark.parametrize("size", [1, 10])
def test_handshake_may_arrive_in_pieces(script: Script, size: int) -> None:
    script.disconnect()
    script.open()
    data = encode_record(ConnectResponse(8000, 7, PASSWORD))
    for pos in range(0, len(data), size):
        assert script.machine.state is S.SUSPENDED
        script.feed(data[pos : pos + size])
    assert script.machine.state is S.CONNECTED


@pytest.mark.parametrize("malformed", [frame(b""), b"\xff\xff\xff\xff", frame(b"short")])
def test_malformed_handshake_ends_the_connection(malformed: bytes) -> None:
    script = Script()
    call = script.get("/a")
    script.open()
    with pytest.raises(RemoteWireError):
        script.feed(malformed)
    script.reconnect()
    script.serve()
    assert call.result() == b"data"


@pytest.mark.parametrize(
    "response",
    [
        ConnectResponse(8000, -1, bytes(16), protocol_version=42),
        ConnectResponse(8000, 7, bytes(16), protocol_version=42),
        ConnectResponse(8000, -1, bytes(16)),
    ],
    ids=["without a leader", "another protocol", "no session id"],
)
def test_answer_without_a_session_ends_the_connection_only(response: ConnectResponse) -> None:
    """A ClickHouse Keeper without a leader answers so; the next server is asked for a session."""
    script = Script()
    script.open()
    with pytest.raises(RemoteWireError, match="no session here"):
        script.feed(encode_record(response))
    assert script.states == []
    script.reconnect()
    assert script.states == [(S.CONNECTED, 7)]


def test_answer_without_a_session_keeps_the_present_one(script: Script) -> None:
    script.disconnect()
    script.open()
    with pytest.raises(RemoteWireError, match="no session here"):
        script.feed(encode_record(ConnectResponse(8000, -1, bytes(16), protocol_version=42)))
    script.reconnect()
    assert script.states == [(S.CONNECTED, 7), (S.SUSPENDED, 7), (S.CONNECTED, 7)]


def test_expired_session_of_another_protocol_version_is_expired(script: Script) -> None:
    """RaftKeeper says so: protocol version 42, and a negative timeout."""
    script.disconnect()
    script.open()
    with pytest.raises(SessionExpiredError):
        script.feed(encode_record(ConnectResponse(-1, 7, bytes(16), protocol_version=42)))
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]


@pytest.mark.parametrize("session", ["new", "resumed", "after an expiry"])
def test_handshake_has_sixteen_bytes_of_password(session: str) -> None:
    """ClickHouse Keeper and RaftKeeper know a handshake by its 44 or 45 bytes."""
    script = Script()
    if session != "new":
        script.connect()
    if session == "after an expiry":
        script.expire()
    script.disconnect()
    script.machine.connection_made(script.now)
    (hello,) = FrameReader(1 << 20).feed(script.machine.data_to_send(script.now))
    assert len(hello) == 45
    password = ConnectRequest.read(Reader(hello)).password
    assert password == (PASSWORD if session == "resumed" else bytes(16))


# --- the next connection -----------------------------------------------------------------------


def test_moved_session_keeps_its_identity(script: Script) -> None:
    script.disconnect()
    script.disconnect()  # which is reported once
    request = script.connect()
    assert (request.session_id, request.password) == (7, PASSWORD)
    assert script.states == [(S.CONNECTED, 7), (S.SUSPENDED, 7), (S.CONNECTED, 7)]


@pytest.mark.parametrize("err", [0, NO_NODE])
def test_every_handshake_has_the_last_zxid(script: Script, err: int) -> None:
    for zxid, seen in [(0x123, 0x123), (0x99, 0x123), (-1, 0x123), (0x200, 0x200)]:
        script.zxid = zxid
        script.get("/a")
        script.answer(script.one(), err=err)
        assert script.machine.last_zxid == seen
        assert script.reconnect().last_zxid_seen == seen
    # The next session must not see less than this one.
    for _ in range(2):
        assert script.reconnect(8).last_zxid_seen == 0x200


@pytest.mark.parametrize(("session_id", "timeout"), [(0, 0.0), (0, 8.0), (7, 0.0)])
def test_session_that_the_server_refuses_has_expired(
    script: Script, session_id: int, timeout: float
) -> None:
    calls = [script.get("/a"), script.write()]
    script.disconnect()
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(session_id, timeout)
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]
    for call in calls:
        assert failure_of(call) == (SessionExpiredError, Outcome.NOT_APPLIED)
    request = script.reconnect(8)
    assert (request.session_id, request.password) == (0, bytes(16))
    assert script.states[-1] == (S.CONNECTED, 8)


def test_another_session_in_the_answer_means_that_this_one_has_expired(script: Script) -> None:
    holder, watcher = script.hold(urgent=True), script.watch()
    script.serve()
    script.disconnect()
    unsent = script.write()
    script.connect(8)
    # Never a session after another without EXPIRED in between.
    assert script.states == [
        (S.CONNECTED, 7), (S.SUSPENDED, 7), (S.EXPIRED, 7), (S.CONNECTING, 0), (S.CONNECTED, 8),
    ]  # fmt: skip
    assert holder.reasons == [LossReason.EXPIRED]
    assert watcher.types == [EventType.NONE]
    assert isinstance(unsent.error(), SessionExpiredError)
    assert script.sent() == []


def test_granted_timeout_counts_and_the_next_server_is_asked_for_the_wanted_one() -> None:
    script = Script(session_timeout=30.0)
    script.connect(timeout=4.0)
    assert script.machine.timing.session_timeout == 4.0
    assert script.machine.next_deadline() == pytest.approx(START + 4.0 / 3)
    script.disconnect()
    assert script.open().timeout_ms == 30000


def test_least_granted_timeout_counts_within_a_session() -> None:
    script = Script(session_timeout=30.0)
    for granted, counts in [(8.0, 8.0), (4.0, 4.0), (30.0, 4.0)]:
        script.reconnect(timeout=granted)
        assert script.machine.timing.session_timeout == counts
    script.reconnect(8, timeout=30.0)
    assert script.machine.timing.session_timeout == 30.0


# --- order on a new connection -----------------------------------------------------------------


def test_credentials_leave_first_then_watches_then_waiting_requests() -> None:
    script = connected(auth=AUTH)
    script.serve()
    script.watch()
    script.serve()
    read = script.get("/again")
    script.sent()
    script.disconnect()
    unsent = script.write()
    script.connect()
    assert [(packet.op, packet.xid) for packet in script.sent()] == [
        (OpCode.AUTH, XID_AUTH),
        (OpCode.AUTH, XID_AUTH),
        (OpCode.SET_WATCHES, XID_SET_WATCHES),
        (OpCode.GET_DATA, read.xid),
        (OpCode.SET_DATA, unsent.xid),
    ]
    assert unsent.xid == read.xid + 1


@pytest.mark.parametrize("is_lost", [False, True])
def test_session_is_connected_once_all_credentials_are_accepted(is_lost: bool) -> None:
    script = connected(auth=AUTH)
    first, second = script.sent()
    if is_lost:
        assert script.reconnect().session_id == 7
        first, second = script.sent()
    assert script.states == []
    script.answer(first)
    assert script.states == []
    script.answer(second)
    assert script.states == [(S.CONNECTED, 7)]


@pytest.mark.parametrize("unsent", ["ping", "handshake", "credentials"])
def test_unsent_frames_of_a_connection_are_not_sent_on_the_next(unsent: str) -> None:
    """A server takes the first frame for the handshake, whatever it is."""
    script = Script(auth=AUTH)
    script.open()
    if unsent == "credentials":
        script.greet()
    elif unsent == "ping":
        script.greet()
        for packet in script.sent():
            script.answer(packet)
        script.now = script.machine.next_deadline()
        script.tick()
        assert script.states == [(S.CONNECTED, 7)]
    else:
        script.disconnect()
        script.machine.connection_made(script.now)
    script.disconnect()
    script.machine.connection_made(script.now)
    session_id = script.machine.session_id
    again = ConnectRequest(0, 8000, session_id, PASSWORD if session_id else bytes(16))
    assert script.machine.data_to_send(script.now) == encode_record(again)
    assert script.machine.data_to_send(script.now) == b""


# --- a session of another client that is resumed -----------------------------------------------


@pytest.fixture
def resuming() -> Script:
    return Script(resume=GIVEN)


def test_resuming_asks_for_that_session_and_its_last_zxid(resuming: Script) -> None:
    request = resuming.connect()
    assert (request.session_id, request.password) == (7, PASSWORD)
    assert (request.last_zxid_seen, request.timeout_ms) == (0x55, 8000)
    assert resuming.states == [(S.CONNECTED, 7)]
    assert resuming.machine.credentials == GIVEN


def test_requests_of_a_resumed_session_are_numbered_from_the_given_xid() -> None:
    """Requests that are under way for the former client have other numbers."""
    script = connected(resume=GIVEN, first_xid=MAX_XID - 1)
    assert script.machine.requests.sent == 0
    for _ in range(3):
        script.get("/a")
    assert [packet.xid for packet in script.serve()] == [MAX_XID - 1, MAX_XID, 1]
    assert script.machine.requests.sent == 3
    assert script.machine.requests.is_idle


def test_timeout_that_a_resumed_session_began_with_still_counts(resuming: Script) -> None:
    """A new leader ends sessions by the timeout that they began with."""
    resuming.connect(timeout=8.0)
    assert resuming.machine.timing.session_timeout == 4.0
    longer = connected(resume=SessionCredentials(7, PASSWORD, timeout=20.0))
    assert longer.machine.timing.session_timeout == 8.0
    # The next session has its own.
    resuming.reconnect(9, timeout=8.0)
    assert resuming.machine.timing.session_timeout == 8.0
    assert resuming.states[-3:] == [(S.EXPIRED, 7), (S.CONNECTING, 0), (S.CONNECTED, 9)]


def test_resuming_proves_nothing_until_a_write(resuming: Script) -> None:
    """The leader was touched before the answer; whether it is the leader, only a write shows."""
    asked_at = resuming.now
    resuming.connect(after=0.5)
    assert resuming.deadline < resuming.now
    body = Multi((Check("/a", -1),)).encode()
    resuming.submit(Call(OpCode.MULTI, body, lambda _: None, kind=WRITE))
    resuming.serve()
    assert resuming.deadline == pytest.approx(asked_at + 4.0 - resuming.machine.timing.margin)


@pytest.mark.parametrize(("session_id", "timeout"), [(0, 0.0), (8, 8.0)], ids=["over", "another"])
def test_expired_session_that_is_resumed_is_not_replaced(
    resuming: Script, session_id: int, timeout: float
) -> None:
    waiting = resuming.submit(Call(OpCode.EXISTS, b"", lambda _: None))
    resuming.open()
    with pytest.raises(SessionExpiredError):
        resuming.greet(session_id, timeout)
    resuming.disconnect()
    assert resuming.states == [(S.EXPIRED, 7), (S.CLOSED, 7)]
    assert failure_of(waiting) == (SessionExpiredError, Outcome.NOT_APPLIED)
    late = resuming.submit(Call(OpCode.EXISTS, b"", lambda _: None))
    assert isinstance(late.error(), SessionExpiredError)
    resuming.machine.closed()
    assert resuming.states[-1] == (S.CLOSED, 7)


def test_wait_for_the_first_answer_counts_from_the_first_attempt(resuming: Script) -> None:
    """This client does not know when a server last had contact with the session."""
    resuming.open()
    assert resuming.machine.last_contact == resuming.now
    resuming.disconnect()
    resuming.machine.give_up_session()
    assert resuming.states == [(S.EXPIRED, 7), (S.CLOSED, 7)]
