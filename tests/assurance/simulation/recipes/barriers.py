"""Barriers in a world of faults.

* `gate`: somebody closes and opens a barrier, others wait at it.
* `rounds`: processes go through a double barrier, round after round.
* `hurry`: at first without pauses, so that each round begins while the one before it ends.
* `forged`: with a hostile writer, who creates persistent znodes beside the members.

These must hold:

    barrier-early   nobody is let through a barrier that was closed all the while; nobody is inside
                    a double barrier if there were never enough since it was empty
    barrier-left    nobody withdraws a znode that was there when a round began, and goes on waiting
    barrier-late    nobody has left a double barrier while somebody of the same round is inside
    barrier-stuck   once nothing is broken, everybody gets through in time
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import (
    AcquireTimeout,
    BarrierLost,
    ConnectFailed,
    ConnectionLossError,
    SessionError,
)
from aiolead.model import CreateMode
from aiolead.testing.history.events import NodeCreated, NodeDeleted
from aiolead.testing.simulation import Process, World
from aiolead.testing.simulation.intruder import Intruder
from tests.assurance.simulation.programs import (
    base_name,
    explored,
    insist,
    start_each,
    using_the_grace_period,
)

GATE = "/gates/gate"
STEPS = "/steps"
READY = f"{STEPS}/ready"


# --- the barrier ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Gate:
    """The state that the programs of a run share."""

    world: World
    is_open_for_good: anyio.Event = field(default_factory=anyio.Event)


@explored()
async def gate(world: World) -> None:
    """One that closes and opens, and three that wait."""
    shared = Gate(world)
    world.start("keeper", partial(keeper, shared))
    start_each(world, "w", 3, partial(visitor, shared))


async def keeper(shared: Gate, process: Process) -> None:
    """Sets and removes it until all has healed; then it is removed for good."""
    world, rng = shared.world, process.rng
    while True:
        was_healed = world.is_healed
        with suppress(ConnectFailed, SessionError, ConnectionLossError):
            async with world.client(process) as client:
                barrier = aiolead.Barrier(client, GATE)
                if was_healed:
                    await barrier.remove()
                    shared.is_open_for_good.set()
                    return
                await rng.choice((barrier.set, barrier.set, barrier.remove))()
        await anyio.sleep(rng.uniform(0.0, 0.5) * world.schedule.session_timeout)


async def visitor(shared: Gate, process: Process) -> None:
    """Waits again and again; each time it gets through, it must have been open."""
    world, rng = shared.world, process.rng

    async def work(client: aiolead.Client) -> bool:
        barrier = aiolead.Barrier(client, GATE)
        while True:
            is_last = shared.is_open_for_good.is_set()
            await pass_gate(world, process, barrier)
            if is_last:
                return True
            await anyio.sleep(rng.uniform(0.0, 0.3) * client.session_timeout)

    await insist(world, process, work)


async def pass_gate(world: World, process: Process, barrier: aiolead.Barrier) -> None:
    was_closed = is_there(world, GATE)
    first = len(world.history.events)
    await barrier.wait()
    events = world.history.events[first:]
    opened = any(isinstance(event, NodeDeleted) and event.path == GATE for event in events)
    if was_closed and not opened:
        world.violation("barrier-early", f"{process.name} is through, and it was closed")


def is_there(world: World, path: str) -> bool:
    """Whether a znode exists, as the servers have told the history."""
    for event in reversed(world.history.events):
        if isinstance(event, (NodeCreated, NodeDeleted)) and event.path == path:
            return isinstance(event, NodeCreated)
    return False


# --- the double barrier --------------------------------------------------------------------------


@dataclass(slots=True)
class Steps:
    """The state that the members of a run share."""

    world: World
    count: int
    hurried: int = 0
    """How many times somebody comes without a pause."""
    inside: dict[str, aiolead.types.BarrierMember] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)


@explored()
async def rounds(world: World) -> None:
    """Two to four processes; all of them, or all but one, make a round."""
    rng = world.rng("rounds")
    members = rng.choice((2, 3, 3, 4))
    shared = Steps(world, max(2, members - rng.choice((0, 0, 1))))
    start_each(world, "m", members, partial(member, shared))


@explored()
async def hurry(world: World) -> None:
    """Three or four processes, all of which make a round, or all but one."""
    rng = world.rng("hurry")
    members = rng.choice((3, 3, 4))
    shared = Steps(world, max(3, members - rng.choice((0, 1))), hurried=40)
    start_each(world, "m", members, partial(member, shared))


FORGED = ("note", "x", "9f0c2f6c-6f2d-4c5f-8d3e-0a4b1c2d3e4f")
"""Names that a hostile writer gives to its znodes: one is as a member's."""


async def forged(world: World) -> None:
    """As `rounds`, with znodes below the barrier that no session owns."""
    await rounds(world)
    modes = (CreateMode.PERSISTENT, CreateMode.PERSISTENT_SEQUENTIAL)
    intruder = Intruder(world, [STEPS], fixed=FORGED, modes=modes)
    world.start("intruder", intruder.run)


async def member(shared: Steps, process: Process) -> None:
    """Goes through rounds; after the healing until everybody has been through one."""
    world, rng = shared.world, process.rng
    name = base_name(process)
    while not is_done(shared):
        with suppress(ConnectFailed, SessionError):
            async with world.client(process) as client:
                while not is_done(shared):
                    was_healed = world.is_healed
                    with suppress(AcquireTimeout, BarrierLost):
                        await one_round(shared, process, client)
                        if was_healed:
                            shared.done.add(name)
                    shared.hurried -= 1
                    if not world.is_healed and shared.hurried < 0:
                        await anyio.sleep(rng.uniform(0.0, 0.2) * client.session_timeout)
        await anyio.sleep(rng.uniform(0.0, 0.1))


def is_done(shared: Steps) -> bool:
    """Whether everybody has been through a round since the healing."""
    world = shared.world
    return world.is_healed and shared.done >= set(map(base_name, world.alive()))


async def one_round(shared: Steps, process: Process, client: aiolead.Client) -> None:
    world, rng, who = shared.world, process.rng, process.name
    barrier = aiolead.DoubleBarrier(client, STEPS, shared.count, identity=who)
    wait = rng.uniform(0.5, 3.0) * client.session_timeout
    round_ = 0
    first = len(world.history.events)
    async with barrier.enter(timeout=wait) as inside:
        round_ = inside.round
        look_at_withdrawals(world, inside, client.session_id, first)
        shared.inside[who] = inside
        try:
            async with using_the_grace_period(world, rng):
                look_at_entry(shared, who)
                length = rng.choice((0.01, 0.1, 0.5)) * rng.random() * client.session_timeout
                length = 0.0 if shared.hurried > 0 else 0.01 if world.is_healed else length
                await anyio.sleep(length)
        finally:
            shared.inside.pop(who, None)
    there = set(world.witness.below(STEPS))
    others = [
        name
        for name, other in shared.inside.items()
        if other.round == round_ and other.path in there and world.is_alive(name)
    ]
    if others:
        world.violation("barrier-late", f"{who} has left, and {others} are inside")


def look_at_withdrawals(
    world: World, member: aiolead.types.BarrierMember, session: int, first: int
) -> None:
    """Whether others began a round with a znode of ours, which we took away, to enter later."""
    ours: set[str] = set()
    counted: set[str] = set()
    for event in world.history.events[first:]:
        match event:
            case NodeCreated(path=path, czxid=czxid) if path == READY:
                counted |= ours if czxid != member.round else set()
            case NodeCreated(path=path, owner=owner) if owner == session:
                if path.rpartition("/")[0] == STEPS:
                    ours.add(path)
            case NodeDeleted(path=path, by=by) if path in ours:
                ours.discard(path)
                if path in counted and by == session:
                    world.violation("barrier-left", f"{path} was counted, and withdrawn")


def look_at_entry(shared: Steps, who: str) -> None:
    """How many members were there at most since it had none, as the servers know."""
    there: set[str] = set()
    most = 0
    for event in shared.world.history.events:
        if not isinstance(event, (NodeCreated, NodeDeleted)) or event.path == READY:
            continue
        if event.path.rpartition("/")[0] != STEPS or not event.owner:
            continue
        if isinstance(event, NodeCreated):
            there.add(event.path)
            most = max(most, len(there))
        else:
            there.discard(event.path)
            if not there:
                most = 0
    if most < shared.count:
        shared.world.violation("barrier-early", f"{who} is inside, and there were {most} at most")
