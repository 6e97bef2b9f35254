"""anyio's plugin for pytest, on asyncio and trio."""

import os
from collections.abc import AsyncIterator

import pytest
from held import hold_until_stopped

import aiolead

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[os.environ.get("BACKEND", "asyncio")])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def client(anyio_backend: str) -> AsyncIterator[aiolead.Client]:
    async with aiolead.connect() as client:
        yield client


async def test_it_is_open(client: aiolead.Client) -> None:
    assert await client.exists("/") is not None


async def test_lead(client: aiolead.Client) -> None:
    await hold_until_stopped(client)
