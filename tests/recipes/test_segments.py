"""Requests of recipes that belong together leave in one segment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from recipes.blocks import Block, enter

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


async def test_put_is_one_segment_and_item_is_two(client: Client, sent: Callable[[], int]) -> None:
    queue = Queue(client, "/jobs")
    await queue.put_many([b"first", b"second", b"third"])
    sent()
    await queue.put(b"fourth")
    assert sent() == 1, "the item, and the number of items for the next put"
    await queue.put_many([b"fifth", b"sixth"])
    assert sent() == 1
    await enter(queue.try_get())  # makes the path of the claims
    sent()
    async with Queue(client, "/jobs").consume() as items:
        item = await anext(items)
        assert sent() == 2, "the lists; the claim, with the reads of it and of the item"
        await item.ack()
        assert sent() == 1
        await anext(items)
        assert sent() == 1


@pytest.mark.parametrize(
    ("make", "segments"),
    [
        (lambda c: PersistentNode(c, "/path/one"), 1),  # its create, and its watch
        (lambda c: DoubleBarrier(c, "/path", 1), 2),  # its znode, and what is there; then `ready`
    ],
    ids=["PersistentNode", "DoubleBarrier"],
)
async def test_block_is_entered_in_few_segments(
    client: Client, sent: Callable[[], int], make: Callable[[Client], Block], segments: int
) -> None:
    await client.create("/path")
    sent()
    async with make(client):
        assert sent() == segments


async def test_config_is_read_in_two_segments(client: Client, sent: Callable[[], int]) -> None:
    config = Config(client, "/config")
    await config.publish({"one": b"1", "two": b"2", "three": b"3"})
    sent()
    await config.get()
    assert sent() == 2, "the version and the names of the keys; the keys, and the version again"
