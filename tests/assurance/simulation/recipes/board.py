"""A task board in a world of faults.

* `work`: tasks are announced, taken by workers that report, finish, fail, leave and are killed,
  and somebody looks on.

These must hold, besides the invariants of everything that is held (a line for each claim):

    board-once     a task has one result, of a worker that had it, and is not taken after that
    board-view     the watcher sees in the end the tasks that there are
    I9             every task that was announced has a result in the end, and the watcher sees it
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import AcquireTimeout, ConnectionLossError, TenureLost
from aiolead.testing.history.events import NodeCreated
from aiolead.testing.simulation import Process, World
from tests.assurance.simulation.programs import (
    OF_QUEUES,
    alone,
    claimed,
    end_of_session,
    explored,
    insist,
    start_each,
    until_set,
)

BOARD = "/board"


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    all_announced: anyio.Event = field(default_factory=anyio.Event)
    announced: dict[str, str] = field(default_factory=dict)  # by task: its data
    tried: dict[str, set[str]] = field(default_factory=dict)  # by task: the results
    finished: set[str] = field(default_factory=set)
    over: anyio.Event = field(default_factory=anyio.Event)

    def board(self, client: aiolead.Client, who: str) -> aiolead.TaskBoard:
        every = 0.05 * client.session_timeout
        return aiolead.TaskBoard(client, BOARD, identity=who, report_every=every)


@explored(range(1000, 1012), range(3000, 3012), reached=OF_QUEUES)
async def work(world: World) -> None:
    """Two or three workers, one who announces, and one who looks on."""
    plan = Plan(world)
    start_each(world, "p", world.rng("work").choice((2, 3)), partial(worker, plan))
    if not world.start("announcer", partial(announcer, plan)):
        plan.all_announced.set()
    world.start("watcher", partial(watcher, plan))


async def announcer(plan: Plan, process: Process) -> None:
    """Announces tasks until everything has healed; then one more, whose result it waits for."""
    world, rng, count = plan.world, process.rng, 0

    async def work(client: aiolead.Client) -> bool:
        nonlocal count
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
                    return True
            await anyio.sleep(rng.uniform(0.0, 0.6) * client.session_timeout)

    await insist(world, process, work)


async def worker(plan: Plan, process: Process) -> None:
    """Works over any number of clients until everything has a result."""

    async def work_over(client: aiolead.Client) -> None:
        board = plan.board(client, process.name)
        await until_set(plan.over, lambda: _turn(plan, process, client, board))

    await alone(plan.world, process, work_over)


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
    await end_of_session(client)
    if not world.is_healed:
        await anyio.sleep(rng.uniform(0.0, 0.1) * client.session_timeout)


async def _do(
    plan: Plan, process: Process, client: aiolead.Client, task: aiolead.types.Task
) -> None:
    world, rng, who = plan.world, process.rng, process.name
    if task.name in plan.finished:
        world.violation("board-once", f"{task.name} is taken after it was finished")
    with claimed(world, who, task):
        await _body(plan, process, client, task)
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
    busy = {aiolead.types.TaskPhase.WAITING, aiolead.types.TaskPhase.WORKING}

    async def work(client: aiolead.Client) -> bool:
        board = plan.board(client, process.name)
        async with board.observe() as view:
            await plan.all_announced.wait()
            async for states in view:
                is_done = not busy & {state.phase for state in states.values()}
                if is_done and plan.announced.keys() <= states.keys():
                    await _audit(plan, board, view)
                    plan.over.set()
                    return True
        return False

    await insist(plan.world, process, work, pause=0.01)


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
