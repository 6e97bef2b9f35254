"""Whether the server is well: pings, silence, requests without an answer, `Client.healthy`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from session.script import START, TIMEOUT, Packet, Script, connected, failure_of, waited

from aiolead._session.requests import Call
from aiolead._wire.codes import XID_PING, XID_SET_WATCHES, OpCode
from aiolead.errors import ConnectionLossError, LossReason, Outcome
from aiolead.model import Auth, EventType, SessionState

SILENT = ["the server has answered nothing for 5.33333 seconds"]
BOUND = TIMEOUT * 2 / 3


# --- pings and silence -------------------------------------------------------------------------


@pytest.mark.parametrize("has_events", [False, True])
def test_ping_leaves_after_a_third_of_the_timeout_without_a_request(
    script: Script, has_events: bool
) -> None:
    packets: list[Packet] = []
    for _ in range(90):
        packets += script.serve_for(0.1)
        if has_events:
            script.event(EventType.DELETED, "/x")
    pings = [round(packet.sent - START, 3) for packet in packets if packet.op is OpCode.PING]
    assert pings == [2.667, 5.333, 8.0]


def test_answered_requests_make_pings_unnecessary(script: Script) -> None:
    for _ in range(9):
        assert script.advance(1.0) == []
        script.get("/a")
        assert [packet.op for packet in script.serve()] == [OpCode.GET_DATA]


def test_unanswered_requests_do_not_delay_pings(script: Script) -> None:
    for number in range(4):
        script.get(f"/slow/{number}")
    slow = script.sent()
    for packet in slow[:3]:
        packets = script.advance(2.7)
        assert packets[0].op is OpCode.PING
        script.reply(XID_PING)
        script.answer(packet)
    assert script.machine.requests.inflight


def test_pings_and_requests_may_be_answered_in_any_order(script: Script) -> None:
    script.advance(2.7)
    call = script.get("/a")
    script.answer(script.one())
    script.reply(XID_PING)
    assert call.is_done


def test_server_that_is_silent_for_two_thirds_of_the_timeout_is_left(script: Script) -> None:
    script.advance(16 / 3 - 0.001)
    assert script.cuts == []
    script.advance(0.002)
    assert script.cuts == SILENT
    assert script.states[-1] == (SessionState.SUSPENDED, 7)


def test_answer_ends_the_silence(script: Script) -> None:
    for _ in range(20):
        script.advance(5.3)
        script.reply(XID_PING)
    assert script.cuts == []


def test_each_piece_of_a_long_answer_ends_the_silence(script: Script) -> None:
    for _ in range(4):
        script.advance(5.3)
        script.machine.receive(bytes([0, 0, 0, 100, 0, 0, 0, 7]), script.now)
    assert script.cuts == []


@pytest.mark.parametrize("begun", ["00000064", "00000064ffffffff", "00000064ffffffffffff"])
def test_bytes_that_may_be_an_event_do_not_end_the_silence(script: Script, begun: str) -> None:
    """Events, too, come in pieces (seed 600190)."""
    script.advance(5.0)
    script.machine.receive(bytes.fromhex(begun), script.now)
    script.advance(0.4)
    assert script.cuts == SILENT


def test_events_do_not_end_the_silence(script: Script) -> None:
    """A connection may carry no request any more, and still bring events (seed 200160)."""
    for _ in range(5):
        script.advance(1.0)
        script.event(EventType.NONE, "")
    assert script.cuts == []
    script.advance(0.4)
    assert script.cuts == SILENT


def test_silence_counts_from_the_beginning_of_each_connection(script: Script) -> None:
    script.now += 5.0
    script.disconnect()
    script.now += 20.0
    script.connect()
    assert script.machine.next_deadline() == pytest.approx(script.now + TIMEOUT / 3)


# --- requests without an answer, although the server answers pings -----------------------------


def until_cut(script: Script) -> float:
    """Seconds until the connection is left, while only pings are answered; at most 30."""
    start = script.now
    while not script.cuts and script.now < start + 30.0:
        script.pass_time()
    return script.now - start


def _present_credentials(script: Script) -> Call[None]:
    call: Call[None] = Call(OpCode.AUTH, b"", lambda _: None)
    script.advance(1.0)
    script.machine.login.add(Auth.digest("a", "secret"), call, script.now)
    return call


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("SET_DATA /a", lambda script: script.write("/a")),
        ("GET_DATA /a", lambda script: script.get("/a")),
        ("credentials", _present_credentials),
    ],
)
def test_unanswered_request_costs_its_connection(
    script: Script, name: str, ask: Callable[[Script], Call[object]]
) -> None:
    call = ask(script)
    script.sent()
    assert until_cut(script) == pytest.approx(BOUND, abs=0.11)
    assert script.cuts == [f"the server answers, but has not answered {name} for 5.33333 seconds"]
    if name == "SET_DATA /a":
        assert failure_of(call) == (ConnectionLossError, Outcome.UNKNOWN)
    script.connect()
    script.serve()
    assert call.is_done


def test_answers_to_earlier_requests_extend_the_wait(script: Script) -> None:
    """A server that works through many requests is well, however long the last one waits."""
    calls = [script.get(f"/{number}") for number in range(10)]
    for packet in script.sent():
        for _ in range(50):
            script.pass_time()
        script.answer(packet)
    assert script.cuts == []
    assert all(call.is_done for call in calls)


def test_answer_to_an_earlier_ping_extends_the_wait_and_a_later_one_does_not(
    script: Script,
) -> None:
    (ping,) = script.advance(2.7)
    script.write()
    script.sent()
    script.advance(2.5)
    script.answer(ping)
    assert until_cut(script) == pytest.approx(BOUND, abs=0.11)


def test_long_answer_that_has_begun_extends_the_wait(script: Script) -> None:
    script.get("/a")
    script.sent()
    for _ in range(10):
        script.feed(bytes([0, 0, 1, 0, 0, 0, 0, 1]) if script.now == START else b"\0")
        for _ in range(50):
            script.advance(0.1)
            script.sent()
    assert script.cuts == []


def test_long_event_that_has_begun_does_not_extend_the_wait(script: Script) -> None:
    script.write()
    script.sent()
    script.feed(bytes.fromhex("00000064ffffffff"))
    script.advance(BOUND + 0.1)
    assert len(script.cuts) == 1


def test_wait_for_a_request_sent_with_the_handshake_begins_with_its_answer() -> None:
    script = Script()
    call = script.get("/a")
    script.connect(after=4.0)
    script.sent()
    assert until_cut(script) == pytest.approx(BOUND, abs=0.11)
    script.connect()
    script.serve()
    assert call.result() == b"data"


def test_unanswered_set_watches_costs_its_connection(script: Script) -> None:
    watcher = script.watch()
    script.serve()
    script.reconnect()
    assert script.one().xid == XID_SET_WATCHES
    start = script.now
    while script.now < start + BOUND - 0.2:  # other requests are answered all the time
        script.pass_time()
        script.get("/b")
        script.serve()
    assert script.cuts == []
    until_cut(script)
    assert script.cuts == [
        "the server answers, but has not answered SetWatches for 5.33333 seconds"
    ]
    script.connect()
    script.serve()
    assert watcher.is_armed


def test_idle_connection_with_answered_pings_is_kept(script: Script) -> None:
    script.get("/a")
    script.serve()
    for _ in range(200):
        script.pass_time()
    assert script.cuts == []


# --- `confirmed_at`: the last proof that all is well -------------------------------------------


def unconfirmed(script: Script) -> float:
    """For how long nothing was confirmed, in seconds."""
    return script.now - script.machine.confirmed_at


def test_any_answer_and_any_connection_confirms_a_client_that_holds_nothing(script: Script) -> None:
    assert unconfirmed(script) == 0
    worst = 0.0
    for _ in range(200):
        script.pass_time()  # only pings are answered
        worst = max(worst, unconfirmed(script))
    assert 0 < worst < TIMEOUT / 2
    script.disconnect()
    since = unconfirmed(script)
    script.now += 3.0
    assert unconfirmed(script) == pytest.approx(since + 3.0)
    script.connect()
    assert unconfirmed(script) == 0


def test_hold_is_confirmed_within_half_of_the_session_timeout(script: Script) -> None:
    script.hold(urgent=True)
    worst = 0.0
    for _ in range(10):
        packet = script.renew()
        worst = max(worst, packet.sent + waited(2.0) - script.machine.confirmed_at)
    # Just before each renewal.
    assert worst == pytest.approx(2 * waited(TIMEOUT / 4))


def test_pings_do_not_confirm_a_hold(script: Script) -> None:
    holder = script.hold(urgent=True)
    script.renew(3)
    confirmed = script.machine.confirmed_at
    script.next_renewal()  # the server is partitioned from the others, and answers pings
    for _ in range(21):
        script.pass_time()
    assert (holder.lost, script.cuts) == ([], [])
    assert script.machine.confirmed_at == confirmed
    assert unconfirmed(script) > TIMEOUT / 2
    holder.release()
    for _ in range(9):
        script.pass_time()
    assert script.cuts == []
    assert unconfirmed(script) < 1.0  # pings were answered all the time


@pytest.mark.parametrize("reason", [LossReason.DELETED, LossReason.UNCONFIRMED])
def test_lost_hold_is_not_confirmed_until_it_is_released(
    script: Script, reason: LossReason
) -> None:
    stubborn = script.hold("/a", urgent=True)
    script.renew()
    proven = script.machine.confirmed_at
    stubborn.lose(reason)
    script.hold("/b", urgent=True)
    script.renew(6)
    # The renewals of the other hold do not count for it.
    assert script.machine.confirmed_at == proven
    stubborn.release()
    assert script.machine.confirmed_at > proven


def test_next_session_does_not_confirm_holds_of_the_last_one(script: Script) -> None:
    stubborn = script.hold(urgent=True)
    script.renew()
    proven = script.machine.confirmed_at
    script.machine.give_up_session()
    assert stubborn.reasons == [LossReason.EXPIRED]
    script.now += 20
    script.connect(session_id=8)
    assert script.machine.confirmed_at == proven
    stubborn.release()
    assert unconfirmed(script) == 0


def test_nothing_is_confirmed_without_a_session() -> None:
    assert Script().machine.confirmed_at == -inf
    script = connected()
    assert script.machine.confirmed_at == START
    script.machine.give_up_session()
    assert script.machine.confirmed_at == -inf
    script.connect(session_id=8)
    assert script.machine.confirmed_at == START
    script.machine.closed()
    assert script.machine.confirmed_at == -inf
