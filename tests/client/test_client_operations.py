"""What the operations do and what they raise, on every loop and every kind of server."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import catch_up, connect, eventually
from kit.raw_client import told_zxid

import aiolead
from aiolead import ACL, Auth, CreateMode, NodeExistsError, NoNodeError
from aiolead.errors import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistencyError,
    ServerError,
    TransactionError,
    UsageError,
)
from aiolead.model import (
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    EventType,
    Permission,
    WatchEvent,
)


async def test_the_life_of_a_znode(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        created = await client.create("/a", b"one")
        assert created.path == "/a"
        assert created.stat.czxid == created.stat.mzxid > 0
        assert created.stat.data_length == 3
        assert await client.get("/a") == (b"one", created.stat)
        assert await client.exists("/a") == created.stat
        changed = await client.set("/a", b"two", version=0)
        assert (changed.version, changed.czxid) == (1, created.stat.czxid)
        assert client.backend.last_zxid >= changed.mzxid
        await client.check("/a", version=1)
        await client.create("/a/b")
        await client.create("/a/c")
        assert sorted(await client.get_children("/a")) == ["b", "c"]
        await client.delete("/a/b", version=0)
        await client.delete("/a/c")
        await client.delete("/a")
        assert await client.exists("/a") is None
        await client.sync()
        await client.sync("/a")


async def test_every_mode_of_create(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        mode = CreateMode.PERSISTENT_SEQUENTIAL
        first = await client.create("/s-", mode=mode)
        second = await client.create("/s-", mode=mode)
        assert first.path == "/s-0000000000"
        assert second.path == "/s-0000000001"
        bare = await client.create("/", mode=mode)
        assert bare.path == "/0000000002"
        ephemeral = await client.create("/e", mode=CreateMode.EPHEMERAL)
        assert ephemeral.stat.ephemeral_owner == client.session_id
        both = await client.create("/e-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
        assert both.path == "/e-0000000004"
        container = await client.create("/c", mode=CreateMode.CONTAINER)
        assert container.path == "/c"


async def test_what_servers_refuse(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        await client.create("/a/b")
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        refused = [
            (client.create("/a"), NodeExistsError, "/a"),
            (client.create("/x/y"), NoNodeError, "/x/y"),
            (client.create("/e/y"), NoChildrenForEphemeralsError, "/e/y"),
            (client.create("/z", acl=[ACL(Permission.ALL, "bogus", "x")]), InvalidACLError, "/z"),
            (client.create("/z", acl=CREATOR_ALL_ACL), InvalidACLError, "/z"),
            (client.delete("/a"), NotEmptyError, "/a"),
            (client.delete("/x"), NoNodeError, "/x"),
            (client.delete("/e", version=7), BadVersionError, "/e"),
            (client.set("/x", b""), NoNodeError, "/x"),
            (client.set("/a", b"", version=7), BadVersionError, "/a"),
            (client.get("/x"), NoNodeError, "/x"),
            (client.get_children("/x"), NoNodeError, "/x"),
            (client.get_acl("/x"), NoNodeError, "/x"),
            (client.set_acl("/x", OPEN_ACL_UNSAFE), NoNodeError, "/x"),
            (client.set_acl("/a", OPEN_ACL_UNSAFE, version=7), BadVersionError, "/a"),
            (client.check("/x"), NoNodeError, "/x"),
            (client.check("/a", version=7), BadVersionError, "/a"),
        ]
        for number, (reply, kind, path) in enumerate(refused):
            with pytest.raises(kind) as raised:
                await reply
            assert isinstance(raised.value, ServerError), number
            # The path is the caller's, without the chroot.
            assert raised.value.path == path
            assert str(raised.value).endswith(f": {path}")
        # None of it left a trace, nor harmed the session.
        assert sorted(await client.get_children("/")) == ["a", "e"]


async def test_a_reply_may_be_awaited_in_any_order_and_again(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        created, again, data = client.create("/a"), client.create("/a"), client.get("/a")
        assert not data.is_done
        assert (await data)[0] == b""
        assert created.is_done
        assert again.is_done
        assert isinstance(again.error(), NodeExistsError)
        for _ in range(2):
            with pytest.raises(NodeExistsError):
                await again
            assert (await created).path == created.result().path == "/a"


async def test_transactions(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a", b"one")
        path, checked, stat, nothing, numbered = await (
            client.transaction()
            .create("/b", b"data")
            .check("/a", version=0)
            .set("/a", b"two")
            .delete("/b")
            .create("/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
        )
        assert (path, checked, nothing) == ("/b", None, None)
        assert isinstance(stat, aiolead.model.Stat)
        assert stat.version == 1
        assert isinstance(numbered, str)
        assert numbered.startswith("/n-00000")
        assert await client.exists("/b") is None

        # All or nothing, and it says which one it was.
        transaction = client.transaction().set("/a", b"x").delete("/missing").create("/c")
        with pytest.raises(TransactionError) as raised:
            await transaction.commit()
        error = raised.value
        assert (error.index, error.path) == (1, "/missing")
        assert isinstance(error.cause, NoNodeError)
        kinds = [type(result) for result in error.results]
        assert kinds == [RolledBackError, NoNodeError, RuntimeInconsistencyError]
        assert (await client.get("/a"))[0] == b"two"
        assert await client.exists("/c") is None
        with pytest.raises(UsageError, match="sent already"):
            transaction.commit()
        with pytest.raises(UsageError, match="sent already"):
            transaction.delete("/a")


async def test_views(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.ensure_path("/app/x")
        view = client.chroot("/app").chroot("/x")
        assert view.session_id == client.session_id
        created = await view.create("/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
        assert created.path == "/n-0000000000"
        assert await client.exists("/app/x" + created.path) == created.stat
        assert await view.get_children("/") == [created.path[1:]]
        results = await view.transaction().create("/t").check("/")
        assert results == ["/t", None]
        with pytest.raises(NoNodeError) as raised:
            await view.get("/missing")
        assert raised.value.path == "/missing"
        watch = view.backend.make_watch()
        await view.get("/t", watch=watch)
        await client.delete("/app/x/t")
        zxid = told_zxid(server.hosts, client.backend.last_zxid)
        assert await watch.wait() == WatchEvent(EventType.DELETED, "/t", zxid)
        assert view.chroot("/").session_id == client.session_id
        assert "chroot=" in repr(view)
        assert f"0x{client.session_id:x}" in repr(view)


async def test_ensure_path(server: ServerUnderTest) -> None:
    async with aiolead.connect(server.hosts, session_timeout=8) as client:
        await client.ensure_path("/")
        await client.ensure_path(server.chroot + "/a/b/c")
        await client.ensure_path(server.chroot + "/a/b/c/d", mode=CreateMode.CONTAINER)
        assert await client.get_children(server.chroot + "/a/b/c") == ["d"]
        # Of a view that is not there yet: the chroot, too.
        view = client.chroot(server.chroot + "/new")
        await view.ensure_path("/x")
        await view.ensure_path("/")
        assert await client.get_children(server.chroot + "/new") == ["x"]


async def test_acls_and_credentials(server: ServerUnderTest) -> None:
    credentials = [Auth.digest("alice", "secret")]
    async with connect(server, auth=credentials) as alice, connect(server) as bob:
        await alice.create("/hers", b"data", acl=CREATOR_ALL_ACL)
        await catch_up(bob)  # his server may not have heard of it
        for denied in (
            bob.get("/hers"), bob.set("/hers", b""), bob.get_children("/hers"),
            bob.create("/hers/x"), bob.set_acl("/hers", OPEN_ACL_UNSAFE), bob.check("/hers"),
        ):  # fmt: skip
            with pytest.raises(NoAuthError):
                await denied
        assert bob.state is aiolead.model.SessionState.CONNECTED
        assert (await alice.get("/hers"))[0] == b"data"
        acl, stat = await alice.get_acl("/hers")
        assert [(entry.permissions, entry.scheme) for entry in acl] == [(Permission.ALL, "digest")]
        assert stat.aversion == 0
        await alice.set_acl("/hers", READ_ACL_UNSAFE, version=0)
        await catch_up(bob)  # his server may not have heard of it
        assert (await bob.get("/hers"))[0] == b"data"
        with pytest.raises(NoAuthError):
            await bob.set("/hers", b"")


@pytest.mark.parametrize("how", ["create", "set", "delete", "child"])
async def test_watches(server: ServerUnderTest, how: str) -> None:
    async with connect(server) as client, connect(server) as other:
        if how != "create":
            await client.create("/a")
        watch = client.backend.make_watch()
        assert not watch.is_armed
        match how:
            case "child":
                assert await client.get_children("/a", watch=watch) == []
                await other.create("/a/b")
                expected = EventType.CHILDREN_CHANGED
            case "create":
                assert await client.exists("/a", watch=watch) is None
                assert watch.is_armed
                await other.create("/a")
                expected = EventType.CREATED
            case "set":
                await client.get("/a", watch=watch)
                await other.set("/a", b"")
                expected = EventType.DATA_CHANGED
            case _:
                await client.exists("/a", watch=watch)
                await other.delete("/a")
                expected = EventType.DELETED
        with anyio.fail_after(20):
            event = await watch.wait()
        assert (event.type, event.path) == (expected, "/a")
        assert not watch.is_armed
        assert watch.event == event
        with pytest.raises(UsageError, match="arm it again"):
            await watch.wait()


async def test_a_watch_event_comes_before_the_data_that_it_speaks_of(
    server: ServerUnderTest,
) -> None:
    async with connect(server) as client, connect(server) as other:
        await client.create("/a", b"old")
        for number in range(20):
            watch, data = client.backend.make_watch(), str(number).encode()
            await client.get("/a", watch=watch)
            wrote = other.set("/a", data)
            while (await client.get("/a"))[0] != data:
                assert watch.event is None or (await client.get("/a"))[0] == data
            assert watch.event is not None
            await wrote


async def test_a_closed_watch_is_removed_from_the_server_and_wakes_who_waits(
    server: ServerUnderTest,
) -> None:
    async with connect(server) as client:
        await client.create("/a")
        with client.backend.make_watch() as watch:
            await client.get("/a", watch=watch)
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    with pytest.raises(UsageError, match="closed"):
                        await watch.wait()

                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                watch.close()
        with pytest.raises(UsageError, match="closed"):
            await watch.wait()
        await client.set("/a", b"")
        await client.get("/a")
        assert watch.event is None


async def test_a_watch_of_another_client_is_refused(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as other:
        with pytest.raises(UsageError, match="made by this client's make_watch"):
            client.exists("/a", watch=other.backend.make_watch())
        # Of another view of the same client it is fine.
        await client.exists("/a", watch=client.chroot("/app").backend.make_watch())


async def test_ephemerals_vanish_with_the_session_at_once(server: ServerUnderTest) -> None:
    async with connect(server) as other:
        async with connect(server) as client:
            await client.create("/e", mode=CreateMode.EPHEMERAL)
            await client.create("/s", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
        # No waiting: the goodbye was answered, and a sync makes another server catch up.
        await catch_up(other)
        assert await other.get_children("/") == []


async def test_fenced_writes(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/mine")
        fence = client.fenced("/mine")
        assert await fence.create("/a", b"one") == "/a"
        assert (await fence.set("/a", b"two")).version == 1
        with pytest.raises(BadVersionError):
            await fence.set("/a", b"", version=0)
        with pytest.raises(NodeExistsError):
            await fence.create("/a")
        results = await fence.transaction().create("/b").delete("/b")
        assert results == ["/b", None]
        with pytest.raises(TransactionError) as raised:
            await fence.transaction().create("/b").delete("/missing")
        assert raised.value.index == 1
        await client.delete("/mine")
        for refused in (
            fence.create("/c"), fence.set("/a", b""), fence.delete("/a"),
            fence.transaction().create("/c"),
        ):  # fmt: skip
            with pytest.raises(aiolead.Fenced, match="/mine is no longer ours"):
                await refused
        assert sorted(await client.get_children("/")) == ["a"]


async def test_every_client_is_a_session_of_its_own(server: ServerUnderTest) -> None:
    async with connect(server) as one, connect(server) as two:
        assert one.session_id != two.session_id
        await one.create("/a", mode=CreateMode.EPHEMERAL)
        await catch_up(two)

        async def seen() -> bool:
            return await two.exists("/a") is not None

        await eventually(seen, "the other's znode")
