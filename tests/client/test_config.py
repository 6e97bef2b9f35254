"""The ensemble's own configuration: read, watched, changed, followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from client.network import ONE, THREE, TWO, Network
from conftest import ServerUnderTest
from kit.clients import connect, eventually
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

from aiolead import Auth, Client, Lock, admin
from aiolead.errors import (
    BadArgumentsError,
    BadVersionError,
    ConfigurationError,
    NewConfigNoQuorumError,
    NoAuthError,
    ServerError,
)
from aiolead.model import EnsembleConfig, ServerSpec
from aiolead.testing import EmbeddedServer

CONFIG = "server.1=10.0.0.1:2888:3888;2181\nserver.2=10.0.0.2:2888:3888;2181"
THIRD = ServerSpec(3, (("10.0.0.3", 2888, 3888),), ("10.0.0.3", 2181))
SUPER = Auth.digest("super", "secret")


@pytest.fixture
def changeable(network: Network) -> Network:
    """Servers with a configuration that the super user may change."""
    network.server = embedded(config=CONFIG, super_digest=SUPER.acl().id)
    return network


async def test_configuration_is_read(server: ServerUnderTest, client: Client) -> None:
    config = await admin.get_config(client)
    members = {"embedded": 0, "standalone": 0, "ensemble": 3}[server.kind]
    assert [spec.id for spec in config.servers] == list(range(1, members + 1))
    assert await admin.get_config(client.chroot("/elsewhere")) == config


async def test_change_is_refused_where_it_is_disabled(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        with pytest.raises(ServerError) as raised:
            await admin.reconfig(client, leaving=[3])
        wanted = {"standalone": "UnimplementedError"}.get(server.kind, "ReconfigDisabledError")
        assert type(raised.value).__name__ == wanted


async def test_configuration_is_changed_and_watched(changeable: Network) -> None:
    async with changeable, changeable.connect("10.0.0.1/app", auth=[SUPER]) as client:
        before = await admin.get_config(client)
        assert [spec.id for spec in before.servers] == [1, 2]
        watch = client.backend.make_watch()
        assert await admin.get_config(client, watch=watch) == before
        after = await admin.reconfig(client, joining=[THIRD], version=before.version)
        assert (await watch.wait()).path == "/zookeeper/config"
        assert after == await admin.get_config(client)
        assert after.servers[2] == THIRD
        assert after.version == client.backend.last_zxid > before.version
        with pytest.raises(BadVersionError):
            await admin.reconfig(client, leaving=[3], version=before.version)
        assert [spec.id for spec in (await admin.reconfig(client, leaving=[1])).servers] == [2, 3]
        whole = await admin.reconfig(
            client, members=["server.7=h:1:2;3", *map(str, before.servers)]
        )
        assert [spec.id for spec in whole.servers] == [1, 2, 7]
        assert (await admin.get_config(client)) == whole


OBSERVER = "server.8=10.0.0.8:1:2:observer;3"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        # A standalone server is refused, as is an ensemble without voters.
        ({"leaving": [2]}, BadArgumentsError),
        ({"leaving": [1, 2]}, BadArgumentsError),
        ({"members": ["server.1=10.0.0.1:1:2;3"]}, BadArgumentsError),
        ({"joining": ["server.8=10.0.0.8:1:2"]}, BadArgumentsError),
        ({"joining": ["server.8=10.0.0.1:2888:2;3"]}, BadArgumentsError),
        ({"joining": ["server.8=127.0.0.1:2888:2;2181"]}, None),
        # Most of the voters have to be there already.
        ({"joining": ["server.8=h:1:2;3", "server.9=i:1:2;3"]}, NewConfigNoQuorumError),
        ({"members": ["server.8=h:1:2;3", "server.9=i:1:2;3"]}, NewConfigNoQuorumError),
        ({"members": ["server.1=10.0.0.1:1:2;3", "server.9=i:1:2;3"]}, NewConfigNoQuorumError),
        ({"joining": ["server.8=h:1:2;3"]}, None),
        ({"joining": [OBSERVER]}, None),
        ({"leaving": [7]}, None),
    ],
)
async def test_change_that_would_end_the_ensemble_is_refused(
    changeable: Network, change: dict[str, Any], error: type[ServerError] | None
) -> None:
    async with changeable, changeable.connect(ONE) as client:
        before = await admin.get_config(client)
        # The permission is looked at last.
        with pytest.raises(error or NoAuthError):
            await admin.reconfig(client, **change)
        with pytest.raises(BadVersionError):
            await admin.reconfig(client, **change, version=77)
        assert await admin.get_config(client) == before
        await client.add_auth(SUPER)
        if error is not None:
            with pytest.raises(error):
                await admin.reconfig(client, **change)
            assert await admin.get_config(client) == before
        else:
            assert (await admin.reconfig(client, **change)).version > before.version


async def test_refused_change_takes_a_zxid(changeable: Network) -> None:
    async with changeable, changeable.connect(ONE) as client:
        await client.sync()
        zxid = changeable.server.zxid
        with pytest.raises(NoAuthError):
            await admin.reconfig(client, leaving=[7])
        assert changeable.server.zxid == zxid + 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "must name at least one server"),
        ({"members": []}, "at least one"),
        ({"members": [THIRD], "leaving": [1]}, "cannot be combined with"),
        ({"joining": THIRD}, "list of servers"),
        ({"joining": None}, "list of servers"),
        ({"members": -1}, "list of servers"),
        ({"joining": "server.1=a:1:2;3"}, "list of servers"),
        ({"joining": ["zk1"]}, "joining: no server.N="),
        ({"joining": [ServerSpec(1, (("a b", 1, 2),))]}, "joining: "),
        ({"joining": [THIRD, THIRD]}, "twice"),
        ({"leaving": [-1]}, "leaving: "),
        ({"leaving": ["3"]}, "leaving: "),
        ({"leaving": 3}, "leaving: "),
        ({"leaving": [3], "version": -2}, "version: "),
        ({"leaving": [3], "version": 1 << 63}, "version: "),
    ],
)
async def test_invalid_change_is_not_sent(
    changeable: Network, arguments: dict[str, Any], complaint: str
) -> None:
    async with changeable, changeable.connect(ONE) as client:
        packets = changeable.server.packets_in
        with pytest.raises(ConfigurationError, match=complaint):
            await admin.reconfig(client, **arguments)
        await client.exists("/")
        assert changeable.server.packets_in == packets + 1


async def test_client_follows_the_configuration(changeable: Network) -> None:
    async def reached(*servers: str) -> None:
        await eventually(lambda: changeable.dialled[-1] in servers, f"it moves to one of {servers}")

    async with changeable, changeable.connect(ONE, auth=[SUPER]) as operator:
        async with changeable.connect("10.0.0.9", observe_config=True) as client:
            session = client.session_id
            await reached(ONE, TWO)  # the one that it knew is no member
            for joining in (THIRD, "server.4=10.0.0.4:1:2;2181"):
                await admin.reconfig(operator, joining=[joining])
            await admin.reconfig(operator, leaving=[1, 2])
            await reached(THREE, "10.0.0.4")
            await client.ready()
            assert client.session_id == session
            # ... and in the next session, too.
            changeable.server.expire_session(session)
            await eventually(lambda: client.session_id not in (0, session), "a new session")
            await client.ready()
            for number in (5, 6):
                await admin.reconfig(
                    operator, joining=[f"server.{number}=10.0.0.{number}:1:2;2181"]
                )
            await admin.reconfig(operator, leaving=[3, 4])
            await reached("10.0.0.5", "10.0.0.6")


async def test_server_without_a_configuration_is_kept(network: Network) -> None:
    async with network, network.connect(ONE, observe_config=True) as client:
        assert await admin.get_config(client) == EnsembleConfig(())
        await client.sync()
        assert network.dialled == [ONE]


def test_embedded_server_refuses_an_invalid_configuration() -> None:
    with pytest.raises(ConfigurationError, match="config: "):
        EmbeddedServer(config="server.1=nonsense")


# --- observers ---------------------------------------------------------------------------------
# Each proof of the lease takes two rounds in an ensemble that has observers.

TIMEOUT = 1.0

VOTER = "server.1=127.0.0.1:2888:3888:participant\n"
LISTED = "server.2=127.0.0.1:2889:3889:observer\n"


@asynccontextmanager
async def observed(config: str) -> AsyncIterator[tuple[EmbeddedServer, Client, Client]]:
    async with (
        embedded(tick_time=0.25, config=config) as server,
        connect_virtually(server, session_timeout=TIMEOUT) as a,
        connect_virtually(server, session_timeout=TIMEOUT) as b,
    ):
        yield server, a, b


async def renewed(server: EmbeddedServer, times: int) -> None:
    before = server.requests["MULTI"]
    await eventually(lambda: server.requests["MULTI"] >= before + times, f"{times} renewals")


@virtually
@pytest.mark.parametrize("config", [VOTER, VOTER + LISTED], ids=["voters", "observer"])
async def test_hold_is_kept_with_or_without_observers(config: str) -> None:
    async with observed(config) as (server, client, _), Lock(client, "/l") as held:
        await renewed(server, 20 if LISTED in config else 10)
        held.check()
        assert client._core.machine._lease_proof.is_direct == (LISTED not in config)


@virtually
async def test_waiter_begins_to_hold_with_enough_lease_after_a_long_wait() -> None:
    """Its own session has proven nothing for long: it takes two rounds, half a tick apart."""
    async with observed(VOTER + LISTED) as (server, a, b), anyio.create_task_group() as tasks:
        waits = anyio.Event()
        left: list[float] = []

        async def wait() -> None:
            waits.set()
            async with Lock(b, "/l") as held:
                left.append(held.remaining())
                await renewed(server, 10)
                held.check()

        async with Lock(a, "/l"):
            tasks.start_soon(wait)
            await waits.wait()
            await renewed(server, 20)
            assert b.backend.lease.remaining() == 0
    assert left[0] >= TIMEOUT / 8
