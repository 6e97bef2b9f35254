"""Quotas, as `setquota` of ZooKeeper's own command keeps them, and as servers enforce them."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import ServerUnderTest
from kit.clients import before_each, catch_up, connect, eventually

from aiolead import ACL, Client, CreateMode, NodeExistsError, NoNodeError, admin
from aiolead._wire.codes import OpCode
from aiolead.admin import decode_limits, decode_usage, encode_limits
from aiolead.errors import (
    ConfigurationError,
    ConnectionLossError,
    InvalidPathError,
    NoAuthError,
    NotEmptyError,
    QuotaExceededError,
    RemoteWireError,
    TransactionError,
    UnsupportedError,
)
from aiolead.model import Permission, Quota, QuotaUsage
from aiolead.testing import EmbeddedServer


def root(client: Client) -> Client:
    """A view of the whole tree."""
    return Client(client._core, "")


async def test_quota_is_set_counted_and_deleted(server: ServerUnderTest, client: Client) -> None:
    await client.create("/a", b"12345")
    await client.create("/a/b", b"12")
    assert await admin.get_quota(client, "/a") is None
    quota = Quota(count=7, bytes=100)
    await admin.set_quota(client, "/a", quota)
    assert await admin.get_quota(client, "/a") == (quota, QuotaUsage(2, 7))
    await client.create("/a/b/c", b"123")
    await client.set("/a", b"1")
    assert await admin.get_quota(client, "/a") == (quota, QuotaUsage(3, 6))
    await client.transaction().create("/a/d", b"1").delete("/a/b/c").commit()
    assert await admin.get_quota(client, "/a") == (quota, QuotaUsage(3, 4))
    with pytest.raises(TransactionError):
        await client.transaction().create("/a/x").delete("/missing")
    assert await admin.get_quota(client, "/a") == (quota, QuotaUsage(3, 4))
    # Another quota in its place; the counts are kept.
    harder = Quota(count_hard=4, bytes_hard=2**40)
    await admin.set_quota(client, "/a", harder)
    assert await admin.get_quota(client, "/a") == (harder, QuotaUsage(3, 4))
    await admin.delete_quota(client, "/a")
    assert await admin.get_quota(client, "/a") is None
    with pytest.raises(NoNodeError, match="there is no quota on: /a"):
        await admin.delete_quota(client, "/a")
    # Nothing is left of it.
    assert await root(client).exists(f"/zookeeper/quota{server.chroot}") is None


async def test_quota_is_kept_as_by_setquota(server: ServerUnderTest, client: Client) -> None:
    await client.create("/a")
    await admin.set_quota(client, "/a", Quota(count=7))
    place = f"/zookeeper/quota{server.chroot}/a"
    whole = root(client)
    assert sorted(await whole.get_children(place)) == ["zookeeper_limits", "zookeeper_stats"]
    assert (await whole.get(f"{place}/zookeeper_limits"))[0] == b"count=7,bytes=-1"
    data, stat = await whole.get(f"{place}/zookeeper_stats")
    assert data == b"count=1,bytes=0"
    await client.create("/a/b", b"1")
    data, later = await whole.get(f"{place}/zookeeper_stats")
    # The server counts without a transaction.
    assert data == b"count=2,bytes=1"
    assert (later.version, later.mzxid) == (stat.version, stat.mzxid)


async def test_ephemerals_are_counted_until_they_go(server: ServerUnderTest) -> None:

    async with connect(server) as client:
        await client.create("/a")
        await admin.set_quota(client, "/a", Quota(count=7))
        async with connect(server) as other:
            await other.create("/a/e", b"123", mode=CreateMode.EPHEMERAL)
            await catch_up(client)  # they may be at different servers
            assert (await admin.get_quota(client, "/a") or [None])[-1] == QuotaUsage(2, 3)

        async def is_back() -> bool:
            return (await admin.get_quota(client, "/a") or [None])[-1] == QuotaUsage(1, 0)

        await eventually(is_back, "the ephemeral znode is not counted any more")


async def test_quotas_are_not_nested(server: ServerUnderTest, client: Client) -> None:
    for path in ("/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/x", "/ab"):
        await client.create(path)
    await admin.set_quota(client, "/a/b/c", Quota(count=7))
    other = f"{server.chroot}/a/b/c has one"
    for path in ("/a", "/a/b", "/a/b/c/d"):
        with pytest.raises(NodeExistsError, match=f"{other}: {path}$"):
            await admin.set_quota(client, path, Quota(count=9))
    # Beside it there is room.
    await admin.set_quota(client, "/a/x", Quota(count=9))
    await admin.set_quota(client, "/ab", Quota(count=9))
    await admin.delete_quota(client, "/a/b/c")
    await admin.delete_quota(client, "/a/x")
    await admin.set_quota(client, "/a", Quota(count=9))
    assert await admin.get_quota(client.chroot("/a"), "/") == await admin.get_quota(client, "/a")
    with pytest.raises(NodeExistsError, match="nested"):
        await admin.set_quota(client.chroot("/a/b"), "/c", Quota(count=9))


async def test_reserved_and_missing_paths_have_no_quota(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        with pytest.raises(NoNodeError) as raised:
            await admin.set_quota(client, "/missing", Quota(count=1))
        assert raised.value.path == "/missing"
        whole = root(client)
        assert await whole.exists("/zookeeper/quota/missing") is None
        for path in ("/", "/zookeeper", "/zookeeper/quota/a"):
            for act in (
                admin.get_quota(whole, path),
                admin.delete_quota(whole, path),
                admin.set_quota(whole, path, Quota(count=1)),
            ):
                with pytest.raises(InvalidPathError, match="no quota"):
                    await act


@pytest.mark.parametrize("quota", [Quota(), None, 7, {"count": 7}])
async def test_invalid_quota_is_refused(client: Client, quota: Any) -> None:
    await client.create("/a")
    with pytest.raises(ConfigurationError, match="quota: must be a Quota"):
        await admin.set_quota(client, "/a", quota)


@pytest.mark.parametrize("limit", [-1, 2**63, 1.5, "7", True])
def test_invalid_limits_are_refused(limit: Any) -> None:
    for name in ("count", "bytes", "count_hard", "bytes_hard"):
        with pytest.raises(ConfigurationError, match=name):
            Quota(**{name: limit})


async def test_half_of_a_quota_is_mended(server: ServerUnderTest, client: Client) -> None:
    """As of a command that was killed half way; setting it again mends it."""
    await client.create("/a")
    await admin.set_quota(client, "/a", Quota(count=7))
    whole, place = root(client), f"/zookeeper/quota{server.chroot}/a"
    await whole.delete(f"{place}/zookeeper_stats")
    assert await admin.get_quota(client, "/a") is None
    await client.create("/a/b")
    await admin.set_quota(client, "/a", Quota(count=8))
    assert await admin.get_quota(client, "/a") == (Quota(count=8), QuotaUsage(2, 0))
    await whole.delete(f"{place}/zookeeper_stats")
    await admin.delete_quota(client, "/a")
    assert await whole.exists(place) is None


# --- old servers, lost connections, permissions ------------------------------------------------


async def test_hard_limits_need_a_newer_server() -> None:
    async with EmbeddedServer(version="3.6.3") as server, connect(server) as client:
        await client.create("/a")
        for quota in (Quota(count_hard=7), Quota(bytes_hard=7)):
            with pytest.raises(UnsupportedError, match=r"a hard limit of a quota needs .* 3\.7"):
                await admin.set_quota(client, "/a", quota)
        assert await admin.get_quota(client, "/a") is None
        await admin.set_quota(client, "/a", Quota(count=7))
        assert await admin.get_quota(client, "/a") == (Quota(count=7), QuotaUsage(1, 0))


async def test_quota_without_permission_is_refused(server: ServerUnderTest, client: Client) -> None:
    await client.create("/a")
    await client.create("/a/b")
    await admin.set_quota(client, "/a/b", Quota(count=7))
    place = f"/zookeeper/quota{server.chroot}/a/b"
    limits = f"{place}/zookeeper_limits"
    await root(client).set_acl(limits, [ACL(Permission.READ, "world", "anyone")])
    await root(client).set_acl(place, [ACL(Permission.READ, "world", "anyone")])
    with pytest.raises(NoAuthError) as raised:
        await admin.set_quota(client, "/a/b", Quota(count=8))
    assert raised.value.path == limits
    with pytest.raises(NoAuthError):
        await admin.delete_quota(client, "/a/b")
    assert await admin.get_quota(client, "/a/b") == (Quota(count=7), QuotaUsage(1, 0))


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_lost_connection_leaves_the_quota_unknown(
    client: Client, zk: EmbeddedServer, lost: str
) -> None:
    await client.create("/a")
    drop = zk.drop_reply if lost == "reply" else zk.drop_request
    drop(OpCode.MULTI)
    with pytest.raises(ConnectionLossError):
        await admin.set_quota(client, "/a", Quota(count=7))
    assert (await admin.get_quota(client, "/a") is None) == (lost == "request")
    await admin.set_quota(client, "/a", Quota(count=7))
    assert await admin.get_quota(client, "/a") == (Quota(count=7), QuotaUsage(1, 0))


async def test_two_clients_set_quotas_at_the_same_time(server: ServerUnderTest) -> None:
    """Both want to make what is above; the second one finds it made."""
    async with connect(server) as client:
        for path in ("/a", "/a/1", "/a/2"):
            await client.create(path)
        whole, place = root(client), f"/zookeeper/quota{server.chroot}"
        once = iter([place, f"{place}/a"])

        def meddle() -> None:
            if path := next(once, None):
                whole.create(path)

        before_each(client, OpCode.MULTI, meddle)
        await admin.set_quota(client, "/a/1", Quota(count=7))
        assert next(once, None) is None
        assert await admin.get_quota(client, "/a/1") == (Quota(count=7), QuotaUsage(1, 0))
        # The znodes above serve the other one, too.
        await admin.set_quota(client, "/a/2", Quota(count=8))
        await admin.delete_quota(client, "/a/1")
        assert await admin.get_quota(client, "/a/2") == (Quota(count=8), QuotaUsage(1, 0))


async def test_deletion_of_a_quota_gives_up_if_others_keep_changing_it(
    server: ServerUnderTest,
) -> None:
    async with connect(server) as client:
        await client.create("/a")
        await admin.set_quota(client, "/a", Quota(count=7))
        whole, path = root(client), f"/zookeeper/quota{server.chroot}/a/zookeeper_stats"
        changes = 0

        def change() -> None:
            nonlocal changes
            changes += 1
            whole.delete(path) if changes % 2 else whole.create(path, b"count=0,bytes=0")

        before_each(client, OpCode.MULTI, change)
        with pytest.raises((NoNodeError, NotEmptyError)):
            await admin.delete_quota(client, "/a")
        assert changes == admin.ATTEMPTS


# --- hard limits -------------------------------------------------------------------------------


async def hard_limits_hold(client: Client) -> None:
    await client.ensure_path("/")
    await client.create("/a", b"12345")
    await client.create("/a/b")
    await admin.set_quota(client, "/a", Quota(count_hard=3, bytes_hard=10))
    await client.create("/a/c", b"12345")
    with pytest.raises(QuotaExceededError) as raised:
        await client.create("/a/d")
    assert raised.value.path == "/a/d"
    with pytest.raises(QuotaExceededError):
        await client.set("/a/b", b"1")
    await client.set("/a/c", b"54321")
    with pytest.raises(TransactionError) as failed:
        await client.transaction().set("/a/c", b"1").create("/a/d")
    assert isinstance(failed.value.cause, QuotaExceededError)
    assert failed.value.index == 1
    await client.delete("/a/b")
    await client.create("/a/d")
    with pytest.raises(QuotaExceededError):
        await client.create("/a/e")
    await client.create("/beside", b"x" * 100)
    quota = Quota(count=1, bytes=1)
    await admin.set_quota(client, "/a", quota)
    # Soft ones are for the server's log.
    await client.create("/a/e", b"123")
    assert await admin.get_quota(client, "/a") == (quota, QuotaUsage(4, 13))


async def test_hard_limits_hold_on_the_embedded_server() -> None:
    async with EmbeddedServer(enforce_quota=True) as server, connect(server) as client:
        await hard_limits_hold(client)


@pytest.fixture(scope="module")
def enforcing(zookeeper_installed: None) -> Any:
    from aiolead.testing.servers import BlockingServer

    with BlockingServer(java_options=["-Dzookeeper.enforceQuota=true"]) as server:
        yield server


@pytest.mark.exhaustive("the same as on the embedded server")
@pytest.mark.real
async def test_hard_limits_hold_on_a_real_server(enforcing: Any, chroot: str) -> None:
    async with connect(enforcing) as client:
        await hard_limits_hold(client.chroot(chroot))


async def test_hard_limits_are_advice_unless_enforced(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        await admin.set_quota(client, "/a", Quota(count_hard=1, bytes_hard=1))
        await client.create("/a/b", b"123")


# --- the format -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "quota"),
    [
        (b"count=4,bytes=5", Quota(count=4, bytes=5)),
        (b"count=-1,bytes=-1", Quota()),
        # As 3.8's setquota -n 4 writes it.
        (b"count=4,bytes=-1=;byteHardLimit=-1;countHardLimit=-1", Quota(count=4)),
        (
            b"count=4,bytes=5=;byteHardLimit=7;countHardLimit=6",
            Quota(count=4, bytes=5, count_hard=6, bytes_hard=7),
        ),
        (b"count=0,bytes=9999999999999999999", Quota(count=0, bytes=2**63 - 1)),
        (b"count=1,bytes=2=;invented=3", Quota(count=1, bytes=2)),
    ],
)
def test_limits_of_other_programs_are_read(data: bytes, quota: Quota) -> None:
    assert decode_limits(data) == quota
    assert decode_limits(encode_limits(quota)) == quota


def test_limits_as_servers_of_every_version_read_them() -> None:
    assert encode_limits(Quota(count=4)) == b"count=4,bytes=-1"
    both = Quota(count=4, count_hard=6)
    assert encode_limits(both) == b"count=4,bytes=-1=;byteHardLimit=-1;countHardLimit=6"


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"count", b"count=", b"count=x", b"count=1 ", b"count=" + b"1" * 20]
)
def test_malformed_limits_are_refused(data: bytes) -> None:
    for decode in (decode_limits, decode_usage):
        with pytest.raises(RemoteWireError, match="quota"):
            decode(data)
