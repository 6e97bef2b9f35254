"""Holds that others ask about or lay hands on, in a world of faults.

Each of these runs one recipe of those in `RECIPES`, which the seed chooses:

* `threads`: other threads ask about the holds of two or three processes at any step of their event
  loops, also while these are blocked; and so do forked children.
* `hostile`: somebody forges znodes beside the contenders, or deletes theirs; and the answers to
  creates are lost.
* `share_session`: a process continues the session of another one, which is alive, partitioned or
  dead, and contends for the same. `close_shared`: and closes it as it leaves.

The invariants are those of everything that is held; I24 to I26 are about what others do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

import anyio

import aiolead
from aiolead import (
    Condition,
    Election,
    ExclusiveLock,
    Lock,
    ReadWriteLock,
    Semaphore,
    UniqueNames,
)
from aiolead.errors import AioleadError, ConnectFailed, SessionError, UsageError
from aiolead.model import SessionCredentials
from aiolead.testing.simulation import Process, Turn, World
from aiolead.testing.simulation.forks import Children
from aiolead.testing.simulation.intruder import Intruder
from aiolead.testing.simulation.threads import OtherThreads
from aiolead.types import Layout
from tests.assurance.simulation.programs import (
    end_of_session,
    explored,
    length_of,
    start_each,
    using_the_grace_period,
)

PERMITS = 2


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to hold something.

    Attributes:
        line: its line, as the invariants know it: the parent of the znodes, or the one znode.
        make: makes the recipe, for a client and an identity.
        parents: where its znodes are; below its line by default.
        fixed: names below the parents that mean something to it.
        places: how many may hold at once.
        acquire: acquires it within so many seconds.
    """

    line: str
    make: Callable[[aiolead.Client, str], Any]
    parents: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    places: int = 1
    acquire: Callable[[Any, float | None], Any] = lambda it, wait: it.acquire(timeout=wait)

    @property
    def folders(self) -> tuple[str, ...]:
        return self.parents or (self.line,)


RECIPES: dict[str, Recipe] = {
    "lock": Recipe("/lines/lock", lambda it, who: Lock(it, "/lines/lock", identity=who)),
    "kazoo": Recipe(
        "/lines/lock", lambda it, who: Lock(it, "/lines/lock", identity=who, layout=Layout.KAZOO)
    ),
    "election": Recipe(
        "/lines/election",
        lambda it, who: Election(it, "/lines/election", identity=who),
        acquire=lambda it, wait: it.leadership(timeout=wait),
    ),
    "shared": Recipe(
        "/lines/shared",
        lambda it, who: ReadWriteLock(it, "/lines/shared", identity=who),
        places=1000,
    ),
    "semaphore": Recipe(
        "/licences/leases",
        lambda it, who: Semaphore(it, "/licences", PERMITS, identity=who),
        ("/licences/leases", "/licences/locks", "/licences"),
        ("limit",),
        PERMITS,
    ),
    "exclusive": Recipe(
        "/names/w-0",
        lambda it, who: ExclusiveLock(it, "/names/w-0", identity=who),
        ("/names",),
        ("w-0",),
    ),
    "names": Recipe(
        "/names/w-0",
        lambda it, who: UniqueNames(it, "/names", identity=who),
        ("/names",),
        ("w-0",),
        acquire=lambda it, wait: it.claim("w", most=1, timeout=wait),
    ),
}
"""The seed chooses among these. Later recipes get a table of their own, so that seeds keep their
meaning."""

LATER: dict[str, Recipe] = {
    "kazoo's semaphore": Recipe(
        "/permits",
        lambda it, who: Semaphore(it, "/permits", PERMITS, identity=who, layout=Layout.KAZOO),
        places=PERMITS,
    ),
    "condition": Recipe(
        "/lines/condition/lock", lambda it, who: Condition(it, "/lines/condition", identity=who)
    ),
}


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    recipe: Recipe
    threads: OtherThreads | None = None
    children: Children | None = None
    shares: bool = False
    closes: bool = False
    credentials: list[SessionCredentials] = field(default_factory=list)
    """Those of sessions that others may continue, the latest ones last."""

    @classmethod
    def of(cls, world: World) -> Plan:
        recipe = RECIPES[world.rng("recipe").choice(sorted(RECIPES))]
        later = world.rng("later")
        if later.random() < 0.25:
            recipe = LATER[later.choice(sorted(LATER))]
        world.places[recipe.line] = recipe.places
        return cls(world, recipe)


# --- contenders ----------------------------------------------------------------------------------


async def contender(plan: Plan, process: Process) -> None:
    """Takes turns over any number of clients; after the healing one more."""
    served = False
    while not served:
        resumed = await session_to_resume(plan, process)
        # The contender is around the client, so that it may be closed under it.
        async with anyio.create_task_group() as tasks:
            with suppress(ConnectFailed, SessionError):
                async with plan.world.client(process, resume=resumed) as client:
                    is_shared = plan.shares and (resumed is not None or not plan.world.is_healed)
                    if is_shared:
                        share(plan, client, is_own=resumed is None)
                    with anyio.CancelScope() as online:

                        async def turns(
                            client: aiolead.Client = client, online: anyio.CancelScope = online
                        ) -> None:
                            nonlocal served
                            try:
                                await take_turns(plan, process, client)
                                served = True
                            except SessionError:
                                pass  # the client was closed
                            finally:
                                online.cancel()

                        tasks.start_soon(turns)
                        if is_shared:
                            tasks.start_soon(leave_shared, plan, process, resumed, online)
                        await plan.world.asked_to_close(process)
            if not served:
                await anyio.sleep(process.rng.uniform(0.0, 0.1))
            tasks.cancel_scope.cancel()


async def session_to_resume(plan: Plan, process: Process) -> SessionCredentials | None:
    """One that another process has, or had; the first process has its own."""
    if not plan.shares or process.name.startswith("p0"):
        return None
    world, rng = plan.world, process.rng
    with anyio.move_on_after(rng.uniform(0.0, 1.0) * world.schedule.session_timeout):
        await world.healed()
    if world.is_healed or not plan.credentials or rng.random() < 0.1:
        return None
    return rng.choice(plan.credentials[-2:])


def share(plan: Plan, client: aiolead.Client, *, is_own: bool) -> None:
    """Lets others continue a session; it outlives this client, unless the scenario is about that.

    A client that closes a session ends the holds of all others in it.
    """
    with suppress(UsageError):
        if is_own:
            plan.credentials.append(client.credentials)
        if not plan.closes:
            client.detach()


async def leave_shared(
    plan: Plan,
    process: Process,
    resumed: SessionCredentials | None,
    online: anyio.CancelScope,
) -> None:
    """Leaves a continued session after a while, and any when the world heals.

    The znodes of others in a session block the queue for as long as a client continues it.
    """
    world, rng = plan.world, process.rng
    seconds = rng.choice((0.5, 2.0, 5.0)) * rng.random() * world.schedule.session_timeout
    with anyio.move_on_after(seconds if resumed is not None else inf):
        await world.healed()
    online.cancel()


async def take_turns(plan: Plan, process: Process, client: aiolead.Client) -> None:
    world, rng, who = plan.world, process.rng, process.name
    while True:
        was_healed = world.is_healed
        held = False
        with world.may_be_cancelled(process, plan.recipe.line, who):
            try:
                await once(plan, process, client)
                held = True
            except SessionError:
                raise
            except AioleadError:
                pass
        if was_healed and held:
            return
        if not world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.25) * client.session_timeout)
        else:
            await end_of_session(client)
            await anyio.sleep(0.01)


async def once(plan: Plan, process: Process, client: aiolead.Client) -> None:
    """A turn, told to the history, which others may ask about."""
    world, rng, who, recipe = plan.world, process.rng, process.name, plan.recipe
    history = world.history
    wait = None
    # When all has healed, everybody is to be served: nobody gives up.
    if not world.is_healed and rng.random() < 0.3:
        wait = rng.uniform(0.01, 1.5) * client.session_timeout
    thing, mode = recipe.make(client, who), ""
    if isinstance(thing, ReadWriteLock):
        mode = rng.choice(("read", "write"))
        thing = thing.read if mode == "read" else thing.write
    context = recipe.acquire(thing, wait)
    async with Turn(history, recipe.line, who, context, timeout=wait, mode=mode) as held:
        assert held is not None
        token = held.token
        history.callback_added(recipe.line, who, token)
        held.add_lost_callback(partial(history.callback_called, recipe.line, who, token))
        if plan.threads is not None:
            plan.threads.look_at(process, recipe.line, who, held, client)
        if plan.children is not None:
            plan.children.look_at(process, recipe.line, who, held, client)
        await body(plan, process, held)


async def body(plan: Plan, process: Process, held: aiolead.types.Tenure) -> None:
    world, rng = plan.world, process.rng
    length = rng.uniform(0.0, 0.02)
    if not world.is_healed:
        spans = ((0.0, 0.02), (0.02, 0.3), (0.3, 1.5), (1.0, 3.0))
        length = length_of(rng, spans) * world.schedule.session_timeout
    async with using_the_grace_period(world, rng):
        parts = rng.choice((1, 1, 3))
        for _ in range(parts):
            await anyio.sleep(length / parts)
            is_held = held.is_held
            world.history.looked(plan.recipe.line, process.name, held.token, held=is_held)
            held.check()


# --- other threads, and forked children ----------------------------------------------------------


@explored(range(8), range(8), faults=1)
async def threads(world: World) -> None:
    """Two or three processes, whose other threads and children ask whether they hold."""
    rng = world.rng("threads of")
    plan = Plan.of(world)
    start_each(world, "p", rng.choice((2, 3)), partial(contender, plan))
    plan.threads = OtherThreads(world, blocks=rng.random() < 0.6)
    world.start("threads", plan.threads.run)
    if rng.random() < 0.2:
        plan.children = Children(world)
        world.start("children", plan.children.run)


# --- a hostile writer ----------------------------------------------------------------------------


@explored(range(8), range(8), faults=1)
async def hostile(world: World) -> None:
    """Two or three processes, and a writer that forges znodes beside theirs."""
    rng = world.rng("hostile")
    plan = Plan.of(world)
    count = rng.choice((2, 3))
    start_each(world, "p", count, partial(contender, plan))
    recipe = plan.recipe
    intruder = Intruder(world, recipe.folders, fixed=recipe.fixed, deletes=rng.random() < 0.3)
    world.start("intruder", intruder.run)
    world.start("gremlin", partial(gremlin, world, LOSSES, count))


LOSSES = ("create-answer-lost", "create-skipped", "create-swallowed", "link-reset")
CUTS = ("link-stalled", "link-half-open", "link-silent-up", "link-silent-down", "link-slow")


async def gremlin(world: World, kinds: tuple[str, ...], count: int, process: Process) -> None:
    """Does some kinds of faults to some processes, again and again."""
    rng, tau = process.rng, world.schedule.session_timeout
    while not world.is_healed:
        await anyio.sleep(rng.uniform(0.0, 0.3) * tau)
        world.harm(
            rng.choice(kinds),
            f"p{rng.randrange(count)}",
            duration=rng.uniform(0.05, 1.2) * tau,
            amount=rng.random(),
        )


# --- a session that is shared --------------------------------------------------------------------


# These seeds are among those that found something when the scenario was new.
@explored(range(10, 24), range(10, 24), faults=1)
async def share_session(world: World) -> None:
    """Two or three processes, each of which may continue the session of another one."""
    _share(world, closes=False)


@explored(range(6), range(6), faults=1)
async def close_shared(world: World) -> None:
    """The same, and they close the sessions that they share as they leave."""
    _share(world, closes=True)


def _share(world: World, *, closes: bool) -> None:
    rng = world.rng("share_session")
    # I13: two processes with one session take the connection from each other. I7: a process may
    # continue a session that its last client had lost, to a leader without a quorum.
    world.skip |= {"I7", "I13"}
    plan = Plan.of(world)
    plan.shares, plan.closes = True, closes
    count = rng.choice((2, 3))
    start_each(world, "p", count, partial(contender, plan))
    if rng.random() < 0.7:
        world.start("gremlin", partial(gremlin, world, (*CUTS, "process-killed"), count))
