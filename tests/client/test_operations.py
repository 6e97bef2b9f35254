"""Results and errors of the operations, on every loop and every kind of server."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from client.fake_server import STAT, FakeServer, ok, usual
from conftest import ServerUnderTest
from kit.checks import PATIENCE
from kit.clients import catch_up, connect
from kit.raw_client import told_zxid

import aiolead
from aiolead import ACL, Auth, Client, CreateMode, NodeExistsError, NoNodeError, admin
from aiolead._wire.codes import OpCode
from aiolead._wire.replies import DataReply, ErrorResult, MultiReadReply, NamesReply
from aiolead._wire.requests import RequestHeader
from aiolead.errors import (
    BadVersionError,
    ConfigurationError,
    InvalidACLError,
    InvalidPathError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NotEmptyError,
    RemoteWireError,
    RolledBackError,
    RuntimeInconsistencyError,
    ServerError,
    SessionExpiredError,
    TransactionError,
    UsageError,
)
from aiolead.model import (
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    EventType,
    Identity,
    Permission,
    WatchEvent,
)


@pytest.mark.only_zookeeper("the times of a created znode")
async def test_znode_from_create_to_delete(server: ServerUnderTest, client: Client) -> None:
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


async def test_every_mode_of_create(server: ServerUnderTest, client: Client) -> None:
    for path, mode, created in (
        ("/s-", CreateMode.PERSISTENT_SEQUENTIAL, "/s-0000000000"),
        ("/s-", CreateMode.PERSISTENT_SEQUENTIAL, "/s-0000000001"),
        ("/", CreateMode.PERSISTENT_SEQUENTIAL, "/0000000002"),
        ("/e", CreateMode.EPHEMERAL, "/e"),
        ("/e-", CreateMode.EPHEMERAL_SEQUENTIAL, "/e-0000000004"),
        ("/c", CreateMode.CONTAINER, "/c"),
    ):
        result = await client.create(path, mode=mode)
        assert result.path == created
        is_ephemeral = "EPHEMERAL" in mode.name
        assert (result.stat.ephemeral_owner == client.session_id) == is_ephemeral


async def test_refusals_of_servers_have_their_error_and_path(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        await client.create("/a/b")
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        refused: list[tuple[Any, type[ServerError], str]] = [
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
            (client.get_children_and_stat("/x"), NoNodeError, "/x"),
            (client.get_acl("/x"), NoNodeError, "/x"),
            (client.set_acl("/x", OPEN_ACL_UNSAFE), NoNodeError, "/x"),
            (client.set_acl("/a", OPEN_ACL_UNSAFE, version=7), BadVersionError, "/a"),
            (client.check("/x"), NoNodeError, "/x"),
            (client.check("/a", version=7), BadVersionError, "/a"),
            (client.get_all_children_number("/x"), NoNodeError, "/x"),
        ]
        for reply, error, path in refused:
            with pytest.raises(error) as raised:
                await reply
            assert type(raised.value) is error
            # The path is the caller's, without the chroot.
            assert raised.value.path == path
            assert str(raised.value).endswith(f": {path}")
        # None of it left a trace, nor harmed the session.
        assert sorted(await client.get_children("/")) == ["a", "e"]


async def test_transaction_is_applied_as_a_whole(server: ServerUnderTest, client: Client) -> None:
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


@pytest.mark.only_zookeeper("the times of a created znode")
async def test_views_of_a_chroot(server: ServerUnderTest, client: Client) -> None:
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


async def test_ensure_path_creates_missing_parents(server: ServerUnderTest) -> None:
    async with aiolead.connect(server.hosts, session_timeout=8) as client:
        await client.ensure_path("/")
        await client.ensure_path(server.chroot + "/a/b/c")
        await client.ensure_path(server.chroot + "/a/b/c/d", mode=CreateMode.CONTAINER)
        assert await client.get_children(server.chroot + "/a/b/c") == ["d"]
        # Of a view that is not there yet: the chroot, too.
        view = client.chroot(server.chroot + "/new")
        with pytest.raises(NoNodeError, match=r"/new is missing, see ensure_path"):
            await view.create("/a")
        await view.ensure_path("/x")
        await view.ensure_path("/")
        assert await client.get_children(server.chroot + "/new") == ["x"]


async def test_acls_protect_znodes(server: ServerUnderTest) -> None:
    credentials = [Auth.digest("alice", "secret")]
    async with connect(server, auth=credentials) as alice, connect(server) as bob:
        await alice.create("/hers", b"data", acl=CREATOR_ALL_ACL)
        await catch_up(bob)  # it may be at another server
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
        await catch_up(bob)  # it may be at another server
        assert (await bob.get("/hers"))[0] == b"data"
        with pytest.raises(NoAuthError):
            await bob.set("/hers", b"")


async def test_fenced_writes_need_their_guard(server: ServerUnderTest, client: Client) -> None:
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
    # A guard that cannot be checked says nothing about whose it is.
    await client.set_acl("/mine", [ACL(Permission.ADMIN, "world", "anyone")])
    with pytest.raises(NoAuthError):
        await fence.set("/a", b"three")
    await client.delete("/mine")
    for refused in (
        fence.create("/c"), fence.set("/a", b""), fence.delete("/a"),
        fence.transaction().create("/c"),
    ):  # fmt: skip
        with pytest.raises(aiolead.Fenced, match="/mine is no longer ours"):
            await refused
    assert sorted(await client.get_children("/")) == ["a"]


# --- reads that only newer servers know ----------------------------------------------------------


async def test_children_are_read_with_the_stat(server: ServerUnderTest, client: Client) -> None:
    await client.create("/a")
    await client.create("/a/b")
    names, stat = await client.get_children_and_stat("/a")
    assert (names, stat) == (["b"], await client.exists("/a"))
    with client.backend.make_watch() as watch:
        await client.get_children_and_stat("/a", watch=watch)
        await client.create("/a/c")
        with anyio.fail_after(PATIENCE):
            assert (await watch.wait()).type is EventType.CHILDREN_CHANGED


async def test_number_of_all_descendants(server: ServerUnderTest, client: Client) -> None:
    for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/ab"):
        await client.create(path)
    assert await client.get_all_children_number("/a") == 3
    assert await client.get_all_children_number("/ab") == 0
    assert await client.get_all_children_number() == 5
    assert await client.chroot("/a").get_all_children_number("/b") == 1


async def test_ephemerals_of_a_session(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as other:
        ephemeral = CreateMode.EPHEMERAL
        await client.create("/a")
        for path in ("/a/m-1", "/a/m-2", "/a/n", "/ab"):
            await client.create(path, mode=ephemeral)
        await other.create("/a/others", mode=ephemeral)
        # A neighbour of the chroot, whose name begins alike.
        root = client.chroot("/a")
        assert sorted(await admin.get_ephemerals(client)) == ["/a/m-1", "/a/m-2", "/a/n", "/ab"]
        assert sorted(await admin.get_ephemerals(client, "/a")) == [
            "/a/m-1",
            "/a/m-2",
            "/a/n",
            "/ab",
        ]
        assert sorted(await admin.get_ephemerals(client, "/a/")) == ["/a/m-1", "/a/m-2", "/a/n"]
        assert sorted(await admin.get_ephemerals(root)) == ["/m-1", "/m-2", "/n"]
        assert sorted(await admin.get_ephemerals(root, "/m-")) == ["/m-1", "/m-2"]
        assert await admin.get_ephemerals(client, "/x") == []
        await client.delete("/a/n")
        assert sorted(await admin.get_ephemerals(root)) == ["/m-1", "/m-2"]
        for bad in ("", "a", "/a//", 7):
            with pytest.raises(InvalidPathError):
                await admin.get_ephemerals(client, bad)  # type: ignore[arg-type]


async def test_identities_of_a_client(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        assert await admin.whoami(client) == [Identity("ip", "127.0.0.1")]
    async with connect(server, auth=[Auth.digest("user", "secret")]) as client:
        identities = await admin.whoami(client)
        assert set(identities) == {Identity("ip", "127.0.0.1"), Identity("digest", "user")}


# --- several reads -----------------------------------------------------------------------------


@pytest.mark.only_zookeeper("the times of a created znode")
async def test_several_reads_in_one_request(server: ServerUnderTest, client: Client) -> None:
    nobody = ACL(Permission.ALL, "ip", "10.9.8.7")
    created = await client.create("/a", b"one")
    await client.create("/secret", acl=[nobody])
    names, data, missing, forbidden, empty, again = await (
        client.reads()
        .get_children("/")
        .get("/a")
        .get("/x")
        .get_children("/secret")
        .get_children("/a")
        .get("/a")
    )
    assert isinstance(names, list)
    assert sorted(names) == ["a", "secret"]
    assert data == again == (b"one", created.stat)
    assert empty == []
    assert isinstance(missing, NoNodeError)
    assert missing.path == "/x"
    assert isinstance(forbidden, NoAuthError)
    assert forbidden.path == "/secret"
    (below,) = await client.chroot("/a").reads().get("/")
    assert below == data


async def test_reads_are_sent_once(server: ServerUnderTest, client: Client) -> None:
    reads = client.reads().get_children("/")
    assert await reads == [[]]
    with pytest.raises(UsageError, match="sent already"):
        await reads
    with pytest.raises(UsageError, match="sent already"):
        reads.get("/")
    with pytest.raises(ConfigurationError, match="at least one"):
        await client.reads()
    with pytest.raises(InvalidPathError):
        client.reads().get("a")


async def answered(reply: MultiReadReply) -> list[object]:
    """The results that a get of `/a` and a get_children of `/b` make of an answer."""

    def answer(header: RequestHeader) -> bytes | None:
        return ok(header, reply) if header.op == OpCode.MULTI_READ else usual(header)

    async with FakeServer(answer) as fake, fake.connect(server_version="3.6") as client:
        return list(await client.reads().get("/a").get_children("/b"))


async def test_expired_session_fails_all_reads() -> None:
    with pytest.raises(SessionExpiredError):
        await answered(MultiReadReply([ErrorResult(-101), ErrorResult(-112)]))


@pytest.mark.parametrize(
    "results",
    [
        [],
        [DataReply(b"", STAT)],
        [NamesReply([]), DataReply(b"", STAT)],
        [DataReply(b"", STAT), NamesReply([]), NamesReply([])],
    ],
)
async def test_results_of_other_reads_are_refused(results: list[object]) -> None:
    with pytest.raises(RemoteWireError, match="result"):
        await answered(MultiReadReply(results))  # type: ignore[arg-type]
