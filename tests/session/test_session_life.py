"""The session machine on a scripted link: pings, silence, credentials, the end, and contact."""

from __future__ import annotations

from math import inf

import pytest
from session.script import (
    NO_NODE,
    START,
    Holder,
    Packet,
    Script,
    Watcher,
    exists,
    get,
    write,
)

from aiolead._session.requests.call import Call
from aiolead._wire.codes import XID_PING, OpCode
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    LossReason,
    NoNodeError,
    Outcome,
    SessionExpiredError,
    SessionMovedError,
)
from aiolead.model import Auth, EventType, SessionState

S = SessionState
TIMEOUT = 8.0
AUTH = [Auth.digest("a", "secret"), Auth.digest("b", "secret")]


def error_of(call: Call[object]) -> Exception:
    error = call.error()
    assert error is not None
    return error


def outcome_of(call: Call[object]) -> Outcome:
    error = call.error()
    assert error is not None
    return error.outcome


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
    for number in range(4):
        get(script, f"/slow/{number}")
    slow = script.sent()
    for packet in slow[:3]:
        packets = script.advance(2.7)
        assert packets[0].op is OpCode.PING
        script.reply(XID_PING)
        script.answer(packet)
    assert script.machine.requests.inflight


def test_a_server_that_is_silent_for_two_thirds_of_the_timeout_is_given_up(
    script: Script,
) -> None:
    script.advance(16 / 3 - 0.001)
    assert script.cuts == []
    script.advance(0.002)
    assert script.cuts == ["the server has answered nothing for 5.33333 seconds"]
    assert script.states[-1] == (S.SUSPENDED, 7)


def test_an_answer_breaks_the_silence(script: Script) -> None:
    for _ in range(20):
        script.advance(5.3)
        script.reply(XID_PING)
    assert script.cuts == []


def test_an_answer_that_is_long_in_coming_breaks_the_silence(script: Script) -> None:
    for _ in range(4):
        script.advance(5.3)
        script.machine.receive(bytes([0, 0, 0, 100, 0, 0, 0, 7]), script.now)
    assert script.cuts == []


@pytest.mark.parametrize("begun", ["00000064", "00000064ffffffff", "00000064ffffffffffff"])
def test_what_may_be_an_event_does_not_break_it(script: Script, begun: str) -> None:
    """Events, too, come in pieces (seed 600190)."""
    script.advance(5.0)
    script.machine.receive(bytes.fromhex(begun), script.now)
    script.advance(0.4)
    assert script.cuts == ["the server has answered nothing for 5.33333 seconds"]


def test_events_do_not_break_it(script: Script) -> None:
    """A link may carry nothing of ours any more, and still bring events (seed 200160)."""
    for _ in range(5):
        script.advance(1.0)
        script.event(EventType.NONE, "")
    assert script.cuts == []
    script.advance(0.4)
    assert script.cuts == ["the server has answered nothing for 5.33333 seconds"]


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


def test_a_closed_client_reads_nothing_that_comes_in_late() -> None:
    """Such as the answer to a handshake, as the program is cancelled while it connects."""
    script = Script()
    script.open()
    script.machine.closed()
    script.greet()
    assert script.states == [(S.CLOSED, 0)]


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


# --- events prove nothing ------------------------------------------------------------------------


def proven(script: Script) -> float:
    return script.machine._lease_proof.proven_until - START


@pytest.mark.parametrize("type_", EventType)
def test_no_event_proves_anything_before_or_after_re_arming(
    script: Script, type_: EventType
) -> None:
    watcher = Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    script.now += 3.0
    script.event(type_, "/b")
    script.lose_link()
    script.connect()
    (packet,) = script.sent()
    script.event(type_, "/b")
    assert proven(script) == 8.0
    script.answer(packet)
    get(script, "/a")
    script.serve()
    script.event(type_, "/b")
    assert proven(script) == 8.0
    write(script)
    script.serve()
    assert proven(script) == 11.0


def test_contact_on_one_link_is_no_contact_on_the_next(script: Script) -> None:
    write(script)
    script.serve()
    script.now += 3.0
    script.lose_link()
    script.connect()
    get(script, "/a")
    script.serve()
    assert proven(script) == 8.0
