"""Requests of recipes that belong together leave in one segment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiolead import Client, Config, DoubleBarrier, PersistentNode, Queue, connect
from aiolead.testing import EmbeddedServer

# On a socket: carriers of other connections send once per turn of the event loop anyway.
pytestmark = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])


@pytest.fixture
async def client(anyio_backend: Any) -> AsyncIterator[Client]:
    async with (
        EmbeddedServer(tick_time=3) as server,
        connect(server.connect_string, session_timeout=60) as client,
    ):
        yield client


@pytest.fixture
def sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many segments were sent since the last call."""
    segments: list[bytes] = []
    machine = client._core.machine
    data_to_send = machine.data_to_send

    def recorded(now: float) -> bytes:
        data = data_to_send(now)
        if data:
            segments.append(data)
        return data

    def sent() -> int:
        count = len(segments)
        segments.clear()
        return count

    monkeypatch.setattr(machine, "data_to_send", recorded)
    return sent


async def test_a_put_is_one_segment_and_an_item_is_two(
    client: Client, sent: Callable[[], int]
) -> None:
    queue = Queue(client, "/jobs")
    await queue.put_many([b"first", b"second", b"third"])
    sent()
    await queue.put(b"fourth")
    assert sent() == 1, "the item, and the number of items for the next put"
    await queue.put_many([b"fifth", b"sixth"])
    assert sent() == 1
    async with queue.try_get():
        pass  # makes the path of the claims
    sent()
    async with Queue(client, "/jobs").consume() as items:
        item = await anext(items)
        assert sent() == 2, "what is there; the claim, with the reads of it and of the item"
        await item.ack()
        assert sent() == 1
        await anext(items)
        assert sent() == 1


async def test_a_kept_znode_is_created_and_watched_in_one_segment(
    client: Client, sent: Callable[[], int]
) -> None:
    await client.create("/members")
    sent()
    async with PersistentNode(client, "/members/one"):
        assert sent() == 1


async def test_a_member_of_a_barrier_joins_in_one_segment(
    client: Client, sent: Callable[[], int]
) -> None:
    await client.create("/step")
    sent()
    async with DoubleBarrier(client, "/step", 1):
        assert sent() == 2, "its znode, and what is there; then `ready`"


async def test_a_configuration_is_read_in_two_segments(
    client: Client, sent: Callable[[], int]
) -> None:
    config = Config(client, "/config")
    await config.publish({"one": b"1", "two": b"2", "three": b"3"})
    sent()
    await config.get()
    assert sent() == 2, "the version and the names of the keys; the keys, and the version again"
