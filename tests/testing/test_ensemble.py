"""Real ensembles: leaders, connections of sessions, and isolated servers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import anyio.to_thread
import pytest
from kit.raw_client import RawClient

from aiolead.errors import UsageError
from aiolead.testing.ensemble import BlockingEnsemble, Ensemble
from aiolead.testing.launch import wait_until
from aiolead.testing.servers import ZooKeeperServer

_ESTABLISHED = "01"


async def _until_silent(server: ZooKeeperServer) -> None:
    """Waits until a server has noticed that it has no quorum."""
    silent = await anyio.to_thread.run_sync(
        lambda: wait_until(lambda: not server.blocking.is_serving(), 20.0)
    )
    assert silent


async def test_ensemble_has_a_leader_and_two_followers(ensemble: Ensemble) -> None:
    leader = await ensemble.leader()
    followers = await ensemble.followers()
    assert {leader, *followers} == set(ensemble.servers)
    assert len(followers) == 2


async def test_write_at_one_server_is_read_at_another(ensemble: Ensemble, chroot: str) -> None:
    one, other = await ensemble.followers()
    with RawClient(one.connect_string) as client:
        client.create(chroot, b"value")
    with RawClient(other.connect_string) as client:
        client.sync("/")
        assert client.get(chroot) == b"value"


async def test_server_of_a_session(ensemble: Ensemble) -> None:
    for server in ensemble.servers:
        with RawClient(server.connect_string) as client:
            found = await ensemble.connected_server(client.session.session_id)
        assert found is server
    assert await ensemble.connected_server(1) is None


async def test_killed_leader_is_replaced(ensemble: Ensemble) -> None:
    old = await ensemble.leader()
    await old.kill()
    new = await ensemble.leader()
    assert new is not old
    await old.start()
    assert (await ensemble.leader()) is new
    assert old in await ensemble.followers()


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
async def test_isolated_follower_serves_reads_until_it_notices(
    ensemble: Ensemble, chroot: str
) -> None:
    cut_off, other = await ensemble.followers()
    with RawClient(cut_off.connect_string) as inside:
        await ensemble.isolate(cut_off)
        inside.exists("/")
        inside.wait(0.3)
        with pytest.raises(TimeoutError):
            inside.create(chroot)
        with RawClient(other.connect_string) as outside:
            outside.create(chroot, b"by the majority")
        await _until_silent(cut_off)
        # The server has closed the connection, so there is nothing left to say goodbye to.
        inside.drop()
    await ensemble.heal()
    await ensemble.wait_serving()
    with RawClient(cut_off.connect_string) as inside:
        assert inside.get(chroot) == b"by the majority"


@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_server_serves_after_a_short_isolation(
    ensemble: Ensemble, chroot: str, role: str
) -> None:
    """It serves before it notices, too; then it closes the connections of its clients."""
    leader, (follower, _) = await ensemble.leader(), await ensemble.followers()
    cut_off = leader if role == "leader" else follower
    await ensemble.isolate(cut_off)
    await ensemble.heal()
    await ensemble.wait_serving()
    with RawClient(cut_off.connect_string) as inside:
        inside.create(chroot)


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
async def test_isolated_leader_is_replaced(ensemble: Ensemble) -> None:
    old = await ensemble.leader()
    await ensemble.isolate(old)
    await _until_silent(old)
    new = await ensemble.leader()
    assert new is not old
    await ensemble.heal()
    await ensemble.wait_serving()
    assert await ensemble.leader() is new


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
async def test_members_are_connected_through_proxies_only(ensemble: Ensemble) -> None:
    old = await ensemble.leader()
    await old.restart()  # So that there were elections in both directions.
    await ensemble.wait_serving()
    ours, theirs = _sockets(os.getpid()), [_sockets(server.pid) for server in ensemble.servers]
    for member, connected in enumerate(theirs, start=1):
        assert connected
        for local, remote in connected:
            assert (remote, local) in ours, f"server {member}: {local} to {remote}"


def _sockets(pid: int) -> set[tuple[str, str]]:
    """The IPv4 connections of a process: both addresses, as the kernel prints them."""
    links = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()]
    inodes = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {(row[1], row[2]) for row in rows if row[3] == _ESTABLISHED and row[9] in inodes}


@pytest.mark.usefixtures("real_ensemble")
def test_isolate_needs_a_partitionable_ensemble() -> None:
    ensemble = BlockingEnsemble(3)
    with pytest.raises(UsageError, match="partitionable=True"):
        ensemble.isolate(ensemble.servers[0])


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
@pytest.mark.usefixtures("real_ensemble")
async def test_context_manager_leaves_nothing_behind() -> None:
    async with Ensemble(3) as ensemble:
        pids = [server.pid for server in ensemble.servers]
        assert len(ensemble.connect_string.split(",")) == 3
        assert await ensemble.leader() in ensemble.servers
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
