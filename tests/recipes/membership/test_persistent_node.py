"""A znode that exists as long as a block, whatever happens to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from kit.clients import (
    OVER_AIOZK,
    PATIENCE,
    Served,
    catch_up,
    children_are,
    connect,
    eventually,
    in_memory,
    names,
    nothing_left,
    proxy_before,
    watches_the_bytes,
)
from kit.virtual_time import Link, embedded, passes, virtually
from kit.virtual_time import connect as connect_virtually
from recipes.blocks import Block, Holder, enter, happens

from aiolead import (
    ACL,
    AcquireTimeout,
    Client,
    CreateMode,
    Group,
    NoNodeError,
    PersistentNode,
    ServiceInstance,
    ServiceRegistry,
)
from aiolead.errors import ClientClosedError, NoAuthError, NotEmptyError, ReleaseError, UsageError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode
from aiolead.types import NodeState

pytestmark = pytest.mark.timeout(60)

FOLDER = "/app"
PATH = "/app/node"
READ_ONLY = [ACL.world(Permission.READ | Permission.DELETE)]
EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL


async def data_at(client: Client, path: str = PATH) -> bytes | None:
    """The data of a znode; None if there is none."""
    await catch_up(client)
    try:
        return (await client.get(path))[0]
    except NoNodeError:
        return None


def holds(client: Client, data: bytes | None, path: str = PATH) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await data_at(client, path) == data

    return check


async def owner_of(client: Client, path: str = PATH) -> int:
    stat = await client.exists(path)
    assert stat is not None
    return stat.ephemeral_owner


# --- being there -------------------------------------------------------------------------------


async def test_node_exists_as_long_as_the_block(a: Client, b: Client) -> None:
    async with PersistentNode(a, PATH, b"one") as node:
        assert (node.path, node.is_present) == (PATH, True)
        assert await data_at(b) == b"one"
        assert await owner_of(b) == a.session_id
        await node.set(b"two")
        assert await data_at(b) == b"two"
    assert not node.is_present
    assert await data_at(b) is None
    with pytest.raises(UsageError):
        await node.set(b"three")


async def test_node_is_restored_with_its_latest_data(a: Client, b: Client) -> None:
    async with PersistentNode(a, PATH, b"one") as node:
        await catch_up(b)
        await b.delete(PATH)
        await eventually(holds(b, b"one"), "it is there again")
        await node.set(b"two")
        await b.set(PATH, b"nonsense")
        await eventually(holds(b, b"two"), "it holds what it should")
        assert node.is_present
    assert await data_at(b) is None


async def test_data_of_others_stay_without_restore(a: Client, b: Client) -> None:
    async with PersistentNode(a, PATH, b"one", restore=False) as node:
        await catch_up(b)
        await b.set(PATH, b"theirs")
        await node.set(b"two")
        assert await data_at(b) == b"two"
        await b.set(PATH, b"theirs")
        await b.delete(PATH)
        await eventually(holds(b, b"two"), "it is there again, with our data")


async def test_sequential_node_keeps_its_number(a: Client, b: Client) -> None:
    await a.ensure_path(FOLDER)  # not a container: the server might reap that
    async with (
        PersistentNode(a, "/app/w-", b"x", mode=SEQUENTIAL) as node,
        PersistentNode(a, "/app/w-", b"x", mode=SEQUENTIAL) as other,
    ):
        path = node.path
        assert len({path, other.path}) == 2
        assert path.startswith("/app/w-0")
        await catch_up(b)
        await b.delete(path)
        await eventually(holds(b, b"x", path), "it is there again")
        assert node.path == path
    assert await names(b, FOLDER) == []  # or the server has deleted it


async def test_node_without_an_owner_is_taken_over_and_deleted(a: Client, b: Client) -> None:
    await b.ensure_path(PATH)
    await catch_up(a)
    async with PersistentNode(a, PATH, b"one", mode=CreateMode.PERSISTENT):
        assert await data_at(b) == b"one"
        assert await owner_of(b) == 0
        await b.delete(PATH)
        await eventually(holds(b, b"one"), "it is there again")
    assert await data_at(b) is None


def service(client: Client, timeout: float | None) -> Block:
    instance = ServiceInstance(name="web", id="1", port=80)
    return ServiceRegistry(client, FOLDER).register(instance, timeout=timeout)


KEEPERS: dict[str, Callable[[Client, float | None], Block]] = {
    "PersistentNode": lambda client, timeout: PersistentNode(client, PATH, timeout=timeout),
    "Group": lambda client, timeout: Group(client, FOLDER).join(identity="m", timeout=timeout),
    "ServiceRegistry": service,
}


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
async def test_node_of_another_client_is_waited_for(
    server: Served, a: Client, keep: Callable[[Client, float | None], Block]
) -> None:
    """It is never deleted, and taken as soon as it is gone."""
    waiter = Holder(keep(a, None))
    async with anyio.create_task_group() as tasks, connect(server) as b:
        async with keep(b, None) as theirs:
            await catch_up(a)
            for limit, why in ((0, "somebody else's is there"), (0.05, "not ours within")):
                with pytest.raises(AcquireTimeout, match=why):
                    await enter(keep(a, limit))
            with pytest.raises(UsageError):
                await enter(keep(b, None))  # this client has it
            tasks.start_soon(waiter)
            await catch_up(a)
            assert theirs.is_present
            assert await owner_of(a, theirs.path) == b.session_id
            assert not waiter.has_entered
        await happens(waiter.entered)
        waiter.may_leave.set()
    await enter(keep(a, 0))


async def test_states_report_losses_and_the_end(a: Client, b: Client) -> None:
    async with PersistentNode(a, PATH) as node:
        states = aiter(node)
        first = await anext(states)
        assert first.is_present
        await catch_up(b)
        await b.delete(PATH)
        async for state in states:
            if state.is_present:
                assert first.czxid is not None
                assert state.czxid is not None
                assert state.czxid > first.czxid
                break
    assert await anext(states) == NodeState(False, PATH, None, 0)
    with pytest.raises(StopAsyncIteration):
        await anext(states)


# --- links and sessions ------------------------------------------------------------------------


@virtually
async def test_node_is_created_again_in_the_next_session() -> None:
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:
        for mode in (EPHEMERAL, SEQUENTIAL):
            async with PersistentNode(a, PATH, b"one", mode=mode) as node:
                path, before = node.path, a.session_id
                server.expire_session(before)
                # The next session begins with the data that were set without a session.
                await node.set(b"two")
                assert await data_at(b, path) == b"two"
                assert a.session_id != before
                assert (node.path, node.is_present) == (path, True)
            await nothing_left(server, FOLDER)


async def test_node_stays_while_the_link_is_lost() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with PersistentNode(a, PATH, b"one") as node:
            before = await b.exists(PATH)
            states = aiter(node)
            assert (await anext(states)).is_present
            server.disconnect(a.session_id)
            await node.set(b"two")
            assert await data_at(b) == b"two"
            after = await b.exists(PATH)
            assert before is not None
            assert after is not None
            assert after.czxid == before.czxid, "it has been there all the time"
            await eventually(lambda: node.is_present, "it is known to be there")
        await nothing_left(server, FOLDER)


@asynccontextmanager
async def behind_a_proxy(
    server: Served, session_timeout: float = 8.0
) -> AsyncIterator[tuple[FaultProxy, Client, Client]]:
    """A proxy, a client behind it, and another one that has made the folder."""
    with proxy_before(server) as proxy:
        async with connect(proxy, session_timeout=session_timeout) as a, connect(server) as b:
            # Else it is a container, which a server may reap while it is empty.
            await b.ensure_path(FOLDER)
            await catch_up(a)
            yield proxy, a, b


@pytest.mark.parametrize(
    ("mode", "op", "what"),
    [
        (EPHEMERAL, OpCode.CREATE2, "request"),
        (EPHEMERAL, OpCode.CREATE2, "answer"),
        (SEQUENTIAL, OpCode.CREATE2, "answer"),
        (EPHEMERAL, OpCode.SET_DATA, "request"),
        (EPHEMERAL, OpCode.SET_DATA, "answer"),
        (EPHEMERAL, OpCode.EXISTS, "answer"),
        (SEQUENTIAL, OpCode.DELETE, "request"),
        (EPHEMERAL, OpCode.DELETE, "answer"),
    ],
)
async def test_node_is_created_once_and_deleted_whatever_message_is_lost(
    server: Served, mode: CreateMode, op: OpCode, what: str
) -> None:
    async with behind_a_proxy(server) as (proxy, a, b):
        drop = proxy.drop_request if what == "request" else proxy.drop_reply
        if op is not OpCode.DELETE:
            drop(op)
        with anyio.fail_after(PATIENCE):
            async with PersistentNode(a, PATH, b"one", mode=mode) as node:
                await node.set(b"two")
                await node.set(b"three")
                await eventually(lambda: node.is_present, "it is known to be there")
                assert await data_at(b, node.path) == b"three"
                assert len(await b.get_children(FOLDER)) == 1
                if op is OpCode.DELETE:
                    drop(op)
        await children_are(b, FOLDER)


@pytest.mark.parametrize("answer", ["comes", "never comes"])
@pytest.mark.parametrize("mode", [EPHEMERAL, SEQUENTIAL])
@pytest.mark.only_zookeeper("a create with CREATE2 on the wire")
async def test_cancelled_create_is_deleted_whether_or_not_its_answer_comes(
    server: Served, mode: CreateMode, answer: str
) -> None:
    async with behind_a_proxy(server) as (proxy, a, b):
        held = proxy.hold_reply(OpCode.CREATE2)
        async with anyio.create_task_group() as tasks:
            keeper = Holder(PersistentNode(a, PATH, b"x", mode=mode))
            tasks.start_soon(keeper)
            await held.wait()
            tasks.cancel_scope.cancel()
        assert not keeper.has_entered
        await catch_up(b)
        assert len(await b.get_children(FOLDER)) == 1
        (held.release if answer == "comes" else held.cut)()
        await children_are(b, FOLDER)


@pytest.mark.parametrize("mode", [EPHEMERAL, CreateMode.PERSISTENT])
@pytest.mark.only_zookeeper("a create with CREATE2 on the wire")
async def test_leaving_deletes_an_unanswered_repair(server: Served, mode: CreateMode) -> None:
    """Others may see the new znode before its keeper knows of it."""
    async with (
        behind_a_proxy(server, session_timeout=10.0) as (proxy, a, b),
        anyio.create_task_group() as tasks,
    ):
        has_answered = anyio.Event()

        async def answer() -> None:
            for _ in range(3):
                assert await data_at(b) == b"x"
            has_answered.set()
            held.release()

        async with PersistentNode(a, PATH, b"x", mode=mode):
            await catch_up(b)
            held = proxy.hold_reply(OpCode.CREATE2)
            await b.delete(PATH)
            await held.wait()
            tasks.start_soon(answer)
        assert has_answered.is_set()
        assert await data_at(b) is None


@pytest.mark.skipif(OVER_AIOZK, reason="the session is shared: aiozk may have made it")
async def test_create_applied_after_it_was_given_up_is_taken_over() -> None:
    """The znode is of the same session, so it would go only with that: it is taken over."""
    async with EmbeddedServer() as server, in_memory(server) as a:
        await a.ensure_path(FOLDER)
        await a.create(PATH, b"late", mode=EPHEMERAL)
        with anyio.fail_after(PATIENCE):
            async with PersistentNode(a, PATH, b"ours"):
                assert await data_at(a) == b"ours"
        await nothing_left(server, FOLDER)


@watches_the_bytes
@virtually
async def test_node_left_without_a_link_is_deleted_later() -> None:
    """The block ends in time, and the client deletes the znode as soon as it can."""
    async with embedded() as server, connect_virtually(server) as b:
        link = Link(server)
        async with link.connect(session_timeout=3) as a:
            async with PersistentNode(a, PATH, b"x"):
                link.stall("to_client")
                server.disconnect(a.session_id)
            assert await data_at(b) in (b"x", None)
            link.heal()
            await nothing_left(server, FOLDER)


# --- other owners, and refusals ------------------------------------------------------------------


async def test_one_client_keeps_a_node_once() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a:
        node = PersistentNode(a, PATH)
        async with node:
            with pytest.raises(UsageError, match="keeps that znode already"):
                await enter(PersistentNode(a, PATH))
            with pytest.raises(UsageError, match="keeps that znode already"):
                await enter(PersistentNode(a.chroot(FOLDER), PATH.removeprefix(FOLDER)))
            assert node.is_present
        with pytest.raises(UsageError, match="entered already"):
            await enter(node)
        # One after the other is fine, also at once.
        await enter(PersistentNode(a, PATH))
        await nothing_left(server, FOLDER)


async def test_node_that_another_client_has_replaced_is_waited_for() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with PersistentNode(a, PATH, b"ours") as node:
            transaction = b.transaction().delete(PATH)
            await transaction.create(PATH, b"theirs", mode=EPHEMERAL)
            await eventually(lambda: not node.is_present, "it knows")
            with anyio.move_on_after(0.05):
                await node.set(b"ours still")
            assert await data_at(b) == b"theirs"
            await b.delete(PATH)
            await eventually(holds(b, b"ours still"), "it is ours again")
        await nothing_left(server, FOLDER)


@virtually
async def test_repairs_are_paced_while_another_client_overwrites_the_node() -> None:
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:
        async with PersistentNode(a, PATH, b"ours") as node:
            for number in range(50):
                await b.set(PATH, str(number).encode())
                await anyio.lowlevel.checkpoint()
            for _ in range(300):
                await b.set(PATH, b"theirs")
                await passes(0.001)
            assert server.requests["SET_DATA"] > 350
            # Ours are some few of them.
            assert server.requests["EXISTS"] < server.requests["SET_DATA"]
            await eventually(holds(b, b"ours"), "it has the last word")
            assert node.is_present


async def test_refused_create_is_raised_on_entry() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.create(FOLDER, acl=READ_ONLY)
        with pytest.raises(NoAuthError):
            await enter(PersistentNode(a, PATH))
        await nothing_left(server, FOLDER)


async def test_refused_repair_cancels_the_body_and_is_raised() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.create(FOLDER)
        with pytest.raises(NoAuthError):
            async with PersistentNode(a, PATH) as node:
                await b.set_acl(FOLDER, READ_ONLY)
                await b.delete(PATH)
                await anyio.sleep(PATIENCE)
                pytest.fail("the body was not cancelled")
        with pytest.raises(UsageError):
            await node.set(b"x")
        with pytest.raises(KeyError) as told:
            async with PersistentNode(b, "/other") as node:
                await b.set_acl("/other", READ_ONLY)
                try:
                    await node.set(b"x")
                finally:
                    raise KeyError
        assert any("/other" in note for note in told.value.__notes__)
        await nothing_left(server, FOLDER)


async def test_node_with_children_cannot_be_released() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        with pytest.raises(ReleaseError, match=PATH) as refused:
            async with PersistentNode(a, PATH, mode=CreateMode.PERSISTENT):
                await b.create(f"{PATH}/child")
        assert isinstance(refused.value.cause, NotEmptyError)


async def test_closing_the_client_cancels_the_body_and_is_raised() -> None:
    async with EmbeddedServer() as server:
        ended = anyio.Event()

        async def keep() -> None:
            with pytest.raises(ClientClosedError):
                await keeper()
            ended.set()

        async with anyio.create_task_group() as tasks:
            async with in_memory(server) as client:
                keeper = Holder(PersistentNode(client, PATH))
                tasks.start_soon(keep)
                await happens(keeper.entered)
            await happens(ended)
        assert PATH not in server.znodes()
        with pytest.raises(ClientClosedError):
            await enter(PersistentNode(client, PATH))
