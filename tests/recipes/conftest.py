"""Clients for the tests of the recipes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kit.clients import Served, connect, in_memory

from aiolead import Client
from aiolead.testing import EmbeddedServer


@pytest.fixture
async def client(server: Served) -> AsyncIterator[Client]:
    """A client of the server under test."""
    async with connect(server) as client:
        yield client


@pytest.fixture
async def other(server: Served) -> AsyncIterator[Client]:
    """A second client of the server under test."""
    async with connect(server) as client:
        yield client


a, b = client, other
"""The same, where a test compares what the two of them do."""


@pytest.fixture
async def embedded_server() -> AsyncIterator[EmbeddedServer]:
    """A server in the event loop of the test."""
    async with EmbeddedServer() as server:
        yield server


@pytest.fixture
async def local(embedded_server: EmbeddedServer) -> AsyncIterator[Client]:
    async with in_memory(embedded_server) as client:
        yield client
