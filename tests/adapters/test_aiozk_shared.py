"""An adapted session is shared: what aiozk has made in it is not taken for ours, nor deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from adapters.aiozk_peer import started
from kit.checks import PATIENCE
from kit.clients import eventually
from kit.faults import only_on

import aiolead
from aiolead import Client
from aiolead.adapters.aiozk import adapt
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode
from aiolead.types import Layout

pytestmark = only_on("asyncio")

PATH = "/shared/thing"
IDENTITY = "both call themselves so"

QUIET = 1.0
"""How long nothing must happen, in seconds: many round trips."""


@dataclass
class Scene:
    server: EmbeddedServer
    proxy: FaultProxy
    zk: Any
    client: Client


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with EmbeddedServer() as server:
        with FaultProxy("127.0.0.1", server.port) as proxy:
            async with started(proxy.connect_string) as zk, adapt(zk) as client:
                await zk.ensure_path(PATH)
                yield Scene(server, proxy, zk, client)


@asynccontextmanager
async def trying(entered: anyio.Event, context: Any) -> AsyncIterator[None]:
    """Somebody enters, and leaves as the block ends."""

    async def enter() -> None:
        async with context:
            entered.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enter)
        yield
        tasks.cancel_scope.cancel()


async def test_it_says_that_its_session_is_shared(scene: Scene) -> None:
    assert scene.client.backend.is_session_shared
    assert scene.client.chroot("/shared").backend.is_session_shared
    async with aiolead.connect(scene.proxy.connect_string) as other:
        assert not other.backend.is_session_shared


@pytest.mark.parametrize("kind", ["lock", "election"])
async def test_who_is_asked_to_let_go_is_not_deleted(scene: Scene, kind: str) -> None:
    """There would be two holders: aiozk, and whoever took its znode for an orphan of our own."""
    zk, client, entered = scene.zk, scene.client, anyio.Event()
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
        await eventually(lambda: _count(client, 2), "both are in line")
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
async def test_what_has_a_path_of_its_own_is_theirs(scene: Scene, name: str) -> None:
    """And what it holds is what we would write: that says nothing."""
    path, data, make = FIXED[name]
    entered = anyio.Event()
    await scene.zk.create(path, data.encode(), ephemeral=True)
    _, before = await scene.client.get(path)
    async with trying(entered, make(scene.client)):
        with anyio.move_on_after(QUIET):
            await entered.wait()
        assert not entered.is_set()
        _, stat = await scene.client.get(path)
        assert stat.mzxid == before.mzxid == before.czxid
    assert await scene.client.exists(path) is not None
    # As soon as it has gone, it can be ours.
    async with trying(entered, make(scene.client)):
        await scene.zk.delete(path)
        with anyio.fail_after(PATIENCE):
            await entered.wait()


@pytest.mark.exhaustive("waits for aiozk's own timeouts")
@fixed_path
async def test_theirs_is_left_alone_after_a_create_of_ours_was_lost(
    scene: Scene, name: str
) -> None:
    """It was there before ours was sent: so it is not ours, whatever became of that."""
    path, data, make = FIXED[name]
    entered = anyio.Event()
    await scene.zk.create(path, data.encode(), ephemeral=True)
    _, before = await scene.client.get(path)
    links = scene.proxy.connections
    scene.proxy.drop_reply(OpCode.CREATE2)
    async with trying(entered, make(scene.client)):
        await eventually(lambda: scene.proxy.connections > links, "the link was lost")
        with anyio.move_on_after(QUIET):
            await entered.wait()
        assert not entered.is_set()
    _, stat = await scene.client.get(path)
    assert (stat.czxid, stat.mzxid) == (before.czxid, before.mzxid)


@fixed_path
async def test_a_lost_create_of_ours_is_found_again(scene: Scene, name: str) -> None:
    path, _, make = FIXED[name]
    links = scene.proxy.connections
    scene.proxy.drop_reply(OpCode.CREATE2)
    with anyio.fail_after(PATIENCE):
        async with make(scene.client):
            assert scene.proxy.connections > links
            assert await scene.client.exists(path) is not None
    await eventually(lambda: _is_gone(scene.client, path), "it is gone")


async def _is_gone(client: Client, path: str) -> bool:
    return await client.exists(path) is None


async def test_a_claim_of_theirs_is_not_taken_for_ours(scene: Scene) -> None:
    queue = aiolead.Queue(scene.client, f"{PATH}/items", claims=f"{PATH}/claims")
    name = await queue.put(b"x")
    await scene.zk.ensure_path(f"{PATH}/claims")
    await scene.zk.create(f"{PATH}/claims/{name}", b"", ephemeral=True)
    async with queue.try_get() as item:
        assert item is None
    assert await scene.client.exists(f"{PATH}/claims/{name}") is not None


async def test_the_number_of_a_sequential_one_is_theirs(scene: Scene) -> None:
    """Its answer is lost, and one of aiozk's, which begins alike, is not adopted."""
    theirs = await scene.zk.create(f"{PATH}/w-", b"x", ephemeral=True, sequential=True)
    scene.proxy.drop_reply(OpCode.CREATE2)
    node = aiolead.PersistentNode(
        scene.client, f"{PATH}/w-", b"x", mode=aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
    )
    with anyio.fail_after(PATIENCE):
        async with node:
            assert node.path != theirs
    assert await scene.client.exists(theirs) is not None
