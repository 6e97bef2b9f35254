"""The decisions of a watchdog: which holds should have ended, and when it looks for them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.script import START, Holder, Script

from aiolead._session.overdue import Overdue, Watched
from aiolead.errors import LossReason, NoAuthError, SessionExpiredError

# A session of 8 s: its creation proves it until START + 8; 0.8 s to stop in.
DRIFT = 0.008
GRACE_PERIOD = 0.8
GIVEN_AWAY = START + 8 - DRIFT
RESERVE = 0.25
STOP = GIVEN_AWAY - RESERVE

R = LossReason


class WatchedScript(Script):
    """A session under a watchdog without a thread.

    Attributes:
        wakes: the times for which it asked to be woken.
    """

    def __init__(self, *, reserve: float | None = None, timeout: float = 8.0, **options: Any):
        self.wakes: list[float] = []
        self.overdue = Overdue(lambda: self.now, reserve, self.wakes.append)
        super().__init__(watchdog=self.overdue, **options)
        self.connect(timeout=timeout)

    def found(self) -> list[tuple[str, R | None, Any]]:
        """The holds that the watchdog finds now: path, reason, and seconds that are left."""
        found, _ = self.overdue.look(self.now)
        return [(hold.path, hold.reason, pytest.approx(left)) for hold, left in found]

    @property
    def next_look(self) -> Any:
        found, due = self.overdue.look(self.now)
        assert not found
        return pytest.approx(due)


@pytest.fixture
def script() -> WatchedScript:
    return WatchedScript()


def test_nothing_is_overdue_while_nothing_is_held(script: WatchedScript) -> None:
    assert script.overdue.is_idle
    assert script.next_look == inf
    script.serve_for(100.0)
    assert script.wakes == []


def test_hold_is_overdue_shortly_before_it_is_given_away(script: WatchedScript) -> None:
    script.hold()  # from here on the event loop is blocked: nothing ticks
    assert script.next_look == STOP
    _, due = script.overdue.look(script.now)
    script.now = due - 0.001
    assert script.found() == []
    script.now += 0.001
    assert script.found() == [("/held", None, RESERVE)]


def test_each_hold_is_found_once(script: WatchedScript) -> None:
    first = script.hold("/first")
    script.now = GIVEN_AWAY + 1.0
    assert script.found() == [("/first", None, -1.0)]
    assert script.next_look == inf
    script.hold("/second")
    assert script.found() == [("/second", None, -1.0)]
    first.lose(R.UNCONFIRMED)
    assert script.found() == []
    assert not script.overdue.is_idle


def test_released_hold_is_not_overdue(script: WatchedScript) -> None:
    holder = script.hold()
    script.now = STOP - 0.001
    holder.release()
    holder.release()
    assert script.overdue.is_idle
    script.now = STOP + 100
    assert script.next_look == inf


def test_renewals_postpone_the_look_and_wake_nothing(script: WatchedScript) -> None:
    script.hold()
    assert script.wakes == [pytest.approx(STOP)]

    def serve() -> None:
        script.serve()
        assert script.found() == []
        assert script.overdue.look(script.now)[1] >= script.now + 8.0 / 2

    script.advance(1000.0, serve)
    assert script.next_look == script.deadline + GRACE_PERIOD - RESERVE
    assert len(script.wakes) == 1


def test_every_answer_that_extends_the_lease_postpones_the_look(script: WatchedScript) -> None:
    script.hold()
    for _ in range(12):
        script.now += 0.5
        for _ in range(2):
            script.write()
            script.serve()
    assert script.deadline > GIVEN_AWAY
    assert script.next_look == script.deadline + GRACE_PERIOD - RESERVE


def test_body_cancelled_in_time_has_the_grace_period_less_the_reserve(
    script: WatchedScript,
) -> None:
    holder = script.hold()
    script.disconnect()
    script.advance(8.0 - GRACE_PERIOD - DRIFT)
    assert holder.lost == [(R.UNCONFIRMED, script.now)]
    assert script.next_look == STOP
    script.now = STOP
    assert script.found() == [("/held", R.UNCONFIRMED, RESERVE)]


LOSSES: dict[R, Callable[[WatchedScript, Holder], None]] = {
    R.DELETED: lambda _, holder: holder.lose(R.DELETED),
    R.EXPIRED: lambda script, _: script.expire(),
    R.CLOSED: lambda script, _: script.leases.close(),
    # Nobody takes over before the end of the session: the session and the znode are still there.
    R.DISCONNECTED: lambda script, _: script.disconnect(),
    R.REFUSED: lambda script, _: script.refuse(script.next_renewal(), 0, NoAuthError.code),
}


@pytest.mark.parametrize(
    ("reason", "at", "stop"),
    [
        (R.DELETED, START + 2.0, START + 2.0 + GRACE_PERIOD - RESERVE),
        (R.EXPIRED, START + 2.0, START + 2.0 + GRACE_PERIOD - RESERVE),
        (R.CLOSED, START + 2.0, START + 2.0 + GRACE_PERIOD - RESERVE),
        (R.DELETED, GIVEN_AWAY - GRACE_PERIOD / 2, STOP),  # never later than that
        (R.DISCONNECTED, START + 1.0, STOP),
        (R.REFUSED, START, STOP),
    ],
)
def test_lost_hold_has_its_grace_period_or_until_it_is_given_away(
    script: WatchedScript, reason: R, at: float, stop: float
) -> None:
    holder = script.hold(resign_on_disconnect=reason is R.DISCONNECTED, urgent=reason is R.REFUSED)
    script.now = at
    LOSSES[reason](script, holder)
    assert holder.reasons == [reason]
    assert script.next_look == stop
    assert script.wakes[-1] == pytest.approx(stop)


def test_proof_after_a_loss_does_not_help_the_lost_hold() -> None:
    script = WatchedScript(tick_time=0.1)
    script.machine._lease_proof.direct()
    script.hold("/old").lose(R.UNCONFIRMED)
    for _ in range(2):
        script.now += 2.0
        for _ in range(2):
            script.write()
            script.serve()
    assert script.leases.given_away_at == pytest.approx(GIVEN_AWAY + 2)
    script.hold("/new")
    assert script.next_look == STOP
    script.now = STOP
    assert script.found() == [("/old", R.UNCONFIRMED, RESERVE)]


def test_each_hold_belongs_to_its_session(script: WatchedScript) -> None:
    script.hold("/old")
    script.expire()
    script.reconnect(8)
    script.hold("/new")
    script.now = GIVEN_AWAY + 100
    found, _ = script.overdue.look(script.now)
    assert [(hold.path, hold.session_id) for hold, _ in found] == [("/old", 7), ("/new", 8)]


def test_server_that_grants_less_brings_the_look_forward(script: WatchedScript) -> None:
    script.hold()
    script.wakes.clear()
    script.now += 1.0
    script.reconnect(timeout=4.0)
    stop = START + 1.0 + 4.0 - 0.004 - 0.2
    assert script.next_look == stop
    assert script.wakes == [pytest.approx(stop)]


@pytest.mark.parametrize(
    ("asked", "grace_period", "granted", "reserve"),
    [
        (None, None, 8.0, 0.25),
        (None, 0.2, 8.0, 0.1),
        (None, 2.0, 8.0, 0.25),
        (0.3, None, 8.0, 0.3),
        (0.3, None, 2.0, 0.1),  # half of a tenth of what was granted
        (0.5, 1.0, 2.0, 0.25),  # half of a quarter of that
    ],
)
def test_reserve_leaves_bodies_time_to_stop(
    asked: float | None, grace_period: float | None, granted: float, reserve: float
) -> None:
    script = WatchedScript(reserve=asked, grace_period=grace_period, timeout=granted)
    assert script.overdue.reserve == pytest.approx(reserve)
    script.hold()
    assert script.next_look == START + granted * 0.999 - reserve


def test_found_hold_is_a_frozen_value() -> None:
    with pytest.raises(AttributeError):
        Watched("/a", 1).path = "/b"  # type: ignore[misc]


# --- a watchdog that sleeps until the next look misses nothing ---------------------------------


class Life:
    """A session with any number of holds, and a watchdog that sleeps as long as it may."""

    def __init__(self) -> None:
        self.script = WatchedScript()
        self.holders: list[Holder] = []
        self.wakes_at = inf
        self.session = 7

    def begin(self, choice: int) -> None:
        self.holders.append(self.script.hold(f"/{choice}", resign_on_disconnect=choice % 2 == 1))

    def release(self, choice: int) -> None:
        if self.holders:
            self.holders.pop(choice % len(self.holders)).release()

    def lose(self, choice: int) -> None:
        if self.holders:
            self.holders[choice % len(self.holders)].lose(list(R)[choice % len(R)])

    def run(self, choice: int) -> None:
        """The event loop runs for a while; the servers answer."""
        for _ in range(choice):
            self.script.advance(0.25, None if self.script.down else self.script.serve)
            self.check()

    def block(self, choice: int) -> None:
        """The event loop does not run for a while."""
        for _ in range(choice):
            self.script.now += 0.25
            self.check()

    def disconnect(self, _: int) -> None:
        if not self.script.down:
            self.script.disconnect()

    def connect(self, choice: int) -> None:
        if self.script.down:
            self.session += choice % 3 == 2  # another session: the old one has expired
            try:
                self.script.connect(self.session, timeout=(8.0, 4.0, 8.0)[choice % 3])
            except SessionExpiredError:
                self.script.disconnect()

    def check(self) -> None:
        """Sleeps, if nothing is due; then nothing may be overdue."""
        now, overdue = self.script.now, self.script.overdue
        self.wakes_at = min([self.wakes_at, *self.script.wakes])
        self.script.wakes.clear()
        if now >= self.wakes_at:
            _, self.wakes_at = overdue.look(now)
        else:
            reported = overdue._reported.copy()
            found, _ = overdue.look(now)
            overdue._reported = reported
            assert found == []


ACTIONS: list[Callable[[Life, int], None]] = [
    Life.begin, Life.release, Life.lose, Life.run, Life.block, Life.disconnect, Life.connect
]  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 12)), max_size=30))
def test_watchdog_that_sleeps_until_the_next_look_misses_nothing(
    story: list[tuple[Callable[[Life, int], None], int]],
) -> None:
    life = Life()
    for action, choice in story:
        action(life, choice)
        life.check()
    for holder in life.holders:
        holder.release()
    assert life.script.overdue.is_idle
