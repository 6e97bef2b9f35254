"""The thread of the watchdog: it acts in time, and once, whatever a hook does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

import pytest
from kit.checks import PATIENCE, until
from session.script import Holder, Script

from aiolead import Watchdog
from aiolead._client import watchdog as module
from aiolead._client.watchdog import Guard, within
from aiolead.errors import ConfigurationError, LossReason
from aiolead.types import OverdueHold, Overrun

RESERVE = 0.25
STOP = 8.0 - 0.008 - RESERVE
"""When a hold is overdue, in seconds after its session began."""


Hook = Callable[[Overrun], object]


@dataclass
class Scene:
    """A watchdog and the session that it watches. The test's own thread is the event loop's.

    Attributes:
        reported: the overruns that the hook was called with.
        ended: why the process was ended, each time.
        news: set with each of them.
        go_on: set when a hook that hangs may return.
    """

    script: Script = field(init=False)
    reported: list[Overrun] = field(default_factory=list)
    ended: list[tuple[Overrun, str]] = field(default_factory=list)
    news: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def hook(self, overrun: Overrun) -> None:
        self.reported.append(overrun)
        self.news.set()

    def end(self, overrun: Overrun, why: str) -> None:
        self.ended.append((overrun, why))
        self.news.set()

    @contextmanager
    def guarded(self, hook: Hook | None) -> Iterator[Guard]:
        watchdog = Watchdog(on_overrun=hook)
        guard = Guard(lambda: self.script.now, watchdog, self.end)
        self.script = Script(watchdog=guard.overdue)
        guard.start()
        self.script.connect()
        try:
            yield guard
        finally:
            self.script.now += 1000.0  # each hold that was not released is overdue and can end
            guard.close()
            guard._thread.join(PATIENCE)
            assert not guard._thread.is_alive()

    def overrun(self, hook: Hook | None) -> None:
        """A hold is overdue; waits until the watchdog has acted."""
        with self.guarded(hook):
            holder = Holder(self.script)
            self.script.now += STOP
            self.wait()
            self.go_on.set()
            holder.hold.release()

    def wait(self) -> None:
        assert self.news.wait(PATIENCE), "nothing happened"
        self.news.clear()

    def settle(self, guard: Guard) -> float:
        """Waits until the thread has seen that something is held; returns when it looks again."""
        until(lambda: self.script.now < guard._looks_at < inf, "it has seen the hold")
        return guard._looks_at


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_hook_is_called_once_for_each_overdue_hold(scene: Scene) -> None:
    with scene.guarded(scene.hook):
        holders = [Holder(scene.script, path) for path in ("/a", "/b")]
        Holder(scene.script, "/released").hold.release()
        scene.script.now += STOP + 0.02
        scene.wait()
        (overrun,) = scene.reported
        holds = [(hold.path, hold.session_id, hold.reason) for hold in overrun.holds]
        assert holds == [("/a", 7, None), ("/b", 7, None)]
        assert overrun.remaining == pytest.approx(RESERVE - 0.02)
        holders.append(Holder(scene.script, "/c"))
        scene.wait()
        assert [hold.path for hold in scene.reported[1].holds] == ["/c"]
        for holder in holders:
            holder.hold.release()
    assert len(scene.reported) == 2
    assert scene.ended == []


def raising(error: BaseException) -> Hook:
    def hook(_: Overrun) -> None:
        raise error

    return hook


FAILING: list[tuple[Callable[[Scene], Hook | None], str]] = [
    (lambda _: None, ""),
    (lambda _: raising(ValueError("broken")), "on_overrun raised ValueError('broken')"),
    (lambda _: raising(SystemExit(0)), "on_overrun raised SystemExit(0)"),
    (lambda _: raising(KeyboardInterrupt()), "on_overrun raised KeyboardInterrupt()"),
    (
        lambda scene: lambda _: scene.go_on.wait(PATIENCE),
        "on_overrun has not returned within 0.25 seconds",
    ),
]


@pytest.mark.parametrize(("hook", "why"), FAILING, ids=[why or "none" for _, why in FAILING])
def test_process_ends_without_a_hook_and_if_the_hook_fails(
    scene: Scene, hook: Callable[[Scene], Hook | None], why: str
) -> None:
    scene.overrun(hook(scene))
    ((overrun, said),) = scene.ended
    assert overrun.holds[0].path == "/held"
    assert said == why


def test_process_ends_without_threads(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_seconds: float, _job: Callable[[], object]) -> str | None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "within", no_thread)
    scene.overrun(scene.hook)
    ((_, why),) = scene.ended
    assert why == "on_overrun could not be called: can't start new thread"


def test_hook_has_a_thread_of_its_own(scene: Scene) -> None:
    threads: list[threading.Thread] = []
    scene.overrun(lambda _: (threads.append(threading.current_thread()), scene.news.set()))
    (thread,) = threads
    assert thread is not threading.main_thread()
    assert thread.daemon


def test_thread_sleeps_while_nothing_is_held(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    look = module.Overdue.look

    def counted(overdue: module.Overdue, now: float) -> object:
        looks.append(now)
        return look(overdue, now)

    monkeypatch.setattr(module.Overdue, "look", counted)
    monkeypatch.setattr(module, "LONGEST_SLEEP", 0.001)
    with scene.guarded(scene.hook) as guard:
        until(lambda: guard._looks_at == inf, "it sleeps")
        before = len(looks)
        time.sleep(0.05)
        assert len(looks) == before
        holder = Holder(scene.script)
        until(lambda: len(looks) > before + 3, "it looks again")  # it wakes all by itself
        holder.hold.release()


def test_hold_wakes_the_thread_if_needed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SLEEP", 7.5)
    with scene.guarded(scene.hook) as guard:
        until(lambda: guard._looks_at == inf, "it sleeps")
        notified = []
        notify = guard._news.notify
        guard._news.notify = lambda: (notified.append(1), notify())  # type: ignore[assignment]
        for _ in range(100):
            Holder(scene.script).hold.release()
        # It was woken by the first one, and by those that came before it had looked: then it
        # has found nothing, and stays awake for a while.
        scene.settle(guard)
        del notified[:]
        for _ in range(100):
            Holder(scene.script).hold.release()
        assert notified == []
        holder = Holder(scene.script, "/lost")
        holder.hold.lose(LossReason.DELETED)  # has a tenth of the time
        assert len(notified) == 1
        holder.hold.release()


def test_thread_looks_earlier_after_a_loss(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SLEEP", PATIENCE)
    with scene.guarded(scene.hook) as guard:
        holder = Holder(scene.script)
        assert scene.settle(guard) == pytest.approx(scene.script.now + STOP)
        scene.script.now += 1.0
        holder.hold.lose(LossReason.DELETED)
        earlier = pytest.approx(scene.script.now + 0.8 - RESERVE)
        until(lambda: guard._looks_at == earlier, "it looks earlier")
        holder.hold.release()


def test_jump_of_the_clock_is_noticed(scene: Scene) -> None:
    """As after a suspended machine: the clock that threads sleep by has stood still."""
    with scene.guarded(scene.hook) as guard:
        holder = Holder(scene.script)
        scene.settle(guard)
        scene.script.now += 3600.0
        scene.wait()
        assert scene.reported[0].remaining == pytest.approx(8.0 - 0.008 - 3600.0)
        holder.hold.release()


def test_thread_stays_after_the_close_until_the_holds_have_ended(scene: Scene) -> None:
    with scene.guarded(scene.hook) as guard:
        holder = Holder(scene.script)
        scene.script.machine.leases.close()
        guard.close()
        guard._thread.join(0.1)
        assert guard._thread.is_alive()
        assert guard._thread.daemon  # keeps no process from ending
        scene.script.now += 0.8 - RESERVE  # its grace period, less the reserve
        scene.wait()
        assert [hold.reason for hold in scene.reported[0].holds] == [LossReason.CLOSED]
        guard._thread.join(PATIENCE)
        assert not guard._thread.is_alive()  # although it has not ended: there is no more to do
        holder.hold.release()


# --- values ------------------------------------------------------------------------------------


def test_overrun_describes_each_hold() -> None:
    blocked = OverdueHold("/app/a", 0x1F, None, 0.1)
    going_on = OverdueHold("/app/b", -1, LossReason.DELETED, -2.0)
    assert str(Overrun((blocked,))) == (
        "held for too long: /app/a (session 0x1f): the event loop does not run; "
        "the servers may have given it away in 0.100 s"
    )
    assert str(Overrun((blocked, going_on))) == (
        "held for too long: /app/a (session 0x1f): the event loop does not run; "
        "/app/b (session 0xffffffffffffffff): its body goes on, although the znode was deleted by "
        "somebody else; the servers may have given it away for 2.000 s already"
    )


@pytest.mark.parametrize("reserve", [0, -1.0, True, "1", float("nan")])
def test_reserve_must_be_seconds(reserve: object) -> None:
    with pytest.raises(ConfigurationError, match="reserve"):
        Watchdog(reserve=reserve)  # type: ignore[arg-type]


def test_hook_must_be_callable() -> None:
    with pytest.raises(ConfigurationError, match="on_overrun"):
        Watchdog(on_overrun="stop")  # type: ignore[arg-type]


def test_job_that_ends_in_time_has_no_error() -> None:
    assert within(PATIENCE, lambda: "done") is None
