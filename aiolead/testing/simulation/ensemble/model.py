"""The ensemble as a whole."""

from __future__ import annotations

import random
from functools import partial

from ...._wire.codes import OpCode
from ...._wire.requests import Delete
from ....errors import UsageError
from ..._server.transaction import Transaction
from ..network import Network
from ..timeline import Timeline
from .broadcast import Broadcast
from .facts import OnFact, Truth
from .leading import Leading
from .server import Server
from .settings import EnsembleSettings

HOSTS = "10.0.0."


class Ensemble:
    """A model of a ZooKeeper ensemble that speaks the client protocol.

    It is made of callbacks on the timeline and of connections over the network: between servers
    as well as with clients. Everything else is drawn from `rng`.

    Args:
        timeline: where the time comes from.
        network: where the servers listen, from `start` on: server n is the host `10.0.0.n`.
        rng: for session ids, passwords, the phases of clocks, and the order in which a process
            that goes on does what has waited.
        settings: the fixed settings.
        on_fact: told what is true of the ensemble, as it happens; see `facts.OnFact`.

    Attributes:
        servers: all of them, the voters first.
        settings: its settings.
    """

    def __init__(
        self,
        timeline: Timeline,
        network: Network,
        rng: random.Random,
        settings: EnsembleSettings | None = None,
        *,
        on_fact: OnFact | None = None,
    ) -> None:
        settings = settings or EnsembleSettings()
        self.settings: EnsembleSettings = settings
        self.timeline = timeline
        self._truth = Truth(timeline)
        self._truth.on_fact = on_fact
        secret = rng.getrandbits(128).to_bytes(16, "big")
        ids = range(1, settings.voters + settings.observers + 1)
        hosts = [f"{HOSTS}{id_}" for id_ in ids]
        self.servers: tuple[Server, ...] = tuple(
            Server(id_, timeline, network, rng, settings, self._truth, secret, hosts) for id_ in ids
        )

    @property
    def connect_string(self) -> str:
        """All servers."""
        return ",".join(server.address for server in self.servers)

    def server(self, id_: int) -> Server:
        """A server by its id, which counts from 1."""
        return self.servers[id_ - 1]

    def start(self) -> None:
        """Starts the servers that do not run."""
        for server in self.servers:
            server.start()

    def leader(self) -> Server | None:
        """The server that leads. Of several that believe it of themselves, the newest."""
        leading = [server for server in self.servers if server.state == "leading"]
        serving = [server for server in leading if server.is_serving]
        return max(serving, key=lambda server: server.current_epoch, default=None)

    @property
    def is_settled(self) -> bool:
        """Whether every server runs and serves, led by one leader, and none lags behind."""
        leader = self.leader()
        if leader is None:
            return False
        return all(
            server.is_serving
            and not server.is_frozen
            and server.role is not None
            and server.role.leader == leader.id
            and server.replica.newest == leader.replica.newest
            and server.replica.log.last == server.replica.log.committed
            for server in self.servers
        )

    def sessions(self) -> list[int]:
        """The sessions that the ensemble has agreed on, by id."""
        return self._newest().sessions()

    def server_of(self, session_id: int) -> Server | None:
        """The server that a session's client is connected to; of several, the leader's counts.

        A client that has moved may still have a connection that its old server knows of.
        """
        holding = [
            server
            for server in self.servers
            if server.is_running and session_id in server.clients.attached
        ]
        return holding[-1] if holding else None

    # --- an operator's orders --------------------------------------------------------------------

    def expire(self, session_id: int) -> None:
        """Has the leader end a session as if its time were up.

        Raises:
            UsageError: nobody leads.
        """
        self._leading().expire(session_id)

    def delete(self, path: str) -> None:
        """Let the leader delete a znode, regardless of its owner; nothing happens if there is none.

        Raises:
            UsageError: nobody leads.
        """
        self._leading().order(OpCode.DELETE, partial(Transaction.delete, request=Delete(path, -1)))

    def _leading(self) -> Broadcast:
        leader = self.leader()
        if leader is None or not isinstance(leader.role, Leading) or leader.role.broadcast is None:
            raise UsageError("no server leads")
        return leader.role.broadcast

    def _newest(self) -> Server:
        return max(self.servers, key=lambda server: server.replica.newest)
