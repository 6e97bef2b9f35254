"""Processes of the simulation: killed, stopped and continued as an operating system does it."""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest
from assurance.simulation.other_process import output_of

import aiolead
from aiolead.testing.simulation import timeline as timeline_module
from aiolead.testing.simulation.ensemble import Ensemble, EnsembleSettings
from aiolead.testing.simulation.loops import Backend, run_virtual
from aiolead.testing.simulation.network import Network
from aiolead.testing.simulation.process import Process, Program
from aiolead.testing.simulation.timeline import Timeline

ADDRESS = "10.0.0.1:2181"


class Scene:
    """A server, and processes that note what they do and when."""

    def __init__(self, backend: Backend, seed: int = 1) -> None:
        self.backend = backend
        self.seed = seed
        self.timeline = Timeline()
        self.network = Network(self.timeline, seed)
        settings = EnsembleSettings(voters=1)
        self.server = Ensemble(self.timeline, self.network, random.Random(seed), settings)
        self.server.start()
        self.seen: list[Any] = []
        self.processes: list[Process] = []

    def note(self, what: object) -> None:
        self.seen.append((round(self.timeline.now, 6), what))

    def process(self, program: Program, **options: Any) -> Process:
        number = len(self.processes) + 1
        process = Process(
            f"p{number}",
            f"10.0.1.{number}",
            ADDRESS,
            timeline=self.timeline,
            network=self.network,
            tasks=self.tasks,
            seed=self.seed,
            **options,
        )
        self.processes.append(process)
        process.start(program)
        return process

    def play(self, program: Program, *events: tuple[float, str], **options: Any) -> list[Any]:
        """Runs a program as a process to its end; a method of the process is called at times."""

        async def main() -> None:
            process = self.process(program, **options)
            for when, method in events:
                self.timeline.at(when, getattr(process, method))
            await process.wait()

        return self.run(main)

    def run(self, main: Callable[[], Awaitable[object]]) -> list[Any]:
        async def all_of_it() -> None:
            async with anyio.create_task_group() as self.tasks:
                await main()
                for process in self.processes:
                    process.kill()
                    await process.wait()
            del self.tasks

        run_virtual(
            all_of_it, backend=self.backend, seed=self.seed, timeline=self.timeline, limit=1000
        )
        return self.seen


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Backend:
    loop: Backend = request.param
    return loop


@pytest.fixture
def scene(backend: Backend) -> Scene:
    return Scene(backend)


# --- stopping ------------------------------------------------------------------------------------


def test_stopped_process_does_nothing(scene: Scene) -> None:

    async def ticks(process: Process) -> None:
        while process.is_alive:
            await anyio.sleep(1)
            scene.note((process.name, round(anyio.current_time(), 6)))

    async def main() -> None:
        one = scene.process(ticks)
        scene.process(ticks)
        scene.timeline.at(1.5, one.stop)
        scene.timeline.at(3.5, one.stop)  # has no effect
        scene.timeline.at(4.25, one.resume)
        scene.timeline.at(4.5, one.resume)  # likewise
        await anyio.sleep(5.75)
        assert not one.is_stopped

    seen = scene.run(main)
    assert [when for when, (name, _) in seen if name == "p1"] == [1.0, 4.25, 5.25]
    assert [when for when, (name, _) in seen if name == "p2"] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert all(when == found for when, (_, found) in seen)


def test_tasks_of_a_stopped_process_stop(scene: Scene) -> None:
    events: list[anyio.Event] = []

    async def waits(what: str) -> None:
        event = anyio.Event()
        events.append(event)
        await event.wait()
        scene.note(what)

    async def program(process: Process) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits, "child")
            async with anyio.create_task_group() as more:
                more.start_soon(waits, "grandchild")
                await waits("itself")

    async def main() -> None:
        process = scene.process(program)
        await anyio.sleep(1)
        process.stop()
        assert process.is_stopped
        for event in events:
            event.set()
        await anyio.sleep(1)
        assert scene.seen == []
        process.resume()
        await process.wait()

    assert sorted(what for _, what in scene.run(main)) == ["child", "grandchild", "itself"]
    assert {when for when, _ in scene.seen} == {2.0}


def test_deadline_of_a_stopped_process_is_late(scene: Scene) -> None:

    async def program(process: Process) -> None:
        with anyio.move_on_after(2) as scope:
            await anyio.sleep_forever()
        scene.note(scope.cancelled_caught)
        with anyio.move_on_after(2) as scope:
            await anyio.sleep(1)
        scene.note(scope.cancelled_caught)

    seen = scene.play(program, (1.0, "stop"), (5.0, "resume"))
    assert seen == [(5.0, True), (6.0, False)]


def test_task_that_is_due_at_the_stop_does_not_run(scene: Scene) -> None:

    async def program(process: Process) -> None:
        event = anyio.Event()
        scene.timeline.at(1.0, event.set)
        scene.timeline.at(1.0, process.stop)
        scene.timeline.at(2.0, process.resume)
        await event.wait()
        scene.note("woken")

    assert scene.play(program) == [(2.0, "woken")]


@pytest.mark.parametrize("after", range(6))
def test_process_may_stop_after_a_number_of_steps(
    scene: Scene, backend: Backend, after: int
) -> None:
    """It is woken `after` times more; each checkpoint below is one of them."""

    async def program(process: Process) -> None:
        await anyio.sleep(1)
        for n in range(1, 5):
            scene.note(n)
            await anyio.lowlevel.checkpoint()

    async def main() -> None:
        process = scene.process(program)
        await anyio.sleep(0.5)
        process.stop(after=after)
        scene.timeline.at(10.0, process.resume)
        await process.wait()

    # On asyncio a sleeping task is woken twice: its timer runs, which then wakes the task.
    before = after - 1 if backend == "asyncio" else after
    assert scene.run(main) == [(1.0 if n <= before else 10.0, n) for n in range(1, 5)]


def test_process_may_stop_itself(scene: Scene) -> None:

    async def program(process: Process) -> None:
        process.stop()
        scene.note("to the end of the step")
        await anyio.lowlevel.checkpoint()
        scene.note("goes on")

    seen = scene.play(program, (2.0, "resume"))
    assert seen == [(0, "to the end of the step"), (2, "goes on")]


def test_waiting_bytes_come_before_timers(scene: Scene, backend: Backend) -> None:
    """A loop that goes on looks at its sockets before it looks at its timers."""

    async def receives(process: Process, order: list[str]) -> None:
        stream = await process.dial("10.0.0.2", 1)
        await stream.receive()
        order.append("bytes")

    async def sleeps(order: list[str]) -> None:
        await anyio.sleep(2)
        order.append("timer")

    async def program(process: Process) -> None:
        order: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receives, process, order)
            tasks.start_soon(sleeps, order)
        scene.note(order)

    async def main() -> None:
        wires = []
        scene.network.listen("10.0.0.2:1", lambda wire, _host: wires.append(wire) or _Deaf())
        process = scene.process(program)
        scene.timeline.at(1.0, process.stop)
        scene.timeline.at(3.0, lambda: wires[0].send(b"late"))
        scene.timeline.at(5.0, process.resume)
        await process.wait()

    ((when, order),) = scene.run(main)
    assert when == 5.0
    if backend == "asyncio":
        assert order == ["bytes", "timer"]
    assert sorted(order) == ["bytes", "timer"]  # trio shuffles


class _Deaf:
    def received(self, data: Any) -> None: ...
    def ended(self) -> None: ...
    def broken(self) -> None: ...


def test_packets_of_a_stopped_process_arrive(scene: Scene) -> None:
    """Its packets are on their way, whether it is stopped or not."""

    async def program(process: Process) -> None:
        scene.timeline.after(2.0, lambda: scene.note("arrived"))
        await anyio.sleep(1.5)
        scene.note("woken")

    seen = scene.play(program, (1.0, "stop"), (3.0, "resume"))
    assert seen == [(2.0, "arrived"), (3.0, "woken")]


def test_several_processes_may_be_stopped(scene: Scene) -> None:

    async def program(process: Process) -> None:
        for _ in range(3):
            await anyio.sleep(1)
            scene.note(process.name)

    async def main() -> None:
        one, two, three = (scene.process(program) for _ in range(3))
        for when, act in ((0.5, one.stop), (0.5, two.stop), (1.5, one.resume), (1.75, two.resume)):
            scene.timeline.at(when, act)
        for process in (one, two, three):
            await process.wait()

    times: dict[str, list[float]] = {}
    for when, name in scene.run(main):
        times.setdefault(name, []).append(when)
    assert times == {"p1": [1.5, 2.5, 3.5], "p2": [1.75, 2.75, 3.75], "p3": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize("seed", range(5))
def test_random_stops_lose_and_repeat_nothing(backend: Backend, seed: int) -> None:
    """Two tasks of a process hand numbers to and fro, whatever stops it, wherever."""
    scene = Scene(backend, seed)
    rng = random.Random(seed)

    async def program(process: Process) -> None:
        there, at_there = anyio.create_memory_object_stream[int](0)
        back, at_back = anyio.create_memory_object_stream[int](0)

        async def echo() -> None:
            async for number in at_there:
                if number % 3 == 0:
                    await anyio.sleep(0.1)
                await back.send(number)

        async with anyio.create_task_group() as tasks, there, at_there, back, at_back:
            tasks.start_soon(echo)
            for number in range(200):
                with anyio.move_on_after(0.01 * (number % 5)):
                    await anyio.sleep_forever()
                await there.send(number)
                scene.seen.append(await at_back.receive())
            tasks.cancel_scope.cancel()

    async def main() -> None:
        process = scene.process(program)
        while process.is_alive:
            await anyio.sleep(rng.uniform(0, 0.2))
            process.stop(after=rng.randrange(20))
            await anyio.sleep(rng.choice((0.0, 0.05, 1.0)))
            process.resume()

    assert scene.run(main) == list(range(200))


# --- killing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stopped", [False, True])
def test_killed_process_reaches_nobody(scene: Scene, stopped: bool) -> None:
    arrived: list[bytes] = []

    class Server(_Deaf):
        def received(self, data: Any) -> None:
            arrived.append(data)

        def ended(self) -> None:
            scene.note("ended")

    async def program(process: Process) -> None:
        stream = await process.dial("10.0.0.2", 1)
        await stream.send(b"alive")
        try:
            await anyio.sleep_forever()
        finally:
            scene.note(f"is alive: {process.is_alive}")
            with anyio.move_on_after(1, shield=True):
                with pytest.raises(anyio.BrokenResourceError):
                    await stream.send(b"dead")
                with pytest.raises(ConnectionResetError):
                    await process.dial("10.0.0.2", 1)

    async def main() -> None:
        scene.network.listen("10.0.0.2:1", lambda _wire, _host: Server())
        process = scene.process(program)
        assert process.is_alive
        await anyio.sleep(1)
        if stopped:
            process.stop()
        await anyio.sleep(1)
        process.kill()
        process.kill()  # has no effect
        assert not process.is_alive
        assert not process.is_stopped
        process.stop()  # likewise
        await process.wait()
        await anyio.sleep(1)

    seen = scene.run(main)
    assert arrived == [b"alive"]
    assert seen[0] == (2.0, "is alive: False")
    assert [what for _, what in seen[1:]] == ["ended"]


def test_connection_attempt_ends_with_its_process(scene: Scene) -> None:

    async def program(process: Process) -> None:
        with anyio.move_on_after(5, shield=True):
            await process.dial("10.0.0.1", 2181)
            scene.note("opened")

    async def main() -> None:
        scene.network.path("10.0.1.1", "10.0.0.1").range = (1.0, 1.0)
        process = scene.process(program)
        await anyio.sleep(0.5)
        process.kill()
        await anyio.sleep(5)
        assert not process.failure
        assert not any(c.client.is_open for c in scene.network.connections())

    assert scene.run(main) == []


def test_process_with_unread_bytes_ends_in_a_reset(scene: Scene) -> None:

    class Server(_Deaf):
        def broken(self) -> None:
            scene.note("broken")

    async def program(process: Process) -> None:
        await process.dial("10.0.0.2", 1)
        await anyio.sleep_forever()

    async def main() -> None:
        wires = []
        scene.network.listen("10.0.0.2:1", lambda wire, _host: wires.append(wire) or Server())
        process = scene.process(program)
        await anyio.sleep(1)
        wires[0].send(b"unread")
        await anyio.sleep(1)
        process.kill()
        await anyio.sleep(1)

    assert [what for _, what in scene.run(main)] == ["broken"]


# --- how it ends ---------------------------------------------------------------------------------


def test_error_of_a_program_ends_the_run(scene: Scene) -> None:

    async def program(process: Process) -> None:
        await anyio.sleep(1)
        raise KeyError("mine")

    async def main() -> None:
        scene.process(program)
        await anyio.sleep(100)

    with pytest.raises(KeyError, match="mine") as caught:
        scene.run(main)
    assert scene.timeline.now == 1.0
    assert scene.processes[0].failure is caught.value


def test_error_of_a_killed_program_is_ignored(scene: Scene) -> None:

    async def program(process: Process) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("dead")

    async def main() -> None:
        process = scene.process(program)
        await anyio.sleep(1)
        process.kill()
        await anyio.sleep(1)
        scene.note(process.failure)

    assert scene.run(main) == [(2.0, None)]


def test_failed_run_ends_with_a_stopped_process(scene: Scene) -> None:

    async def program(process: Process) -> None:
        await anyio.sleep_forever()

    async def main() -> None:
        process = scene.process(program)
        await anyio.sleep(1)
        process.stop()
        scene.timeline.at(2.0, lambda: 1 / 0)
        await anyio.sleep(100)

    with pytest.raises(ZeroDivisionError):
        scene.run(main)
    assert scene.timeline.now == 2.0


def test_stopped_process_is_cancelled_when_it_continues(scene: Scene) -> None:
    async def program(process: Process) -> None:
        with anyio.CancelScope() as scope:
            scene.timeline.at(2.0, scope.cancel)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep_forever)
        scene.note("cancelled")

    assert scene.play(program, (1.0, "stop"), (5.0, "resume")) == [(5.0, "cancelled")]


def test_stopped_process_does_not_hide_an_error(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "MAX_STEPS", 1000)

    async def program(process: Process) -> None:
        await anyio.sleep_forever()

    async def main() -> None:
        process = scene.process(program)
        await anyio.sleep(1)
        process.stop()
        scene.timeline.at(5.0, process.resume)
        raise KeyError("mine")

    with pytest.raises(ExceptionGroup) as caught:
        scene.run(main)
    assert repr(caught.value.exceptions) == "(KeyError('mine'),)"


# --- clocks and clients --------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.999, 1.0, 1.001])
def test_clock_runs_at_its_own_rate(scene: Scene, rate: float) -> None:

    async def program(process: Process) -> None:
        start, readings = process.clock(), []
        for _ in range(100):
            readings += [process.clock(), process.clock()]
            await anyio.sleep(0.37)
        assert all(a < b for a, b in pairwise(readings))
        assert process.clock() - start == pytest.approx(37.0 * rate, abs=1e-6)
        # Waiting for one's own clock comes to an end, though the world's has another rate.
        due = process.clock() + 1 / 3
        turns = 0
        while (rest := due - process.clock()) > 0:
            await anyio.sleep(rest)
            turns += 1
        assert turns < 20

    scene.play(program, rate=rate)


def test_processes_have_independent_clocks_and_random_numbers(scene: Scene) -> None:

    async def program(process: Process) -> None:
        scene.seen.append((process.clock(), process.rng.random()))

    async def main() -> None:
        for _ in range(2):
            await scene.process(program).wait()

    one, two = scene.run(main)
    assert one[0] != two[0]
    assert one[1] != two[1]


def take_turns(scene: Scene) -> list[Any]:
    """Two real clients take turns with a lock, while one is stopped and the other killed."""

    async def program(process: Process) -> None:
        async with process.connect(session_timeout=4) as client:
            lock = aiolead.Lock(client, "/lock")
            while True:
                try:
                    async with lock.acquire() as held:
                        scene.note((process.name, held.token))
                        await anyio.sleep(1)
                except aiolead.LockLost as lost:
                    scene.note((process.name, lost.reason.name))

    async def main() -> None:
        one, two = scene.process(program, rate=0.9995), scene.process(program, rate=1.0005)
        scene.timeline.at(4.5, one.stop)
        scene.timeline.at(15.0, one.resume)
        scene.timeline.at(20.2, two.kill)
        await anyio.sleep(30)

    scene.run(main)
    assert scene.network.connections() == []
    return scene.seen


def test_real_clients_take_turns_under_faults(backend: Backend) -> None:
    seen = take_turns(Scene(backend))
    tokens = [token for _, (_, token) in seen if isinstance(token, int)]
    assert len(tokens) > 15
    assert tokens == sorted(set(tokens))
    alone = {name for when, (name, _) in seen if 9 < when < 15}
    assert alone == {"p2"}
    assert {name for when, (name, _) in seen if when > 26} == {"p1"}
    assert seen == take_turns(Scene(backend))
    assert seen != take_turns(Scene(backend, seed=2))


def test_world_leaves_no_objects(backend: Backend) -> None:
    def runs(times: int) -> int:
        for seed in range(times):
            take_turns(Scene(backend, seed))
        gc.collect()
        return len(gc.get_objects())

    runs(2)
    objects = runs(2)
    assert runs(6) - objects < 200


def test_same_seed_gives_the_same_world_in_every_process(backend: Backend) -> None:
    code = (
        "from assurance.simulation.test_process import Scene, take_turns; "
        f"print(take_turns(Scene({backend!r}, 5)))"
    )
    outputs = [output_of(code, hash_seed=hash_seed) for hash_seed in (0, 99)]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 500
