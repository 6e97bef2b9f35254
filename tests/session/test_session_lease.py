"""Holding under the lease: when it is renewed, what a renewal confirms, and how holds end."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.half_ticks import waited
from session.script import (
    NO_NODE,
    START,
    Holder,
    Packet,
    Script,
    after,
    get,
    next_renewal,
    pass_time,
    renew,
    renewals,
    write,
)

from aiolead._session.lease.renewals import MOST_CHECKS
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    LossReason,
    NoAuthError,
    RequestTimeoutError,
    SessionExpiredError,
    ThrottledOpError,
)
from aiolead.model import EventType

# A session of 8 s: renewals every 2 s, half a tick of 2 s, 0.8 s to stop in.
TIMEOUT = 8.0
MARGIN = 0.808
SETTLE = 0.1


# --- when renewals leave -----------------------------------------------------------------------


def test_nothing_is_renewed_while_nothing_is_held(script: Script) -> None:
    packets = []
    script.advance(60.0, serve=lambda: packets.extend(script.serve()))
    assert {packet.op for packet in packets} == {OpCode.PING}


def test_a_hold_shorter_than_a_moment_costs_nothing(script: Script) -> None:
    holder = Holder(script)
    script.now += SETTLE / 2
    holder.hold.release()
    script.advance(2.0)
    assert script.sent() == []
    assert (holder.settled, holder.lost) == ([], [])


def test_a_hold_settles_after_a_moment_and_is_then_renewed(script: Script) -> None:
    holder = Holder(script, "/held")
    (packet,) = script.advance(1.0)
    assert packet.sent == pytest.approx(START + SETTLE)
    assert packet.checks == ["/held"]
    assert holder.settled == [pytest.approx(START + SETTLE)]


def test_an_urgent_hold_settles_and_is_renewed_at_once(script: Script) -> None:
    holder = Holder(script, "/held", urgent=True)
    assert holder.settled == [START]
    assert script.dues > 0
    (packet,) = script.advance(0.0)
    assert packet.checks == ["/held"]


def test_one_transaction_confirms_all(script: Script) -> None:
    holders = [Holder(script, f"/{name}") for name in "abc"]
    (packet,) = script.advance(1.0)
    assert packet.checks == ["/a", "/b", "/c"]
    assert all(holder.settled for holder in holders)


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
def test_the_next_renewal(
    tick_time: float | None, latency: float, beat: float, confirmed: float
) -> None:
    script = Script(tick_time=tick_time)
    script.connect()
    Holder(script, urgent=True)
    first = next_renewal(script)
    for _ in range(10):
        script.now += latency
        script.answer(first)
        (sync,) = script.sent()
        script.now += confirmed  # which takes nothing from the next one
        script.answer(sync)
        second = next_renewal(script)
        assert second.sent == pytest.approx(first.sent + beat)
        first = second


def test_at_most_one_renewal_is_unanswered(script: Script) -> None:
    Holder(script, urgent=True)
    next_renewal(script)
    Holder(script, urgent=True)
    packets = script.advance(TIMEOUT, serve=lambda: None) or script.sent()
    assert renewals(packets) == []


def test_a_new_urgent_hold_waits_for_the_beat(script: Script) -> None:
    Holder(script, "/a", urgent=True)
    first = renew(script)
    after(script, 1.0)
    Holder(script, "/b", urgent=True)
    second = next_renewal(script)
    assert second.sent == pytest.approx(first.sent + waited(2.0))
    assert set(second.checks) == {"/a", "/b"}


def test_after_a_pause_the_first_hold_is_renewed_at_once_again(script: Script) -> None:
    holder = Holder(script, urgent=True)
    renew(script)
    holder.hold.release()
    script.advance(10.0, serve=script.serve)
    for _ in range(2):
        write(script)
        script.serve()
    Holder(script, urgent=True)
    assert next_renewal(script).sent == script.now


def test_more_holds_than_one_renewal_takes_take_turns(script: Script) -> None:
    count = 2 * MOST_CHECKS + 88
    for number in range(count):
        Holder(script, f"/{number}", urgent=True)
    seen = []
    for _ in range(5):
        packet = renew(script)
        assert len(packet.checks) == MOST_CHECKS
        seen += packet.checks
    assert seen == [f"/{number % count}" for number in range(5 * MOST_CHECKS)]


def test_a_renewal_is_no_longer_than_the_servers_take() -> None:
    script = Script(max_request=1024)
    script.connect()
    for number in range(50):
        Holder(script, f"/ä{number:0100}", urgent=True)
    seen = set()
    for _ in range(10):
        packet = renew(script)
        assert 1024 - 119 < len(packet.body) + 8 <= 1024
        seen |= set(packet.checks)
    assert len(seen) == 50


def test_a_path_that_is_too_long_for_a_renewal_is_tried_alone() -> None:
    script = Script(max_request=1024)
    script.connect()
    for number in range(3):
        Holder(script, f"/{number:01010}", urgent=True)
    assert len(next_renewal(script).checks) == 1


# --- what a renewal proves ---------------------------------------------------------------------


def test_the_first_lease_comes_from_the_creation_of_the_session(script: Script) -> None:
    assert script.machine.leases.deadline == pytest.approx(START + TIMEOUT - MARGIN)


def test_the_lease_counts_from_the_asking_for_the_session() -> None:
    script = Script()
    script.connect(after=1.5)
    assert script.now == START + 1.5
    assert script.machine.leases.deadline == pytest.approx(START + TIMEOUT - MARGIN)


def test_the_lease_counts_with_what_was_granted() -> None:
    script = Script(session_timeout=30.0, grace_period=3.0)
    script.connect(timeout=4.0)
    # What was to be 3 s to stop in is a quarter of what is granted.
    assert script.machine.leases.deadline == pytest.approx(START + 4.0 - 1.0 - 0.004)


@pytest.mark.parametrize(("grace_period", "margin"), [(None, 0.808), (0.0, 0.008), (2.0, 2.008)])
def test_the_margin(grace_period: float | None, margin: float) -> None:
    script = Script(grace_period=grace_period)
    script.connect()
    assert script.machine.leases.deadline == pytest.approx(START + TIMEOUT - margin)


def test_each_renewal_extends_the_lease_to_the_one_before_once_it_is_confirmed(
    script: Script,
) -> None:
    Holder(script, urgent=True)
    before = START
    for _ in range(6):
        packet = next_renewal(script)
        deadline = script.machine.leases.deadline
        script.now += 0.25
        script.answer(packet)
        assert script.machine.leases.deadline == deadline
        script.now += 0.05
        script.confirm()
        assert script.machine.leases.deadline == pytest.approx(before + TIMEOUT - MARGIN)
        before = packet.sent


@given(
    st.floats(0, 1e6),
    st.floats(0.5, 120),
    st.floats(0, 0.1),
    st.none() | st.floats(0.01, 0.5),
)
def test_a_renewal_that_leaves_when_due_always_proves_the_one_before(
    start: float, timeout: float, latency: float, tick: float | None
) -> None:
    timeout = round(timeout, 3)
    script = Script(session_timeout=timeout, tick_time=None if tick is None else tick * timeout)
    script.now = start
    script.connect(timeout=timeout)
    holder = Holder(script, urgent=True)
    before = confirmed = start
    for _ in range(12):
        packet = next_renewal(script, timeout)
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


def test_pings_extend_nothing(script: Script) -> None:
    deadline = script.machine.leases.deadline
    packets: list[Packet] = []
    script.advance(30.0, serve=lambda: packets.extend(script.serve()))
    assert len(packets) == 11
    assert script.machine.leases.deadline == deadline


def test_reads_extend_nothing(script: Script) -> None:
    deadline = script.machine.leases.deadline
    for _ in range(12):
        script.advance(1.0, serve=script.serve)
        get(script, "/a")
        script.serve()
    assert script.machine.leases.deadline == deadline


def test_any_committed_write_extends_it(script: Script) -> None:
    script.machine._lease_proof.direct()
    script.advance(5.0, serve=script.serve)  # pings at 2.67 and 5.33, less the margin
    script.now = START + 5.0
    write(script)
    script.serve()
    assert script.machine.leases.deadline == pytest.approx(START + TIMEOUT - MARGIN)
    write(script)
    script.serve()
    assert script.machine.leases.deadline == pytest.approx(START + 8 / 3 + TIMEOUT - MARGIN)


@pytest.mark.parametrize("code", [NO_NODE, -103, -110, NoAuthError.code])
def test_a_write_that_failed_extends_nothing(script: Script, code: int) -> None:
    deadline = script.machine.leases.deadline
    script.advance(5.0, serve=script.serve)
    write(script)
    (packet,) = script.sent()
    script.answer(packet, err=code)
    assert script.machine.leases.deadline == deadline


def test_events_extend_nothing(script: Script) -> None:
    """A server that was cut off for long hands on what was committed meanwhile, however old."""
    deadline = script.machine.leases.deadline
    for _ in range(12):
        script.advance(1.0, serve=script.serve)
        get(script, "/a")
        script.serve()
        script.event(EventType.DELETED, "/whatever")
    assert script.machine.leases.deadline == deadline


# --- refused renewals --------------------------------------------------------------------------


def test_a_hold_whose_znode_is_gone_is_lost_alone_and_the_others_renewed_at_once(
    script: Script,
) -> None:
    holders = {name: Holder(script, f"/{name}", urgent=True) for name in "abc"}
    packet = next_renewal(script)
    script.now += 0.25
    script.refuse(packet, 1, NO_NODE)
    assert {name: holder.reasons for name, holder in holders.items()} == {
        "a": [], "b": [LossReason.DELETED], "c": [],
    }  # fmt: skip
    again = next_renewal(script)
    assert again.sent == packet.sent + 0.25
    assert sorted(again.checks) == ["/a", "/c"]


def test_several_that_are_gone_are_found_one_after_the_other(script: Script) -> None:
    holders = [Holder(script, f"/{n}", urgent=True) for n in range(4)]
    for _ in range(4):
        script.refuse(next_renewal(script), 0, NO_NODE)
    assert [holder.reasons for holder in holders] == [[LossReason.DELETED]] * 4
    assert script.advance(2.0) == []


def test_a_znode_that_its_holder_has_just_let_go_of_bothers_nobody(script: Script) -> None:
    gone, stays = Holder(script, "/gone", urgent=True), Holder(script, "/stays", urgent=True)
    packet = next_renewal(script)
    gone.hold.release()
    script.refuse(packet, 0, NO_NODE)
    assert gone.lost == stays.lost == []
    again = next_renewal(script)
    assert (again.sent, again.checks) == (packet.sent, ["/stays"])


@pytest.mark.parametrize("code", [NoAuthError.code, -103, -777])
def test_a_hold_whose_check_is_refused_is_lost_alone_and_the_others_renewed_at_once(
    script: Script, code: int
) -> None:
    """As by an ACL without READ: nobody can ever confirm that one."""
    holders = {name: Holder(script, f"/{name}", urgent=True) for name in "abc"}
    packet = next_renewal(script)
    script.now += 0.25
    script.refuse(packet, 1, code)
    assert {name: holder.lost for name, holder in holders.items()} == {
        "a": [], "b": [(LossReason.REFUSED, START + 0.25)], "c": [],
    }  # fmt: skip
    again = renew(script)
    assert again.sent == packet.sent + 0.25
    assert sorted(again.checks) == ["/a", "/c"]
    script.advance(TIMEOUT * 2, script.serve)
    assert holders["a"].lost == holders["c"].lost == []


OVERLOADED = [ThrottledOpError.code, RequestTimeoutError.code, -7, NoAuthError.code, -777]


@pytest.mark.parametrize("code", OVERLOADED)
def test_any_other_refusal_is_tried_again_after_a_while_until_the_lease_is_over(
    script: Script, code: int
) -> None:
    holder = Holder(script, urgent=True)
    packets: list[Packet] = []

    def refuse() -> None:
        for packet in script.sent():
            script.answer(packet, err=code if packet.op is OpCode.MULTI else 0)
            packets.append(packet)

    script.advance(20.0, serve=refuse)
    pause = TIMEOUT / 32
    assert [packet.sent - START for packet in renewals(packets)] == [n * pause for n in range(29)]
    assert holder.lost == [(LossReason.UNCONFIRMED, pytest.approx(START + TIMEOUT - MARGIN))]


@pytest.mark.parametrize("code", OVERLOADED)
def test_a_server_that_was_overloaded_for_a_while_costs_no_hold(script: Script, code: int) -> None:
    holder = Holder(script, urgent=True)
    for _ in range(3):
        renew(script)
    until = script.machine.leases.deadline - TIMEOUT / 16

    def refuse() -> None:
        while packets := script.sent():
            for packet in packets:
                is_refused = packet.op is OpCode.MULTI and script.now < until
                script.answer(packet, err=code if is_refused else 0)

    script.advance(TIMEOUT, serve=refuse)
    assert holder.lost == []


# --- the link ----------------------------------------------------------------------------------


def test_after_a_reconnect_the_lease_is_renewed_at_once(script: Script) -> None:
    holder = Holder(script, urgent=True)
    script.answer(next_renewal(script))
    script.now += 0.5
    script.lose_link()
    script.now += 0.5
    script.connect()
    deadline = script.machine.leases.deadline
    packet = next_renewal(script)
    assert packet.sent == START + 1.0
    assert script.machine.leases.deadline == deadline
    script.answer(packet)
    # The new handshake, which touched the leader itself.
    assert script.machine.leases.deadline == pytest.approx(START + 1.0 + TIMEOUT - MARGIN)
    assert holder.lost == []


def test_a_renewal_that_was_lost_with_its_link_is_made_anew(script: Script) -> None:
    Holder(script, urgent=True)
    next_renewal(script)
    script.lose_link()
    script.connect()
    packets = script.advance(0.0)
    assert len(renewals(packets)) == 1


def test_a_renewal_that_never_left_is_not_sent_on_the_next_link(script: Script) -> None:
    Holder(script, urgent=True)
    script.tick()  # ... but nobody sends
    script.lose_link()
    script.connect()
    assert len(renewals(script.advance(0.0))) == 1


def test_surrender_ends_with_the_link_and_others_ride_it_out(script: Script) -> None:
    rides, gives_up = Holder(script, "/a"), Holder(script, "/b", resign_on_disconnect=True)
    settled = Holder(script, "/c", resign_on_disconnect=True, urgent=True)
    script.now += 1.0
    script.lose_link()
    assert rides.lost == []
    assert gives_up.lost == settled.lost == [(LossReason.DISCONNECTED, START + 1.0)]


@pytest.mark.parametrize("linked", [True, False])
def test_without_a_renewal_holds_end_exactly_with_the_lease(script: Script, linked: bool) -> None:
    settled, fresh = Holder(script, "/a", urgent=True), None
    if linked:
        next_renewal(script)
        while script.now < START + 7.1:  # the server says everything but what counts
            script.now += 0.1
            script.event(EventType.NONE, "")
    else:
        script.lose_link()
        script.now = START + 7.1
    fresh = Holder(script, "/b")
    script.advance(5.0)
    end = pytest.approx(START + TIMEOUT - MARGIN)
    assert settled.lost == [(LossReason.UNCONFIRMED, end)]
    assert fresh.lost == [(LossReason.UNCONFIRMED, end)]
    assert script.machine.leases.is_in_grace


@pytest.mark.parametrize(("late", "reasons"), [(-0.001, []), (0.0, [LossReason.UNCONFIRMED])])
def test_an_answer_that_comes_after_the_end_of_the_lease_does_not_revive_it(
    script: Script, late: float, reasons: list[LossReason]
) -> None:
    """An event loop that was blocked may find the answer before it looks at the time."""
    holder = Holder(script, urgent=True)
    for _ in range(2):
        renew(script)
    script.answer(next_renewal(script))
    (sync,) = script.sent()
    script.now = script.machine.leases.deadline + late
    script.answer(sync)
    assert script.machine.leases.deadline > script.now  # for whoever holds from now on
    script.tick()
    assert holder.reasons == reasons


def test_a_hold_under_a_lease_that_is_over_ends_with_the_next_tick(script: Script) -> None:
    script.lose_link()
    script.advance(20.0)
    holder = Holder(script)
    script.advance(0.0)
    assert holder.lost == [(LossReason.UNCONFIRMED, script.now)]


@pytest.mark.parametrize(("can_move", "left"), [(True, 1.6), (False, 1.0)])
def test_a_server_that_does_not_confirm_is_given_up_the_only_one_as_a_last_resort(
    script: Script, can_move: bool, left: float
) -> None:
    script.machine.can_move = can_move
    holder = Holder(script, urgent=True)
    for _ in range(3):
        renew(script)
    next_renewal(script)
    end = script.machine.leases.deadline
    while script.now < end - left - 0.2 and not script.cuts:
        pass_time(script)
    assert script.cuts == []
    while script.now < end - 0.1 and not script.cuts:
        pass_time(script)
    assert script.cuts == ["the server does not confirm the lease"]
    assert end - left - 0.1 < script.now < end - left + 0.1
    # What is left is enough, where the renewal was lost and the server is well.
    script.connect()
    script.serve()
    script.advance(TIMEOUT, script.serve)
    assert holder.lost == []


def test_but_a_new_connection_gets_its_chance_first(script: Script) -> None:
    script.machine.can_move = True
    holder = Holder(script, urgent=True)
    script.now += 5.0
    script.lose_link()
    script.connect()
    next_renewal(script)
    script.advance(1.9)
    assert script.cuts == []
    script.advance(0.2)
    assert script.cuts == ["the server does not confirm the lease"]
    assert holder.lost == []


# --- ends --------------------------------------------------------------------------------------


def test_an_expired_session_ends_every_hold(script: Script) -> None:
    holders = [Holder(script, urgent=True), Holder(script)]
    script.lose_link()
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(0, 0)
    assert [holder.reasons for holder in holders] == [[LossReason.EXPIRED]] * 2


def test_the_next_session_renews_at_once_again(script: Script) -> None:
    Holder(script, urgent=True)
    script.answer(next_renewal(script))
    script.lose_link()
    script.connect(8)
    Holder(script, "/new", urgent=True)
    (packet,) = script.advance(0.0)
    assert packet.checks == ["/new"]
    assert script.machine.leases.deadline == pytest.approx(START + TIMEOUT - MARGIN)


def test_closing_ends_every_hold_and_those_to_come(script: Script) -> None:
    before = [Holder(script, urgent=True), Holder(script)]
    script.machine.leases.close()
    after = Holder(script)
    for holder in [*before, after]:
        assert holder.reasons == [LossReason.CLOSED]


def test_a_hold_is_lost_once_and_never_after_its_release(script: Script) -> None:
    lost, released = Holder(script), Holder(script)
    lost.hold.lose(LossReason.DELETED)
    lost.hold.lose(LossReason.EXPIRED)
    released.hold.release()
    released.hold.lose(LossReason.EXPIRED)
    script.machine.leases.close()
    assert lost.reasons == [LossReason.DELETED]
    assert released.reasons == []


def test_what_was_lost_winds_down_until_it_is_released(script: Script) -> None:
    one, two = Holder(script), Holder(script, urgent=True)
    assert script.machine.leases.is_held
    assert not script.machine.leases.is_in_grace
    script.machine.leases.lose_all(LossReason.EXPIRED)
    assert not script.machine.leases.is_held
    one.hold.release()
    assert script.machine.leases.is_in_grace
    dues = script.dues
    two.hold.release()
    assert not script.machine.leases.is_in_grace
    assert script.dues > dues  # whoever waits for that is told


def test_letting_go_from_within_the_loss_is_fine(script: Script) -> None:
    leases = script.machine.leases
    held = leases.hold(
        "/a",
        lambda _: held.release(),
        settled=None,
        urgent=False,
        resign_on_disconnect=False,
        now=START,
    )
    held.lose(LossReason.DELETED)
    assert not leases.is_in_grace


def test_one_that_settles_may_release_another_that_is_about_to(script: Script) -> None:
    leases = script.machine.leases
    other = Holder(script)
    other.hold.release()
    first = leases.hold(
        "/a",
        lambda _: None,
        settled=lambda: second.hold.release(),
        urgent=False,
        resign_on_disconnect=False,
        now=START,
    )
    second = Holder(script, "/b")
    (packet,) = script.advance(1.0)
    assert packet.checks == ["/a"]
    assert second.settled == []
    first.release()


def test_after_everything_nothing_is_due(script: Script) -> None:
    holders = [Holder(script, urgent=True), Holder(script)]
    for holder in holders:
        holder.hold.release()
    script.lose_link()
    assert script.machine.next_deadline() == inf
