"""Where to connect next."""

from __future__ import annotations

import ipaddress
import random
import socket
from collections.abc import Iterator, Sequence

import anyio

from ..paths import format_host


class HostList:
    """The servers of a connect string.

    Names are resolved anew for every attempt, since addresses change under long-lived clients
    (ZOOKEEPER-2184).

    Args:
        hosts: names or addresses with their ports.
        rng: for the order in which they are tried.
    """

    def __init__(self, hosts: Sequence[tuple[str, int]], rng: random.Random) -> None:
        self._hosts = tuple(hosts)
        self._rng = rng

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[str]:
        """As `host:port`, in the order given."""
        return (format_host(host, port) for host, port in self._hosts)

    def round(self, last: tuple[str, int] | None) -> list[tuple[str, int]]:
        """Every server once, in random order; the one that was just lost comes last."""
        order = list(self._hosts)
        self._rng.shuffle(order)
        order.sort(key=lambda host: host == last)
        return order

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a server, in random order.

        Raises:
            OSError: the name cannot be resolved.
        """
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
