"""Clocks that drift: whether the leader has pinged when the client takes that for granted.

All times are the client's. Its clock may be the faster one by 0.1 %, so that the leader's half tick
and the session timeout take longer than the client thinks.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.direct_proof import DirectProof

from aiolead._session.lease.timing import Timing

from .test_session_lease_proof_ensemble import HALF, TIMEOUT, Links, Stay, World

SLOW = 1.0005 / 0.9995
"""How much longer the slowest leader takes than the fastest client counts: 500 ppm on each side."""

TIMING = Timing.derive(TIMEOUT, tick_time=None, grace_period=None)
WITHOUT_RESERVE = replace(TIMING, half_tick=HALF)

FIRST = 1.0
"""When the leader pings first; `SECOND` is when it does so next."""
SECOND = FIRST + HALF * SLOW

CUT = SECOND - 0.0002
LINKS: Links = ((0.0, ()), (0.0, ()), (0.0, ((CUT, float("inf")),)), (0.0, ()))
"""The client's server gets no word to the leader from just before the second ping on."""


def world(timing: Timing, wait: float) -> World:
    """A ping just after the leader's, and a renewal `wait` seconds after its answer."""
    stays = [Stay(LINKS, (("ping", FIRST + 0.0005), ("renewal", wait)))]
    return World(DirectProof(timing), stays, timing=timing, tick=HALF * SLOW, phase=FIRST)


def test_without_a_reserve_a_faster_clock_promises_too_much() -> None:
    found = world(WITHOUT_RESERVE, HALF)
    assert found.ends == TIMEOUT  # nothing has reached the leader since the handshake
    assert found.promised == FIRST + 0.0005 + TIMEOUT
    # The leader's session timeout, by the slower clock, is longer, but not by as much.
    assert found.promised > TIMEOUT * SLOW


def test_with_the_reserve_it_does_not() -> None:
    assert world(TIMING, HALF).promised == TIMEOUT
    # A renewal that leaves when it is due comes after the ping: then nothing answers it.
    assert world(TIMING, TIMING.half_tick).promised == TIMEOUT


@given(
    st.floats(0.1, 86_400),
    st.none() | st.floats(0.001, 3600),
    st.floats(0.9995, 1.0005),
    st.floats(0.9995, 1.0005),
)
def test_the_slowest_leader_has_pinged(
    granted: float, tick_time: float | None, client: float, leader: float
) -> None:
    half_tick = Timing.derive(granted, tick_time=tick_time, grace_period=None).half_tick
    real = granted / 4 if tick_time is None else tick_time / 2
    assert half_tick / client * leader >= real
    assert half_tick == pytest.approx(real, rel=0.0011)  # and not much longer
