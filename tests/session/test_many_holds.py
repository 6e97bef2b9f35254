"""Many holds of one session: losing them takes time, so it begins earlier; and how many there may
be."""

from __future__ import annotations

import pytest
from session.script import START, Holder, Script

from aiolead._session.lease.timing import LOSING
from aiolead.errors import LossReason, TooManyHoldsError
from aiolead.model import EventType

# A session of 8 s: 0.8 s to stop in.
TIMEOUT = 8.0
MARGIN = 0.808
DEADLINE = START + TIMEOUT - MARGIN


class SlowHolder(Holder):
    """Cancelling its body takes as long as it may take."""

    def __init__(self, script: Script, path: str) -> None:
        super().__init__(script, path)
        self._script = script
        note = self.hold._lost
        assert note is not None

        def lost(reason: LossReason) -> None:
            note(reason)
            script.now += LOSING

        self.hold._lost = lost


@pytest.mark.parametrize("count", [1, 2, 1_000, 5_000])
@pytest.mark.parametrize("is_linked", [True, False])
def test_the_last_of_many_is_lost_by_the_deadline(
    script: Script, count: int, is_linked: bool
) -> None:
    holders = [SlowHolder(script, f"/{number}") for number in range(count)]
    if not is_linked:
        script.lose_link()
    script.advance(TIMEOUT, serve=lambda: None)
    times = sorted(at for holder in holders for _, at in holder.lost)
    assert len(times) == count
    assert times[-1] == pytest.approx(DEADLINE, abs=1e-6)
    assert times[0] == pytest.approx(DEADLINE - (count - 1) * LOSING, abs=1e-6)


def test_an_answer_that_comes_while_they_should_be_lost_comes_too_late(script: Script) -> None:
    holders = [SlowHolder(script, f"/{number}") for number in range(1_000)]
    script.now = DEADLINE - 999 * LOSING
    script.event(EventType.NONE, "")
    assert all(holder.reasons == [LossReason.UNCONFIRMED] for holder in holders)


def test_those_that_are_released_take_no_time(script: Script) -> None:
    holders = [SlowHolder(script, f"/{number}") for number in range(1_000)]
    for holder in holders[1:]:
        holder.hold.release()
    script.advance(TIMEOUT, serve=lambda: None)
    assert holders[0].lost == [(LossReason.UNCONFIRMED, pytest.approx(DEADLINE, abs=1e-6))]


def test_as_many_as_can_be_lost_in_an_eighth_of_the_session_timeout(script: Script) -> None:
    leases = script.machine.leases
    holders = []
    while leases.held < 10_000:  # 1,250 for each second
        assert leases.is_enough(script.now)
        holders.append(Holder(script, "/a"))
    with pytest.raises(TooManyHoldsError, match="holds 10000 znodes"):
        leases.is_enough(script.now)
    assert leases.deadline - leases.loss_due == pytest.approx(TIMEOUT / 8, abs=2 * LOSING)
    holders[0].hold.release()
    assert leases.is_enough(script.now)


def test_the_lease_is_enough_for_the_holds_that_there_are(script: Script) -> None:
    leases = script.machine.leases
    left = TIMEOUT / 8
    assert leases.is_enough(leases.deadline - left)
    for number in range(1_000):
        Holder(script, f"/{number}")
    assert not leases.is_enough(leases.deadline - left)
    assert leases.is_enough(leases.deadline - left - 1_000 * LOSING)
