"""The proof by acknowledged requests: case by case, and against the rule applied by brute force.

Whether the rule is right is another question: see `test_lease_proof_worlds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.proof_world import HALF, TIMEOUT, TIMING, DirectProof
from session.script import waited

from aiolead._session.lease import LeaseProof
from aiolead._session.timing import GRAIN, Timing

# --- the rule, case by case --------------------------------------------------------------------

Step = tuple[Any, ...]
"""A ping, sync or write with the times when it was sent and answered; a renewal, which is a write
at a time and a sync 0.1 later, of which each takes 0.1; a connection of the session that was asked
for at a time; or what must hold: until when the session is proven, from when on more can be."""

CREATE, MOVE = ("create", 100.0), ("move", 100.0)
PING = ("ping", 101.0, 101.5)
PROVES_108, PROVES_109 = ("proves", 108.0), ("proves", 109.0)

ONE_ROUND: dict[str, list[Step]] = {
    "nothing is proven before the first connection": [("proves", -inf), ("provable", inf)],
    "creating a session proves it from the request on": [CREATE, PROVES_108],
    "moving proves nothing until a write is committed": [
        # The handshake touched the leader itself: no half tick is needed, and no second request.
        MOVE, ("proves", -inf), ("ping", 100.5, 100.6), ("sync", 100.6, 100.7), ("proves", -inf),
        ("provable", -inf), ("write", 100.7, 100.8), PROVES_108,
    ],
    "a moved session can be proven by its first write": [
        MOVE, ("provable", -inf), ("write", 100.5, 100.6), ("provable", 102.6),
    ],
    "a write proves what was answered half a tick before it left": [
        CREATE, PING, ("write", 103.499, 104.0), ("sync", 104.0, 104.1), PROVES_108,
        ("write", 103.5, 104.2), ("sync", 104.2, 104.3), PROVES_109,
    ],
    "a write proves nothing until a sync is answered": [
        CREATE, PING, ("write", 104.0, 104.5), PROVES_108, ("sync", 104.5, 105.0), PROVES_109,
    ],
    "a write proves nothing until another write is answered": [
        CREATE, PING, ("write", 104.0, 104.5), PROVES_108, ("write", 104.5, 105.0), PROVES_109,
    ],
    "the sync must leave after the answer to the write": [
        CREATE, PING, ("write", 104.0, 104.5), ("sync", 104.499, 105.0), PROVES_108,
    ],
    "the second write must leave after the answer to the first": [
        CREATE, PING, ("write", 104.0, 104.5), ("write", 104.499, 105.0), PROVES_108,
    ],
    "a ping confirms nothing, a sync does as late as it may be": [
        CREATE, PING, ("write", 104.0, 104.5), ("ping", 104.5, 105.0), PROVES_108,
        ("sync", 105.0, 105.5), PROVES_109,
    ],
    "a sync confirms nothing once the proof has ended": [
        # It may have arrived in the instant in which the leader ended the session.
        CREATE, ("ping", 104.0, 104.5), ("write", 107.5, 107.8),
        ("sync", 107.8, 108.0 - TIMING.drift + 1e-6), PROVES_108,
        ("write", 108.5, 109.0), ("proves", 112.0),
    ],
    "syncs alone prove nothing": [
        CREATE, *[("sync", 100.0 + n, 100.1 + n) for n in range(60)], PROVES_108,
    ],
    "pings alone prove nothing": [
        CREATE, *[("ping", 100.0 + n, 100.1 + n) for n in range(60)], PROVES_108,
    ],
    "a write does not prove itself": [
        CREATE, ("write", 110.0, 110.1), ("sync", 110.1, 110.2), PROVES_108,
    ],
    "renewals prove from the one before the last": [
        CREATE,
        ("write", 102.0, 102.25), PROVES_108, ("sync", 102.25, 102.5), PROVES_108,
        ("write", 104.25, 104.5), PROVES_108, ("sync", 104.5, 104.75), ("proves", 110.0),
        ("write", 106.5, 106.75), ("proves", 110.0), ("sync", 106.75, 107.0), ("proves", 112.25),
        ("write", 108.75, 109.0), ("proves", 112.25), ("sync", 109.0, 109.25), ("proves", 114.5),
    ],
    "a write just ahead of a renewal does not stand in for it": [
        # It is too early to prove what the renewal proves.
        CREATE, PING, ("write", 103.4375, 103.75), ("write", 103.5, 103.75),
        ("sync", 103.75, 104.0), PROVES_109,
    ],
    "a proof outlives the connection, and half a proof does not": [
        CREATE, PING, ("write", 104.0, 104.1), ("sync", 104.1, 104.2),
        ("ping", 104.2, 104.5), ("write", 106.5, 106.6), ("close",), PROVES_109,
        ("move", 106.75), PROVES_109, ("sync", 106.8, 106.9), PROVES_109,
        ("write", 106.9, 107.0), ("proves", 114.75),
    ],
    "answers on an old connection do not count on the new one": [
        # The proof is from the new handshake, not from 107.0.
        CREATE, ("ping", 107.0, 107.5), ("move", 105.0), ("write", 109.9, 110.0),
        ("sync", 110.0, 110.1), ("proves", 113.0),
    ],
    "a new session starts from nothing": [
        CREATE, ("write", 110.0, 110.0), ("write", 113.0, 113.0), ("write", 113.0, 113.0),
        ("proves", 118.0), ("create", 109.0), ("proves", 117.0),
    ],
    "nothing more can be proven without a connection": [
        CREATE, PING, ("close",), ("provable", inf),
    ],
    "more can be proven half a tick after an answer": [
        CREATE, ("provable", inf), PING, ("ping", 102.0, 102.25), ("provable", 103.5),
        ("write", 103.5, 104.0), ("provable", 103.5),  # not yet confirmed
        ("sync", 104.0, 104.1), ("provable", 104.25),
    ],
}  # fmt: skip

TWO_ROUNDS: dict[str, list[Step]] = {
    "the second round leaves half a tick after the first was confirmed": [
        CREATE, ("ping", 101.0, 101.25), ("renewal", 103.3), PROVES_108, ("renewal", 105.5),
        PROVES_109,
    ],
    "the second round leaves too early": [
        CREATE, ("ping", 101.0, 101.25), ("renewal", 103.3), PROVES_108, ("renewal", 105.499),
        PROVES_108,
    ],
    "a session that moves needs only a write": [MOVE, ("write", 101.0, 101.1), PROVES_108],
    "a round on another connection does not count": [
        CREATE, ("ping", 101.0, 101.25), ("renewal", 103.3), ("move", 103.6), ("renewal", 106.0),
        ("proves", 103.6 + TIMEOUT),
    ],
    "one round counts once it is known to be enough": [
        CREATE, ("ping", 101.0, 101.25), ("renewal", 104.0), ("direct", True), PROVES_108,
        ("renewal", 104.3), PROVES_109,
    ],
    "knowledge of a server ends with its connection": [
        CREATE, ("direct", True), ("is direct", True), ("move", 103.0), ("is direct", False),
    ],
}  # fmt: skip


def play(proof: LeaseProof, steps: list[Step]) -> None:
    for what, *times in steps:
        match what:
            case "ping" | "sync" | "write":
                proof.answered(*times, proof=what == "write", led=what != "ping")
            case "renewal":
                (at,) = times
                proof.answered(at, at + 0.1, proof=True, led=True)
                proof.answered(at + 0.1, at + 0.2, proof=False, led=True)
            case "create" | "move":
                proof.closed()
                proof.opened(TIMING, times[0], created=what == "create")
            case "close":
                proof.closed()
            case "direct":
                proof.direct()
            case "proves":
                assert [proof.proven_until] == times
            case "provable":
                assert [proof.provable_from] == times
            case _:
                assert [proof.is_direct] == times


@pytest.mark.parametrize("steps", ONE_ROUND.values(), ids=ONE_ROUND)
def test_proof_with_one_round(steps: list[Step]) -> None:
    play(DirectProof(TIMING), steps)


@pytest.mark.parametrize("steps", TWO_ROUNDS.values(), ids=TWO_ROUNDS)
def test_proof_with_two_rounds(steps: list[Step]) -> None:
    play(LeaseProof(TIMING), steps)


def opened(timing: Timing = TIMING, cls: type[LeaseProof] = DirectProof) -> LeaseProof:
    proof = cls(timing)
    proof.opened(timing, 100.0, created=True)
    return proof


def test_writes_that_overlap_without_end_confirm_one_another() -> None:
    proof = opened()
    for n in range(1, 400):
        written = 100 + n / 16
        play(proof, [("write", written, written + 0.5)])  # eight are under way at any time
        # Half a tick, up to two answers, and two grains.
        behind = HALF + 2 * 0.5 + 2 * GRAIN * TIMEOUT + 0.5
        assert proof.proven_until >= written - behind + TIMEOUT


def test_half_a_tick_is_the_users_where_it_is_known() -> None:
    proof = opened(Timing.derive(TIMEOUT, tick_time=0.5, grace_period=None))
    play(proof, [("ping", 101.0, 101.0), ("write", 101.0 + waited(0.25), 101.5)])
    play(proof, [("sync", 101.5, 101.5), PROVES_109])


def test_each_round_has_the_reserve_for_drift() -> None:
    proof = opened(Timing.derive(TIMEOUT, tick_time=None, grace_period=None), LeaseProof)
    first = 101.0 + waited(HALF)
    play(proof, [("ping", 101.0, 101.0), ("renewal", first)])
    play(proof, [("renewal", first + 0.2 + HALF), PROVES_108])
    play(proof, [("renewal", first + 0.2 + waited(HALF)), PROVES_109])


SHORTER = Timing.derive(4.0, tick_time=None, grace_period=None)


def test_moving_to_a_server_that_grants_less_shortens_the_proof() -> None:
    # ExpiryQueue.update replaces what the session had before, so its end has moved forward.
    proof, now = opened(), 106.0 + waited(1.0)
    play(proof, [("ping", 103.0, 103.0), ("write", 105.0, 105.0), ("sync", 105.0, 105.0)])
    play(proof, [("proves", 111.0), ("close",)])
    proof.opened(SHORTER, 105.5, created=False)
    play(proof, [("proves", 109.5), ("ping", 106.0, 106.0), ("write", now, now)])
    play(proof, [("sync", now, now), ("proves", 110.0)])


def test_moving_to_a_server_that_grants_less_adds_nothing() -> None:
    proof = opened()
    proof.closed()
    proof.opened(SHORTER, 107.0, created=False)
    assert proof.proven_until == 108.0


def test_memory_of_both_hops_is_bounded() -> None:
    proof = opened(cls=LeaseProof)
    play(proof, [("renewal", 100.3 + step / 4) for step in range(2000)])
    assert len(proof._at_server._entries) <= 34
    assert len(proof._at_follower._entries) <= 34
    assert proof.proven_until == pytest.approx(100.3 + 1999 / 4 - 2 * HALF + TIMEOUT, abs=1.0)


def test_reading_the_proof_changes_nothing() -> None:
    """A watchdog's thread reads it, at any time."""

    def state() -> list[str]:
        hops = [proof._at_server._entries, proof._at_follower._entries]
        return [*(repr(getattr(proof, name)) for name in LeaseProof.__slots__), *map(repr, hops)]

    proof, before_all = DirectProof(TIMING), 0.0
    proof.opened(TIMING, 0.0, created=True)
    for step in range(200):
        now = step * 0.05
        proof.answered(now, now + 0.02, proof=step % 2 == 0, led=True)
        before = state()
        proven = proof.proven_until
        assert state() == before
        assert proof.proven_until == proven >= before_all
        before_all = proven
    assert before_all > TIMEOUT


# --- against brute force -----------------------------------------------------------------------

MOMENT = st.integers(0, 64).map(lambda n: n / 16)
"""Up to four seconds, in sixteenths: sums of them are exact."""


@dataclass
class Model:
    """The rule, applied to everything that was answered."""

    answered: list[tuple[float, float]] = field(default_factory=list)
    writes: list[tuple[float, float]] = field(default_factory=list)
    confirmed: float = -inf
    """When the newest write was sent that a later request to the leader has confirmed."""
    created: bool = False
    connections: float = -inf
    """The proof of earlier connections."""
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
class Move:
    what: str
    gap: float
    """From the move before to the sending."""
    latency: float
    looks: bool
    """Whether the proof is read after it. Reading it must not change anything."""


KINDS = ["ping", "ping", "ping", "write", "write", "write", "sync", "sync", "move", "create"]


def stories(latency: st.SearchStrategy[float]) -> st.SearchStrategy[list[Move]]:
    move = st.builds(Move, st.sampled_from(KINDS), MOMENT, latency, st.booleans())
    return st.lists(move, min_size=1, max_size=40)


def tell(
    story: list[Move], reserve: float = TIMING.drift
) -> Iterator[tuple[float, LeaseProof, Model]]:
    """Gives the same to proof and model; yields each moment at which the proof is read."""
    proof, model = DirectProof(TIMING), Model(reserve=reserve)
    proof.opened(TIMING, 0.0, created=True)
    model.opened(0.0, created=True)
    now = sent = 0.0
    for move in story:
        is_opening = move.what in ("move", "create")
        sent = max(sent + move.gap, now if is_opening else 0.0)
        now = max(now, sent + move.latency)
        play(proof, [(move.what, sent) if is_opening else (move.what, sent, now)])
        if is_opening:
            model.closed()
            model.opened(sent, created=move.what == "create")
        else:
            model.request(move.what, sent, now)
        if move.looks or move is story[-1]:
            yield now, proof, model


@given(stories(MOMENT))
def test_proof_never_promises_more_than_the_rule_allows(story: list[Move]) -> None:
    for _, proof, model in tell(story):
        assert proof.proven_until <= model.proven_until()


@given(stories(MOMENT))
def test_proof_promises_little_less_than_the_rule_allows(story: list[Move]) -> None:
    longest = max(move.latency for move in story)
    slack = GRAIN * TIMEOUT + longest
    for now, proof, model in tell(story):
        # Of writes that overlap not all are remembered; they leave within one latency.
        least = model.proven_until(HALF + longest)
        # A proof that has ended, or is about to, may be forgotten.
        if least > now + slack:
            assert least - proof.proven_until < slack


@given(stories(st.just(0.0)))
def test_proof_promises_at_most_a_grain_less_with_prompt_answers(story: list[Move]) -> None:
    # A sync may come too late for a lease that is shorter by a grain.
    for now, proof, model in tell(story, TIMING.drift + GRAIN * TIMEOUT):
        if model.proven_until() > now + GRAIN * TIMEOUT:
            assert model.proven_until() - proof.proven_until < GRAIN * TIMEOUT


@given(stories(MOMENT))
def test_promise_is_never_withdrawn_within_a_session(story: list[Move]) -> None:
    story = [move for move in story if move.what != "create"] or [Move("ping", 0.0, 0.0, True)]
    before = -inf
    for _, proof, _ in tell(story):
        assert proof.proven_until >= before
        before = proof.proven_until


@given(stories(MOMENT))
def test_memory_is_bounded(story: list[Move]) -> None:
    for _, proof, _ in tell(story * 5):
        assert len(proof._at_server._entries) <= 1 / GRAIN + 2
