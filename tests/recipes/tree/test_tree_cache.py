"""The tree cache: a copy that is the tree in the end, and events that add up to it."""

from __future__ import annotations

import random

import anyio
import pytest
from kit.clients import Link, catch_up, eventually, in_memory, watches_the_bytes
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually
from recipes.blocks import enter

from aiolead import ACL, Auth, Client, NoNodeError, TreeCache, admin
from aiolead._wire.codes import OpCode
from aiolead.errors import ClientClosedError, TreeTooLargeError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import TreeEvent, TreeEvents, TreeEventType, TreeNode

pytestmark = pytest.mark.timeout(60)

TOP = "/tree"
VERSIONS = pytest.mark.parametrize("version", ["3.8.0", "3.5.9"])
"""With one watch for all and one for each znode, and with two for each znode."""


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


async def test_tree_is_copied_and_kept_up(a: Client, b: Client) -> None:
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
            assert follower.told()[:3] == [("created", ""), ("created", "/a"), ("created", "/a/b")]
            await admin.delete_all(b, TOP)
            await equals(cache, b)
            await b.ensure_path(f"{TOP}/new/one")
            await equals(cache, b)
            tasks.cancel_scope.cancel()
    assert not cache.is_live
    assert len(cache) == 3
    with pytest.raises(StopAsyncIteration):
        await anext(cache.events())


async def test_missing_tree_is_copied_once_it_exists(client: Client) -> None:
    async with TreeCache(client, TOP) as cache:
        assert (len(cache), cache.is_live) == (0, True)
        for data in (b"now", None, b"again"):
            await (client.delete(TOP) if data is None else client.create(TOP, data))
            await equals(cache, client)
        assert TOP in cache


@VERSIONS
async def test_copy_and_events_add_up_whatever_changes_in_whatever_order(version: str) -> None:
    rng = random.Random(4)
    async with (
        EmbeddedServer(version=version) as server,
        in_memory(server) as a,
        in_memory(server) as b,
        TreeCache(a, TOP) as cache,
        anyio.create_task_group() as tasks,
    ):
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
            await admin.delete_all(client, path)
            await client.ensure_path(path)
        case _:
            await admin.delete_all(client, path)


@VERSIONS
async def test_changes_during_a_lost_link_are_events_after_it(version: str) -> None:
    """A znode that was created again has the same version, and is another one."""
    async with EmbeddedServer(version=version) as server, in_memory(server) as b:
        wire = Link(server)
        async with wire.connect() as a:
            for path in ("same", "changed", "deleted/below", "replaced/below"):
                await b.ensure_path(f"{TOP}/{path}")
            async with TreeCache(a, TOP) as cache, anyio.create_task_group() as tasks:
                follower = Follower(cache.events(initial=True))
                tasks.start_soon(follower.run)
                await eventually(lambda: follower.equals(cache), "it knows what there is")
                follower.seen.clear()
                wire.stall("to_client")  # nor does it notice any of this before all of it is done
                server.disconnect(a.session_id)
                await b.set(f"{TOP}/changed", b"new")
                await admin.delete_all(b, f"{TOP}/deleted")
                await admin.delete_all(b, f"{TOP}/replaced")
                await b.ensure_path(f"{TOP}/replaced/other")
                await b.create(f"{TOP}/created")
                wire.heal()
                await equals(cache, b)
                expected = [
                    ("changed", "/changed"),
                    ("created", "/created"),
                    ("created", "/replaced"),
                    ("created", "/replaced/other"),
                    ("deleted", "/deleted"),
                    ("deleted", "/deleted/below"),
                    ("deleted", "/replaced"),
                    ("deleted", "/replaced/below"),
                ]
                await eventually(lambda: len(follower.seen) >= len(expected), "it is told")
                assert sorted(follower.told()) == expected
                tasks.cancel_scope.cancel()


async def test_only_changed_znodes_are_fetched_after_a_reconnect() -> None:
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


@watches_the_bytes
@VERSIONS
async def test_znode_created_below_one_that_is_being_read_is_copied(version: str) -> None:
    """The connection is lost after the event of its creation, and before it is in the copy."""
    async with EmbeddedServer(version=version) as server, in_memory(server) as b:
        wire = Link(server)
        async with wire.connect() as a:
            await b.create(TOP)
            async with TreeCache(a, TOP) as cache:
                lost = wire.hold_at_loss(a)
                server.drop_reply(OpCode.GET_DATA)
                await b.create(f"{TOP}/a")
                await lost.wait()
                await b.create(f"{TOP}/a/b")
                wire.heal()
                await equals(cache, b)


@watches_the_bytes
async def test_overflow_of_events_is_a_gap_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events come in faster than they are taken note of, and do not fit any more."""
    monkeypatch.setitem(Client.watch.__kwdefaults__ or {}, "max_events", 3)
    async with EmbeddedServer() as server:
        wire = Link(server)
        async with wire.connect() as a, in_memory(server) as b:
            await b.create(TOP)
            async with TreeCache(a, TOP) as cache:
                requests = server.requests.copy()
                wire.stall("to_client")
                for number in range(50):
                    await b.create(f"{TOP}/{number}")
                wire.heal()
                await equals(cache, b)
                assert len(cache) == 51
                # It has compared what it knew, the top, and found that this has more children.
                assert (server.requests - requests)["EXISTS"] >= 1


@VERSIONS
async def test_unreadable_znodes_are_known_to_be_so_where_no_data_are_kept(version: str) -> None:
    me, closed = Auth.digest("me", "secret"), f"{TOP}/closed"
    private = [ACL.digest("me", "secret")]
    async with (
        EmbeddedServer(version=version) as server,
        in_memory(server) as a,
        in_memory(server, auth=[me]) as b,
    ):
        await b.create(TOP)
        await b.create(closed, acl=private)
        await b.create(f"{closed}/child", acl=[ACL.world()])
        async with TreeCache(a, TOP, data=False) as cache:

            def known(path: str = closed) -> tuple[int, bool] | None:
                node = cache.get(path)
                return node and (node.stat.version, node.is_readable)

            assert (known(), cache.children(closed)) == ((0, False), [])
            await b.set(closed, b"1")
            await eventually(lambda: known() == (1, False), "it is closed still")
            await b.set_acl(closed, [ACL.world()])
            await b.set(closed, b"2")
            await eventually(lambda: cache.children(closed) == ["child"], "it may be listed now")
            assert known() == (2, True)
            await b.set_acl(closed, private)
            await b.set(closed, b"3")
            await eventually(lambda: known() == (3, False), "it is closed again")
            await b.create(f"{TOP}/new", acl=private)
            await eventually(lambda: known(f"{TOP}/new") == (0, False), "a new one is closed")


@VERSIONS
async def test_number_of_znodes_is_bounded(version: str) -> None:
    async with EmbeddedServer(version=version) as server, in_memory(server) as client:
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
            await enter(TreeCache(client, TOP, max_nodes=10))
        await eventually(lambda: server.watches() == {}, "no watch is left")


@VERSIONS
async def test_cache_without_data_and_with_a_selection(version: str) -> None:
    async with EmbeddedServer(version=version) as server, in_memory(server) as client:
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


async def test_slow_reader_gets_the_sum_of_the_changes() -> None:
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
async def test_leaving_leaves_no_watch(version: str) -> None:
    async with EmbeddedServer(version=version) as server, in_memory(server) as client:
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
async def test_overloaded_server_is_asked_again() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        await client.create(TOP)
        server.throttle(OpCode.ADD_WATCH)
        server.throttle(OpCode.GET_DATA)
        async with TreeCache(client, TOP) as cache:
            assert list(cache) == [TOP]


async def test_cache_ends_with_its_client() -> None:
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


# --- where others never stop writing -------------------------------------------------------------


async def test_cache_is_complete_though_changes_never_end() -> None:
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
