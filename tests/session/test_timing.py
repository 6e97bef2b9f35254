"""The intervals of a session and the pauses between attempts to connect."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.script import waited

from aiolead._client.net.host_list import MANY, Backoff
from aiolead._session.timing import Timing


def test_intervals_of_a_session_of_ten_seconds() -> None:
    timing = Timing.derive(10.0, tick_time=None, grace_period=None)
    assert timing.half_tick == pytest.approx(waited(2.5))
    assert timing.grace_period == 1.0
    assert timing.ping_after == pytest.approx(10 / 3)
    assert timing.silent_after == pytest.approx(20 / 3)
    assert timing.renew_every == 2.5
    assert timing.settle == 0.1
    assert timing.short_lease == 2.5
    # A tenth to stop in, and 0.1 % for clocks that differ.
    assert timing.margin == pytest.approx(1.01)


@pytest.mark.parametrize(
    ("tick_time", "half_tick"), [(None, 1.0), (2.0, 1.0), (0.5, 0.25), (4.0, 2.0)]
)
def test_half_a_tick(tick_time: float | None, half_tick: float) -> None:
    timing = Timing.derive(4.0, tick_time=tick_time, grace_period=None)
    assert timing.half_tick == pytest.approx(waited(half_tick))


# With 4 s granted: where a server grants less than was asked for, 2.5 s are more than a quarter.
@pytest.mark.parametrize(
    ("asked", "grace_period"), [(None, 0.4), (0.0, 0.0), (0.7, 0.7), (1.0, 1.0), (2.5, 1.0)]
)
def test_grace_period_is_at_most_a_quarter(asked: float | None, grace_period: float) -> None:
    timing = Timing.derive(4.0, tick_time=None, grace_period=asked)
    assert timing.grace_period == pytest.approx(grace_period)
    assert timing.margin == pytest.approx(grace_period + 0.004)


@given(st.floats(0.1, 86400), st.none() | st.floats(0.001, 1), st.none() | st.floats(0, 0.25))
def test_lease_renewed_on_time_never_runs_out(
    timeout: float, tick: float | None, grace_period: float | None
) -> None:
    timing = Timing.derive(
        timeout,
        tick_time=None if tick is None else tick * timeout,
        grace_period=None if grace_period is None else grace_period * timeout,
    )
    # Renewals leave every beat; at the worst, the next answer is a beat away, and what it proves
    # is counted from the beat before the last.
    beat = max(timing.renew_every, timing.half_tick)
    if tick is None or tick <= 0.5:
        assert timing.margin + 2 * beat < timeout
    assert timing.ping_after < timing.silent_after < timeout
    assert timing.settle <= timing.ping_after


def test_hold_of_a_short_session_settles_sooner() -> None:
    assert Timing.derive(0.8, tick_time=None, grace_period=None).settle == 0.05


# --- backoff -----------------------------------------------------------------------------------


class Longest(random.Random):
    """Always the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        assert a == 0.0
        return b


@pytest.mark.parametrize(
    ("session_timeout", "pauses"),
    [
        (60.0, [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]),
        (2.0, [0.0, 0.05, 0.1, 0.2, 0.2, 0.2]),  # at most a tenth of it
    ],
)
def test_pauses_double_after_an_immediate_retry_and_start_over_after_a_success(
    session_timeout: float, pauses: list[float]
) -> None:
    backoff = Backoff(Longest())
    for _ in range(2):
        assert [backoff.delay(session_timeout) for _ in pauses] == pauses
        backoff.succeeded(0.0, session_timeout, is_shared=False)


@pytest.mark.parametrize("is_shared", [True, False])
def test_session_that_another_client_takes_is_taken_back_later_and_later(is_shared: bool) -> None:
    backoff, now, timeout = Backoff(Longest()), 0.0, 4.0
    pauses = []
    for _ in range(12):
        backoff.succeeded(now, timeout, is_shared=is_shared)
        pauses.append(backoff.delay(timeout))
        now += pauses[-1] + 0.2
    later = [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0] if is_shared else [0.0] * (12 - MANY)
    assert pauses == [0.0] * MANY + later
    backoff.succeeded(now + 2 * timeout, timeout, is_shared=is_shared)  # it has lasted
    assert backoff.delay(timeout) == 0.0


def test_pauses_are_drawn_from_the_whole_range() -> None:
    backoff = Backoff(random.Random(1))
    for _ in range(10):
        backoff.delay(60.0)
    delays = [backoff.delay(60.0) for _ in range(200)]
    assert 0.0 <= min(delays) < 0.1
    assert 0.9 < max(delays) <= 1.0


def test_million_rounds_do_not_overflow() -> None:
    backoff = Backoff(Longest())
    backoff._round = 1_000_000
    assert backoff.delay(60.0) == 1.0
