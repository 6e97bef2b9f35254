"""Several locks at once in a world of faults.

* `together`: processes take one, two or three of three locks as one, named in any order.

These must hold, besides the invariants of everything that is held (each of the locks is a line; so
none is held by another one meanwhile, and after the healing all are served: no cycle of waiting):

    multi-all     a holder has all of them, in the order of their paths
    multi-none    a contender that is refused has none of them, and no place in their queues
    multi-loss    a loss of one ends the body, and is raised
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import AcquireTimeout, ConnectionLossError, TenureLost
from aiolead.testing.history.events import NodeCreated, Session
from aiolead.testing.simulation import Process, World, told
from aiolead.testing.simulation.levers import Levers
from aiolead.testing.simulation.turns import Observed, why_withdrawn
from tests.assurance.simulation.programs import (
    alone,
    end_of_session,
    explored,
    start_each,
    using_the_grace_period,
    way_in,
)

LINES = ("/lines/a", "/lines/b", "/lines/c")
ROUNDS = 3
"""How many turns everybody takes after the healing: all together, so that they get in each other's
way."""

ANEW = "began again, since one of several was lost before all were held"
TIMED_OUT = "ran out of time with some of several"
LOST_ONE = "lost one of several, and had the others"


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    kinds: dict[str, str] = field(default_factory=dict)  # by line

    def lock(self, client: aiolead.Client, line: str, who: str) -> aiolead.types.Holdable:
        match self.kinds[line]:
            case "write":
                return aiolead.ReadWriteLock(client, line, identity=who).write
            case "reentrant":
                return aiolead.ReentrantLock(client, line, identity=who)
            case _:
                return aiolead.Lock(client, line, identity=who)


@explored(
    range(1000, 1012),
    range(12),
    reached=(
        "began again, since one of several was lost before all were held",
        "ran out of time with some of several",
        "lost one of several, and had the others",
    ),
)
async def together(world: World) -> None:
    """Three or four processes and three locks."""
    rng = world.rng("together")
    kinds = {line: rng.choice(("lock", "lock", "write", "reentrant")) for line in LINES}
    plan = Plan(world, kinds)
    start_each(world, "p", rng.choice((3, 4)), partial(contender, plan))
    if rng.random() < 0.5:
        await take_away(world)


async def take_away(world: World) -> None:
    """An operator, who deletes one of the znodes of somebody now and then, until the healing."""
    rng, levers = world.rng("operator"), Levers(world)
    while not world.is_healed:
        with anyio.move_on_after(rng.uniform(0.05, 0.6) * world.schedule.session_timeout):
            await world.healed()
            return
        if alive := world.alive():
            # That of the first line, above all: it may wait in others.
            levers.delete_znode(rng.choice(alive), rng.choice((0.0, rng.random())))


async def contender(plan: Plan, process: Process) -> None:
    """Takes turns over any number of clients; after the healing some more."""
    served = 0

    async def turns(client: aiolead.Client) -> None:
        nonlocal served
        while served < ROUNDS:
            served += await take_turn(plan, process, client)

    await alone(plan.world, process, turns)


async def take_turn(plan: Plan, process: Process, client: aiolead.Client) -> bool:
    """One turn; returns whether it was one of those after the healing."""
    world = plan.world
    was_healed, held = world.is_healed, False
    turn = _OneTurn(plan, process, client)
    # Not a queue of the history: a contender with one of several locks has to release it first.
    with (
        world.may_be_cancelled(process, "/lines", process.name),
        suppress(TenureLost, ConnectionLossError),
    ):
        with suppress(AcquireTimeout):
            held = await turn.take()
        if not held:
            await turn.look_for_rest()
    await end_of_session(client)
    pause = 0.001 if world.is_healed else process.rng.uniform(0.0, 0.25)
    await anyio.sleep(pause * client.session_timeout)
    return was_healed and held


class _OneTurn:
    """One turn with some of the locks."""

    def __init__(self, plan: Plan, process: Process, client: aiolead.Client) -> None:
        self._world = plan.world
        self._history = plan.world.history
        self._process = process
        self._rng = process.rng
        self._client = client
        self._who = process.name
        self._lines = self._rng.sample(LINES, self._rng.choice((1, 2, 2, 3)))
        locks = [plan.lock(client, line, process.name) for line in self._lines]
        self._lock = aiolead.MultiLock(*locks)
        self._lines.sort()
        self._since = len(self._history.events)
        self._session_id = client.session_id

    async def take(self) -> bool:
        rng, tau, several = self._rng, self._client.session_timeout, self._lock
        weights = (3, 2, 0, 0) if self._world.is_healed else (3, 2, 2, 1)
        context, limit = way_in(rng, several, tau, weights)
        if limit is not None:
            # Each of them may take as long as a try of its own.
            limit = limit or len(self._lines) * tau
            # Then it releases those that it has.
            limit += (len(self._lines) - 1) * tau / 3
        for line in self._lines:
            self._history.joined(line, self._who, wait=limit)
        is_in = False
        try:
            async with context as held:
                if held is None:
                    self._withdrew("taken")
                    return False
                is_in = True
                await self._inside(held)
        except BaseException as error:
            if not is_in:
                self._withdrew(why_withdrawn(error))
            raise
        if any(each.loss is not None for each in held.holds):
            self._wrong("multi-loss", "has lost one, and is not notified")
        return True

    def _withdrew(self, why: str) -> None:
        for line in self._lines:
            self._history.withdrew(line, self._who, why)
        if why == "timeout" and self._lines[1:] and self._lines[1] in self._created():
            self._history.reached(TIMED_OUT)

    async def _inside(self, held: aiolead.types.MultiHeld) -> None:
        lines = [each.path.rpartition("/")[0] for each in held.holds]
        if lines != self._lines:
            self._wrong("multi-all", f"asked for {self._lines} and has {lines}")
        created = self._created()
        before, *second = self._lines[:2]
        if second and before in created[created.index(*second) :]:
            self._history.reached(ANEW)
        for line, each in zip(lines, held.holds, strict=True):
            if not each.is_held:
                self._wrong("multi-all", f"is let in, and has lost {line}: {each.loss}")
            self._note_loss(held, each)
            told(self._history, line, self._who, each)
        try:
            await self._body(held)
        finally:
            for line, each in zip(lines, held.holds, strict=True):
                self._history.left(line, self._who, each.token, was_lost=each.loss is not None)

    def _note_loss(self, held: aiolead.types.MultiHeld, one: aiolead.types.Tenure) -> None:
        def on_lost() -> None:
            if any(each.is_held for each in held.holds):
                self._history.reached(LOST_ONE)

        one._body = Observed(one._body, on_lost)

    async def _body(self, held: aiolead.types.MultiHeld) -> None:
        rng, world = self._rng, self._world
        parts = rng.randint(1, 3)
        low, high = rng.choices(((0.0, 0.02), (0.02, 0.3), (0.3, 1.0)), (2, 3, 2))[0]
        if world.is_healed:
            low, high = 0.0, 0.01
        length = rng.uniform(low, high) * self._client.session_timeout
        async with using_the_grace_period(world, rng):
            for _ in range(parts):
                if rng.random() < 0.1:
                    await held.verify()
                await anyio.sleep(length / parts)
                for line, each in zip(self._lines, held.holds, strict=True):
                    self._history.looked(line, self._who, each.token, held=each.is_held)
                if any(each.loss is not None for each in held.holds):
                    # Lost in the instant in which we woke; no other instant may come.
                    await anyio.sleep(0.001)
                    self._wrong("multi-loss", "goes on")
                held.check()

    async def look_for_rest(self) -> None:
        """After a refusal nothing is left. After a lost connection that takes a while."""
        session_id = self._client.session_id
        # The delete of a znode whose create was unanswered leaves when that is answered.
        for _ in range(2):
            await self._client.sync()
        if self._was_connected():
            paths = self._world.witness.owned(session_id)
            if rest := [path for path in paths if path.rpartition("/")[0] in LINES]:
                self._wrong("multi-none", f"was refused {self._lines}, and has {rest}")

    # --- what has happened -----------------------------------------------------------------------

    def _was_connected(self) -> bool:
        """Whether the session has not changed its state since the turn began."""
        events = self._history.events[self._since :]
        return not any(isinstance(e, Session) and e.contender == self._who for e in events)

    def _created(self) -> list[str]:
        """In which lines znodes of ours were created since the turn began, one after the other."""
        events = self._history.events[self._since :]
        told_of = [e for e in events if isinstance(e, Session) and e.contender == self._who]
        ours = {self._session_id, *(event.session_id for event in told_of)} - {0}
        created = [e for e in events if isinstance(e, NodeCreated) and e.owner in ours]
        return [event.path.rpartition("/")[0] for event in created]

    def _wrong(self, name: str, text: str) -> None:
        if self._process.is_alive:
            self._world.violation(name, f"{self._who} {text}")
