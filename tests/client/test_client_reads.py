"""The reads that only newer servers know, and several reads in one request."""

from __future__ import annotations

import anyio
import pytest
from client.fake_server import FakeServer
from conftest import ServerUnderTest
from kit.checks import PATIENCE
from kit.clients import connect

from aiolead import ACL, Auth, CreateMode, NoNodeError
from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.framing import encode_reply
from aiolead._wire.replies import DataReply, ErrorResult, MultiReadReply, NamesReply, ReplyHeader
from aiolead._wire.requests import RequestHeader
from aiolead.errors import (
    ConfigurationError,
    InvalidPathError,
    NoAuthError,
    RemoteWireError,
    SessionExpiredError,
    UsageError,
)
from aiolead.model import EventType, Identity, Permission, Stat

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


async def test_children_with_the_stat(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        await client.create("/a/b")
        names, stat = await client.get_children_and_stat("/a")
        assert (names, stat) == (["b"], await client.exists("/a"))
        with client.backend.make_watch() as watch:
            await client.get_children_and_stat("/a", watch=watch)
            await client.create("/a/c")
            with anyio.fail_after(PATIENCE):
                assert (await watch.wait()).type is EventType.CHILDREN_CHANGED
        with pytest.raises(NoNodeError) as raised:
            await client.get_children_and_stat("/x")
        assert raised.value.path == "/x"


async def test_the_number_of_all_below(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/ab"):
            await client.create(path)
        assert await client.get_all_children_number("/a") == 3
        assert await client.get_all_children_number("/ab") == 0
        assert await client.get_all_children_number() == 5
        assert await client.chroot("/a").get_all_children_number("/b") == 1
        with pytest.raises(NoNodeError) as raised:
            await client.get_all_children_number("/x")
        assert raised.value.path == "/x"


async def test_the_ephemerals_of_a_session(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as other:
        ephemeral = CreateMode.EPHEMERAL
        await client.create("/a")
        for path in ("/a/m-1", "/a/m-2", "/a/n", "/ab"):
            await client.create(path, mode=ephemeral)
        await other.create("/a/others", mode=ephemeral)
        # A neighbour of the chroot, whose name begins alike.
        root = client.chroot("/a")
        assert sorted(await client.get_ephemerals()) == ["/a/m-1", "/a/m-2", "/a/n", "/ab"]
        assert sorted(await client.get_ephemerals("/a")) == ["/a/m-1", "/a/m-2", "/a/n", "/ab"]
        assert sorted(await client.get_ephemerals("/a/")) == ["/a/m-1", "/a/m-2", "/a/n"]
        assert sorted(await root.get_ephemerals()) == ["/m-1", "/m-2", "/n"]
        assert sorted(await root.get_ephemerals("/m-")) == ["/m-1", "/m-2"]
        assert await client.get_ephemerals("/x") == []
        await client.delete("/a/n")
        assert sorted(await root.get_ephemerals()) == ["/m-1", "/m-2"]
        for bad in ("", "a", "/a//", 7):
            with pytest.raises(InvalidPathError):
                await client.get_ephemerals(bad)  # type: ignore[arg-type]


async def test_who_one_is(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        assert await client.whoami() == [Identity("ip", "127.0.0.1")]
    async with connect(server, auth=[Auth.digest("user", "secret")]) as client:
        identities = await client.whoami()
        assert set(identities) == {Identity("ip", "127.0.0.1"), Identity("digest", "user")}


# --- several reads -----------------------------------------------------------------------------


async def test_several_reads(server: ServerUnderTest) -> None:
    async with connect(server) as client:
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


async def test_reads_are_sent_once(server: ServerUnderTest) -> None:
    async with connect(server) as client:
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
    """What a get of `/a` and a get_children of `/b` become of an answer."""

    def answer(header: RequestHeader) -> bytes | None:
        if header.xid == XID_PING:
            return encode_reply(ReplyHeader(XID_PING, 0, 0))
        return encode_reply(
            ReplyHeader(header.xid, 1, 0), reply if header.op == OpCode.MULTI_READ else None
        )

    async with FakeServer(answer) as fake, fake.connect(server_version="3.6") as client:
        return list(await client.reads().get("/a").get_children("/b"))


async def test_the_session_is_over_for_all_reads() -> None:
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
async def test_results_that_do_not_fit(results: list[object]) -> None:
    with pytest.raises(RemoteWireError, match="result"):
        await answered(MultiReadReply(results))  # type: ignore[arg-type]
