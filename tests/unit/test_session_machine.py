"""The session machine on a scripted link: handshakes, order, answers, errors, the end."""

from __future__ import annotations

from math import inf

import pytest
from support.client_script import (
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

from aiolead._session.depot import MAX_XID, Call
from aiolead._wire.codes import XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES, OpCode
from aiolead._wire.framing import frame
from aiolead._wire.handshake import ConnectResponse
from aiolead._wire.packets import encode_record, encode_reply
from aiolead._wire.replies import DataReply, ReplyHeader
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    ConnectionLossError,
    LocalWireError,
    LossReason,
    NoNodeError,
    Outcome,
    RemoteWireError,
    SessionExpiredError,
    SessionMovedError,
)
from aiolead.model import Auth, EventType, SessionState

S = SessionState
TIMEOUT = 8.0
DATA = DataReply(b"", STAT)
AUTH = [Auth.digest("a", "secret"), Auth.digest("b", "secret")]


@pytest.fixture
def script() -> Script:
    script = Script()
    script.connect()
    return script


def error_of(call: Call[object]) -> Exception:
    error = call.error()
    assert error is not None
    return error


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


def test_the_handshake_is_all_that_is_sent_before_its_answer() -> None:
    script = Script()
    call = get(script, "/a")
    script.open()
    assert script.sent() == []
    script.greet()
    (packet,) = script.serve()
    assert packet.xid == 1
    assert call.result() == b"data"


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


@pytest.mark.parametrize("xid", [2, 17, MAX_XID])
def test_an_answer_out_of_order_ends_the_link(script: Script, xid: int) -> None:
    first, second = get(script, "/a"), get(script, "/b")
    script.sent()
    with pytest.raises(RemoteWireError, match=f"answer to request {xid}, where 1 was next"):
        script.reply(xid, DATA, zxid=1 << 60)
    assert isinstance(first.error(), RemoteWireError)
    assert script.machine.last_zxid == 0
    script.lose_link()
    script.connect()
    assert [packet.xid for packet in script.serve()] == [3]
    assert second.result() == b"data"


def test_xids_wrap(script: Script) -> None:
    script.machine._depot._xid = MAX_XID - 1
    calls = [get(script, "/a") for _ in range(3)]
    packets = script.serve()
    assert [packet.xid for packet in packets] == [MAX_XID, 1, 2]
    assert all(call.is_done for call in calls)


@pytest.mark.parametrize("xid", [0, -3, -5, XID_PING, XID_AUTH, XID_SET_WATCHES])
def test_an_answer_that_nobody_asked_for_ends_the_link(script: Script, xid: int) -> None:
    with pytest.raises(RemoteWireError, match=f"unexpected xid {xid}"):
        script.reply(xid)


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


# --- keeping alive -----------------------------------------------------------------------------


def pings(packets: list[Packet]) -> list[float]:
    return [round(packet.sent - START, 3) for packet in packets if packet.op is OpCode.PING]


def test_pings_leave_after_a_third_of_the_timeout_without_a_request(script: Script) -> None:
    packets: list[Packet] = []
    script.advance(9.0, serve=lambda: packets.extend(script.serve()))
    assert pings(packets) == [2.667, 5.333, 8.0]


def test_what_comes_in_does_not_replace_a_ping(script: Script) -> None:
    packets: list[Packet] = []
    for _ in range(90):
        script.advance(0.1, serve=lambda: packets.extend(script.serve()))
        script.event(EventType.DELETED, "/x")
    assert pings(packets) == [2.667, 5.333, 8.0]


def test_answered_requests_make_pings_needless(script: Script) -> None:
    packets: list[Packet] = []
    for _ in range(9):
        packets += script.advance(1.0)
        get(script, "/a")
        packets += script.serve()
    assert pings(packets) == []


def test_requests_that_wait_for_their_answers_do_not_hold_pings_up(script: Script) -> None:
    call = get(script, "/slow")
    script.sent()
    for _ in range(3):
        packets = script.advance(2.7)
        assert packets[0].op is OpCode.PING
        script.event(EventType.NONE, "")
    assert not call.is_done


def test_a_server_that_is_silent_for_two_thirds_of_the_timeout_is_given_up(
    script: Script,
) -> None:
    script.advance(16 / 3 - 0.001)
    assert script.cuts == []
    script.advance(0.002)
    assert script.cuts == ["nothing came from the server for 5.33333 seconds"]
    assert script.states[-1] == (S.SUSPENDED, 7)


def test_any_word_of_the_server_breaks_the_silence(script: Script) -> None:
    for _ in range(20):
        script.advance(5.3)
        script.event(EventType.NONE, "")
    assert script.cuts == []


def test_pings_and_requests_are_answered_in_any_order(script: Script) -> None:
    script.advance(2.7)
    call = get(script, "/a")
    (packet,) = script.sent()
    script.answer(packet)
    script.reply(XID_PING)
    assert call.is_done


def test_silence_counts_anew_on_each_link(script: Script) -> None:
    script.now += 5.0
    script.lose_link()
    script.now += 20.0
    script.connect()
    assert script.machine.next_deadline() == pytest.approx(script.now + TIMEOUT / 3)


# --- credentials -------------------------------------------------------------------------------


def test_refused_credentials_are_final() -> None:
    script = Script(auth=AUTH)
    script.connect()
    calls = [get(script, "/a"), write(script)]
    packets = script.sent()
    unsent = get(script, "/b")
    with pytest.raises(AuthFailedError):
        script.answer(packets[0], err=-115)
    assert script.states == [(S.AUTH_FAILED, 7)]
    for call in [*calls, unsent, get(script, "/later")]:
        assert isinstance(call.error(), AuthFailedError)
    script.lose_link()
    assert script.states == [(S.AUTH_FAILED, 7)]
    assert script.machine.next_deadline() == inf


@pytest.mark.parametrize("code", [-115, -124])
def test_so_is_a_request_that_is_refused_for_want_of_credentials(script: Script, code: int) -> None:
    holder, watcher = Holder(script), Watcher(script)
    get(script, "/w", watcher.slot)
    script.serve()
    refused, behind = get(script, "/a"), write(script)
    packets = script.sent()
    with pytest.raises(AuthFailedError):
        script.answer(packets[0], err=code)
    assert script.states[-1] == (S.AUTH_FAILED, 7)
    assert isinstance(refused.error(), AuthFailedError)
    assert isinstance(behind.error(), AuthFailedError)
    assert holder.reasons == [LossReason.EXPIRED]
    assert watcher.types == [EventType.NONE]
    assert isinstance(get(script, "/later").error(), AuthFailedError)


@pytest.mark.parametrize(("code", "kind"), [(-112, SessionExpiredError), (-118, SessionMovedError)])
def test_a_session_that_is_over_by_an_answer_is_so_by_the_next_handshake(
    script: Script, code: int, kind: type[Exception]
) -> None:
    call = get(script, "/a")
    (packet,) = script.sent()
    with pytest.raises(kind):
        script.answer(packet, err=code)
    assert isinstance(call.error(), kind)
    script.lose_link()
    assert script.open().session_id == 7
    with pytest.raises(SessionExpiredError):
        script.greet(0, 0)
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]


@pytest.mark.parametrize("code", [-102, -101, -103, -4])
def test_no_other_refusal_is(script: Script, code: int) -> None:
    call = get(script, "/a")
    (packet,) = script.sent()
    script.answer(packet, err=code)
    assert call.error() is not None
    assert script.machine.state is S.CONNECTED


def test_closing_after_refused_credentials_still_closes() -> None:
    script = Script(auth=AUTH)
    script.connect()
    with pytest.raises(AuthFailedError):
        script.answer(script.sent()[0], err=-115)
    script.machine.closed()
    assert script.states == [(S.AUTH_FAILED, 7), (S.CLOSED, 7)]
    assert isinstance(get(script, "/a").error(), ClientClosedError)


# --- the end -----------------------------------------------------------------------------------


def test_closing_sends_what_waits_and_then_says_goodbye(script: Script) -> None:
    last = write(script)
    goodbye = script.machine.close(script.now)
    packets = script.serve()
    assert [packet.op for packet in packets] == [OpCode.SET_DATA, OpCode.CLOSE_SESSION]
    assert last.is_done
    assert goodbye.is_done
    script.machine.closed()
    assert script.states[-1] == (S.CLOSED, 7)


def test_what_is_open_when_the_client_closes_fails(script: Script) -> None:
    holder, watcher = Holder(script), Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    sent = write(script)
    script.sent()
    unsent = write(script)
    script.machine.closed()
    for call in (sent, unsent, get(script, "/later")):
        assert isinstance(call.error(), ClientClosedError)
    assert (outcome_of(sent), outcome_of(unsent)) == (Outcome.UNKNOWN, Outcome.NOT_APPLIED)
    assert holder.reasons == [LossReason.CLOSED]
    assert watcher.types == [EventType.NONE]
    states = list(script.states)
    script.machine.closed()
    script.lose_link()
    assert script.states == states


def test_closing_while_the_link_is_down(script: Script) -> None:
    script.lose_link()
    script.machine.closed()
    assert script.states[-1] == (S.CLOSED, 7)


def test_a_session_that_all_servers_refuse_is_given_up(script: Script) -> None:
    script.zxid = 0x500
    holder, watcher = Holder(script), Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    script.lose_link()
    waiting = write(script)
    script.machine.give_up_session()
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]
    assert isinstance(waiting.error(), SessionExpiredError)
    assert holder.reasons == [LossReason.EXPIRED]
    assert watcher.types == [EventType.NONE]
    request = script.connect(9)
    # They know less than we have seen, or they would not have refused.
    assert (request.session_id, request.last_zxid_seen) == (0, 0)


def test_the_end_of_one_session_is_not_mixed_with_the_next(script: Script) -> None:
    """Whoever reacts to a failure with a new call, gets it answered by the next session."""
    again: list[Call[object]] = []
    first = write(script)
    first.add_done_callback(lambda: again.append(get(script, "/again")))
    script.lose_link()
    script.connect(8)
    assert isinstance(error_of(first), SessionExpiredError)
    script.serve()
    assert again[0].result() == b"data"


def test_calls_made_while_expired_is_reported_fail_with_it() -> None:
    script = Script()
    calls: list[Call[object]] = []
    script.connect()
    script.machine._on_state = lambda state, _: (
        calls.append(write(script)) if state is S.EXPIRED else None
    )
    script.lose_link()
    script.connect(8)
    assert isinstance(error_of(calls[0]), SessionExpiredError)
    assert script.sent() == []


def test_a_missing_znode_is_an_answer_to_exists_and_an_error_to_get(script: Script) -> None:
    there, missing = exists(script, "/a"), get(script, "/a")
    for packet in script.sent():
        script.answer(packet, err=NO_NODE)
    assert there.result() is None
    with pytest.raises(NoNodeError, match="no such znode: /a"):
        missing.result()


# --- events prove contact, re-arming does not ----------------------------------------------------


def armed(script: Script) -> Watcher:
    watcher = Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    return watcher


def proven(script: Script) -> float:
    return script.machine._ledger.proven_until - START


def test_an_event_while_re_arming_proves_nothing(script: Script) -> None:
    armed(script)
    script.now += 3.0
    script.lose_link()
    script.connect()
    (packet,) = script.sent()
    script.event(EventType.DELETED, "/a")
    assert proven(script) == 8.0
    script.answer(packet)
    assert proven(script) == 8.0
    script.event(EventType.DELETED, "/b")
    assert proven(script) == 11.0


def test_an_event_between_two_of_several_re_armings_proves_nothing_either() -> None:
    script = Script(max_request=1024)
    script.connect()
    for number in range(40):
        watcher = Watcher(script)
        get(script, f"/{number:0100}", watcher.slot)
    script.serve()
    script.lose_link()
    script.now += 3.0
    script.connect()
    packets = script.sent()
    assert len(packets) > 2
    for packet in packets:
        script.event(EventType.DELETED, "/0")
        assert proven(script) == 8.0
        script.answer(packet)
    script.event(EventType.DELETED, "/0")
    assert proven(script) == 11.0


@pytest.mark.parametrize("number", [-1, 5, 6])
def test_an_event_that_is_no_change_proves_nothing(script: Script, number: int) -> None:
    script.now += 3.0
    script.lose_link()
    script.connect()
    script.event(EventType(number), "/a")
    assert proven(script) == 8.0


def test_contact_on_one_link_is_no_contact_on_the_next(script: Script) -> None:
    write(script)
    script.serve()
    script.now += 3.0
    script.lose_link()
    script.connect()
    get(script, "/a")
    script.serve()
    assert proven(script) == 8.0
