"""Whether what is proven is true: links that hold things back, observers, clocks that drift.

Proofs with another rule promise too much in the same worlds, which shows that they can tell.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from session.proof_world import (
    CALM,
    HALF,
    OPEN,
    TIMEOUT,
    TIMING,
    Direction,
    DirectProof,
    FedWorld,
    Stay,
    World,
)

from aiolead._session.lease import LeaseProof
from aiolead._session.timing import Timing


def sixteenths(most: float) -> st.SearchStrategy[float]:
    return st.integers(0, int(most * 16)).map(lambda n: n / 16)


# Most links to the client are well, or else there is hardly ever anything to prove.
SPAN = st.tuples(sixteenths(10.0), sixteenths(12.0) | st.just(inf)).map(lambda s: (s[0], sum(s)))
DELAY = st.just(0.0) | sixteenths(0.5)
OUTER = st.tuples(DELAY, st.just(()) | st.just(()) | st.just(()) | st.tuples(SPAN))
INNER = st.tuples(DELAY, st.just(()) | st.tuples(SPAN) | st.tuples(SPAN, SPAN))
ASKED = st.sampled_from(["ping", "ping", "write", "sync", "renewal", "renewal", "event"])
STAY = st.builds(
    Stay,
    st.tuples(OUTER, OUTER, INNER, INNER),
    st.lists(st.tuples(ASKED, sixteenths(2.5)), min_size=1, max_size=12).map(tuple),
)
STAYS = st.lists(STAY, min_size=1, max_size=3)


def holding(start: float, end: float = inf) -> Direction:
    return (0.0, ((start, end),))


def stay(up: Direction, down: Direction, *asked: tuple[str, float]) -> list[Stay]:
    """One connection over a server with these links to the leader, and from it."""
    return [Stay((OPEN, OPEN, up, down), asked)]


APART = holding(1.5, 14.0)
HEALED = stay(APART, APART, ("event", 5.0), *[("ping", 0.5)] * 18)
"""Isolated from the leader for longer than the session timeout; an old commit comes through."""

RENEWAL = (("ping", 1.5), ("renewal", 2.5))
LOST = stay(holding(4.5), holding(2.0, 5.0), *RENEWAL)
"""The leader's ping comes with the commit, and the answer to the ping is lost."""

LATE = stay(holding(4.5, 9.0), holding(2.0, 5.0), *RENEWAL)
"""The same, but the answer to the ping comes when the session is over, and so does the sync."""


# --- an ensemble -------------------------------------------------------------------------------


@given(STAYS, st.sampled_from([HALF, HALF / 2, HALF / 4]), sixteenths(HALF))
@example(HEALED, HALF, 1.0)
@example(LOST, HALF, 1.0)
@example(LATE, HALF, 1.0)
def test_no_session_ends_before_its_promise(stays: list[Stay], tick: float, phase: float) -> None:
    world = World(DirectProof(TIMING), stays, tick=tick, phase=phase)
    event(f"promise extended: {world.promised > TIMEOUT}")
    assert world.promised <= world.ends


def test_calm_renewals_prove_the_one_before() -> None:
    world = World(DirectProof(TIMING), [Stay(CALM, (("renewal", 2.0),) * 6)])
    assert world.promised == 10.0 + TIMEOUT
    # The ping at 13 reports the last one.
    assert world.ends == 13.0 + TIMEOUT


class WriteAlone(DirectProof):
    """Takes a write for a proof that the leader has collected everything before."""

    __slots__ = ()

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        super().answered(sent, now, proof=proof, led=led)
        if proof:
            self._collected = max(self._collected, sent)
            self._settle(now)


class SyncAtAnyTime(DirectProof):
    """Takes a sync for the second step, although the proof has ended."""

    __slots__ = ()

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        if led:
            self._confirm(sent)
            self._settle(now)
        super().answered(sent, now, proof=proof, led=led)


class AnythingConfirms(DirectProof):
    """Takes the answer to any request for the second step."""

    __slots__ = ()

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        super().answered(sent, now, proof=proof, led=True)


class Events(DirectProof):
    """Takes an event for a proof of contact when the newest answered request was sent."""

    __slots__ = ("newest",)

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        super().answered(sent, now, proof=proof, led=led)
        self.newest = sent

    def event(self) -> None:
        self._collected = max(self._collected, self.newest)
        self._settle(self.newest)


def assert_broken(world: World) -> None:
    """It promises what the ping has earned, and the session ends before that."""
    assert world.ends == TIMEOUT
    assert world.promised == 1.5 + TIMEOUT


def test_counting_a_write_alone_promises_too_much() -> None:
    assert World(DirectProof(TIMING), LOST).promised == TIMEOUT
    assert_broken(World(WriteAlone(TIMING), LOST))


def test_counting_events_promises_too_much() -> None:
    assert World(DirectProof(TIMING), HEALED).promised == TIMEOUT
    proof = Events(TIMING)
    world = World(proof, HEALED, on_event=proof.event)
    assert world.ends == TIMEOUT
    assert world.promised > TIMEOUT + 2.0


def test_counting_any_answer_as_confirmation_promises_too_much() -> None:
    stays = stay(holding(4.5), holding(2.0, 5.0), *RENEWAL, ("ping", 2.0))
    assert World(DirectProof(TIMING), stays).promised == TIMEOUT
    # Even so, the ping has to wait for the sync before it: without one it is answered.
    assert World(AnythingConfirms(TIMING), stays).promised == TIMEOUT
    asked = (("ping", 1.5), ("write", 2.5), ("ping", 2.0))
    assert_broken(World(AnythingConfirms(TIMING), stay(holding(4.5), holding(2.0, 5.0), *asked)))


def test_sync_counts_only_behind_the_end_of_the_session() -> None:
    """A leader that answered syncs of sessions that it has ended would break a promise."""
    for end_first in (True, False):
        assert World(DirectProof(TIMING), LATE, end_first=end_first).promised == TIMEOUT
    assert World(SyncAtAnyTime(TIMING), LATE).promised == TIMEOUT
    assert_broken(World(SyncAtAnyTime(TIMING), LATE, end_first=False))


def test_leader_that_pings_more_rarely_than_assumed_breaks_the_promise() -> None:
    stays = stay(holding(4.0), OPEN, ("ping", 1.5), ("renewal", 2.0), ("ping", 0.25))
    assert World(DirectProof(TIMING), stays).ends == 3.0 + TIMEOUT
    assert_broken(World(DirectProof(TIMING), stays, tick=2 * HALF, phase=1.0))


# --- observers that a follower feeds: two hops to the leader -----------------------------------

# What shows an error: renewals about as far apart as they may be, a slow link between observer and
# follower, and a leader that no touch reaches any more.
PACED = st.lists(
    st.tuples(st.sampled_from(["ping", "renewal", "renewal"]), sixteenths(5.0)), max_size=6
)
SLOW = st.tuples(sixteenths(10.0), sixteenths(2.0)).map(lambda s: holding(s[0], sum(s)))
PACED_STAYS = st.builds(
    lambda asked, cut: stay(holding(cut), OPEN, ("ping", 1.5), *asked), PACED, sixteenths(16.0)
)


@given(
    STAYS | PACED_STAYS,
    INNER | SLOW,
    INNER | SLOW,
    st.sampled_from([HALF, HALF, HALF / 2]),
    sixteenths(HALF),
    sixteenths(HALF),
)
def test_no_session_on_an_observer_ends_before_its_promise(
    stays: list[Stay],
    to_follower: Direction,
    from_follower: Direction,
    tick: float,
    phase: float,
    fed_from: float,
) -> None:
    world = FedWorld(
        LeaseProof(TIMING),
        stays,
        to_follower=to_follower,
        from_follower=from_follower,
        tick=tick,
        phase=phase,
        fed_from=fed_from,
    )
    event(f"promise extended: {world.promised > TIMEOUT}")
    assert world.promised <= world.ends


WHOLE = replace(TIMING, half_tick=2 * HALF)
"""A client that waits for a whole tick, once."""


@pytest.mark.parametrize(
    ("timing", "wait", "cut", "late"),
    [
        pytest.param(TIMING, 2.0, 4.9, 3.25, id="half a tick"),
        pytest.param(WHOLE, 4.0, 6.9, 5.25, id="a whole tick, and a slow link to the follower"),
    ],
)
def test_one_round_on_an_observer_promises_too_much(
    timing: Timing, wait: float, cut: float, late: float
) -> None:
    """A ping at 1.5, and a renewal `wait` after its answer; the leader pings at 1, 3, 5 and so on.

    The follower feeds the observer at 1.75, 3.75 and so on; the answer to the first of these pings
    comes at `late`. From `cut` on, nothing of the follower reaches the leader.
    """

    def world(proof: LeaseProof) -> World:
        stays = stay(holding(cut), OPEN, ("ping", 1.5), ("renewal", wait))
        link = holding(1.75, late)
        return FedWorld(proof, stays, to_follower=link, fed_from=1.75, timing=timing)

    assert_broken(world(DirectProof(timing)))  # nothing has reached the leader since the handshake
    assert world(LeaseProof(timing)).promised == TIMEOUT


def test_calm_renewals_on_an_observer_prove_the_last_but_two() -> None:
    world = FedWorld(LeaseProof(TIMING), [Stay(CALM, (("renewal", 2.0),) * 8)])
    # The renewals leave at 2, 4 and so on up to 16.
    assert world.promised == 12.0 + TIMEOUT
    assert world.ends >= world.promised


# --- clocks that drift -------------------------------------------------------------------------
# All times are the client's. Its clock may be the faster one by 0.1 %, so that the leader's half
# tick and the session timeout take longer than the client assumes.

SLOWER = 1.0005 / 0.9995
"""How much longer the slowest leader takes than the fastest client counts: 500 ppm on each side."""

WITH_RESERVE = Timing.derive(TIMEOUT, tick_time=None, grace_period=None)

FIRST = 1.0
"""When the leader pings first. It does so again at `SECOND`."""
SECOND = FIRST + HALF * SLOWER


def drifting(timing: Timing, wait: float) -> World:
    """A ping just after the leader's, and a renewal `wait` seconds after its answer.

    Nothing reaches the leader from just before its second ping on.
    """
    asked = (("ping", FIRST + 0.0005), ("renewal", wait))
    stays = stay(holding(SECOND - 0.0002), OPEN, *asked)
    return World(DirectProof(timing), stays, timing=timing, tick=HALF * SLOWER, phase=FIRST)


def test_faster_clock_without_a_reserve_promises_too_much() -> None:
    found = drifting(TIMING, HALF)
    assert found.ends == TIMEOUT  # nothing has reached the leader since the handshake
    assert found.promised == FIRST + 0.0005 + TIMEOUT
    # The leader's session timeout, by the slower clock, is longer, but not by as much.
    assert found.promised > TIMEOUT * SLOWER


# A renewal that leaves when it is due comes after the ping: then nothing answers it.
@pytest.mark.parametrize("wait", [HALF, WITH_RESERVE.half_tick])
def test_reserve_keeps_the_promise_of_a_faster_clock(wait: float) -> None:
    assert drifting(WITH_RESERVE, wait).promised == TIMEOUT


@given(
    st.floats(0.1, 86_400),
    st.none() | st.floats(0.001, 3600),
    st.floats(0.9995, 1.0005),
    st.floats(0.9995, 1.0005),
)
def test_slowest_leader_has_pinged_after_half_a_tick(
    granted: float, tick_time: float | None, client: float, leader: float
) -> None:
    half_tick = Timing.derive(granted, tick_time=tick_time, grace_period=None).half_tick
    real = granted / 4 if tick_time is None else tick_time / 2
    assert half_tick / client * leader >= real
    assert half_tick == pytest.approx(real, rel=0.0011)  # and not much longer
