"""Connections in memory follow the contract of byte streams of anyio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiolead.testing.streams import memory_stream_pair


async def test_data_arrive_in_order_both_ways() -> None:
    a, b = memory_stream_pair()
    await a.send(b"one")
    await a.send(b"two")
    await b.send(b"back")
    assert await b.receive() == b"onetwo"
    assert await a.receive() == b"back"


async def test_receive_respects_max_bytes() -> None:
    a, b = memory_stream_pair()
    await a.send(b"12345")
    assert [await b.receive(2), await b.receive(2), await b.receive(2)] == [b"12", b"34", b"5"]
    with pytest.raises(ValueError, match="max_bytes"):
        await b.receive(0)


async def test_slow_receiver_slows_the_sender() -> None:
    a, b = memory_stream_pair(10)
    data = bytes(range(100))
    progress = []

    async def send() -> None:
        await a.send(data)
        progress.append("sent")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        received = b""
        while len(received) < 90:
            assert progress == []
            received += await b.receive()
            await anyio.wait_all_tasks_blocked()
        received += await b.receive()
    assert received == data


@pytest.mark.parametrize("how", ["aclose", "send_eof"])
async def test_data_sent_before_the_end_arrive(how: str) -> None:
    a, b = memory_stream_pair()
    await a.send(b"last words")
    await getattr(a, how)()
    assert await b.receive() == b"last words"
    for _ in range(2):
        with pytest.raises(anyio.EndOfStream):
            await b.receive()


async def test_send_eof_ends_one_direction() -> None:
    a, b = memory_stream_pair()
    await a.send_eof()
    with pytest.raises(anyio.ClosedResourceError):
        await a.send(b"x")
    await b.send(b"answer")
    assert await a.receive() == b"answer"


async def test_send_to_a_closed_end() -> None:
    a, b = memory_stream_pair()
    await b.aclose()
    with pytest.raises(anyio.BrokenResourceError):
        await a.send(b"x")


async def test_closed_end_cannot_be_used() -> None:
    a, _ = memory_stream_pair()
    await a.aclose()
    await a.aclose()
    for use in (a.receive, lambda: a.send(b"x"), a.send_eof):
        with pytest.raises(anyio.ClosedResourceError):
            await use()


async def test_reset_drops_unread_data() -> None:
    a, b = memory_stream_pair()
    await a.send(b"lost")
    a.reset()
    with pytest.raises(anyio.BrokenResourceError):
        await b.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await b.send(b"x")
    with pytest.raises(anyio.ClosedResourceError):
        await a.receive()


@pytest.mark.parametrize(
    ("wait", "end", "error"),
    [
        ("receive", lambda a, b: a.close(), anyio.ClosedResourceError),
        ("receive", lambda a, b: b.close(), anyio.EndOfStream),
        ("receive", lambda a, b: a.reset(), anyio.ClosedResourceError),
        ("receive", lambda a, b: b.reset(), anyio.BrokenResourceError),
        ("send", lambda a, b: a.close(), anyio.ClosedResourceError),
        ("send", lambda a, b: b.close(), anyio.BrokenResourceError),
        ("send", lambda a, b: b.reset(), anyio.BrokenResourceError),
    ],
)
async def test_end_wakes_a_waiting_task(
    wait: str, end: Callable[[Any, Any], None], error: type[Exception]
) -> None:
    a, b = memory_stream_pair(1)

    async def use() -> None:
        with pytest.raises(error):
            await (a.receive() if wait == "receive" else a.send(b"too much"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        end(a, b)


async def test_one_task_at_a_time() -> None:
    a, _ = memory_stream_pair(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(a.receive)
        tasks.start_soon(a.send, b"too much")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await a.receive()
        with pytest.raises(anyio.BusyResourceError):
            await a.send(b"x")
        tasks.cancel_scope.cancel()


async def test_cancelled_receive_loses_nothing() -> None:
    a, b = memory_stream_pair()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await b.receive()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(b.receive)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await a.send(b"data")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await b.receive()
    assert await b.receive() == b"data"


async def test_cancelled_send_sends_nothing() -> None:
    a, b = memory_stream_pair()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await a.send(b"never")
    await a.aclose()
    with pytest.raises(anyio.EndOfStream):
        await b.receive()


async def test_every_call_is_a_checkpoint() -> None:
    a, b = memory_stream_pair()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        for _ in range(20):
            await a.send(b"x")
            await b.receive()
        assert turns >= 20
        tasks.cancel_scope.cancel()


def test_capacity_must_be_positive() -> None:
    with pytest.raises(ValueError, match="capacity"):
        memory_stream_pair(0)
