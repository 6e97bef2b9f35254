"""The paths of a session's ephemeral znodes, which one transaction of the servers has to hold."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import anyio
import pytest
from kit.clients import contenders_left, eventually

from aiolead import (
    Client,
    CreateMode,
    Limits,
    Lock,
    NodeExistsError,
    PersistentNode,
    admin,
    connect,
)
from aiolead._session.ephemeral_paths import size_of
from aiolead._wire.codes import OpCode
from aiolead.errors import ConfigurationError, ConnectionLossError, Outcome, TooManyHoldsError
from aiolead.testing import EmbeddedServer
from aiolead.testing.ensemble import BlockingEnsemble
from aiolead.testing.installation import find_installations
from aiolead.testing.launch import wait_until
from aiolead.testing.servers import BlockingServer

MOST = 1024
LONG = "/" + "n" * 251
"""It counts as 256 bytes: four of them are the most."""

EPHEMERAL = CreateMode.EPHEMERAL


@pytest.fixture
async def client(zk: EmbeddedServer) -> AsyncIterator[Client]:
    """A client that may have few ephemeral znodes."""
    limits = Limits(max_ephemeral_paths=MOST)
    async with connect(zk.connect_string, limits=limits, server_version="3.9.0") as client:
        yield client


async def fill(client: Client, count: int = 4) -> None:
    for number in range(count):
        await client.create(f"{LONG[:-1]}{number}", mode=EPHEMERAL)


def size(client: Client) -> int:
    return client._core.machine.ephemerals.size


async def actual_size(client: Client) -> int:
    return sum(map(size_of, await admin.get_ephemerals(client)))


async def test_create_above_the_limit_is_not_sent(client: Client, zk: EmbeddedServer) -> None:
    await fill(client)
    sent = zk.requests["CREATE2"]
    with pytest.raises(TooManyHoldsError, match="ZOOKEEPER-4306") as refused:
        client.create("/a", mode=EPHEMERAL)
    assert refused.value.outcome is Outcome.NOT_APPLIED
    with pytest.raises(TooManyHoldsError):
        client.transaction().create("/p").create("/a", mode=EPHEMERAL).commit()
    assert zk.requests["CREATE2"] == sent
    assert zk.requests["MULTI"] == 0
    assert size(client) == await actual_size(client) == MOST
    await client.create(LONG)  # persistent ones do not count


async def test_sequential_names_and_the_chroot_count(client: Client) -> None:
    await client.create("/root")
    view = client.chroot("/root")
    await view.create("/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    await view.transaction().create("/é", mode=EPHEMERAL).commit()
    expected = len("/root/n-0000000000") + len("/root/é".encode()) + 2 * 4
    assert size(client) == await actual_size(client) == expected


async def test_deleted_znode_makes_room(client: Client) -> None:
    await fill(client)
    await client.delete(f"{LONG[:-1]}0")
    await client.transaction().delete(f"{LONG[:-1]}1").create("/a", mode=EPHEMERAL).commit()
    assert size(client) == await actual_size(client)
    await client.create(f"{LONG[:-1]}1", mode=EPHEMERAL)
    assert await admin.delete_all(client, "/a") == 1
    assert size(client) == await actual_size(client) == 3 * 256


async def test_refused_create_makes_room(client: Client) -> None:
    await client.create(LONG)
    for _ in range(10):
        with pytest.raises(NodeExistsError):
            await client.create(LONG, mode=EPHEMERAL)
    assert size(client) == 0


async def test_unsent_create_makes_room() -> None:
    limits = Limits(max_ephemeral_paths=MOST)
    async with (
        EmbeddedServer() as server,
        connect(
            server.connect_string, limits=limits, session_timeout=1, server_version="3.9.0"
        ) as client,
    ):
        await server.stop()
        await eventually(lambda: client.state.value == "suspended", "the connection is lost")
        for _ in range(2):
            replies = [client.create(f"{LONG}{n}", mode=EPHEMERAL) for n in range(3)]
            for reply in replies:
                with pytest.raises(ConnectionLossError):
                    await reply
            assert size(client) == 0
        await server.start()


async def test_lost_create_counts_until_it_is_known(client: Client, zk: EmbeddedServer) -> None:
    for number in range(2):
        zk.drop_reply(OpCode.CREATE2)
        with pytest.raises(ConnectionLossError):
            await client.create(f"{LONG[:-1]}{number}", mode=EPHEMERAL)
    assert size(client) == await actual_size(client) == 512
    await client.delete(f"{LONG[:-1]}0")
    assert size(client) == await actual_size(client) == 256
    zk.drop_request(OpCode.CREATE2)
    with pytest.raises(ConnectionLossError):
        await client.create("/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    assert size(client) == 256 + size_of("/n-0000000000")
    assert await actual_size(client) == 256


async def test_new_session_starts_with_none(client: Client, zk: EmbeddedServer) -> None:
    await fill(client)
    zk.expire_session(client.session_id)
    await eventually(lambda: size(client) == 0, "the session is over")
    await client.ready()
    await fill(client)
    assert size(client) == await actual_size(client) == MOST


async def test_deletion_by_others_makes_room_once_asked(client: Client, zk: EmbeddedServer) -> None:
    async with connect(zk.connect_string) as other:
        await fill(client)
        for number in range(4):
            await other.delete(f"{LONG[:-1]}{number}")
        assert await actual_size(client) == 0

        async def again() -> None:
            while True:
                with suppress(TooManyHoldsError):
                    await client.create(LONG, mode=EPHEMERAL)
                    return
                await anyio.sleep(0.01)

        await again()
        assert size(client) == await actual_size(client) == 256


async def test_watched_deletion_by_others_makes_room(client: Client, zk: EmbeddedServer) -> None:
    async with connect(zk.connect_string) as other:
        await client.create(LONG, mode=EPHEMERAL)
        await client.exists(LONG, watch=client.backend.make_watch())
        await other.delete(LONG)
        await eventually(lambda: size(client) == 0, "it makes room")


async def test_recount_keeps_requests_in_flight(client: Client, zk: EmbeddedServer) -> None:
    zk.pause()
    reply = client.create(LONG, mode=EPHEMERAL)
    client._core.machine.ephemerals.recount(["/a"])
    assert size(client) == 256 + size_of("/a")
    zk.resume()
    await reply
    assert size(client) == 256 + size_of("/a")


async def test_refused_recipe_leaves_no_znode(client: Client, zk: EmbeddedServer) -> None:
    await fill(client)
    with pytest.raises(TooManyHoldsError):
        async with Lock(client, "/lock"):
            pytest.fail("it holds")
    with pytest.raises(TooManyHoldsError):
        async with PersistentNode(client, "/node", b""):
            pytest.fail("it is there")
    assert not contenders_left(zk, "/lock")
    await client.delete(f"{LONG[:-1]}0")
    async with Lock(client, "/lock"), PersistentNode(client, "/node", b""):
        pass
    await eventually(lambda: size(client) == 3 * 256, "only the others are left")
    assert await actual_size(client) == 3 * 256


@pytest.mark.parametrize("value", [0, 1023, 1 << 31, 1.5, None])
def test_invalid_limits_are_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="max_ephemeral_paths: must be 1024 to"):
        Limits(max_ephemeral_paths=value)  # type: ignore[arg-type]


KILLED = """
import os, signal, sys, anyio, aiolead
from aiolead.errors import TooManyHoldsError

async def main():
    path, number, replies = "/" + "n" * 200, 0, []
    async with aiolead.connect(sys.argv[1], session_timeout=2) as client:
        await client.ensure_path(path)
        try:
            while True:
                name = f"{path}/{number:050d}"
                replies.append(client.create(name, mode=aiolead.CreateMode.EPHEMERAL))
                number += 1
        except TooManyHoldsError:
            for reply in replies:
                await reply
            print(number, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def kill_with_as_many_as_allowed(servers: BlockingServer | BlockingEnsemble) -> int:
    """Let a client be killed that has as many ephemeral znodes as it may have; say how many."""
    command = [sys.executable, "-c", KILLED, servers.connect_string]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return int(ended.stdout)


def are_gone(server: BlockingServer) -> bool:
    return server.mntr()["ephemerals_count"] == "0"


def test_server_survives_the_largest_session(zookeeper_installed: None) -> None:
    for installation in find_installations():
        if installation.numbers < (3, 6):
            continue
        with BlockingServer(version=installation.version) as server:
            assert kill_with_as_many_as_allowed(server) > 2_500
            assert wait_until(partial(are_gone, server), 30)
            server.kill()
            server.start()
            assert server.is_serving()


def test_ensemble_survives_the_largest_session(zookeeper_installed: None) -> None:
    with BlockingEnsemble(3) as ensemble:
        assert kill_with_as_many_as_allowed(ensemble) > 2_500
        assert wait_until(lambda: all(map(are_gone, ensemble.servers)), 30)
        for server in ensemble.servers:
            server.kill()
        for server in ensemble.servers:
            server.launch()
        for server in ensemble.servers:
            server.wait_serving()
