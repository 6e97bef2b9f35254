"""A loss whose holder could not be notified: it is no loss that was dealt with."""

from __future__ import annotations

import logging

from session.script import START, Script

from aiolead._session.lease.lease_book import HeldZnode
from aiolead._session.lease.overdue import Overdue
from aiolead.errors import LossReason


class Deaf:
    """A holder whose notification fails a number of times, as if its body could not be cancelled.

    Attributes:
        heard: the losses that it was notified of, and when.
        tries: when it was tried.
    """

    def __init__(self, script: Script, fails: int) -> None:
        self._script = script
        self._fails = fails
        self.tries: list[float] = []
        self.heard: list[tuple[LossReason, float]] = []
        self.hold: HeldZnode = script.machine.leases.hold(
            "/held",
            self._lost,
            settled=None,
            urgent=True,
            resign_on_disconnect=False,
            now=script.now,
        )

    def _lost(self, reason: LossReason) -> None:
        self.tries.append(self._script.now)
        if len(self.tries) <= self._fails:
            raise RuntimeError("no running event loop")
        self.heard.append((reason, self._script.now))


def lease_runs_out(script: Script) -> float:
    script.lose_link()
    end = script.machine.leases.deadline
    script.now = end
    script.machine.tick(script.now)
    return end


def test_the_next_tick_notifies_a_holder_that_was_not(
    script: Script, internal_errors: list[logging.LogRecord]
) -> None:
    holder = Deaf(script, fails=1)
    end = lease_runs_out(script)
    assert holder.heard == []
    assert script.machine.next_deadline() <= end, "it is tried again at once"
    script.machine.tick(end)
    assert holder.heard == [(LossReason.UNCONFIRMED, end)]
    assert script.machine.next_deadline() > end
    script.machine.tick(end + 10.0)
    assert len(holder.tries) == 2
    assert len(internal_errors) == 1


def test_a_holder_that_is_never_notified_is_tried_now_and_then_and_logged_once(
    script: Script, internal_errors: list[logging.LogRecord]
) -> None:
    holder = Deaf(script, fails=1000)
    end = lease_runs_out(script)
    while script.now < end + 5.0:
        script.now = max(script.now, min(script.machine.next_deadline(), end + 5.0))
        script.machine.tick(script.now)
    assert 5 < len(holder.tries) < 200, "the event loop is not kept busy"
    assert len(internal_errors) == 1
    tries = len(holder.tries)
    holder.hold.release()
    script.now += 10.0
    script.machine.tick(script.now)
    assert len(holder.tries) == tries, "a body that has ended needs no notification"


def test_a_watchdog_sees_a_hold_whose_holder_is_not_notified(
    internal_errors: list[logging.LogRecord],
) -> None:
    script = Script()
    overdue = Overdue(script.machine, lambda: script.now, None, lambda _: None)
    script.machine.leases.observer = overdue
    script.connect()
    holder = Deaf(script, fails=1000)
    lease_runs_out(script)
    found, _ = overdue.look(START + 8.0)
    assert [(hold.path, hold.reason) for hold, _ in found] == [("/held", LossReason.UNCONFIRMED)]
    holder.hold.release()
    assert overdue.is_idle
    assert len(internal_errors) == 1


def test_a_lease_that_is_renewed_later_revives_no_hold_whose_holder_is_not_notified(
    script: Script, internal_errors: list[logging.LogRecord]
) -> None:
    Deaf(script, fails=1000)
    lease_runs_out(script)
    script.connect()
    assert not script.machine.leases.is_held
    assert script.machine.leases.is_in_grace, "closing waits for its body"
    assert len(internal_errors) == 1
