"""What trio's carrier promises: at once where that can be, in order, no error for the caller."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from kit.checks import PATIENCE

from aiolead._client.net.carrier import TrioCarrier

pytestmark = pytest.mark.parametrize("anyio_backend", [pytest.param(("trio", {}), id="trio")])

LARGE = 4 << 20
"""More than a socket takes at a time, in bytes."""


@asynccontextmanager
async def carried(take: Callable[[], bytes]) -> AsyncIterator[tuple[TrioCarrier, socket.socket]]:
    """A carrier whose sender waits for something to send, and the other end."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        stream = await anyio.connect_tcp(*listener.getsockname())
        other, _ = listener.accept()
    carrier = TrioCarrier(stream)
    with other:
        other.setblocking(False)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(carrier.carry, lambda _: None, take)
                await anyio.wait_all_tasks_blocked()
                yield carrier, other
                tasks.cancel_scope.cancel()
        finally:
            await carrier.aclose()


async def all_of(other: socket.socket, size: int) -> bytes:
    got = b""
    with anyio.fail_after(PATIENCE):
        while len(got) < size:
            await anyio.wait_readable(other)
            got += other.recv(1 << 20)
    return got


async def test_what_can_leave_at_once_does() -> None:
    waiting: list[bytes] = []
    async with carried(lambda: waiting.pop() if waiting else b"") as (carrier, other):
        waiting += [b"two", b"one"]
        carrier.push()
        assert waiting == []
        assert await all_of(other, 6) == b"onetwo"


async def test_what_cannot_leave_at_once_leaves_in_order() -> None:
    waiting: list[bytes] = []
    async with carried(lambda: waiting.pop(0) if waiting else b"") as (carrier, other):
        waiting += [b"a" * LARGE, b"b"]
        carrier.push()
        assert waiting == [b"b"]  # no more is taken than has left
        waiting.append(b"c" * LARGE)
        carrier.push()
        expected = b"a" * LARGE + b"b" + b"c" * LARGE
        assert await all_of(other, len(expected)) == expected


async def test_a_broken_link_is_not_the_callers() -> None:
    waiting: list[bytes] = []
    # The kernel tells of it once: the first one that hears of it is the push, and what is left for
    # the tasks may look like an end in good order.
    ended = (anyio.BrokenResourceError, anyio.EndOfStream)
    with pytest.RaisesGroup(pytest.RaisesExc(ended), flatten_subgroups=True):
        async with carried(lambda: waiting.pop(0) if waiting else b"") as (carrier, other):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            other.close()
            waiting.append(b"a")
            carrier.push()
            await anyio.sleep(5)


async def test_a_defect_is_not_the_callers() -> None:
    def take() -> bytes:
        if is_broken:
            raise ZeroDivisionError
        return b""

    is_broken = False
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with carried(take) as (carrier, _):
            is_broken = True
            carrier.push()
            await anyio.sleep(5)
