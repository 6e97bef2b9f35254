"""Views: the latest data, or children, whatever happens to the connection and the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from client.fake_server import STAT, FakeServer, refusing_later_auth
from client.network import through_proxy
from conftest import ServerUnderTest
from kit.clients import PATIENCE, connect, eventually
from kit.raw_client import RawClient
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import ACL, Auth, Client
from aiolead._recipes import errors as error_policy
from aiolead._wire.codes import OpCode
from aiolead._wire.jute import encode_reply
from aiolead._wire.replies import NamesReply, ReplyHeader, StatReply
from aiolead._wire.requests import RequestHeader
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    InvalidPathError,
    NoAuthError,
    UsageError,
)
from aiolead.model import Permission, SessionState
from aiolead.testing import EmbeddedServer
from aiolead.types import ChildrenView, DataView, View


class Reader:
    """Iterates over a view, with patience."""

    def __init__(self, view: View[Any]) -> None:
        self.iterator = aiter(view)

    async def read(self) -> Any:
        """The next value: of data the bytes alone."""
        with anyio.fail_after(PATIENCE):
            value = await anext(self.iterator)
        return value[0] if isinstance(value, tuple) else value

    async def until(self, wanted: Any) -> None:
        while await self.read() != wanted:
            pass

    async def nothing(self) -> None:
        with anyio.move_on_after(0):
            raise AssertionError(f"there is {await anext(self.iterator)}")


Make = Callable[[Client, str], View[Any]]
VIEWS: dict[str, Make] = {"data": Client.observe_data, "children": Client.observe_children}
each_view = pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)


# --- values ------------------------------------------------------------------------------------


async def test_data_is_followed_from_missing_to_missing(server: ServerUnderTest) -> None:
    async with connect(server) as client, client.observe_data("/a") as view:
        reader = Reader(view)
        assert await reader.read() is view.value is None
        with RawClient(server.connect_string) as other:
            other.create("/a", b"0")
            assert await reader.read() == b"0"
            assert view.value is not None
            assert view.value[1].version == 0
            other.set("/a", b"1")
            assert await reader.read() == b"1"
            other.delete("/a")
            assert await reader.read() is None
            other.create("/a", b"2")
            assert await reader.read() == b"2"
            # A change that leaves the data as they are is not reported.
            other.create("/a/child")
            await reader.nothing()
            await eventually(lambda: view.is_live, "a server watches")


async def test_children_are_followed_from_missing_to_missing(server: ServerUnderTest) -> None:
    async with connect(server) as client, client.observe_children("/a") as view:
        reader = Reader(view)
        assert await reader.read() is None
        with RawClient(server.connect_string) as other:
            for change, names in (
                (lambda: other.create("/a"), []),
                (lambda: other.create("/a/y"), ["y"]),
                (lambda: other.create("/a/x"), ["x", "y"]),
            ):
                change()
                assert await reader.read() == names == view.value
            other.set("/a", b"1")
            other.set("/a/x", b"1")
            await reader.nothing()
            for path, left in (("/a/x", ["y"]), ("/a/y", []), ("/a", None)):
                other.delete(path)
                assert await reader.read() == left


async def test_every_iteration_has_its_own_position(client: Client) -> None:
    await client.create("/a", b"0")
    async with client.observe_data("/a") as view:
        first, second = Reader(view), Reader(view)
        assert await first.read() == b"0"
        await client.set("/a", b"1")
        assert await first.read() == b"1"
        await first.nothing()
        assert await second.read() == b"1"
        await second.nothing()
        assert await Reader(view).read() == b"1"


async def test_slow_reader_gets_the_latest_value(client: Client) -> None:
    await client.create("/a")
    async with client.observe_data("/a") as view:
        reader = Reader(view)
        for n in range(100):
            await client.set("/a", b"%d" % n)
        await reader.until(b"99")
        await reader.nothing()


async def test_several_tasks_get_the_latest_value(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as writer:
        await client.create("/a")
        async with client.observe_children("/a") as view, anyio.create_task_group() as tasks:
            wanted = [f"{n:02}" for n in range(20)]
            for _ in range(3):
                tasks.start_soon(Reader(view).until, wanted)
            for name in wanted:
                await writer.create(f"/a/{name}")


async def test_znode_created_after_it_was_found_missing_is_read() -> None:
    answers = {
        OpCode.GET_CHILDREN: [None, NamesReply(("b", "a")), NamesReply(("c",))],
        OpCode.EXISTS: [StatReply(STAT)],
    }

    def answer(header: RequestHeader) -> bytes | None:
        if header.op in answers:
            body = answers[OpCode(header.op)].pop(0)
            return encode_reply(ReplyHeader(header.xid, 1, 0 if body else -101), body)
        return encode_reply(ReplyHeader(header.xid, 1, 0))

    async with FakeServer(answer) as fake, fake.connect() as client:
        async with client.observe_children("/a") as view:
            assert view.value == ["a", "b"]
            assert view.is_live


async def test_view_of_a_chroot(client: Client) -> None:
    await client.ensure_path("/x/a")
    inner = client.chroot("/x")
    async with inner.observe_children("/") as names, inner.observe_data("/a") as data:
        assert names.value == ["a"]
        await client.set("/x/a", b"1")
        await Reader(data).until(b"1")


async def test_view_beside_a_stream_on_the_same_path(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a", b"0")
        async with client.observe_data("/a") as data, client.observe_children("/a") as names:
            async with client.watch("/a", recursive=True), client.watch("/a"):
                readers = Reader(data), Reader(names)
                assert [await reader.read() for reader in readers] == [b"0", []]
                await client.set("/a", b"1")
                await client.create("/a/x")
                assert [await reader.read() for reader in readers] == [b"1", ["x"]]
            await client.set("/a", b"2")
            await client.delete("/a/x")
            assert [await reader.read() for reader in readers] == [b"2", []]


# --- connections, sessions ------------------------------------------------------------------------


@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_changes_during_a_lost_connection_are_read_after_it(server: ServerUnderTest) -> None:
    async with through_proxy(server) as (proxy, client):
        await client.create("/a", b"0")
        await client.create("/same", b"0")
        async with (
            client.observe_data("/a") as data,
            client.observe_children("/a") as names,
            client.observe_data("/same") as same,
            client.observe_data("/new") as new,
        ):
            readers = [Reader(view) for view in (data, names, same, new)]
            assert [await reader.read() for reader in readers] == [b"0", [], b"0", None]
            proxy.refuse()
            proxy.reset()
            await eventually(
                lambda: client.state is SessionState.SUSPENDED, "the connection is lost"
            )
            assert not any(view.is_live for view in (data, names, same, new))
            with RawClient(server.connect_string) as other:
                other.set("/a", b"1")
                other.create("/a/x")
                other.create("/new", b"2")
            proxy.heal()
            assert await readers[0].read() == b"1"
            assert await readers[1].read() == ["x"]
            assert await readers[3].read() == b"2"
            await eventually(
                lambda: all(view.is_live for view in (data, names, same, new)), "all are live"
            )
            await readers[2].nothing()


@virtually
async def test_view_outlives_a_read_that_finds_no_server() -> None:
    async with (
        embedded(tick_time=0.1) as server,
        connect_virtually(server, session_timeout=1.5) as client,
        connect_virtually(server) as other,
        client.observe_children("/") as view,
    ):
        reader = Reader(view)
        await reader.read()
        requests = client._core.machine.requests
        server.drop_request(OpCode.GET_CHILDREN)
        await other.create("/a")
        await server.stop()
        await eventually(lambda: requests.waiting_since is not None, "it reads")
        await eventually(lambda: requests.waiting_since is None, "in vain")
        await server.start()
        assert "a" in await reader.read()


async def test_throttled_read_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_policy, "PAUSE", 0.0001)
    async with EmbeddedServer() as server, connect(server) as client:
        await client.create("/a", b"0")
        async with client.observe_data("/a") as view:
            reads = 0
            original = view._reading._read

            async def throttled(reading: Any) -> Any:
                nonlocal reads
                reads += 1
                if reads < 3:
                    raise aiolead.errors.ThrottledOpError("/a")
                return await original(reading)

            monkeypatch.setattr(view._reading, "_read", throttled)
            reader = Reader(view)
            await reader.read()
            await client.set("/a", b"1")
            assert await reader.read() == b"1"
            assert reads == 3


async def test_views_need_no_new_server() -> None:
    async with EmbeddedServer(version="3.5.9") as server, connect(server) as client:
        async with client.observe_data("/a") as data, client.observe_children("/a") as names:
            await client.create("/a", b"0")
            await Reader(data).until(b"0")
            await Reader(names).until([])


# --- the end -----------------------------------------------------------------------------------


@each_view
@pytest.mark.parametrize("path", ["/zookeeper", "/missing"])
async def test_leaving_removes_the_watch(
    client: Client, zk: EmbeddedServer, make: Make, path: str
) -> None:
    async with make(client, path) as view:
        assert set(zk.watches()) == {path}
        assert view.is_live
        async with anyio.create_task_group() as tasks:
            reader = Reader(view)
            await reader.read()

            async def ends() -> None:
                with pytest.raises(StopAsyncIteration):
                    await anext(reader.iterator)

            tasks.start_soon(ends)
            await anyio.wait_all_tasks_blocked()
            await view.__aexit__(None, None, None)
    await eventually(lambda: zk.watches() == {}, "no watch is left")
    assert not view.is_live
    assert len(client._core.machine.watches) == 0
    assert client._core.spawned == 0


@each_view
async def test_closed_client_ends_the_iteration(zk: EmbeddedServer, make: Make) -> None:
    async with connect(zk) as client:
        view = make(client, "/zookeeper")
        await view.__aenter__()
    reader = Reader(view)
    await reader.read()
    for _ in range(2):
        with pytest.raises(ClientClosedError):
            await reader.read()
    await view.__aexit__(None, None, None)
    with pytest.raises(ClientClosedError):
        async with make(client, "/a"):
            pass


async def test_refused_credentials_end_the_iteration(fake: FakeServer) -> None:
    fake.answer = refusing_later_auth(fake)
    async with fake.connect(auth=[Auth.digest("u", "p")]) as client:
        async with client.observe_data("/a") as view:
            reader = Reader(view)
            await reader.read()
            fake.streams[-1].close()
            with pytest.raises(AuthFailedError):
                await reader.read()


@each_view
async def test_unreadable_znode_cannot_be_viewed(make: Make) -> None:
    nobody = [ACL(Permission.ALL, "digest", "x:y")]
    async with EmbeddedServer() as server, connect(server) as client:
        await client.create("/a", acl=nobody)
        with pytest.raises(NoAuthError):
            async with make(client, "/a"):
                pass
        assert len(client._core.machine.watches) == 0
        await client.create("/b")
        async with make(client, "/b") as view:
            reader = Reader(view)
            await reader.read()
            await client.delete("/b")
            await client.create("/b", acl=nobody)
            with pytest.raises(NoAuthError):
                while True:  # None may come first, if it was read in between
                    assert await reader.read() is None


async def test_cancelled_opening_leaves_no_watch(client: Client, zk: EmbeddedServer) -> None:
    zk.pause()
    with anyio.move_on_after(0.05) as scope:
        async with client.observe_data("/a"):
            pass
    assert scope.cancelled_caught
    zk.resume()
    await client.sync()
    await eventually(lambda: zk.watches() == {}, "no watch is left")


@each_view
async def test_misuse_is_refused(client: Client, make: Make) -> None:
    with pytest.raises(InvalidPathError):
        make(client, "a")
    view = make(client, "/a")
    assert isinstance(view, DataView | ChildrenView)
    for misuse in (lambda: view.value, lambda: aiter(view)):
        with pytest.raises(UsageError, match="was not opened"):
            misuse()
    async with view:
        assert repr(view).endswith("of /a, live>")
        with pytest.raises(UsageError, match="entered already"):
            await view.__aenter__()


@each_view
@pytest.mark.parametrize("version", ["3.8.0", "3.9.3", "3.9.6"])
async def test_revoked_permission_ends_the_view_after_a_loss(version: str, make: Make) -> None:
    """It is not reported before. But the old value is not shown as live after that."""
    async with (
        EmbeddedServer(version=version) as server,
        connect(server) as client,
        connect(server, auth=[Auth.digest("me", "secret")]) as owner,
    ):
        await owner.create("/view", b"old")
        async with make(client, "/view") as view:
            await owner.set_acl("/view", [ACL.digest("me", "secret")])
            server.disconnect(client.session_id)
            reader = Reader(view)
            with pytest.raises(NoAuthError):
                for _ in range(2):
                    await reader.read()
