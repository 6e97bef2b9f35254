"""The session machine on a scripted link: handshakes, order, answers, errors, lost links."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from session.script import (
    NO_NODE,
    PASSWORD,
    START,
    STAT,
    Holder,
    Packet,
    Script,
    Watcher,
    exists,
    get,
    write,
)

from aiolead._session.requests.call import Call
from aiolead._session.requests.request_queue import MAX_XID
from aiolead._wire.codes import XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES, OpCode
from aiolead._wire.framing import encode_record, encode_reply, frame
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader
from aiolead._wire.replies import DataReply, ReplyHeader
from aiolead.errors import (
    ConnectionLossError,
    LocalWireError,
    LossReason,
    Outcome,
    RemoteWireError,
    SessionExpiredError,
    UnreadableTextError,
)
from aiolead.model import Auth, EventType, SessionCredentials, SessionState

S = SessionState
DATA = DataReply(b"", STAT)
AUTH = [Auth.digest("a", "secret"), Auth.digest("b", "secret")]


def outcome_of(call: Call[object]) -> Outcome:
    error = call.error()
    assert error is not None
    return error.outcome


# --- the handshake -----------------------------------------------------------------------------


def test_a_new_session() -> None:
    script = Script(session_timeout=6.5)
    request = script.connect(timeout=6.5)
    assert (request.session_id, request.password) == (0, b"")
    assert (request.last_zxid_seen, request.timeout_ms) == (0, 6500)
    assert not request.read_only
    assert script.states == [(S.CONNECTED, 7)]
    assert script.machine.session_id == 7
    assert script.machine.last_contact == START


def test_reads_leave_with_the_first_handshake() -> None:
    script = Script()
    calls = [get(script, "/a"), get(script, "/b")]
    script.open()
    early = script.sent()
    assert [packet.xid for packet in early] == [1, 2]
    script.greet()
    for packet in early:
        script.answer(packet)
    assert [call.is_done for call in calls] == [True, True]
    assert script.sent() == []


def test_what_comes_behind_a_write_waits_for_the_answer_to_the_handshake() -> None:
    script = Script()
    get(script, "/a")
    write(script)
    get(script, "/b")
    script.open()
    assert [packet.xid for packet in script.sent()] == [1]
    get(script, "/c")  # too late for that segment
    assert script.sent() == []
    script.greet()
    assert [packet.xid for packet in script.sent()] == [2, 3, 4]


def _later(script: Script) -> None:
    script.connect()
    script.lose_link()


def _again(script: Script) -> None:
    _later(script)
    script.machine.give_up_session()
    script.machine.last_zxid = 100  # as where the servers say themselves that it has expired


@pytest.mark.parametrize(
    ("options", "before"),
    [
        ({}, _later),
        ({}, _again),
        ({"auth": AUTH}, None),
        ({"on_challenge": lambda _: None}, None),
        ({"read_only": True}, None),
        ({"resume": SessionCredentials(7, PASSWORD, 8.0, 100)}, None),
    ],
    ids=["a moved session", "a later session", "credentials", "SASL", "read-only", "resumed"],
)
def test_the_handshake_is_all_that_is_sent_before_its_answer(
    options: dict[str, Any], before: Callable[[Script], None] | None
) -> None:
    script = Script(**options)
    if before is not None:
        before(script)
    get(script, "/a")
    script.open()
    assert script.sent() == []


def test_reads_that_left_with_a_handshake_in_vain_are_sent_again() -> None:
    script = Script()
    calls = [get(script, "/a"), get(script, "/b")]
    script.open()
    write(script)
    script.lose_link()
    script.open()
    assert [packet.xid for packet in script.sent()] == [3, 4]
    script.lose_link()
    script.connect()
    script.serve()
    assert [call.result() for call in calls] == [b"data", b"data"]


def test_reads_that_have_left_early_wait_no_longer_than_others() -> None:
    script = Script()
    script.now += 3
    call = get(script, "/a")
    script.now += 1
    script.open()
    assert script.machine.next_deadline() == START + 3 + 8.0
    script.advance(START + 3 + 8.0 - script.now)
    assert script.cuts
    assert isinstance(call.error(), ConnectionLossError)
    assert outcome_of(call) is Outcome.NOT_APPLIED


def test_a_session_that_is_resumed() -> None:
    script = Script()
    script.connect()
    script.lose_link()
    request = script.connect()
    assert (request.session_id, request.password) == (7, PASSWORD)
    assert script.states == [(S.CONNECTED, 7), (S.SUSPENDED, 7), (S.CONNECTED, 7)]


def test_the_last_zxid_goes_with_every_handshake(script: Script) -> None:
    for zxid, seen in [(0x123, 0x123), (0x99, 0x123), (-1, 0x123), (0x200, 0x200)]:
        script.zxid = zxid
        get(script, "/a")
        script.serve()
        script.lose_link()
        assert script.connect().last_zxid_seen == seen
    script.lose_link()
    assert script.connect(8).last_zxid_seen == 0x200
    script.lose_link()
    # ... also of the next session: it must not see less than this one.
    assert script.connect(8).last_zxid_seen == 0x200


def test_the_zxid_of_an_error_counts_too(script: Script) -> None:
    script.zxid = 0x777
    get(script, "/a")
    (packet,) = script.sent()
    script.answer(packet, err=NO_NODE)
    assert script.machine.last_zxid == 0x777


@pytest.mark.parametrize(("session_id", "timeout"), [(0, 0.0), (0, 8.0), (7, 0.0)])
def test_a_session_that_the_server_does_not_know_any_more(session_id: int, timeout: float) -> None:
    script = Script()
    script.connect()
    calls = [get(script, "/a"), write(script)]
    script.lose_link()
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(session_id, timeout)
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]
    for call in calls:
        assert isinstance(call.error(), SessionExpiredError)
        assert outcome_of(call) is Outcome.NOT_APPLIED
    script.lose_link()
    request = script.connect(8)
    assert (request.session_id, request.password) == (0, b"")
    assert script.states[-1] == (S.CONNECTED, 8)


def test_a_server_that_hands_out_another_session_instead() -> None:
    script = Script()
    script.connect()
    holder, watcher = Holder(script, urgent=True), Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    script.lose_link()
    unsent = write(script)
    script.connect(8)
    # Never a session after another without EXPIRED in between.
    assert script.states == [
        (S.CONNECTED, 7), (S.SUSPENDED, 7), (S.EXPIRED, 7), (S.CONNECTING, 0), (S.CONNECTED, 8),
    ]  # fmt: skip
    assert holder.reasons == [LossReason.EXPIRED]
    assert watcher.types == [EventType.NONE]
    assert isinstance(unsent.error(), SessionExpiredError)
    assert script.sent() == []


def test_what_is_granted_rules_and_not_what_was_asked_for() -> None:
    script = Script(session_timeout=30.0)
    script.connect(timeout=4.0)
    timing = script.machine.timing
    assert timing.session_timeout == 4.0
    assert script.machine.next_deadline() == pytest.approx(START + 4.0 / 3)
    script.lose_link()
    # The next server is asked for the same as the first one.
    assert script.open().timeout_ms == 30000


def test_within_a_session_the_least_that_was_granted_rules() -> None:
    script = Script(session_timeout=30.0)
    for granted, rules in [(8.0, 8.0), (4.0, 4.0), (30.0, 4.0)]:
        script.connect(timeout=granted)
        assert script.machine.timing.session_timeout == rules
        script.lose_link()
    script.connect(8, timeout=30.0)
    assert script.machine.timing.session_timeout == 30.0


def test_a_handshake_in_pieces(script: Script) -> None:
    script.lose_link()
    script.open()
    for byte in encode_record(ConnectResponse(8000, 7, PASSWORD)):
        assert script.machine.state is S.SUSPENDED
        script.feed(bytes([byte]))
    assert script.machine.state is S.CONNECTED


# --- order on a new link -----------------------------------------------------------------------


def test_auth_goes_first_then_watches_then_what_waits() -> None:
    script = Script(auth=AUTH)
    script.open()
    script.greet()
    script.serve()
    watcher = Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    read = get(script, "/again")
    script.sent()
    script.lose_link()
    unsent = write(script)
    script.open()
    script.greet()
    packets = script.sent()
    assert [(packet.op, packet.xid) for packet in packets] == [
        (OpCode.AUTH, XID_AUTH),
        (OpCode.AUTH, XID_AUTH),
        (OpCode.SET_WATCHES, XID_SET_WATCHES),
        (OpCode.GET_DATA, read.xid),
        (OpCode.SET_DATA, unsent.xid),
    ]
    assert unsent.xid == read.xid + 1


def test_it_is_not_connected_before_all_credentials_are_accepted() -> None:
    script = Script(auth=AUTH)
    script.connect()
    first, second = script.sent()
    assert script.states == []
    script.answer(first)
    assert script.states == []
    script.answer(second)
    assert script.states == [(S.CONNECTED, 7)]


def test_the_link_may_be_lost_before_that() -> None:
    script = Script(auth=AUTH)
    script.connect()
    script.sent()
    script.lose_link()
    assert script.states == []
    assert script.connect().session_id == 7
    script.serve()
    assert script.states == [(S.CONNECTED, 7)]


# --- requests and answers ----------------------------------------------------------------------


def test_requests_made_together_leave_together(script: Script) -> None:
    for _ in range(5):
        get(script, "/a")
    data = script.machine.data_to_send(script.now)
    assert len(data) == 5 * (4 + 8 + 4 + 2 + 1)
    assert script.machine.data_to_send(script.now) == b""


def test_answers_find_their_requests_however_they_arrive(script: Script) -> None:
    calls = [get(script, f"/{number}") for number in range(20)]
    stream = b"".join(
        encode_reply(ReplyHeader(p.xid, 1, 0), DataReply(p.body[4:6], STAT)) for p in script.sent()
    )
    for start in range(0, len(stream), 7):
        script.feed(stream[start : start + 7])
    assert [call.result() for call in calls] == [f"/{n}".encode()[:2] for n in range(20)]


def test_a_caller_that_went_away_leaves_its_place_in_the_queue(script: Script) -> None:
    """Cancelling abandons the answer, not the request: the next answer is not mistaken for it."""
    abandoned, kept = get(script, "/a"), exists(script, "/b")
    packets = script.sent()
    del abandoned
    script.answer(packets[0])
    assert not kept.is_done
    script.answer(packets[1])
    assert kept.result().czxid == 1


@pytest.mark.parametrize("xid", [2, 3, 17, MAX_XID])
def test_an_answer_that_skips_a_request_is_a_lost_connection(script: Script, xid: int) -> None:
    """Whatever was in flight is unknown, the request that was answered included."""
    first, written, second = write(script, "/skipped"), write(script), get(script, "/b")
    script.sent()
    why = rf"skipped request 1 \(SET_DATA /skipped\): it answered request {xid} instead"
    with pytest.raises(ConnectionLossError, match=why):
        script.reply(xid, DATA, zxid=1 << 60)
    assert not any(call.is_done for call in (first, written, second))
    assert script.machine.last_zxid == 0
    script.lose_link()
    for lost in (first, written):
        assert isinstance(lost.error(), ConnectionLossError)
        assert outcome_of(lost) is Outcome.UNKNOWN
    script.connect()
    assert [packet.xid for packet in script.serve()] == [4]
    assert second.result() == b"data"


def test_a_read_that_was_skipped_is_sent_again_with_its_watch(script: Script) -> None:
    watcher = Watcher(script)
    skipped, answered = get(script, "/a", watcher.slot), get(script, "/b")
    packets = script.sent()
    with pytest.raises(ConnectionLossError, match=r"skipped request 1 \(GET_DATA /a\)"):
        script.answer(packets[1])
    script.lose_link()
    script.connect()
    assert [packet.op for packet in script.serve()] == [OpCode.GET_DATA, OpCode.GET_DATA]
    assert skipped.result() == answered.result() == b"data"
    assert watcher.slot.is_armed


@pytest.mark.parametrize("step", [OpCode.MULTI, OpCode.SYNC])
def test_a_step_of_a_renewal_that_was_skipped_is_made_again_on_the_next_connection(
    script: Script, step: OpCode
) -> None:
    holder = Holder(script, urgent=True)
    script.tick()
    skipped = _sent_up_to(script, step)
    behind = get(script, "/b")
    (packet,) = script.sent()
    with pytest.raises(ConnectionLossError, match=f"skipped request {skipped.xid} "):
        script.answer(packet)
    script.lose_link()
    script.connect()
    script.advance(script.machine.timing.session_timeout, script.serve)
    assert not holder.lost
    assert behind.result() == b"data"


def _sent_up_to(script: Script, op: OpCode) -> Packet:
    """The first request of some kind, which is left unanswered; all before it are answered."""
    while True:
        for packet in script.sent():
            if packet.op is op:
                return packet
            script.answer(packet)


def test_xids_wrap(script: Script) -> None:
    script.machine.requests._xid = MAX_XID - 1
    calls = [get(script, "/a") for _ in range(3)]
    packets = script.serve()
    assert [packet.xid for packet in packets] == [MAX_XID, 1, 2]
    assert all(call.is_done for call in calls)


@pytest.mark.parametrize("xid", [0, -3, -5])
def test_an_xid_that_the_protocol_does_not_have_is_nonsense(script: Script, xid: int) -> None:
    with pytest.raises(RemoteWireError, match=f"unknown xid {xid}"):
        script.reply(xid)


@pytest.mark.parametrize(
    ("xid", "what"),
    [(XID_PING, "a ping"), (XID_AUTH, "credentials"), (XID_SET_WATCHES, "SetWatches")],
)
def test_an_answer_that_nobody_asked_for_is_a_lost_connection(
    script: Script, xid: int, what: str
) -> None:
    read, written = get(script, "/a"), write(script)
    script.sent()
    with pytest.raises(ConnectionLossError, match=f"answered {what}, but none was outstanding"):
        script.reply(xid)
    script.lose_link()
    assert outcome_of(written) is Outcome.UNKNOWN
    script.connect()
    script.serve()
    assert read.result() == b"data"


@pytest.mark.parametrize(
    "nonsense",
    [
        frame(b""),
        frame(b"short"),
        (1 << 24).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n",
        encode_reply(ReplyHeader(1, 1 << 60, 0)),
        encode_reply(ReplyHeader(XID_EVENT, -1, 0)),
    ],
    ids=["empty", "short", "too long", "negative", "http", "no body", "empty event"],
)
def test_nonsense_ends_the_link_and_fails_the_one_that_it_may_have_been_for(
    script: Script, nonsense: bytes
) -> None:
    first, second = get(script, "/a"), get(script, "/b")
    script.sent()
    with pytest.raises(RemoteWireError) as raised:
        script.feed(nonsense)
    assert first.error() is raised.value
    assert script.machine.last_zxid == 0
    script.lose_link()
    script.connect()
    assert [packet.xid for packet in script.serve()] == [3]
    assert second.result() == b"data"


def test_an_unreadable_text_fails_only_its_request(script: Script) -> None:
    listing: Call[list[str]] = Call(OpCode.GET_CHILDREN, b"", Reader.texts, path="/a")
    script.submit(listing)
    read = get(script, "/b")
    one, other = script.sent()
    header = ReplyHeader(one.xid, 9, 0).encode()
    script.feed(frame(header + bytes.fromhex("00000002000000016100000001ff")))
    assert isinstance(listing.error(), UnreadableTextError)
    assert not read.is_done
    assert script.machine.state is SessionState.CONNECTED
    script.answer(other)
    assert read.result() == b"data"


@pytest.mark.parametrize("nonsense", [frame(b""), b"\xff\xff\xff\xff", frame(b"short")])
def test_nonsense_instead_of_a_handshake(nonsense: bytes) -> None:
    script = Script()
    call = get(script, "/a")
    script.open()
    with pytest.raises(RemoteWireError):
        script.feed(nonsense)
    script.lose_link()
    script.connect()
    script.serve()
    assert call.result() == b"data"


def test_a_request_that_is_too_long_is_refused_at_the_call() -> None:
    script = Script(max_request=1024)
    script.connect()
    watcher = Watcher(script)
    path = "/" + "x" * (1024 - 8 - 4 - 1 - 1)
    assert get(script, path).is_done is False
    with pytest.raises(LocalWireError, match="1025 bytes, the servers take at most 1024"):
        get(script, path + "x", watcher.slot)
    assert len(script.sent()) == 1
    get(script, "/b", watcher.slot)  # it was not left half armed


def test_bytes_that_come_after_the_link_was_given_up_are_ignored(script: Script) -> None:
    call = get(script, "/a")
    (packet,) = script.sent()
    script.lose_link()
    script.answer(packet)
    script.feed(b"\xff\xff\xff\xff")
    assert not call.is_done
    assert script.machine.last_contact == START


# --- losing the link ---------------------------------------------------------------------------


def test_reads_are_sent_again_and_writes_that_were_sent_are_not(script: Script) -> None:
    read, lost = get(script, "/a"), write(script)
    script.sent()
    unsent = write(script)
    script.lose_link()
    assert isinstance(lost.error(), ConnectionLossError)
    assert outcome_of(lost) is Outcome.UNKNOWN
    script.connect()
    assert [packet.op for packet in script.serve()] == [OpCode.GET_DATA, OpCode.SET_DATA]
    assert read.result() == b"data"
    assert unsent.result().czxid == 1


def test_losing_the_link_twice_is_losing_it_once(script: Script) -> None:
    script.lose_link()
    script.lose_link()
    assert script.states == [(S.CONNECTED, 7), (S.SUSPENDED, 7)]


@pytest.mark.parametrize("unsent", ["ping", "handshake", "credentials"])
def test_what_was_to_be_sent_on_a_connection_is_not_sent_on_the_next(unsent: str) -> None:
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
        script.lose_link()
        script.machine.connection_made(script.now)
    script.lose_link()
    script.machine.connection_made(script.now)
    session_id = script.machine.session_id
    again = ConnectRequest(0, 8000, session_id, PASSWORD if session_id else b"")
    assert script.machine.data_to_send(script.now) == encode_record(again)
    assert script.machine.data_to_send(script.now) == b""


@pytest.mark.parametrize("connected", [True, False])
def test_what_waits_for_a_link_waits_for_the_session_timeout(connected: bool) -> None:
    script = Script()
    if connected:
        script.connect()
        script.lose_link()
    script.now += 1.0
    calls = [get(script, "/a"), write(script)]
    script.now += 1.0
    later = write(script)
    script.advance(6.999)
    assert not calls[0].is_done
    script.advance(0.002)
    for call in calls:
        assert isinstance(call.error(), ConnectionLossError)
        assert outcome_of(call) is Outcome.NOT_APPLIED
        assert "no server was reached for 8 seconds" in str(call.error())
    assert not later.is_done
    script.advance(1.0)
    assert later.is_done
    assert script.machine.next_deadline() == inf


@pytest.mark.parametrize("start", [0.1, 123456.7, 1e9 / 7])
@pytest.mark.parametrize("timeout", [0.1, 1.1, 3.3])
def test_waiting_never_makes_the_timekeeper_spin(start: float, timeout: float) -> None:
    script = Script(session_timeout=timeout)
    script.now = start
    call = get(script, "/a")
    script.advance(timeout * 1.01)
    assert call.is_done
