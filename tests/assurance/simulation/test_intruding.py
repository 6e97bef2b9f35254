"""The parts of the world that read what processes hold, or interfere with it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest
import trio

import aiolead
from aiolead.testing.history import (
    FaultBegan,
    FaultEnded,
    Hostile,
    NodeCreated,
    NodeDeleted,
    Peeked,
    Stopped,
)
from aiolead.testing.simulation import Backend, Outcome, Process, Schedule, Turn, World, simulate
from aiolead.testing.simulation.forks import Child, Children
from aiolead.testing.simulation.intruder import Intruder
from aiolead.testing.simulation.loops import run_virtual
from aiolead.testing.simulation.threads import Answer, OtherThreads, in_thread
from aiolead.testing.simulation.timeline import Timeline

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PATH = "/jobs"


def calm(scenario: Callable[[World], Awaitable[object]], backend: Backend) -> Outcome:
    """A scenario in a world without faults, healed after some seconds."""
    return simulate(scenario, schedule=Schedule.of(3).only([]), backend=backend)


def alone(program: Callable[[World, Process], Awaitable[object]], backend: Backend) -> Outcome:
    """One program in a world without faults."""

    async def scenario(world: World) -> None:
        world.start("p0", partial(program, world))

    return calm(scenario, backend)


def running_loop(backend: Backend) -> Any:
    """Raises RuntimeError in a thread that runs none."""
    if backend == "asyncio":
        return asyncio.get_running_loop()
    return trio.lowlevel.current_trio_token()


# --- threads -------------------------------------------------------------------------------------


def test_thread_has_neither_event_loop_nor_time(backend: Backend) -> None:
    seen: list[Any] = []

    def call() -> str:
        seen.append(threading.get_ident())
        with pytest.raises(RuntimeError):
            running_loop(backend)
        return "done"

    async def program(world: World, process: Process) -> None:
        before = world.now
        seen.append(in_thread(process, call))
        assert world.now == before
        with pytest.raises(ZeroDivisionError):
            in_thread(process, lambda: 1 // 0)

    alone(program, backend).check()
    assert seen == [seen[0], "done"]
    assert seen[0] != threading.get_ident()


def test_thread_hands_a_call_to_its_event_loop(backend: Backend) -> None:
    """As a library does that has to end something in its own loop."""
    called: list[float] = []

    async def program(world: World, process: Process) -> None:
        loop = running_loop(backend)
        hand_over = loop.call_soon_threadsafe if backend == "asyncio" else loop.run_sync_soon
        done = anyio.Event()

        def call() -> None:
            called.append(world.now)
            done.set()

        # Between two steps, in a callback of the world: no task could run just then.
        world.timeline.at(0.5, partial(in_thread, process, partial(hand_over, call)))
        await done.wait()

    alone(program, backend).check()
    assert called == [0.5]


def test_blocked_loop_does_nothing_while_its_threads_go_on(backend: Backend) -> None:
    steps: list[float] = []
    reads: list[tuple[float, bool]] = []

    async def program(world: World, process: Process) -> None:
        def look() -> None:
            reads.append((world.now, in_thread(process, lambda: world.runs_threads(process))))

        world.timeline.at(1.0, partial(world.block, process, 1.0))
        world.timeline.at(1.5, look)
        while world.now < 3.0:
            await anyio.sleep(0.25)
            steps.append(world.now)

    outcome = alone(program, backend)
    outcome.check()
    assert [step for step in steps if 1.0 <= step < 2.0] == []
    assert steps[3] == 2.0
    assert reads == [(1.5, True)]
    assert sum(isinstance(event, Stopped) for event in outcome.history.events) == 1


def test_stopped_process_has_no_thread_that_runs(backend: Backend) -> None:
    reads: list[bool] = []

    async def program(world: World, process: Process) -> None:
        # Both at once: the whole process is stopped for the first half of the time.
        world.timeline.at(1.0, lambda: world.harm("process-stopped", "p0", duration=0.5))
        world.timeline.at(1.1, partial(world.block, process, 1.0))
        for when in (0.9, 1.2, 1.7, 2.3):
            world.timeline.at(when, lambda: reads.append(world.runs_threads(process)))
        await anyio.sleep(3.0)

    alone(program, backend).check()
    assert reads == [True, False, True, True]


def test_block_ends_when_the_faults_do(backend: Backend) -> None:
    steps: list[float] = []

    async def program(world: World, process: Process) -> None:
        world.timeline.at(1.0, partial(world.block, process, 1e6))
        await anyio.sleep(1.5)
        steps.append(world.now)

    outcome = alone(program, backend)
    outcome.check()
    assert steps == [outcome.schedule.healing]


def test_calls_between_steps_of_tasks(backend: Backend) -> None:
    seen: list[str] = []

    async def main() -> None:
        timeline.between_steps(lambda: seen.append("between"))
        for number in range(2):
            seen.append(str(number))
            await anyio.lowlevel.checkpoint()
        timeline.between_steps(None)
        await anyio.lowlevel.checkpoint()
        seen.append("end")

    timeline = Timeline()
    run_virtual(main, backend=backend, timeline=timeline)
    assert seen[0] == "0"
    assert "between" in seen[1 : seen.index("1")]
    assert seen[-1] == "end"
    assert timeline.between is None


async def _holder(
    world: World, look_at: Callable[..., object], seconds: float, process: Process
) -> None:
    with suppress(aiolead.TenureLost):
        async with (
            world.client(process) as client,
            Turn(world.history, PATH, process.name, aiolead.Lock(client, PATH).acquire()) as held,
        ):
            assert held is not None
            look_at(process, PATH, process.name, held, client)
            await anyio.sleep(seconds)


def test_threads_ask_about_a_hold_by_all_its_reads(backend: Backend) -> None:
    async def scenario(world: World) -> None:
        threads = OtherThreads(world, blocks=False)
        world.start("threads", threads.run)
        world.start("p0", partial(_holder, world, threads.look_at, 4.0))

    outcome = calm(scenario, backend)
    outcome.check()
    peeks = [event for event in outcome.history.events if isinstance(event, Peeked)]
    assert {peek.where for peek in peeks} == {"thread"}
    assert {peek.call for peek in peeks} >= {"check", "is_held", "remaining", "statistics"}
    assert {peek.held for peek in peeks} == {True, False}  # it is asked about after its end, too


# --- forked children -----------------------------------------------------------------------------


def test_child_has_the_time_of_each_question_and_changes_nothing_here(backend: Backend) -> None:
    here = os.getpid()
    timeline = Timeline()
    known = [0]
    pids: list[int] = []

    def read() -> list[Answer]:
        known[0] += 1
        return [Answer("is_held", os.getpid() != here, timeline.now), Answer(str(known[0]))]

    async def main() -> None:
        child = Child(timeline, read)
        pids.append(child.pid)
        try:
            assert child.ask(1.5) == [Answer("is_held", True, 1.5), Answer("1")]
            assert child.ask(2.5) == [Answer("is_held", True, 2.5), Answer("2")]
        finally:
            child.end()

    run_virtual(main, backend=backend, timeline=timeline)
    assert known == [0]
    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)


def test_children_ask_also_when_their_parent_was_killed(backend: Backend) -> None:
    async def scenario(world: World) -> None:
        children = Children(world)
        world.start("children", children.run)
        world.start("p0", partial(_holder, world, children.look_at, 4.0))
        world.timeline.at(1.0, lambda: world.harm("process-killed", "p1", duration=100.0))

    for seed in range(3, 40):
        schedule = Schedule.of(seed).only([])
        outcome = simulate(scenario, schedule=schedule, backend=backend)
        peeks = [event for event in outcome.history.events if isinstance(event, Peeked)]
        assert {peek.where for peek in peeks} <= {"child"}
        if any(peek.at > 1.0 for peek in peeks):
            return
    pytest.fail("no child has lived longer than its parent")


# --- a hostile writer, and faults of programs ----------------------------------------------------


def test_intruder_forges_beside_contenders_and_clears_it_away(backend: Backend) -> None:
    async def scenario(world: World) -> None:
        intruder = Intruder(world, [PATH], fixed=["limit"])
        world.start("intruder", intruder.run)
        for name in ("p0", "p1"):
            world.start(name, partial(_holder, world, lambda *_: None, 1.0))

    outcome = calm(scenario, backend)
    outcome.check()
    events = outcome.history.events
    hostile = {event.session_id for event in events if isinstance(event, Hostile)}
    created = [event for event in events if isinstance(event, NodeCreated)]
    honest = [event for event in created if event.owner and event.owner not in hostile]
    forged = [event for event in created if event not in honest and event.path.startswith(PATH)]
    assert {event.owner for event in forged} > {0}, "persistent ones, and its own"
    sessions = {f"{event.owner:016x}" for event in honest}
    assert any(session in event.path for event in forged for session in sessions)
    deleted = {event.path for event in events if isinstance(event, NodeDeleted)}
    assert {event.path for event in forged} - deleted == {PATH}


def test_program_does_a_fault_that_ends_with_the_others(backend: Backend) -> None:
    async def program(world: World, process: Process) -> None:
        await anyio.sleep(1.0)
        world.harm("link-slow", "p0", duration=0.25)
        world.harm("link-slow", "p0", duration=1e6)
        await world.healed()
        world.harm("link-slow", "p0", duration=0.25)

    outcome = alone(program, backend)
    outcome.check()
    events = outcome.history.events
    assert [event.at for event in events if isinstance(event, FaultBegan)] == [1.0, 1.0]
    ends = [event.at for event in events if isinstance(event, FaultEnded)]
    assert ends == [1.25, outcome.schedule.healing]
    assert outcome.done["link-slow"] == 2


def test_scenario_names_the_invariants_that_its_world_does_not_have(backend: Backend) -> None:
    async def program(world: World, process: Process) -> None:
        world.history.joined(PATH, "p0")
        world.skip |= {"I9"}

    alone(program, backend).check()
