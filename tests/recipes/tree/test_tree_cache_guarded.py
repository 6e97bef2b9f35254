"""The tree cache among znodes that it may not read, on servers that send no events of those.

Each case runs on every kind of server, and on embedded servers of other versions: 3.5.9 has no
recursive watches; 3.9 guards reads, and withholds events, as Debian's 3.8.0 does (CVE-2024-23944).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest
from kit.clients import Served, catch_up, connect, eventually, proxy_before
from recipes.blocks import enter

from aiolead import ACL, Auth, Client, CreateMode, TreeCache
from aiolead.errors import NoAuthError
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, FaultProxy
from aiolead.types import Feature, TreeEventType, TreeNode

pytestmark = pytest.mark.timeout(60)

TOP = "/tree"
SECRET = f"{TOP}/secret"
ME = Auth.digest("me", "secret")
PRIVATE = [ACL.digest("me", "secret")]
OPEN = [ACL.world()]
GUARDED = "3.9.3"


@dataclass
class Stage:
    """A client that may read what is open, one that may read all, and the link of the first one."""

    a: Client
    b: Client
    proxy: FaultProxy

    @asynccontextmanager
    async def cache(self, **options: bool) -> AsyncIterator[TreeCache]:
        await catch_up(self.a)
        async with TreeCache(self.a, TOP, **options) as cache:
            yield cache

    async def lose_the_link(self) -> None:
        links = self.proxy.connections
        self.proxy.reset()
        await eventually(
            lambda: self.proxy.connections > links and self.a.state is SessionState.CONNECTED,
            "it is on another link",
        )

    async def is_told(self, cache: TreeCache) -> None:
        """Waits until the cache has what has happened before, as far as a server tells."""
        marker = f"{TOP}/marker"
        await self.b.create(marker)
        await eventually(lambda: marker in cache and cache.is_live, "the marker is there")
        await self.b.delete(marker)
        await eventually(lambda: marker not in cache and cache.is_live, "the marker is gone")


Case = Callable[[Stage], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(run: Case) -> Case:
    CASES[run.__name__] = run
    return run


@asynccontextmanager
async def staged(server: Served) -> AsyncIterator[Stage]:
    with proxy_before(server) as proxy:
        async with connect(proxy) as a, connect(server, auth=[ME]) as b:
            yield Stage(a, b, proxy)


def entry(cache: TreeCache, path: str) -> TreeNode:
    node = cache.get(path)
    assert node is not None
    return node


def data_of(cache: TreeCache, path: str) -> bytes | None:
    node = cache.get(path)
    return None if node is None else node.data


def is_closed(cache: TreeCache, path: str) -> bool:
    """It is in the copy as what may not be read: without data, without children."""
    node = cache.get(path)
    found = node and (node.is_readable, node.data, cache.children(path))
    return found == (False, None, [])


# --- the cases ---------------------------------------------------------------------------------


@case
async def it_exists_on_entry(stage: Stage) -> None:
    await stage.b.ensure_path(f"{TOP}/open")
    await stage.b.create(SECRET, b"1", acl=PRIVATE)
    await stage.b.create(f"{SECRET}/child", b"", acl=OPEN)
    async with stage.cache() as cache:
        assert cache.is_live
        assert list(cache) == [TOP, f"{TOP}/open", SECRET]
        assert is_closed(cache, SECRET)
        await stage.b.set(f"{TOP}/open", b"new")
        await eventually(lambda: data_of(cache, f"{TOP}/open") == b"new", "it is kept up")
        await stage.lose_the_link()
        await stage.is_told(cache)
        assert is_closed(cache, SECRET)


@case
async def it_is_created_and_deleted(stage: Stage) -> None:
    await stage.b.create(TOP)
    async with stage.cache() as cache:
        events = cache.events()
        for _ in range(2):
            await stage.b.create(SECRET, b"1", acl=PRIVATE)
            await eventually(lambda: is_closed(cache, SECRET) and cache.is_live, "it is known")
            event = await anext(events)
            assert (event.type, event.path) == (TreeEventType.CREATED, SECRET)
            await stage.b.delete(SECRET)
            await eventually(lambda: SECRET not in cache and cache.is_live, "it is gone")
            event = await anext(events)
            assert (event.type, event.path) == (TreeEventType.DELETED, SECRET)


@case
async def it_is_created_below_new_znodes(stage: Stage) -> None:
    """Of every kind that may have children."""
    await stage.b.create(TOP)
    async with stage.cache() as cache:
        for mode in (CreateMode.PERSISTENT, CreateMode.CONTAINER):
            new = f"{TOP}/{mode.name}"
            await stage.b.create(new, mode=mode)
            await eventually(lambda new=new: new in cache and cache.is_live, "it is known")
            await stage.b.create(f"{new}/secret", acl=PRIVATE)
            await eventually(lambda new=new: is_closed(cache, f"{new}/secret"), "it is known")
        await stage.b.create(f"{TOP}/one", mode=CreateMode.EPHEMERAL)
        await stage.is_told(cache)
        assert f"{TOP}/one" in cache


@case
async def it_becomes_private_and_is_deleted(stage: Stage) -> None:
    """No event reports a changed ACL; but the copy may not keep deleted znodes."""
    await stage.b.ensure_path(f"{SECRET}/child")
    async with stage.cache() as cache:
        await stage.b.set_acl(f"{SECRET}/child", PRIVATE)
        await stage.b.delete(f"{SECRET}/child")
        await eventually(lambda: cache.children(SECRET) == [], "the child is gone")
        await stage.b.set_acl(SECRET, PRIVATE)
        await stage.b.delete(SECRET)
        await eventually(lambda: list(cache) == [TOP] and cache.is_live, "it is gone")


@case
async def it_becomes_private(stage: Stage) -> None:
    """That is noticed with the next comparison: after a lost connection at the latest."""
    await stage.b.ensure_path(f"{SECRET}/child")
    await stage.b.set(SECRET, b"old")
    async with stage.cache() as cache:
        assert data_of(cache, SECRET) == b"old"
        await stage.b.set_acl(SECRET, PRIVATE)
        await stage.b.set(SECRET, b"new")
        await stage.b.create(f"{SECRET}/late", acl=OPEN)
        await stage.is_told(cache)
        await stage.lose_the_link()
        await eventually(lambda: is_closed(cache, SECRET) and cache.is_live, "it is closed")
        assert list(cache) == [TOP, SECRET]


@case
async def it_is_opened(stage: Stage) -> None:
    await stage.b.create(TOP)
    await stage.b.create(SECRET, b"1", acl=PRIVATE)
    await stage.b.create(f"{SECRET}/child", acl=OPEN)
    async with stage.cache() as cache:
        await stage.b.set_acl(SECRET, OPEN)
        await stage.b.set(SECRET, b"2")
        await eventually(lambda: data_of(cache, SECRET) == b"2", "it may be read")
        await eventually(lambda: cache.children(SECRET) == ["child"], "its children may be listed")
        assert entry(cache, SECRET).is_readable
        await stage.b.create(f"{SECRET}/more", acl=PRIVATE)
        await eventually(lambda: is_closed(cache, f"{SECRET}/more"), "its children are watched")


@case
async def it_is_replaced(stage: Stage) -> None:
    await stage.b.create(TOP)
    await stage.b.create(SECRET, b"1", acl=PRIVATE)
    async with stage.cache() as cache:
        for acl in (OPEN, PRIVATE):
            await stage.b.delete(SECRET)
            await stage.b.create(SECRET, b"2", acl=acl)
            if acl is OPEN:
                await eventually(lambda: data_of(cache, SECRET) == b"2", "it is the open one")
                await stage.b.create(f"{SECRET}/child")
                await eventually(lambda: f"{SECRET}/child" in cache, "its children are known")
                await stage.b.delete(f"{SECRET}/child")
        await eventually(lambda: is_closed(cache, SECRET) and cache.is_live, "it is closed again")


@case
async def it_was_private_for_a_while(stage: Stage) -> None:
    """The watch of its children has fired, as they changed meanwhile."""
    path = f"{TOP}/door"
    await stage.b.ensure_path(path)
    async with stage.cache() as cache:
        await stage.b.set_acl(path, PRIVATE)
        await stage.b.create(f"{path}/one", acl=PRIVATE)
        await stage.b.set_acl(path, OPEN)
        await stage.b.set(path, b"open")
        await eventually(lambda: is_closed(cache, f"{path}/one"), "its children are read again")
        await stage.b.create(f"{path}/two", acl=PRIVATE)
        await eventually(lambda: is_closed(cache, f"{path}/two"), "and watched")


@case
async def a_readable_one_is_replaced_in_one_transaction(stage: Stage) -> None:
    """The watch of the old one's children has gone with it."""
    new = f"{TOP}/new"
    await stage.b.ensure_path(new)
    async with stage.cache() as cache:
        await stage.b.transaction().delete(new).create(new, b"2")
        await eventually(lambda: data_of(cache, new) == b"2" and cache.is_live, "it is known")
        await stage.b.create(f"{new}/secret", acl=PRIVATE)
        await eventually(lambda: is_closed(cache, f"{new}/secret"), "its children are watched")


@case
async def nothing_is_known_below_it(stage: Stage) -> None:
    """Events of open znodes below it are sent. But the servers do not list them."""
    await stage.b.create(TOP)
    await stage.b.create(SECRET, acl=PRIVATE)
    async with stage.cache() as cache:
        await stage.b.create(f"{SECRET}/child", acl=OPEN)
        await stage.b.create(f"{SECRET}/child/below", acl=OPEN)
        await stage.b.set(f"{SECRET}/child", b"1")
        await stage.is_told(cache)
        assert list(cache) == [TOP, SECRET]


@case
async def no_data_are_kept(stage: Stage) -> None:
    await stage.b.ensure_path(f"{TOP}/open")
    await stage.b.create(SECRET, acl=PRIVATE)
    async with stage.cache(data=False) as cache:
        assert is_closed(cache, SECRET)
        await stage.b.create(f"{TOP}/other", acl=PRIVATE)
        await eventually(lambda: is_closed(cache, f"{TOP}/other"), "another one has come")
        await stage.b.delete(SECRET)
        await eventually(lambda: SECRET not in cache, "the first one is gone")
        await stage.b.set_acl(f"{TOP}/open", PRIVATE)
        await stage.lose_the_link()
        await eventually(lambda: is_closed(cache, f"{TOP}/open"), "a third one was closed")
        await stage.b.set_acl(f"{TOP}/other", OPEN)
        await stage.b.set(f"{TOP}/other", b"")
        await stage.b.create(f"{TOP}/other/child")
        await eventually(lambda: f"{TOP}/other/child" in cache, "and the other one opened")
        assert entry(cache, f"{TOP}/other").is_readable


@case
async def the_top_is_created_as_a_private_one(stage: Stage) -> None:
    """And what is above it as well: nobody has to be there when the cache begins."""
    top = "/above/in/between/top"
    async with TreeCache(stage.a, top) as cache:
        assert (len(cache), cache.is_live) == (0, True)
        events = cache.events()
        await stage.b.ensure_path("/above/in")
        await stage.b.ensure_path(top.rpartition("/")[0])
        await stage.b.create(f"{top}-other", acl=PRIVATE)
        await stage.b.create(top, acl=PRIVATE)
        with pytest.raises(NoAuthError):
            await anext(events)
        with pytest.raises(NoAuthError):
            cache.get(top)
        assert not cache.is_live


@case
async def top_below_an_unreadable_znode_is_not_live(stage: Stage) -> None:
    """A missing znode below one that may not be listed is not live: it may come unseen."""
    await stage.b.create(TOP, acl=PRIVATE)
    await catch_up(stage.a)
    async with TreeCache(stage.a, SECRET) as cache:
        assert (len(cache), cache.is_live) == (0, False)
        await stage.b.create(SECRET, b"1", acl=OPEN)
        await eventually(lambda: cache.is_live, "an open one is seen")
        assert data_of(cache, SECRET) == b"1"


@case
async def the_top_is_private(stage: Stage) -> None:
    await stage.b.create(TOP, acl=PRIVATE)
    await catch_up(stage.a)
    for data in (True, False):
        with pytest.raises(NoAuthError) as caught:
            await enter(TreeCache(stage.a, TOP, data=data))
        assert caught.value.path == TOP


# --- where they run -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.only_zookeeper("the permission for `exists` of one version")
async def test_unreadable_znodes(server: Served, name: str) -> None:
    async with staged(server) as stage:
        await CASES[name](stage)


NEED_RECURSIVE_WATCHES = {"no_data_are_kept", "top_below_an_unreadable_znode_is_not_live"}


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (version, name)
        for version in ("3.5.9", "debian-3.8.0", GUARDED)
        for name in CASES
        if version != "3.5.9" or name not in NEED_RECURSIVE_WATCHES
    ],
)
async def test_unreadable_znodes_on_servers_of_other_versions(version: str, name: str) -> None:
    backports = [Feature.EVENTS_NEED_READ] if version.startswith("debian") else []
    version = version.removeprefix("debian-")
    async with EmbeddedServer(version=version, backports=backports) as server:
        async with staged(server) as stage:
            await CASES[name](stage)


async def test_leaving_leaves_no_watch() -> None:
    async with EmbeddedServer(version=GUARDED) as server, staged(server) as stage:
        await stage.b.ensure_path(f"{TOP}/open")
        await stage.b.create(SECRET, acl=PRIVATE)
        for path in (TOP, "/none/such", f"{SECRET}/none"):
            async with TreeCache(stage.a, path):
                assert server.watches() != {}
            await eventually(lambda: server.watches() == {}, "no watch is left")
        with anyio.fail_after(20), pytest.raises(NoAuthError):
            await enter(TreeCache(stage.a, SECRET))
        await eventually(lambda: server.watches() == {}, "no watch is left")


async def test_comparing_costs_one_request_for_each_unreadable_znode() -> None:
    async with EmbeddedServer(version=GUARDED) as server, staged(server) as stage:
        await stage.b.create(TOP)
        for number in range(5):
            await stage.b.create(f"{TOP}/{number}", acl=PRIVATE)
        async with stage.cache() as cache:
            assert len(cache) == 6
            assert sorted(server.watches()) == [TOP]
            before = server.requests.copy()
            await stage.lose_the_link()

            def is_compared() -> bool:
                return cache.is_live and (server.requests - before)["EXISTS"] >= 6

            await eventually(is_compared, "it is compared")
            assert (server.requests - before)["EXISTS"] == 6
