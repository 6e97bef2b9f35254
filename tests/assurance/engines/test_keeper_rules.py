"""aiolead through ClickHouse Keeper's rules, in front of a real ZooKeeper.

The acts are those of `tests/recipes/test_engines.py`, where the embedded server has these rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from assurance.engines.keeper_rules import GENERATIONS, KeeperRules
from kit.every_recipe import DONE, FOLLOWED
from recipes import test_engines as engines

import aiolead
from aiolead import Client, Lock
from aiolead.errors import UnsupportedError
from aiolead.testing import ZooKeeperServer

pytestmark = pytest.mark.timeout(120)


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
        await engines.hold_and_hand_over_all(a, b)
        for name, done in DONE.items():
            await done.do(a, f"/done/{name}")
            assert await done.count(b, f"/done/{name}") >= 1
    assert front.unknown == []
    assert front.sessions == 2


@pytest.mark.parametrize("name", FOLLOWED)
async def test_every_view_follows(front: KeeperRules, chroot: str, name: str) -> None:
    async with connect(front, chroot) as a, connect(front, chroot) as b:
        await prepared(a)
        await engines.follow(a, b, name)
        await b.exists("/")
    assert front.unknown == []
    assert front.sessions == 2


async def test_created_stat_and_token_are_those_of_the_znode(
    front: KeeperRules, chroot: str
) -> None:
    """On a real server, the zxid in the answer to a plain create is the znode's czxid."""
    async with connect(front, chroot) as client:
        await prepared(client)
        await engines.create_and_hold(client)
    assert front.unknown == []


async def test_leadership_is_won_again_after_each_lost_connection(
    front: KeeperRules, chroot: str
) -> None:
    async with connect(front, chroot) as client:
        await prepared(client)
        await engines.lead_again(client, front.cut)
    assert front.unknown == []
    assert front.requests.total() < 200  # nothing is tried again and again


async def test_tree_cache_is_never_wrong(front: KeeperRules, chroot: str) -> None:
    async with connect(front, chroot) as a, connect(front, chroot, server_version="3.9") as b:
        await prepared(a)
        await engines.copy_tree(a, b)
    assert front.unknown == []


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
