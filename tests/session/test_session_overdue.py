"""What a watchdog decides: which holds should have ended, and when to look for that."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.script import START, Holder, Script, next_renewal, write

from aiolead._session.lease.overdue import Overdue, Watched
from aiolead.errors import LossReason, NoAuthError, SessionExpiredError

# A session of 8 s: its creation proves it until START + 8; 0.8 s to stop in.
DRIFT = 0.008
GRACE_PERIOD = 0.8
GIVEN_AWAY = START + 8 - DRIFT
RESERVE = 0.25
STOP = GIVEN_AWAY - RESERVE


class Watch:
    """A session under a watchdog without a thread.

    Attributes:
        wakes: the times for which it asked to be woken.
    """

    def __init__(self, *, reserve: float | None = None, timeout: float = 8.0, **options: object):
        self.script = Script(**options)
        self.wakes: list[float] = []
        self.overdue = Overdue(
            self.script.machine, lambda: self.script.now, reserve, self.wakes.append
        )
        self.script.machine.leases.observer = self.overdue
        self.script.connect(timeout=timeout)

    def found(self) -> list[tuple[str, LossReason | None, float]]:
        """What a look finds now: path, reason, and seconds that are left."""
        found, _ = self.overdue.look(self.script.now)
        return [(hold.path, hold.reason, left) for hold, left in found]

    def next_look(self) -> float:
        found, due = self.overdue.look(self.script.now)
        assert not found
        return due


def serve_all(script: Script) -> None:
    """Answers what is sent, and what is sent upon that."""
    while script.serve():
        pass


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_nothing_is_overdue_while_nothing_is_held(watch: Watch) -> None:
    assert watch.overdue.is_idle
    assert watch.next_look() == inf
    watch.script.advance(100.0, serve=lambda: serve_all(watch.script))
    assert watch.wakes == []


def test_a_hold_is_overdue_shortly_before_it_is_given_away(watch: Watch) -> None:
    Holder(watch.script)  # whose event loop is blocked from here on: nothing ticks
    assert watch.next_look() == pytest.approx(STOP)
    watch.script.now = watch.next_look() - 0.001
    assert watch.found() == []
    watch.script.now += 0.001
    assert watch.found() == [("/held", None, pytest.approx(RESERVE))]


def test_each_hold_is_found_once(watch: Watch) -> None:
    first = Holder(watch.script, "/first")
    watch.script.now = GIVEN_AWAY + 1.0
    assert watch.found() == [("/first", None, pytest.approx(-1.0))]
    assert watch.next_look() == inf
    Holder(watch.script, "/second")
    assert watch.found() == [("/second", None, pytest.approx(-1.0))]
    first.hold.lose(LossReason.UNCONFIRMED)
    assert watch.found() == []
    assert not watch.overdue.is_idle


def test_a_released_hold_is_not_overdue(watch: Watch) -> None:
    holder = Holder(watch.script)
    watch.script.now = STOP - 0.001
    holder.hold.release()
    holder.hold.release()
    assert watch.overdue.is_idle
    watch.script.now = STOP + 100
    assert watch.next_look() == inf


def test_renewals_keep_it_quiet_and_wake_nobody(watch: Watch) -> None:
    Holder(watch.script)
    assert watch.wakes == [pytest.approx(STOP)]

    def serve() -> None:
        watch.script.serve()
        assert watch.found() == []
        assert watch.next_look() >= watch.script.now + 8.0 / 2

    watch.script.advance(1000.0, serve)
    assert watch.next_look() == pytest.approx(
        watch.script.machine.leases.deadline + GRACE_PERIOD - RESERVE
    )
    assert len(watch.wakes) == 1


def test_every_answer_that_proves_something_counts(watch: Watch) -> None:
    """Not renewals alone: what is held by the lease is held for the watchdog."""
    Holder(watch.script)
    script = watch.script
    for _ in range(12):
        script.now += 0.5
        write(script)
        serve_all(script)
        write(script)
        script.serve()
    assert script.machine.leases.deadline > GIVEN_AWAY
    assert watch.next_look() == pytest.approx(
        script.machine.leases.deadline + GRACE_PERIOD - RESERVE
    )


def test_a_body_that_was_cancelled_in_time_has_its_grace_period_time_less_the_reserve(
    watch: Watch,
) -> None:
    holder = Holder(watch.script)
    watch.script.lose_link()
    watch.script.advance(8.0 - GRACE_PERIOD - DRIFT)
    assert holder.lost == [(LossReason.UNCONFIRMED, watch.script.now)]
    assert watch.next_look() == pytest.approx(STOP)
    watch.script.now = STOP
    assert watch.found() == [("/held", LossReason.UNCONFIRMED, pytest.approx(RESERVE))]


@pytest.mark.parametrize("reason", [LossReason.DELETED, LossReason.EXPIRED, LossReason.CLOSED])
def test_a_role_that_is_gone_leaves_the_grace_period_time(watch: Watch, reason: LossReason) -> None:
    holder = Holder(watch.script)
    watch.script.now += 2.0
    match reason:
        case LossReason.DELETED:
            holder.hold.lose(reason)
        case LossReason.EXPIRED:
            watch.script.lose_link()
            watch.script.open()
            with pytest.raises(SessionExpiredError):
                watch.script.greet(0, 0.0)
        case _:
            watch.script.machine.leases.close()
    assert holder.reasons == [reason]
    assert watch.next_look() == pytest.approx(START + 2.0 + GRACE_PERIOD - RESERVE)
    assert watch.wakes[-1] == watch.next_look()


def test_but_never_more_than_until_it_is_given_away(watch: Watch) -> None:
    holder = Holder(watch.script)
    watch.script.now = GIVEN_AWAY - GRACE_PERIOD / 2
    holder.hold.lose(LossReason.DELETED)
    assert watch.next_look() == pytest.approx(STOP)


def test_a_hold_that_was_surrendered_early_has_until_it_is_given_away(watch: Watch) -> None:
    holder = Holder(watch.script, resign_on_disconnect=True)
    watch.script.now += 1.0
    watch.script.lose_link()
    assert holder.reasons == [LossReason.DISCONNECTED]
    assert watch.next_look() == pytest.approx(STOP)


def test_a_hold_whose_znode_is_not_confirmed_has_until_it_is_given_away(watch: Watch) -> None:
    """Its znode is there, and nobody takes over while it is."""
    holder = Holder(watch.script, urgent=True)
    watch.script.refuse(next_renewal(watch.script), 0, NoAuthError.code)
    assert holder.reasons == [LossReason.REFUSED]
    assert watch.next_look() == pytest.approx(STOP)


def test_what_is_proven_after_a_loss_does_not_help_it() -> None:
    watch = Watch(tick_time=0.1)
    script = watch.script
    script.machine._lease_proof.direct()
    old = Holder(script, "/old")
    old.hold.lose(LossReason.UNCONFIRMED)
    for _ in range(2):
        script.now += 2.0
        for _ in range(2):
            write(script)
            script.serve()
    assert script.machine.leases.given_away_at == pytest.approx(GIVEN_AWAY + 2)
    Holder(script, "/new")
    assert watch.next_look() == pytest.approx(STOP)
    script.now = STOP
    assert watch.found() == [("/old", LossReason.UNCONFIRMED, pytest.approx(RESERVE))]


def test_each_hold_belongs_to_its_session(watch: Watch) -> None:
    Holder(watch.script, "/old")
    watch.script.lose_link()
    watch.script.open()
    with pytest.raises(SessionExpiredError):
        watch.script.greet(0, 0.0)
    watch.script.lose_link()
    watch.script.connect(8)
    Holder(watch.script, "/new")
    watch.script.now = GIVEN_AWAY + 100
    found, _ = watch.overdue.look(watch.script.now)
    assert [(hold.path, hold.session_id) for hold, _ in found] == [("/old", 7), ("/new", 8)]


def test_a_server_that_grants_less_brings_it_nearer(watch: Watch) -> None:
    Holder(watch.script)
    del watch.wakes[:]
    watch.script.now += 1.0
    watch.script.lose_link()
    watch.script.connect(timeout=4.0)
    stop = START + 1.0 + 4.0 - 0.004 - 0.2
    assert watch.next_look() == pytest.approx(stop)
    assert watch.wakes == [pytest.approx(stop)]


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
def test_the_reserve_leaves_bodies_time_to_stop(
    asked: float | None, grace_period: float | None, granted: float, reserve: float
) -> None:
    watch = Watch(reserve=asked, grace_period=grace_period, timeout=granted)
    assert watch.overdue.reserve == pytest.approx(reserve)
    Holder(watch.script)
    given_away = START + granted * 0.999
    assert watch.next_look() == pytest.approx(given_away - reserve)


# --- whoever sleeps until the next look misses nothing -------------------------------------------


class Life:
    """A session with any number of holds, and a watchdog that sleeps as long as it may."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.holders: list[Holder] = []
        self.wakes_at = inf
        self.session = 7

    def begin(self, choice: int) -> None:
        resign_on_disconnect = choice % 2 == 1
        self.holders.append(
            Holder(self.watch.script, f"/{choice}", resign_on_disconnect=resign_on_disconnect)
        )

    def release(self, choice: int) -> None:
        if self.holders:
            self.holders.pop(choice % len(self.holders)).hold.release()

    def lose(self, choice: int) -> None:
        if self.holders:
            reason = list(LossReason)[choice % len(LossReason)]
            self.holders[choice % len(self.holders)].hold.lose(reason)

    def run(self, choice: int) -> None:
        """The event loop runs for a while; the servers answer."""
        script = self.watch.script
        for _ in range(choice):
            script.advance(0.25, None if script.down else lambda: serve_all(script))
            self.check()

    def block(self, choice: int) -> None:
        """The event loop does not run for a while."""
        for _ in range(choice):
            self.watch.script.now += 0.25
            self.check()

    def cut(self, _: int) -> None:
        if not self.watch.script.down:
            self.watch.script.lose_link()

    def connect(self, choice: int) -> None:
        if self.watch.script.down:
            self.session += choice % 3 == 2  # another session: the old one has expired
            try:
                self.watch.script.connect(self.session, timeout=(8.0, 4.0, 8.0)[choice % 3])
            except SessionExpiredError:
                self.watch.script.lose_link()

    def check(self) -> None:
        """Sleeps, if nothing is due; then nothing may be overdue."""
        script = self.watch.script
        self.wakes_at = min([self.wakes_at, *self.watch.wakes])
        self.watch.wakes.clear()
        if script.now >= self.wakes_at:
            _, self.wakes_at = self.watch.overdue.look(script.now)
        else:
            reported = self.watch.overdue._reported.copy()
            found, _ = self.watch.overdue.look(script.now)
            self.watch.overdue._reported = reported
            assert found == []

    def end(self) -> None:
        for holder in self.holders:
            holder.hold.release()
        assert self.watch.overdue.is_idle


ACTIONS: list[Callable[[Life, int], None]] = [
    Life.begin, Life.release, Life.lose, Life.run, Life.block, Life.cut, Life.connect
]  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 12)), max_size=30))
def test_who_sleeps_until_the_next_look_misses_nothing(
    story: list[tuple[Callable[[Life, int], None], int]],
) -> None:
    life = Life()
    for action, choice in story:
        action(life, choice)
        life.check()
    life.end()


def test_what_is_found_is_a_value() -> None:
    with pytest.raises(AttributeError):
        Watched("/a", 1).path = "/b"  # type: ignore[misc]
