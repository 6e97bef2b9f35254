"""Semaphores and barriers on one path with the real Curator, in both directions."""

from __future__ import annotations

import anyio
import pytest
from assurance.interop.peers import LONG, SHORT, Connect, NewCurator, Peer
from kit.clients import children_are, joined
from recipes.blocks import Holder

import aiolead
from aiolead import AcquireTimeout, Barrier, Client, DoubleBarrier, Semaphore, SharedValue
from aiolead.types import Codec

PATH = "/barriers/one"
LOCKS = f"{PATH}/locks"
"""The queue of a semaphore."""


# --- Semaphore and InterProcessSemaphoreV2 -------------------------------------------------------


async def test_permits_are_shared(client: Client, java: Peer) -> None:
    semaphore = Semaphore(client, PATH, 3, identity="python")
    async with semaphore:
        assert await java.is_so("semaphore.acquire", PATH, 3, 2, LONG)
        assert not await java.is_so("semaphore.acquire", PATH, 3, 1, SHORT)
        holders = await semaphore.holders()
        assert sorted(each.identity for each in holders) == ["curator", "curator", "python"]
        waiting = java.begin("semaphore.acquire", PATH, 3, 1, LONG)
        await joined(client, LOCKS, 1)
        assert not waiting.is_done
    assert await waiting.wait() == "true"
    async with semaphore.try_acquire() as held:
        assert held is None
    with pytest.raises(AcquireTimeout):
        async with semaphore.acquire(timeout=0.1):
            pass
    holder = Holder(semaphore.acquire(permits=2), 0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holder)
        await joined(client, LOCKS, 1)
        await java("semaphore.release", PATH, 1)
        await client.sync("/")
        assert not holder.has_entered
        await java("semaphore.release", PATH, 1)
    assert holder.has_entered
    assert [each.identity for each in await semaphore.holders()] == ["curator"]


async def test_semaphore_of_one_is_a_semaphore_mutex(client: Client, java: Peer) -> None:
    semaphore = Semaphore(client, PATH, 1)
    async with semaphore:
        assert not await java.is_so("smutex.acquire", PATH, SHORT)
    assert await java.is_so("smutex.acquire", PATH, LONG)
    async with semaphore.try_acquire() as held:
        assert held is None
    await java("smutex.release", PATH)
    async with semaphore.acquire(timeout=LONG / 1000) as held:
        await held.verify()


async def test_curator_follows_a_changed_limit(client: Client, java: Peer) -> None:
    semaphore = Semaphore(client, PATH, 1)
    await semaphore.set_limit(2)
    limit = f"{PATH}/limit"
    assert await java.is_so("semaphore.acquire", PATH, limit, 2, LONG)
    waiting = java.begin("semaphore.acquire", PATH, limit, 1, LONG)
    await joined(client, LOCKS, 1)
    await semaphore.set_limit(3)
    assert await waiting.wait() == "true"


async def test_aiolead_follows_a_changed_limit(client: Client, java: Peer) -> None:
    limit = f"{PATH}/limit"
    await java("count.start", limit, 1)
    semaphore = Semaphore(client, PATH, 5)
    assert await semaphore.limit() == 1
    assert await java.is_so("semaphore.acquire", PATH, limit, 1, LONG)
    holder = Holder(semaphore, 0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holder)
        await joined(client, LOCKS, 1)
        assert not holder.has_entered
        await java("count.set", limit, 2)
    assert holder.has_entered
    assert (await SharedValue(client, limit, 0, codec=Codec.int32()).get()).value == 2


async def test_permits_of_a_closed_peer_come_back(client: Client, curator: NewCurator) -> None:
    semaphore = Semaphore(client, PATH, 2)
    async with curator() as java:
        assert await java.is_so("semaphore.acquire", PATH, 2, 2, LONG)
    async with semaphore.acquire(permits=2, timeout=LONG / 1000) as held:
        assert held.is_held


# --- Barrier -------------------------------------------------------------------------------------


async def test_barrier_is_shared(client: Client, java: Peer) -> None:
    barrier = Barrier(client, PATH)
    assert await java.is_so("barrier.wait", PATH, LONG)
    await barrier.set()
    assert not await java.is_so("barrier.wait", PATH, SHORT)
    waiting = java.begin("barrier.wait", PATH, LONG)
    assert await barrier.is_set()
    await barrier.remove()
    assert await waiting.wait() == "true"

    await java("barrier.set", PATH)
    assert await barrier.is_set()
    waited = anyio.Event()

    async def wait() -> None:
        await barrier.wait()
        waited.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await client.sync("/")
        assert not waited.is_set()
        await java("barrier.remove", PATH)
    assert waited.is_set()
    # Done once more, it is as it was.
    await java("barrier.set", PATH)
    await barrier.set()
    await barrier.remove()
    await java("barrier.remove", PATH)
    assert not await barrier.is_set()


# --- DoubleBarrier -------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["python", "java"])
@pytest.mark.parametrize("last", ["python", "java"])
async def test_double_barrier_is_shared(client: Client, java: Peer, first: str, last: str) -> None:
    """With each order of arrivals and departures."""
    inside, leave = anyio.Event(), anyio.Event()
    left = anyio.Event()

    async def take_part() -> None:
        async with DoubleBarrier(client, PATH, 2):
            inside.set()
            await leave.wait()
        left.set()

    async with anyio.create_task_group() as tasks:
        if first == "python":
            tasks.start_soon(take_part)
            await joined(client, PATH, 1)
            await client.sync("/")
            assert not inside.is_set()
            assert await java.is_so("dbarrier.enter", PATH, 2, LONG)
        else:
            entering = java.begin("dbarrier.enter", PATH, 2, LONG)
            await joined(client, PATH, 1)
            assert not entering.is_done
            tasks.start_soon(take_part)
            assert await entering.wait() == "true"
        await inside.wait()
        if last == "python":
            leaving = java.begin("dbarrier.leave", PATH, LONG)
            await client.sync("/")
            assert not leaving.is_done
            leave.set()
            assert await leaving.wait() == "true"
        else:
            leave.set()
            await client.sync("/")
            assert not left.is_set()
            assert await java.is_so("dbarrier.leave", PATH, LONG)
        await left.wait()

    await children_are(client, PATH)


async def test_three_members_enter_three_rounds(
    client: Client, connect: Connect, curator: NewCurator
) -> None:
    async with connect() as second, curator() as java:
        rounds: list[int] = []

        async def take_part(one: aiolead.Client) -> None:
            async with DoubleBarrier(one, PATH, 3) as member:
                rounds.append(member.round)

        for number in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take_part, client)
                tasks.start_soon(take_part, second)
                assert await java.is_so("dbarrier.enter", PATH, 3, LONG)
                assert await java.is_so("dbarrier.leave", PATH, LONG)
            assert len(rounds) == 2 * (number + 1)
        assert len(set(rounds)) == 3


async def test_member_of_a_closed_peer_blocks_nobody(client: Client, curator: NewCurator) -> None:
    async with curator() as java:
        entering = java.begin("dbarrier.enter", PATH, 2, LONG)
        await joined(client, PATH, 1)
        async with DoubleBarrier(client, PATH, 2):
            assert await entering.wait() == "true"
            # It goes without leaving.
            await java.close()
