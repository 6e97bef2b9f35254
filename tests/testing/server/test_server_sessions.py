from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead.testing._server.sessions import Sessions
from aiolead.testing._server.settings import milliseconds


def make(tick_ms: int = 500) -> Sessions:
    return Sessions(tick_ms, 7, b"secret")


@pytest.mark.parametrize(
    ("now_ms", "timeout_ms", "expires_ms"),
    [
        (0, 1000, 1500),
        (1, 1000, 1500),
        (499, 1000, 1500),
        (500, 1000, 2000),
        (0, 1001, 1500),
        (0, 1499, 1500),
        (0, 1500, 2000),
        (1_000_000, 5000, 1_005_500),
    ],
)
def test_session_expires_at_the_first_tick_after_its_timeout(
    now_ms: int, timeout_ms: int, expires_ms: int
) -> None:
    sessions = make()
    session = sessions.create(timeout_ms, now_ms)
    assert sessions.next_expiry_ms() == expires_ms
    assert sessions.overdue(expires_ms - 1) == []
    assert sessions.overdue(expires_ms) == [session]


@given(
    now=st.floats(0, 1e8),
    timeout_ms=st.integers(1, 100_000),
    tick_ms=st.integers(1, 10_000),
)
def test_session_expires_at_most_a_tick_late(now: float, timeout_ms: int, tick_ms: int) -> None:
    sessions = make(tick_ms)
    sessions.create(timeout_ms, milliseconds(now))
    expiry = sessions.next_expiry_ms()
    assert expiry is not None
    # 1e-6: what `milliseconds` takes for rounding.
    assert -1e-6 < expiry / 1000 - (now + timeout_ms / 1000) <= tick_ms / 1000 + 1e-6


@given(st.floats(0, 1e8))
def test_deadline_has_passed_when_the_clock_shows_it(now: float) -> None:
    deadline_ms = milliseconds(now)
    assert milliseconds(deadline_ms / 1000) == deadline_ms


def test_touch_delays_the_expiry() -> None:
    sessions = make()
    session = sessions.create(1000, 0)
    assert sessions.touch(session.id, 1000, 600)
    assert sessions.overdue(1500) == []
    assert sessions.next_expiry_ms() == 2000
    sessions.remove(session.id)
    assert not sessions.touch(session.id, 1000, 700)
    assert sessions.get(session.id) is None
    assert sessions.next_expiry_ms() is None


def test_earliest_session_expires_first() -> None:
    sessions = make()
    late, early = sessions.create(5000, 0), sessions.create(1000, 0)
    assert sessions.overdue(10_000) == [early, late]


def test_touch_all_renews_all_sessions() -> None:
    sessions = make()
    sessions.create(1000, 0)
    sessions.create(3000, 0)
    sessions.touch_all(60_000)
    assert sessions.overdue(61_000) == []
    assert [session.timeout_ms for session in sessions.overdue(61_500)] == [1000]


def test_ids_and_passwords_are_unique() -> None:
    sessions = make()
    one, two = sessions.create(1000, 0), sessions.create(1000, 0)
    assert one.id != two.id
    assert sessions.password(one.id) != sessions.password(two.id)
    assert sessions.password(one.id) == make().password(one.id)
    assert sessions.password(one.id) != Sessions(500, 7, b"other").password(one.id)
