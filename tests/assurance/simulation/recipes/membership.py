"""Members of a group, and work that they share, in a world of faults.

* `group`: members that join, update their data and leave, by name; an operator that throws them
  out. An observer must be right in the end, by value and by changes. A confirmed update must be
  there.
* `services`: instances that are registered, publish their load and drain. In the end each process
  that lives is seen by all others, with its last load, and requests go to those that want them.
* `partition`: items that are split over processes that come and go. Never are there two owners, as
  the history's invariants have it; after the healing all items are owned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio

import aiolead
from aiolead.errors import (
    AcquireTimeout,
    ConnectionLossError,
    NoNodeError,
    SessionError,
)
from aiolead.testing.simulation import Process, World, told
from tests.assurance.simulation.programs import (
    alone,
    base_name,
    end_of_session,
    explored,
    start_each,
)

GROUP = "/group"
WORK = "/work"
ITEMS = [f"item-{number}" for number in range(4)]

Body = Callable[[Process, aiolead.Client], Awaitable[None]]


async def over_one(process: Process, body: Body, client: aiolead.Client) -> None:
    """Runs a body over one client; the task groups of the body wrap the error of a closed one."""
    try:
        await body(process, client)
    except BaseExceptionGroup as group:
        # On trio, one that has the cancellation, too, if the process ends at this moment.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise (group.split(SessionError)[1] or error) from None


async def over_all_clients(world: World, body: Body, process: Process) -> None:
    await alone(world, process, partial(over_one, process, body))


# --- a group -------------------------------------------------------------------------------------


class Members:
    """The state of the group in the end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: set[str] = set()
        self.settled: dict[str, bytes] = {}
        """The data of the members that have done their last update."""
        self.looking = 0
        self.all_have_looked = anyio.Event()

    @property
    def are_settled(self) -> bool:
        return set(self.settled) == self.names


FOUND = [*range(1033, 1044), 1058]
"""Seeds on asyncio; 1033 and 1058 have each found a bug."""


@explored(FOUND, range(12))
async def group(world: World) -> None:
    """Three members, some of which look on, one who only looks on, and an operator."""
    world.requests_per_change = 5.0  # one that looks on reads all members again
    plan = Members(world)
    program = partial(over_all_clients, world, partial(member, plan))
    plan.names.update(start_each(world, "m", 3, program))
    plan.looking += world.start(
        "observer", partial(over_all_clients, world, partial(observer, plan))
    )
    if not plan.looking:
        plan.all_have_looked.set()
    if world.rng("operator").random() < 0.5:
        world.start("operator", partial(over_all_clients, world, partial(operator, plan)))


async def member(plan: Members, process: Process, client: aiolead.Client) -> None:
    world, rng, name = plan.world, process.rng, base_name(process)
    members = aiolead.Group(client, GROUP)
    count = 0
    while True:
        was_healed = world.is_healed
        with world.may_be_cancelled(process, GROUP, process.name):
            with suppress(AcquireTimeout):
                # That of the process before this one may be there for a while.
                wait = None if was_healed else rng.choice((None, 1.0)) and rng.uniform(0.1, 5.0)
                async with members.join(b"0", identity=name, timeout=wait) as membership:
                    for _ in range(rng.randrange(1, 4)):
                        count += 1
                        await membership.set(str(count).encode())
                        await check_update(plan, client, membership, count)
                        if not was_healed:
                            await anyio.sleep(rng.uniform(0.0, 0.5) * client.session_timeout)
                    if was_healed:
                        plan.settled[name] = str(count).encode()
                        await plan.all_have_looked.wait()
                        return
        if not world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.25) * client.session_timeout)
        else:
            await end_of_session(client)


async def check_update(
    plan: Members, client: aiolead.Client, membership: aiolead.types.Membership, count: int
) -> None:
    """A confirmed update is there, unless the znode is gone."""
    with suppress(ConnectionLossError, NoNodeError):
        await client.sync(membership.path)
        data, _ = await client.get(membership.path)
        if int(data) != count:
            plan.world.violation("update", f"{membership.path} has {data!r}, not {count}")


async def observer(plan: Members, _process: Process, client: aiolead.Client) -> None:
    world = plan.world
    members = aiolead.Group(client, GROUP)
    told: dict[str, aiolead.types.Member] = {}
    async with members.observe() as view, anyio.create_task_group() as tasks:
        tasks.start_soon(add_up, world, view, told)
        await world.healed()
        while True:
            with suppress(ConnectionLossError):
                await client.sync(GROUP)
                truth = await members.members()
                data = {name: each.data for name, each in truth.items()}
                is_right = dict(view.value) == truth == told and view.is_live
                if plan.are_settled and is_right and data == plan.settled:
                    break
            await anyio.sleep(client.session_timeout / 50)
        tasks.cancel_scope.cancel()
    plan.all_have_looked.set()


async def add_up(
    world: World, view: aiolead.types.MembersView, told: dict[str, aiolead.types.Member]
) -> None:
    """Adds up the changes. Each must fit those before it."""
    with suppress(SessionError):
        async for change in view.changes():
            name = change.member.id
            if told.get(name) != change.before:
                world.violation("changes", f"{change} after {told.get(name)}")
            if change.kind is aiolead.types.ChangeKind.LEFT:
                del told[name]
            else:
                told[name] = change.member


async def operator(plan: Members, process: Process, client: aiolead.Client) -> None:
    """Throws out members now and then, until the world heals."""
    rng = process.rng
    while not plan.world.is_healed:
        await anyio.sleep(rng.uniform(0.0, 0.5) * client.session_timeout)
        path = f"{GROUP}/{rng.choice(sorted(plan.names) or ['m0'])}"
        with suppress(ConnectionLossError, NoNodeError):
            await client.delete(path)


# --- services ------------------------------------------------------------------------------------


class Services:
    """The state of the services in the end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: set[str] = set()
        self.busy: set[str] = set()
        """Those that have to have looked at all others."""
        self.said: dict[str, tuple[float, bool]] = {}
        """The last load of each, and whether it wants requests."""
        self.all_have_looked = anyio.Event()


@explored(FOUND, range(12))
async def services(world: World) -> None:
    """Three processes that offer a service, and use it."""
    plan = Services(world)
    program = partial(over_all_clients, world, partial(service, plan))
    plan.names.update(start_each(world, "s", 3, program))
    plan.busy.update(plan.names)


async def service(plan: Services, process: Process, client: aiolead.Client) -> None:
    world, rng, name = plan.world, process.rng, base_name(process)
    registry = aiolead.ServiceRegistry(client, "/services")
    instance = aiolead.ServiceInstance(name="echo", id=name, registered_at=0.0)
    interval = client.session_timeout / 20
    async with registry.observe("echo") as view:
        picker = aiolead.types.Picker(view, aiolead.types.RoundRobin())
        while True:
            was_healed = world.is_healed
            with world.may_be_cancelled(process, "/services", process.name):
                async with registry.register(instance, load_interval=interval) as registration:
                    for _ in range(rng.randrange(1, 10)):
                        load = float(rng.randrange(100))
                        await registration.report_load(load)
                        await anyio.sleep(rng.uniform(0.0, 2 * interval))
                    is_enabled = rng.random() < 0.5
                    await (registration.resume() if is_enabled else registration.drain())
                    if was_healed:
                        plan.said[name] = load, is_enabled
                        await until_all_is_seen(plan, name, client, view, picker)
                        return
            if not world.is_healed:
                await anyio.sleep(rng.uniform(0.0, 0.25) * client.session_timeout)
            else:
                await end_of_session(client)


async def until_all_is_seen(
    plan: Services,
    name: str,
    client: aiolead.Client,
    view: aiolead.types.ServiceView,
    picker: aiolead.types.Picker,
) -> None:
    """Looks until the view is right, and then waits until everybody has seen that."""
    while not plan.all_have_looked.is_set():
        seen = {id_: (each.load, each.enabled) for id_, each in view.value.items()}
        if set(plan.said) == plan.names and seen == plan.said:
            willing = {id_ for id_, (_, enabled) in seen.items() if enabled}
            picked = {each.id for _ in range(10) if (each := picker.pick()) is not None}
            if picked != willing:
                plan.world.violation("picks", f"{picked} are picked, {willing} are willing")
            plan.busy.discard(name)
            if not plan.busy:
                plan.all_have_looked.set()
        await anyio.sleep(client.session_timeout / 50)


# --- shared work ---------------------------------------------------------------------------------


class Work:
    """The owners of the items."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.quiet = world.rng("quiet").choice((0.0, 0.0, 0.3))
        self.owners: dict[str, set[str]] = {item: set() for item in ITEMS}
        self.is_done = anyio.Event()

    def look(self) -> None:
        """After the healing all are owned, by everybody the same number; all wait for that."""
        shares = [
            sum(process.name in owners for owners in self.owners.values())
            for process in self.world.alive()
        ]
        if self.world.is_healed and sum(shares) == len(ITEMS) and max(shares) - min(shares) <= 1:
            self.is_done.set()


@explored(FOUND, range(12))
async def partition(world: World) -> None:
    """Two to four processes share four items."""
    plan = Work(world)
    count = world.rng("partition").choice((2, 3, 3, 4))
    start_each(world, "p", count, partial(over_all_clients, world, partial(sharer, plan)))


async def sharer(plan: Work, process: Process, client: aiolead.Client) -> None:
    world, rng = plan.world, process.rng
    name = base_name(process)
    partitioner = aiolead.Partitioner(client, WORK, ITEMS, identity=name, quiet=plan.quiet)
    while not plan.is_done.is_set():
        with world.may_be_cancelled(process, WORK, process.name) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until_done, plan, tasks.cancel_scope)
                if not world.is_healed and rng.random() < 0.5:
                    tasks.start_soon(stop_after, rng.uniform(0.0, 3.0), tasks.cancel_scope)
                await partitioner.run(partial(work, plan, process))
        if scope.cancel_called or not world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.2) * client.session_timeout)
    await end_of_session(client)


async def until_done(plan: Work, scope: anyio.CancelScope) -> None:
    await plan.world.healed()
    while not plan.is_done.is_set():
        plan.look()
        await anyio.sleep(plan.world.schedule.tick / 10)
    scope.cancel()


async def stop_after(timeouts: float, scope: anyio.CancelScope) -> None:
    """This member leaves, and comes again: with a rolling restart, for instance."""
    await anyio.sleep(timeouts)
    scope.cancel()


async def work(plan: Work, process: Process, item: str, held: aiolead.Held) -> None:
    history, line = plan.world.history, f"{WORK}/locks/{item}"
    who = f"{process.name}/{item}"
    history.joined(line, who)
    told(history, line, who, held)
    plan.owners[item].add(process.name)
    try:
        await anyio.sleep_forever()
    finally:
        plan.owners[item].discard(process.name)
        history.left(line, who, held.token, was_lost=held.loss is not None)
