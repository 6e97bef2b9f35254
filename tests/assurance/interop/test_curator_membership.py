"""Groups, kept znodes and services that are shared with the real Curator, in both directions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from assurance.interop.peers import LONG, NewCurator, Peer
from kit.clients import eventually

import aiolead
from aiolead import (
    Client,
    CreateMode,
    Group,
    NoNodeError,
    PersistentNode,
    ServiceInstance,
    ServiceRegistry,
)
from aiolead.types import Picker, RoundRobin

PATH = "/members/one"


# --- Group and GroupMember -----------------------------------------------------------------------


async def test_group_has_members_of_both(client: Client, java: Peer) -> None:
    group = Group(client, PATH)
    async with group.observe() as view:

        def members() -> dict[str, bytes]:
            return {member.id: member.data for member in view.value.values()}

        async with group.join(b"ours", identity="python") as membership:
            await java("group.join", PATH, "java", b"theirs")
            await eventually(
                lambda: members() == {"python": b"ours", "java": b"theirs"}, "we see both"
            )
            assert view.value["java"].session_id == java.session_id
            both = f"java={b'theirs'.hex()},python={b'ours'.hex()}"
            assert await java("group.await", PATH, both, LONG) == both

            await membership.set(b"news")
            both = f"java={b'theirs'.hex()},python={b'news'.hex()}"
            assert await java("group.await", PATH, both, LONG) == both
            await java("group.set", PATH, b"answer")
            await eventually(lambda: members().get("java") == b"answer", "we see the answer")
        alone = f"java={b'answer'.hex()}"
        assert await java("group.await", PATH, alone, LONG) == alone
        await java("group.leave", PATH)
        await eventually(lambda: members() == {}, "nobody is left")


async def test_member_of_a_closed_peer_leaves(client: Client, curator: NewCurator) -> None:
    async with Group(client, PATH).observe() as view:
        async with curator() as java:
            await java("group.join", PATH, "java", b"")
            await eventually(lambda: set(view.value) == {"java"}, "it is there")
        await eventually(lambda: not view.value, "it is gone")
        assert await Group(client, PATH).members() == {}


# --- PersistentNode ------------------------------------------------------------------------------


async def test_persistent_node_waits_for_curator(client: Client, java: Peer) -> None:
    assert await java.is_so("pnode.start", PATH, "EPHEMERAL", b"theirs")
    assert (await client.get(PATH))[0] == b"theirs"
    with pytest.raises(aiolead.AcquireTimeout):
        async with PersistentNode(client, PATH, b"ours", timeout=0.1):
            pass
    await java("pnode.close", PATH)
    async with PersistentNode(client, PATH, b"ours", timeout=LONG / 1000):
        assert await java("get", PATH) == b"ours".hex()
    with pytest.raises(NoNodeError):
        await client.get(PATH)


@pytest.mark.parametrize("ours", [False, True])
async def test_deleted_node_is_restored_by_both(client: Client, java: Peer, ours: bool) -> None:

    async def is_back(czxid: int) -> bool:
        stat = await client.exists(PATH)
        return stat is not None and stat.czxid != czxid

    async def delete_it() -> None:
        stat = await client.exists(PATH)
        assert stat is not None
        assert stat.ephemeral_owner == (client.session_id if ours else java.session_id)
        await client.delete(PATH)
        await eventually(lambda: is_back(stat.czxid), "it is restored")

    if ours:
        async with PersistentNode(client, PATH, b"x"):
            await delete_it()
    else:
        assert await java.is_so("pnode.start", PATH, "EPHEMERAL", b"x")
        await delete_it()


async def test_sequential_nodes_exist_side_by_side(client: Client, java: Peer) -> None:
    prefix = f"{PATH}/node-"
    assert await java.is_so("pnode.start", prefix, "EPHEMERAL_SEQUENTIAL", b"theirs")
    mode = CreateMode.EPHEMERAL_SEQUENTIAL
    async with PersistentNode(client, prefix, b"ours", mode=mode) as node:
        assert node.path == f"{prefix}0000000001"
        assert len(await client.get_children(PATH)) == 2


# --- ServiceRegistry and ServiceDiscovery --------------------------------------------------------

WEB = ServiceInstance(
    name="web",
    id="python",
    address="10.0.0.7",
    port=8080,
    payload="ours",
    uri_spec="{scheme}://{address}:{port}",
)


async def test_curator_finds_a_registered_service(client: Client, java: Peer) -> None:
    registry = ServiceRegistry(client, PATH)
    async with registry.register(WEB) as registration:
        assert await java("discovery.names", PATH) == "web"
        assert await java("discovery.list", PATH, "web") == (
            "python;10.0.0.7;8080;ours;DYNAMIC;true"
        )
        assert await java("discovery.uri", PATH, "web", "python") == "http://10.0.0.7:8080"
        assert await java("discovery.pick", PATH, "web", 2) == "python,python"
        # Curator ignores unknown fields.
        await registration.update(replace(WEB, weight=2.0, load=0.5))
        assert await java("discovery.list", PATH, "web") == (
            "python;10.0.0.7;8080;ours;DYNAMIC;true"
        )
        await registration.drain()
        assert await java("discovery.list", PATH, "web") == (
            "python;10.0.0.7;8080;ours;DYNAMIC;false"
        )

        async def picks_nobody() -> bool:
            return await java("discovery.pick", PATH, "web", 1) == "nobody"

        await eventually(picks_nobody, "it is drained for Curator, too")
    assert await java("discovery.list", PATH, "web") == ""


async def test_service_of_curator_is_found(client: Client, java: Peer) -> None:
    registry = ServiceRegistry(client, PATH)
    await java("discovery.register", PATH, "web", "java", "10.0.0.8", 80, "theirs")
    assert await registry.services() == ["web"]
    (instance,) = await registry.instances("web")
    assert (instance.id, instance.address, instance.port) == ("java", "10.0.0.8", 80)
    assert (instance.payload, instance.enabled) == ("theirs", True)
    assert instance.uri() == "http://10.0.0.8:80"
    async with registry.observe("web") as view:
        await eventually(lambda: set(view.value) == {"java"}, "it is listed")
        await java("discovery.unregister", PATH, "java")
        await eventually(lambda: not view.value, "it is gone")


async def test_both_pick_from_all_instances(client: Client, java: Peer) -> None:
    registry = ServiceRegistry(client, PATH)
    await java("discovery.register", PATH, "web", "java", "10.0.0.8", 80, "theirs")
    async with registry.register(WEB), registry.observe("web") as view:
        await eventually(lambda: set(view.value) == {"java", "python"}, "both are listed")
        picker = Picker(view, RoundRobin())
        picked = [instance.id for _ in range(4) if (instance := picker.pick()) is not None]
        assert sorted(picked) == ["java", "java", "python", "python"]

        async def picks_both() -> bool:
            four = (await java("discovery.pick", PATH, "web", 4)).split(",")
            return sorted(four) == ["java", "java", "python", "python"]

        await eventually(picks_both, "Curator picks from both")
