"""Sessions of servers with an id of 128 or more: the top bit of their ids is set.

They are negative as signed numbers of 64 bits, which clients get, and are shown unsigned, as the
servers show them. Old servers took ephemeral znodes of such sessions for ones with a time to live
(ZOOKEEPER-2901).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import anyio
import pytest
from kit.clients import PATIENCE, catch_up

from aiolead import (
    AcquireTimeout,
    CreateMode,
    DoubleBarrier,
    Election,
    Group,
    Lock,
    Semaphore,
    admin,
)
from aiolead import connect as dial
from aiolead.events import Event
from aiolead.testing import BlockingServer, FaultProxy, OpCode
from aiolead.testing.launch import free_ports

SERVER_ID = 200
TIMEOUT = 4.0


@pytest.fixture(scope="module")
def large_id(zookeeper_installed: None) -> Iterator[BlockingServer]:
    """A quorum of one, since a standalone server has the id 1."""
    quorum, election = free_ports(2)
    peers = {f"server.{SERVER_ID}": f"127.0.0.1:{quorum}:{election}:participant"}
    extra = {"standaloneEnabled": "false"}
    with BlockingServer(peers=peers, server_id=SERVER_ID, extra=extra) as server:
        yield server


def unsigned(session_id: int) -> str:
    assert session_id < 0
    return f"{session_id & (1 << 64) - 1:016x}"


async def test_recipes_in_sessions_with_negative_ids(large_id: BlockingServer, chroot: str) -> None:
    async with (
        FaultProxy("127.0.0.1", large_id.port) as proxy,
        dial(proxy.connect_string, session_timeout=TIMEOUT) as root,
    ):
        await root.create(chroot)
        a = root.chroot(chroot)
        async with dial(large_id.connect_string + chroot, session_timeout=TIMEOUT) as b:
            async with Lock(a, "/lock", identity="a") as held:
                assert held.path.startswith(f"/lock/{unsigned(a.session_id)}-")
                stat = await b.exists(held.path)
                assert stat is not None
                assert stat.ephemeral_owner == a.session_id
                with pytest.raises(AcquireTimeout):
                    async with Lock(b, "/lock").acquire(timeout=0.5):
                        pytest.fail("both hold it")
                (holder,) = await Lock(b, "/lock").contenders()
                assert holder.session_id == a.session_id
            proxy.drop_reply(OpCode.CREATE2)
            async with Lock(a, "/lock").acquire(timeout=PATIENCE):
                await catch_up(b)
                assert len(await b.get_children("/lock")) == 1
            async with (
                Election(a, "/election", identity="a").leadership(),
                Group(a, "/group").join(b"", identity="a"),
                Semaphore(a, "/permits", 2),
                DoubleBarrier(a, "/double", 1),
            ):
                await catch_up(b)
                leader = await Election(b, "/election").leader()
                assert leader is not None
                assert leader.identity == "a"
                assert list(await Group(b, "/group").members()) == ["a"]
                assert len(await admin.get_ephemerals(a)) == 4
            await a.create("/ttl", mode=CreateMode.PERSISTENT_WITH_TTL, ttl=60)
            assert await admin.get_ephemerals(a) == []


async def test_resumed_session_with_a_negative_id(large_id: BlockingServer, chroot: str) -> None:
    hosts = large_id.connect_string
    async with dial(hosts, session_timeout=TIMEOUT) as client:
        await client.create(chroot, mode=CreateMode.EPHEMERAL)
        credentials = client.detach()
    async with dial(hosts, resume=credentials) as client:
        assert client.session_id == credentials.session_id < 0
        assert await client.exists(chroot) is not None
    async with dial(hosts, session_timeout=TIMEOUT) as client:
        await catch_up(client)
        assert await client.exists(chroot) is None


async def test_negative_ids_are_shown_unsigned(
    large_id: BlockingServer, chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    with caplog.at_level(logging.DEBUG, "aiolead"):
        async with dial(
            large_id.connect_string, session_timeout=TIMEOUT, on_event=events.append
        ) as client:
            shown = f"0x{unsigned(client.session_id)}"
            assert shown in repr(client)
            async with Lock(client, chroot):
                await anyio.lowlevel.checkpoint()
    assert {event.as_dict()["session_id"] for event in events if event.session_id} == {shown}
    assert shown in caplog.text
    assert "0x-" not in caplog.text
