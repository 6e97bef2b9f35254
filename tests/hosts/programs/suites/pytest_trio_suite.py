"""pytest-trio: a fixture opens the client in one task and closes it in another."""

from collections.abc import AsyncIterator

import pytest
from held import hold_until_stopped

import aiolead


@pytest.fixture
async def client() -> AsyncIterator[aiolead.Client]:
    async with aiolead.connect() as client:
        yield client


async def test_it_is_open(client: aiolead.Client) -> None:
    assert await client.exists("/") is not None


async def test_lead(client: aiolead.Client) -> None:
    await hold_until_stopped(client)
