"""Whether what is proven is true on an observer that a follower feeds: two hops to the leader.

`FedWorld` is the `World` of the neighbouring module with a follower in between, whose timer is not
synchronised with the leader's. It does not know the rule by which a proof counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from session.direct_proof import DirectProof
from session.half_ticks import waited

from aiolead._session.lease.proof import LeaseProof
from aiolead._session.lease.timing import Timing

from .test_session_lease_proof_ensemble import (
    CALM,
    HALF,
    INNER,
    STAYS,
    TIMEOUT,
    TIMING,
    Link,
    Links,
    Server,
    Stay,
    World,
    sixteenths,
)

WHOLE = replace(TIMING, half_tick=2 * HALF)
"""A client that waits for a whole tick, once."""

Hold = tuple[float, tuple[tuple[float, float], ...]]
"""A link's delay, and when it holds things back."""

LONGEST = 200.0
"""When no script goes on: a session that never began has no end."""


class FedWorld(World):
    """Every server of the session is an observer, fed by one follower.

    Args:
        to_follower: the observer's link to its follower: `delay` and `holds`.
        from_follower: the other direction.
        fed_from: when the follower first pings the observer.
    """

    def __init__(
        self,
        lease_proof: LeaseProof,
        stays: list[Stay],
        *,
        to_follower: Hold = (0.0, ()),
        from_follower: Hold = (0.0, ()),
        fed_from: float = 1.0,
        timing: Timing = TIMING,
        tick: float = HALF,
        phase: float = 1.0,
    ) -> None:
        self._hops: dict[Server, tuple[Link, Link]] = {}
        self._with_follower: set[Server] = set()  # a touch that the follower has not reported
        self._links = to_follower, from_follower
        self._fed_from = fed_from % tick
        super().__init__(lease_proof, stays, timing=timing, tick=tick, phase=phase)

    def _hop(self, server: Server) -> tuple[Link, Link]:
        if server not in self._hops:
            asked, fed = (Link(delay, holds) for delay, holds in self._links)
            self._hops[server] = asked, fed
            late = -(-(self.now - self._fed_from) // self.tick)
            self._at(self._fed_from + max(0.0, late) * self.tick, partial(self._feed, server))
        return self._hops[server]

    def _up(self, server: Server, action: Callable[[], object]) -> None:
        asked, _ = self._hop(server)
        self._at(asked.arrival(self.now), lambda: World._up(self, server, action))

    def _down(
        self, server: Server, action: Callable[[], object], sent: float | None = None
    ) -> None:
        _, fed = self._hop(server)
        World._down(self, server, lambda: self._at(fed.arrival(self.now), action), sent)

    def _feed(self, server: Server) -> None:
        """The follower pings the observer."""
        asked, fed = self._hop(server)

        def tell() -> None:
            if server.is_touched:
                server.is_touched = False
                self._at(asked.arrival(self.now), lambda: self._with_follower.add(server))

        self._at(fed.arrival(self.now), tell)
        if not self.is_over and self.now < LONGEST:
            self._at(self.now + self.tick, partial(self._feed, server))

    def _collect(self) -> None:
        """The leader pings the followers: these report what they were told by then."""
        self._end_if_due()
        for server in self._servers:
            World._down(self, server, partial(self._report_touch, server))
        if not self.is_over:
            self._at(self.now + self.tick, self._collect)

    def _report_touch(self, server: Server) -> None:
        if server in self._with_follower:
            self._with_follower.remove(server)
            World._up(self, server, self._touch)


# What shows an error: renewals about as far apart as they may be, a slow link between observer and
# follower, and a leader that no touch reaches any more.
PACED = st.lists(
    st.tuples(st.sampled_from(["ping", "renewal", "renewal"]), sixteenths(5.0)), max_size=6
).map(tuple)
SLOW = st.tuples(sixteenths(10.0), sixteenths(2.0)).map(lambda s: (0.0, ((s[0], sum(s)),)))
CUT_OFF = sixteenths(16.0).map(lambda at: (0.0, ((at, inf),)))
PACED_STAYS = st.builds(
    lambda asked, up: [Stay((*CALM[:2], up, CALM[3]), (("ping", 1.5), *asked))], PACED, CUT_OFF
)


@given(
    STAYS | PACED_STAYS,
    INNER | SLOW,
    INNER | SLOW,
    st.sampled_from([HALF, HALF, HALF / 2]),
    sixteenths(HALF),
    sixteenths(HALF),
)
def test_no_session_ends_before_its_promise(
    stays: list[Stay],
    to_follower: Hold,
    from_follower: Hold,
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


def fed(lease_proof: LeaseProof, wait: float, *, cut: float, late: float, timing: Timing) -> World:
    """A ping at 1.5, and a renewal `wait` after its answer; the leader pings at 1, 3, 5 and so on.

    The follower feeds the observer at 1.75, 3.75 and so on; the answer to the first of these pings
    comes at `late`. From `cut` on, the follower gets no word to the leader.
    """
    links: Links = (*CALM[:2], (0.0, ((cut, inf),)), CALM[3])
    return FedWorld(
        lease_proof,
        [Stay(links, (("ping", 1.5), ("renewal", wait)))],
        to_follower=(0.0, ((1.75, late),)),
        fed_from=1.75,
        timing=timing,
    )


@pytest.mark.parametrize(
    ("timing", "wait", "cut", "late"),
    [
        pytest.param(TIMING, 2.0, 4.9, 3.25, id="half a tick"),
        pytest.param(WHOLE, 4.0, 6.9, 5.25, id="a whole tick, and a slow link to the follower"),
    ],
)
def test_one_round_promises_too_much(timing: Timing, wait: float, cut: float, late: float) -> None:
    world = fed(DirectProof(timing), wait, cut=cut, late=late, timing=timing)
    assert world.promised == 1.5 + TIMEOUT
    assert world.ends == TIMEOUT  # nothing has reached the leader since the handshake
    assert fed(LeaseProof(timing), wait, cut=cut, late=late, timing=timing).promised == TIMEOUT


def test_calm_renewals_are_promised_what_came_two_rounds_before() -> None:
    asked = (("renewal", 2.0),) * 8
    world = FedWorld(LeaseProof(TIMING), [Stay(CALM, asked)])
    # The renewals leave at 2, 4 and so on up to 16: the last one proves the last but two.
    assert world.promised == 12.0 + TIMEOUT
    assert world.ends >= world.promised


# --- the two rounds, case by case --------------------------------------------------------------


def renewed(proof: LeaseProof, at: float) -> None:
    """A write at `at`, and a sync 0.1 later; each takes 0.1."""
    proof.answered(at, at + 0.1, proof=True, led=True)
    proof.answered(at + 0.1, at + 0.2, proof=False, led=True)


def connected(*, created: bool = True) -> LeaseProof:
    proof = LeaseProof(TIMING)
    proof.opened(TIMING, 100.0, created=created)
    return proof


def test_the_second_round_begins_half_a_tick_after_the_first_was_confirmed() -> None:
    for second, proven in ((105.499, 108.0), (105.5, 109.0)):
        proof = connected()
        proof.answered(101.0, 101.25, proof=False, led=False)
        renewed(proof, 103.3)  # confirmed at 103.5
        assert proof.proven_until == 108.0
        renewed(proof, second)
        assert proof.proven_until == proven


def test_a_session_that_moves_needs_a_write_only() -> None:
    proof = connected(created=False)
    proof.answered(101.0, 101.1, proof=True, led=True)
    assert proof.proven_until == 108.0


def test_a_round_of_another_connection_does_not_count() -> None:
    proof = connected()
    proof.answered(101.0, 101.25, proof=False, led=False)
    renewed(proof, 103.3)
    proof.closed()
    proof.opened(TIMING, 103.6, created=False)
    renewed(proof, 106.0)
    assert proof.proven_until == 103.6 + TIMEOUT


def test_what_is_known_of_a_server_is_forgotten_with_its_connection() -> None:
    proof = connected()
    proof.direct()
    assert proof.is_direct
    proof.closed()
    proof.opened(TIMING, 103.0, created=False)
    assert not proof.is_direct


def test_one_round_counts_once_it_is_known_to_be_enough() -> None:
    proof = connected()
    proof.answered(101.0, 101.25, proof=False, led=False)
    renewed(proof, 104.0)
    proof.direct()
    assert proof.proven_until == 108.0
    renewed(proof, 104.3)
    assert proof.proven_until == 109.0


def test_both_hops_are_bounded_in_memory() -> None:
    proof = connected()
    for step in range(2000):
        renewed(proof, 100.3 + step / 4)
    assert len(proof._at_server._entries) <= 34
    assert len(proof._at_follower._entries) <= 34
    assert proof.proven_until == pytest.approx(100.3 + 1999 / 4 - 2 * HALF + TIMEOUT, abs=1.0)


def test_the_whole_wait_has_the_reserve_for_drift_in_each_round() -> None:
    timing = Timing.derive(TIMEOUT, tick_time=None, grace_period=None)
    proof = LeaseProof(timing)
    proof.opened(timing, 100.0, created=True)
    proof.answered(101.0, 101.0, proof=False, led=False)
    first = 101.0 + waited(HALF)
    renewed(proof, first)
    renewed(proof, first + 0.2 + HALF)
    assert proof.proven_until == 108.0
    renewed(proof, first + 0.2 + waited(HALF))
    assert proof.proven_until == 109.0
