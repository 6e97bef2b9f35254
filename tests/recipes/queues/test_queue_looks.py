"""Consumers of one queue object that look for items at the same moment."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest
from kit.clients import PATIENCE, in_memory

from aiolead import Queue
from aiolead.testing import EmbeddedServer

PATH = "/jobs"


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    """A server with a queue of three items, one of which was claimed before."""
    async with EmbeddedServer(tick_time=3) as server, in_memory(server) as client:
        queue = Queue(client, PATH)
        await queue.put_many([b"first", b"second", b"third"])
        async with queue.get():
            pass
        yield server


async def test_each_gets_an_item_of_one_look(server: EmbeddedServer) -> None:
    found: list[bytes | None] = []
    everybody = anyio.Event()

    async def try_one(queue: Queue) -> None:
        async with queue.try_get() as item:
            found.append(None if item is None else item.data)
            if len(found) == 3:
                everybody.set()
            await everybody.wait()

    async with in_memory(server) as client:
        queue = Queue(client, PATH)
        before = server.requests["GET_CHILDREN"]
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(try_one, queue)
        assert sorted(found, key=str) == [b"first", b"second", b"third"]
        assert server.requests["GET_CHILDREN"] - before == 2, "items and claims are listed once"


async def test_an_item_is_found_though_the_one_that_looks_is_cancelled(
    server: EmbeddedServer,
) -> None:
    async with in_memory(server) as client:
        for turns in range(12):
            queue = Queue(client, PATH)
            scope = anyio.CancelScope()
            found: list[bytes] = []

            async def get(queue: Queue, scope: anyio.CancelScope, found: list[bytes]) -> None:
                with scope:
                    async with queue.get() as item:
                        found.append(item.data)

            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(get, queue, scope, [])
                    await anyio.lowlevel.checkpoint()
                    tasks.start_soon(get, queue, anyio.CancelScope(), found)
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
            assert found
