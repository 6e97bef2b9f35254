"""Renewals of the lease: when they leave, what they prove, and what becomes of refused ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from session.script import (
    NO_NODE,
    START,
    TIMEOUT,
    Packet,
    Script,
    connected,
    lease_since,
    renewals,
    waited,
)

from aiolead._session.lease import MOST_CHECKS
from aiolead._session.requests import WRITE, multi_call
from aiolead._wire.codes import OpCode
from aiolead._wire.requests import Check, Multi, Sync
from aiolead.errors import LossReason, NoAuthError, RequestTimeoutError, ThrottledOpError
from aiolead.model import EventType

SETTLE = 0.1
PAUSE = TIMEOUT / 32
"""After a refused renewal."""
MOST_AT_ONCE = 3
"""Renewals at one instant: each of them has proven something."""
NOT_CONFIRMED = "the server does not confirm the lease"

# --- when renewals leave -----------------------------------------------------------------------


def test_nothing_is_renewed_while_nothing_is_held(script: Script) -> None:
    assert {packet.op for packet in script.serve_for(60.0)} == {OpCode.PING}


def test_brief_hold_costs_no_request(script: Script) -> None:
    holder = script.hold()
    script.now += SETTLE / 2
    holder.release()
    script.advance(2.0)
    assert script.sent() == []
    assert (holder.settled, holder.lost) == ([], [])


@pytest.mark.parametrize(("urgent", "delay"), [(False, SETTLE), (True, 0.0)])
def test_holds_are_renewed_together_as_soon_as_they_settle(
    script: Script, urgent: bool, delay: float
) -> None:
    dues = script.dues
    holders = [script.hold(f"/{name}", urgent=urgent) for name in "abc"]
    assert script.dues > dues
    assert (holders[0].settled == [START]) is urgent
    (packet,) = script.advance(delay + 0.01)
    assert packet.sent == pytest.approx(START + delay)
    assert packet.checks == ["/a", "/b", "/c"]
    assert [holder.settled for holder in holders] == [[pytest.approx(START + delay)]] * 3


def test_released_hold_does_not_settle_with_the_others(script: Script) -> None:
    script.hold().release()
    first = script.hold("/a", on_settled=lambda: second.release())
    second = script.hold("/b")
    (packet,) = script.advance(1.0)
    assert packet.checks == ["/a"]
    assert second.settled == []
    first.release()


def test_renewal_is_a_transaction_followed_by_a_sync(script: Script) -> None:
    script.hold("/held", urgent=True)
    beat = waited(2.0)
    packets = script.serve_for(5.5 * beat)
    assert [packet.op for packet in packets] == [OpCode.MULTI, OpCode.SYNC] * 6
    sent = [packet.sent - START for packet in renewals(packets)]
    assert sent == pytest.approx([beat * number for number in range(6)])
    assert Sync.read(packets[1].reader).path == "/held"


def test_sync_leaves_once_the_transaction_is_answered(script: Script) -> None:
    script.hold(urgent=True)
    packet = script.next_renewal()
    script.wait(1.0)
    assert script.sent() == []
    outputs = script.outputs
    script.answer(packet)
    assert script.outputs > outputs
    assert script.ops() == [OpCode.SYNC]


@pytest.mark.parametrize(
    ("tick_time", "latency", "beat"),
    [
        # Not before w + timeout / 4, and not before half a tick after the answer.
        (None, 0.0, waited(2.0)),
        (None, 0.5, 0.5 + waited(2.0)),
        (0.5, 0.0, 2.0),
        (0.5, 0.5, 2.0),
        (0.5, 1.9, 1.9 + waited(0.25)),
        (5.0, 0.25, 0.25 + waited(2.5)),
    ],
)
@pytest.mark.parametrize("confirmed", [0.0, 0.2])
def test_interval_between_renewals(
    tick_time: float | None, latency: float, beat: float, confirmed: float
) -> None:
    script = connected(tick_time=tick_time)
    script.hold(urgent=True)
    first = script.next_renewal()
    for _ in range(10):
        script.now += latency
        script.answer(first)
        (sync,) = script.sent()
        script.now += confirmed  # which takes nothing from the next one
        script.answer(sync)
        second = script.next_renewal()
        assert second.sent == pytest.approx(first.sent + beat)
        first = second


@pytest.mark.parametrize("is_direct", [True, False], ids=["one round", "two rounds"])
@given(
    start=st.floats(0.0, 1e6),
    tick_time=st.none() | st.floats(TIMEOUT / 4, TIMEOUT),
    grace_period=st.none() | st.floats(0.0, TIMEOUT / 4),
)
@example(start=0.0, tick_time=TIMEOUT, grace_period=None)
@example(start=START, tick_time=TIMEOUT, grace_period=None)
@example(start=0.0, tick_time=None, grace_period=TIMEOUT / 4)
@example(start=START, tick_time=None, grace_period=TIMEOUT / 4)
def test_short_lease_is_not_renewed_for_nothing(
    is_direct: bool, start: float, tick_time: float | None, grace_period: float | None
) -> None:
    """Answers take no time here, so such renewals would follow each other without an end."""
    script = Script(tick_time=tick_time, grace_period=grace_period)
    script.now, script.shows_question = start, not is_direct
    script.connect()
    script.hold(urgent=True)
    renewed = Counter[float]()
    while script.now < start + 6 * TIMEOUT:
        script.now = max(script.now, script.machine.next_deadline())
        script.tick()
        while packets := script.sent():
            for packet in packets:
                script.answer(packet, err=NoAuthError.code if packet.is_question else 0)
                renewed[packet.sent] += packet.op is OpCode.MULTI
        assert renewed[script.now] <= MOST_AT_ONCE


@pytest.mark.parametrize("is_answered", [False, True], ids=["unanswered", "unconfirmed"])
def test_at_most_one_renewal_is_under_way(script: Script, is_answered: bool) -> None:
    script.hold(urgent=True)
    packet = script.next_renewal()
    if is_answered:
        script.answer(packet)
        assert script.ops() == [OpCode.SYNC]
    script.hold(urgent=True)
    script.advance(TIMEOUT, serve=lambda: None)
    assert renewals(script.sent()) == []


def test_new_urgent_hold_waits_for_the_next_renewal(script: Script) -> None:
    script.hold("/a", urgent=True)
    first = script.renew()
    script.wait(1.0)
    script.hold("/b", urgent=True)
    second = script.next_renewal()
    assert second.sent == pytest.approx(first.sent + waited(2.0))
    assert set(second.checks) == {"/a", "/b"}


def test_first_hold_after_a_pause_is_renewed_immediately(script: Script) -> None:
    holder = script.hold(urgent=True)
    script.renew()
    holder.release()
    script.serve_for(10.0)
    for _ in range(2):
        script.write()
        script.serve()
    script.hold(urgent=True)
    assert script.next_renewal().sent == script.now


def test_more_holds_than_fit_one_renewal_take_turns(script: Script) -> None:
    count = 2 * MOST_CHECKS + 88
    for number in range(count):
        script.hold(f"/{number}", urgent=True)
    seen = []
    for _ in range(5):
        packet = script.renew()
        assert len(packet.checks) == MOST_CHECKS
        seen += packet.checks
    assert seen == [f"/{number % count}" for number in range(5 * MOST_CHECKS)]


def test_renewal_respects_the_request_limit_of_the_servers() -> None:
    script = connected(max_request=1024)
    for number in range(50):
        script.hold(f"/ä{number:0100}", urgent=True)
    seen = set()
    for _ in range(10):
        packet = script.renew()
        assert 1024 - 119 < len(packet.body) + 8 <= 1024
        seen |= set(packet.checks)
    assert len(seen) == 50


def test_path_too_long_for_a_renewal_is_tried_alone() -> None:
    script = connected(max_request=1024)
    for number in range(3):
        script.hold(f"/{number:01010}", urgent=True)
    assert len(script.next_renewal().checks) == 1


# --- what a renewal proves ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "granted", "latency", "margin"),
    [
        ({}, 8.0, 0.0, 0.808),
        ({}, 8.0, 1.5, 0.808),  # it counts from the request for the session
        ({"grace_period": 0.0}, 8.0, 0.0, 0.008),
        ({"grace_period": 2.0}, 8.0, 0.0, 2.008),
        # The 3 s to stop in become a quarter of what is granted.
        ({"session_timeout": 30.0, "grace_period": 3.0}, 4.0, 0.0, 1.004),
    ],
)
def test_creating_the_session_begins_the_lease(
    options: dict[str, float], granted: float, latency: float, margin: float
) -> None:
    script = Script(**options)
    script.connect(timeout=granted, after=latency)
    assert script.now == START + latency
    assert script.deadline == pytest.approx(START + granted - margin)


def test_confirmed_renewal_extends_the_lease_to_the_one_before(script: Script) -> None:
    script.hold(urgent=True)
    before = START
    for _ in range(6):
        packet = script.next_renewal()
        deadline = script.deadline
        script.now += 0.25
        script.answer(packet)
        assert script.deadline == deadline
        script.now += 0.05
        script.confirm()
        assert script.deadline == lease_since(before)
        before = packet.sent


@given(st.floats(0, 1e6), st.floats(0.5, 120), st.floats(0, 0.1), st.none() | st.floats(0.01, 0.5))
def test_renewal_that_leaves_when_due_proves_the_one_before(
    start: float, timeout: float, latency: float, tick: float | None
) -> None:
    timeout = round(timeout, 3)
    script = Script(session_timeout=timeout, tick_time=None if tick is None else tick * timeout)
    script.now = start
    script.connect(timeout=timeout)
    holder = script.hold(urgent=True)
    before = confirmed = start
    for _ in range(12):
        packet = script.next_renewal(timeout)
        script.now += latency * timeout
        script.answer(packet)
        (sync,) = script.sent()
        script.now += latency * timeout / 2
        script.answer(sync)
        # The one before, or even its second step, if half a tick is short.
        proven = script.machine._lease_proof.proven_until
        assert proven in (before + timeout, confirmed + timeout)
        before, confirmed = packet.sent, sync.sent
    assert holder.lost == []


def _reads(script: Script) -> None:
    script.get("/a")
    script.serve()


def _reads_and_events(script: Script) -> None:
    """A server that was isolated for long delivers what was committed meanwhile, however old."""
    _reads(script)
    script.event(EventType.DELETED, "/whatever")


@pytest.mark.parametrize(
    ("contact", "pings"), [(lambda _: None, 11), (_reads, 0), (_reads_and_events, 0)]
)
@pytest.mark.parametrize("is_direct", [False, True])
def test_contact_without_a_commit_does_not_extend_the_lease(
    script: Script, contact: Callable[[Script], None], pings: int, is_direct: bool
) -> None:
    if is_direct:  # one round would be enough
        script.machine._lease_proof.direct()
    deadline, packets = script.deadline, []
    for _ in range(30):
        packets += script.serve_for(1.0)
        contact(script)
    assert script.deadline == deadline
    assert len(packets) == pings


def test_any_committed_write_extends_the_lease(script: Script) -> None:
    script.machine._lease_proof.direct()
    script.serve_for(5.0)  # pings at 2.67 and 5.33, less the margin
    script.now = START + 5.0
    script.write()
    script.serve()
    assert script.deadline == lease_since(START)
    script.write()
    script.serve()
    assert script.deadline == lease_since(START + 8 / 3)


@pytest.mark.parametrize("code", [NO_NODE, -103, -110, NoAuthError.code])
def test_failed_write_does_not_extend_the_lease(script: Script, code: int) -> None:
    deadline = script.deadline
    script.serve_for(5.0)
    script.write()
    script.answer(script.one(), err=code)
    assert script.deadline == deadline


# --- a lease that is short: found by the simulation, on slow connections -----------------------


@pytest.mark.parametrize("took", [0.125, 0.3])
def test_answer_has_its_time_however_short_the_lease_is(took: float) -> None:
    # With the longest grace period, a lease is as short as that when its renewal leaves.
    script = connected(grace_period=2.0)
    script.machine.can_move = True
    script.hold(urgent=True)
    for _ in range(10):
        renewal = script.next_renewal()
        script.advance(took)
        assert script.cuts == []
        script.answer(renewal)
        (sync,) = script.sent()
        script.advance(took)
        assert script.cuts == []
        script.answer(sync)


def test_slow_answer_has_half_of_a_short_lease() -> None:
    script = connected(grace_period=2.0)
    script.machine.can_move = True
    script.hold(urgent=True)
    script.renew(4)
    script.next_renewal()
    left = script.deadline - script.now
    assert left < 3.0
    script.advance(left / 2 - 0.01)
    assert script.cuts == []
    script.advance(0.02)
    assert len(script.cuts) == 1


def test_renewal_that_just_missed_a_proof_is_followed_by_another(script: Script) -> None:
    # The handshake proves the lease so far. A request at 2.6 s could prove more.
    script.advance(2.6)
    script.get("/a")
    (packet,) = script.sent()
    script.now += 0.2
    script.answer(packet)
    # A renewal proves it if it leaves half a tick after its answer. This one leaves too early.
    script.advance(1.99)
    holder = script.hold(urgent=True)
    first = script.next_renewal()
    script.advance(0.1)
    script.answer(first)
    script.confirm()
    assert script.deadline == lease_since(START)
    second = script.next_renewal()
    assert second.sent == pytest.approx(script.now)
    script.answer(second)
    script.confirm()
    assert script.deadline == lease_since(START + 2.6)
    assert holder.lost == []


@pytest.mark.parametrize(("left", "settled"), [(1.99, True), (2.01, False)])
def test_hold_under_a_short_lease_is_renewed_immediately(
    script: Script, left: float, settled: bool
) -> None:
    script.now = script.deadline - left
    holder = script.hold()
    assert bool(holder.settled) is settled
    assert (script.machine.renewals.due() <= script.now) is settled


@pytest.mark.parametrize(
    ("took", "reconnects", "enough"),
    [(0.1, False, 1.0), (0.4, False, 1.2), (3.0, False, 4 / 3), (3.0, True, 1.0)],
)
def test_enough_lease_depends_on_how_long_writes_take_on_this_connection(
    script: Script, took: float, reconnects: bool, enough: float
) -> None:
    check = Multi((Check("/held", -1),))
    script.submit(multi_call(check, ["/held"], kind=replace(WRITE, is_bound=True)))
    (packet,) = script.sent()
    script.now += took
    script.answer(packet)
    if reconnects:
        script.reconnect()
    assert script.machine.renewals.first_is_in_time(script.deadline - enough)
    assert not script.machine.renewals.first_is_in_time(script.deadline - enough + 0.01)


# --- refused renewals --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (NO_NODE, LossReason.DELETED),
        # As by an ACL without READ: nobody can ever confirm that hold.
        (NoAuthError.code, LossReason.REFUSED),
        (-103, LossReason.REFUSED),
        (-777, LossReason.REFUSED),
    ],
)
def test_refused_check_loses_its_hold_alone_and_the_others_are_renewed_immediately(
    script: Script, code: int, reason: LossReason
) -> None:
    holders = {name: script.hold(f"/{name}", urgent=True) for name in "abc"}
    packet = script.next_renewal()
    script.now += 0.25
    script.refuse(packet, 1, code)
    lost = {name: holder.lost for name, holder in holders.items()}
    assert lost == {"a": [], "b": [(reason, START + 0.25)], "c": []}
    again = script.renew()
    assert again.sent == packet.sent + 0.25
    assert sorted(again.checks) == ["/a", "/c"]
    script.serve_for(TIMEOUT * 2)
    assert holders["a"].lost == holders["c"].lost == []


def test_several_deleted_znodes_are_found_one_by_one(script: Script) -> None:
    holders = [script.hold(f"/{n}", urgent=True) for n in range(4)]
    for _ in range(4):
        script.refuse(script.next_renewal(), 0, NO_NODE)
    assert [holder.reasons for holder in holders] == [[LossReason.DELETED]] * 4
    assert script.advance(2.0) == []


def test_refused_check_of_a_released_hold_affects_no_other(script: Script) -> None:
    gone, stays = script.hold("/gone", urgent=True), script.hold("/stays", urgent=True)
    packet = script.next_renewal()
    gone.release()
    script.refuse(packet, 0, NO_NODE)
    assert gone.lost == stays.lost == []
    again = script.next_renewal()
    assert (again.sent, again.checks) == (packet.sent, ["/stays"])


def test_hold_released_between_the_two_steps_ends_renewals(script: Script) -> None:
    holder = script.hold(urgent=True)
    script.answer(script.next_renewal())
    holder.release()
    script.confirm()
    assert script.advance(2.0) == []


OVERLOADED = [ThrottledOpError.code, RequestTimeoutError.code, -7, NoAuthError.code, -777]


def refuse_transactions(script: Script, code: int, until: float) -> list[Packet]:
    """The packets of 20 s. Transactions are refused until a moment, the rest is answered."""
    packets: list[Packet] = []

    def refuse() -> None:
        while sent := script.sent():
            packets.extend(sent)
            for packet in sent:
                is_refused = packet.op is OpCode.MULTI and script.now < until
                script.answer(packet, err=code if is_refused else 0)

    script.advance(20.0, serve=refuse)
    return packets


@pytest.mark.parametrize("code", OVERLOADED)
def test_other_refusals_are_retried_until_the_lease_ends(script: Script, code: int) -> None:
    holder = script.hold(urgent=True)
    packets = refuse_transactions(script, code, START + 20.0)
    sent = [packet.sent - START for packet in renewals(packets)]
    assert sent == [n * PAUSE for n in range(29)]
    assert OpCode.SYNC not in {packet.op for packet in packets}
    assert holder.lost == [(LossReason.UNCONFIRMED, lease_since(START))]


@pytest.mark.parametrize("code", OVERLOADED)
def test_server_that_refuses_for_a_while_costs_no_hold(script: Script, code: int) -> None:
    holder = script.hold(urgent=True)
    script.renew(3)
    refuse_transactions(script, code, script.deadline - TIMEOUT / 16)
    assert holder.lost == []


def test_refused_sync_proves_nothing_and_is_retried_soon(script: Script) -> None:
    holder = script.hold("/held", resign_on_disconnect=True, urgent=True)
    script.renew()
    deadline = script.deadline
    packet = script.next_renewal()
    script.answer(packet)
    script.answer(script.one(), err=-777)
    assert script.deadline == deadline
    again = script.renew()
    assert again.sent == packet.sent + PAUSE
    script.renew()
    assert script.deadline == lease_since(again.sent)
    assert holder.lost == []


# --- the connection ----------------------------------------------------------------------------


@pytest.mark.parametrize("reached", ["due", "sent", "answered", "sync sent"])
def test_interrupted_renewal_starts_over_immediately_on_the_next_connection(
    script: Script, reached: str
) -> None:
    holder = script.hold(urgent=True)
    if reached == "due":
        script.tick()  # but nothing is sent
    else:
        packet = script.next_renewal()
        if reached != "sent":
            script.answer(packet)
        if reached == "sync sent":
            assert script.ops() == [OpCode.SYNC]
    deadline = script.deadline
    script.now += 0.5
    script.disconnect()
    script.now += 0.5
    script.connect()
    assert script.ops() == []
    (packet,) = script.advance(0.0)
    assert packet.op is OpCode.MULTI
    assert script.ops() == []  # the sync of the old connection is of no use here
    assert script.deadline == deadline
    script.answer(packet)
    # The new handshake, which touched the leader itself.
    assert script.deadline == lease_since(START + 1.0)
    script.confirm()
    assert holder.lost == []


@pytest.mark.parametrize("step", [OpCode.MULTI, OpCode.SYNC])
@pytest.mark.parametrize(("can_move", "left"), [(True, 1.6), (False, 1.0)])
def test_server_that_confirms_nothing_is_left_and_the_only_one_as_a_last_resort(
    script: Script, can_move: bool, left: float, step: OpCode
) -> None:
    script.machine.can_move = can_move
    holder = script.hold(urgent=True)
    script.renew(3)
    packet = script.next_renewal()
    if step is OpCode.SYNC:
        script.answer(packet)
        assert script.ops() == [OpCode.SYNC]
    end = script.deadline
    while script.now < end - left - 0.2 and not script.cuts:
        script.pass_time()
    assert script.cuts == []
    while script.now < end - 0.1 and not script.cuts:
        script.pass_time()
    assert script.cuts == [NOT_CONFIRMED]
    assert end - left - 0.1 < script.now < end - left + 0.1
    # The rest of the lease is enough, where the renewal was lost and the server is well.
    script.connect()
    script.serve()
    script.serve_for(TIMEOUT)
    assert holder.lost == []


def test_new_connection_has_its_time_before_it_is_left(script: Script) -> None:
    script.machine.can_move = True
    holder = script.hold(urgent=True)
    script.now += 5.0
    script.reconnect()
    script.next_renewal()
    script.advance(1.9)
    assert script.cuts == []
    script.advance(0.2)
    assert script.cuts == [NOT_CONFIRMED]
    assert holder.lost == []


def test_connection_is_not_left_where_that_would_end_the_hold(script: Script) -> None:
    script.machine.can_move = True
    script.hold(urgent=True, resign_on_disconnect=True)
    sent = script.next_renewal().sent
    # It waits as long as any request may, although the lease is short by then.
    end = sent + script.machine.timing.silent_after
    assert end > script.deadline - script.machine.timing.short_lease
    while script.now < end - 0.1:
        script.pass_time()
    assert script.cuts == []
