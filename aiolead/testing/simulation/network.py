"""A network of hosts, paths between them, and connections that behave as TCP's do.

All of it is callbacks on a timeline. Bytes arrive later, in order, or never. A path that is
silent keeps what is on its way, as TCP keeps and repeats what nobody acknowledges; only a reset is
sent once and is lost there. Bytes to a closed end are answered by a reset.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .connection import Accept, Connection, Endpoint, Flow, Wire
from .seeds import derived
from .timeline import Timeline

DELAY = (0.0001, 0.002)
"""Seconds from one host to another, at least and at most, unless a path says otherwise."""

CUTS = 0.1
"""How often, of all deliveries, only a part of the bytes comes first."""


class Path:
    """One direction between two hosts: what packets from one to the other meet with.

    Attributes:
        range: how long a packet takes at least and at most, in seconds.
        cuts: how often, of all deliveries, only a part of the bytes comes first: 0 to 1.
        refuses: connection attempts are refused.
        drip: the most bytes that come at a time, and the seconds between two times; or None.
        is_silent: nothing arrives.
        break_after: after this many more bytes have come, the connection that carries them breaks.
        rng: where delays and cuts are drawn from.
    """

    def __init__(self, source: str, target: str, network: Network, rng: random.Random) -> None:
        self.source = source
        self.target = target
        self.rng = rng
        self.range = DELAY
        self.cuts = CUTS
        self.refuses = False
        self.drip: tuple[int, float] | None = None
        self.break_after: int | None = None
        self.is_silent: bool = False
        self._network = network
        self._silent_since = 0.0
        self._held: dict[Flow, None] = {}

    def delay(self) -> float:
        """Draws how long a packet takes, in seconds."""
        least, most = self.range
        return least + (most - least) * self.rng.random()

    def silence(self) -> None:
        """From now on nothing arrives."""
        if not self.is_silent:
            self.is_silent = True
            self._silent_since = self._network.timeline.now

    def heal(self, *, keep: bool = True) -> None:
        """Things arrive again, what was held back included.

        Args:
            keep: if false, the connections that have something held back stay silent for good in
                this direction, as after a middlebox has forgotten them.
        """
        if not self.is_silent:
            return
        self.is_silent = False
        silence = self._network.timeline.now - self._silent_since
        held, self._held = self._held, {}
        for flow in held:
            if keep:
                # TCP tries again after ever longer times, about as long as the silence was.
                flow.resume(self.rng.uniform(0.0, min(silence, 1.0)))
            else:
                flow.give_up()

    def hold(self, flow: Flow) -> None:
        """Notes that something of this flow is held back."""
        self._held[flow] = None

    def reset(self) -> None:
        """Breaks every connection between the two hosts, at both of its ends."""
        self._network.reset(self.source, self.target)


class Network:
    """Hosts by their addresses.

    Args:
        timeline: on which everything happens.
        seed: of delays and cuts; each path draws from a generator of its own.
    """

    def __init__(self, timeline: Timeline, seed: int) -> None:
        self.timeline = timeline
        self._seed = seed
        self._listeners: dict[str, Accept] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._connections: dict[Connection, None] = {}

    def path(self, source: str, target: str) -> Path:
        """The path from one host to another; there is one between any two.

        Args:
            source: an address, with or without a port.
            target: likewise.
        """
        key = host_of(source), host_of(target)
        path = self._paths.get(key)
        if path is None:
            rng = derived(self._seed, f"path {key[0]} {key[1]}")
            path = self._paths[key] = Path(*key, self, rng)
        return path

    def paths(self) -> list[Path]:
        """Every path that anybody has used or asked for, in that order."""
        return list(self._paths.values())

    def listen(self, address: str, accept: Accept) -> None:
        """Takes connections to an address, `host:port`.

        Raises:
            OSError: somebody listens there already.
        """
        if address in self._listeners:
            raise OSError(f"{address} is in use")
        self._listeners[address] = accept

    def unlisten(self, address: str) -> None:
        """From now on connections to the address are refused; the open ones stay."""
        self._listeners.pop(address, None)

    def connect(
        self,
        source: str,
        target: str,
        endpoint: Endpoint,
        opened: Callable[[Wire | None], object],
    ) -> Callable[[], None]:
        """Opens a connection.

        Args:
            source: the host that opens it.
            target: where to, `host:port`.
            endpoint: the notifications about it.
            opened: called with our wire once the connection stands, or with None if it is refused;
                never, as long as nobody answers.

        Returns:
            What gives the attempt up: `opened` is not called any more.
        """
        connection = Connection(self, source, target, endpoint, opened)
        self._connections[connection] = None
        connection.open()
        return connection.abandon

    def reset(self, one: str, other: str) -> None:
        """Breaks every connection between two hosts, at both of its ends."""
        hosts = {host_of(one), host_of(other)}
        for connection in list(self._connections):
            if {connection.client.host, connection.server.host} == hosts:
                connection.break_()

    def connections(self) -> list[Connection]:
        """The open connections, and those that are being opened."""
        return list(self._connections)

    def late(self) -> float | None:
        """When the last packet arrives that was sent while its path was slower than now.

        Until then it holds up all that was sent behind it. None if there is no such packet.
        """
        return max((late for one in self._connections for late in one.late), default=None)

    def listener(self, address: str) -> Accept | None:
        """The listener of an address."""
        return self._listeners.get(address)

    def forget(self, connection: Connection) -> None:
        """Drop a connection that has no end in use."""
        self._connections.pop(connection, None)


def host_of(address: str) -> str:
    """The host of an address, which may have a port."""
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdigit() and ("]" in host or ":" not in host) else address
