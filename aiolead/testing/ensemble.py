"""Real ZooKeeper ensembles, for tests."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from ..errors import ConfigurationError, UsageError
from ._proxy.fabric import Fabric
from .launch import LOOPBACK, LaunchError, free_ports, wait_until
from .servers import BlockingServer, CommonOptions, ZooKeeperServer, in_thread

__all__ = ["BlockingEnsemble", "Ensemble"]

_START_TIMEOUT = 60.0

_GLANCE = 1.0
"""How long a server that may be down or paused is waited for, in seconds."""


class EnsembleOptions(CommonOptions, total=False):
    """The arguments of `Ensemble` without `size`; see `BlockingEnsemble`."""

    partitionable: bool
    reconfigurable: bool


class BlockingEnsemble:
    """Real ZooKeeper servers that form an ensemble, for code without an event loop.

    The same as `Ensemble`, with plain methods in the place of coroutines. A context manager, too.

    Args:
        size: how many servers; a quorum is more than half of them.
        partitionable: whether `isolate` works.
        reconfigurable: whether servers may be added and removed (`reconfigEnabled`), by anybody:
            access control is off then. It takes an ensemble that is not `partitionable`.
        options: for every server: `tick_time`, `init_limit`, `sync_limit`, `force_sync`, `extra`,
            `java_options` and `version`; see `BlockingServer`. A server that is isolated from its
            peers goes on serving its clients for `sync_limit` ticks.

    Raises:
        ConfigurationError: it is to be both `partitionable` and `reconfigurable`.
        ZooKeeperNotFoundError: see `BlockingServer`.
    """

    def __init__(
        self,
        size: int = 3,
        *,
        partitionable: bool = False,
        reconfigurable: bool = False,
        **options: Unpack[CommonOptions],
    ) -> None:
        if partitionable and reconfigurable:
            raise ConfigurationError("reconfigurable: cannot be combined with partitionable")
        ports = free_ports(3 * size)
        client_ports, member_ports = ports[:size], list(zip(*[iter(ports[size:])] * 2, strict=True))
        direct = {
            f"server.{n}": f"{LOOPBACK}:{quorum}:{election}"
            for n, (quorum, election) in enumerate(member_ports, start=1)
        }
        if reconfigurable:
            for n, port in enumerate(client_ports, start=1):
                direct[f"server.{n}"] += f":participant;{LOOPBACK}:{port}"
            options["extra"] = {"reconfigEnabled": "true", **(options.get("extra") or {})}
            java_options = options.get("java_options", ())
            options["java_options"] = ("-Dzookeeper.skipACL=yes", *java_options)
        self._fabric = Fabric(member_ports) if partitionable else None
        self.servers: tuple[BlockingServer, ...] = tuple(
            BlockingServer(
                port=client_ports[i],
                peers=self._fabric.view(i) if self._fabric else direct,
                server_id=i + 1,
                **options,
            )
            for i in range(size)
        )

    def __enter__(self) -> Self:
        try:
            self.start()
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

    @property
    def connect_string(self) -> str:
        """All servers."""
        return ",".join(server.connect_string for server in self.servers)

    def start(self, timeout: float = _START_TIMEOUT) -> None:
        """Starts the servers that do not run, all at once, and waits until all serve.

        Args:
            timeout: in seconds.

        Raises:
            LaunchError: they do not serve in time. Its message has a log's tail.
        """
        if self._fabric is not None:
            self._fabric.start()
        for server in self.servers:
            if not server.is_running:
                server.launch()
        self.wait_serving(timeout)

    def wait_serving(self, timeout: float = _START_TIMEOUT) -> None:
        """Waits until every server serves clients; see `start`.

        After a partition, this means: over new connections to its peers. A server that was isolated
        and has not noticed it yet still serves what it knew before.
        """
        deadline = time.monotonic() + timeout
        for server in self.servers:
            server.wait_serving(max(deadline - time.monotonic(), 0.0))
        if self._fabric is not None:
            fabric = self._fabric
            if not wait_until(lambda: self._is_joined(fabric), deadline - time.monotonic()):
                raise LaunchError(f"after {timeout} s, not every server follows the leader")

    def ensure_serving(self, timeout: float = _START_TIMEOUT) -> None:
        """Bring all servers back to where they serve, regardless of faults."""
        if self._fabric is not None:
            self._fabric.heal()
        for server in self.servers:
            if server.is_running:
                server.resume()
        self.start(timeout)

    def close(self) -> None:
        """Kills the servers and deletes their files. Takes a few milliseconds."""
        for server in self.servers:
            server.signal_kill()
        for server in self.servers:
            server.discard()
        if self._fabric is not None:
            self._fabric.close()

    def isolate(self, server: BlockingServer) -> None:
        """Cuts a server off from its peers, not from its clients, until `heal`.

        All that it and they send each other from now on, or have in flight, is lost, without notice
        to either side; new connections between them are refused. Other servers that are isolated
        stay so.

        Raises:
            UsageError: the ensemble is not `partitionable`.
        """
        self._network().isolate(self.servers.index(server))

    def heal(self) -> None:
        """Undoes every `isolate`. Returns at once; `wait_serving` waits for the effect."""
        self._network().heal()

    def _is_joined(self, fabric: Fabric) -> bool:
        """Whether one server leads and all others follow it."""
        # The connections first: a server that has a new one has noticed that it was isolated.
        links = fabric.links()
        roles = [_role(server) for server in self.servers]
        leader = _leading(roles)
        return leader is not None and all(
            member == leader or (mode == "follower" and (member, leader) in links)
            for member, (mode, _) in enumerate(roles)
        )

    def _network(self) -> Fabric:
        if self._fabric is None:
            raise UsageError("only an ensemble made with partitionable=True can be partitioned")
        return self._fabric

    def leader(self, timeout: float = _START_TIMEOUT) -> BlockingServer:
        """The server that leads; waits for an election to end.

        A leader that is paused or isolated does not know that it was replaced. So if several claim
        to lead, the leader of the latest epoch counts.

        Args:
            timeout: in seconds.

        Raises:
            LaunchError: no server leads within this time.
        """
        found: list[int] = []

        def look() -> bool:
            leader = _leading([_role(server) for server in self.servers])
            found[:] = [] if leader is None else [leader]
            return bool(found)

        if not wait_until(look, timeout):
            raise LaunchError(f"no server leads after {timeout} s")
        return self.servers[found[0]]

    def followers(self) -> tuple[BlockingServer, ...]:
        """The servers that follow a leader at this moment."""
        return tuple(server for server in self.servers if _role(server)[0] == "follower")

    def connected_server(self, session_id: int) -> BlockingServer | None:
        """The server that a session's client is connected to; None if no server knows of it."""
        mark = re.compile(rf"\bsid=0x{session_id & _LONG:x}\b")
        for server in self.servers:
            if mark.search(_ask(server, "cons")):
                return server
        return None


_LONG = (1 << 64) - 1
"""Session ids are signed here and on the wire, and unsigned where servers print them."""


def _role(server: BlockingServer) -> tuple[str, int]:
    """A server's role and the last transaction that it knows; ("", -1) if it is silent.

    A leader's first transaction id has the new epoch in its upper half.
    """
    lines = (line.partition(": ") for line in _ask(server, "srvr").splitlines())
    said = {name: value for name, _, value in lines}
    return said.get("Mode", ""), int(said.get("Zxid", "-1"), 0)


def _leading(roles: Sequence[tuple[str, int]]) -> int | None:
    """Which server leads: if several claim to, the leader of the latest epoch."""
    claims = [(zxid, n) for n, (mode, zxid) in enumerate(roles) if mode in ("leader", "standalone")]
    return max(claims)[1] if claims else None


def _ask(server: BlockingServer, word: str) -> str:
    """A server's answer; empty where it is down, or paused."""
    try:
        return server.four_letter(word, timeout=_GLANCE)
    except OSError:
        return ""


class Ensemble:
    """A real ZooKeeper ensemble as child processes on loopback.

    An async context manager that starts the servers and, at the end, kills them:

        async with Ensemble(3) as ensemble:
            async with aiolead.connect(ensemble.connect_string) as client:
                ...
                leader = await ensemble.leader()
                await leader.kill()

    Three servers take about two seconds to start. The arguments are those of `BlockingEnsemble`,
    which is this ensemble's other face: `blocking` has the same verbs for code without an event
    loop.

    Attributes:
        servers: each server, with the verbs of `ZooKeeperServer`.

    Cancellation: as for `ZooKeeperServer`.
    """

    def __init__(self, size: int = 3, **options: Unpack[EnsembleOptions]) -> None:
        self._adopt(BlockingEnsemble(size, **options))

    @classmethod
    def over(cls, blocking: BlockingEnsemble) -> Self:
        """The asynchronous face of an ensemble that somebody else owns."""
        ensemble = cls.__new__(cls)
        ensemble._adopt(blocking)
        return ensemble

    def _adopt(self, blocking: BlockingEnsemble) -> None:
        self.blocking = blocking
        self.servers: tuple[ZooKeeperServer, ...] = tuple(
            ZooKeeperServer.over(server) for server in blocking.servers
        )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.blocking.close()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Not in a thread, since waiting for one is what a cancelled task cannot do.
        self.blocking.close()

    @property
    def connect_string(self) -> str:
        """All servers."""
        return self.blocking.connect_string

    async def start(self, timeout: float = _START_TIMEOUT) -> None:
        """See `BlockingEnsemble.start`."""
        await in_thread(lambda: self.blocking.start(timeout))

    async def wait_serving(self, timeout: float = _START_TIMEOUT) -> None:
        """See `BlockingEnsemble.wait_serving`."""
        await in_thread(lambda: self.blocking.wait_serving(timeout))

    async def heal(self) -> None:
        """See `BlockingEnsemble.heal`."""
        await in_thread(self.blocking.heal)

    async def isolate(self, server: ZooKeeperServer) -> None:
        """Cuts a server off from its peers; see `BlockingEnsemble.isolate`."""
        await in_thread(lambda: self.blocking.isolate(server.blocking))

    async def leader(self) -> ZooKeeperServer:
        """The server that leads; see `BlockingEnsemble.leader`."""
        return self._face(await in_thread(self.blocking.leader))

    async def followers(self) -> tuple[ZooKeeperServer, ...]:
        """The servers that follow a leader at this moment."""
        return tuple(map(self._face, await in_thread(self.blocking.followers)))

    async def connected_server(self, session_id: int) -> ZooKeeperServer | None:
        """The server that a session's client is connected to; None if no server knows of it."""
        found = await in_thread(lambda: self.blocking.connected_server(session_id))
        return None if found is None else self._face(found)

    def _face(self, blocking: BlockingServer) -> ZooKeeperServer:
        return self.servers[self.blocking.servers.index(blocking)]
