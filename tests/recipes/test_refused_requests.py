"""Recipes whose request the servers answer by closing the connection, or whose reply is too long.

The caller gets `RequestRefusedError`, and the client's other lock is kept. Necessary requests are
repeated after growing pauses. The client's part is in `tests/client/test_refused_requests.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.stapled import StapledByteStream
from kit.clients import OVER_AIOZK, PATIENCE
from kit.virtual_time import SESSION, connect, embedded, passes, virtually
from recipes.blocks import enter

import aiolead
from aiolead import Client, Lock
from aiolead._wire.jute import int_bytes, text_bytes
from aiolead.errors import ConnectionLossError, RequestRefusedError
from aiolead.testing import BlockingServer, EmbeddedServer, OpCode
from aiolead.types import Codec

pytestmark = pytest.mark.skipif(OVER_AIOZK, reason="counts connections, which are aiozk's there")

BIG = b"x" * 100_000
LIMIT = 65_536

LONG_REPLY = aiolead.Limits(max_reply=50_000)


def connections(client: Client) -> int:
    return client.statistics().connections


@asynccontextmanager
async def holding(server: EmbeddedServer, **options: object) -> AsyncIterator[Client]:
    """A client that holds another lock all the time."""
    async with connect(server, **options) as client, Lock(client, "/other") as held:
        yield client
        held.check()
        await passes(2 * SESSION)
        held.check()


def instance(size: int) -> aiolead.ServiceInstance:
    payload = {"x": "y" * size}
    return aiolead.ServiceInstance(name="web", id="w1", port=80, payload=payload, registered_at=1.0)


async def twice(write: Callable[[], Awaitable[object]]) -> None:
    """Repeats a write that is not repeated by itself: at first, no cause is known."""
    with suppress(ConnectionLossError):
        await write()
    await write()


def value(client: Client, path: str) -> aiolead.SharedValue[bytes]:
    return aiolead.SharedValue(client, path, b"", codec=Codec.raw())


async def finish(client: Client) -> None:
    board = aiolead.TaskBoard(client, "/board", identity="w")
    await board.submit(b"1")
    async with board.claim() as task:
        await task.finish(BIG)


async def set_node_once(client: Client) -> None:
    async with aiolead.PersistentNode(client, "/kept", b"small") as node:
        await node.set(BIG)


async def set_node(client: Client) -> None:
    async with aiolead.PersistentNode(client, "/kept", b"small") as node:
        with pytest.raises(RequestRefusedError):
            await node.set(BIG)
        await client.ready()
        assert node.is_present
        assert (await client.get("/kept"))[0] == b"small"
        await passes(40 * SESSION)  # nothing is tried again
        await node.set(b"other")
        assert (await client.get("/kept"))[0] == b"other"
        await node.set(BIG)


async def set_membership(client: Client) -> None:
    async with aiolead.Group(client, "/members").join(b"", identity="m") as membership:
        await membership.set(BIG)


async def update_registration(client: Client) -> None:
    registry = aiolead.ServiceRegistry(client, "/services")
    async with registry.register(instance(10)) as registration:
        with pytest.raises(RequestRefusedError):
            await registration.update(instance(100_000))
        assert registration.instance == instance(10)
        await registration.drain()
        assert registration.instance == replace(instance(10), enabled=False)
        await registration.update(instance(100_000))


Write = Callable[[Client], Awaitable[object]]

WRITES: dict[str, Write] = {
    "set value": lambda c: twice(lambda: value(c, "/value").set(BIG)),
    "update value": lambda c: value(c, "/updated").update(lambda _: BIG),
    "publish": lambda c: aiolead.Config(c, "/config").publish({"k": BIG}),
    "put": lambda c: twice(lambda: aiolead.Queue(c, "/queue").put(BIG)),
    "submit": lambda c: twice(lambda: aiolead.TaskBoard(c, "/tasks").submit(BIG)),
    "finish": finish,
    "node": lambda c: enter(aiolead.PersistentNode(c, "/node", BIG)),
    "node at once": lambda c: enter(aiolead.PersistentNode(c, "/impatient", BIG, timeout=0)),
    "sequential node": lambda c: enter(
        aiolead.PersistentNode(c, "/sequential-", BIG, mode=aiolead.CreateMode.EPHEMERAL_SEQUENTIAL)
    ),
    "set node": set_node,
    "join": lambda c: enter(aiolead.Group(c, "/group").join(BIG, identity="m")),
    "set membership": set_membership,
    "register": lambda c: enter(
        aiolead.ServiceRegistry(c, "/services").register(instance(100_000))
    ),
    "update registration": update_registration,
}
LEFT = ("/node", "/impatient", "/kept", "/group/m", "/members/m")
"""Znodes that must be gone in the end."""


@virtually
@pytest.mark.parametrize("name", WRITES)
async def test_too_long_write_is_refused_and_costs_no_other_lock(name: str) -> None:
    async with embedded(max_frame=LIMIT) as server:
        async with holding(server) as client:
            with anyio.fail_after(60 * SESSION), pytest.raises(RequestRefusedError) as caught:
                await WRITES[name](client)
            assert caught.value.size > len(BIG)
            await client.create("/reached")
            # Once more where data are tried again after some sessions.
            assert connections(client) <= 4
        await passes(3 * SESSION)
        assert not [path for path in server.znodes() if "lock-" in path or path in LEFT]


# --- what must go on -----------------------------------------------------------------------------


@virtually
async def test_persistent_node_comes_back_once_the_limit_is_raised() -> None:
    """The limit was lowered after the node was entered, and others delete the znode."""
    async with embedded() as server, holding(server) as client, connect(server) as other:
        async with aiolead.PersistentNode(client, "/node", BIG) as node:
            server.limit_requests(LIMIT)
            await other.delete("/node")
            await passes(50 * SESSION)
            assert not node.is_present
            await client.create("/reached")
            # Two, and one after each pause of 1, 2, 4, 8, 16 and 16 session timeouts.
            assert connections(client) <= 1 + 2 + 6
            await server.heal()
            await passes(17 * SESSION)
            assert node.is_present
            assert (await other.get("/node"))[0] == BIG


@virtually
async def test_persistent_node_leaves_although_its_data_became_too_long() -> None:
    async with embedded() as server, holding(server) as client:
        async with aiolead.PersistentNode(client, "/node", BIG):
            server.limit_requests(LIMIT)
        await passes(4 * SESSION)
        assert "/node" not in server.znodes()


@virtually
async def test_shorter_data_are_set_at_once_while_longer_ones_are_refused() -> None:
    async with embedded() as server, holding(server) as client, connect(server) as other:
        async with aiolead.PersistentNode(client, "/node", BIG) as node:
            server.limit_requests(LIMIT)
            await other.delete("/node")
            await passes(20 * SESSION)
            before = anyio.current_time()
            await node.set(b"short")
            assert anyio.current_time() - before < 1
            assert node.is_present


# --- too long replies ----------------------------------------------------------------------------


async def prepare_listing(client: Client, path: str) -> None:
    """A listing of 60 kB."""
    await client.ensure_path(path)
    transaction = client.transaction()
    for number in range(300):
        transaction.create(f"{path}/{number:03}{'x' * 200}")
    await transaction


def views(client: Client) -> dict[str, Any]:
    return {
        "data": client.observe_data("/seen"),
        "value": aiolead.SharedValue(client, "/seen", b"", codec=Codec.raw()).observe(),
        "group": aiolead.Group(client, "/folder").observe(),
        "children": client.observe_children("/folder"),
    }


VIEWS = ("data", "value", "group", "children")


async def lengthen(client: Client) -> None:
    await client.set("/seen", BIG)
    await prepare_listing(client, "/folder")


async def shorten(client: Client) -> None:
    await client.set("/seen", b"new")
    await client.set("/folder/a", b"new")
    for name in await client.get_children("/folder"):
        if name not in ("a", "b"):
            await client.delete(f"/folder/{name}")


@virtually
@pytest.mark.parametrize("name", VIEWS)
async def test_view_goes_on_after_a_too_long_reply(name: str) -> None:
    async with embedded() as server, connect(server) as other:
        await other.create("/seen", b"old")
        await other.ensure_path("/folder")
        await other.create("/folder/a", b"old")
        async with holding(server, limits=LONG_REPLY) as client, views(client)[name] as view:
            before = view.value
            await lengthen(other)
            await passes(40 * SESSION)
            assert view.value == before
            assert not view.is_live
            await client.create("/reached")
            # Two, and one after each pause of 1, 2, 4, 8 and 16 session timeouts.
            assert connections(client) <= 1 + 2 + 5
            await shorten(other)
            await other.create("/folder/b")
            await passes(17 * SESSION)
            assert view.is_live
            assert view.value != before


async def prepare_views(other: Client) -> None:
    await other.create("/seen")
    await other.ensure_path("/folder")
    await other.create("/folder/a")
    await lengthen(other)


@virtually
async def test_view_that_joins_a_refused_one_is_refused() -> None:
    """The views of a group share their reads. Those that have a value keep it."""
    async with embedded() as server, connect(server) as other:
        await other.create("/seen")
        await other.ensure_path("/folder")
        await other.create("/folder/a")
        async with holding(server, limits=LONG_REPLY) as client:
            group = aiolead.Group(client, "/folder")
            async with group.observe() as view:
                members = dict(view.value)
                await lengthen(other)
                for _ in range(2):
                    with anyio.fail_after(4 * SESSION), pytest.raises(RequestRefusedError):
                        await enter(group.observe())
                    await passes(SESSION / 4)
                assert view.value == members
                await shorten(other)
                await passes(16 * SESSION)
                assert view.is_live
                async with group.observe() as joined:
                    assert joined.value == view.value != members


async def prepare_tree(other: Client) -> None:
    await other.ensure_path("/tree")
    await other.create("/tree/a", BIG)


def lock(**options: float) -> Write:
    return lambda client: enter(Lock(client, "/full").acquire(**options))


READS: dict[str, tuple[Write, Write]] = {
    **{name: (prepare_views, lambda c, name=name: enter(views(c)[name])) for name in VIEWS},
    "tree": (prepare_tree, lambda c: enter(aiolead.TreeCache(c, "/tree"))),
    "lock": (lambda c: prepare_listing(c, "/full"), lock()),
    "lock in time": (lambda c: prepare_listing(c, "/full"), lock(timeout=50.0)),
    "result": (finish, lambda c: aiolead.TaskBoard(c, "/board").result("task-0000000000")),
}
"""How another client prepares each read, and the read."""


@virtually
@pytest.mark.parametrize("name", READS)
async def test_read_with_a_too_long_reply_is_refused(name: str) -> None:
    prepare, read = READS[name]
    async with embedded() as server, connect(server) as other:
        await prepare(other)
        async with holding(server, limits=LONG_REPLY) as client:
            with anyio.fail_after(2 * SESSION), pytest.raises(RequestRefusedError):
                await read(client)
            await client.create("/reached")
            assert connections(client) == 3
            await passes(3 * SESSION)
            full = [path for path in server.znodes() if path.startswith("/full/")]
            assert len(full) == (300 if name.startswith("lock") else 0), "no contender is left"


@virtually
async def test_view_whose_reads_a_proxy_cuts_costs_no_lock() -> None:
    """The request is short, so it takes more connections until it is the likely cause."""
    async with embedded() as server, connect(server) as other:
        await other.ensure_path("/folder/a")
        async with holding(server) as client, client.observe_children("/folder") as view:
            for op in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
                server.drop_request(op, 1000)
            await other.create("/folder/b")
            await passes(40 * SESSION)
            assert view.value == ["a"]
            await client.create("/reached")
            # 16, and one after each pause of 1, 2, 4, 8 and 16 session timeouts.
            assert connections(client) <= 1 + 16 + 5
            await server.heal()
            await passes(17 * SESSION)
            assert view.value == ["a", "b"]


@virtually
async def test_tree_cache_goes_on_beside_a_too_long_reply() -> None:
    async with embedded() as server, connect(server) as other:
        await other.ensure_path("/tree")
        await other.create("/tree/a", b"old")
        await other.create("/tree/b", b"old")
        async with holding(server, limits=LONG_REPLY) as client:
            async with aiolead.TreeCache(client, "/tree") as cache:
                await other.set("/tree/a", BIG)
                await passes(SESSION)
                for number in range(30):
                    await other.set("/tree/b", b"%d" % number)
                    await passes(SESSION)
                    assert data_of(cache, "/tree/b") == b"%d" % number
                assert not cache.is_live
                assert cache.unread == 1
                assert connections(client) <= 1 + 2 + 5
                await other.set("/tree/a", b"new")
                await passes(17 * SESSION)
                assert data_of(cache, "/tree/a") == b"new"
                assert cache.unread == 0
                assert cache.is_live


def data_of(cache: aiolead.TreeCache, path: str) -> bytes | None:
    node = cache.get(path)
    return node and node.data


class CuttingProxy:
    """Closes the connection on each request for the data of `path`, and lets all else through."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.path = ""

    async def dial(self, _host: str, _port: int) -> ByteStream:
        return _Cut(self, await self._server.connect_stream())

    def cuts(self, segment: bytes) -> bool:
        return self.path != "" and int_bytes(OpCode.GET_DATA) + text_bytes(self.path) in segment


class _Cut(StapledByteStream):
    def __init__(self, proxy: CuttingProxy, stream: ByteStream) -> None:
        super().__init__(stream, stream)
        self._proxy = proxy

    async def send(self, item: bytes) -> None:
        if self._proxy.cuts(item):
            await self.send_stream.send_eof()
        else:
            await super().send(item)


@virtually
async def test_tree_cache_goes_on_beside_a_read_that_a_proxy_cuts() -> None:
    """The request is short. Only it pauses, also when a lost connection makes all be looked at."""
    async with embedded() as server, connect(server) as other:
        for path in ("/tree", "/tree/a", "/tree/b"):
            await other.create(path, b"old")
        proxy = CuttingProxy(server)
        async with holding(server, dial=proxy.dial) as client:
            async with aiolead.TreeCache(client, "/tree") as cache:
                proxy.path = "/tree/a"
                await other.set("/tree/a", b"new")
                await passes(4 * SESSION)
                for number in range(30):
                    await other.set("/tree/b", b"%d" % number)
                    await other.create(f"/tree/{number}")
                    await passes(SESSION)
                    assert data_of(cache, "/tree/b") == b"%d" % number
                    assert f"/tree/{number}" in cache
                assert not cache.is_live
                assert cache.unread == 1
                # 16, and one after each pause of 1, 2, 4, 8, 16 and 16 session timeouts.
                assert connections(client) <= 1 + 16 + 6
                proxy.path = ""
                await passes(17 * SESSION)
                assert data_of(cache, "/tree/a") == b"new"
                assert cache.is_live


# --- real servers --------------------------------------------------------------------------------

SEEN: dict[str, Write] = {
    name: WRITES[name] for name in ("set value", "publish", "finish", "join", "register")
}


@pytest.fixture(scope="module")
def strict_server(zookeeper_installed: None) -> Iterator[str]:
    with BlockingServer(java_options=[f"-Djute.maxbuffer={LIMIT}"]) as server:
        yield server.connect_string


@pytest.mark.real
async def test_real_server_with_a_low_limit(strict_server: str) -> None:
    for name, write in {**SEEN, "set node": set_node_once}.items():
        async with (
            aiolead.connect(strict_server, session_timeout=4.0) as client,
            Lock(client, "/other") as held,
        ):
            with anyio.fail_after(PATIENCE), pytest.raises(RequestRefusedError):
                await write(client)
            await client.ensure_path("/reached")
            assert connections(client) == 3, name
            held.check()
