"""All that works with kazoo on one path on ZooKeeper works on ClickHouse Keeper, too.

The tests are those of `assurance/interop`, run through Keeper's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio.to_thread
import pytest
from assurance.engines.keeper_rules import GENERATIONS, KeeperRules
from assurance.interop import test_matrix as matrix
from assurance.interop.conftest import client as client
from assurance.interop.conftest import connect as connect
from assurance.interop.conftest import kazoo_process as kazoo_process
from assurance.interop.kazoo_peer import Kazoo
from assurance.interop.peers import Connect, Peer
from assurance.interop.test_kazoo import *  # noqa: F403
from assurance.interop.test_matrix import peer as peer
from kit.clients import eventually
from kit.faults import only_on
from kit.raw_client import RawClient

import aiolead
from aiolead import Client
from aiolead.testing import ZooKeeperServer
from aiolead.types import Layout

pytestmark = [pytest.mark.timeout(120), only_on("trio")]

KAZOOS = [cell for cell in matrix.CELLS if cell.library == "kazoo"]

each_cell = pytest.mark.parametrize("cell", KAZOOS, ids=lambda cell: cell.name)


@pytest.fixture(params=GENERATIONS)
def front(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[KeeperRules]:
    host, _, port = zookeeper.connect_string.rpartition(":")
    with KeeperRules(host, int(port), request.param) as front:
        yield front
    assert front.unknown == []


@pytest.fixture
def hosts(front: KeeperRules, zookeeper: ZooKeeperServer, chroot: str) -> str:
    with RawClient(zookeeper.connect_string) as raw:
        raw.create(chroot)
    return front.connect_string + chroot


@each_cell
@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_contenders_hold_in_order_of_arrival(
    connect: Connect, peer: Callable[[], Peer], cell: matrix.Cell, first: str
) -> None:
    await matrix.test_contenders_hold_in_order_of_arrival(connect, peer, cell, first)


@each_cell
async def test_contenders_hold_one_at_a_time(
    connect: Connect, peer: Callable[[], Peer], cell: matrix.Cell
) -> None:
    await matrix.test_contenders_hold_one_at_a_time(connect, peer, cell)


@each_cell
async def test_other_layouts_are_refused(
    connect: Connect, peer: Callable[[], Peer], cell: matrix.Cell
) -> None:
    await matrix.test_other_layouts_are_refused(connect, peer, cell)


async def test_member_of_a_party_is_seen_by_a_group(client: Client, hosts: str) -> None:
    """Kazoo's party and our group have other names: each sees the znodes of both."""
    async with Kazoo(hosts) as kazoo, aiolead.Group(client, "/party").join(identity="ours"):
        party = kazoo.client.Party("/party", "theirs")
        await kazoo.do(party.join)
        assert len(await client.get_children("/party")) == 2
        await kazoo.do(party.leave)
        assert len(await client.get_children("/party")) == 1


async def test_watches_of_kazoo_see_our_writes(client: Client, hosts: str) -> None:
    data: list[bytes | None] = []
    children: list[list[str]] = []
    async with Kazoo(hosts) as kazoo:
        await client.create("/value", b"1")
        await kazoo.do(lambda: kazoo.client.DataWatch("/value", lambda d, _: data.append(d)))
        await kazoo.do(lambda: kazoo.client.ChildrenWatch("/value", children.append))
        await client.set("/value", b"2")
        await client.create("/value/child")
        await eventually(lambda: data == [b"1", b"2"], "kazoo sees the data")
        await eventually(lambda: children == [[], ["child"]], "kazoo sees the child")


async def test_our_views_see_the_writes_of_kazoo(client: Client, hosts: str) -> None:
    async with Kazoo(hosts) as kazoo, client.observe_data("/value") as view:
        await kazoo.do(lambda: kazoo.client.create("/value", b"theirs"))
        async for seen in view:
            if seen is not None and seen[0] == b"theirs":
                break


async def test_queue_of_kazoo_goes_on_as_ours(client: Client, hosts: str) -> None:
    async with Kazoo(hosts) as kazoo:
        queue = kazoo.client.Queue("/queue")
        await kazoo.do(lambda: queue.put(b"one"))
        await kazoo.do(lambda: queue.put(b"two"))
        assert await kazoo.do(queue.get) == b"one"
        assert len(await client.get_children("/queue")) == 1


async def test_kazoo_partitions_as_on_zookeeper(client: Client, hosts: str) -> None:
    async with Kazoo(hosts) as kazoo:
        sharing = await kazoo.do(
            lambda: kazoo.client.SetPartitioner(
                "/set", set=("a", "b"), identifier="kazoo", time_boundary=0.2
            )
        )
        await anyio.to_thread.run_sync(sharing.wait_for_acquire, 20)
        assert sorted(sharing) == ["a", "b"]
        assert await client.get_children("/set")


async def test_lock_of_a_kazoo_that_lost_its_connection_is_handed_to_us(
    client: Client, hosts: str, front: KeeperRules
) -> None:
    async with Kazoo(hosts) as kazoo:
        assert await kazoo.do(kazoo.client.Lock("/lock", "kazoo").acquire)
        front.cut()
        async with aiolead.Lock(client, "/lock", layout=Layout.KAZOO).acquire(timeout=20):
            pass
