"""How much earlier a holder stops than the servers hand its role on, measured on real ensembles.

The server that a holder is connected to is killed, or isolated from its peers while the holder's
own connection stays up; so is, at the very same moment, the server of a waiter that has just begun
to hold, with no more than its two requests to the leader have proven. The margin is the time from
the moment the holder had stopped to the moment the other servers deleted its znode, as a client of
theirs sees it. It must be above zero.

`AIOLEAD_TRIALS=20` repeats each measurement; the report ends with what was measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import anyio.to_thread
import pytest
from kit.clients import eventually
from kit.faults import TRIALS, Arena, Contender, an_election, only_on
from kit.guards import MARGIN
from kit.raw_client import RawClient

import aiolead
from aiolead._client.connect_options import lease_clock
from aiolead.errors import LeadershipLost, LockLost, LossReason
from aiolead.model import EventType, WatchEvent
from aiolead.testing import BlockingEnsemble, BlockingServer, EmbeddedServer, Ensemble

pytestmark = [
    pytest.mark.timeout(60 * TRIALS),
    pytest.mark.keeps_time(2.0),
    pytest.mark.prefers_real_servers,
]

Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def slow_to_notice(real_server: BlockingServer) -> Iterator[BlockingEnsemble]:
    """An ensemble whose servers serve on for 5 s when they are isolated: longer than a session.

    Takes `real_server` for its say on machines without ZooKeeper.
    """
    with BlockingEnsemble(3, partitionable=True, sync_limit=10) as ensemble:
        yield ensemble


async def measure(
    ensemble: BlockingEnsemble, where: str, fault: str, chroot: str, record: Record
) -> None:
    leader = ensemble.leader()
    followers = [server for server in ensemble.servers if server is not leader]
    victim, other = (followers[0], leader) if where == "follower" else (leader, followers[0])
    well = ",".join(server.connect_string for server in ensemble.servers if server is not victim)
    with RawClient(ensemble.connect_string) as raw:
        raw.create(chroot)

    async with Arena(ensemble.connect_string, chroot) as arena:
        join = partial(arena.contender, make=an_election)
        holder = join("/held", "holder", hosts=victim.connect_string)
        predecessor = join("/next", "predecessor", hosts=other.connect_string)
        await holder.holding()
        await predecessor.holding()
        successor = join("/held", "successor", hosts=well)
        waiter = join("/next", "waiter", hosts=victim.connect_string)
        await successor.waiting()
        await waiter.waiting()
        async with arena.witness(well) as witness:
            deleted = await deletions(witness, holder, waiter)
            # The proof of its first requests has run out: it has to ask when it acquires.
            await eventually(
                lambda: waiter.client.backend.lease.remaining() == 0, "it has waited for long"
            )
            # The worst moment: what this renewal touched, the leader has not collected yet.
            await holder.renewed(3)
            requests = [waiter.machine.requests._xid]

            def harm() -> None:
                requests.append(waiter.machine.requests._xid)
                if fault == "killed":
                    victim.kill()
                else:
                    ensemble.isolate(victim)

            waiter.on_entered = harm
            predecessor.leave()
            await waiter.beaten()
            await holder.beaten()
            ended = {"holder": holder.ended, "waiter": waiter.ended}
            still_serving = await anyio.to_thread.run_sync(victim.is_serving)
            await eventually(lambda: len(deleted) == 2, "the other servers delete the znodes")
        waiter.on_entered = None
        await successor.holding()
        await anyio.to_thread.run_sync(ensemble.heal)
        await anyio.to_thread.run_sync(
            ensemble.start if fault == "killed" else ensemble.wait_serving
        )

    # On a connection that has not held anything, the server is asked whether it has observers, too.
    assert requests[1] - requests[0] == 3, "the waiter began with a question, a check and a sync"
    for contender in (holder, waiter):
        assert contender.losses == [LossReason.UNCONFIRMED]
        name, at = contender.name, deleted[contender.name]
        stopped, lease = at - ended[name].at, at - ended[name].proven_until
        what = f"{where} {fault}, {'holder' if contender is holder else 'taking over'}"
        record(f"{MARGIN}{what}: body had ended", stopped)
        record(f"{MARGIN}{what}: end of the proof", lease)
        assert stopped > 0, f"{what}: it went on after its znode was gone"
        assert lease > 0, f"{what}: the session did not live as long as was taken for proven"
    if (where, fault) == ("follower", "isolated"):
        assert still_serving, "the clock alone was to show it"


async def deletions(witness: aiolead.Client, *contenders: Contender) -> dict[str, float]:
    """When the znode of each contender is seen to be deleted; filled as that happens."""
    seen: dict[str, float] = {}

    def saw(name: str, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            seen[name] = lease_clock()

    for contender in contenders:
        for member in await aiolead.Election(witness, contender.line).contenders():
            if member.identity == contender.name:
                watch = witness.backend.make_watch(partial(saw, contender.name))
                await witness.get(member.path, watch=watch)
    return seen


async def test_isolated_follower(
    slow_to_notice: BlockingEnsemble, chroot: str, record_property: Record
) -> None:
    for trial in range(TRIALS):
        await measure(slow_to_notice, "follower", "isolated", f"{chroot}-{trial}", record_property)


@pytest.mark.exhaustive("it ends at once; one that is isolated serves on for longer than a session")
@only_on("trio")
async def test_killed_follower(
    slow_to_notice: BlockingEnsemble, chroot: str, record_property: Record
) -> None:
    for trial in range(TRIALS):
        await measure(slow_to_notice, "follower", "killed", f"{chroot}-{trial}", record_property)


@only_on("asyncio")
async def test_isolated_leader(ensemble: Ensemble, chroot: str, record_property: Record) -> None:
    for trial in range(TRIALS):
        await measure(ensemble.blocking, "leader", "isolated", f"{chroot}-{trial}", record_property)


@pytest.mark.parametrize("looks", [True, False])
async def test_blocked_event_loop(looks: bool) -> None:
    """The first look says no, before any task had a chance to notice; and so does leaving."""
    with EmbeddedServer.in_thread(tick_time=0.15) as server:
        async with aiolead.connect(server.connect_string, session_timeout=0.5) as client:
            with pytest.raises(LeadershipLost) as lost:
                async with aiolead.Election(client, "/e").leadership() as term:
                    time.sleep(0.5)  # noqa: ASYNC251
                    if looks:
                        assert not term.is_held
                        assert term.remaining() == 0
                        with pytest.raises(LeadershipLost):
                            term.check()
            assert lost.value.reason is LossReason.UNCONFIRMED
            # And a lock, which is not renewed in its first moments.
            with pytest.raises(LockLost):
                async with aiolead.Lock(client, "/l") as held:
                    time.sleep(0.5)  # noqa: ASYNC251
                    if looks:
                        assert not held.is_held
            async with aiolead.Lock(client, "/l") as held:
                held.check()
