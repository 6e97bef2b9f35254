"""The second step of a renewal: the sync without which its transaction proves nothing."""

from __future__ import annotations

import pytest
from session.half_ticks import waited
from session.script import (
    START,
    Holder,
    Packet,
    Script,
    after,
    next_renewal,
    pass_time,
    renew,
    renewals,
)

from aiolead._wire.codes import OpCode
from aiolead._wire.requests import Sync
from aiolead.errors import LossReason, NoAuthError, SessionExpiredError

# A session of 8 s: renewals every 2 s, half a tick of 2 s, 0.8 s to stop in.
TIMEOUT = 8.0
MARGIN = 0.808


def test_a_renewal_is_a_transaction_and_then_a_sync(script: Script) -> None:
    Holder(script, "/held", urgent=True)
    packets: list[Packet] = []
    beat = waited(2.0)
    script.advance(5.5 * beat, serve=lambda: packets.extend(script.serve()))
    assert [packet.op for packet in packets] == [OpCode.MULTI, OpCode.SYNC] * 6
    sent = [packet.sent - START for packet in renewals(packets)]
    assert sent == pytest.approx([beat * number for number in range(6)])
    assert Sync.read(packets[1].reader).path == "/held"


def test_the_second_step_leaves_only_when_the_first_is_answered(script: Script) -> None:
    Holder(script, urgent=True)
    packet = next_renewal(script)
    after(script, 1.0)
    assert script.sent() == []
    outputs = script.outputs
    script.answer(packet)
    assert script.outputs > outputs
    assert script.ops() == [OpCode.SYNC]


def test_no_renewal_leaves_while_the_one_before_is_unconfirmed(script: Script) -> None:
    Holder(script, urgent=True)
    script.answer(next_renewal(script))
    (sync,) = script.sent()
    assert sync.op is OpCode.SYNC
    assert renewals(script.advance(TIMEOUT, serve=lambda: None) or script.sent()) == []


@pytest.mark.parametrize(("can_move", "left"), [(True, 1.6), (False, 1.0)])
def test_a_server_that_confirms_nothing_is_given_up_in_the_second_step_too(
    script: Script, can_move: bool, left: float
) -> None:
    script.machine.can_move = can_move
    holder = Holder(script, urgent=True)
    for _ in range(3):
        renew(script)
    script.answer(next_renewal(script))
    (sync,) = script.sent()
    end = script.machine.leases.deadline
    while script.now < end - left - 0.2:
        pass_time(script)
    assert script.cuts == []
    while script.now < end - 0.1 and not script.cuts:
        pass_time(script)
    assert script.cuts == ["the server does not confirm the lease"]
    assert end - left - 0.1 < script.now < end - left + 0.1
    assert sync.op is OpCode.SYNC
    assert holder.lost == []


def test_a_renewal_whose_confirmation_was_lost_with_the_link_is_made_anew(script: Script) -> None:
    holder = Holder(script, urgent=True)
    renew(script)
    deadline = script.machine.leases.deadline
    script.answer(next_renewal(script))
    script.now += 0.5
    assert script.ops() == [OpCode.SYNC]
    script.lose_link()
    script.connect()
    assert script.machine.leases.deadline == deadline
    packet = next_renewal(script, 0.0)
    assert script.ops() == []  # the sync of the old link is of no use on this one
    script.answer(packet)
    moved = START + waited(2.0) + 0.5
    assert script.machine.leases.deadline == pytest.approx(moved + TIMEOUT - MARGIN)
    script.confirm()
    assert holder.lost == []


def test_a_confirmation_that_never_left_is_not_sent_on_the_next_link(script: Script) -> None:
    Holder(script, urgent=True)
    script.answer(next_renewal(script))
    script.lose_link()  # ... before anybody sends
    script.connect()
    assert script.ops() == []
    (packet,) = script.advance(0.0)
    assert packet.op is OpCode.MULTI


def test_a_refused_transaction_is_not_confirmed(script: Script) -> None:
    Holder(script, urgent=True)
    script.answer(next_renewal(script), err=NoAuthError.code)
    assert script.sent() == []
    assert next_renewal(script).sent == START + TIMEOUT / 32


def test_a_refused_confirmation_proves_nothing_and_is_tried_again_soon(
    script: Script,
) -> None:
    holder = Holder(script, "/held", resign_on_disconnect=True, urgent=True)
    renew(script)
    deadline = script.machine.leases.deadline
    packet = next_renewal(script)
    script.answer(packet)
    (sync,) = script.sent()
    script.answer(sync, err=-777)
    assert script.machine.leases.deadline == deadline
    again = renew(script)
    assert again.sent == packet.sent + TIMEOUT / 32
    renew(script)
    assert script.machine.leases.deadline == pytest.approx(again.sent + TIMEOUT - MARGIN)
    assert holder.lost == []


@pytest.mark.parametrize("told", [True, False])
def test_a_session_that_ends_between_the_two_steps_is_not_renewed(
    script: Script, told: bool
) -> None:
    holder = Holder(script, urgent=True)
    script.answer(next_renewal(script))
    (sync,) = script.sent()
    if told:
        with pytest.raises(SessionExpiredError):
            script.answer(sync, err=-112)
    script.lose_link()
    assert holder.lost == []  # only a handshake says so for sure
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(0, 0)
    assert holder.reasons == [LossReason.EXPIRED]
    script.lose_link()
    script.connect(8)
    assert script.advance(1.0) == []
    assert script.machine.leases.deadline == pytest.approx(script.now - 1 + TIMEOUT - MARGIN)


def test_a_hold_that_was_let_go_of_between_the_two_steps_bothers_nobody(script: Script) -> None:
    holder = Holder(script, urgent=True)
    script.answer(next_renewal(script))
    holder.hold.release()
    script.confirm()
    assert script.advance(2.0) == []
