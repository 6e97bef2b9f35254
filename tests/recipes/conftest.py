"""Clients for the tests of the recipes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kit.clients import Served, connect

from aiolead import Client


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
