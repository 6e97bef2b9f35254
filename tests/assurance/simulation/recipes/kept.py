"""Znodes that exist as long as a block, in a world of faults.

* `keep`: processes that each keep one znode after the other: one with a name of its own, one whose
  name others want as well, a sequential one, one that is persistent. An operator deletes and
  overwrites them, above all just as a block ends.

These must hold:

    kept-set      what `set` has confirmed is there, as long as nobody else writes or deletes it
    kept-twice    there are never two of a sequential one
    kept-gone     after the healing there is exactly that one znode, with what was wanted last, and
                  its keeper knows it; nothing is left of those before it
    kept-left     once a block has been left, without a lost connection, nothing is there
    kept-others   what somebody else keeps is not deleted, unless it was made between the deletion
                  of ours by an operator and the news of that
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import (
    AcquireTimeout,
    ConnectFailed,
    ConnectionLossError,
    NoNodeError,
    SessionError,
)
from aiolead.model import CreateMode
from aiolead.testing.history.events import NodeCreated, NodeDeleted, Session
from aiolead.testing.simulation import KINDS, Fault, Process, World
from aiolead.testing.simulation.levers import Levers
from tests.assurance.simulation.programs import (
    alone,
    base_name,
    end_of_session,
    explored,
    start_each,
)

FOLDER = "/kept"
OPERATOR = b"by the operator"

MODES = {
    "own": CreateMode.EPHEMERAL,
    "shared": CreateMode.EPHEMERAL,
    "numbered": CreateMode.EPHEMERAL_SEQUENTIAL,
    "for-good": CreateMode.PERSISTENT,
}

LEFT_AMID = "left while its znode was being created again"
ANEW = "created again after somebody had deleted it"
ANOTHER_SESSION = "created again in another session"
WAITED = "waited for the end of somebody else's znode"


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    busy: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)  # by process: where its znode is
    asked: list[str] = field(default_factory=list)  # to be deleted at once
    news: anyio.Event = field(default_factory=anyio.Event)

    def tell(self) -> None:
        news, self.news = self.news, anyio.Event()
        news.set()


@explored(
    range(1000, 1012),
    range(12),
    reached=(
        "left while its znode was being created again",
        "created again after somebody had deleted it",
        "created again in another session",
        "waited for the end of somebody else's znode",
    ),
)
async def keep(world: World) -> None:
    """Two or three keepers, and an operator."""
    plan = Plan(world)
    count = world.rng("keep").choice((2, 3))
    plan.busy.update(start_each(world, "p", count, partial(keeper, plan)))
    world.start("operator", partial(operator, plan))
    if world.rng("trouble").random() < 0.7:
        await trouble(world)


async def trouble(world: World) -> None:
    """More of what matters here than a seed has: sessions end, answers to creates are lost."""
    rng, levers, history = world.rng("trouble"), Levers(world), world.history
    tau = world.schedule.session_timeout
    while not world.is_healed:
        with anyio.move_on_after(rng.uniform(0.1, 1.0) * tau):
            await world.healed()
            return
        kind = KINDS[rng.choice(("session-ended", "create-answer-lost", "create-answer-lost"))]
        target = f"p{rng.randrange(3)}"
        fault = Fault(number=0, kind=kind.name, start=world.now, duration=0.5 * tau, target=target)
        history.fault_began(kind.name, target, severe=kind.severe)
        undo = kind.act(levers, fault)
        with anyio.move_on_after(fault.duration):
            await world.healed()
        if undo is not None:
            undo()
        history.fault_ended(kind.name, target)


# --- the operator --------------------------------------------------------------------------------


async def operator(plan: Plan, process: Process) -> None:
    """Deletes the znodes that it is asked to; until the healing also others."""
    world, rng = plan.world, process.rng
    while plan.busy:
        with suppress(ConnectFailed, SessionError, ConnectionLossError, NoNodeError):
            async with world.client(process) as client:
                while plan.busy:
                    pause = rng.uniform(0.02, 0.6) * client.session_timeout
                    with anyio.move_on_after(pause) as waiting:
                        await plan.news.wait()
                    if plan.asked:
                        await client.delete(plan.asked.pop())
                    elif waiting.cancelled_caught and plan.kept and not world.is_healed:
                        path = rng.choice(sorted(plan.kept.values()))
                        if rng.random() < 0.6:
                            await client.delete(path)
                        else:
                            await client.set(path, OPERATOR)
        await anyio.sleep(0.001)


# --- keeping -------------------------------------------------------------------------------------


async def keeper(plan: Plan, process: Process) -> None:
    """Keeps one after the other over any number of clients; after the healing two more."""
    # A persistent one may be left by a process that was killed: its successor takes it over.
    left = [process.rng.choice(("own", "shared", "numbered")), "for-good"]
    await alone(
        plan.world, process, lambda client: one_after_the_other(plan, process, client, left)
    )
    plan.busy.discard(base_name(process))
    plan.tell()


async def one_after_the_other(
    plan: Plan, process: Process, client: aiolead.Client, left: list[str]
) -> None:
    world, rng, count = plan.world, process.rng, 0
    while left:
        is_last = world.is_healed
        kind = left[0] if is_last else rng.choice(tuple(MODES))
        count += 1
        block = _Block(plan, process, client, kind, f"{process.name}-{client.session_id:x}-{count}")
        with world.may_be_cancelled(process, FOLDER, process.name), suppress(AcquireTimeout):
            await block.keep(is_last=is_last)
            if is_last:
                left.pop(0)
        await end_of_session(client)
        pause = 0.001 if world.is_healed else rng.uniform(0.0, 0.2)
        await anyio.sleep(pause * client.session_timeout)


class _Block:
    """One znode that is kept."""

    def __init__(
        self, plan: Plan, process: Process, client: aiolead.Client, kind: str, name: str
    ) -> None:
        self._plan = plan
        self._world = plan.world
        self._history = plan.world.history
        self._process = process
        self._rng = process.rng
        self._client = client
        self._mode = MODES[kind]
        # No two blocks have the same, where it is numbered: all that are there are of this one.
        own = {"shared": "one", "numbered": f"{name}-"}.get(kind, base_name(process))
        self._path = f"{FOLDER}/{kind}-{own}"
        self._since = len(self._history.events)
        self._wanted = b""

    async def keep(self, *, is_last: bool) -> None:
        rng, world, plan = self._rng, self._world, self._plan
        wait = None if is_last else rng.choice((None, 1.0)) and rng.uniform(0.1, 1.5)
        if wait is not None:
            wait *= self._client.session_timeout
        owner = world.witness.owner(self._path)
        node = aiolead.PersistentNode(self._client, self._path, b"", mode=self._mode, timeout=wait)
        leaving = None
        try:
            async with node:
                if owner and owner != self._client.session_id:
                    self._history.reached(WAITED)
                plan.kept[self._process.name] = node.path
                try:
                    await self._stay(node, is_last=is_last)
                finally:
                    plan.kept.pop(self._process.name, None)
                    leaving = len(self._history.events), world.now
        finally:
            if leaving is not None and self._process.is_alive:
                self._look_after_leaving(node, *leaving)

    async def _stay(self, node: aiolead.PersistentNode, *, is_last: bool) -> None:
        rng, tau = self._rng, self._client.session_timeout
        for number in range(rng.randrange(1, 4)):
            self._wanted = f"{self._process.name} {number}".encode()
            await node.set(self._wanted)
            await self._look_after_set(node)
            if not is_last:
                low, high = rng.choice(((0.0, 0.05), (0.05, 0.5), (0.5, 1.5)))
                with anyio.move_on_after(rng.uniform(low, high) * tau):
                    await self._world.healed()
        if is_last:
            await self._until_right(node)
        if rng.random() < 0.5:
            # It is deleted, and created again; the block is left at any moment of that.
            self._plan.asked.append(node.path)
            self._plan.tell()
            schedule = self._world.schedule
            trip = 4 * (schedule.latency + schedule.peer_latency) * (1 + schedule.jitter)
            await anyio.sleep(rng.uniform(0.0, 1.5) * trip)

    # --- what is there -----------------------------------------------------------------------

    async def _look_after_set(self, node: aiolead.PersistentNode) -> None:
        client, there = self._client, self._there()
        if len(there) > 1:
            self._wrong("kept-twice", f"has {there}")
        with suppress(ConnectionLossError, NoNodeError):
            await client.sync(node.path)
            data, stat = await client.get(node.path)
            # Others may have written there: the operator, or a process before us, which was killed.
            # Where the name is shared, the znode may be another's by now.
            is_own = not data or data.startswith(f"{self._process.name} ".encode())
            is_own = is_own and stat.ephemeral_owner in (0, client.session_id)
            if is_own and data != self._wanted:
                self._wrong("kept-set", f"has set {self._wanted!r}, and {data!r} is there")

    async def _until_right(self, node: aiolead.PersistentNode) -> None:
        """Once nothing is broken any more, it is all as it should be, soon."""
        world, tau = self._world, self._client.session_timeout
        # A create that was given up is looked for twice, a session timeout apart.
        deadline = world.now + world.bounds().progress + tau
        while wrong := await self._what_is_wrong(node):
            if world.now > deadline:
                self._wrong("kept-gone", f"keeps {node!r}: {wrong}")
                return
            await anyio.sleep(tau / 50)

    async def _what_is_wrong(self, node: aiolead.PersistentNode) -> str:
        """In words; empty if nothing is."""
        client, witness = self._client, self._world.witness
        if not node.is_present:
            return "it is not present, its keeper says"
        owned = [path for path in witness.owned(client.session_id) if path.startswith(FOLDER)]
        if owned != ([] if self._mode is CreateMode.PERSISTENT else [node.path]):
            return f"{owned} are there"
        try:
            await client.sync(node.path)
            data, stat = await client.get(node.path)
        except (ConnectionLossError, NoNodeError) as error:
            return str(error)
        async for state in node:
            if (state.path, state.czxid) != (node.path, stat.czxid):
                return f"{state} is what its keeper says, and {stat} is there"
            break
        return "" if data == self._wanted else f"{data!r} is there, not {self._wanted!r}"

    def _look_after_leaving(self, node: aiolead.PersistentNode, position: int, at: float) -> None:
        world, history = self._world, self._history
        events = history.events[self._since :]
        told = [e for e in history.events if isinstance(e, Session)]
        sessions = {e.session_id for e in told if self._is_ours(e)} - {0}
        before: dict[str, NodeDeleted] = {}
        for event in events:
            if not isinstance(event, NodeDeleted) or not self._is_ours(event):
                continue
            last = before.get(event.path)
            before[event.path] = event
            # The keeper cannot know this before the news: its znode had gone, another had come.
            was_ours = last is not None and last.owner in sessions and last.by not in sessions
            if event.owner and event.by in sessions - {event.owner} and not was_ours:
                self._wrong("kept-others", f"has deleted {event}")
        made = [e for e in events if isinstance(e, NodeCreated) and self._is_ours(e)]
        owners = [event.owner for event in made if event.owner in sessions]
        if len(owners) > len(set(owners)):
            history.reached(ANEW)
        if len(set(owners)) > 1:
            history.reached(ANOTHER_SESSION)
        if any(isinstance(e, NodeCreated) and self._is_ours(e) for e in history.events[position:]):
            history.reached(LEFT_AMID)
        was_lost = any(isinstance(e, Session) and self._is_ours(e) for e in events)
        if was_lost or world.now - at > 0.99 * world.schedule.session_timeout / 3:
            return  # the client deletes it, as soon as it can
        if there := self._there():
            self._wrong("kept-left", f"has left {node!r}, and {there} is there")

    def _there(self) -> list[str]:
        """The znodes of this block that exist."""
        witness = self._world.witness
        if self._mode is CreateMode.PERSISTENT:
            return [self._path] if witness.owner(self._path) is not None else []
        owned = witness.owned(self._client.session_id)
        return [path for path in owned if path.startswith(self._path)]

    def _is_ours(self, event: NodeCreated | NodeDeleted | Session) -> bool:
        """Whether it concerns a znode of this block, or a session of this process."""
        if isinstance(event, Session):
            return event.contender == self._process.name
        return event.path.startswith(self._path)

    def _wrong(self, name: str, text: str) -> None:
        if self._process.is_alive:
            self._world.violation(name, f"{self._process.name} {text}")
