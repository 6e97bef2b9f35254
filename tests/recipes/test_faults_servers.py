"""Contenders whose servers die, freeze, or are isolated from each other.

The arena checks the promises after every fault (see `kit.faults`). How early a holder stops is
measured in `test_margin`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.to_thread
import pytest
from anyio.abc import ByteStream
from kit.clients import eventually
from kit.faults import Arena, Contender, MemoryArena, an_election, only_on
from kit.raw_client import RawClient
from kit.virtual_time import embedded, virtually

from aiolead.errors import LossReason
from aiolead.model import SessionState
from aiolead.testing import BlockingServer, EmbeddedServer, Ensemble, ZooKeeperServer

pytestmark = pytest.mark.prefers_real_servers

# --- one server --------------------------------------------------------------------------------


async def dies_and_comes_back(
    hosts: str, chroot: str, kill: Callable[[], object], start: Callable[[], object]
) -> None:
    """No session ends while the server is down, so nobody but a holder loses anything."""
    with RawClient(hosts) as raw:
        raw.create(chroot)
    async with Arena(hosts, chroot, session_timeout=4.0) as arena:
        _, *waiters = await arena.line("/short", "a", "b", "c")
        patient = await arena.line("/long", "d", "e", make=an_election, session_timeout=9.0)
        sessions = [contender.client.session_id for contender in waiters + patient]
        await anyio.to_thread.run_sync(kill)
        await eventually(
            lambda: all(c.client.state is SessionState.SUSPENDED for c in arena.contenders),
            "everybody notices",
        )
        await anyio.to_thread.run_sync(start)
        await eventually(
            lambda: all(c.client.state is SessionState.CONNECTED for c in arena.contenders),
            "everybody is back",
        )
        assert [contender.client.session_id for contender in waiters + patient] == sessions
        assert not patient[0].losses


async def freezes(
    arena: Arena,
    pause: Callable[[], Awaitable[object]],
    resume: Callable[[], Awaitable[object]],
) -> None:
    a, b, c = await arena.line("/short", "a", "b", "c")
    d, e = await arena.line("/long", "d", "e", make=an_election, session_timeout=9.0)
    await pause()
    await a.beaten()
    assert a.losses == [LossReason.UNCONFIRMED]
    # The sessions of the short line run out, those of the long one do not.
    await anyio.sleep(1.0)
    await resume()
    await eventually(
        lambda: any(contender.is_holding for contender in (a, b, c)), "somebody holds again"
    )
    assert not d.losses
    assert d.tenure.is_held
    d.leave()
    await e.holding()


async def test_embedded_server_that_stops(chroot: str) -> None:
    with EmbeddedServer.in_thread() as server:
        await dies_and_comes_back(server.connect_string, chroot, server.stop, server.start)


@virtually
async def test_embedded_server_that_freezes() -> None:
    async with embedded() as server, MemoryArena(server, session_timeout=1.5) as arena:

        async def pause() -> None:
            server.pause()

        async def resume() -> None:
            server.resume()

        await freezes(arena, pause, resume)


@only_on("asyncio")
async def test_server_that_dies(zookeeper: ZooKeeperServer, chroot: str) -> None:
    server = zookeeper.blocking
    await dies_and_comes_back(server.connect_string, chroot, server.kill, server.start)


@only_on("trio")
@pytest.mark.keeps_time(1.5)
async def test_server_that_freezes(zookeeper: ZooKeeperServer, chroot: str) -> None:
    with RawClient(zookeeper.connect_string) as raw:
        raw.create(chroot)
    async with Arena(zookeeper.connect_string, chroot, session_timeout=1.5) as arena:
        await freezes(arena, zookeeper.pause, zookeeper.resume)


# --- an ensemble -------------------------------------------------------------------------------


def first_to(server: BlockingServer) -> Callable[[str, int], Awaitable[ByteStream]]:
    """Dials as the client wishes, but goes to a certain server first."""
    dialled: list[int] = []

    async def dial(address: str, port: int) -> ByteStream:
        if not dialled and port != server.port:
            raise ConnectionRefusedError("another server comes first")
        dialled.append(port)
        return await anyio.connect_tcp(address, port)

    return dial


@pytest.mark.exhaustive("test_margin.py does the same to a server, and measures the margin")
@only_on("trio")
@pytest.mark.parametrize("fault", ["isolated", "frozen", "killed"])
async def test_follower_that_fails(ensemble: Ensemble, fault: str, chroot: str) -> None:
    """A holder that can go to another server keeps its hold; one that cannot stops in time."""
    servers = ensemble.blocking
    victim = servers.followers()[0]
    with RawClient(servers.connect_string) as raw:
        raw.create(chroot)

    harm = {
        "isolated": partial(servers.isolate, victim),
        "frozen": victim.pause,
        "killed": victim.kill,
    }[fault]
    async with Arena(servers.connect_string, chroot, session_timeout=4.0) as arena:
        everywhere = partial(arena.contender, make=an_election, hosts=servers.connect_string)
        holder = everywhere("/free", "holder", dial=first_to(victim))
        await holder.holding()
        waiter = everywhere("/free", "waiter", dial=first_to(victim))
        await waiter.waiting()
        stuck = arena.contender("/bound", "stuck", make=an_election, hosts=victim.connect_string)
        await stuck.holding()
        successor = everywhere("/bound", "successor")
        await successor.waiting()
        await holder.renewed(3)
        before = holder.machine._established_at
        sessions = holder.client.session_id, waiter.client.session_id
        await anyio.to_thread.run_sync(harm)
        await eventually(
            lambda: (
                holder.client.state is SessionState.CONNECTED
                and holder.machine._established_at > before
            ),
            "the holder has gone to another server",
        )
        await stuck.beaten()
        await successor.holding()
        assert not holder.losses
        assert holder.tenure.is_held
        assert stuck.losses == [LossReason.UNCONFIRMED]
        await anyio.to_thread.run_sync(servers.ensure_serving)
        assert (holder.client.session_id, waiter.client.session_id) == sessions
        holder.leave()
        await waiter.holding()


@only_on("asyncio")
async def test_leader_that_dies(ensemble: Ensemble, chroot: str) -> None:
    servers = ensemble.blocking
    with RawClient(servers.connect_string) as raw:
        raw.create(chroot)
    leader = await anyio.to_thread.run_sync(servers.leader)
    async with Arena(servers.connect_string, chroot, session_timeout=5.0) as arena:
        everywhere = partial(arena.contender, hosts=servers.connect_string)
        lines: list[list[Contender]] = []
        for number, home in enumerate(servers.servers):
            line = [everywhere(f"/{number}", "a", dial=first_to(home))]
            await line[0].holding()
            line += [everywhere(f"/{number}", name) for name in ("b", "c")]
            for contender in line[1:]:
                await contender.waiting()
            lines.append(line)
        waiters = [contender for line in lines for contender in line[1:]]
        sessions = [contender.client.session_id for contender in waiters]
        await anyio.to_thread.run_sync(leader.kill)
        await anyio.to_thread.run_sync(servers.leader)
        await anyio.to_thread.run_sync(leader.start)
        await eventually(
            lambda: all(c.client.state is SessionState.CONNECTED for c in arena.contenders),
            "everybody is back",
        )
        # The new leader gave every session its full timeout.
        assert [contender.client.session_id for contender in waiters] == sessions
