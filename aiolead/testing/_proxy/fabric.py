"""The network between the members of an ensemble, made of proxies, one for each pair and port."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from ..launch import LOOPBACK, free_ports
from ..proxy import FaultProxy
from .tap import Data, Piece, RawTap
from .thread import LoopThread

__all__ = ["Fabric"]

_PATIENCE = 1.0
"""For a new leader that does not listen yet, in seconds.

A follower that is refused retries by itself. A follower that reaches the proxy and is then reset
abandons its leader, and the finished election starts again.
"""

_OPENING = struct.Struct(">qqi")
_SERVER_ID = struct.Struct(">q")


class Fabric:
    """Gives each member its own addresses of its peers, and can isolate it from them.

    Args:
        ports: each member's port for its followers and port for elections.
    """

    def __init__(self, ports: Sequence[tuple[int, int]]) -> None:
        self._ports = ports
        size = len(ports)
        free = iter(free_ports(2 * size * (size - 1)))
        self._listen = {
            (member, peer): (next(free), next(free))
            for member in range(size)
            for peer in range(size)
            if member != peer
        }
        self._proxies: dict[tuple[int, int], list[FaultProxy]] = {}
        self._thread: LoopThread | None = None

    def view(self, member: int) -> dict[str, str]:
        """The `server.N` lines of a member's configuration; members count from 0, N from 1."""
        return {
            f"server.{peer + 1}": "{}:{}:{}".format(
                LOOPBACK, *(ports if peer == member else self._listen[member, peer])
            )
            for peer, ports in enumerate(self._ports)
        }

    def start(self) -> None:
        """Begins to listen, if it does not yet."""
        if self._thread is not None:
            return
        self._thread = LoopThread("the network of the ensemble")
        for (member, peer), (quorum, election) in self._listen.items():
            target_quorum, target_election = self._ports[peer]
            self._proxies[member, peer] = [
                FaultProxy(
                    LOOPBACK,
                    target_quorum,
                    listen_port=quorum,
                    patience=_PATIENCE,
                    tap=RawTap,
                    thread=self._thread,
                ),
                FaultProxy(
                    LOOPBACK,
                    target_election,
                    listen_port=election,
                    tap=_ElectionTap,
                    thread=self._thread,
                ),
            ]
            for proxy in self._proxies[member, peer]:
                proxy.start()

    def isolate(self, member: int) -> None:
        """Cuts a member off from all of its peers."""
        for pair, proxies in self._proxies.items():
            if member in pair:
                for proxy in proxies:
                    proxy.blackhole()
                    proxy.refuse()

    def heal(self) -> None:
        """Undoes every `isolate`."""
        for proxy in self._all():
            proxy.heal()

    def links(self) -> frozenset[tuple[int, int]]:
        """The pairs of a follower and its leader that are connected."""
        proxies = self._proxies.items()
        return frozenset(pair for pair, (quorum, _) in proxies if quorum.open_connections)

    def close(self) -> None:
        """Resets all connections and ends the thread."""
        if self._thread is None:
            return
        try:
            for proxy in self._all():
                proxy.close()
        finally:
            self._thread.close()
            self._thread = None
            self._proxies.clear()

    def _all(self) -> Iterator[FaultProxy]:
        for proxies in self._proxies.values():
            yield from proxies


class _ElectionTap(RawTap):
    """Hides the real address of a peer from a member.

    A member that opens an election connection to a member of a higher id sends its own address,
    closes the connection and is called back *there*, past every proxy. Older servers (3.4) send
    only their id; the member then looks the address up in its own configuration. So the opening is
    turned into that of an older server. (`QuorumCnxManager.handleConnection` in ZooKeeper's
    source.)
    """

    def __init__(self) -> None:
        self._opening: bytes | None = b""

    def to_server(self, data: bytes) -> Iterator[Piece]:
        if self._opening is None:
            yield Data(data)
            return
        self._opening += data
        if len(self._opening) < _OPENING.size:
            return
        _version, server_id, length = _OPENING.unpack_from(self._opening)
        end = _OPENING.size + length
        if len(self._opening) >= end:
            rest, self._opening = self._opening[end:], None
            yield Data(_SERVER_ID.pack(server_id) + rest)
