"""The ensemble's own configuration: read, watched, changed, followed."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from client.many_addresses import Fleet, a_fleet
from conftest import ServerUnderTest
from kit.clients import connect, eventually

from aiolead import Auth
from aiolead.errors import (
    BadArgumentsError,
    BadVersionError,
    ConfigurationError,
    NewConfigNoQuorumError,
    NoAuthError,
    ReconfigDisabledError,
    ServerError,
)
from aiolead.model import EnsembleConfig, ServerSpec
from aiolead.testing import EmbeddedServer

CONFIG = "server.1=10.0.0.1:2888:3888;2181\nserver.2=10.0.0.2:2888:3888;2181"
THIRD = ServerSpec(3, (("10.0.0.3", 2888, 3888),), ("10.0.0.3", 2181))
SUPER = Auth.digest("super", "secret")


def an_ensemble() -> AbstractAsyncContextManager[Fleet]:
    """One whose configuration the super user may change."""
    return a_fleet(config=CONFIG, super_digest=SUPER.acl().id)


async def test_reading_it(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        config = await client.get_config()
        members = {"embedded": 0, "standalone": 0, "ensemble": 3}[server.kind]
        assert [spec.id for spec in config.servers] == list(range(1, members + 1))
        assert await client.chroot("/elsewhere").get_config() == config


async def test_it_is_not_changed_where_that_is_switched_off(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        with pytest.raises(ServerError) as raised:
            await client.reconfig(leaving=[3])
        wanted = {"standalone": "UnimplementedError"}.get(server.kind, "ReconfigDisabledError")
        assert type(raised.value).__name__ == wanted


async def test_changing_and_watching_it() -> None:
    async with an_ensemble() as fleet, fleet.connect("10.0.0.1/app", auth=[SUPER]) as client:
        before = await client.get_config()
        assert [spec.id for spec in before.servers] == [1, 2]
        watch = client.backend.make_watch()
        assert await client.get_config(watch=watch) == before
        after = await client.reconfig(joining=[THIRD], version=before.version)
        assert (await watch.wait()).path == "/zookeeper/config"
        assert after == await client.get_config()
        assert after.servers[2] == THIRD
        assert after.version == client.backend.last_zxid > before.version
        with pytest.raises(BadVersionError):
            await client.reconfig(leaving=[3], version=before.version)
        assert [spec.id for spec in (await client.reconfig(leaving=[1])).servers] == [2, 3]
        whole = await client.reconfig(members=["server.7=h:1:2;3", *map(str, before.servers)])
        assert [spec.id for spec in whole.servers] == [1, 2, 7]
        assert (await client.get_config()) == whole


OBSERVER = "server.8=10.0.0.8:1:2:observer;3"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        # To become a standalone server is refused, as is an ensemble without voters.
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
async def test_what_would_end_the_ensemble_is_refused(
    change: dict[str, Any], error: type[ServerError] | None
) -> None:
    async with an_ensemble() as fleet, fleet.connect("10.0.0.1") as client:
        before = await client.get_config()
        # The permission is looked at last.
        with pytest.raises(error or NoAuthError):
            await client.reconfig(**change)
        with pytest.raises(BadVersionError):
            await client.reconfig(**change, version=77)
        assert await client.get_config() == before
        await client.add_auth(SUPER)
        if error is not None:
            with pytest.raises(error):
                await client.reconfig(**change)
            assert await client.get_config() == before
        else:
            assert (await client.reconfig(**change)).version > before.version


async def test_a_refusal_takes_a_zxid() -> None:
    async with an_ensemble() as fleet, fleet.connect("10.0.0.1") as client:
        await client.sync()
        zxid = fleet.server.zxid
        with pytest.raises(NoAuthError):
            await client.reconfig(leaving=[7])
        assert fleet.server.zxid == zxid + 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "must name at least one server"),
        ({"members": []}, "at least one"),
        ({"members": [THIRD], "leaving": [1]}, "cannot be combined with"),
        ({"joining": THIRD}, "list of servers"),
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
async def test_nonsense_is_not_sent(arguments: dict[str, Any], complaint: str) -> None:
    async with an_ensemble() as fleet, fleet.connect("10.0.0.1") as client:
        packets = fleet.server.packets_in
        with pytest.raises(ConfigurationError, match=complaint):
            client.reconfig(**arguments)
        await client.exists("/")
        assert fleet.server.packets_in == packets + 1


async def reached(fleet: Fleet, *servers: str) -> None:
    await eventually(lambda: fleet.dialled[-1] in servers, f"it moves to one of {servers}")


async def test_following_it() -> None:
    async with an_ensemble() as fleet, fleet.connect("10.0.0.1", auth=[SUPER]) as operator:
        async with fleet.connect("10.0.0.9", observe_config=True) as client:
            session = client.session_id
            await reached(fleet, "10.0.0.1", "10.0.0.2")  # the one that it knew is no member
            for joining in (THIRD, "server.4=10.0.0.4:1:2;2181"):
                await operator.reconfig(joining=[joining])
            await operator.reconfig(leaving=[1, 2])
            await reached(fleet, "10.0.0.3", "10.0.0.4")
            await client.ready()
            assert client.session_id == session
            # ... and in the next session, too.
            fleet.server.expire_session(session)
            await eventually(lambda: client.session_id not in (0, session), "a new session")
            await client.ready()
            for number in (5, 6):
                await operator.reconfig(joining=[f"server.{number}=10.0.0.{number}:1:2;2181"])
            await operator.reconfig(leaving=[3, 4])
            await reached(fleet, "10.0.0.5", "10.0.0.6")


async def test_a_server_that_has_no_configuration_is_followed_in_vain() -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1", observe_config=True) as client:
        assert await client.get_config() == EnsembleConfig(())
        await client.sync()
        assert fleet.dialled == ["10.0.0.1"]


async def test_the_embedded_server_has_it_off_and_checks_what_it_is_given() -> None:
    async with EmbeddedServer(port=None) as server:
        fleet = Fleet(server)
        async with fleet.connect("10.0.0.1") as client:
            with pytest.raises(ReconfigDisabledError):
                await client.reconfig(leaving=[1])
    with pytest.raises(ConfigurationError, match="config: "):
        EmbeddedServer(config="server.1=nonsense")
    with anyio.fail_after(1):
        await anyio.lowlevel.checkpoint()
