"""A server without a quorum serves clients that asked for read-only sessions, and no others."""

from __future__ import annotations

from itertools import islice

import anyio
import pytest
from client.network import ONE, TWO, Network
from kit.clients import eventually
from kit.virtual_time import embedded, virtually

from aiolead import CreateMode, Election, Lock, LockLost
from aiolead._client.net.four_letter_words import pauses
from aiolead.errors import ConnectFailed, LossReason, NotReadOnlyError, UsageError
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer

S = SessionState
BOTH = f"{ONE},{TWO}"


async def test_reads_are_answered_and_writes_are_refused(network: Network) -> None:
    async with network:
        async with network.connect(ONE) as client:
            await client.create("/a", b"old")
        network.server.set_read_only(True)
        async with network.connect(ONE, read_only=True) as client:
            assert client.state is S.READ_ONLY
            assert (await client.get("/a"))[0] == b"old"
            assert sorted(await client.get_children("/")) == ["a", "zookeeper"]
            packets = network.server.packets_in
            for reply in (
                client.create("/b"),
                client.set("/a", b"new"),
                client.delete("/a"),
                client.sync(),
                client.check("/a"),
                client.transaction().delete("/a").commit(),
            ):
                with pytest.raises(NotReadOnlyError):
                    await reply
            assert network.server.packets_in == packets
            with pytest.raises(UsageError, match="no session that could be resumed"):
                _ = client.credentials
        assert client.state is S.CLOSED


@virtually
async def test_client_without_read_only_is_not_served(network: Network) -> None:
    async with network:
        network.server.set_read_only(True)
        with pytest.raises(ConnectFailed, match="closed the connection"):
            async with network.connect(ONE, connect_timeout=0.3):
                raise AssertionError


@virtually
async def test_client_moves_to_a_full_server_while_reads_go_on(network: Network) -> None:
    async with network, embedded() as other:
        network.at[TWO] = other
        network.server.set_read_only(True)
        other.set_read_only(True)
        async with network.connect(BOTH, read_only=True) as client:
            current = network.dialled[-1]
            async with client.observe() as states:
                assert (await anext(states)).state is S.READ_ONLY
                made_up = client.session_id
                isolated = network.at.get(current, network.server)
                full = other if isolated is network.server else network.server
                await eventually(lambda: len(network.dialled) > 3, "it looks around")
                full.set_read_only(False)
                reads = []
                with anyio.fail_after(20):
                    while client.state is not S.CONNECTED:
                        reads.append(client.exists("/zookeeper"))
                        await anyio.sleep(0.01)
                for read in reads:
                    assert await read is not None
                seen = [await anext(states), await anext(states)]
                assert (seen[0].state, seen[0].session_id) == (S.EXPIRED, made_up)
                assert seen[1].state is S.CONNECTED
                assert seen[1].session_id == client.session_id != made_up
                await client.create("/a")
                assert full.znodes() == ["/a"]
                await client.create("/e", mode=CreateMode.EPHEMERAL)
                assert client.credentials.session_id == client.session_id


async def test_lock_is_acquired_only_once_the_server_has_a_quorum(network: Network) -> None:
    async with network:
        network.server.set_read_only(True)
        async with network.connect(ONE, read_only=True) as client:
            assert not client.backend.lease.remaining() > 0
            entered: list[str] = []

            async def hold() -> None:
                async with Lock(client, "/lock").acquire() as held:
                    held.check()
                    entered.append(client.state.value)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold)
                await client.exists("/")
                await anyio.wait_all_tasks_blocked()
                assert entered == []
                network.server.set_read_only(False)
            assert entered == ["connected"]


@virtually
async def test_session_of_a_holder_is_never_offered_to_a_read_only_server(network: Network) -> None:
    """Its answers may be undone. The lease ends; later the session is given up."""
    async with network, network.connect(ONE, read_only=True, session_timeout=1) as client:
        session = client.session_id
        async with client.observe() as states:
            with pytest.raises(LockLost) as raised:
                async with Lock(client, "/lock").acquire():
                    await eventually(lambda: network.server.requests["MULTI"] > 0, "renewed")
                    network.server.set_read_only(True)
                    await anyio.sleep_forever()
            assert raised.value.reason is LossReason.UNCONFIRMED
            with anyio.fail_after(20):
                while (change := await anext(states)).state is not S.EXPIRED:
                    assert change.session_id == session
                    assert change.state is not S.READ_ONLY
                while (await anext(states)).state is not S.READ_ONLY:
                    pass
            assert "lock" in await client.get_children("/")


@virtually
async def test_a_long_election_costs_no_session(network: Network) -> None:
    """Servers that hang up, but are not read-only, may come back with the session."""
    async with network, network.connect(ONE, read_only=True, session_timeout=1) as client:
        session = client.session_id
        real = network.server
        async with EmbeddedServer(port=None) as electing:
            # It refuses clients of the other server, since its zxid is behind.
            await client.create("/a")
            network.at[ONE] = electing
            network.down.add(TWO)
            client.update_hosts(BOTH)
            await real.stop()
            await eventually(lambda: len(network.dialled) > 8, "it tries")
        del network.at[ONE]
        await real.start()
        await client.ready()
        assert client.session_id == session


@virtually
async def test_session_outlives_server_that_grants_none(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    """A server without `localSessionsEnabled`, the default."""
    async with network, network.connect(ONE, read_only=True, session_timeout=1) as client:
        session = client.session_id
        await client.create("/mine", mode=CreateMode.EPHEMERAL)
        network.server.set_read_only(True, grants_sessions=False)
        dials = len(network.dialled)
        await anyio.sleep(5)
        first = len(network.dialled) - dials
        await anyio.sleep(15)
        # About 20 attempts in a session timeout, and three questions.
        assert len(network.dialled) - dials - first < 15 * 28
        assert client.session_id == session
        network.server.set_read_only(False)
        with anyio.fail_after(5):
            await client.ready()
        assert client.session_id == session
        assert await client.exists("/mine") is not None
        lines = [each.getMessage() for each in caplog.records if "grants no" in each.message]
        (line,) = lines
        assert line.endswith(f"Session 0x{session:x} is kept until there is a quorum")


@virtually
@pytest.mark.parametrize("read_only", [False, True])
async def test_session_outlives_refusal_without_a_quorum(network: Network, read_only: bool) -> None:
    """They hang up on every handshake, as servers do that are older than the session."""
    async with network, network.connect(ONE, read_only=read_only, session_timeout=1) as client:
        session = client.session_id
        await client.create("/mine", mode=CreateMode.EPHEMERAL)
        network.server.set_read_only(True, grants_sessions=False)
        await anyio.sleep(10)
        assert client.session_id == session
        network.server.set_read_only(False)
        with anyio.fail_after(5):
            await client.ready()
        assert client.session_id == session
        assert await client.exists("/mine") is not None


@virtually
async def test_session_is_exchanged_once_a_read_only_server_grants_one(network: Network) -> None:
    async with network, network.connect(ONE, read_only=True, session_timeout=1) as client:
        network.server.set_read_only(True, grants_sessions=False)
        await anyio.sleep(5)
        assert client.state is S.SUSPENDED
        network.server.set_read_only(True)
        async with client.observe() as states:
            with anyio.fail_after(20):
                while (await anext(states)).state is not S.READ_ONLY:
                    pass


async def test_observer_reports_that_its_state_may_be_old(network: Network) -> None:
    async with network:
        async with network.connect(ONE) as client:
            await Election(client, "/election").contenders()
        network.server.set_read_only(True)
        async with network.connect(ONE, read_only=True) as client:
            async with Election(client, "/election").observe() as view:
                states = aiter(view)
                with anyio.fail_after(20):
                    assert not (await anext(states)).is_current
                    network.server.set_read_only(False)
                    while not (await anext(states)).is_current:
                        pass


def test_search_for_a_full_server_backs_off() -> None:
    wanted = [0.1 * 2**n for n in range(10)]
    assert list(islice(pauses(), 14)) == pytest.approx([*wanted, 60, 60, 60, 60])


async def test_server_reports_its_mode(network: Network) -> None:
    async with network:
        for read_only, word, mode in [(True, b"ro", b"read-only"), (False, b"rw", b"standalone")]:
            network.server.set_read_only(read_only)
            for asked, wanted in ((b"isro", word), (b"srvr", mode)):
                stream = await network.server.connect_stream()
                await stream.send(asked)
                assert wanted in await stream.receive()
                await stream.aclose()
