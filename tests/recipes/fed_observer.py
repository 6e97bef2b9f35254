"""A real ensemble with an observer that a follower feeds (`observerMasterPort`, ZooKeeper 3.6)."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from aiolead.testing import BlockingServer
from aiolead.testing.launch import LaunchError, free_ports, wait_until

VOTERS = 3
START_TIMEOUT = 60.0


class FedObserver:
    """Three voters, and an observer that connects to a follower.

    All servers have the same `observerMasterPort`, so each has an address of its own: 127.0.0.1 to
    127.0.0.4, as on Linux.

    Attributes:
        voters: the servers that elect a leader.
        observer: the other one.
    """

    def __init__(self, *, tick_time: float, version: str | None = None) -> None:
        quorum, election, feeding = free_ports(3)
        roles = ["participant"] * VOTERS + ["observer"]
        peers = {
            f"server.{n}": f"127.0.0.{n}:{quorum}:{election}:{role}"
            for n, role in enumerate(roles, start=1)
        }
        servers = [
            BlockingServer(
                tick_time=tick_time,
                sync_limit=10,
                version=version,
                peers=peers,
                server_id=n,
                extra={"observerMasterPort": feeding}
                | ({"peerType": "observer"} if role == "observer" else {}),
            )
            for n, role in enumerate(roles, start=1)
        ]
        self.voters: tuple[BlockingServer, ...] = tuple(servers[:VOTERS])
        self.observer: BlockingServer = servers[VOTERS]

    def __enter__(self) -> Self:
        try:
            for server in (*self.voters, self.observer):
                server.launch()
            self.settle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for server in (*self.voters, self.observer):
            server.close()

    def settle(self) -> None:
        """Wait until all servers serve, and a follower feeds the observer."""
        end = time.monotonic() + START_TIMEOUT
        for server in (*self.voters, self.observer):
            server.wait_serving(max(0.0, end - time.monotonic()))
        if not wait_until(lambda: self._feeder() is not None, end - time.monotonic()):
            raise LaunchError(f"no follower feeds the observer within {START_TIMEOUT:g} s")

    def feed_anew(self, pause: float) -> None:
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
