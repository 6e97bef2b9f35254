"""The fixtures of the tests of the embedded server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from testing.stream_client import StreamClient, dial
from testing.wire_core import NEW_SESSION, Client, World

from aiolead.testing import EmbeddedServer

Visit = Callable[..., Awaitable[StreamClient]]
"""`visit(server, transport, timeout, session)` opens a session over "memory" or "tcp"."""


@pytest.fixture
def world() -> World:
    """The core of a server, without sockets."""
    return World()


@pytest.fixture
def client(world: World) -> Client:
    """A client of `world` that has a session."""
    return world.client()


@pytest.fixture
async def own(anyio_backend: Any) -> AsyncIterator[EmbeddedServer]:
    """An embedded server that no other test uses."""
    async with EmbeddedServer() as server:
        yield server


@pytest.fixture
async def visit(anyio_backend: Any) -> AsyncIterator[Visit]:
    """Opens sessions. Their connections are closed after the test."""
    async with AsyncExitStack() as stack:

        async def visit(
            server: EmbeddedServer,
            transport: str = "memory",
            timeout: float | None = 5.0,
            session: tuple[int, bytes] = NEW_SESSION,
        ) -> StreamClient:
            """With `timeout=None`, the connection opens no session."""
            client = await dial(server, transport)
            stack.push_async_callback(client.stream.aclose)
            return client if timeout is None else await client.greet(timeout, session)

        yield visit
