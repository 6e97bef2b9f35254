"""On one path with the `WriteLock` that comes with ZooKeeper, in both directions."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from support.curator import Curator
from support.recipes import eventually, joined

import aiolead
from aiolead import Layout, Lock, MixedLayoutError

NewCurator = Callable[[], Curator]
Connect = Callable[[], aiolead.Connection]

PATH = "/write-lock"


async def test_a_lock_and_a_write_lock_exclude_each_other(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client, curator() as java:
        lock = Lock(client, PATH, layout=Layout.WRITE_LOCK)
        async with lock as held:
            assert held.path.startswith(f"{PATH}/x-{_as_java(client.session_id)}-")
            assert not await java.is_so("writelock.lock", PATH)
            await joined(client, PATH, 2)
            assert not await java.is_so("writelock.owns", PATH)
        await eventually(lambda: java.is_so("writelock.owns", PATH), "it is its turn")
        async with lock.try_hold() as none:
            assert none is None
        entered = anyio.Event()

        async def hold() -> None:
            async with lock:
                entered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await joined(client, PATH, 2)
            assert not entered.is_set()
            first, second = await lock.contenders()
            assert (first.session_id, second.session_id) == (java.session_id, client.session_id)
            await java("writelock.unlock", PATH)
        assert entered.is_set()


async def test_a_write_lock_is_refused_where_curator_would_not_see_it(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client, curator() as java:
        assert await java.is_so("writelock.lock", PATH)
        with pytest.raises(MixedLayoutError, match=r"use layout=Layout\.WRITE_LOCK"):
            async with Lock(client, PATH):
                pytest.fail("a mutex of Curator's would not see it")


def _as_java(session_id: int) -> int:
    """As a `long`."""
    return (session_id + 2**63) % 2**64 - 2**63
