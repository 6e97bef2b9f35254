"""How holds end: with the lease, the session, the connection, their znode, or the client."""

from __future__ import annotations

import logging
from math import inf

import pytest
from session.script import START, TIMEOUT, Holder, Script, lease_since

from aiolead._session.overdue import Overdue
from aiolead._session.timing import LOSING
from aiolead.errors import LossReason, SessionExpiredError, TooManyHoldsError
from aiolead.model import EventType

R = LossReason


# --- the lease ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_connected", [True, False])
def test_holds_end_exactly_with_the_lease(script: Script, is_connected: bool) -> None:
    settled = script.hold("/a", urgent=True)
    if is_connected:
        script.next_renewal()
        while script.now < START + 7.1:  # the server sends events, and no answer
            script.now += 0.1
            script.event(EventType.NONE, "")
    else:
        script.disconnect()
        script.now = START + 7.1
    fresh = script.hold("/b")
    script.advance(5.0)
    assert settled.lost == fresh.lost == [(R.UNCONFIRMED, lease_since(START))]
    assert script.leases.is_in_grace


@pytest.mark.parametrize(("late", "reasons"), [(-0.001, []), (0.0, [R.UNCONFIRMED])])
def test_answer_after_the_end_of_the_lease_does_not_revive_it(
    script: Script, late: float, reasons: list[R]
) -> None:
    """An event loop that was blocked may find the answer before it looks at the time."""
    holder = script.hold(urgent=True)
    script.renew(2)
    sync = script.next_sync()
    script.now = script.deadline + late
    script.answer(sync)
    assert script.deadline > script.now  # for the holds that begin from now on
    script.tick()
    assert holder.reasons == reasons


def test_hold_under_a_lease_that_has_ended_is_lost_at_the_next_tick(script: Script) -> None:
    script.disconnect()
    script.advance(20.0)
    holder = script.hold()
    script.advance(0.0)
    assert holder.lost == [(R.UNCONFIRMED, script.now)]


# --- the connection, the session, the client ---------------------------------------------------


def test_holds_that_resign_on_disconnect_end_with_the_connection(script: Script) -> None:
    keeps, resigns = script.hold("/a"), script.hold("/b", resign_on_disconnect=True)
    settled = script.hold("/c", resign_on_disconnect=True, urgent=True)
    script.now += 1.0
    script.disconnect()
    assert keeps.lost == []
    assert resigns.lost == settled.lost == [(R.DISCONNECTED, START + 1.0)]


@pytest.mark.parametrize("answer", ["none", "answered", "expired"])
def test_expired_session_ends_every_hold_and_its_renewal(script: Script, answer: str) -> None:
    holders = [script.hold(urgent=True), script.hold()]
    sync = script.next_sync()
    if answer == "expired":
        with pytest.raises(SessionExpiredError):
            script.answer(sync, err=-112)
    script.disconnect()
    assert [holder.lost for holder in holders] == [[], []]  # only a handshake can confirm that
    script.expire()
    assert [holder.reasons for holder in holders] == [[R.EXPIRED]] * 2
    script.reconnect(8)
    assert script.advance(1.0) == []
    assert script.deadline == lease_since(script.now - 1)


def test_next_session_renews_immediately(script: Script) -> None:
    script.hold(urgent=True)
    script.answer(script.next_renewal())
    script.reconnect(8)
    script.hold("/new", urgent=True)
    (packet,) = script.advance(0.0)
    assert packet.checks == ["/new"]
    assert script.deadline == lease_since(START)


def test_closing_ends_every_hold_and_those_that_begin_later(script: Script) -> None:
    before = [script.hold(urgent=True), script.hold()]
    script.leases.close()
    for holder in [*before, script.hold()]:
        assert holder.reasons == [R.CLOSED]


# --- the end of one hold -----------------------------------------------------------------------


def test_hold_is_lost_once_and_never_after_its_release(script: Script) -> None:
    lost, released = script.hold(), script.hold()
    lost.lose(R.DELETED)
    lost.lose(R.EXPIRED)
    released.release()
    released.lose(R.EXPIRED)
    script.leases.close()
    assert (lost.reasons, released.reasons) == ([R.DELETED], [])


def test_grace_period_lasts_until_every_lost_hold_is_released(script: Script) -> None:
    one, two = script.hold(), script.hold(urgent=True)
    assert script.leases.held
    assert not script.leases.is_in_grace
    script.leases.lose_all(R.EXPIRED)
    assert not script.leases.held
    one.release()
    assert script.leases.is_in_grace
    dues = script.dues
    two.release()
    assert not script.leases.is_in_grace
    assert script.dues > dues  # wakes the task that waits for it


def test_hold_may_be_released_from_its_notification(script: Script) -> None:
    holder = script.hold("/a", on_lost=lambda _: holder.release())
    holder.lose(R.DELETED)
    assert not script.leases.is_in_grace


def test_nothing_is_due_after_the_last_release(script: Script) -> None:
    for holder in [script.hold(urgent=True), script.hold()]:
        holder.release()
    script.disconnect()
    assert script.machine.next_deadline() == inf


# --- holders that cannot be notified -----------------------------------------------------------


def deaf(script: Script, fails: int = 1000) -> Holder:
    """A holder whose first notifications fail, as if its body could not be cancelled.

    `lost` has every attempt.
    """

    def notify(_: R) -> None:
        if len(holder.lost) <= fails:
            raise RuntimeError("no running event loop")

    holder = script.hold(urgent=True, on_lost=notify)
    return holder


def run_out(script: Script) -> float:
    """Lets the lease end without a connection."""
    script.disconnect()
    script.now = script.deadline
    script.tick()
    return script.now


def test_failed_notification_is_repeated_at_the_next_tick(
    script: Script, internal_errors: list[logging.LogRecord]
) -> None:
    holder = deaf(script, fails=1)
    end = run_out(script)
    assert script.machine.next_deadline() <= end, "it is repeated immediately"
    script.tick()
    assert holder.lost == [(R.UNCONFIRMED, end)] * 2
    assert script.machine.next_deadline() > end
    script.machine.tick(end + 10.0)
    assert len(holder.lost) == 2
    assert len(internal_errors) == 1


def test_notification_that_always_fails_is_repeated_with_pauses_and_logged_once(
    script: Script, internal_errors: list[logging.LogRecord]
) -> None:
    holder = deaf(script)
    end = run_out(script)
    while script.now < end + 5.0:
        script.now = max(script.now, min(script.machine.next_deadline(), end + 5.0))
        script.tick()
    tries = len(holder.lost)
    assert 5 < tries < 200, "the event loop is not kept busy"
    assert len(internal_errors) == 1
    holder.release()
    script.now += 10.0
    script.tick()
    assert len(holder.lost) == tries, "a body that has ended needs no notification"


def test_released_hold_is_not_notified_again(
    script: Script, internal_errors: list[logging.LogRecord]
) -> None:
    """Neither one that its failing notification released, nor one that another's did."""

    def release_and_fail(_: R) -> None:
        first.release()
        raise RuntimeError("no running event loop")

    def fail_then_release_the_last(_: R) -> None:
        if len(second.lost) == 1:
            raise RuntimeError("no running event loop")
        last.release()

    first = script.hold("/first", urgent=True, on_lost=release_and_fail)
    second = script.hold("/second", urgent=True, on_lost=fail_then_release_the_last)
    last = deaf(script)
    run_out(script)
    script.tick()
    assert [len(each.lost) for each in (first, second, last)] == [1, 2, 1]
    second.release()
    assert not script.leases.is_in_grace
    assert len(internal_errors) == 3


def test_watchdog_finds_a_hold_whose_holder_is_not_notified(
    internal_errors: list[logging.LogRecord],
) -> None:
    overdue = Overdue(lambda: script.now, None, lambda _: None)
    script = Script(watchdog=overdue)
    script.connect()
    holder = deaf(script)
    run_out(script)
    found, _ = overdue.look(START + 8.0)
    assert [(hold.path, hold.reason) for hold, _ in found] == [("/held", R.UNCONFIRMED)]
    holder.release()
    assert overdue.is_idle
    assert len(internal_errors) == 1


def test_later_renewal_does_not_revive_a_hold_whose_holder_is_not_notified(
    script: Script, internal_errors: list[logging.LogRecord]
) -> None:
    deaf(script)
    run_out(script)
    script.connect()
    assert not script.leases.held
    assert script.leases.is_in_grace, "closing waits for its body"
    assert len(internal_errors) == 1


# --- many holds: losing them takes time, so it begins earlier ----------------------------------


def slow_holders(script: Script, count: int) -> list[Holder]:
    """Holds whose notifications take as long as they may take."""

    def take_time(_: R) -> None:
        script.now += LOSING

    return [script.hold(f"/{number}", on_lost=take_time) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 1_000, 5_000])
@pytest.mark.parametrize("is_connected", [True, False])
def test_last_of_many_holds_is_lost_by_the_deadline(
    script: Script, count: int, is_connected: bool
) -> None:
    holders, deadline = slow_holders(script, count), script.deadline
    assert deadline == lease_since(START)
    if not is_connected:
        script.disconnect()
    script.advance(TIMEOUT, serve=lambda: None)
    times = sorted(at for holder in holders for _, at in holder.lost)
    assert len(times) == count
    assert times[-1] == pytest.approx(deadline, abs=1e-6)
    assert times[0] == pytest.approx(deadline - (count - 1) * LOSING, abs=1e-6)


def test_answer_while_holds_should_be_lost_comes_too_late(script: Script) -> None:
    holders = slow_holders(script, 1_000)
    script.now = script.deadline - 999 * LOSING
    script.event(EventType.NONE, "")
    assert all(holder.reasons == [R.UNCONFIRMED] for holder in holders)


def test_losing_released_holds_takes_no_time(script: Script) -> None:
    first, *others = slow_holders(script, 1_000)
    deadline = script.deadline
    for holder in others:
        holder.release()
    script.advance(TIMEOUT, serve=lambda: None)
    assert first.lost == [(R.UNCONFIRMED, pytest.approx(deadline, abs=1e-6))]


def test_session_takes_as_many_holds_as_it_can_lose_in_an_eighth_of_its_timeout(
    script: Script,
) -> None:
    leases, renewals = script.leases, script.machine.renewals
    holders = []
    while leases.held < 10_000:  # 1,250 for each second
        assert renewals.first_is_in_time(script.now)
        holders.append(script.hold("/a"))
    with pytest.raises(TooManyHoldsError, match="holds 10000 znodes"):
        renewals.first_is_in_time(script.now)
    assert leases.deadline - leases.loss_due == pytest.approx(TIMEOUT / 8, abs=2 * LOSING)
    holders[0].release()
    assert renewals.first_is_in_time(script.now)


def test_more_holds_need_more_lease(script: Script) -> None:
    left = TIMEOUT / 8
    assert script.machine.renewals.first_is_in_time(script.deadline - left)
    for number in range(1_000):
        script.hold(f"/{number}")
    assert not script.machine.renewals.first_is_in_time(script.deadline - left)
    assert script.machine.renewals.first_is_in_time(script.deadline - left - 1_000 * LOSING)
