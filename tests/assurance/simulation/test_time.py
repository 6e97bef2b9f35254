"""Virtual time: the same on both event loops, a function of the seed alone, and never a hang."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from math import inf
from pathlib import Path

import anyio
import pytest
from assurance.simulation.other_process import output_of

from aiolead.testing.simulation import timeline as timeline_module
from aiolead.testing.simulation.loops import Backend, run_virtual
from aiolead.testing.simulation.timeline import (
    Deadlock,
    Livelock,
    OutOfTime,
    SimulationError,
    Timeline,
)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Backend:
    loop: Backend = request.param
    return loop


# --- the timeline by itself ----------------------------------------------------------------------


def test_callbacks_run_in_order_at_their_times() -> None:
    timeline, seen = Timeline(), list[tuple[str, float]]()
    for name, when in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        timeline.at(when, lambda name=name: seen.append((name, timeline.now)))
    timeline.after(1.0, lambda: seen.append(("third", timeline.now)))
    timeline.advance(inf)
    timeline.advance(inf)
    assert seen == [("first", 1.0), ("second", 1.0), ("third", 1.0), ("late", 2.0)]


def test_immediate_callback_runs_after_the_current_one() -> None:
    timeline, seen = Timeline(), list[str]()

    def first() -> None:
        timeline.at(0.5, lambda: seen.append("in the past"))
        timeline.after(0.0, lambda: seen.append("at once"))
        seen.append("first")

    timeline.at(1.0, first)
    timeline.at(1.0, lambda: seen.append("second"))
    timeline.advance(inf)
    assert seen == ["first", "second", "in the past", "at once"]
    assert timeline.now == 1.0


def test_time_stops_at_a_deadline() -> None:
    timeline, seen = Timeline(), list[float]()
    timeline.at(2.0, lambda: seen.append(timeline.now))
    timeline.advance(1.5)
    assert timeline.now == 1.5
    assert seen == []
    timeline.advance(2.0)
    assert seen == [2.0]


def test_cancelled_callback_does_not_run() -> None:
    timeline, seen = Timeline(), list[int]()
    timers = [timeline.at(1.0, lambda n=n: seen.append(n)) for n in range(3)]
    timers[1].cancel()
    timeline.at(1.0, timers[0].cancel)  # has run already
    timeline.at(0.5, timers[2].cancel)
    timeline.advance(inf)
    timeline.advance(inf)
    assert seen == [0]
    assert not any(timer.is_pending for timer in timers)


def test_moved_timers_take_no_memory() -> None:
    timeline, seen = Timeline(), list[float]()
    timer = timeline.at(1.0, lambda: seen.append(timeline.now))
    for n in range(10_000):
        timer.cancel()
        timer = timeline.at(1.0 + n, lambda: seen.append(timeline.now))
    assert len(timeline._heap) < 200
    timeline.advance(inf)
    assert seen == [10_000.0]


# --- tasks on virtual time -----------------------------------------------------------------------


def test_tasks_and_callbacks_share_one_clock(backend: Backend) -> None:
    timeline, seen = Timeline(), list[tuple[str, float]]()

    def note(name: str) -> None:
        seen.append((name, anyio.current_time()))

    async def sleeper(seconds: float) -> None:
        for _ in range(3):
            await anyio.sleep(seconds)
            note(f"every {seconds:g}")

    async def main() -> str:
        assert anyio.current_time() == 0
        timeline.at(5.0, lambda: seen.append(("world", timeline.now)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleeper, 1)
            tasks.start_soon(sleeper, 2.4)
        with anyio.move_on_after(2400):
            await anyio.sleep_forever()
        note("end")
        return "result"

    assert run_virtual(main, backend=backend, timeline=timeline) == "result"
    assert seen == [
        ("every 1", 1.0),
        ("every 1", 2.0),
        ("every 2.4", 2.4),
        ("every 1", 3.0),
        ("every 2.4", 4.8),
        ("world", 5.0),
        ("every 2.4", pytest.approx(7.2)),
        ("end", pytest.approx(2407.2)),
    ]


def test_callbacks_run_before_tasks_of_the_same_time(backend: Backend) -> None:
    timeline, seen = Timeline(), list[str]()

    async def main() -> None:
        event = anyio.Event()
        # Asked for after the task's own timer, for the same instant.
        timeline.after(1.0, lambda: (seen.append("world"), event.set()))
        with anyio.move_on_after(1.0):
            await anyio.sleep_forever()
        seen.append(f"task, event {event.is_set()}")
        timeline.after(0.0, lambda: seen.append("world again"))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        seen.append("task had more to do")
        await anyio.sleep(0.001)
        seen.append("time moved")

    run_virtual(main, backend=backend, timeline=timeline)
    assert seen == ["world", "task, event True", "task had more to do", "world again", "time moved"]


def test_callback_may_start_and_cancel_tasks(backend: Backend) -> None:
    timeline, seen = Timeline(), list[float]()

    async def job() -> None:
        seen.append(anyio.current_time())
        await anyio.sleep_forever()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            timeline.at(1.0, lambda: tasks.start_soon(job))
            timeline.at(2.0, tasks.cancel_scope.cancel)
            await anyio.sleep_forever()
        seen.append(anyio.current_time())

    run_virtual(main, backend=backend, timeline=timeline)
    assert seen == [1.0, 2.0]


def test_deadline_may_be_brought_forward_by_a_callback(backend: Backend) -> None:
    timeline = Timeline()

    async def main() -> float:
        with anyio.CancelScope(deadline=100.0) as scope:
            timeline.at(1.0, lambda: setattr(scope, "deadline", 2.0))
            timeline.at(50.0, lambda: None)
            await anyio.sleep_forever()
        return anyio.current_time()

    assert run_virtual(main, backend=backend, timeline=timeline) == 2.0


def test_day_passes_at_once(backend: Backend) -> None:
    async def main() -> float:
        await anyio.sleep(86_000)
        return anyio.current_time()

    assert run_virtual(main, backend=backend, limit=86_400) == 86_000


# --- what goes wrong -----------------------------------------------------------------------------


def test_errors_propagate_unchanged(backend: Backend) -> None:
    timeline = Timeline()

    async def raises() -> None:
        await anyio.sleep(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(raises, backend=backend)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 50)
            timeline.at(1.0, lambda: 1 / 0)
            await anyio.sleep(100)

    with pytest.raises(ZeroDivisionError):
        run_virtual(main, backend=backend, timeline=timeline)
    assert timeline.now == 1.0


def test_tasks_may_clean_up_after_a_failure(backend: Backend) -> None:
    timeline, seen = Timeline(), list[float]()

    async def main() -> None:
        try:
            await anyio.sleep(100)
        finally:
            with anyio.move_on_after(5, shield=True):
                timeline.after(1.0, lambda: {}["worse"])
                await anyio.sleep_forever()
            seen.append(anyio.current_time())

    timeline.at(1.0, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_virtual(main, backend=backend, timeline=timeline)
    assert seen == [6.0]


def test_deadlock_is_an_error(backend: Backend) -> None:
    async def main() -> None:
        await anyio.sleep(3)
        await anyio.Event().wait()

    with pytest.raises(Deadlock, match=r"at 3\.0"):
        run_virtual(main, backend=backend)


def test_time_limit_is_an_error(backend: Backend) -> None:
    async def main() -> None:
        for _ in range(11):
            await anyio.sleep(1)

    timeline = Timeline()
    with pytest.raises(OutOfTime, match="10 s"):
        run_virtual(main, backend=backend, limit=10.0, timeline=timeline)
    assert timeline.now == 10.0


@pytest.mark.parametrize("who", ["task", "callback"])
def test_endless_loop_at_one_time_is_an_error(
    backend: Backend, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "MAX_STEPS", 1000)
    timeline = Timeline()

    def again() -> None:
        timeline.after(0.0, again)

    async def main() -> None:
        await anyio.sleep(2)
        if who == "callback":
            again()
            await anyio.sleep(1)
        while True:
            await anyio.lowlevel.checkpoint()

    with pytest.raises(Livelock, match=r"at 2\.0"):
        run_virtual(main, backend=backend, timeline=timeline)


def test_task_that_cannot_be_cancelled_is_a_deadlock() -> None:
    # Only on asyncio: trio's loop can be left in such a state only with a lot of noise.
    async def main() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep_forever()

    with pytest.raises(Deadlock):
        run_virtual(main, backend="asyncio")


def test_threads_are_refused(backend: Backend) -> None:
    async def main() -> None:
        await anyio.to_thread.run_sync(time.monotonic)

    with pytest.raises(SimulationError, match="threads"):
        run_virtual(main, backend=backend)
    thread = threading.Thread(target=time.monotonic)
    thread.start()  # again allowed
    thread.join()


def test_real_sockets_are_refused(backend: Backend) -> None:
    here, there = socket.socketpair()

    async def main() -> None:
        await anyio.wait_readable(here)

    here.setblocking(False)
    with here, there, pytest.raises(SimulationError):
        run_virtual(main, backend=backend)


def test_unretrieved_exception_is_an_error() -> None:
    import asyncio

    async def main() -> None:
        async def fails() -> None:
            raise KeyError("unseen")

        task = asyncio.create_task(fails())
        await anyio.sleep(1)
        del task
        await anyio.sleep(1)

    with pytest.raises(KeyError, match="unseen"):
        run_virtual(main, backend="asyncio")


def test_nested_run_is_refused() -> None:
    def inner() -> None:
        async def nothing() -> None:
            await anyio.lowlevel.checkpoint()

        run_virtual(nothing)

    async def main() -> None:
        inner()

    with pytest.raises(SimulationError, match="another"):
        run_virtual(main)
    inner()


# --- the same seed, the same run -----------------------------------------------------------------

TRACE = """
import hashlib, random
import anyio
from aiolead.testing.simulation.loops import run_virtual

def trace(backend, seed, noise):
    junk = [object() for _ in range(noise)]
    seen = []
    async def leaf(name, event):
        try:
            with anyio.CancelScope():
                with anyio.move_on_after(3):
                    await event.wait()
        finally:
            seen.append((name, anyio.current_time()))
            with anyio.move_on_after(0.5, shield=True):
                await anyio.sleep(0.25)
            seen.append((name, "out"))
    async def branch(name):
        event = anyio.Event()
        with anyio.CancelScope():
            async with anyio.create_task_group() as tasks:
                for n in range(6):
                    tasks.start_soon(leaf, f"{name}.{n}", event)
                    junk.append([None] * random.randrange(50))
    async def main():
        for round in range(4):
            with anyio.move_on_after(round + 0.5):
                async with anyio.create_task_group() as tasks:
                    for n in range(6):
                        tasks.start_soon(branch, f"{round}.{n}")
    run_virtual(main, backend=backend, seed=seed)
    return hashlib.sha256(repr(seen).encode()).hexdigest()

for backend in ("asyncio", "trio"):
    for seed in (1, 2):
        print(backend, seed, trace(backend, seed, NOISE))
"""


def test_same_seed_gives_the_same_run_in_every_process() -> None:
    """Many tasks end at one instant, in scopes within scopes: the order is nobody's but the seed's.

    anyio keeps its scopes in sets, which go by addresses in memory; trio shuffles its tasks.
    """
    outputs = [
        output_of(TRACE.replace("NOISE", f"{hash_seed}000"), hash_seed=hash_seed)
        for hash_seed in (0, 1, 77)
    ]
    assert len(set(outputs)) == 1
    asyncio_1, asyncio_2, trio_1, trio_2 = (line.split()[2] for line in outputs[0].splitlines())
    assert asyncio_1 == asyncio_2  # nothing is drawn there
    assert trio_1 != trio_2


def test_run_does_not_depend_on_earlier_runs() -> None:
    """A run has its own class of cancel scopes, and leaves that of anyio as it was."""

    async def kind() -> type:
        return type(anyio.CancelScope())

    plain = asyncio.run(kind())
    ordered = run_virtual(kind)
    assert ordered is not plain
    assert issubclass(ordered, plain)
    assert asyncio.run(kind()) is plain


# --- nothing stays -------------------------------------------------------------------------------


async def _a_bit_of_everything() -> None:
    async def waits(event: anyio.Event) -> None:
        with anyio.move_on_after(1):
            await event.wait()

    event = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(waits, event)
        await anyio.sleep(0.5)
        event.set()


def _runs(backend: Backend, times: int) -> tuple[int, int]:
    for _ in range(times):
        run_virtual(_a_bit_of_everything, backend=backend)
    gc.collect()
    return len(gc.get_objects()), len(list(Path("/proc/self/fd").iterdir()))


def growth(backend: Backend) -> tuple[int, int]:
    """Of the objects and the open files of this process, in 300 runs."""
    _runs(backend, 20)  # caches fill
    objects, files = _runs(backend, 20)
    more_objects, more_files = _runs(backend, 300)
    return more_objects - objects, more_files - files


def test_run_leaves_no_objects_and_files(backend: Backend) -> None:
    """In a process of its own: in this one, other threads open and close files meanwhile."""
    code = f"from assurance.simulation.test_time import growth; print(*growth({backend!r}))"
    objects, files = map(int, output_of(code).split())
    assert files == 0
    assert objects < 100


def test_failed_run_leaves_no_patches(backend: Backend) -> None:
    before = gc.isenabled(), threading.Thread.start

    async def stuck() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_a_bit_of_everything)
            tasks.start_soon(anyio.sleep_forever)

    with pytest.raises(Deadlock):
        run_virtual(stuck, backend=backend)
    assert (gc.isenabled(), threading.Thread.start) == before
    assert run_virtual(_returns, backend=backend) == 3


async def _returns() -> int:
    await anyio.sleep(10)
    return 3
