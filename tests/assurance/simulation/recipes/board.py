"""A task board in a world of faults.

* `work`: tasks are announced, taken by workers that report, finish, fail, leave and are killed,
  and somebody looks on.

What has to hold, besides the invariants of everything that is held (a line for each claim):

    board-once     a task has one result, of somebody who had it, and is not taken after that
    board-view     who looks on sees in the end what is there
    I9             every task that was announced has a result in the end, and who looks on sees it
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import AcquireTimeout, ConnectFailed, ConnectionLossError, TenureLost
from aiolead.errors import SessionError as OverError
from aiolead.testing.history.events import NodeCreated, Revoked
from aiolead.testing.simulation import Process, World, told

BOARD = "/board"


@dataclass(slots=True)
class Plan:
    """What all programs of a run tell each other."""

    world: World
    all_announced: anyio.Event = field(default_factory=anyio.Event)
    announced: dict[str, str] = field(default_factory=dict)  # by task: its data
    tried: dict[str, set[str]] = field(default_factory=dict)  # by task: the results
    finished: set[str] = field(default_factory=set)
    over: anyio.Event = field(default_factory=anyio.Event)

    def board(self, client: aiolead.Client, who: str) -> aiolead.TaskBoard:
        every = 0.05 * client.session_timeout
        return aiolead.TaskBoard(client, BOARD, identity=who, report_every=every)


async def work(world: World) -> None:
    """Two or three workers, one who announces, and one who looks on."""
    plan = Plan(world)
    for number in range(world.rng("work").choice((2, 3))):
        world.start(f"p{number}", partial(worker, plan))
    if not world.start("announcer", partial(announcer, plan)):
        plan.all_announced.set()
    world.start("watcher", partial(watcher, plan))


async def announcer(plan: Plan, process: Process) -> None:
    """Announces tasks until everything has healed; then one more, whose result it waits for."""
    world, rng, count = plan.world, process.rng, 0
    while True:
        with suppress(ConnectFailed, OverError):
            async with world.client(process) as client:
                board = plan.board(client, process.name)
                while True:
                    was_healed = world.is_healed
                    count += 1
                    data = f"{process.name}-{count}"
                    with suppress(ConnectionLossError):
                        task = await board.submit(data.encode())
                        plan.announced[task] = data
                        if was_healed:
                            await board.result(task)
                            plan.all_announced.set()
                            return
                    await anyio.sleep(rng.uniform(0.0, 0.6) * client.session_timeout)
        await anyio.sleep(rng.uniform(0.0, 0.1))


async def worker(plan: Plan, process: Process) -> None:
    """Works over any number of clients until everything has a result."""
    world = plan.world
    while not plan.over.is_set():
        async with anyio.create_task_group() as tasks:
            with suppress(ConnectFailed):
                async with world.client(process) as client:
                    # The worker is around the client, so that it may be closed under it.
                    with anyio.CancelScope() as online:
                        tasks.start_soon(_work_over, plan, process, client, online)
                        await world.asked_to_close(process)
        await anyio.sleep(process.rng.uniform(0.0, 0.1))


async def _work_over(
    plan: Plan, process: Process, client: aiolead.Client, online: anyio.CancelScope
) -> None:
    board = plan.board(client, process.name)
    try:
        async with anyio.create_task_group() as tasks:

            async def until_over() -> None:
                await plan.over.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_over)
            with suppress(OverError):
                while True:
                    await _turn(plan, process, client, board)
            tasks.cancel_scope.cancel()
    finally:
        online.cancel()


async def _turn(
    plan: Plan, process: Process, client: aiolead.Client, board: aiolead.TaskBoard
) -> None:
    world, rng = plan.world, process.rng
    with (
        world.may_be_cancelled(process, BOARD, process.name),
        suppress(AcquireTimeout, TenureLost, ConnectionLossError),
    ):
        wait = None if world.is_healed or rng.random() < 0.7 else rng.uniform(0.01, 1.0)
        async with board.claim(timeout=wait) as task:
            await _do(plan, process, client, task)
    if client.state.is_final:
        await client.ready()  # raises what became of it
    if not world.is_healed:
        await anyio.sleep(rng.uniform(0.0, 0.1) * client.session_timeout)


async def _do(
    plan: Plan, process: Process, client: aiolead.Client, task: aiolead.types.Task
) -> None:
    world, rng, history, who = plan.world, process.rng, plan.world.history, process.name
    if task.name in plan.finished:
        world.violation("board-once", f"{task.name} is taken after it was finished")
    history.joined(task.path, who)
    if any(isinstance(e, Revoked) and e.line == task.path for e in history.events):
        # An operator has deleted a claim on it before. Ours has the same name: what its owner has
        # sent, and was held back, may take ours away (I1 is asked about it all the same).
        history.revoked(task.path, who)
    signal = task._on_lost
    told(history, task.path, who, task)
    try:
        await _body(plan, process, client, task)
    finally:
        # From here on nothing is done that only the holder may do.
        task._on_lost = signal
        history.left(task.path, who, task.token, was_lost=task.loss is not None)
    if rng.random() < 0.8 or world.is_healed:
        result = f"{who} {task.token}"
        plan.tried.setdefault(task.name, set()).add(result)
        if rng.random() < 0.8:
            await task.finish(result.encode())
        else:
            await task.fail("it has failed", result.encode())
        plan.finished.add(task.name)


async def _body(
    plan: Plan, process: Process, client: aiolead.Client, task: aiolead.types.Task
) -> None:
    world, rng, history, who = plan.world, process.rng, plan.world.history, process.name
    parts = rng.randint(1, 4)
    for part in range(parts):
        await task.report(part / parts, f"part {part}")
        long = rng.choice((0.01, 0.1, 0.5)) * client.session_timeout
        await anyio.sleep(0.001 if world.is_healed else rng.uniform(0.0, long))
        history.looked(task.path, who, task.token, held=task.is_held)
        task.check()


async def watcher(plan: Plan, process: Process) -> None:
    """Looks on until nothing waits or is worked on, and then at the results themselves."""
    while not plan.over.is_set():
        with suppress(ConnectFailed, OverError):
            async with plan.world.client(process) as client:
                board = plan.board(client, process.name)
                async with board.observe() as view:
                    await plan.all_announced.wait()
                    async for states in view:
                        left = {state.phase for state in states.values()}
                        is_done = not left & {
                            aiolead.types.TaskPhase.WAITING,
                            aiolead.types.TaskPhase.WORKING,
                        }
                        if is_done and plan.announced.keys() <= states.keys():
                            await _audit(plan, board, view)
                            plan.over.set()
                            break
        await anyio.sleep(0.01)


async def _audit(plan: Plan, board: aiolead.TaskBoard, view: aiolead.types.BoardView) -> None:
    world, states = plan.world, view.value
    for task, state in states.items():
        result = await board.result(task)
        phase = aiolead.types.TaskPhase.FAILED if result.is_failed else aiolead.types.TaskPhase.DONE
        if (state.phase, state.worker) != (phase, result.worker):
            world.violation("board-view", f"{state} is seen, and {result} is there")
        if result.data.decode() not in plan.tried.get(task, set()):
            world.violation("board-once", f"nobody has given {result}")
    created = [event for event in world.history.events if isinstance(event, NodeCreated)]
    written = Counter(e.path for e in created if e.path.startswith(f"{BOARD}/results/"))
    if twice := [path for path, times in written.items() if times > 1]:
        world.violation("board-once", f"there were several results: {twice}")
