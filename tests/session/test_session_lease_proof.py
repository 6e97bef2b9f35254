"""What acknowledged requests prove: case by case, and against the rule applied by brute force.

Whether the rule is right is another question: see `test_session_ledger_ensemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.direct_proof import DirectProof
from session.half_ticks import waited

from aiolead._session.lease.proof import GRAIN, LeaseProof
from aiolead._session.lease.timing import Timing

TIMEOUT = 8.0
HALF = TIMEOUT / 4
TIMING = replace(Timing.derive(TIMEOUT, tick_time=None, grace_period=None), half_tick=HALF)
assert HALF == 2.0


def opened(at: float = 0.0, *, created: bool = True) -> LeaseProof:
    lease_proof = DirectProof(TIMING)
    lease_proof.opened(TIMING, at, created=created)
    return lease_proof


def pinged(lease_proof: LeaseProof, sent: float, now: float) -> None:
    lease_proof.answered(sent, now, proof=False, led=False)


def wrote(lease_proof: LeaseProof, sent: float, now: float) -> None:
    lease_proof.answered(sent, now, proof=True, led=True)


def synced(lease_proof: LeaseProof, sent: float, now: float) -> None:
    lease_proof.answered(sent, now, proof=False, led=True)


# --- the rule, case by case --------------------------------------------------------------------


def test_nothing_is_proven_before_the_first_connection() -> None:
    assert DirectProof(TIMING).proven_until == -inf


def test_creating_a_session_proves_it_from_when_that_was_asked_for() -> None:
    assert opened(100.0).proven_until == 108.0


def test_moving_here_proves_nothing_until_something_is_committed_here() -> None:
    lease_proof = opened(100.0, created=False)
    assert lease_proof.proven_until == -inf
    pinged(lease_proof, 100.5, 100.6)
    synced(lease_proof, 100.6, 100.7)
    assert lease_proof.proven_until == -inf
    wrote(lease_proof, 100.7, 100.8)
    # The handshake touched the leader itself: no half tick is needed, and no second request.
    assert lease_proof.proven_until == 108.0


def test_a_write_proves_what_was_answered_half_a_tick_before_it_was_sent() -> None:
    lease_proof = opened(100.0)
    pinged(lease_proof, 101.0, 101.5)
    wrote(lease_proof, 103.499, 104.0)
    synced(lease_proof, 104.0, 104.1)
    assert lease_proof.proven_until == 108.0
    wrote(lease_proof, 103.5, 104.2)
    synced(lease_proof, 104.2, 104.3)
    assert lease_proof.proven_until == 109.0


@pytest.mark.parametrize("second", [synced, wrote])
def test_a_write_proves_nothing_until_a_second_request_is_answered(
    second: Callable[[LeaseProof, float, float], None],
) -> None:
    lease_proof = opened(100.0)
    pinged(lease_proof, 101.0, 101.5)
    wrote(lease_proof, 104.0, 104.5)
    assert lease_proof.proven_until == 108.0
    second(lease_proof, 104.5, 105.0)
    assert lease_proof.proven_until == 109.0


@pytest.mark.parametrize("second", [synced, wrote])
def test_the_second_request_must_leave_after_the_answer_to_the_first(
    second: Callable[[LeaseProof, float, float], None],
) -> None:
    lease_proof = opened(100.0)
    pinged(lease_proof, 101.0, 101.5)
    wrote(lease_proof, 104.0, 104.5)
    second(lease_proof, 104.499, 105.0)
    assert lease_proof.proven_until == 108.0


def test_a_request_that_the_server_answers_itself_confirms_nothing() -> None:
    lease_proof = opened(100.0)
    pinged(lease_proof, 101.0, 101.5)
    wrote(lease_proof, 104.0, 104.5)
    pinged(lease_proof, 104.5, 105.0)
    assert lease_proof.proven_until == 108.0
    synced(lease_proof, 105.0, 105.5)  # as late as it may be
    assert lease_proof.proven_until == 109.0


def test_a_sync_confirms_nothing_once_the_proof_has_ended() -> None:
    """It may have slipped into the instant in which the leader ended the session."""
    lease_proof = opened(100.0)
    pinged(lease_proof, 104.0, 104.5)
    wrote(lease_proof, 107.5, 107.8)
    synced(lease_proof, 107.8, 108.0 - TIMING.drift + 1e-6)
    assert lease_proof.proven_until == 108.0
    wrote(lease_proof, 108.5, 109.0)
    assert lease_proof.proven_until == 112.0


def test_syncs_alone_prove_nothing() -> None:
    lease_proof = opened(100.0)
    for second in range(60):
        synced(lease_proof, 100.0 + second, 100.1 + second)
    assert lease_proof.proven_until == 108.0


def test_a_write_does_not_prove_itself() -> None:
    lease_proof = opened(100.0)
    wrote(lease_proof, 110.0, 110.1)
    synced(lease_proof, 110.1, 110.2)
    assert lease_proof.proven_until == 108.0


def test_renewals_prove_from_the_one_before_the_last() -> None:
    lease_proof = opened(100.0)
    for sent in (102.0, 104.25, 106.5, 108.75):
        before = lease_proof.proven_until
        wrote(lease_proof, sent, sent + 0.25)
        assert lease_proof.proven_until == before
        synced(lease_proof, sent + 0.25, sent + 0.5)
        assert lease_proof.proven_until == max(108.0, sent - 2.25 + TIMEOUT)


def test_writes_that_overlap_without_end_still_confirm_one_another() -> None:
    lease_proof = opened(100.0)
    for n in range(1, 400):
        wrote(lease_proof, 100 + n / 16, 100 + n / 16 + 0.5)  # eight are under way at any time
        written = 100 + n / 16
        # Half a tick, up to two answers, and two grains.
        assert (
            lease_proof.proven_until
            >= written - HALF - 2 * 0.5 - 2 * GRAIN * TIMEOUT + TIMEOUT - 0.5
        )


def test_a_write_just_ahead_of_a_renewal_does_not_stand_in_for_it() -> None:
    lease_proof = opened(100.0)
    pinged(lease_proof, 101.0, 101.5)
    wrote(lease_proof, 103.4375, 103.75)  # somebody's, too early to prove what the renewal proves
    wrote(lease_proof, 103.5, 103.75)
    synced(lease_proof, 103.75, 104.0)
    assert lease_proof.proven_until == 109.0


def test_answered_pings_prove_nothing_for_ever() -> None:
    lease_proof = opened(100.0)
    for second in range(60):
        pinged(lease_proof, 100.0 + second, 100.1 + second)
    assert lease_proof.proven_until == 108.0


def test_what_is_proven_outlives_the_connection_but_half_a_proof_does_not() -> None:
    lease_proof = opened(100.0)
    pinged(lease_proof, 101.0, 101.5)
    wrote(lease_proof, 104.0, 104.1)
    synced(lease_proof, 104.1, 104.2)
    pinged(lease_proof, 104.2, 104.5)
    wrote(lease_proof, 106.5, 106.6)
    lease_proof.closed()
    assert lease_proof.proven_until == 109.0
    lease_proof.opened(TIMING, 106.75, created=False)
    assert lease_proof.proven_until == 109.0
    synced(lease_proof, 106.8, 106.9)
    assert lease_proof.proven_until == 109.0
    wrote(lease_proof, 106.9, 107.0)
    assert lease_proof.proven_until == 114.75


def test_nothing_that_was_answered_on_an_old_connection_is_proven_by_the_new_one() -> None:
    lease_proof = opened(100.0)
    pinged(lease_proof, 107.0, 107.5)
    lease_proof.closed()
    lease_proof.opened(TIMING, 105.0, created=False)
    wrote(lease_proof, 109.9, 110.0)
    synced(lease_proof, 110.0, 110.1)
    assert lease_proof.proven_until == 113.0  # from the new handshake, not from 107.0


def test_a_new_session_starts_from_nothing() -> None:
    lease_proof = opened(100.0)
    wrote(lease_proof, 110.0, 110.0)
    wrote(lease_proof, 113.0, 113.0)
    wrote(lease_proof, 113.0, 113.0)
    assert lease_proof.proven_until == 118.0
    lease_proof.closed()
    lease_proof.opened(TIMING, 109.0, created=True)
    assert lease_proof.proven_until == 117.0


def test_half_a_tick_is_the_users_where_it_is_known() -> None:
    timing = Timing.derive(TIMEOUT, tick_time=0.5, grace_period=None)
    lease_proof = DirectProof(timing)
    lease_proof.opened(timing, 100.0, created=True)
    pinged(lease_proof, 101.0, 101.0)
    wrote(lease_proof, 101.0 + waited(0.25), 101.5)
    synced(lease_proof, 101.5, 101.5)
    assert lease_proof.proven_until == 109.0


# --- when a write could prove more -------------------------------------------------------------


def test_without_a_connection_nothing_more_can_be_proven() -> None:
    assert DirectProof(TIMING).provable_from == inf
    lease_proof = opened(100.0)
    pinged(lease_proof, 101.0, 101.5)
    lease_proof.closed()
    assert lease_proof.provable_from == inf


def test_a_session_that_moved_here_can_be_proven_at_once() -> None:
    lease_proof = opened(100.0, created=False)
    assert lease_proof.provable_from == -inf
    wrote(lease_proof, 100.5, 100.6)
    assert lease_proof.provable_from == 102.6


def test_more_can_be_proven_half_a_tick_after_an_answer() -> None:
    lease_proof = opened(100.0)
    assert lease_proof.provable_from == inf
    pinged(lease_proof, 101.0, 101.5)
    pinged(lease_proof, 102.0, 102.25)
    assert lease_proof.provable_from == 103.5
    wrote(lease_proof, 103.5, 104.0)
    assert lease_proof.provable_from == 103.5  # not yet confirmed
    synced(lease_proof, 104.0, 104.1)
    assert lease_proof.provable_from == 104.25


# --- servers that grant different timeouts -----------------------------------------------------


def test_moving_to_a_server_that_grants_less_shortens_what_was_proven() -> None:
    # ExpiryQueue.update replaces what the session had before, so its end has moved forward.
    lease_proof = opened(100.0)
    pinged(lease_proof, 103.0, 103.0)
    wrote(lease_proof, 105.0, 105.0)
    synced(lease_proof, 105.0, 105.0)
    assert lease_proof.proven_until == 111.0
    lease_proof.closed()
    shorter = Timing.derive(4.0, tick_time=None, grace_period=None)
    lease_proof.opened(shorter, 105.5, created=False)
    assert lease_proof.proven_until == 109.5
    pinged(lease_proof, 106.0, 106.0)
    now = 106.0 + waited(1.0)
    wrote(lease_proof, now, now)
    synced(lease_proof, now, now)
    assert lease_proof.proven_until == 110.0


def test_moving_to_a_server_that_grants_less_adds_nothing() -> None:
    lease_proof = opened(100.0)
    lease_proof.closed()
    lease_proof.opened(Timing.derive(4.0, tick_time=None, grace_period=None), 107.0, created=False)
    assert lease_proof.proven_until == 108.0


# --- against brute force -----------------------------------------------------------------------

MOMENT = st.integers(0, 64).map(lambda n: n / 16)
"""Up to four seconds, in sixteenths: sums of them are exact."""


@dataclass
class Model:
    """The rule, applied to everything that was answered."""

    answered: list[tuple[float, float]] = field(default_factory=list)
    writes: list[tuple[float, float]] = field(default_factory=list)
    confirmed: float = -inf
    """When the newest write was sent that a later request of the leader's has confirmed."""
    created: bool = False
    connections: float = -inf
    """What earlier connections have proven."""
    handshake: float | None = None
    reserve: float = TIMING.drift
    """How long before the end of the proof a sync counts no more."""

    def opened(self, sent: float, *, created: bool) -> None:
        self.connections = -inf if created else self.proven_until()
        self.handshake, self.created = sent, created
        self.answered, self.writes, self.confirmed = [], [], -inf

    def closed(self) -> None:
        self.connections, self.handshake = self.proven_until(), None

    def request(self, what: str, sent: float, now: float) -> None:
        self.answered.append((sent, now))
        if what == "write" or (what == "sync" and now <= self.proven_until() - self.reserve):
            confirmed = [written for written, end in self.writes if end <= sent]
            self.confirmed = max([self.confirmed, *confirmed])
        if what == "write":
            self.writes.append((sent, now))

    def proven_until(self, half: float = HALF) -> float:
        if self.handshake is None:
            return self.connections
        proven = [self.connections]
        if self.created or self.writes:
            proven.append(self.handshake + TIMEOUT)
        proven += [sent + TIMEOUT for sent, end in self.answered if end + half <= self.confirmed]
        return max(proven)


@dataclass(frozen=True)
class Step:
    what: str
    gap: float
    """From the step before to the sending."""
    latency: float
    looks: bool
    """Whether somebody looks at the lease after it: looking must not change anything."""


KINDS = ["ping", "ping", "ping", "write", "write", "write", "sync", "sync", "move", "create"]


def steps(latency: st.SearchStrategy[float]) -> st.SearchStrategy[list[Step]]:
    step = st.builds(Step, st.sampled_from(KINDS), MOMENT, latency, st.booleans())
    return st.lists(step, min_size=1, max_size=40)


def play(
    story: list[Step], reserve: float = TIMING.drift
) -> Iterator[tuple[float, LeaseProof, Model]]:
    """Tells lease_proof and model the same; yields each moment at which somebody looks."""
    lease_proof, model = opened(0.0), Model(reserve=reserve)
    model.opened(0.0, created=True)
    now = sent = 0.0
    for step in story:
        sent = max(sent + step.gap, now if step.what in ("move", "create") else 0.0)
        now = max(now, sent + step.latency)
        if step.what in ("move", "create"):
            lease_proof.closed()
            model.closed()
            lease_proof.opened(TIMING, sent, created=step.what == "create")
            model.opened(sent, created=step.what == "create")
        else:
            led = step.what in ("write", "sync")
            lease_proof.answered(sent, now, proof=step.what == "write", led=led)
            model.request(step.what, sent, now)
        if step.looks or step is story[-1]:
            yield now, lease_proof, model


@given(steps(MOMENT))
def test_it_never_promises_more_than_the_rule_allows(story: list[Step]) -> None:
    for _, lease_proof, model in play(story):
        assert lease_proof.proven_until <= model.proven_until()


@given(steps(MOMENT))
def test_it_promises_little_less_than_the_rule_allows(story: list[Step]) -> None:
    longest = max(step.latency for step in story)
    slack = GRAIN * TIMEOUT + longest
    for now, lease_proof, model in play(story):
        # Of writes that overlap not all are remembered; they leave within one latency.
        least = model.proven_until(HALF + longest)
        # What is over, or as good as over, may be forgotten.
        if least > now + slack:
            assert least - lease_proof.proven_until < slack


@given(steps(st.just(0.0)))
def test_with_prompt_answers_it_promises_at_most_a_grain_less(story: list[Step]) -> None:
    # A sync may come too late for a lease that is shorter by a grain.
    for now, lease_proof, model in play(story, TIMING.drift + GRAIN * TIMEOUT):
        if model.proven_until() > now + GRAIN * TIMEOUT:
            assert model.proven_until() - lease_proof.proven_until < GRAIN * TIMEOUT


@given(steps(MOMENT))
def test_a_promise_is_never_taken_back_within_a_session(story: list[Step]) -> None:
    story = [step for step in story if step.what != "create"] or [Step("ping", 0.0, 0.0, True)]
    before = -inf
    for _, lease_proof, _ in play(story):
        assert lease_proof.proven_until >= before
        before = lease_proof.proven_until


@given(steps(MOMENT))
def test_the_memory_is_bounded(story: list[Step]) -> None:
    for _, lease_proof, _ in play(story * 5):
        assert len(lease_proof._at_server._entries) <= 1 / GRAIN + 2


def test_to_read_what_is_proven_changes_nothing() -> None:
    """A watchdog's thread reads it, at any time."""

    def state() -> list[str]:
        hops = [lease_proof._at_server._entries, lease_proof._at_follower._entries]
        return [repr(getattr(lease_proof, name)) for name in LeaseProof.__slots__] + [
            *map(repr, hops)
        ]

    lease_proof, before_all = opened(), 0.0
    for step in range(200):
        now = step * 0.05
        lease_proof.answered(now, now + 0.02, proof=step % 2 == 0, led=True)
        before = state()
        proven = lease_proof.proven_until
        assert state() == before
        assert lease_proof.proven_until == proven >= before_all
        before_all = proven
    assert before_all > TIMEOUT
