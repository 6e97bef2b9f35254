"""Which znodes belong to a contender: whatever others write or cancel, or continue its session."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import EVERY_REPLY, PATIENCE, connect, eventually, proxy_before
from kit.every_recipe import running
from kit.virtual_time import Link, passes, settled, with_virtual_server
from kit.virtual_time import connect as connect_virtually
from recipes.blocks import Block, Holder, enter, happens

import aiolead
from aiolead import (
    Client,
    Condition,
    CreateMode,
    Election,
    ExclusiveLock,
    Lock,
    PersistentNode,
    ReadWriteLock,
    Semaphore,
    UniqueNames,
)
from aiolead._client.guardian.control import describe
from aiolead._client.net.opener import Opener
from aiolead._recipes.naming import OwnZnodes
from aiolead.errors import AcquireTimeout, LossReason, TenureLost
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import Layout

pytestmark = pytest.mark.timeout(90)

PATH = "/path/to"
SESSION = 8.0
"""The session timeout of clients on virtual time, in seconds."""
REAL_SESSION = 4.0

Enter = Callable[[Client], Block]
"""Enters a recipe of which one client holds at a time, at `PATH`."""

ONE_HOLDER: dict[str, Enter] = {
    "Lock": lambda client: Lock(client, PATH, identity="same"),
    "Lock, kazoo's layout": lambda client: Lock(client, PATH, identity="same", layout=Layout.KAZOO),
    "Election": lambda client: Election(client, PATH, identity="same").leadership(),
    "ReadWriteLock.write": lambda client: ReadWriteLock(client, PATH, identity="same").write,
    "Condition": lambda client: Condition(client, PATH, identity="same"),
    "Semaphore": lambda client: Semaphore(client, PATH, 1, identity="same"),
    "ExclusiveLock": lambda client: ExclusiveLock(client, PATH, identity="same"),
}
IN_A_QUEUE = [name for name in ONE_HOLDER if name != "ExclusiveLock"]
ON_SERVERS = ["Lock", "Election", "ReadWriteLock.write"]
CANCELLED: dict[str, Enter] = {
    **ONE_HOLDER,
    "UniqueNames": lambda client: UniqueNames(client, PATH).claim("name", most=1),
    "Once": lambda client: running(client, PATH),
    "ReadWriteLock.read": lambda client: ReadWriteLock(client, PATH).read,
}


@dataclass
class Watched:
    """The holders inside, and the violations."""

    inside: set[str] = field(default_factory=set)
    together: list[list[str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    entered: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def body(self, name: str) -> AsyncIterator[None]:
        self.entered.append(name)
        self.inside.add(name)
        if len(self.inside) > 1:
            self.together.append(sorted(self.inside))
        try:
            yield
        finally:
            self.inside.discard(name)

    async def hold(self, name: str, block: Block, body: Callable[[], Awaitable[Any]]) -> None:
        try:
            async with block, self.body(name):
                await body()
        except AcquireTimeout:
            pass
        except TenureLost as error:
            if error.reason is LossReason.DELETED:
                self.deleted.append(name)


async def data_at(client: Client, path: str = PATH) -> bytes | None:
    return (await client.get(path))[0]


# --- any cancellation ----------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", CANCELLED)
@with_virtual_server
async def test_cancelled_waiter_deletes_only_its_own_znode(
    a: Client, b: Client, recipe: str
) -> None:
    """Tasks of two clients wait, hold and are cancelled at random moments."""
    rng, watched = random.Random(7), Watched()

    async def some_checkpoints(most: int) -> None:
        for _ in range(rng.randrange(most)):
            await anyio.lowlevel.checkpoint()

    async def contend(client: Client, name: str) -> None:
        for _ in range(40):
            with anyio.move_on_after(rng.choice((0.0, 0.001, 0.01, 1.0))):
                await some_checkpoints(6)
                block = CANCELLED[recipe](client)
                await watched.hold(name, block, partial(some_checkpoints, 8))

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(contend, a, f"a{number}")
            tasks.start_soon(contend, b, f"b{number}")
    assert watched.deleted == []
    assert recipe == "ReadWriteLock.read" or watched.together == []
    assert watched.entered


@pytest.mark.parametrize("turns", range(6))
@with_virtual_server
async def test_waiter_does_not_take_the_znode_that_its_sibling_deletes(
    link: Link, a: Client, b: Client, turns: int
) -> None:
    """The answers to the waiter's look and to the sibling's release arrive in one segment."""
    watched, leave, scope = Watched(), anyio.Event(), anyio.CancelScope()

    async def wait_and_give_up() -> None:
        with scope:
            lock = ExclusiveLock(a, PATH, identity="same")
            await watched.hold("a2", lock, anyio.sleep_forever)

    async with anyio.create_task_group() as tasks:
        first = ExclusiveLock(a, PATH, identity="same")
        tasks.start_soon(watched.hold, "a1", first, leave.wait)
        await settled()
        for name in ("b1", "b2"):
            tasks.start_soon(watched.hold, name, ExclusiveLock(b, PATH), lambda: passes(0.05))
        await settled()
        link.hold_reply(EVERY_REPLY, after=1)
        tasks.start_soon(wait_and_give_up)
        await settled()
        leave.set()
        await settled()
        link.heal()
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        scope.cancel()
        await passes(20.0)
    assert (watched.together, watched.deleted) == ([], [])
    assert {"a1", "b1", "b2"} <= {*watched.entered}


@with_virtual_server
async def test_release_deletes_no_znode_of_the_next_holder(
    link: Link, a: Client, b: Client
) -> None:
    """Its znode is deleted, the next one holds, and it releases before it was notified."""
    watched, leave = Watched(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watched.hold, "a", ExclusiveLock(a, PATH), leave.wait)
        await passes(1.0)
        tasks.start_soon(watched.hold, "b", ExclusiveLock(b, PATH), lambda: passes(3.0))
        await settled()
        link.stall("to_client")
        await b.delete(PATH)
        await settled()
        assert watched.inside == {"a", "b"}  # nobody can prevent this: see A6 of the assumptions
        leave.set()
        await settled()
        link.heal()
        await passes(5.0)
    assert watched.deleted == ["a"]


@with_virtual_server
async def test_persistent_node_does_not_delete_the_znode_of_the_next_owner(
    link: Link, a: Client, b: Client
) -> None:
    """Its znode is deleted, another client holds a lock there, and it leaves unaware of both."""
    watched = Watched()
    async with anyio.create_task_group() as tasks:
        async with PersistentNode(a, PATH, b"kept"):
            await passes(1.0)
            tasks.start_soon(watched.hold, "b", ExclusiveLock(b, PATH), lambda: passes(5.0))
            await settled()
            link.stall("to_client")
            await b.delete(PATH)
            await settled()
            assert watched.inside == {"b"}
        link.heal()
        await passes(10.0)
    assert (watched.entered, watched.deleted) == (["b"], [])


@pytest.mark.parametrize("mode", [CreateMode.PERSISTENT, CreateMode.EPHEMERAL])
@pytest.mark.parametrize("writes", [[b"theirs"], [b"ours", b"ours"]], ids=["other data", "same"])
@with_virtual_server
async def test_cancelled_persistent_node_does_not_delete_the_znode_of_another_client(
    server: EmbeddedServer, link: Link, a: Client, b: Client, mode: CreateMode, writes: list[bytes]
) -> None:
    """Its create is lost, another client creates the path, and it is cancelled before it looks."""
    await b.ensure_path(PATH.rpartition("/")[0])
    keeper = Holder(PersistentNode(a, PATH, b"ours", mode=mode))
    async with anyio.create_task_group() as tasks:
        server.drop_request(OpCode.CREATE2)
        link.refuse()
        tasks.start_soon(keeper)
        await settled()
        await b.create(PATH, writes[0])
        for data in writes[1:]:
            await b.set(PATH, data)
        tasks.cancel_scope.cancel()
    link.heal()
    await passes(2 * SESSION)
    assert await b.exists(PATH) is not None
    assert not keeper.has_entered


@with_virtual_server
async def test_lost_create_does_not_take_the_znode_of_its_sibling(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    """The sibling creates its znode as the search for the lost one begins."""
    watched = Watched()
    await client.ensure_path(PATH.rpartition("/")[0])
    async with anyio.create_task_group() as tasks:
        server.drop_request(OpCode.CREATE2)
        link.refuse()
        for name in ("one", "two"):
            lock = ExclusiveLock(client, PATH, identity="same")
            tasks.start_soon(watched.hold, name, lock, lambda: passes(1.0))
            await settled()
        link.heal()
    assert {*watched.entered} == {"one", "two"}
    assert (watched.together, watched.deleted) == ([], [])


@with_virtual_server
async def test_lost_creates_are_remembered_as_long_as_their_session(
    server: EmbeddedServer, client: Client
) -> None:
    """Each key has a path of its own, so nothing else would remove their records."""
    registry = OwnZnodes.of(client)
    for number in range(1, 4):
        for key in ("a", "b"):
            server.drop_request(OpCode.CREATE2)
            async with ExclusiveLock(client, f"{PATH}/{number}/{key}"):
                pass
        assert len(registry.lost) == 2
        server.expire_session(client.session_id)
        await passes(2 * SESSION)


# --- two recipes of one client on one znode ------------------------------------------------------


async def test_exclusive_lock_waits_for_a_name_of_the_same_client(client: Client) -> None:
    async with UniqueNames(client, PATH, identity="same").claim("worker") as name:
        other = ExclusiveLock(client, name.path, identity="same")
        with pytest.raises(AcquireTimeout):
            await enter(other.acquire(timeout=0.2))
        await name.verify()
    async with other.acquire(timeout=PATIENCE) as held:
        assert held.token > name.token


@with_virtual_server
async def test_persistent_node_does_not_take_the_znode_of_a_held_lock(client: Client) -> None:
    async with anyio.create_task_group() as tasks:
        async with ExclusiveLock(client, PATH, identity="held") as held:
            tasks.start_soon(Holder(PersistentNode(client, PATH, b"kept")))
            await passes(20.0)
            assert await data_at(client) == b"held"
            held.check()
        await passes(20.0)
        assert await data_at(client) == b"kept"
        tasks.cancel_scope.cancel()


@with_virtual_server
async def test_exclusive_lock_does_not_take_a_znode_of_the_application(client: Client) -> None:
    await client.ensure_path(PATH.rpartition("/")[0])
    await client.create(PATH, b"same", mode=CreateMode.EPHEMERAL)
    with pytest.raises(AcquireTimeout):
        await enter(ExclusiveLock(client, PATH, identity="same").acquire(timeout=20.0))


# --- a forged name -------------------------------------------------------------------------------

FORGED = pytest.mark.parametrize(
    "mode",
    [CreateMode.PERSISTENT, CreateMode.EPHEMERAL],
    ids=["persistent", "of the forger's session"],
)


@FORGED
@pytest.mark.parametrize("recipe", IN_A_QUEUE)
@pytest.mark.parametrize("is_wanted", [True, False], ids=["wanted", "given up"])
@with_virtual_server
async def test_forged_twin_of_a_lost_create_is_not_adopted(
    server: EmbeddedServer,
    link: Link,
    a: Client,
    b: Client,
    c: Client,
    recipe: str,
    mode: CreateMode,
    is_wanted: bool,
) -> None:
    """A writer that may create makes a znode of the same prefix, with a lower number."""
    holder, victim = Holder(ONE_HOLDER[recipe](b)), Holder(ONE_HOLDER[recipe](a))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holder)
        await settled()
        before = {*server.znodes()}
        server.drop_reply(OpCode.CREATE2)
        link.refuse()
        tasks.start_soon(victim)
        await settled()
        (real,) = {*server.znodes()} - before
        twin = f"{real[:-10]}-000000001"
        await c.create(twin, b"same", mode=mode)
        if not is_wanted:
            victim.scope.cancel()
        link.heal()
        await passes(30.0)
        assert holder.has_entered
        assert not victim.has_entered
        if recipe != "Semaphore":  # it makes another permit for its place in the queue
            assert (real in server.znodes()) == is_wanted
        assert twin in server.znodes()
        tasks.cancel_scope.cancel()


@FORGED
@pytest.mark.parametrize("recipe", ON_SERVERS)
@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_forged_twin_is_not_adopted_on_every_server(
    server: ServerUnderTest, recipe: str, mode: CreateMode
) -> None:
    with proxy_before(server) as proxy:
        async with (
            connect(proxy, session_timeout=30) as a,
            connect(server) as b,
            connect(server) as forger,
            anyio.create_task_group() as tasks,
        ):
            holder, victim = Holder(ONE_HOLDER[recipe](b)), Holder(ONE_HOLDER[recipe](a))
            tasks.start_soon(holder)
            await happens(holder.entered)
            await forger.sync(PATH)  # its server may lag behind the holder's
            (first,) = names = await forger.get_children(PATH)
            proxy.refuse()
            proxy.drop_reply(OpCode.CREATE2)
            tasks.start_soon(victim)
            with anyio.fail_after(PATIENCE):
                while len(names) < 2:
                    names = await forger.get_children(PATH)
            (real,) = {*names} - {first}
            await forger.create(f"{PATH}/{real[:-10]}-000000001", b"same", mode=mode)
            proxy.heal()
            await a.ready()
            for _ in range(20):  # it looks for its znode meanwhile, and finds two
                await a.exists(PATH)
            assert not victim.has_entered
            tasks.cancel_scope.cancel()


# --- a session that another process continues ----------------------------------------------------


@asynccontextmanager
async def partitioned_holder(
    server: EmbeddedServer, watched: Watched, enter: Enter
) -> AsyncIterator[tuple[Any, Link]]:
    """The credentials of a first process that holds, and its link."""
    link, clients = Link(server), list[Client]()

    async def hold() -> None:
        async with link.connect() as client:
            clients.append(client)
            await watched.hold("first", enter(client), anyio.sleep_forever)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        await passes(5.0)
        assert watched.inside == {"first"}
        yield clients[0].credentials, link
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("recipe", [*ONE_HOLDER, "UniqueNames", "Once"])
@with_virtual_server
async def test_resumed_session_waits_for_the_lease_of_its_first_process(
    server: EmbeddedServer, recipe: str
) -> None:
    """The first process is partitioned as another one continues its session."""
    watched, entered = Watched(), anyio.Event()
    async with partitioned_holder(server, watched, CANCELLED[recipe]) as (credentials, link):
        link.down()
        async with (
            connect_virtually(server, resume=credentials) as second,
            anyio.create_task_group() as tasks,
        ):

            async def take_over() -> None:
                async with CANCELLED[recipe](second), watched.body("second"):
                    entered.set()
                    await anyio.sleep_forever()

            tasks.start_soon(take_over)
            await passes(SESSION - 2.0)
            with anyio.move_on_after(3 * SESSION):
                await entered.wait()
            assert watched.together == []
            if recipe not in ("Semaphore", "UniqueNames"):
                # Nobody else can delete the znode: the session goes on.
                assert watched.inside == {"second"}
            tasks.cancel_scope.cancel()


@pytest.mark.keeps_time(REAL_SESSION)
@pytest.mark.parametrize("recipe", [*ON_SERVERS, "ExclusiveLock"])
@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_resumed_session_waits_for_the_lease_on_every_server(
    server: ServerUnderTest, recipe: str
) -> None:
    happened: list[str] = []
    clients: list[Client] = []

    async def first() -> None:
        async with connect(proxy, session_timeout=REAL_SESSION) as client:
            clients.append(client)
            try:
                async with ONE_HOLDER[recipe](client):
                    happened.append("first enters")
                    try:
                        await anyio.sleep_forever()
                    finally:
                        happened.append("first is cancelled")
            except TenureLost:
                pass

    with proxy_before(server) as proxy:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await eventually(lambda: happened == ["first enters"], "it is held")
            credentials = clients[0].credentials
            proxy.blackhole()
            proxy.refuse()
            async with connect(server, session_timeout=REAL_SESSION, resume=credentials) as second:
                with anyio.fail_after(PATIENCE + 3 * REAL_SESSION):
                    async with ONE_HOLDER[recipe](second):
                        happened.append("second enters")
            tasks.cancel_scope.cancel()
    assert happened == ["first enters", "first is cancelled", "second enters"]


@pytest.mark.parametrize("recipe", ["Lock", "ExclusiveLock"])
@with_virtual_server
async def test_closing_a_resumed_session_does_not_hand_over_what_its_first_process_holds(
    server: EmbeddedServer, other: Client, recipe: str
) -> None:
    watched, enter = Watched(), ONE_HOLDER[recipe]
    async with (
        partitioned_holder(server, watched, enter) as (credentials, link),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(watched.hold, "other", enter(other), anyio.sleep_forever)
        await settled()
        link.down()
        async with connect_virtually(server, resume=credentials):
            pass
        await passes(3 * SESSION)
        assert watched.together == []
        assert watched.inside == {"other"}
        tasks.cancel_scope.cancel()


@with_virtual_server
async def test_resumed_session_of_a_detached_client_is_closed(server: EmbeddedServer) -> None:
    async with connect_virtually(server) as first:
        credentials = first.detach()
    assert credentials.is_detached
    async with connect_virtually(server, resume=credentials):
        assert len(server.sessions()) == 1
    assert server.sessions() == {}


@pytest.mark.parametrize("is_detached", [True, False], ids=["detached", "read"])
@with_virtual_server
async def test_guardian_gets_a_resumed_session_only_if_it_was_left_to_its_owner(
    server: EmbeddedServer, link: Link, client: Client, is_detached: bool
) -> None:
    """It closes the session as soon as its process has ended."""
    notified: list[int] = []
    link.down()
    credentials = client.detach() if is_detached else client.credentials
    connection = connect_virtually(server, resume=credentials)
    assert isinstance(connection, aiolead.types.Connection)
    core = connection._host.core

    def notify() -> None:
        notified.append(describe(core, core.supervisor, Opener(), None)["session"])

    core.on_session_changed(notify)
    async with connection as second:
        await passes(2 * SESSION)
        assert {*notified} == {second.session_id if is_detached else 0}
        second.credentials  # noqa: B018 - from now on another process may have it
        notify()
        assert notified[-1] == 0


@pytest.mark.parametrize("recipe", ["Lock", "ExclusiveLock"])
@with_virtual_server
async def test_two_processes_that_share_a_session_never_hold_together(
    server: EmbeddedServer, client: Client, recipe: str
) -> None:
    watched = Watched()

    async def contend(client: Client, name: str) -> None:
        while True:
            await watched.hold(name, ONE_HOLDER[recipe](client), lambda: passes(1.0))
            await passes(0.1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(contend, client, "first")
        await passes(1.0)
        async with connect_virtually(server, resume=client.credentials) as second:
            tasks.start_soon(contend, second, "second")
            await passes(5 * SESSION)
            tasks.cancel_scope.cancel()
    assert watched.together == []


@with_virtual_server
async def test_persistent_node_takes_over_in_a_resumed_session(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    """Its znode is never missing; it is adopted once the first process cannot hold it any more."""
    first = Holder(PersistentNode(client, PATH, b"first"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await happens(first.entered)
        credentials = client.credentials
        link.down()
        async with connect_virtually(server, resume=credentials) as second:
            tasks.start_soon(Holder(PersistentNode(second, PATH, b"second")))
            await passes(SESSION - 2.0)
            assert await data_at(second) == b"first"
            await passes(SESSION)
            assert await data_at(second) == b"second"
            tasks.cancel_scope.cancel()
