"""Real ensembles: servers without a quorum, servers that come and go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import anyio
import pytest
from kit.clients import catch_up, eventually
from kit.raw_client import refuses_ephemerals

import aiolead
from aiolead import CreateMode, Lock, admin
from aiolead.errors import NotReadOnlyError
from aiolead.model import SessionState
from aiolead.testing import Hooks, ZooKeeperServer
from aiolead.testing.ensemble import BlockingEnsemble, Ensemble

pytestmark = pytest.mark.exhaustive("the same features on the embedded server")

S = SessionState


@pytest.fixture(scope="module")
def three_members(zookeeper_installed: None) -> Iterator[BlockingEnsemble]:
    options = ("-Dreadonlymode.enabled=true",)
    # Without local sessions, a read-only server answers no handshake.
    local = {"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": "true"}
    with BlockingEnsemble(3, reconfigurable=True, java_options=options, extra=local) as ensemble:
        yield ensemble


@pytest.fixture
def members(three_members: BlockingEnsemble) -> Iterator[Ensemble]:
    """Three servers that may be added and removed, and that become read-only without a quorum."""
    yield Ensemble.over(three_members)
    three_members.ensure_serving()


async def is_read_only(server: ZooKeeperServer) -> bool:
    """Until it has noticed that its peers are gone, it gives out sessions as it did before."""
    try:
        return await server.four_letter("isro") == "ro"
    except OSError:
        return False


async def test_read_only(members: Ensemble) -> None:
    """Two of three are killed, then one comes back."""
    async with aiolead.connect(members.connect_string, session_timeout=2) as client:
        await client.ensure_path("/read-only")
        await client.set("/read-only", b"1")
    survivor, *others = members.servers
    async with aiolead.connect(survivor.connect_string, session_timeout=2) as client:
        await catch_up(client)  # a quorum without it may have acknowledged the write
    async with aiolead.connect(
        members.connect_string, session_timeout=2, read_only=True, connect_timeout=30
    ) as holder:
        session = holder.session_id
        async with holder.observe() as states:
            for server in others:
                await server.kill()
            await eventually(partial(is_read_only, survivor), "it has no quorum", within=30)
            async with aiolead.connect(
                members.connect_string, session_timeout=4, read_only=True, connect_timeout=30
            ) as client:
                assert client.state is S.READ_ONLY
                made_up = client.session_id
                assert (await client.get("/read-only"))[0] == b"1"
                for refused in (client.set("/read-only", b"2"), client.sync()):
                    with pytest.raises(NotReadOnlyError):
                        await refused
                # A client that has a session loses it first.
                seen: list[tuple[S, int]] = []
                with anyio.fail_after(40):
                    while not seen or seen[-1][0] is not S.READ_ONLY:
                        change = await anext(states)
                        seen.append((change.state, change.session_id))
                assert (S.EXPIRED, session) in seen
                await others[0].start()
                with anyio.fail_after(60):
                    await client.ready()
                    await holder.ready()
                assert client.session_id != made_up
                async with Lock(client, "/read-only/lock").acquire() as held:
                    await held.verify()
                await holder.set("/read-only", b"3")
    assert await survivor.four_letter("isro") == "rw"


@pytest.mark.parametrize("read_only", [False, True])
async def test_session_outlives_a_lost_quorum(zookeeper_installed: None, read_only: bool) -> None:
    """A read-only server grants no session then; without that mode it refuses everybody."""
    options = ("-Dreadonlymode.enabled=true",) if read_only else ()
    with BlockingEnsemble(3, java_options=options) as ensemble:
        members = Ensemble.over(ensemble)
        survivor, *others = members.servers
        hosts = members.connect_string if read_only else survivor.connect_string
        async with aiolead.connect(
            hosts, session_timeout=2, read_only=read_only, connect_timeout=30
        ) as client:
            session = client.session_id
            await client.create("/mine", mode=CreateMode.EPHEMERAL)
            async with client.observe() as states:
                for server in others:
                    await server.kill()
                if read_only:
                    await eventually(partial(is_read_only, survivor), "it is alone", within=30)
                await anyio.sleep(4 * client.session_timeout)
                for server in others:
                    await server.start()
                with anyio.fail_after(60):
                    while (await anext(states)).state is not S.CONNECTED:
                        pass
                    await client.ready()
                assert client.session_id == session
                assert await client.exists("/mine") is not None


class Homely(random.Random):
    """Stays where it is, if it has the choice."""

    def random(self) -> float:
        return 0.999


async def test_clients_follow_the_ensemble(members: Ensemble) -> None:
    """The server of a client is removed, and added again; its session and its lock go on."""
    leader = await members.leader()
    left = (await members.followers())[0]
    async with aiolead.connect(leader.connect_string, session_timeout=4) as operator:
        before = await admin.get_config(operator)
        assert [spec.client_address() for spec in before.servers] == [
            ("127.0.0.1", server.port) for server in members.servers
        ]
        (gone,) = (spec for spec in before.servers if spec.client == ("127.0.0.1", left.port))
        async with (
            aiolead.connect(
                left.connect_string,
                session_timeout=4,
                observe_config=True,
                hooks=Hooks(rng=Homely()),
            ) as client,
            Lock(client, "/followed").acquire() as held,
        ):
            session = client.session_id
            assert await members.connected_server(session) is left
            after = await admin.reconfig(operator, leaving=[gone.id], version=before.version)
            assert gone not in after.servers
            assert after.version > before.version

            async def has_moved() -> bool:
                return await members.connected_server(session) not in (None, left)

            await eventually(has_moved, "the client has left the server", within=30)
            await client.ready()
            await held.verify()
            assert client.session_id == session
            with pytest.raises(aiolead.errors.BadVersionError):
                await admin.reconfig(operator, joining=[gone], version=before.version)
            back = await admin.reconfig(operator, joining=[gone])
            assert back.servers == before.servers
            held.check()


async def test_local_sessions_become_global(members: Ensemble) -> None:
    follower = (await members.followers())[0]
    async with aiolead.connect(follower.connect_string, session_timeout=4) as client:
        session = client.session_id
        await client.ensure_path("/local")
        assert client.session_id == session
        await client.create("/local/e", mode=CreateMode.EPHEMERAL)
        assert client.session_id == session
        assert (await client.get("/local/e"))[1].ephemeral_owner == session
        async with Lock(client, "/local/lock").acquire() as held:
            await held.verify()
            # It is one for every server now.
            others = [server for server in members.servers if server is not follower]
            client.update_hosts(",".join(server.connect_string for server in others))

            async def has_moved() -> bool:
                return await members.connected_server(session) in others

            await eventually(has_moved, "it moves")
            await client.ready()
            assert client.session_id == session
            await held.verify()


async def test_a_local_session_ends_with_its_server(members: Ensemble) -> None:
    """Nobody else knows it; there was nothing in it to lose."""
    first, second = await members.followers()
    async with aiolead.connect(first.connect_string, session_timeout=4) as client:
        session = client.session_id
        client.update_hosts(second.connect_string)
        await eventually(lambda: client.session_id not in (0, session), "another session")
        await client.ready()


@pytest.fixture(scope="module")
def only_local(zookeeper_installed: None) -> Iterator[BlockingEnsemble]:
    with BlockingEnsemble(3, extra={"localSessionsEnabled": "true"}) as ensemble:
        yield ensemble


async def test_local_sessions_that_cannot_become_global(only_local: BlockingEnsemble) -> None:
    await refuses_ephemerals(only_local.connect_string)
