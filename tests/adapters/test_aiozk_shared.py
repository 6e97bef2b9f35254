"""An adapted session is shared: znodes of aiozk in it are neither taken over nor deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from kit.checks import PATIENCE
from kit.clients import eventually
from kit.faults import only_on

import aiolead
from aiolead import Client
from aiolead.testing import FaultProxy, OpCode
from aiolead.types import Layout

pytestmark = only_on("asyncio")

PATH = "/shared/thing"
IDENTITY = "both call themselves so"

QUIET = 1.0
"""How long nothing must happen, in seconds: many round trips."""


@pytest.fixture(autouse=True)
async def parent(zk: Any) -> None:
    await zk.ensure_path(PATH)


@asynccontextmanager
async def trying(entered: anyio.Event, context: Any) -> AsyncIterator[None]:
    """Enter a context in a task until the block ends."""

    async def enter() -> None:
        async with context:
            entered.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enter)
        yield
        tasks.cancel_scope.cancel()


async def test_shared_session_is_reported(client: Client, proxy: FaultProxy) -> None:
    assert client.backend.is_session_shared
    assert client.chroot("/shared").backend.is_session_shared
    async with aiolead.connect(proxy.connect_string) as other:
        assert not other.backend.is_session_shared


@pytest.mark.parametrize("kind", ["lock", "election"])
async def test_revoke_keeps_the_znode_of_aiozk(zk: Any, client: Client, kind: str) -> None:
    """Otherwise there would be two holders."""
    entered = anyio.Event()
    if kind == "lock":
        await zk.recipes.Lock(PATH).acquire()
        ours: Any = aiolead.Lock(client, PATH, layout=Layout.AIOZK)
        context = ours.acquire()
    else:
        election = zk.recipes.LeaderElection(PATH)
        await election.volunteer()
        ours = aiolead.Election(client, PATH, layout=Layout.AIOZK)
        context = ours.leadership()
    (theirs,) = await client.get_children(PATH)
    async with trying(entered, context):
        await eventually(lambda: _count(client, 2), "both are queued")
        assert len(await ours.revoke()) == 1
        with anyio.move_on_after(QUIET):
            await entered.wait()
        assert not entered.is_set()
        assert theirs in await client.get_children(PATH)
    if kind == "election" and election.watch_loop_task is not None:
        election.watch_loop_task.cancel()


async def _count(client: Client, count: int) -> bool:
    return len(await client.get_children(PATH)) == count


FIXED = {
    "ExclusiveLock": (
        f"{PATH}/lock",
        IDENTITY,
        lambda client: aiolead.ExclusiveLock(client, f"{PATH}/lock", identity=IDENTITY),
    ),
    "PersistentNode": (
        f"{PATH}/node",
        IDENTITY,
        lambda client: aiolead.PersistentNode(client, f"{PATH}/node", IDENTITY.encode()),
    ),
    "Group": (
        f"{PATH}/m",
        IDENTITY,
        lambda client: aiolead.Group(client, PATH).join(IDENTITY.encode(), identity="m"),
    ),
}

fixed_path = pytest.mark.parametrize("name", FIXED)


@pytest.mark.exhaustive("waits for aiozk's own timeouts")
@pytest.mark.promise(only="ExclusiveLock")
@fixed_path
async def test_fixed_path_of_aiozk_is_not_taken_over(zk: Any, client: Client, name: str) -> None:
    """Its data are the identity of this client, which proves nothing."""
    path, data, make = FIXED[name]
    entered = anyio.Event()
    await zk.create(path, data.encode(), ephemeral=True)
    _, before = await client.get(path)
    async with trying(entered, make(client)):
        with anyio.move_on_after(QUIET):
            await entered.wait()
        assert not entered.is_set()
        _, stat = await client.get(path)
        assert stat.mzxid == before.mzxid == before.czxid
    assert await client.exists(path) is not None
    # As soon as it is gone, this client gets the path.
    async with trying(entered, make(client)):
        await zk.delete(path)
        with anyio.fail_after(PATIENCE):
            await entered.wait()


@pytest.mark.exhaustive("waits for aiozk's own timeouts")
@fixed_path
async def test_znode_of_aiozk_is_kept_after_a_lost_create(
    zk: Any, client: Client, proxy: FaultProxy, name: str
) -> None:
    """The znode was there before the create was sent."""
    path, data, make = FIXED[name]
    entered = anyio.Event()
    await zk.create(path, data.encode(), ephemeral=True)
    _, before = await client.get(path)
    links = proxy.connections
    proxy.drop_reply(OpCode.CREATE2)
    async with trying(entered, make(client)):
        await eventually(lambda: proxy.connections > links, "the client has reconnected")
        with anyio.move_on_after(QUIET):
            await entered.wait()
        assert not entered.is_set()
    _, stat = await client.get(path)
    assert (stat.czxid, stat.mzxid) == (before.czxid, before.mzxid)


@fixed_path
async def test_lost_create_is_found_again(client: Client, proxy: FaultProxy, name: str) -> None:
    path, _, make = FIXED[name]
    links = proxy.connections
    proxy.drop_reply(OpCode.CREATE2)
    with anyio.fail_after(PATIENCE):
        async with make(client):
            assert proxy.connections > links
            assert await client.exists(path) is not None
    await eventually(lambda: _is_gone(client, path), "it is gone")


async def _is_gone(client: Client, path: str) -> bool:
    return await client.exists(path) is None


async def test_claim_of_aiozk_is_not_taken_over(zk: Any, client: Client) -> None:
    queue = aiolead.Queue(client, f"{PATH}/items", claims=f"{PATH}/claims")
    name = await queue.put(b"x")
    await zk.ensure_path(f"{PATH}/claims")
    await zk.create(f"{PATH}/claims/{name}", b"", ephemeral=True)
    async with queue.try_get() as item:
        assert item is None
    assert await client.exists(f"{PATH}/claims/{name}") is not None


async def test_sequential_znode_is_not_adopted(zk: Any, client: Client, proxy: FaultProxy) -> None:
    """The answer of the create is lost, and a znode of aiozk has the same prefix."""
    theirs = await zk.create(f"{PATH}/w-", b"x", ephemeral=True, sequential=True)
    proxy.drop_reply(OpCode.CREATE2)
    node = aiolead.PersistentNode(
        client, f"{PATH}/w-", b"x", mode=aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
    )
    with anyio.fail_after(PATIENCE):
        async with node:
            assert node.path != theirs
    assert await client.exists(theirs) is not None
