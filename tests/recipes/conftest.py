"""Two clients of the server under test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from conftest import ServerUnderTest
from kit.clients import connect

from aiolead import Client


@pytest.fixture
async def a(server: ServerUnderTest) -> AsyncIterator[Client]:
    async with connect(server) as client:
        yield client


@pytest.fixture
async def b(server: ServerUnderTest) -> AsyncIterator[Client]:
    async with connect(server) as client:
        yield client
