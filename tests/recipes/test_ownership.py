"""Which znodes are ours: whatever others write, cancel, or continue our session."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from kit.virtual_time import Link, on_virtual_time, passes, settled
from kit.virtual_time import connect as connect_virtually

import aiolead
from aiolead import (
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
from aiolead._client.guardian_control import describe
from aiolead._client.net.opener import Opener
from aiolead.errors import AcquireTimeout, LossReason, TenureLost
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend
from aiolead.types import Layout

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PATH = "/path/to"
SESSION = 8.0
"""The session timeout of clients on virtual time, in seconds."""

Enter = Callable[[aiolead.Client], AbstractAsyncContextManager[Any]]
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


@dataclass
class Watched:
    """Who is inside, and what went wrong."""

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

    async def hold(
        self, name: str, enter: AbstractAsyncContextManager[Any], body: Callable[[], Awaitable[Any]]
    ) -> None:
        try:
            async with enter, self.body(name):
                await body()
        except AcquireTimeout:
            pass
        except TenureLost as error:
            if error.reason is LossReason.DELETED:
                self.deleted.append(name)


# --- any cancellation ----------------------------------------------------------------------------


def names_of_one(client: aiolead.Client) -> AbstractAsyncContextManager[Any]:
    return UniqueNames(client, PATH).claim("name", most=1)


CANCELLED: dict[str, Enter] = {
    **ONE_HOLDER,
    "UniqueNames": names_of_one,
    "ReadWriteLock.read": lambda client: ReadWriteLock(client, PATH).read,
}


@backends
@pytest.mark.parametrize("recipe", CANCELLED)
def test_cancelled_waiter_never_deletes_the_znode_of_another(backend: Backend, recipe: str) -> None:
    """Tasks of two clients wait, hold and are cancelled at random moments."""
    enter, shares = CANCELLED[recipe], recipe == "ReadWriteLock.read"

    async def play(server: EmbeddedServer) -> None:
        rng, watched = random.Random(7), Watched()

        async def contend(client: aiolead.Client, name: str) -> None:
            for _ in range(40):
                with anyio.move_on_after(rng.choice((0.0, 0.001, 0.01, 1.0))):
                    for _ in range(rng.randrange(6)):
                        await anyio.lowlevel.checkpoint()
                    await watched.hold(name, enter(client), turn)

        async def turn() -> None:
            for _ in range(rng.randrange(8)):
                await anyio.lowlevel.checkpoint()

        async with connect_virtually(server) as a, connect_virtually(server) as b:
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(contend, a, f"a{number}")
                    tasks.start_soon(contend, b, f"b{number}")
        assert watched.deleted == []
        assert shares or watched.together == []
        assert watched.entered

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("turns", range(6))
def test_waiter_does_not_take_the_znode_that_its_sibling_deletes(
    backend: Backend, turns: int
) -> None:
    """The answers to the waiter's look and to the sibling's release arrive in one segment."""

    async def play(server: EmbeddedServer) -> None:
        watched, link = Watched(), Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            leave, scope = anyio.Event(), anyio.CancelScope()

            async def wait_and_give_up() -> None:
                with scope:
                    lock = ExclusiveLock(a, PATH, identity="same")
                    await watched.hold("a2", lock, anyio.sleep_forever)

            async with anyio.create_task_group() as tasks:
                first = ExclusiveLock(a, PATH, identity="same")
                tasks.start_soon(watched.hold, "a1", first, leave.wait)
                await settled()
                for name in ("b1", "b2"):
                    lock = ExclusiveLock(b, PATH)
                    tasks.start_soon(watched.hold, name, lock, lambda: passes(0.05))
                await settled()
                link.hold(after=1)
                tasks.start_soon(wait_and_give_up)
                await settled()
                leave.set()
                await settled()
                link.release()
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
                await passes(20.0)
        assert (watched.together, watched.deleted) == ([], [])
        assert {"a1", "b1", "b2"} <= {*watched.entered}

    on_virtual_time(backend, play)


@backends
def test_release_does_not_delete_the_znode_of_the_next_holder(backend: Backend) -> None:
    """Somebody deletes ours, the next one holds, and we have not been notified as we release."""

    async def play(server: EmbeddedServer) -> None:
        watched, link = Watched(), Link(server)
        async with (
            link.connect() as a,
            connect_virtually(server) as b,
            anyio.create_task_group() as tasks,
        ):
            leave = anyio.Event()
            tasks.start_soon(watched.hold, "a", ExclusiveLock(a, PATH), leave.wait)
            await passes(1.0)
            tasks.start_soon(watched.hold, "b", ExclusiveLock(b, PATH), lambda: passes(3.0))
            await settled()
            link.hold()
            await b.delete(PATH)
            await settled()
            assert watched.inside == {
                "a",
                "b",
            }  # nobody can prevent this: see A6 of the assumptions
            leave.set()
            await settled()
            link.release()
            await passes(5.0)
        assert watched.deleted == ["a"]

    on_virtual_time(backend, play)


@backends
def test_persistent_node_does_not_delete_the_znode_of_the_next_owner(backend: Backend) -> None:
    """Somebody deletes ours, another client holds a lock there, and we leave unaware of both."""

    async def play(server: EmbeddedServer) -> None:
        watched, link = Watched(), Link(server)
        async with (
            link.connect() as a,
            connect_virtually(server) as b,
            anyio.create_task_group() as tasks,
        ):
            async with PersistentNode(a, PATH, b"kept"):
                await passes(1.0)
                tasks.start_soon(watched.hold, "b", ExclusiveLock(b, PATH), lambda: passes(5.0))
                await settled()
                link.hold()
                await b.delete(PATH)
                await settled()
                assert watched.inside == {"b"}
            link.release()
            await passes(10.0)
        assert (watched.entered, watched.deleted) == (["b"], [])

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("mode", [CreateMode.PERSISTENT, CreateMode.EPHEMERAL])
@pytest.mark.parametrize("write", ["other data", "the same data twice"])
def test_cancelled_persistent_node_does_not_delete_the_znode_of_another_client(
    backend: Backend, mode: CreateMode, write: str
) -> None:
    """Its create is lost, another client creates the path, and it is cancelled before it looks."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            await b.ensure_path(PATH.rpartition("/")[0])

            async def keep() -> None:
                async with PersistentNode(a, PATH, b"ours", mode=mode):
                    pytest.fail("another client has created it")

            async with anyio.create_task_group() as tasks:
                server.drop_request(OpCode.CREATE2)
                link.room = 0
                tasks.start_soon(keep)
                await settled()
                await b.create(PATH, b"theirs" if write == "other data" else b"ours")
                if write != "other data":
                    await b.set(PATH, b"ours")
                tasks.cancel_scope.cancel()
            link.restore()
            await passes(2 * SESSION)
            assert await b.exists(PATH) is not None

    on_virtual_time(backend, play)


@backends
def test_lost_create_does_not_take_the_znode_of_its_sibling(backend: Backend) -> None:
    """The sibling creates its znode as the search for the lost one begins."""

    async def play(server: EmbeddedServer) -> None:
        watched, link = Watched(), Link(server)
        async with link.connect() as client, anyio.create_task_group() as tasks:
            await client.ensure_path(PATH.rpartition("/")[0])

            def hold(name: str) -> None:
                lock = ExclusiveLock(client, PATH, identity="same")
                tasks.start_soon(watched.hold, name, lock, lambda: passes(1.0))

            server.drop_request(OpCode.CREATE2)
            link.room = 0
            hold("one")
            await settled()
            hold("two")
            await settled()
            link.restore()
        assert {*watched.entered} == {"one", "two"}
        assert (watched.together, watched.deleted) == ([], [])

    on_virtual_time(backend, play)


# --- two recipes of one client on one znode ------------------------------------------------------


@backends
def test_exclusive_lock_waits_for_a_name_of_the_same_client(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as client:
            async with UniqueNames(client, PATH, identity="same").claim("worker") as name:
                other = ExclusiveLock(client, name.path, identity="same")
                with pytest.raises(AcquireTimeout):
                    async with other.acquire(timeout=20.0):
                        pytest.fail("two hold the znode")
                name.check()
            async with other.acquire(timeout=20.0) as held:
                assert held.token > name.token

    on_virtual_time(backend, play)


@backends
def test_persistent_node_does_not_take_the_znode_of_a_held_lock(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as client, anyio.create_task_group() as tasks:

            async def keep() -> None:
                async with PersistentNode(client, PATH, b"kept"):
                    await anyio.sleep_forever()

            async with ExclusiveLock(client, PATH, identity="held") as held:
                tasks.start_soon(keep)
                await passes(20.0)
                assert (await client.get(PATH))[0] == b"held"
                held.check()
            await passes(20.0)
            assert (await client.get(PATH))[0] == b"kept"
            tasks.cancel_scope.cancel()

    on_virtual_time(backend, play)


@backends
def test_exclusive_lock_does_not_take_a_znode_of_the_application(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as client:
            await client.ensure_path(PATH.rpartition("/")[0])
            await client.create(PATH, b"same", mode=CreateMode.EPHEMERAL)
            with pytest.raises(AcquireTimeout):
                async with ExclusiveLock(client, PATH, identity="same").acquire(timeout=20.0):
                    pytest.fail("the znode is the application's")

    on_virtual_time(backend, play)


# --- a forged name -------------------------------------------------------------------------------


FORGED = {
    "persistent": CreateMode.PERSISTENT,
    "of the forger's session": CreateMode.EPHEMERAL,
}


@backends
@pytest.mark.parametrize("mode", FORGED)
@pytest.mark.parametrize("recipe", IN_A_QUEUE)
@pytest.mark.parametrize("is_wanted", [True, False], ids=["wanted", "given up"])
def test_forged_twin_of_a_lost_create_is_not_adopted(
    backend: Backend, recipe: str, mode: str, is_wanted: bool
) -> None:
    """A writer that may create makes a znode of the same prefix, with a lower number."""

    async def play(server: EmbeddedServer) -> None:
        link, watched, enter = Link(server), Watched(), ONE_HOLDER[recipe]
        async with (
            link.connect() as victim,
            connect_virtually(server) as holder,
            connect_virtually(server) as forger,
        ):
            leave, scope = anyio.Event(), anyio.CancelScope()

            async def want() -> None:
                with scope:
                    await watched.hold("victim", enter(victim), anyio.sleep_forever)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watched.hold, "holder", enter(holder), leave.wait)
                await settled()
                before = {*server.znodes()}
                server.drop_reply(OpCode.CREATE2)
                link.room = 0
                tasks.start_soon(want)
                await settled()
                (real,) = {*server.znodes()} - before
                twin = f"{real[:-10]}-000000001"
                await forger.create(twin, b"same", mode=FORGED[mode])
                if not is_wanted:
                    scope.cancel()
                link.restore()
                await passes(30.0)
                assert watched.entered == ["holder"]
                if recipe != "Semaphore":  # it makes another permit for its place in the queue
                    assert (real in server.znodes()) == is_wanted
                assert twin in server.znodes()
                leave.set()
                scope.cancel()
        assert watched.together == []

    on_virtual_time(backend, play)


# --- a session that another process continues ----------------------------------------------------


async def hold_to_the_end(
    watched: Watched, link: Link, enter: Enter, shared: list[Any], name: str
) -> None:
    async with link.connect() as client:
        shared.append(client)
        await watched.hold(name, enter(client), anyio.sleep_forever)


@backends
@pytest.mark.parametrize("recipe", [*ONE_HOLDER, "UniqueNames"])
def test_resumed_session_waits_for_the_lease_of_its_first_process(
    backend: Backend, recipe: str
) -> None:
    """The first process is partitioned as another one continues its session."""
    enter = CANCELLED[recipe]

    async def play(server: EmbeddedServer) -> None:
        watched, link, clients = Watched(), Link(server), list[aiolead.Client]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold_to_the_end, watched, link, enter, clients, "first")
            await passes(5.0)
            assert watched.inside == {"first"}
            credentials = clients[0].credentials
            link.lose()
            async with connect_virtually(server, resume=credentials) as second:
                entered = anyio.Event()

                async def take_over() -> None:
                    async with enter(second), watched.body("second"):
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

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("recipe", ["Lock", "ExclusiveLock"])
def test_closing_a_resumed_session_does_not_hand_over_what_its_first_process_holds(
    backend: Backend, recipe: str
) -> None:
    enter = ONE_HOLDER[recipe]

    async def play(server: EmbeddedServer) -> None:
        watched, link, clients = Watched(), Link(server), list[aiolead.Client]()
        async with connect_virtually(server) as other, anyio.create_task_group() as tasks:
            tasks.start_soon(hold_to_the_end, watched, link, enter, clients, "first")
            await passes(5.0)
            credentials = clients[0].credentials
            tasks.start_soon(watched.hold, "other", enter(other), anyio.sleep_forever)
            await settled()
            link.lose()
            async with connect_virtually(server, resume=credentials):
                pass
            await passes(3 * SESSION)
            assert watched.together == []
            assert watched.inside == {"other"}
            tasks.cancel_scope.cancel()

    on_virtual_time(backend, play)


@backends
def test_resumed_session_of_a_detached_client_is_closed_at_once(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as first:
            credentials = first.detach()
        assert credentials.is_detached
        async with connect_virtually(server, resume=credentials):
            assert len(server.sessions()) == 1
        assert server.sessions() == {}

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("is_detached", [True, False], ids=["detached", "read"])
def test_guardian_gets_a_resumed_session_only_if_it_was_left_to_its_owner(
    backend: Backend, is_detached: bool
) -> None:
    """It closes the session as soon as its process has ended."""

    async def play(server: EmbeddedServer) -> None:
        notified: list[int] = []
        link = Link(server)
        async with link.connect() as first:
            link.lose()
            credentials = first.detach() if is_detached else first.credentials
            connection = connect_virtually(server, resume=credentials)
            assert isinstance(connection, aiolead.types.Connection)
            host = connection._host
            core, supervisor = host.core, host.supervisor

            def notify() -> None:
                notified.append(describe(core, supervisor, Opener(), None)["session"])

            core.guard_session(notify)
            async with connection as second:
                await passes(2 * SESSION)
                assert {*notified} == {second.session_id if is_detached else 0}
                second.credentials  # noqa: B018 - from now on another process may have it
                notify()
                assert notified[-1] == 0

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("recipe", ["Lock", "ExclusiveLock"])
def test_two_processes_that_share_a_session_never_hold_together(
    backend: Backend, recipe: str
) -> None:
    """They take the session from each other all the time."""
    enter = ONE_HOLDER[recipe]

    async def play(server: EmbeddedServer) -> None:
        watched = Watched()

        async def contend(client: aiolead.Client, name: str) -> None:
            while True:
                await watched.hold(name, enter(client), lambda: passes(1.0))
                await passes(0.1)

        async with connect_virtually(server) as first, anyio.create_task_group() as tasks:
            tasks.start_soon(contend, first, "first")
            await passes(1.0)
            async with connect_virtually(server, resume=first.credentials) as second:
                tasks.start_soon(contend, second, "second")
                await passes(5 * SESSION)
                tasks.cancel_scope.cancel()
        assert watched.together == []

    on_virtual_time(backend, play)


@backends
def test_persistent_node_takes_over_in_a_resumed_session(backend: Backend) -> None:
    """Its znode is never missing; it is adopted once the first process cannot hold it any more."""

    async def play(server: EmbeddedServer) -> None:
        link, entered = Link(server), anyio.Event()

        async def keep_first() -> None:
            async with link.connect() as first, PersistentNode(first, PATH, b"first"):
                credentials.append(first.credentials)
                entered.set()
                await anyio.sleep_forever()

        credentials: list[Any] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_first)
            await entered.wait()
            link.lose()
            async with connect_virtually(server, resume=credentials[0]) as second:

                async def keep() -> None:
                    async with PersistentNode(second, PATH, b"second"):
                        await anyio.sleep_forever()

                tasks.start_soon(keep)
                await passes(SESSION - 2.0)
                assert (await second.get(PATH))[0] == b"first"
                await passes(SESSION)
                assert (await second.get(PATH))[0] == b"second"
                tasks.cancel_scope.cancel()

    on_virtual_time(backend, play)
