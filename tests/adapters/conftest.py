"""The fixtures of the tests of the aiozk adapter: a server, a proxy, a started aiozk client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from adapters.aiozk_peer import started

from aiolead import Client
from aiolead.adapters.aiozk import adapt
from aiolead.testing import EmbeddedServer, FaultProxy


@pytest.fixture
async def own(anyio_backend: Any) -> AsyncIterator[EmbeddedServer]:
    """An embedded server that no other test uses."""
    async with EmbeddedServer() as server:
        yield server


@pytest.fixture
def proxy(own: EmbeddedServer) -> Iterator[FaultProxy]:
    """The proxy between `own` and the aiozk client."""
    with FaultProxy("127.0.0.1", own.port) as proxy:
        yield proxy


@pytest.fixture
async def zk(proxy: FaultProxy) -> AsyncIterator[Any]:
    """An aiozk client on a connection that can be broken."""
    async with started(proxy.connect_string) as zk:
        yield zk


@pytest.fixture
async def client(zk: Any) -> AsyncIterator[Client]:
    """The adapted client of `zk`."""
    async with adapt(zk) as client:
        yield client
