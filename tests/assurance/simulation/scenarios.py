"""Contenders that use locks and elections in all ways, in a world of faults.

Run by `test_schedules.py` for a minute, by `make soak` for as long as one likes:

* `contend`: processes contend in one or two lines, for a lock or an election with one or more
  places, by all the ways there are; some are cancelled, close their clients, or are killed. An
  observer's last word must become true.
* `crowd`: the same, with several contenders of each client in a line: they learn from each other.
* `lockset`: a register is read, changed and written under a lock: in a store that goes by fencing
  tokens, and in ZooKeeper by fenced writes. No update may be lost.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import anyio

import aiolead
from aiolead.errors import (
    AcquireTimeout,
    ConnectFailed,
    ConnectionLossError,
    Fenced,
    NodeExistsError,
    SessionError,
    TenureLost,
)
from aiolead.testing.history import RESIGNED
from aiolead.testing.simulation import Process, Turn, World, told
from aiolead.testing.simulation.turns import why_withdrawn
from tests.assurance.simulation.programs import (
    check_updates,
    end_of_session,
    explored,
    insist,
    length_of,
    over_clients,
    start_each,
    using_the_grace_period,
    way_in,
)

LOCK = "/lines/lock"
ELECTION = "/lines/election"
REGISTER = "/register"

LAYOUTS = (aiolead.types.Layout.CURATOR, aiolead.types.Layout.KAZOO)
"""A contender joins the first one without a look, and has to look at the second one before."""

LONGEST = 3.5
"""The longest that a program of a patient plan holds, in session timeouts."""


class Store:
    """A resource that refuses tokens smaller than the greatest it has seen."""

    def __init__(self) -> None:
        self.greatest = 0
        self.value = 0

    def accepts(self, token: int) -> bool:
        if token < self.greatest:
            return False
        self.greatest = token
        return True


@dataclass(slots=True)
class Plan:
    """The state that all contenders of a run share."""

    world: World
    lines: tuple[str, ...]
    leaders: int
    on_disconnect: Literal["keep", "resign"]
    layout: aiolead.types.Layout
    identity: str | None  # of everybody, where they do not have one each
    is_patient: bool  # whether some hold for longer than a session lasts
    each: int  # how many contenders a process has in each line
    stores: dict[str, Store] = field(default_factory=dict)
    busy: int = 0
    all_done: anyio.Event = field(default_factory=anyio.Event)

    def store(self, line: str) -> Store:
        return self.stores.setdefault(line, Store())


async def contend(world: World) -> None:
    """Two to four processes in one or two lines."""
    await _contend(world, 1)


@explored(range(1000, 1015), range(15))
async def crowd(world: World) -> None:
    """The same, with two or three contenders of each process in each line."""
    await _contend(world, world.rng("crowd").choice((2, 3)))


async def _contend(world: World, each: int) -> None:
    rng = world.rng("contend")
    lines = rng.choice(((LOCK,), (ELECTION,), (ELECTION,), (LOCK, ELECTION)))
    plan = Plan(
        world,
        lines,
        leaders=rng.choice((1, 1, 1, 2)),
        on_disconnect=rng.choices(("keep", "resign"), (5, 1))[0],
        layout=world.rng("layout").choices(LAYOUTS, (4, 1))[0],
        identity="the same" if world.rng("identity").random() < 0.25 else None,
        is_patient=world.rng("patience").random() < 0.4,
        each=each,
    )
    world.places[ELECTION] = plan.leaders
    if plan.is_patient:
        world.longest_turn = LONGEST * world.schedule.session_timeout
    if plan.on_disconnect == "resign":
        world.harmless_to_holds = -1.0  # a link that breaks costs the hold
    plan.busy = len(start_each(world, "p", rng.choice((2, 3, 3, 4)), partial(contender, plan)))
    if ELECTION in lines and rng.random() < 0.3:
        world.start("observer", partial(observer, plan))
    if world.rng("reader").random() < 0.15:
        world.start("reader", partial(reader, plan))


async def contender(plan: Plan, process: Process) -> None:
    """Takes turns in every line, over any number of clients; after the healing one more in each."""
    names = [(line, number) for line in plan.lines for number in range(plan.each)]
    await over_clients(
        plan.world, process, names, lambda client: partial(take_turns, plan, process, client)
    )
    plan.busy -= 1
    if not plan.busy:
        plan.all_done.set()


async def take_turns(
    plan: Plan, process: Process, client: aiolead.Client, name: tuple[str, int]
) -> None:
    world, rng = plan.world, process.rng
    line, number = name
    who = process.name if len(plan.lines) == 1 else f"{process.name}{line[line.rindex('/') :]}"
    if plan.each > 1:
        who = f"{process.name}/{line[line.rindex('/') + 1 :]}-{number}"
    identity = plan.identity or who
    options = {"layout": plan.layout, "on_disconnect": plan.on_disconnect}
    lock = aiolead.Lock(client, line, identity=identity, **options)
    election = aiolead.Election(client, line, identity=identity, leaders=plan.leaders, **options)
    while True:
        was_healed = world.is_healed
        turn = _OneTurn(plan, process, client, line, who)
        with (
            world.may_be_cancelled(process, line, who),
            suppress(AcquireTimeout, TenureLost, ConnectionLossError, Fenced),
        ):
            await (turn.lock(lock) if line == LOCK else turn.elect(election))
        if was_healed and turn.held:
            return
        if not world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.25) * client.session_timeout)
        else:
            await end_of_session(client)


class _OneTurn:
    """One turn, by one of the ways there are."""

    def __init__(
        self, plan: Plan, process: Process, client: aiolead.Client, line: str, who: str
    ) -> None:
        self.held = False
        self._plan = plan
        self._world = plan.world
        self._history = plan.world.history
        self._process = process
        self._client = client
        self._line = line
        self._who = who
        self._rng = process.rng

    def _turn(self, context: object, wait: float | None = None) -> Turn:
        return Turn(self._history, self._line, self._who, context, timeout=wait)

    async def lock(self, lock: aiolead.Lock) -> None:
        rng, tau = self._rng, self._client.session_timeout
        # When all has healed, everybody is to be served: nobody gives up.
        weights = (3, 2, 0, 0) if self._world.is_healed else (3, 2, 2, 1)
        async with self._turn(*way_in(rng, lock, tau, weights)) as held:
            if held is not None:
                await self._body(held)

    async def elect(self, election: aiolead.Election) -> None:
        rng, tau = self._rng, self._client.session_timeout
        weights = (4, 0, 2, 2) if self._world.is_healed else (4, 2, 2, 2)
        match rng.choices(("lead", "wait", "run", "campaign"), weights)[0]:
            case "lead":
                async with self._turn(election.leadership()) as term:
                    await self._body(term)
            case "wait":
                wait = rng.uniform(0.01, 1.5) * tau
                async with self._turn(election.leadership(timeout=wait), wait) as term:
                    await self._body(term)
            case "run":
                await self._run(election)
            case _:
                await self._campaign(election)

    async def _run(self, election: aiolead.Election) -> None:
        """Any number of terms."""
        history, line, who = self._history, self._line, self._who
        terms = self._rng.randint(1, 3)

        async def worker(term: aiolead.Term) -> None:
            nonlocal terms
            told(history, line, who, term)
            try:
                await self._body(term)
            finally:
                history.left(line, who, term.token, was_lost=term.loss is not None)
                history.joined(line, who)
                terms -= 1
                if terms <= 0 and self.held:
                    scope.cancel()

        with anyio.CancelScope() as scope:
            history.joined(line, who)
            try:
                await election.run(worker, pause=0)
            except BaseException as error:
                history.withdrew(line, who, why_withdrawn(error))
                raise

    async def _campaign(self, election: aiolead.Election) -> None:
        """Nothing is cancelled here when leadership is lost. The time of the report counts."""
        history, line, who = self._history, self._line, self._who
        leading: aiolead.Term | None = None
        waits = False

        def left(*, was_lost: bool) -> None:
            nonlocal leading
            if leading is not None:
                history.left(line, who, leading.token, was_lost=was_lost)
            leading = None

        async with election.campaign() as states:
            try:
                async for state in states:
                    term = state.term
                    if leading is not None and (
                        term is not leading or state.phase is aiolead.Phase.LOST
                    ):
                        left(was_lost=True)
                    if state.phase is aiolead.Phase.RESIGNED:
                        break
                    if leading is None and not waits and state.phase is not aiolead.Phase.LOST:
                        history.joined(line, who)
                        waits = True
                    is_new = state.phase is aiolead.Phase.LEADING and leading is None
                    # A state may be read late, by a process that was stopped: the clock decides.
                    if is_new and term is not None and term.is_held:
                        waits = False
                        leading = term
                        told(history, line, who, term, stubborn=True)
                        await self._act_as_leader(term)
                        if term.is_held or term.is_released:
                            self.held = True
                            break
            finally:
                # Before the context manager is left, which resigns.
                left(was_lost=leading is not None and leading.loss is not None)
                if waits:
                    history.withdrew(line, who, "left")

    async def _act_as_leader(self, term: aiolead.Term) -> None:
        for _ in range(self._rng.randint(1, 4)):
            await anyio.sleep(self._length() / 3)
            self._look(term)
            if not term.is_held:
                return
            self._act(term)
        if self._rng.random() < 0.4:
            self._history.stepped_down(self._line, self._who, term.token, RESIGNED)
            await term.resign()

    # --- what is done under a tenure -----------------------------------------------------------

    def _length(self) -> float:
        if self._world.is_healed:
            return self._rng.uniform(0.0, 0.02)
        spans, weights = ((0.0, 0.02), (0.02, 0.3), (0.3, 1.5)), (2, 3, 3)
        if self._plan.is_patient:
            spans, weights = ((0.0, 0.3), (0.3, 1.5), (1.5, LONGEST)), (2, 2, 3)
        return length_of(self._rng, spans, weights) * self._client.session_timeout

    def _look(self, tenure: aiolead.types.Tenure) -> None:
        self._history.looked(self._line, self._who, tenure.token, held=tenure.is_held)

    def _act(self, tenure: aiolead.types.Tenure) -> None:
        accepted = self._plan.store(self._line).accepts(tenure.token)
        self._history.acted(self._line, self._who, tenure.token, accepted=accepted)

    async def _body(self, tenure: aiolead.types.Tenure) -> None:
        try:
            async with using_the_grace_period(self._world, self._rng):
                self._act(tenure)
                await self._parts(tenure)
                self.held = True
        except anyio.get_cancelled_exc_class():
            self._look(tenure)
            self._act(tenure)
            raise

    async def _parts(self, tenure: aiolead.types.Tenure) -> None:
        rng = self._rng
        parts = rng.randint(1, 3)
        length = self._length()
        for _ in range(parts):
            match rng.choices(("sleep", "verify", "fenced", "resign"), (8, 1, 1, 0.5))[0]:
                case "verify":
                    await tenure.verify()
                case "fenced":
                    await self._write(tenure)
                case "resign":
                    self._history.stepped_down(self._line, self._who, tenure.token, RESIGNED)
                    await tenure.release()
                    return
            await anyio.sleep(length / parts)
            self._look(tenure)
            tenure.check()

    async def _write(self, tenure: aiolead.types.Tenure) -> None:
        path = f"{REGISTER}-{self._line.rpartition('/')[2]}"
        with suppress(NodeExistsError):
            await self._client.create(path)
        await tenure.fenced().set(path, str(tenure.token).encode())
        content, stat = await self._client.get(path)
        reader = f"{self._process.name}/{self._client.session_id:x}"
        self._history.read(reader, path, content.decode(), zxid=stat.mzxid)


# --- observing -----------------------------------------------------------------------------------


async def observer(plan: Plan, process: Process) -> None:
    """Its last word must become true: when everybody has left, that nobody leads."""
    world = plan.world
    last_word = "the last word of the observer"

    async def work(client: aiolead.Client) -> bool:
        election = aiolead.Election(client, ELECTION, leaders=plan.leaders, layout=plan.layout)
        async with election.observe() as states:
            await plan.all_done.wait()
            world.history.began(process.name, last_word, world.bounds().progress)
            async for state in states:
                if not state.leaders and state.is_current:
                    world.history.ended(process.name, last_word)
                    return True
        return False

    await insist(world, process, work, expected=(ConnectFailed,))


async def reader(plan: Plan, process: Process) -> None:
    """Looks at a line again and again: it never reads an older state after a newer one."""
    world, line = plan.world, plan.lines[0]

    async def work(client: aiolead.Client) -> bool:
        who = f"{process.name}/{client.session_id:x}"
        while not plan.all_done.is_set():
            with suppress(ConnectionLossError, SessionError):
                stat = await client.exists(line)
                if stat is not None and who.endswith(f"/{client.session_id:x}"):
                    world.history.read(who, line, stat.num_children, zxid=stat.pzxid)
            await anyio.sleep(client.session_timeout / 20)
        return True

    await insist(world, process, work, expected=(ConnectFailed,))


# --- updates -------------------------------------------------------------------------------------


async def lockset(world: World) -> None:
    """Registers that are read, changed and written under a lock."""
    updates = Updates(world)
    updates.busy = len(start_each(world, "p", 3, updates.program))


class Updates:
    """Two registers, and the updates of them."""

    def __init__(self, world: World) -> None:
        self.busy = 0
        self._world = world
        self._store = Store()
        self._acknowledged: set[str] = set()
        self._attempted: set[str] = set()
        self._done = anyio.Event()

    async def program(self, process: Process) -> None:
        async def work(client: aiolead.Client) -> bool:
            await self._take_turns(process, client)
            await self._look(client)
            return True

        await insist(self._world, process, work, expected=(ConnectFailed,))

    async def _take_turns(self, process: Process, client: aiolead.Client) -> None:
        world, rng = self._world, process.rng
        lock = aiolead.Lock(client, LOCK, identity=process.name)
        count = 0
        while True:
            was_healed = world.is_healed
            served = False
            with (
                world.may_be_cancelled(process, LOCK, process.name),
                suppress(TenureLost, ConnectionLossError, Fenced, NodeExistsError),
            ):
                async with Turn(world.history, LOCK, process.name, lock.acquire()) as held:
                    await self._update_store(process, held)
                    count += 1
                    await self._update_znode(process, client, held, f"{process.name}-{count}")
                    served = True
            if was_healed and served:
                return
            if not world.is_healed:
                await anyio.sleep(rng.uniform(0.0, 0.3))

    def _pause(self, process: Process) -> float:
        if self._world.is_healed:
            return 0.001
        tau = self._world.schedule.session_timeout
        return process.rng.choice((0.0, 0.01, 0.2, 0.6)) * tau * process.rng.random()

    async def _update_store(self, process: Process, held: aiolead.Held) -> None:
        history, store, token = self._world.history, self._store, held.token
        if store.accepts(token):
            value = store.value
            history.read(process.name, "store", value, token=token)
            await anyio.sleep(self._pause(process))
            accepted = store.accepts(token)
            if accepted:
                store.value = value + 1
            history.wrote(process.name, "store", value + 1, token=token, accepted=accepted)

    async def _update_znode(
        self, process: Process, client: aiolead.Client, held: aiolead.Held, name: str
    ) -> None:
        try:
            content, _ = await client.get(REGISTER)
        except aiolead.NoNodeError:
            await client.create(REGISTER)
            content = b""
        names = content.decode().split()
        await anyio.sleep(self._pause(process))
        self._attempted.add(name)
        await held.fenced().set(REGISTER, " ".join([*names, name]).encode())
        self._acknowledged.add(name)

    async def _look(self, client: aiolead.Client) -> None:
        """When everybody has finished: is every update there that was acknowledged?"""
        self.busy -= 1
        if self.busy == 0:
            self._done.set()
        await self._done.wait()
        while True:
            try:
                await client.sync(REGISTER)
                content, _ = await client.get(REGISTER)
            except ConnectionLossError:
                continue
            break
        found = content.decode().split()
        check_updates(self._world, "lock-set", found, self._attempted, self._acknowledged)
