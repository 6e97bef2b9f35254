"""Readers and writers in a world of faults.

* `share`: processes read and write under one lock, by all the ways there are, and downgrade.

These must hold, besides the invariants of everything that is held (where a writer is never with
anybody, and readers share):

    rw-changed    what readers see does not change while they hold, by the servers' own order
    rw-lost       no update that a writer has made is lost
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio

import aiolead
from aiolead.errors import (
    AcquireTimeout,
    ConnectFailed,
    ConnectionLossError,
    Fenced,
    NodeExistsError,
    NoNodeError,
    SessionError,
    TenureLost,
)
from aiolead.testing.simulation import Process, World
from aiolead.testing.simulation.turns import Observed, why_withdrawn
from tests.assurance.simulation.programs import (
    alone,
    check_updates,
    end_of_session,
    explored,
    insist,
    length_of,
    start_each,
    way_in,
)

LINE = "/lines/shared"
REGISTER = "/register"


class Plan:
    """The state that all programs of a run share."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.layout = world.rng("layout").choices(
            (aiolead.types.Layout.CURATOR, aiolead.types.Layout.KAZOO), (4, 1)
        )[0]
        self.attempted: set[str] = set()
        self.acknowledged: set[str] = set()
        self.busy = 0
        self.done = anyio.Event()


@explored([*range(6), *range(1000, 1006)], [*range(6, 12), *range(1006, 1012)])
async def share(world: World) -> None:
    """Three or four processes that read and write a register."""
    # Readers come in together, however many they are, and are all woken by one departure.
    world.places[LINE] = 1000
    plan = Plan(world)
    count = world.rng("share").choice((3, 4))
    plan.busy = len(start_each(world, "p", count, partial(program, plan)))


async def program(plan: Plan, process: Process) -> None:
    served: set[str] = set()
    await alone(plan.world, process, lambda client: take_turns(plan, process, client, served))
    plan.busy -= 1
    if not plan.busy:
        plan.done.set()
    await look_at_the_end(plan, process)


async def take_turns(
    plan: Plan, process: Process, client: aiolead.Client, served: set[str]
) -> None:
    world, rng = plan.world, process.rng
    while served != {"read", "write"}:
        was_healed = world.is_healed
        turn = _OneTurn(plan, process, client)
        mode = rng.choice(("read", "read", "write"))
        with (
            world.may_be_cancelled(process, LINE, process.name),
            suppress(AcquireTimeout, TenureLost, ConnectionLossError, Fenced, NodeExistsError),
        ):
            await turn.take(mode)
        if was_healed and turn.held:
            served.add(mode)
        await end_of_session(client)
        if not world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.25) * client.session_timeout)


class _OneTurn:
    """One turn, to read or to write."""

    def __init__(self, plan: Plan, process: Process, client: aiolead.Client) -> None:
        self.held = False
        self._plan = plan
        self._world = plan.world
        self._history = plan.world.history
        self._who = process.name
        self._client = client
        self._rng = process.rng
        self._lock = aiolead.ReadWriteLock(client, LINE, identity=process.name, layout=plan.layout)
        self._token = 0

    async def take(self, mode: str) -> None:
        rng, tau = self._rng, self._client.session_timeout
        side = self._lock.read if mode == "read" else self._lock.write
        weights = (5, 0, 0, 0) if self._world.is_healed else (5, 0, 2, 1)
        context, wait = way_in(rng, side, tau, weights)
        self._history.joined(LINE, self._who, wait=wait)
        is_in = False
        try:
            async with context as held:
                if held is None:
                    self._history.withdrew(LINE, self._who, "taken")
                    return
                is_in = True
                async with self._told(held, mode, held.token):
                    if isinstance(held, aiolead.types.WriteHeld):
                        await self._write(held)
                    else:
                        await self._read(held, held.token)
                    self.held = True
                if isinstance(held, aiolead.types.WriteHeld) and rng.random() < 0.5:
                    # In between it is both, and neither, as far as others can tell.
                    await held.downgrade()
                    token = held._place.znodes[-1].node.token
                    async with self._told(held, "read", token):
                        await self._read(held, token)
        except BaseException as error:
            if not is_in:
                self._history.withdrew(LINE, self._who, why_withdrawn(error))
            raise

    @asynccontextmanager
    async def _told(self, held: aiolead.Held, mode: str, token: int) -> AsyncIterator[None]:
        """Has the history know of a hold, and of its loss."""
        history, who, body = self._history, self._who, held._body

        def on_lost() -> None:
            history.stepped_down(LINE, who, token, "" if held.loss is None else held.loss.value)

        history.entered(LINE, who, token, path=held.path, session_id=held.session_id, mode=mode)
        held._body = Observed(body, on_lost)
        try:
            yield
        finally:
            held._body = body
            history.left(LINE, who, token, was_lost=held.loss is not None)

    def _length(self) -> float:
        if self._world.is_healed:
            return self._rng.uniform(0.0, 0.02)
        spans, weights = ((0.0, 0.02), (0.02, 0.3), (0.3, 1.5)), (2, 3, 3)
        return length_of(self._rng, spans, weights) * self._client.session_timeout

    async def _read(self, held: aiolead.Held, token: int) -> None:
        """The content must not change as long as it holds."""
        before = await self._content(held)
        await anyio.sleep(self._length())
        self._history.looked(LINE, self._who, token, held=held.is_held)
        held.check()
        after = await self._content(held)
        # The quorum says that it was still held when it was read again.
        await held.verify()
        if before != after:
            self._world.violation("rw-changed", f"{self._who} saw {before!r}, then {after!r}")

    async def _write(self, held: aiolead.types.WriteHeld) -> None:
        content = await self._content(held)
        await anyio.sleep(self._length())
        self._history.looked(LINE, self._who, held.token, held=held.is_held)
        held.check()
        name = f"{self._who}-{held.token}"
        self._plan.attempted.add(name)
        if content is None:
            await held.fenced().create(REGISTER, name.encode())
        else:
            await held.fenced().set(REGISTER, " ".join([*content.split(), name]).encode())
        self._plan.acknowledged.add(name)

    async def _content(self, held: aiolead.Held) -> str | None:
        await held.verify()  # this server has what the writer before us has written
        try:
            return (await self._client.get(REGISTER))[0].decode()
        except NoNodeError:
            return None


async def look_at_the_end(plan: Plan, process: Process) -> None:
    """When everybody has finished: is every update there that was acknowledged?"""
    names: list[str] = []

    async def look(client: aiolead.Client) -> bool:
        await client.sync(REGISTER)
        names[:] = (await client.get(REGISTER))[0].decode().split()
        return True

    await plan.done.wait()
    expected = (ConnectFailed, SessionError, ConnectionLossError)
    await insist(plan.world, process, look, expected=expected, pause=0.01)
    check_updates(plan.world, "rw-lost", names, plan.attempted, plan.acknowledged)
