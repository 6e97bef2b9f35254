"""How long a lease lasts on an observer that a follower feeds, measured on a real ensemble.

A touch takes two hops from there to the leader, each collected by a timer of its own. Many sessions
hold a lock each at the observer, with renewals at all phases. Then the follower in between is
stopped. The margin of a session is the time from the end of its proof to the deletion of its znode,
as a client of the leader sees it. It must not be negative.

`AIOLEAD_TRIALS=18` repeats the measurement, with 40 sessions each; the report ends with the result.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import anyio
import anyio.to_thread
import pytest
from kit.faults import TRIALS, only_on
from kit.guards import MARGIN

import aiolead
from aiolead._client.connect_options import lease_clock
from aiolead.errors import LockLost, LossReason
from aiolead.model import EventType, WatchEvent
from aiolead.testing import BlockingServer
from aiolead.testing.launch import LaunchError, free_ports, wait_until

pytestmark = [pytest.mark.timeout(120 + 60 * TRIALS), pytest.mark.keeps_time(2.0)]

TICK = 2.0
TIMEOUT = 2.4 * TICK
"""Less than four ticks: then half a tick is a large part of it."""

SESSIONS = 40
VOTERS = 3
START_TIMEOUT = 60.0


class FedObserver:
    """A real ensemble: three voters, and an observer that connects to a follower.

    That is `observerMasterPort`, of ZooKeeper 3.6. All servers have the same one, so each has an
    address of its own: 127.0.0.1 to 127.0.0.4, as on Linux.
    """

    def __init__(self) -> None:
        quorum, election, feeding = free_ports(3)
        roles = ["participant"] * VOTERS + ["observer"]
        peers = {
            f"server.{n}": f"127.0.0.{n}:{quorum}:{election}:{role}"
            for n, role in enumerate(roles, start=1)
        }
        self.servers = [
            BlockingServer(
                tick_time=TICK,
                sync_limit=10,
                peers=peers,
                server_id=n,
                extra={"observerMasterPort": feeding}
                | ({"peerType": "observer"} if role == "observer" else {}),
            )
            for n, role in enumerate(roles, start=1)
        ]
        self.voters, self.observer = self.servers[:VOTERS], self.servers[VOTERS]

    def settle(self) -> None:
        """Wait until all servers serve, and a follower feeds the observer."""
        end = time.monotonic() + START_TIMEOUT
        for server in self.servers:
            server.wait_serving(max(0.0, end - time.monotonic()))
        if not wait_until(lambda: self._feeder() is not None, end - time.monotonic()):
            raise LaunchError(f"no follower feeds the observer within {START_TIMEOUT:g} s")

    def change_feeder(self, pause: float) -> None:
        """Restart the follower that feeds the observer, after a pause in seconds.

        The pings of the next one have another phase than before.
        """
        feeder, _ = self.roles()
        feeder.kill()
        time.sleep(pause)
        feeder.start()
        self.settle()

    def roles(self) -> tuple[BlockingServer, BlockingServer]:
        """The follower that feeds the observer, and the leader."""
        feeder = self._feeder()
        (leader,) = (each for each in self.voters if _state(each) == "leader")
        assert feeder is not None
        return feeder, leader

    def _feeder(self) -> BlockingServer | None:
        number = int(self.observer.mntr().get("observer_master_id", "0"))
        if not number or _state(self.observer) != "observer":
            return None
        found = self.voters[number - 1]
        return found if _state(found) == "follower" else None


def _state(server: BlockingServer) -> str:
    return server.mntr().get("server_state", "")


@pytest.fixture(scope="module")
def fed(real_server: BlockingServer) -> Iterator[FedObserver]:
    """Takes `real_server` for its say on machines without ZooKeeper."""
    ensemble = FedObserver()
    with ExitStack() as stack:
        for server in ensemble.servers:
            stack.callback(server.close)
        for server in ensemble.servers:
            server.launch()
        ensemble.settle()
        yield ensemble


class Session:
    """A client of the observer that holds a lock until it is lost."""

    def __init__(self, number: int, chroot: str) -> None:
        self.path = f"{chroot}-{number}"
        self.holds = anyio.Event()
        self.is_deleted = anyio.Event()
        self.proven_until = self.deleted = 0.0
        self.znode = ""

    async def run(self, hosts: str, may_leave: anyio.Event) -> None:
        options = {"session_timeout": TIMEOUT, "grace_period": 0.0}
        async with aiolead.connect(hosts, **options) as client:
            assert client.session_timeout == pytest.approx(TIMEOUT)
            with pytest.raises(LockLost) as lost:
                async with aiolead.Lock(client, self.path) as held:
                    self.znode = held.path
                    self.holds.set()
                    await anyio.sleep_forever()
            assert lost.value.reason is LossReason.UNCONFIRMED
            self.proven_until = client.backend.lease.deadline + TIMEOUT / 1000
            await may_leave.wait()

    def saw(self, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            self.deleted = lease_clock()
            self.is_deleted.set()


async def measured(fed: FedObserver, chroot: str) -> list[float]:
    feeder, leader = await anyio.to_thread.run_sync(fed.roles)
    sessions = [Session(number, chroot) for number in range(SESSIONS)]
    may_leave = anyio.Event()
    async with (
        aiolead.connect(leader.connect_string, session_timeout=4 * TIMEOUT) as witness,
        anyio.create_task_group() as tasks,
    ):
        for session in sessions:
            tasks.start_soon(session.run, fed.observer.connect_string, may_leave)
            await anyio.sleep(TIMEOUT / 4 / SESSIONS)
        with anyio.fail_after(60):
            for session in sessions:
                await session.holds.wait()
        for session in sessions:
            watch = witness.backend.make_watch(session.saw)
            await witness.get(session.znode, watch=watch)
        # Their leases depend on their renewals by then, no longer on the beginning of the session.
        await anyio.sleep(TIMEOUT * random.uniform(1.5, 2.5))
        feeder.pause()
        try:
            with anyio.fail_after(60):
                for session in sessions:
                    await session.is_deleted.wait()
        finally:
            feeder.resume()
            may_leave.set()
    return [session.deleted - session.proven_until for session in sessions]


@only_on("asyncio")
async def test_no_lease_at_an_observer_of_a_follower_outlives_its_session(
    fed: FedObserver, chroot: str, record_property: Callable[[str, object], None]
) -> None:
    for trial in range(TRIALS):
        await anyio.to_thread.run_sync(fed.settle)
        if trial:
            await anyio.to_thread.run_sync(fed.change_feeder, random.uniform(0.0, TICK))
        margins = await measured(fed, f"{chroot}-{trial}")
        for margin in margins:
            record_property(f"{MARGIN}observer of a follower, stopped: end of the proof", margin)
        assert min(margins) > 0, f"{sum(m <= 0 for m in margins)} of {len(margins)} were too short"
