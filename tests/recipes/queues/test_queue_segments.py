"""Requests of queues that belong together leave in one segment."""

from __future__ import annotations

from typing import Any

import pytest

from aiolead import Queue, connect
from aiolead._session.machine import SessionMachine
from aiolead.testing import EmbeddedServer

# On a socket: carriers of other connections send once per turn of the event loop anyway.
pytestmark = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])


async def test_a_put_is_one_segment_and_an_item_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    segments: list[bytes] = []
    data_to_send = SessionMachine.data_to_send

    def recorded(machine: SessionMachine, *args: Any) -> bytes:
        data = data_to_send(machine, *args)
        if data:
            segments.append(data)
        return data

    def sent() -> int:
        count = len(segments)
        segments.clear()
        return count

    async with EmbeddedServer(tick_time=3) as server:
        monkeypatch.setattr(SessionMachine, "data_to_send", recorded)
        hosts = server.connect_string
        async with connect(hosts, session_timeout=60) as client:
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
