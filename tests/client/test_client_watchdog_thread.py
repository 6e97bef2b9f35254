"""The watchdog's thread: it acts in time, once, and never lets a hook have the last word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

import pytest
from session.script import Holder, Script

from aiolead import Watchdog
from aiolead._client import watchdog as module
from aiolead._client.watchdog import Guard, within
from aiolead.errors import ConfigurationError, LossReason
from aiolead.types import OverdueHold, Overrun

PATIENCE = 20.0
"""How long anything is waited for that must happen, in seconds."""

RESERVE = 0.25
STOP = 8.0 - 0.008 - RESERVE
"""When a hold is overdue, in seconds after its session began."""


@dataclass
class Scene:
    """A watchdog and the session that it watches. The test's own thread is the event loop's.

    Attributes:
        told: what the hook was told.
        ended: why the process was ended, each time.
        news: set with each of them.
    """

    script: Script = field(default_factory=Script)
    told: list[Overrun] = field(default_factory=list)
    ended: list[tuple[Overrun, str]] = field(default_factory=list)
    news: threading.Event = field(default_factory=threading.Event)

    def hook(self, overrun: Overrun) -> None:
        self.told.append(overrun)
        self.news.set()

    def end(self, overrun: Overrun, why: str) -> None:
        self.ended.append((overrun, why))
        self.news.set()

    @contextmanager
    def guarded(self, hook: Callable[[Overrun], object] | None) -> Iterator[Guard]:
        guard = Guard(
            self.script.machine, lambda: self.script.now, Watchdog(on_overrun=hook), self.end
        )
        guard.start()
        self.script.connect()
        try:
            yield guard
        finally:
            self.script.now += 1000.0  # whatever was not released is overdue, so that it can end
            guard.close()
            guard._thread.join(PATIENCE)
            assert not guard._thread.is_alive()

    def wait(self) -> None:
        assert self.news.wait(PATIENCE), "nothing happened"
        self.news.clear()

    def settle(self, guard: Guard) -> float:
        """Waits until the thread has seen that something is held; returns when it looks again."""
        wait_until(lambda: self.script.now < guard._looks_at < inf)
        return guard._looks_at


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_hook_is_told_once_what_is_overdue(scene: Scene) -> None:
    with scene.guarded(scene.hook):
        holders = [Holder(scene.script, path) for path in ("/a", "/b")]
        holders.append(Holder(scene.script, "/released"))
        holders.pop().hold.release()
        scene.script.now += STOP + 0.02
        scene.wait()
        (overrun,) = scene.told
        assert [(h.path, h.session_id, h.reason) for h in overrun.holds] == [
            ("/a", 7, None),
            ("/b", 7, None),
        ]
        assert overrun.remaining == pytest.approx(RESERVE - 0.02)
        holders.append(Holder(scene.script, "/c"))
        scene.wait()
        assert [hold.path for hold in scene.told[1].holds] == ["/c"]
        for holder in holders:
            holder.hold.release()
    assert len(scene.told) == 2
    assert scene.ended == []


def test_without_a_hook_the_process_is_ended(scene: Scene) -> None:
    with scene.guarded(None):
        holder = Holder(scene.script)
        scene.script.now += STOP
        scene.wait()
        holder.hold.release()
    ((overrun, why),) = scene.ended
    assert overrun.holds[0].path == "/held"
    assert why == ""


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(0), KeyboardInterrupt()])
def test_a_hook_that_raises_does_not_save_the_process(scene: Scene, error: BaseException) -> None:
    def hook(_: Overrun) -> None:
        raise error

    with scene.guarded(hook):
        holder = Holder(scene.script)
        scene.script.now += STOP
        scene.wait()
        holder.hold.release()
    ((overrun, why),) = scene.ended
    assert overrun.holds[0].path == "/held"
    assert why == f"on_overrun raised {error!r}"


def test_a_hook_that_hangs_does_not_save_the_process(scene: Scene) -> None:
    go_on = threading.Event()
    with scene.guarded(lambda _: go_on.wait(PATIENCE)):
        holder = Holder(scene.script)
        scene.script.now += STOP
        scene.wait()
        ((_, why),) = scene.ended
        assert why == "on_overrun has not returned within 0.25 seconds"
        go_on.set()
        holder.hold.release()


def test_a_hook_that_no_thread_is_left_for_does_not_save_the_process(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_seconds: float, _job: Callable[[], object]) -> str | None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "within", no_thread)
    with scene.guarded(scene.hook):
        holder = Holder(scene.script)
        scene.script.now += STOP
        scene.wait()
        holder.hold.release()
    ((_, why),) = scene.ended
    assert why == "on_overrun could not be called: can't start new thread"


def test_the_hook_has_a_thread_of_its_own(scene: Scene) -> None:
    threads: list[threading.Thread] = []
    with scene.guarded(lambda _: (threads.append(threading.current_thread()), scene.news.set())):
        holder = Holder(scene.script)
        scene.script.now += STOP
        scene.wait()
        holder.hold.release()
    (thread,) = threads
    assert thread is not threading.main_thread()
    assert thread.daemon


def test_it_sleeps_while_nothing_is_held(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    look = module.Overdue.look

    def counted(overdue: module.Overdue, now: float) -> object:
        looks.append(now)
        return look(overdue, now)

    monkeypatch.setattr(module.Overdue, "look", counted)
    monkeypatch.setattr(module, "LONGEST_SLEEP", 0.001)
    with scene.guarded(scene.hook) as guard:
        wait_until(lambda: guard._looks_at == inf)
        before = len(looks)
        time.sleep(0.05)
        assert len(looks) == before
        holder = Holder(scene.script)
        wait_until(lambda: len(looks) > before + 3)  # it wakes all by itself
        holder.hold.release()


def test_a_hold_wakes_it_only_if_it_would_come_too_late(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_SLEEP", 7.5)
    with scene.guarded(scene.hook) as guard:
        wait_until(lambda: guard._looks_at == inf)
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


def test_a_loss_that_leaves_less_time_is_not_slept_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_SLEEP", PATIENCE)
    with scene.guarded(scene.hook) as guard:
        holder = Holder(scene.script)
        assert scene.settle(guard) == pytest.approx(scene.script.now + STOP)
        scene.script.now += 1.0
        holder.hold.lose(LossReason.DELETED)
        wait_until(lambda: guard._looks_at == pytest.approx(scene.script.now + 0.8 - RESERVE))
        holder.hold.release()


def test_a_clock_that_jumps_is_noticed_although_sleep_does_not_follow_it(scene: Scene) -> None:
    """As after a suspended machine: the clock that threads sleep by has stood still."""
    with scene.guarded(scene.hook) as guard:
        holder = Holder(scene.script)
        scene.settle(guard)
        scene.script.now += 3600.0
        scene.wait()
        assert scene.told[0].remaining == pytest.approx(8.0 - 0.008 - 3600.0)
        holder.hold.release()


def test_it_stays_after_the_close_until_what_was_held_has_ended(scene: Scene) -> None:
    with scene.guarded(scene.hook) as guard:
        holder = Holder(scene.script)
        scene.script.machine.leases.close()
        guard.close()
        guard._thread.join(0.1)
        assert guard._thread.is_alive()
        assert guard._thread.daemon  # keeps no process from ending
        scene.script.now += 0.8 - RESERVE  # its grace period, less the reserve
        scene.wait()
        assert [hold.reason for hold in scene.told[0].holds] == [LossReason.CLOSED]
        guard._thread.join(PATIENCE)
        assert not guard._thread.is_alive()  # although it has not ended: there is no more to do
        holder.hold.release()


# --- values ------------------------------------------------------------------------------------


def test_it_says_what_is_wrong() -> None:
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
def test_a_reserve_is_seconds(reserve: object) -> None:
    with pytest.raises(ConfigurationError, match="reserve"):
        Watchdog(reserve=reserve)  # type: ignore[arg-type]


def test_a_hook_can_be_called() -> None:
    with pytest.raises(ConfigurationError, match="on_overrun"):
        Watchdog(on_overrun="stop")  # type: ignore[arg-type]


def test_a_job_within_its_time() -> None:
    assert within(PATIENCE, lambda: "done") is None
