"""Servers and clients that most tests of the client need.

`client` and `other` are clients of `server`, if a test takes that, and of `zk` otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from client.fake_server import FakeServer
from client.login.certificates import Authority
from client.network import Network
from kit.clients import Served, connect

from aiolead import Client
from aiolead._client.net import known_addresses
from aiolead.testing import EmbeddedServer


@pytest.fixture
async def zk() -> AsyncIterator[EmbeddedServer]:
    """An embedded server of the test's own."""
    async with EmbeddedServer() as server:
        yield server


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Served:
    return request.getfixturevalue("server" if "server" in request.fixturenames else "zk")


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    async with connect(served) as client:
        yield client


@pytest.fixture
async def other(served: Served) -> AsyncIterator[Client]:
    async with connect(served) as client:
        yield client


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A server that answers with what the test says."""
    async with FakeServer() as fake:
        yield fake


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """A server at all addresses, with the names that are looked up. The test enters it."""
    network = Network()
    monkeypatch.setattr(known_addresses, "look_up", network.look_up)
    return network
