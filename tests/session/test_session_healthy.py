"""When the servers have last confirmed that all is well: what `Client.healthy` goes by."""

from __future__ import annotations

from math import inf

import pytest
from session.half_ticks import waited
from session.script import START, Holder, Script, next_renewal, pass_time, renew

from aiolead.errors import LossReason

# A session of 8 s: renewals every 2 s, half a tick of 2 s.
TIMEOUT = 8.0


def unconfirmed(script: Script) -> float:
    """For how long nothing was confirmed, in seconds."""
    return script.now - script.machine.confirmed_at


def test_who_waits_goes_by_any_answer(script: Script) -> None:
    assert unconfirmed(script) == 0
    worst = 0.0
    for _ in range(200):
        pass_time(script)  # nothing but pings is answered
        worst = max(worst, unconfirmed(script))
    assert 0 < worst < TIMEOUT / 2


def test_a_link_that_comes_back_soon_is_nothing(script: Script) -> None:
    script.lose_link()
    script.now += 3.0
    assert unconfirmed(script) == 3.0
    script.connect()
    assert unconfirmed(script) == 0


def test_what_is_held_is_confirmed_within_half_of_the_session_timeout(script: Script) -> None:
    Holder(script, urgent=True)
    worst = 0.0
    for _ in range(10):
        packet = renew(script)
        worst = max(worst, packet.sent + waited(2.0) - script.machine.confirmed_at)
    # Just before each renewal.
    assert worst == pytest.approx(2 * waited(TIMEOUT / 4))


def test_pings_do_not_confirm_what_is_held(script: Script) -> None:
    holder = Holder(script, urgent=True)
    for _ in range(3):
        renew(script)
    confirmed = script.machine.confirmed_at
    next_renewal(script)  # the server is cut off from the others, and answers pings all the same
    for _ in range(21):
        pass_time(script)
    assert (holder.lost, script.cuts) == ([], [])
    assert script.machine.confirmed_at == confirmed
    assert unconfirmed(script) > TIMEOUT / 2
    holder.hold.release()
    for _ in range(9):
        pass_time(script)
    assert script.cuts == []
    assert unconfirmed(script) < 1.0  # pings were answered all the time


@pytest.mark.parametrize("reason", [LossReason.DELETED, LossReason.UNCONFIRMED])
def test_what_was_lost_and_goes_on_is_not_confirmed_any_more(
    script: Script, reason: LossReason
) -> None:
    stubborn = Holder(script, "/a", urgent=True)
    renew(script)
    proven = script.machine.confirmed_at
    stubborn.hold.lose(reason)
    Holder(script, "/b", urgent=True)
    for _ in range(6):
        renew(script)
    # The other one does not speak for it.
    assert script.machine.confirmed_at == proven
    stubborn.hold.release()
    assert script.machine.confirmed_at > proven


def test_the_next_session_says_nothing_of_what_the_last_one_held(script: Script) -> None:
    stubborn = Holder(script, urgent=True)
    renew(script)
    proven = script.machine.confirmed_at
    script.machine.give_up_session()
    assert stubborn.reasons == [LossReason.EXPIRED]
    script.now += 20
    script.connect(session_id=8)
    assert script.machine.confirmed_at == proven
    stubborn.hold.release()
    assert unconfirmed(script) == 0


def test_without_a_session_nothing_is_confirmed() -> None:
    script = Script()
    assert script.machine.confirmed_at == -inf
    script.connect()
    assert script.machine.confirmed_at == START
    script.machine.give_up_session()
    assert script.machine.confirmed_at == -inf
    script.connect(session_id=8)
    assert script.machine.confirmed_at == START
    script.machine.closed()
    assert script.machine.confirmed_at == -inf
