"""One embedded server under many addresses: as an ensemble looks to its clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio.abc import ByteStream
from kit.clients import hooked

import aiolead
from aiolead.testing import EmbeddedServer


class Fleet:
    """Servers by their addresses; all of them are the first one unless told otherwise.

    Attributes:
        server: the one server that there is at first.
        at: which server an address leads to instead.
        dialled: where clients have connected to, in order.
        down: which addresses refuse to be connected to.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.at: dict[str, EmbeddedServer] = {}
        self.dialled: list[str] = []
        self.down: set[str] = set()

    async def dial(self, address: str, port: int) -> ByteStream:
        assert port == 2181
        if address in self.down:
            raise ConnectionRefusedError(address)
        self.dialled.append(address)
        return await self.at.get(address, self.server).connect_stream()

    def connect(self, hosts: str | aiolead.Hosts, **options: Any) -> aiolead.types.Connection:
        return aiolead.connect(
            hosts, **hooked(**{"session_timeout": 8, "dial": self.dial, **options})
        )


@asynccontextmanager
async def a_fleet(**options: Any) -> AsyncIterator[Fleet]:
    async with EmbeddedServer(port=None, **options) as server:
        yield Fleet(server)
