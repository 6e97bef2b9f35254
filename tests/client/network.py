"""How clients reach their servers: at addresses and by names in memory, or through a proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
from anyio.abc import ByteStream
from conftest import ServerUnderTest
from kit.clients import hooked
from kit.virtual_time import SESSION, embedded

import aiolead
from aiolead.testing import EmbeddedServer, FaultProxy
from aiolead.testing.streams import MemoryStream, memory_stream_pair

ONE, TWO, THREE = "10.0.0.1", "10.0.0.2", "10.0.0.3"


class Network:
    """One embedded server at all addresses, and a resolver of names.

    Attributes:
        server: it is started and stopped with the network.
        at: other servers, by their addresses. They are not started here.
        names: the addresses of each name, or the exception of its lookups.
        delay: how long lookups take, in seconds.
        asked: how often each name was looked up.
        running: how many lookups of each name are under way.
        most: the most of them that were ever under way.
        down: addresses that refuse connections.
        holes: addresses that never answer.
        frozen: addresses that accept connections, and send nothing.
        slow: how long it takes to connect to an address, in seconds.
        dialled: the addresses that clients have connected to, in order.
    """

    def __init__(self) -> None:
        self.server = embedded()
        self.at: dict[str, EmbeddedServer] = {}
        self.names: dict[str, list[str] | Exception] = {"zk1": [ONE], "zk2": [TWO], "zk3": [THREE]}
        self.delay = 0.0
        self.asked: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.down: set[str] = set()
        self.holes: set[str] = set()
        self.frozen: set[str] = set()
        self.slow: dict[str, float] = {}
        self.dialled: list[str] = []
        self._streams: list[tuple[str, MemoryStream]] = []

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.__aexit__(None, None, None)

    def connect(self, hosts: str | aiolead.Hosts, **options: Any) -> aiolead.types.Connection:
        given = {"session_timeout": SESSION, "dial": self.dial, **options}
        return aiolead.connect(hosts, **hooked(**given))

    async def look_up(self, host: str, _port: int) -> list[str]:
        self.asked[host] += 1
        self.running[host] += 1
        self.most[host] = max(self.most[host], self.running[host])
        try:
            await anyio.sleep(self.delay)
        finally:
            self.running[host] -= 1
        found = self.names.get(host, [host])
        if isinstance(found, Exception):
            raise found
        return list(found)

    async def dial(self, address: str, port: int) -> ByteStream:
        assert port == 2181
        if address in self.down:
            raise ConnectionRefusedError(f"not at {address}")
        self.dialled.append(address)
        if address in self.holes:
            await anyio.sleep_forever()
        if address in self.frozen:
            return memory_stream_pair()[0]
        await anyio.sleep(self.slow.get(address, 0))
        stream = await self.at.get(address, self.server).connect_stream()
        self._streams.append((address, stream))
        return stream

    def crash(self, address: str) -> None:
        """Refuses connections to an address, and resets those that there are."""
        self.down.add(address)
        self.reset(address)

    def reset(self, address: str = "") -> None:
        for at, stream in self._streams:
            if address in ("", at):
                stream.reset()


@asynccontextmanager
async def through_proxy(
    server: ServerUnderTest, **options: Any
) -> AsyncIterator[tuple[FaultProxy, aiolead.Client]]:
    """A client of the first server, and the proxy between them."""
    host, _, port = server.hosts.split(",")[0].rpartition(":")
    async with FaultProxy(host, int(port)) as proxy:
        target = proxy.connect_string + server.chroot
        async with aiolead.connect(target, **{"session_timeout": SESSION, **options}) as client:
            yield proxy, client
