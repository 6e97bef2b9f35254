"""The tree cache among znodes that it may not read, on servers that do not tell of those.

Each scene runs on what `server` stands for, and on an embedded server that guards reads as
ZooKeeper 3.9 does. Debian's 3.8.0 withholds events, too (CVE-2024-23944).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio
import pytest
from kit.clients import Served, catch_up, connect, eventually

from aiolead import ACL, Auth, Client, CreateMode, TreeCache
from aiolead.errors import NoAuthError
from aiolead.model import SessionState
from aiolead.paths import parse_connect_string
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


class Scene(Protocol):
    __name__: str

    def __call__(self, stage: Stage) -> Awaitable[None]: ...


SCENES: list[Scene] = []


def scene(run: Scene) -> Scene:
    SCENES.append(run)
    return run


class _Address:
    def __init__(self, connect_string: str) -> None:
        self.connect_string = connect_string


@asynccontextmanager
async def staged(server: Served) -> AsyncIterator[Stage]:
    place = parse_connect_string(server.connect_string)
    with FaultProxy(*place.hosts[0]) as proxy:
        address = _Address(proxy.connect_string + place.chroot)
        async with connect(address) as a, connect(server, auth=[ME]) as b:
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
    return (
        node is not None
        and not node.is_readable
        and node.data is None
        and cache.children(path) == []
    )


# --- the scenes --------------------------------------------------------------------------------


@scene
async def it_is_there_on_entry(stage: Stage) -> None:
    await stage.b.ensure_path(f"{TOP}/open")
    await stage.b.create(SECRET, b"1", acl=PRIVATE)
    await stage.b.create(f"{SECRET}/child", b"", acl=OPEN)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        assert cache.is_live
        assert list(cache) == [TOP, f"{TOP}/open", SECRET]
        assert is_closed(cache, SECRET)
        await stage.b.set(f"{TOP}/open", b"new")
        await eventually(lambda: entry(cache, f"{TOP}/open").data == b"new", "it is kept up")
        await stage.lose_the_link()
        await stage.is_told(cache)
        assert is_closed(cache, SECRET)


@scene
async def it_comes_and_goes(stage: Stage) -> None:
    await stage.b.create(TOP)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
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


@scene
async def it_comes_below_new_znodes(stage: Stage) -> None:
    """Of every kind that may have children."""
    await stage.b.create(TOP)
    async with TreeCache(stage.a, TOP) as cache:
        for mode in (CreateMode.PERSISTENT, CreateMode.CONTAINER):
            new = f"{TOP}/{mode.name}"
            await stage.b.create(new, mode=mode)
            await eventually(lambda new=new: new in cache and cache.is_live, "it is known")
            await stage.b.create(f"{new}/secret", acl=PRIVATE)
            await eventually(lambda new=new: is_closed(cache, f"{new}/secret"), "what is below too")
        await stage.b.create(f"{TOP}/one", mode=CreateMode.EPHEMERAL)
        await stage.is_told(cache)
        assert f"{TOP}/one" in cache


@scene
async def it_becomes_private_and_goes(stage: Stage) -> None:
    """Nobody is told that an ACL has changed; but the copy may not keep what is deleted."""
    await stage.b.ensure_path(f"{SECRET}/child")
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        await stage.b.set_acl(f"{SECRET}/child", PRIVATE)
        await stage.b.delete(f"{SECRET}/child")
        await eventually(lambda: cache.children(SECRET) == [], "the child is gone")
        await stage.b.set_acl(SECRET, PRIVATE)
        await stage.b.delete(SECRET)
        await eventually(lambda: list(cache) == [TOP] and cache.is_live, "it is gone")


@scene
async def it_becomes_private(stage: Stage) -> None:
    """That is noticed with the next comparison: after a lost connection at the latest."""
    await stage.b.ensure_path(f"{SECRET}/child")
    await stage.b.set(SECRET, b"old")
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        assert entry(cache, SECRET).data == b"old"
        await stage.b.set_acl(SECRET, PRIVATE)
        await stage.b.set(SECRET, b"new")
        await stage.b.create(f"{SECRET}/late", acl=OPEN)
        await stage.is_told(cache)
        await stage.lose_the_link()
        await eventually(lambda: is_closed(cache, SECRET) and cache.is_live, "it is closed")
        assert list(cache) == [TOP, SECRET]


@scene
async def it_is_opened(stage: Stage) -> None:
    await stage.b.create(TOP)
    await stage.b.create(SECRET, b"1", acl=PRIVATE)
    await stage.b.create(f"{SECRET}/child", acl=OPEN)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        await stage.b.set_acl(SECRET, OPEN)
        await stage.b.set(SECRET, b"2")
        await eventually(lambda: entry(cache, SECRET).data == b"2", "it may be read")
        await eventually(lambda: cache.children(SECRET) == ["child"], "its children may be listed")
        assert entry(cache, SECRET).is_readable
        await stage.b.create(f"{SECRET}/more", acl=PRIVATE)
        await eventually(lambda: is_closed(cache, f"{SECRET}/more"), "its children are watched")


@scene
async def another_one_takes_its_place(stage: Stage) -> None:
    await stage.b.create(TOP)
    await stage.b.create(SECRET, b"1", acl=PRIVATE)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        for acl in (OPEN, PRIVATE):
            await stage.b.delete(SECRET)
            await stage.b.create(SECRET, b"2", acl=acl)
            if acl is OPEN:
                await eventually(lambda: data_of(cache, SECRET) == b"2", "it is the open one")
                await stage.b.create(f"{SECRET}/child")
                await eventually(lambda: f"{SECRET}/child" in cache, "its children are known")
                await stage.b.delete(f"{SECRET}/child")
        await eventually(lambda: is_closed(cache, SECRET) and cache.is_live, "it is closed again")


@scene
async def it_was_private_for_a_while(stage: Stage) -> None:
    """What would have told of its children has gone, as they changed meanwhile."""
    path = f"{TOP}/door"
    await stage.b.ensure_path(path)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        await stage.b.set_acl(path, PRIVATE)
        await stage.b.create(f"{path}/one", acl=PRIVATE)
        await stage.b.set_acl(path, OPEN)
        await stage.b.set(path, b"open")
        await eventually(lambda: is_closed(cache, f"{path}/one"), "its children are read again")
        await stage.b.create(f"{path}/two", acl=PRIVATE)
        await eventually(lambda: is_closed(cache, f"{path}/two"), "and watched")


@scene
async def an_open_one_is_replaced_at_once(stage: Stage) -> None:
    """What watched the children of the old one has gone with it."""
    new = f"{TOP}/new"
    await stage.b.ensure_path(new)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        await stage.b.transaction().delete(new).create(new, b"2")
        await eventually(lambda: data_of(cache, new) == b"2" and cache.is_live, "it is known")
        await stage.b.create(f"{new}/secret", acl=PRIVATE)
        await eventually(lambda: is_closed(cache, f"{new}/secret"), "its children are watched")


@scene
async def nothing_is_known_below_it(stage: Stage) -> None:
    """Events of open znodes below it are sent. But whether they are there still is not told."""
    await stage.b.create(TOP)
    await stage.b.create(SECRET, acl=PRIVATE)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP) as cache:
        await stage.b.create(f"{SECRET}/child", acl=OPEN)
        await stage.b.create(f"{SECRET}/child/below", acl=OPEN)
        await stage.b.set(f"{SECRET}/child", b"1")
        await stage.is_told(cache)
        assert list(cache) == [TOP, SECRET]


@scene
async def no_data_are_kept(stage: Stage) -> None:
    await stage.b.ensure_path(f"{TOP}/open")
    await stage.b.create(SECRET, acl=PRIVATE)
    await catch_up(stage.a)
    async with TreeCache(stage.a, TOP, data=False) as cache:
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


@scene
async def the_top_comes_as_a_private_one(stage: Stage) -> None:
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


@scene
async def nobody_would_tell_of_the_top(stage: Stage) -> None:
    """What is missing below a znode that may not be listed is not live: it may come unseen."""
    await stage.b.create(TOP, acl=PRIVATE)
    await catch_up(stage.a)
    async with TreeCache(stage.a, SECRET) as cache:
        assert (len(cache), cache.is_live) == (0, False)
        await stage.b.create(SECRET, b"1", acl=OPEN)
        await eventually(lambda: cache.is_live, "it is told of an open one")
        assert entry(cache, SECRET).data == b"1"


@scene
async def the_top_is_private(stage: Stage) -> None:
    await stage.b.create(TOP, acl=PRIVATE)
    await catch_up(stage.a)
    for data in (True, False):
        with pytest.raises(NoAuthError) as caught:
            async with TreeCache(stage.a, TOP, data=data):
                pass
        assert caught.value.path == TOP


# --- where they play ---------------------------------------------------------------------------

PLAYED = pytest.mark.parametrize("play", SCENES, ids=[each.__name__ for each in SCENES])
Play = Callable[[Stage], Awaitable[None]]


@PLAYED
async def test_znodes_that_may_not_be_read(server: Served, play: Play) -> None:
    async with staged(server) as stage:
        await play(stage)


@PLAYED
@pytest.mark.parametrize("version", ["debian-3.8.0", GUARDED])
async def test_on_a_server_that_guards_reads(version: str, play: Play) -> None:
    backports = [Feature.EVENTS_NEED_READ] if version.startswith("debian") else []
    version = version.removeprefix("debian-")
    async with EmbeddedServer(version=version, backports=backports) as server:
        async with staged(server) as stage:
            await play(stage)


async def test_no_watch_is_left() -> None:
    async with EmbeddedServer(version=GUARDED) as server, staged(server) as stage:
        await stage.b.ensure_path(f"{TOP}/open")
        await stage.b.create(SECRET, acl=PRIVATE)
        for path in (TOP, "/none/such", f"{SECRET}/none"):
            async with TreeCache(stage.a, path):
                assert server.watches() != {}
            await eventually(lambda: server.watches() == {}, "no watch is left")
        with anyio.fail_after(20), pytest.raises(NoAuthError):
            async with TreeCache(stage.a, SECRET):
                pass
        await eventually(lambda: server.watches() == {}, "no watch is left")


async def test_a_permission_is_not_looked_for_twice() -> None:
    """What is known to be closed costs one request each time that it is looked at, and no watch."""
    async with EmbeddedServer(version=GUARDED) as server, staged(server) as stage:
        await stage.b.create(TOP)
        for number in range(5):
            await stage.b.create(f"{TOP}/{number}", acl=PRIVATE)
        async with TreeCache(stage.a, TOP) as cache:
            assert len(cache) == 6
            assert sorted(server.watches()) == [TOP]
            before = server.requests.copy()
            await stage.lose_the_link()

            def is_compared() -> bool:
                return cache.is_live and (server.requests - before)["EXISTS"] >= 6

            await eventually(is_compared, "it is compared")
            assert (server.requests - before)["EXISTS"] == 6
