"""The servers of a client, and which one to try next."""

from __future__ import annotations

import ipaddress
import random
import socket
from collections.abc import Iterator, Sequence

import anyio

from ...paths import format_host
from .rebalance import Server, moves


class HostList:
    """Names are resolved for every attempt, since addresses change (ZOOKEEPER-2184)."""

    def __init__(self, hosts: Sequence[Server], rng: random.Random) -> None:
        self._hosts = tuple(dict.fromkeys(hosts))
        self._rng = rng
        self._current: Server | None = None
        self._bound_for: Server | None = None
        self._plan: list[Server] = []
        """The order of the next round, after the list has changed."""
        self.has_changed: bool = False
        """Whether the list has changed since the last round began."""

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def servers(self) -> Sequence[Server]:
        return self._hosts

    def __iter__(self) -> Iterator[str]:
        return (format_host(host, port) for host, port in self._hosts)

    def round(self) -> list[Server]:
        """Every server once, in random order; the one that was just lost comes last."""
        self.has_changed = False
        if self._plan:
            order, self._plan = self._plan, []
            return order
        self._bound_for = None
        order = self.shuffled()
        order.sort(key=lambda host: host == self._current)
        return order

    def prefer(self, server: Server) -> None:
        """Makes the next round begin with a server."""
        self._bound_for = server
        self._plan = sorted(self._hosts, key=lambda host: host != server)

    def shuffled(self) -> list[Server]:
        order = list(self._hosts)
        self._rng.shuffle(order)
        return order

    def opened(self, server: Server) -> bool:
        """Notes that a server serves us; False if it is not listed any more: leave it."""
        self._current = server
        self._bound_for = None
        self._plan.clear()
        return server in self._hosts

    def update(self, hosts: Sequence[Server]) -> bool:
        """Replaces the list; whether the client must leave its server, see `rebalance`."""
        before, now = self._hosts, tuple(dict.fromkeys(hosts))
        if set(now) == set(before):
            return False
        self._hosts = now
        self.has_changed = True
        # A client that is moving counts for its destination.
        here = self._bound_for or self._current
        if here is None:
            return False
        plan = moves(before, now, here, self._rng)
        if not plan and self._bound_for is not None:
            plan = sorted(now, key=lambda server: server != here)
        self._plan = plan
        self._bound_for = plan[0] if plan else None
        return bool(plan)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Returns a server's addresses, in random order, or raises `OSError`."""
        try:
            ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            pass
        else:
            return [host]
        infos = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
        self._rng.shuffle(addresses)
        return addresses
