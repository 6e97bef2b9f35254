"""Deleting a tree: alone, beside other clients, and across lost connections."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import Link, before_each, connect, eventually, in_memory, raw
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

from aiolead import ACL, Client, CreateMode, Limits, admin
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    ConnectionLossError,
    InvalidPathError,
    LocalWireError,
    NoAuthError,
    NotEmptyError,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer


async def grow(client: Client, top: str, *, width: int, depth: int) -> int:
    """A tree in which each znode has `width` children; returns how many znodes it has."""
    paths, level = [top], [top]
    for _ in range(depth):
        level = [f"{path}/{i}" for path in level for i in range(width)]
        paths += level
    replies = [client.create(path) for path in paths]
    for reply in replies:
        await reply
    return len(paths)


async def test_tree_is_deleted(server: ServerUnderTest, client: Client) -> None:
    count = await grow(client, "/a", width=6, depth=3)
    assert count > 2 * admin.DELETIONS
    await client.create("/a/e", mode=CreateMode.EPHEMERAL)
    await client.create("/ab")
    assert await admin.delete_all(client, "/a") == count + 1
    assert await client.get_children("/") == ["ab"]
    assert await admin.delete_all(client, "/a") == 0
    assert await admin.delete_all(client, "/ab") == 1


async def test_root_of_a_view_stays(server: ServerUnderTest, client: Client) -> None:
    await grow(client, "/a", width=3, depth=1)
    view = client.chroot("/a")
    assert await admin.delete_all(view, "/1") == 1
    assert await admin.delete_all(view, "/") == 2
    assert await client.get_children("/") == ["a"]
    assert await admin.delete_all(client, "/") == 1
    assert await client.get_children("/") == []
    assert await admin.delete_all(client.chroot("/missing"), "/") == 0


@pytest.mark.parametrize("path", ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"])
async def test_reserved_paths_are_refused(client: Client, zk: EmbeddedServer, path: str) -> None:
    await client.create("/a")
    with pytest.raises(InvalidPathError, match=f"delete {path}$"):
        await admin.delete_all(client, path)
    if path.startswith("/zookeeper/"):
        with pytest.raises(InvalidPathError):
            await admin.delete_all(client.chroot("/zookeeper"), path.removeprefix("/zookeeper"))
    assert zk.znodes() == ["/a"]
    assert zk.requests["GET_CHILDREN"] == 0


async def test_part_without_permission_is_named(server: ServerUnderTest, client: Client) -> None:
    await grow(client, "/a", width=2, depth=1)
    await client.create("/a/locked")
    await client.create("/a/locked/in")
    await client.set_acl("/a/locked", [ACL(Permission.READ, "world", "anyone")])
    with pytest.raises(NoAuthError) as raised:
        await admin.delete_all(client, "/a")
    assert raised.value.path == "/a/locked/in"
    await client.create("/b", acl=[ACL(Permission.CREATE, "world", "anyone")])
    with pytest.raises(NoAuthError) as raised:
        await admin.delete_all(client, "/b")
    assert raised.value.path == "/b"


# --- beside other clients ----------------------------------------------------------------------


async def test_two_clients_delete_one_tree(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as rival:
        count = await grow(client, "/a", width=5, depth=3)
        deleted: list[int] = []

        async def delete(by: Client) -> None:
            deleted.append(await admin.delete_all(by, "/a"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(delete, rival)
            tasks.start_soon(delete, client)
        assert sum(deleted) == count
        assert await client.exists("/a") is None


@pytest.mark.parametrize("change", ["create", "delete"])
async def test_tree_that_changes_after_it_was_listed(server: ServerUnderTest, change: str) -> None:
    paths = {"create": ["/a/1/late", "/a/1/late/later"], "delete": ["/a/1/1", "/a/3/0"]}
    async with connect(server) as client:
        count = await grow(client, "/a", width=4, depth=2)
        late = iter(paths[change])
        with raw(server) as rival:

            def act() -> None:
                if path := next(late, None):
                    getattr(rival, change)(path)

            before_each(client, OpCode.MULTI, act)
            if change == "delete":
                before_each(client, OpCode.DELETE, act)
            expected = count + 2 if change == "create" else count - 2
            assert await admin.delete_all(client, "/a") == expected
        assert await client.exists("/a") is None


async def test_deletion_gives_up_if_children_keep_coming(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        created = 0
        with raw(server) as rival:

            def create() -> None:
                nonlocal created
                created += 1
                rival.create(f"/a/{created}")

            before_each(client, OpCode.MULTI, create)
            with pytest.raises(NotEmptyError, match="others create in it") as raised:
                await admin.delete_all(client, "/a")
        assert raised.value.path == "/a"
        assert created == admin.ROUNDS


# --- lost connections --------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_deletion_continues_after_a_lost_connection(
    client: Client, zk: EmbeddedServer, lost: str
) -> None:
    count = await grow(client, "/a", width=5, depth=3)
    drop = zk.drop_reply if lost == "reply" else zk.drop_request
    drop(OpCode.MULTI)
    drop(OpCode.GET_CHILDREN)
    assert await admin.delete_all(client, "/a") == count
    assert zk.znodes() == []


async def test_deletion_gives_up_after_several_losses(client: Client, zk: EmbeddedServer) -> None:
    await client.create("/a")
    zk.drop_request(OpCode.MULTI, 100)
    with pytest.raises(ConnectionLossError):
        await admin.delete_all(client, "/a")
    assert zk.requests["MULTI"] == admin.LOSSES
    assert zk.znodes() == ["/a"]


@virtually
async def test_deletion_gives_up_without_a_server() -> None:
    async with embedded() as server, connect_virtually(server, session_timeout=1.0) as client:
        await client.create("/a")
        await server.stop()
        with pytest.raises(ConnectionLossError, match="no server was reached"):
            await admin.delete_all(client, "/a")


# --- limits ------------------------------------------------------------------------------------


async def test_transactions_stay_below_the_limit() -> None:
    async with EmbeddedServer(max_frame=1024) as server:
        async with in_memory(server, limits=Limits(max_request=1024)) as client:
            chroot = "/" + "c" * 90
            view = client.chroot(chroot)
            await view.ensure_path("/a")
            for length in range(10, 800, 50):
                await view.create("/a/" + "x" * length)
            for number in range(30):
                await view.create(f"/a/{number}")
            assert await admin.delete_all(view, "/a") == 47
            assert server.znodes() == [chroot]


async def test_path_that_fills_a_request_is_deleted() -> None:
    """To the byte: what can be deleted at all is deleted."""
    async with EmbeddedServer(max_frame=2048) as server:
        name = "/" + "x" * (1024 - 8 - 2 * 9 - 8 - 1)
        async with connect(server) as client:
            await client.create(name)
            await client.create(name + "y")
        async with in_memory(server, limits=Limits(max_request=1024)) as client:
            assert await admin.delete_all(client, name) == 1
            with pytest.raises(LocalWireError):
                await admin.delete_all(client, name + "y")


async def test_requests_in_flight_are_bounded(client: Client, zk: EmbeddedServer) -> None:
    count = await grow(client, "/a", width=35, depth=2)
    most: Counter[int] = Counter()
    flying: Counter[int] = Counter()
    submit = client._core.submit

    def count_in(call: Any, **options: Any) -> Any:
        flying[call.op] += 1
        most[call.op] = max(most[call.op], flying[call.op])
        call.add_done_callback(lambda: flying.subtract([call.op]))
        return submit(call, **options)

    client._core.submit = count_in  # type: ignore[method-assign]
    assert await admin.delete_all(client, "/a") == count
    assert 1 < most[OpCode.GET_CHILDREN] <= admin.LISTINGS
    assert most[OpCode.MULTI] == admin.TRANSACTIONS
    assert zk.requests["MULTI"] < count / admin.DELETIONS + 1


async def test_cancelled_deletion_sends_no_more(zk: EmbeddedServer) -> None:
    wire = Link(zk)
    async with wire.connect() as client:
        await grow(client, "/a", width=35, depth=2)
        async with anyio.create_task_group() as tasks:
            before_each(client, OpCode.MULTI, partial(wire.stall, "to_client"))
            tasks.start_soon(admin.delete_all, client, "/a")
            await eventually(lambda: zk.requests["MULTI"] > 0, "it has begun")
            tasks.cancel_scope.cancel()
        wire.heal()
        await client.sync()
        sent = zk.requests["MULTI"]
        assert 0 < sent <= admin.TRANSACTIONS
        assert zk.znodes()
