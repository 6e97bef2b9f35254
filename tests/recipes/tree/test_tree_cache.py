"""The tree cache: a copy that is the tree in the end, and events that add up to it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from kit.clients import Served, Wire, catch_up, connect, eventually, in_memory
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

from aiolead import ACL, Auth, Client, NoNodeError, TreeCache
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    ClientClosedError,
    ConfigurationError,
    NoAuthError,
    TreeTooLargeError,
    UsageError,
)
from aiolead.model import Permission, SessionState
from aiolead.testing import EmbeddedServer
from aiolead.types import TreeEvent, TreeEvents, TreeEventType, TreeNode

pytestmark = pytest.mark.timeout(60)

TOP = "/tree"
VERSIONS = pytest.mark.parametrize("version", ["3.8.0", "3.5.9"])
"""With one watch for all and one for each znode, and with two for each znode."""


@asynccontextmanager
async def embedded_server(version: str) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(version=version) as server:
        yield server


async def truth(client: Client, path: str = TOP) -> dict[str, bytes]:
    """The tree as it is."""
    try:
        data, _ = await client.get(path)
        names = await client.get_children(path)
    except NoNodeError:
        return {}
    tree = {path: data}
    for name in names:
        tree.update(await truth(client, f"{path}/{name}"))
    return tree


def copied(cache: TreeCache) -> dict[str, bytes]:
    found = {}
    for path in cache:
        node = cache.get(path)
        assert node is not None
        assert node.data is not None
        found[path] = node.data
        children = cache.children(path)
        assert children is not None
        below = [each[len(path) + 1 :] for each in cache if each.rpartition("/")[0] == path]
        assert children == sorted(below)
    return found


async def equals(cache: TreeCache, client: Client) -> None:
    """Waits until the copy is the tree."""
    await catch_up(client)
    tree = await truth(client)
    await eventually(lambda: cache.is_live and copied(cache) == tree, f"the copy is {tree}")


def _written(node: TreeNode | None) -> tuple[int, int] | None:
    """Which transactions have made it what it is."""
    return None if node is None else (node.stat.czxid, node.stat.mzxid)


class Follower:
    """Adds events up."""

    def __init__(self, events: TreeEvents) -> None:
        self.events = events
        self.nodes: dict[str, TreeNode] = {}
        self.seen: list[TreeEvent] = []

    async def run(self) -> None:
        async for event in self.events:
            self.seen.append(event)
            assert _written(self.nodes.get(event.path)) == _written(event.old)
            assert (event.old is None) == (event.type is TreeEventType.CREATED)
            if event.new is None:
                del self.nodes[event.path]
            else:
                if event.old is not None:
                    assert event.new.stat.mzxid > event.old.stat.mzxid
                self.nodes[event.path] = event.new

    def equals(self, cache: TreeCache) -> bool:
        mine = {path: _written(node) for path, node in self.nodes.items()}
        return mine == {path: _written(cache.get(path)) for path in cache}

    def told(self) -> list[tuple[str, str]]:
        return [(event.type.value, event.path.removeprefix(TOP)) for event in self.seen]


async def test_a_tree_is_copied_and_kept(server: Served) -> None:
    async with connect(server) as a, connect(server) as b:
        await b.ensure_path(f"{TOP}/a/b")
        await b.set(f"{TOP}/a", b"1")
        await catch_up(a)
        async with TreeCache(a, TOP) as cache:
            assert cache.is_live
            assert list(cache) == [TOP, f"{TOP}/a", f"{TOP}/a/b"]
            assert cache.children(TOP) == ["a"]
            assert cache.children(f"{TOP}/a/b") == []
            assert cache.children(f"{TOP}/x") is None
            assert cache.get(f"{TOP}/x") is None
            node = cache.get(f"{TOP}/a")
            assert node is not None
            assert (node.data, node.stat.version, node.is_readable) == (b"1", 1, True)
            follower = Follower(cache.events(initial=True))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follower.run)
                await b.set(f"{TOP}/a", b"2")
                await b.create(f"{TOP}/c", b"3")
                await b.delete(f"{TOP}/a/b")
                await equals(cache, b)
                await eventually(lambda: follower.nodes.keys() == set(cache), "all is told")
                assert follower.told()[:3] == [
                    ("created", ""),
                    ("created", "/a"),
                    ("created", "/a/b"),
                ]
                await b.delete_all(TOP)
                await equals(cache, b)
                await b.ensure_path(f"{TOP}/new/one")
                await equals(cache, b)
                tasks.cancel_scope.cancel()
        assert not cache.is_live
        assert len(cache) == 3
        with pytest.raises(StopAsyncIteration):
            await anext(cache.events())


async def test_a_tree_that_is_not_there_yet(server: Served) -> None:
    async with connect(server) as client:
        async with TreeCache(client, TOP) as cache:
            assert (len(cache), cache.is_live) == (0, True)
            await client.create(TOP, b"now")
            await equals(cache, client)
            await client.delete(TOP)
            await equals(cache, client)
            await client.create(TOP, b"again")
            await equals(cache, client)
            assert TOP in cache


@VERSIONS
async def test_many_changes_at_once(version: str) -> None:
    """Whatever happens in whatever order: in the end it is the same, and no event contradicts."""
    async with embedded_server(version) as server:
        async with in_memory(server) as a, in_memory(server) as b:
            rng = random.Random(4)
            async with TreeCache(a, TOP) as cache, anyio.create_task_group() as tasks:
                followers = [Follower(cache.events(initial=True)) for _ in range(2)]
                for follower in followers:
                    tasks.start_soon(follower.run)
                for round_ in range(6):
                    for _ in range(40):
                        await _change_something(rng, b)
                    if round_ % 3 == 1:
                        server.disconnect()
                    if round_ % 3 == 2:
                        server.expire_session(a.session_id)
                    for _ in range(10):
                        await _change_something(rng, b)
                    await equals(cache, b)
                    for follower in followers:
                        await eventually(lambda f=follower: f.equals(cache), "it adds up")
                tasks.cancel_scope.cancel()


async def _change_something(rng: random.Random, client: Client) -> None:
    path = TOP + "".join(f"/{rng.choice('abc')}" for _ in range(rng.randint(0, 3)))
    match rng.choice(("create", "set", "set", "delete", "replace")):
        case "create":
            await client.ensure_path(path)
        case "set":
            if await client.exists(path) is not None:
                await client.set(path, rng.randbytes(2))
        case "replace":
            await client.delete_all(path)
            await client.ensure_path(path)
        case _:
            await client.delete_all(path)


@VERSIONS
async def test_what_happens_while_the_link_is_down(version: str) -> None:
    """A znode that was deleted and made anew has the same version, and is another one."""
    async with embedded_server(version) as server:
        wire = Wire(server)
        async with wire.connect() as a, in_memory(server) as b:
            for path in ("same", "changed", "deleted/below", "replaced/below"):
                await b.ensure_path(f"{TOP}/{path}")
            async with TreeCache(a, TOP) as cache, anyio.create_task_group() as tasks:
                follower = Follower(cache.events(initial=True))
                tasks.start_soon(follower.run)
                await eventually(lambda: follower.equals(cache), "it knows what there is")
                follower.seen.clear()
                wire.hold()  # nor does it notice any of this before all of it is done
                server.disconnect(a.session_id)
                await b.set(f"{TOP}/changed", b"new")
                await b.delete_all(f"{TOP}/deleted")
                await b.delete_all(f"{TOP}/replaced")
                await b.ensure_path(f"{TOP}/replaced/other")
                await b.create(f"{TOP}/created")
                wire.release()
                await equals(cache, b)
                expected = {
                    ("changed", "/changed"),
                    ("deleted", "/deleted"),
                    ("deleted", "/deleted/below"),
                    ("deleted", "/replaced"),
                    ("deleted", "/replaced/below"),
                    ("created", "/replaced"),
                    ("created", "/replaced/other"),
                    ("created", "/created"),
                }
                await eventually(lambda: len(follower.seen) >= len(expected), "it is told")
                assert set(follower.told()) == expected
                assert len(follower.told()) == len(expected)
                tasks.cancel_scope.cancel()


async def test_after_a_reconnect_only_what_has_changed_is_fetched() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        for number in range(20):
            await b.ensure_path(f"{TOP}/{number}")
        async with TreeCache(a, TOP) as cache:
            before = server.requests.copy()
            server.disconnect(a.session_id)
            await b.set(f"{TOP}/7", b"new")
            await eventually(lambda: server.requests["GET_DATA"] > before["GET_DATA"], "it looks")
            await equals(cache, b)
            more = server.requests - before
            # `equals` itself reads each of the 21 once.
            assert (more["GET_DATA"], more["GET_CHILDREN"]) == (21 + 1, 21)
            assert more["EXISTS"] == 21


@VERSIONS
async def test_what_is_created_below_a_znode_that_is_being_read(version: str) -> None:
    """The link is lost after its creation was told, and before it is in the copy."""
    async with embedded_server(version) as server, in_memory(server) as b:
        wire = Wire(server)
        async with wire.connect() as a:
            await b.create(TOP)
            async with TreeCache(a, TOP) as cache:
                lost = anyio.Event()

                def on_state(state: SessionState, _session_id: int) -> None:
                    if state is SessionState.SUSPENDED:
                        wire.hold()
                        lost.set()

                a.backend.subscribe(on_state)
                server.drop_reply(OpCode.GET_DATA)
                await b.create(f"{TOP}/a")
                await lost.wait()
                await b.create(f"{TOP}/a/b")
                wire.release()
                await equals(cache, b)


async def test_an_overflow_is_a_gap_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events come in faster than they are taken note of, and do not fit any more."""
    monkeypatch.setitem(Client.watch.__kwdefaults__ or {}, "max_events", 3)
    async with EmbeddedServer() as server:
        wire = Wire(server)
        async with wire.connect() as a, in_memory(server) as b:
            await b.create(TOP)
            async with TreeCache(a, TOP) as cache:
                requests = server.requests.copy()
                wire.hold()
                for number in range(50):
                    await b.create(f"{TOP}/{number}")
                wire.release()
                await equals(cache, b)
                assert len(cache) == 51
                # It has compared what it knew, the top, and found that this has more children.
                assert (server.requests - requests)["EXISTS"] >= 2


@VERSIONS
async def test_znodes_that_may_not_be_read(version: str) -> None:
    me = Auth.digest("me", "secret")
    closed = [ACL.digest("me", "secret"), ACL.world(Permission.CREATE | Permission.DELETE)]
    async with embedded_server(version) as server:
        async with in_memory(server) as a, in_memory(server, auth=[me]) as b:
            await b.create(TOP, b"top")
            await b.create(f"{TOP}/closed", b"secret", acl=closed)
            await b.create(f"{TOP}/closed/child")
            await b.create(f"{TOP}/open", b"open")
            async with TreeCache(a, TOP) as cache:
                assert cache.is_live
                node = cache.get(f"{TOP}/closed")
                assert node is not None
                assert (node.data, node.is_readable) == (None, False)
                assert cache.children(f"{TOP}/closed") == []
                assert cache.children(TOP) == ["closed", "open"]
                await b.set_acl(f"{TOP}/closed", [ACL.world()])
                await b.set(f"{TOP}/closed", b"for all")
                await eventually(lambda: _is_readable(cache), "it may be read now")
                server.disconnect(a.session_id)
                await equals(cache, b)
                await b.delete_all(f"{TOP}/closed")
                await equals(cache, b)
            await b.set_acl(TOP, closed)
            with pytest.raises(NoAuthError):
                async with TreeCache(a, TOP):
                    pass


@VERSIONS
async def test_znodes_that_may_not_be_listed_where_no_data_are_kept(version: str) -> None:
    me, closed = Auth.digest("me", "secret"), f"{TOP}/closed"
    async with embedded_server(version) as server:
        async with in_memory(server) as a, in_memory(server, auth=[me]) as b:
            await b.create(TOP)
            await b.create(closed, acl=[ACL.digest("me", "secret")])
            await b.create(f"{closed}/child", acl=[ACL.world()])
            async with TreeCache(a, TOP, data=False) as cache:

                def known() -> tuple[int, bool]:
                    node = cache.get(closed)
                    assert node is not None
                    return node.stat.version, node.is_readable

                assert (known(), cache.children(closed)) == ((0, False), [])
                await b.set(closed, b"1")
                await eventually(lambda: known() == (1, False), "it is closed still")
                await b.set_acl(closed, [ACL.world()])
                await b.set(closed, b"2")
                await eventually(
                    lambda: cache.children(closed) == ["child"], "it may be listed now"
                )
                assert known() == (2, True)
                await b.set_acl(closed, [ACL.digest("me", "secret")])
                await b.set(closed, b"3")
                await eventually(lambda: known() == (3, False), "it is closed again")
                await b.create(f"{TOP}/new", acl=[ACL.digest("me", "secret")])
                await eventually(
                    lambda: (node := cache.get(f"{TOP}/new")) is not None and not node.is_readable,
                    "what is closed from the beginning is known to be",
                )


def _is_readable(cache: TreeCache) -> bool:
    node = cache.get(f"{TOP}/closed")
    return node is not None and node.is_readable and node.data == b"for all"


@VERSIONS
async def test_the_number_of_znodes_is_bounded(version: str) -> None:
    async with embedded_server(version) as server, in_memory(server) as client:
        for number in range(9):
            await client.ensure_path(f"{TOP}/{number}")
        async with TreeCache(client, TOP, max_nodes=10) as cache:
            events = cache.events()
            await client.set(f"{TOP}/3", b"new")
            assert (await anext(events)).path == f"{TOP}/3"
            await client.create(f"{TOP}/9")
            with pytest.raises(TreeTooLargeError, match="more than 10 znodes"):
                await anext(events)
            for _ in range(2):
                with pytest.raises(TreeTooLargeError):
                    cache.get(TOP)
            assert not cache.is_live
        with pytest.raises(TreeTooLargeError):
            async with TreeCache(client, TOP, max_nodes=10):
                pass
        await eventually(lambda: server.watches() == {}, "no watch is left")


@VERSIONS
async def test_without_data_and_with_a_selection(version: str) -> None:
    async with embedded_server(version) as server, in_memory(server) as client:
        await client.ensure_path(f"{TOP}/in/in")
        await client.ensure_path(f"{TOP}/out/in")

        def select(path: str) -> bool:
            return not path.endswith("out")

        async with TreeCache(client, TOP, data=False, select=select) as cache:
            assert list(cache) == [TOP, f"{TOP}/in", f"{TOP}/in/in"]
            node = cache.get(f"{TOP}/in")
            assert node is not None
            assert node.data is None
            events = cache.events()
            await client.create(f"{TOP}/out/more")
            await client.create(f"{TOP}/in/out")
            await client.set(f"{TOP}/in", b"new")
            event = await anext(events)
            assert (event.type, event.path) == (TreeEventType.CHANGED, f"{TOP}/in")
            assert event.new is not None
            assert event.new.stat.version == 1
            assert list(cache) == [TOP, f"{TOP}/in", f"{TOP}/in/in"]


async def test_a_slow_reader_is_told_what_it_comes_to() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(TOP)
        await client.create(f"{TOP}/a")
        await client.create(f"{TOP}/b")
        async with TreeCache(client, TOP) as cache:
            events = cache.events()
            await client.set(f"{TOP}/a", b"1")
            await equals(cache, client)
            await client.set(f"{TOP}/a", b"2")
            await client.create(f"{TOP}/came-and-went")
            await equals(cache, client)
            await client.delete(f"{TOP}/came-and-went")
            await client.delete(f"{TOP}/b")
            await equals(cache, client)
            await client.create(f"{TOP}/b", b"other")
            await equals(cache, client)
            told = [await anext(events) for _ in range(3)]
            assert [(e.type.value, e.path) for e in told] == [
                ("changed", f"{TOP}/a"),
                ("deleted", f"{TOP}/b"),
                ("created", f"{TOP}/b"),
            ]
            assert told[0].new is not None
            assert told[0].new.data == b"2"
            with anyio.move_on_after(0.01):
                pytest.fail(f"there is more: {await anext(events)}")


@VERSIONS
async def test_nothing_is_left(version: str) -> None:
    async with embedded_server(version) as server, in_memory(server) as client:
        await client.ensure_path(f"{TOP}/a/b")
        cache = TreeCache(client, TOP)
        with pytest.raises(UsageError, match="not opened"):
            cache.get(TOP)
        async with cache:
            assert sorted(server.watches()) == [TOP, f"{TOP}/a", f"{TOP}/a/b"]
            assert server.requests["ADD_WATCH"] == (version == "3.8.0")
            with pytest.raises(UsageError, match="already"):
                await cache.__aenter__()
        await eventually(lambda: server.watches() == {}, "no watch is left")
        await client.set(TOP, b"new")


@virtually
async def test_a_server_that_has_too_much_to_do() -> None:
    """It is asked again, after a while: for the watch, and for what is to be read."""
    async with embedded() as server, connect_virtually(server) as client:
        await client.create(TOP)
        server.throttle(OpCode.ADD_WATCH)
        server.throttle(OpCode.GET_DATA)
        async with TreeCache(client, TOP) as cache:
            assert list(cache) == [TOP]


async def test_it_ends_with_the_client() -> None:
    async with EmbeddedServer() as server:
        connection = in_memory(server)
        client = await connection.__aenter__()
        async with TreeCache(client, TOP) as cache:
            events = cache.events()
            await connection.__aexit__(None, None, None)
            with pytest.raises(ClientClosedError):
                await anext(events)
            with pytest.raises(ClientClosedError):
                cache.get(TOP)
        with pytest.raises(ClientClosedError):
            await TreeCache(client, TOP).__aenter__()


async def test_arguments_are_checked() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        for options in ({"max_nodes": 0}, {"select": 1}, {"path": "tree"}):
            with pytest.raises(ConfigurationError):
                TreeCache(client, **{"path": TOP, **options})  # type: ignore[arg-type]


# --- where others never stop writing -------------------------------------------------------------


async def test_a_cache_is_complete_though_changes_never_end() -> None:
    """Entering ends, and it is live again after a lost connection, while something is unread."""
    nodes, most, writes = 300, 20_000, 0

    async def write(writer: Client) -> None:
        nonlocal writes
        while writes < most:
            # More than the cache reads in one round trip: there is always something to read.
            replies = [writer.set(f"{TOP}/{(writes + n) % nodes}", b"") for n in range(8)]
            writes += len(replies)
            for reply in replies:
                await reply

    async with EmbeddedServer() as server, in_memory(server) as reader, in_memory(server) as writer:
        await writer.ensure_path(TOP)
        for number in range(nodes):
            await writer.create(f"{TOP}/{number}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, writer)
            async with TreeCache(reader, TOP) as cache:
                entered = writes
                assert len(cache) == nodes + 1
                server.disconnect(reader.session_id)
                while cache.is_live:
                    await anyio.lowlevel.checkpoint()
                while not cache.is_live:
                    await anyio.lowlevel.checkpoint()
                assert 0 < entered < writes < most
                tasks.cancel_scope.cancel()
