"""What acknowledged requests prove, held against two opinions of its own.

`Model` applies the rule of the module's docstring by brute force, to everything that was ever
answered. `Ensemble` does not know the rule at all: it is a leader that collects touches, so that
one can look when the session really ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from aiolead._session.ledger import GRAIN, PROMPT, Ledger
from aiolead._session.timing import Timing

TIMEOUT = 8.0
TIMING = Timing.derive(TIMEOUT, tick_time=None, wind_down=None)
HALF = TIMING.half_tick
assert HALF == 2.0


def opened(at: float = 0.0, *, created: bool = True) -> Ledger:
    ledger = Ledger(TIMING)
    ledger.opened(TIMING, at, created=created)
    return ledger


# --- the rule, case by case --------------------------------------------------------------------


def test_nothing_is_proven_before_the_first_connection() -> None:
    assert Ledger(TIMING).proven_until == -inf


def test_creating_a_session_proves_it_from_when_that_was_asked_for() -> None:
    assert opened(100.0).proven_until == 108.0


def test_moving_here_proves_nothing_until_something_is_committed_here() -> None:
    ledger = opened(100.0, created=False)
    assert ledger.proven_until == -inf
    ledger.answered(100.5, 100.6, proof=False)
    assert ledger.proven_until == -inf
    ledger.answered(100.7, 100.8, proof=True)
    # The handshake touched the leader itself: no half tick is needed.
    assert ledger.proven_until == 108.0


def test_a_write_proves_what_was_answered_half_a_tick_before_it_was_sent() -> None:
    ledger = opened(100.0)
    ledger.answered(101.0, 101.5, proof=False)
    ledger.answered(103.499, 104.0, proof=True)
    assert ledger.proven_until == 108.0
    ledger.answered(103.5, 104.0, proof=True)
    assert ledger.proven_until == 109.0


def test_a_write_does_not_prove_itself() -> None:
    ledger = opened(100.0)
    ledger.answered(110.0, 110.1, proof=True)
    assert ledger.proven_until == 108.0


def test_renewals_prove_from_the_one_before_the_last() -> None:
    ledger = opened(100.0)
    for sent in (102.0, 104.25, 106.5, 108.75):
        ledger.answered(sent, sent + 0.25, proof=True)
        assert ledger.proven_until == max(108.0, sent - 2.25 + TIMEOUT)


def test_answered_pings_prove_nothing_for_ever() -> None:
    ledger = opened(100.0)
    for second in range(60):
        ledger.answered(100.0 + second, 100.1 + second, proof=False)
    assert ledger.proven_until == 108.0


def test_an_event_proves_contact_when_the_newest_answered_request_was_sent() -> None:
    ledger = opened(100.0)
    ledger.answered(101.0, 101.5, proof=False)
    ledger.answered(103.25, 103.5, proof=False)
    ledger.event()
    assert ledger.proven_until == 108.0  # half a tick before 103.25 nothing was answered
    ledger.answered(103.5, 103.75, proof=False)
    ledger.event()
    assert ledger.proven_until == 109.0


def test_an_event_after_a_late_answer_proves_no_contact_since_that_was_asked_for() -> None:
    """A follower that was stopped, and is cut off by now, has the commit from before it was."""
    ledger = opened(100.0)
    ledger.answered(101.0, 101.1, proof=False)
    ledger.answered(103.5, 105.0, proof=False)
    ledger.event()
    assert ledger.proven_until == 108.0
    ledger.answered(105.5, 105.6, proof=False)  # now it runs again
    ledger.event()
    assert ledger.proven_until == 109.0


def test_an_event_right_after_moving_here_proves_the_handshake() -> None:
    ledger = opened(100.0, created=False)
    ledger.event()
    assert ledger.proven_until == 108.0


def test_what_is_proven_outlives_the_connection_but_contact_does_not() -> None:
    ledger = opened(100.0)
    ledger.answered(101.0, 101.5, proof=False)
    ledger.answered(104.0, 104.1, proof=True)
    ledger.closed()
    assert ledger.proven_until == 109.0
    ledger.opened(TIMING, 106.0, created=False)
    assert ledger.proven_until == 109.0
    ledger.answered(106.5, 106.6, proof=False)
    assert ledger.proven_until == 109.0
    ledger.event()
    assert ledger.proven_until == 114.0


def test_nothing_that_was_answered_on_an_old_connection_is_proven_by_the_new_one() -> None:
    ledger = opened(100.0)
    ledger.answered(107.0, 107.5, proof=False)
    ledger.closed()
    ledger.opened(TIMING, 105.0, created=False)
    ledger.answered(109.9, 110.0, proof=True)
    assert ledger.proven_until == 113.0  # from the new handshake, not from 107.0


def test_a_new_session_starts_from_nothing() -> None:
    ledger = opened(100.0)
    ledger.answered(110.0, 110.0, proof=True)
    ledger.answered(113.0, 113.0, proof=True)
    assert ledger.proven_until == 118.0
    ledger.closed()
    ledger.opened(TIMING, 109.0, created=True)
    assert ledger.proven_until == 117.0


def test_half_a_tick_is_the_users_where_it_is_known() -> None:
    timing = Timing.derive(TIMEOUT, tick_time=0.5, wind_down=None)
    ledger = Ledger(timing)
    ledger.opened(timing, 100.0, created=True)
    ledger.answered(101.0, 101.0, proof=False)
    ledger.answered(101.25, 101.5, proof=True)
    assert ledger.proven_until == 109.0


# --- servers that grant different timeouts -----------------------------------------------------


def test_moving_to_a_server_that_grants_less_shortens_what_was_proven() -> None:
    # ExpiryQueue.update replaces what the session had before, so its end has moved forward.
    ledger = opened(100.0)
    ledger.answered(103.0, 103.0, proof=False)
    ledger.answered(105.0, 105.0, proof=True)
    assert ledger.proven_until == 111.0
    ledger.closed()
    shorter = Timing.derive(4.0, tick_time=None, wind_down=None)
    ledger.opened(shorter, 105.5, created=False)
    assert ledger.proven_until == 109.5
    ledger.answered(106.0, 106.0, proof=False)
    ledger.answered(107.0, 107.0, proof=True)
    assert ledger.proven_until == 110.0


def test_moving_to_a_server_that_grants_less_adds_nothing() -> None:
    ledger = opened(100.0)
    ledger.closed()
    ledger.opened(Timing.derive(4.0, tick_time=None, wind_down=None), 107.0, created=False)
    assert ledger.proven_until == 108.0


# --- against brute force -----------------------------------------------------------------------

MOMENT = st.integers(0, 64).map(lambda n: n / 16)
"""Up to four seconds, in sixteenths: sums of them are exact."""


@dataclass
class Model:
    """The rule, applied to everything that was answered."""

    answered: list[tuple[float, float]] = field(default_factory=list)
    contact: float = -inf
    connections: float = -inf
    """What earlier connections have proven."""
    handshake: float | None = None

    def opened(self, sent: float, *, created: bool) -> None:
        self.connections = -inf if created else self.proven_until
        self.handshake, self.answered = sent, []
        self.contact = sent if created else -inf

    def closed(self) -> None:
        self.connections, self.handshake = self.proven_until, None
        self.answered, self.contact = [], -inf

    def event(self) -> None:
        assert self.handshake is not None
        prompt = [sent for sent, answered in self.answered if answered - sent <= PROMPT * TIMEOUT]
        newest = max([self.handshake, *prompt])
        self.contact = max(self.contact, newest)

    @property
    def proven_until(self) -> float:
        if self.handshake is None or self.contact == -inf:
            return self.connections
        touches = [sent for sent, answered in self.answered if answered <= self.contact - HALF]
        return max(self.connections, *(sent + TIMEOUT for sent in (self.handshake, *touches)))


@dataclass(frozen=True)
class Step:
    what: str
    gap: float
    """From the step before to the sending."""
    latency: float
    looks: bool
    """Whether somebody looks at the lease after it: looking must not change anything."""


def steps(latency: st.SearchStrategy[float]) -> st.SearchStrategy[list[Step]]:
    what = st.sampled_from(["ping", "ping", "ping", "write", "write", "event", "move", "create"])
    return st.lists(st.builds(Step, what, MOMENT, latency, st.booleans()), min_size=1, max_size=40)


def play(story: list[Step]) -> Iterator[tuple[float, Ledger, Model]]:
    """Tells ledger and model the same; yields each moment at which somebody looks."""
    ledger, model = opened(0.0), Model()
    model.opened(0.0, created=True)
    now = sent = 0.0
    for step in story:
        sent = max(sent + step.gap, now if step.what in ("move", "create") else 0.0)
        now = max(now, sent + step.latency)
        match step.what:
            case "event":
                ledger.event()
                model.event()
            case "move" | "create":
                ledger.closed()
                model.closed()
                ledger.opened(TIMING, sent, created=step.what == "create")
                model.opened(sent, created=step.what == "create")
            case _:
                ledger.answered(sent, now, proof=step.what == "write")
                model.answered.append((sent, now))
                if step.what == "write":
                    model.contact = max(model.contact, sent)
        if step.looks or step is story[-1]:
            yield now, ledger, model


@given(steps(MOMENT))
def test_it_never_promises_more_than_the_rule_allows(story: list[Step]) -> None:
    for _, ledger, model in play(story):
        assert ledger.proven_until <= model.proven_until


@given(steps(MOMENT))
def test_it_promises_little_less_than_the_rule_allows(story: list[Step]) -> None:
    slack = GRAIN * TIMEOUT + max(step.latency for step in story)
    for now, ledger, model in play(story):
        # What is over, or as good as over, may be forgotten.
        if model.proven_until > now + slack:
            assert model.proven_until - ledger.proven_until < slack


@given(steps(st.just(0.0)))
def test_with_prompt_answers_it_promises_at_most_a_grain_less(story: list[Step]) -> None:
    for now, ledger, model in play(story):
        if model.proven_until > now + GRAIN * TIMEOUT:
            assert model.proven_until - ledger.proven_until < GRAIN * TIMEOUT


@given(steps(MOMENT))
def test_a_promise_is_never_taken_back_within_a_session(story: list[Step]) -> None:
    story = [step for step in story if step.what != "create"] or [Step("ping", 0.0, 0.0, True)]
    before = -inf
    for _, ledger, _ in play(story):
        assert ledger.proven_until >= before
        before = ledger.proven_until


@given(steps(MOMENT))
def test_the_memory_is_bounded(story: list[Step]) -> None:
    for _, ledger, _ in play(story * 5):
        assert len(ledger._entries) <= 1 / GRAIN + 2


# --- against an ensemble -----------------------------------------------------------------------


@dataclass(frozen=True)
class Stay:
    """A connection to a follower that is cut off from the leader after a while."""

    cut_after: float
    phase: float
    """When, after the handshake, the leader's first ping comes."""
    steps: list[Step]


@dataclass
class Ensemble:
    """A leader that ends the session `TIMEOUT` after the last touch that it knows of.

    It asks a follower for its touches every `tick`, until that is cut off. A follower answers
    pings and reads whatever happens to it; writes and events need the leader.
    """

    tick: float
    ends: float = -inf

    def touch(self, at: float) -> None:
        self.ends = max(self.ends, at + TIMEOUT)

    def collect(self, arrivals: list[float], start: float, phase: float, cut: float) -> None:
        """What the leader has heard of a stay when that is over."""
        ping = start + phase
        while ping <= cut:
            if any(arrival <= ping for arrival in arrivals):
                # The leader touches when it hears of it; what came in after its ping waits.
                last = max(arrival for arrival in arrivals if arrival <= ping)
                if last > ping - self.tick:
                    self.touch(ping)
            ping += self.tick


STAY = st.builds(
    Stay, st.integers(0, 320).map(lambda n: n / 16), MOMENT, steps(MOMENT | st.just(0.0))
)


@given(st.sampled_from([HALF, HALF / 2, HALF / 4]), st.lists(STAY, min_size=1, max_size=4))
def test_no_session_ends_before_its_promise(tick: float, stays: list[Stay]) -> None:
    ensemble, ledger = Ensemble(tick), Ledger(TIMING)
    now = 0.0
    for number, stay in enumerate(stays):
        start, cut = now, now + stay.cut_after
        ensemble.touch(start)
        ledger.opened(TIMING, start, created=number == 0)
        sent, arrived, arrivals = start, start, []
        for step in stay.steps:
            sent = max(sent + step.gap, start)
            arrived = max(arrived, sent + step.latency / 2)
            now = max(now, arrived + step.latency / 2)
            match step.what:
                case "write" if arrived <= cut:
                    arrivals.append(arrived)
                    ledger.answered(sent, now, proof=True)
                case "event" if arrived <= cut:
                    # Somebody's change, committed when nothing of ours is under way.
                    ledger.event()
                case "ping":
                    arrivals.append(arrived)
                    ledger.answered(sent, now, proof=False)
        ensemble.collect(arrivals, start, stay.phase % tick, cut)
        event(f"promise extended: {ledger.proven_until > start + TIMEOUT}")
        # Whatever the ledger promised by now, no later touch was needed for.
        assert ledger.proven_until <= ensemble.ends
        ledger.closed()


def test_the_ensemble_catches_a_promise_that_counts_from_the_last_answer() -> None:
    """The obvious rule, which measurements on real ensembles have refuted, fails here, too."""
    ensemble = Ensemble(HALF)
    ensemble.touch(0.0)
    ensemble.collect([3.0], 0.0, 1.0, cut=4.9)  # pings at 1.0, 3.0: this one just makes it
    assert ensemble.ends == 3.0 + TIMEOUT
    ensemble = Ensemble(HALF)
    ensemble.touch(0.0)
    ensemble.collect([3.5], 0.0, 1.0, cut=4.9)  # ... and this one does not
    assert ensemble.ends < 3.5 + TIMEOUT
    ledger = opened(0.0)
    ledger.answered(3.5, 3.5, proof=True)
    assert ledger.proven_until <= ensemble.ends == pytest.approx(8.0)
