"""One znode that several tasks of each client want, by different recipes, in a world of faults.

* `one_znode`: the tasks claim it as an exclusive lock or as a unique name, give up and are
  cancelled at random; now and then a task keeps a znode there as such. Of each client they come and
  go in the same moments.

Besides the invariants of everything that is held, I26 is about it: no client deletes the znode of
another one, and no hold is lost as deleted by nobody.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

import aiolead
from aiolead.errors import AioleadError, ConnectFailed, SessionError
from aiolead.testing.simulation import Process, Turn, World
from tests.assurance.simulation.programs import end_of_session, explored, start_each

ZNODE = "/names/w-0"


def contend(client: aiolead.Client, kind: str, who: str, wait: float | None) -> Any:
    """A context that holds the znode."""
    if kind == "exclusive":
        return aiolead.ExclusiveLock(client, ZNODE, identity=who).acquire(timeout=wait)
    return aiolead.UniqueNames(client, "/names", identity=who).claim("w", most=1, timeout=wait)


async def cancel_when_healed(world: World, scope: anyio.CancelScope) -> None:
    await world.healed()
    scope.cancel()


class OneZnode:
    """Several tasks of each client, and one znode that all of them want."""

    def __init__(self, world: World) -> None:
        self.world = world
        rng = world.rng("one_znode")
        self.kinds = rng.choice((("exclusive",), ("names",), ("exclusive", "names")))
        self.keeps = rng.random() < 0.3
        self.tasks = rng.choice((2, 2, 3))
        self.waiting: dict[str, dict[anyio.CancelScope, None]] = {}
        """The waiting tasks, by process: they may be cancelled as another one leaves."""
        self.leaving: dict[str, anyio.Event] = {}
        """Set as another task of the process joins: then its holder leaves, too."""

    async def program(self, process: Process) -> None:
        served: set[int] = set()
        while len(served) < self.tasks:
            async with anyio.create_task_group() as tasks:
                with suppress(ConnectFailed, SessionError):
                    async with self.world.client(process) as client:
                        await self._over(process, client, served, tasks)
                if len(served) < self.tasks:
                    await anyio.sleep(process.rng.uniform(0.0, 0.1))
                tasks.cancel_scope.cancel()

    async def _over(
        self, process: Process, client: aiolead.Client, served: set[int], tasks: TaskGroup
    ) -> None:
        with anyio.CancelScope() as online:
            left = set(range(self.tasks)) - served

            async def one(number: int) -> None:
                with suppress(SessionError):
                    await self._take_turns(process, client, number)
                    served.add(number)
                left.discard(number)
                if not left:
                    online.cancel()

            for number in sorted(left):
                tasks.start_soon(one, number)
            if self.keeps and not self.world.is_healed:
                tasks.start_soon(self._keep, process, client)
            await self.world.asked_to_close(process)

    async def _take_turns(self, process: Process, client: aiolead.Client, number: int) -> None:
        world, rng = self.world, process.rng
        who = f"{process.name}/{number}"
        while True:
            was_healed = world.is_healed
            held = False
            with world.may_be_cancelled(process, ZNODE, who):
                try:
                    held = await self._once(process, client, who)
                except SessionError:
                    raise
                except AioleadError:
                    pass
            if was_healed and held:
                return
            await end_of_session(client)
            pause = rng.choice((0.0, 0.01, 0.3)) * client.session_timeout
            await anyio.sleep(0.01 if world.is_healed else rng.uniform(0.0, pause))

    async def _once(self, process: Process, client: aiolead.Client, who: str) -> bool:
        """A turn that may be given up while it waits, as a task of the same process leaves."""
        world, rng, history = self.world, process.rng, self.world.history
        waiting = self.waiting.setdefault(process.name, {})
        kind = rng.choice(self.kinds)
        wait = None
        if not world.is_healed and rng.random() < 0.4:
            wait = rng.choice((0.02, 0.3, 1.0)) * rng.random() * client.session_timeout
        context = contend(client, kind, process.name, wait)
        if process.name in self.leaving:
            self._have_leave(process)
        with anyio.CancelScope() as scope:
            waiting[scope] = None
            try:
                async with Turn(history, ZNODE, who, context, timeout=wait) as held:
                    waiting.pop(scope)
                    assert held is not None
                    await self._body(process, held)
                    others = list(waiting)
                    if others and not world.is_healed and rng.random() < 0.6:
                        delay = rng.choice((0.0, 2.0, 6.0)) * self._trip * rng.random()
                        world.timeline.after(delay, partial(self._cancel, rng.choice(others)))
                return True
            finally:
                waiting.pop(scope, None)
        return False

    @property
    def _trip(self) -> float:
        """How long an answer to a write takes, about."""
        return 2 * self.world.schedule.latency + 2 * self.world.schedule.peer_latency

    def _have_leave(self, process: Process) -> None:
        """Has the holder leave while another task of its process looks whether it does.

        Now and then their loop is busy just then, so that both get their answers at once.
        """
        world, rng, event = self.world, process.rng, self.leaving[process.name]
        busy = rng.uniform(1.0, 3.0) * self._trip if rng.random() < 0.5 else 0.0
        steps = rng.randint(1, 12)

        def leave() -> None:
            if busy and not world.is_healed:
                world.block(process, busy, after=steps)
            event.set()

        world.timeline.after(rng.choice((0.0, 2.0)) * self._trip * rng.random(), leave)

    def _cancel(self, scope: anyio.CancelScope) -> None:
        for waiting in self.waiting.values():
            if scope in waiting:
                scope.cancel()

    async def _body(self, process: Process, held: aiolead.types.Tenure) -> None:
        world, rng = self.world, process.rng
        length = rng.uniform(0.0, 0.01)
        if not world.is_healed:
            length = rng.choice((0.0, 0.02, 0.2)) * rng.random() * world.schedule.session_timeout
        leaving = anyio.Event()
        if rng.random() < 0.6:
            self.leaving[process.name] = leaving
        with anyio.move_on_after(length):
            await leaving.wait()
        held.check()

    async def _keep(self, process: Process, client: aiolead.Client) -> None:
        """Has a znode exist at that path, now and then, until the world has healed."""
        world, rng = self.world, process.rng
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_when_healed, world, scope)
                while True:
                    await anyio.sleep(rng.uniform(0.0, 0.5) * client.session_timeout)
                    wait = rng.uniform(0.0, 0.5) * client.session_timeout
                    data = rng.choice((process.name.encode(), b"kept"))
                    with suppress(AioleadError):
                        async with aiolead.PersistentNode(client, ZNODE, data, timeout=wait):
                            await anyio.sleep(rng.uniform(0.0, 0.2) * client.session_timeout)
                    if client.state.is_final:
                        return


# These seeds are among those that found something when the scenario was new.
@explored(range(14, 20), range(14, 20), faults=1)
async def one_znode(world: World) -> None:
    """Two or three processes, with several tasks each, that want one znode."""
    plan = OneZnode(world)
    world.places[ZNODE] = 1
    start_each(world, "p", world.rng("one_znode of").choice((2, 3)), plan.program)
