"""aiolead through ClickHouse Keeper's rules, in front of a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from assurance.engines.keeper_rules import GENERATIONS, KeeperRules
from kazoo.client import KazooClient
from kit.clients import eventually
from kit.every_recipe import DONE, FOLLOWED, HELD, KEPT

import aiolead
from aiolead import Client, Election, LeadershipLost, Lock, TreeCache
from aiolead.errors import UnsupportedError
from aiolead.model import CreateMode
from aiolead.testing import ZooKeeperServer

pytestmark = pytest.mark.timeout(120)

CREATE2, CREATE_CONTAINER = 15, 19


@pytest.fixture(params=GENERATIONS)
def front(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[KeeperRules]:
    host, _, port = zookeeper.connect_string.rpartition(":")
    with KeeperRules(host, int(port), request.param) as front:
        yield front


def connect(front: KeeperRules, chroot: str, **options: Any) -> aiolead.types.Connection:
    return aiolead.connect(front.connect_string + chroot, **options)


async def prepared(client: Client) -> None:
    await client.ensure_path("/")


async def test_every_recipe_is_held_and_handed_over(front: KeeperRules, chroot: str) -> None:
    async with connect(front, chroot) as a, connect(front, chroot) as b:
        await prepared(a)
        for name, scene in (HELD | KEPT).items():
            path = f"/{name}"
            if scene.prepare is not None:
                await scene.prepare(a, path)
            async with scene.enter(a, path) as mine:
                await mine.verify()
            if scene.prepare is not None:
                await scene.prepare(a, path)
            await scene.turn(b, path)
        for name, done in DONE.items():
            await done.do(a, f"/done/{name}")
            assert await done.count(b, f"/done/{name}") >= 1
    assert front.unknown == []
    assert front.sessions == 2


@pytest.mark.parametrize("name", FOLLOWED)
async def test_every_view_follows(front: KeeperRules, chroot: str, name: str) -> None:
    async with connect(front, chroot) as a, connect(front, chroot) as b:
        await prepared(a)
        scene = FOLLOWED[name]
        async with scene.change(a, "/x") as change, scene.observe(b, "/x") as seen:
            for number in range(1, 4):
                await change(number)
                await eventually(partial(_is, seen, number), f"{number} is seen")
        await b.exists("/")
    assert front.unknown == []
    assert front.sessions == 2


def _is(seen: Any, number: int) -> bool:
    return seen() == number


async def test_token_is_the_czxid(front: KeeperRules, chroot: str) -> None:
    """On a real server, the zxid in the answer to a plain create is the znode's czxid."""
    async with connect(front, chroot) as client:
        await prepared(client)
        for mode in (CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT):
            created = await client.create("/a", b"data", mode=mode)
            stat = await client.exists(created.path)
            assert stat is not None
            assert created.stat in (stat, stat._replace(ctime=0, mtime=0))
        async with Lock(client, "/lock") as held:
            stat = await client.exists(held.path)
            assert stat is not None
            assert held.token == stat.czxid
            await held.fenced().create("/written")
    assert front.unknown == []


async def test_leadership_is_won_again_after_each_lost_connection(
    front: KeeperRules, chroot: str
) -> None:
    tokens: list[int] = []
    async with connect(front, chroot) as client:
        await prepared(client)
        for _ in range(3):
            try:
                async with Election(client, "/election").leadership() as term:
                    tokens.append(term.token)
                    front.cut()
                    await anyio.sleep(60)
            except LeadershipLost:
                pass
    assert tokens == sorted(set(tokens))
    assert front.unknown == []
    assert front.requests.total() < 200  # nothing is tried again and again


async def test_tree_cache_is_never_wrong(front: KeeperRules, chroot: str) -> None:
    async with (
        connect(front, chroot) as a,
        connect(front, chroot, server_version="3.9") as b,
    ):
        await a.ensure_path("/tree/a/b")
        async with TreeCache(b, "/tree") as cache:
            for number in range(5):
                await a.set("/tree/a/b", b"%d" % number)
                await eventually(partial(_has, cache, b"%d" % number), f"{number} is there")
    assert front.unknown == []


def _has(cache: TreeCache, data: bytes) -> bool:
    node = cache.get("/tree/a/b")
    return node is not None and node.data == data


async def test_server_that_does_not_say_what_it_is(front: KeeperRules, chroot: str) -> None:
    front.says_version = False
    async with connect(front, chroot) as client:
        await prepared(client)
        async with Lock(client, "/deep/lock") as held:
            await held.verify()
        with pytest.raises(UnsupportedError, match="does not report its version"):
            async with client.watch("/"):
                pass
    assert front.unknown == []


async def test_kazoo_works_beside_it(front: KeeperRules, chroot: str) -> None:
    """Both contend on one path, with the names of kazoo."""
    order: list[str] = []
    async with connect(front, chroot) as client:
        await prepared(client)
        kazoo = KazooClient(front.connect_string + chroot)
        await anyio.to_thread.run_sync(kazoo.start)
        try:
            theirs = kazoo.Lock("/lock", "kazoo")
            await anyio.to_thread.run_sync(theirs.acquire)
            async with anyio.create_task_group() as tasks:

                async def ours() -> None:
                    async with Lock(client, "/lock", layout=aiolead.types.Layout.KAZOO):
                        order.append("aiolead")

                tasks.start_soon(ours)
                await eventually(lambda: _are(kazoo, 2), "both are in the queue")
                order.append("kazoo")
                await anyio.to_thread.run_sync(theirs.release)
            counter = kazoo.Counter("/counter")
            await anyio.to_thread.run_sync(lambda: counter.__add__(2))
            assert await client.get("/counter")
        finally:
            await anyio.to_thread.run_sync(kazoo.stop)
            await anyio.to_thread.run_sync(kazoo.close)
    assert order == ["kazoo", "aiolead"]
    assert front.unknown == []


async def _are(kazoo: KazooClient, count: int) -> bool:
    names = await anyio.to_thread.run_sync(kazoo.get_children, "/lock")
    return len(names) == count
