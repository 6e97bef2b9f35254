"""The calls of operators, from a thread."""

from __future__ import annotations

import pytest
from blocking.threads import connect

import aiolead
from aiolead import Auth, CreateMode, NodeExistsError, NoNodeError, blocking
from aiolead.blocking import admin
from aiolead.errors import ConfigurationError, ReconfigDisabledError
from aiolead.model import Identity, Quota, QuotaUsage
from aiolead.testing import EmbeddedServer, ThreadedServer

MEMBERS = "".join(f"server.{n}=10.0.0.{n}:2888:3888;2181\n" for n in (1, 2, 3))
SUPER = Auth.digest("super", "secret")


def test_quota_is_set_read_and_deleted(client: blocking.Client) -> None:
    client.create("/a", b"12345")
    assert admin.get_quota(client, "/a") is None
    admin.set_quota(client, "/a", Quota(count=7))
    assert admin.get_quota(client, "/a") == (Quota(count=7), QuotaUsage(1, 5))
    with pytest.raises(NodeExistsError, match="nested"):
        client.create("/a/b")
        admin.set_quota(client, "/a/b", Quota(count=1))
    admin.delete_quota(client, "/a")
    with pytest.raises(NoNodeError):
        admin.delete_quota(client, "/a")


def test_session_and_its_znodes_are_shown(client: blocking.Client) -> None:
    client.create("/a", mode=CreateMode.EPHEMERAL)
    client.create("/b", mode=CreateMode.EPHEMERAL)
    assert sorted(admin.get_ephemerals(client)) == ["/a", "/b"]
    assert admin.get_ephemerals(client, "/b") == ["/b"]
    assert admin.whoami(client) == [Identity("ip", "127.0.0.1")]


def test_members_are_read_and_changed() -> None:
    options = {"config": MEMBERS, "super_digest": SUPER.acl().id}
    with (
        EmbeddedServer.in_thread(**options) as server,
        connect(server, auth=[SUPER]) as client,
    ):
        assert [spec.id for spec in admin.get_config(client).servers] == [1, 2, 3]
        assert [spec.id for spec in admin.reconfig(client, leaving=[3]).servers] == [1, 2]


def test_refused_change_of_the_members_raises(client: blocking.Client) -> None:
    with pytest.raises(ReconfigDisabledError):
        admin.reconfig(client, leaving=[1])


def test_tree_is_deleted_below_a_chroot(own: ThreadedServer, client: blocking.Client) -> None:
    client.ensure_path("/below/a/b")
    assert admin.delete_all(client.chroot("/below"), "/a") == 2
    assert list(own.znodes()) == ["/below"]


def test_functions_for_event_loops_refuse_a_client_for_threads(client: blocking.Client) -> None:
    async def whoami(_: object) -> object:
        return await aiolead.admin.whoami(client)  # type: ignore[arg-type]

    with pytest.raises(ConfigurationError, match=r"aiolead\.blocking\.admin"):
        client.call(whoami)
