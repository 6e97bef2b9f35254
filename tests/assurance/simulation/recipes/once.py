"""Keys that run once, in a world of faults.

* `run_keys`: processes claim a few keys, and their runs end well, fail, are given back, cancelled,
  lost and killed. After the healing all keys are done.

These must hold, besides the invariants of everything that is held (a line for each key):

    once-done      no client deletes the mark of a done key, so that no run begins after it. (An
                   operator does now and then, with everything else at the path.)
    once-ended     a mark replaces the znode of a run whose body has ended well, in one transaction
    once-told      a claim that waits gives None for a done key only; `is_done` is true
    I9             every key is done in the end
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import AcquireTimeout, ConnectionLossError, TenureLost
from aiolead.testing.history.events import NodeCreated, NodeDeleted, Session
from aiolead.testing.simulation import Process, World
from tests.assurance.simulation.programs import (
    claimed,
    end_of_session,
    explored,
    insist,
    start_each,
)

JOBS = "/jobs"


class Failed(Exception):
    """The job has failed."""


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    keys: list[str]
    left: int = 0
    """How many processes have not seen all keys done."""
    ended: set[int] = field(default_factory=set)
    """The tokens of the runs whose bodies have ended well."""

    def events(self, key: str) -> list[NodeCreated | NodeDeleted]:
        """The creates and deletes of the znode of a key, as the servers saw them."""
        path, events = f"{JOBS}/{key}", self.world.history.events
        kinds = NodeCreated | NodeDeleted
        return [event for event in events if isinstance(event, kinds) and event.path == path]

    def is_done(self, key: str) -> bool:
        last = self.events(key)[-1:]
        return bool(last) and isinstance(last[0], NodeCreated) and not last[0].owner

    def was_done(self, key: str, since: int = 0) -> bool:
        """Whether a mark was created after a transaction."""
        marks = [e for e in self.events(key) if isinstance(e, NodeCreated) and not e.owner]
        return any(mark.czxid > since for mark in marks)


# 124 and 158 have each found a bug.
@explored([*range(6), 124, 158], [*range(6, 12), 124, 158])
async def run_keys(world: World) -> None:
    """Three or four processes, and two or three keys."""
    rng = world.rng("run_keys")
    plan = Plan(world, [f"key-{number}" for number in range(rng.choice((2, 3)))])
    plan.left = len(start_each(world, "p", rng.choice((3, 4)), partial(worker, plan)))


async def worker(plan: Plan, process: Process) -> None:
    """Claims keys at random; after the healing, each of them once more."""
    world, rng = plan.world, process.rng

    async def work(client: aiolead.Client) -> bool:
        once = aiolead.Once(client, JOBS, ttl=None, identity=process.name)
        while not world.is_healed:
            with world.may_be_cancelled(process, JOBS, process.name):
                await claim(plan, process, once, rng.choice(plan.keys))
            await end_of_session(client)
            await anyio.sleep(rng.uniform(0.0, 0.3) * client.session_timeout)
        for key in plan.keys:
            while not plan.is_done(key):
                await claim(plan, process, once, key)
                await end_of_session(client)
        return True

    await insist(world, process, work)
    plan.left -= 1
    if not plan.left:
        audit(plan)


async def claim(plan: Plan, process: Process, once: aiolead.Once, key: str) -> None:
    """One claim, whose run may end in any way."""
    world, rng = plan.world, process.rng
    is_try = not world.is_healed and rng.random() < 0.3
    wait = None if world.is_healed or rng.random() < 0.5 else rng.uniform(0.01, 1.0)
    context = once.try_claim(key) if is_try else once.claim(key, timeout=wait)
    run: aiolead.types.Run | None = None
    with suppress(AcquireTimeout, TenureLost, ConnectionLossError, Failed):
        async with context as run:
            if run is not None:
                await body(plan, process, key, run)
            elif not is_try and not plan.was_done(key):
                world.violation("once-told", f"{key} is not done, and its claim gives None")
    if run is not None and run.is_done and not plan.was_done(key, run.token):
        world.violation("once-told", f"{run} is done, and no server knows")


async def body(plan: Plan, process: Process, key: str, run: aiolead.types.Run) -> None:
    world, rng = plan.world, process.rng
    with claimed(world, process.name, run, may_be_revoked=False):
        length = 0.001 if world.is_healed else rng.choice((0.01, 0.3, 1.5)) * rng.random()
        await anyio.sleep(length * run._client.session_timeout)
        world.history.looked(run.path, process.name, run.token, held=run.is_held)
        run.check()
    how = 1.0 if world.is_healed else rng.random()
    if how < 0.2:
        raise Failed
    if how < 0.4:
        await run.release()
    else:
        plan.ended.add(run.token)


def audit(plan: Plan) -> None:
    """Compare what the servers saw with what the programs did."""
    world = plan.world
    ours = {event.session_id for event in world.history.events if isinstance(event, Session)} - {0}
    for key in plan.keys:
        events = plan.events(key)
        if not plan.is_done(key):
            world.violation("I9", f"{key} is not done: {events}")
        runs: list[int] = []
        for before, event in zip([None, *events], events, strict=False):
            if isinstance(event, NodeDeleted):
                if not event.owner and event.by in ours:
                    world.violation("once-done", f"a client has deleted a mark: {event}")
            elif event.owner:
                runs.append(event.czxid)
            elif not isinstance(before, NodeDeleted) or before.zxid != event.czxid:
                world.violation("once-ended", f"a mark without a run: {event} after {before}")
            elif not runs or runs[-1] not in plan.ended:
                world.violation("once-ended", f"marked by a run that had not ended: {event}")
