"""A znode that exists as long as a block, whatever happens to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    SESSION,
    Served,
    catch_up,
    connect,
    eventually,
    in_memory,
    nothing_left,
)
from kit.virtual_time import Link, embedded, passes, virtually
from kit.virtual_time import connect as connect_virtually

import aiolead
from aiolead import ACL, AcquireTimeout, Client, CreateMode, NoNodeError, PersistentNode
from aiolead.errors import (
    ClientClosedError,
    ConfigurationError,
    NoAuthError,
    NotEmptyError,
    ReleaseError,
    UsageError,
)
from aiolead.model import Permission, SessionState
from aiolead.paths import parse_connect_string
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode
from aiolead.types import NodeState

pytestmark = pytest.mark.timeout(60)

FOLDER = "/app"
PATH = "/app/node"


async def data_at(client: Client, path: str = PATH) -> bytes | None:
    """What a znode holds; None if there is none."""
    await catch_up(client)
    try:
        return (await client.get(path))[0]
    except NoNodeError:
        return None


def holds(client: Client, data: bytes | None, path: str = PATH) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await data_at(client, path) == data

    return check


async def another_session(client: Client, before: int) -> None:
    await eventually(
        lambda: client.session_id not in (0, before) and client.state is SessionState.CONNECTED,
        "there is another session",
    )


# --- being there -------------------------------------------------------------------------------


async def test_it_is_there_as_long_as_the_block(server: Served) -> None:
    async with connect(server) as a, connect(server) as b:
        async with PersistentNode(a, PATH, b"one") as node:
            assert (node.path, node.is_present) == (PATH, True)
            assert await data_at(b) == b"one"
            stat = await b.exists(PATH)
            assert stat is not None
            assert stat.ephemeral_owner == a.session_id
            await node.set(b"two")
            assert await data_at(b) == b"two"
        assert not node.is_present
        assert await data_at(b) is None
        with pytest.raises(UsageError):
            await node.set(b"three")


async def test_it_comes_back(server: Served) -> None:
    """Deleted, overwritten, gone with its session: each time with the latest data."""
    async with connect(server) as a, connect(server) as b:
        async with PersistentNode(a, PATH, b"one") as node:
            await catch_up(b)
            await b.delete(PATH)
            await eventually(holds(b, b"one"), "it is there again")
            await node.set(b"two")
            await b.set(PATH, b"nonsense")
            await eventually(holds(b, b"two"), "it holds what it should")
            assert node.is_present
        assert await data_at(b) is None


async def test_what_others_write_stays_if_it_may(server: Served) -> None:
    async with connect(server) as a, connect(server) as b:
        async with PersistentNode(a, PATH, b"one", restore=False) as node:
            await catch_up(b)
            await b.set(PATH, b"theirs")
            await node.set(b"two")
            assert await data_at(b) == b"two"
            await b.set(PATH, b"theirs")
            await b.delete(PATH)
            await eventually(holds(b, b"two"), "it is there again, with our data")


async def test_a_sequential_one_keeps_its_number(server: Served) -> None:
    async with connect(server) as a, connect(server) as b:
        mode = CreateMode.EPHEMERAL_SEQUENTIAL
        await a.ensure_path(FOLDER)  # not a container: the server might reap that
        async with (
            PersistentNode(a, "/app/w-", b"x", mode=mode) as node,
            PersistentNode(a, "/app/w-", b"x", mode=mode) as other,
        ):
            path = node.path
            assert len({path, other.path}) == 2
            assert path.startswith("/app/w-0")
            await catch_up(b)
            await b.delete(path)
            await eventually(holds(b, b"x", path), "it is there again")
            assert node.path == path
        await catch_up(b)
        assert await b.get_children(FOLDER) == []


async def test_a_persistent_one(server: Served) -> None:
    """Nobody owns it: what is there is taken over, and whoever leaves deletes it."""
    async with connect(server) as a, connect(server) as b:
        await b.ensure_path(PATH)
        await catch_up(a)
        async with PersistentNode(a, PATH, b"one", mode=CreateMode.PERSISTENT):
            assert await data_at(b) == b"one"
            stat = await b.exists(PATH)
            assert stat is not None
            assert stat.ephemeral_owner == 0
            await b.delete(PATH)
            await eventually(holds(b, b"one"), "it is there again")
        assert await data_at(b) is None


async def test_its_end_is_waited_for(server: Served) -> None:
    """That of somebody else's znode, which is never deleted."""
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        entered = anyio.Event()

        async def wait() -> None:
            async with PersistentNode(a, PATH, b"ours"):
                entered.set()
                assert await data_at(b) == b"ours"
                await anyio.sleep_forever()

        async with PersistentNode(b, PATH, b"theirs") as theirs:
            await catch_up(a)
            for limit, why in ((0, "somebody else's is there"), (0.05, "not ours within")):
                with pytest.raises(AcquireTimeout, match=why):
                    async with PersistentNode(a, PATH, b"ours", timeout=limit):
                        pytest.fail("it is not ours")
            tasks.start_soon(wait)
            await theirs.set(b"theirs still")
            assert await data_at(a) == b"theirs still"
            assert not entered.is_set()
        with anyio.fail_after(PATIENCE):
            await entered.wait()
        tasks.cancel_scope.cancel()
    async with connect(server) as b:
        assert await data_at(b) is None
        async with PersistentNode(b, PATH, b"at once", timeout=0) as node:
            assert node.is_present


async def test_the_states(server: Served) -> None:
    async with connect(server) as a, connect(server) as b:
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


# --- what goes wrong ---------------------------------------------------------------------------


@virtually
async def test_a_session_that_expires() -> None:
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:
        for mode in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL):
            async with PersistentNode(a, PATH, b"one", mode=mode) as node:
                path, before = node.path, a.session_id
                server.expire_session(before)
                # What was wanted last, without a session, is what the next one begins with.
                await node.set(b"two")
                assert await data_at(b, path) == b"two"
                assert a.session_id != before
                assert (node.path, node.is_present) == (path, True)
            await nothing_left(server, FOLDER)


async def test_a_link_that_is_lost() -> None:
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


MODES = pytest.mark.parametrize("mode", [CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL])


@pytest.mark.parametrize(
    ("mode", "op", "what"),
    [
        (CreateMode.EPHEMERAL, OpCode.CREATE2, "request"),
        (CreateMode.EPHEMERAL, OpCode.CREATE2, "answer"),
        (CreateMode.EPHEMERAL_SEQUENTIAL, OpCode.CREATE2, "answer"),
        (CreateMode.EPHEMERAL, OpCode.SET_DATA, "request"),
        (CreateMode.EPHEMERAL, OpCode.SET_DATA, "answer"),
        (CreateMode.EPHEMERAL, OpCode.EXISTS, "answer"),
        (CreateMode.EPHEMERAL_SEQUENTIAL, OpCode.DELETE, "request"),
        (CreateMode.EPHEMERAL, OpCode.DELETE, "answer"),
    ],
)
async def test_a_link_that_is_lost_in_the_middle(
    server: ServerUnderTest, mode: CreateMode, op: OpCode, what: str
) -> None:
    """There is one znode, created once, and in the end there is none."""
    with FaultProxy(*parse_connect_string(server.hosts).hosts[0]) as proxy:
        hosts = proxy.connect_string + server.chroot
        async with aiolead.connect(hosts, session_timeout=SESSION) as a, connect(server) as b:
            await b.ensure_path(FOLDER)
            await catch_up(a)
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

            async def nobody_is_there() -> bool:
                await catch_up(b)
                return await b.get_children(FOLDER) == []

            await eventually(nobody_is_there, "nothing is left")


@pytest.mark.parametrize("answer", ["comes", "never comes"])
@MODES
async def test_given_up_while_its_create_is_unanswered(
    server: ServerUnderTest, mode: CreateMode, answer: str
) -> None:
    """The client deletes it as the answer comes; if it never does, it looks for the znode."""
    with FaultProxy(*parse_connect_string(server.hosts).hosts[0]) as proxy:
        hosts = proxy.connect_string + server.chroot
        async with aiolead.connect(hosts, session_timeout=SESSION) as a, connect(server) as b:
            await b.ensure_path(FOLDER)
            await catch_up(a)
            held = proxy.hold_reply(OpCode.CREATE2)
            async with anyio.create_task_group() as tasks:

                async def keep() -> None:
                    async with PersistentNode(a, PATH, b"x", mode=mode):
                        pytest.fail("nobody told it that it is there")

                tasks.start_soon(keep)
                await held.wait()
                tasks.cancel_scope.cancel()
            await catch_up(b)
            assert len(await b.get_children(FOLDER)) == 1
            if answer == "comes":
                held.release()
            else:
                held.cut()

            async def nobody_is_there() -> bool:
                await catch_up(b)
                return await b.get_children(FOLDER) == []

            await eventually(nobody_is_there, "nothing is left")


@pytest.mark.parametrize("mode", [CreateMode.EPHEMERAL, CreateMode.PERSISTENT])
async def test_left_while_its_repair_is_unanswered(
    server: ServerUnderTest, mode: CreateMode
) -> None:
    """Others may see the new znode before its keeper knows of it: leaving waits for its delete."""
    with FaultProxy(*parse_connect_string(server.hosts).hosts[0]) as proxy:
        hosts = proxy.connect_string + server.chroot
        async with (
            aiolead.connect(hosts, session_timeout=10.0) as a,
            connect(server) as b,
            anyio.create_task_group() as tasks,
        ):
            answers = 0

            async def answer() -> None:
                nonlocal answers
                for _ in range(3):
                    assert await data_at(b) == b"x"
                answers += 1
                held.release()

            # Else it is a container, which a server may reap before the repair comes: then the
            # first answer to that is that there is no parent.
            await b.ensure_path(FOLDER)
            await catch_up(a)
            async with PersistentNode(a, PATH, b"x", mode=mode):
                await catch_up(b)
                held = proxy.hold_reply(OpCode.CREATE2)
                await b.delete(PATH)
                await held.wait()
                tasks.start_soon(answer)
            assert answers == 1
            assert await data_at(b) is None


async def test_a_create_that_is_applied_long_after_it_was_given_up() -> None:
    """Of our own session, so that its end would come only with ours: it is taken over."""
    async with EmbeddedServer() as server, in_memory(server) as a:
        await a.ensure_path(FOLDER)
        await a.create(PATH, b"late", mode=CreateMode.EPHEMERAL)
        with anyio.fail_after(PATIENCE):
            async with PersistentNode(a, PATH, b"ours"):
                assert await data_at(a) == b"ours"
        await nothing_left(server, FOLDER)


@virtually
async def test_left_while_there_is_no_link() -> None:
    """The block ends in time, and the client deletes the znode as soon as it can."""
    async with embedded() as server, connect_virtually(server) as b:
        link = Link(server)
        async with link.connect(session_timeout=3) as a:
            async with PersistentNode(a, PATH, b"x"):
                link.hold()
                server.disconnect(a.session_id)
            assert await data_at(b) in (b"x", None)
            link.release()
            await nothing_left(server, FOLDER)


async def test_the_same_znode_twice() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a:
        node = PersistentNode(a, PATH)
        async with node:
            with pytest.raises(UsageError, match="keeps that znode already"):
                async with PersistentNode(a, PATH):
                    pytest.fail("it is kept already")
            assert node.is_present
        with pytest.raises(UsageError, match="entered already"):
            await node.__aenter__()
        # One after the other is fine, also at once.
        async with PersistentNode(a, PATH):
            pass
        await nothing_left(server, FOLDER)


async def test_somebody_else_is_quicker() -> None:
    """It is deleted, and made anew by others: theirs stays as it is, and is waited for."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with PersistentNode(a, PATH, b"ours") as node:
            transaction = b.transaction().delete(PATH)
            await transaction.create(PATH, b"theirs", mode=CreateMode.EPHEMERAL)
            await eventually(lambda: not node.is_present, "it knows")
            with anyio.move_on_after(0.05):
                await node.set(b"ours still")
            assert await data_at(b) == b"theirs"
            await b.delete(PATH)
            await eventually(holds(b, b"ours still"), "it is ours again")
        await nothing_left(server, FOLDER)


@virtually
async def test_others_that_fight_for_it_are_not_fought_as_fast_as_possible() -> None:
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


READ_ONLY = [ACL.world(Permission.READ | Permission.DELETE)]


async def test_entering_is_refused() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.create(FOLDER, acl=READ_ONLY)
        with pytest.raises(NoAuthError):
            async with PersistentNode(a, PATH):
                pytest.fail("it is not there")
        await nothing_left(server, FOLDER)


async def test_being_there_is_refused_later() -> None:
    """The body is cancelled, and the refusal raised: what it is built on is not true any more."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.create(FOLDER)
        with pytest.raises(NoAuthError):
            async with PersistentNode(a, PATH) as node:
                await b.set_acl(FOLDER, READ_ONLY)
                await b.delete(PATH)
                await anyio.sleep(PATIENCE)
                pytest.fail("nobody told the body")
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


async def test_deleting_is_refused() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        with pytest.raises(ReleaseError, match=PATH) as refused:
            async with PersistentNode(a, PATH, mode=CreateMode.PERSISTENT):
                await b.create(f"{PATH}/child")
        assert isinstance(refused.value.cause, NotEmptyError)


async def test_what_the_body_raises_leaves_bare() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a:
        with pytest.raises(KeyError):
            async with PersistentNode(a, PATH):
                raise KeyError
        await nothing_left(server, FOLDER)


async def test_the_client_is_closed_under_it() -> None:
    async with EmbeddedServer() as server:
        inside, told = anyio.Event(), anyio.Event()

        async def keep(client: Client) -> None:
            with pytest.raises(ClientClosedError):
                async with PersistentNode(client, PATH):
                    inside.set()
                    await anyio.sleep(PATIENCE)
                    pytest.fail("nobody told the body")
            told.set()

        async with anyio.create_task_group() as tasks:
            async with in_memory(server) as client:
                tasks.start_soon(keep, client)
                await inside.wait()
            with anyio.fail_after(PATIENCE):
                await told.wait()
        assert PATH not in server.znodes()
        with pytest.raises(ClientClosedError):
            async with PersistentNode(client, PATH):
                pass


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"path": "relative"}, "path"),
        ({"path": "/"}, "path"),
        ({"data": "text"}, "data"),
        ({"data": bytes(2_000_000)}, "data"),
        ({"mode": CreateMode.CONTAINER}, "mode"),
        ({"timeout": -1}, "timeout"),
        ({"acl": []}, "acl"),
    ],
)
async def test_arguments_are_checked_before_anything_is_sent(
    options: dict[str, Any], named: str
) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        before = server.packets_in
        with pytest.raises(ConfigurationError, match=f"^{named}"):
            PersistentNode(client, **{"path": PATH, **options})
        with pytest.raises(ConfigurationError, match=r"^client"):
            PersistentNode(object(), PATH)  # type: ignore[arg-type]
        assert server.packets_in == before
