"""A lease that is short: found by the simulation, on slow links and with long grace periods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from session.script import START, Holder, Packet, Script, get, pass_time

from aiolead._session.requests.call import WRITE, Call, multi_call
from aiolead._wire.codes import OpCode
from aiolead._wire.replies import MultiResult
from aiolead._wire.requests import Check, Multi

# A session of 8 s: renewals every 2 s, half a tick of 2 s, 0.8 s to stop in.
TIMEOUT = 8.0
MARGIN = 0.808


def next_renewal(script: Script) -> Packet:
    """Lets time pass up to the next renewal, which is not answered; pings are."""
    for _ in range(20):
        script.now = max(script.now, script.machine.next_deadline())
        script.tick()
        for packet in script.sent():
            if packet.op is OpCode.MULTI:
                return packet
            script.answer(packet)
    raise AssertionError("no renewal")


@pytest.mark.parametrize("took", [0.125, 0.3])
def test_an_answer_has_its_chance_however_short_the_lease_is(took: float) -> None:
    # With the longest grace period, a lease is as short as that when its renewal leaves.
    script = Script(grace_period=2.0)
    script.connect()
    script.machine.can_move = True
    Holder(script, urgent=True)
    for _ in range(10):
        renewal = next_renewal(script)
        script.advance(took)
        assert script.cuts == []
        script.answer(renewal)
        (sync,) = script.sent()
        script.advance(took)
        assert script.cuts == []
        script.answer(sync)


def test_an_answer_that_takes_longer_than_usual_has_half_of_a_short_lease() -> None:
    script = Script(grace_period=2.0)
    script.connect()
    script.machine.can_move = True
    Holder(script, urgent=True)
    for _ in range(4):
        script.answer(next_renewal(script))
        script.confirm()
    next_renewal(script)
    left = script.machine.leases.deadline - script.now
    assert left < 3.0
    script.advance(left / 2 - 0.01)
    assert script.cuts == []
    script.advance(0.02)
    assert len(script.cuts) == 1


def test_a_renewal_that_just_missed_a_proof_is_followed_by_another_at_once(script: Script) -> None:
    # What proves the lease so far is the handshake; what could prove more, a request at 2.6 s.
    script.advance(2.6)
    get(script, "/a")
    (packet,) = script.sent()
    script.now += 0.2
    script.answer(packet)
    # A renewal proves it if it leaves half a tick after its answer. This one leaves too early.
    script.advance(1.99)
    holder = Holder(script, urgent=True)
    first = next_renewal(script)
    script.advance(0.1)
    script.answer(first)
    script.confirm()
    assert script.machine.leases.deadline == pytest.approx(START + TIMEOUT - MARGIN)
    second = next_renewal(script)
    assert second.sent == pytest.approx(script.now)
    script.answer(second)
    script.confirm()
    assert script.machine.leases.deadline == pytest.approx(START + 2.6 + TIMEOUT - MARGIN)
    assert holder.lost == []


def test_who_surrenders_with_the_link_does_not_give_it_up(script: Script) -> None:
    script.machine.can_move = True
    Holder(script, urgent=True, resign_on_disconnect=True)
    sent = next_renewal(script).sent
    # It waits as long as any request may, although the lease is short by then.
    end = sent + script.machine.timing.silent_after
    assert end > script.machine.leases.deadline - script.machine.timing.short_lease
    while script.now < end - 0.1:
        pass_time(script)
    assert script.cuts == []


def write(script: Script, took: float) -> None:
    script.machine.submit(checking(), script.now)
    (packet,) = script.sent()
    script.now += took
    script.answer(packet)


BOUND = replace(WRITE, is_bound=True)


def checking() -> Call[list[MultiResult]]:
    return multi_call(Multi((Check("/held", -1),)), ["/held"], kind=BOUND)


@pytest.mark.parametrize(("took", "enough"), [(0.1, 1.0), (0.4, 1.2), (3.0, 4 / 3)])
def test_what_is_enough_depends_on_how_long_writes_take(
    script: Script, took: float, enough: float
) -> None:
    leases = script.machine.leases
    write(script, took)
    assert leases.is_enough(leases.deadline - enough)
    assert not leases.is_enough(leases.deadline - enough + 0.01)


def test_how_long_a_write_took_is_forgotten_with_its_connection(script: Script) -> None:
    leases = script.machine.leases
    write(script, 3.0)
    script.lose_link()
    script.connect()
    assert leases.is_enough(leases.deadline - 1.0)


@pytest.mark.parametrize(("left", "settled"), [(1.99, True), (2.01, False)])
def test_a_hold_that_begins_with_a_short_lease_is_renewed_at_once(
    script: Script, left: float, *, settled: bool
) -> None:
    script.now = script.machine.leases.deadline - left
    holder = Holder(script)
    assert bool(holder.settled) is settled
    assert (script.machine.leases.renewal_due() <= script.now) is settled
