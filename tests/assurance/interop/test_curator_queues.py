"""Queues that are shared with the real Curator: put by one and consumed by the other."""

from __future__ import annotations

import time

import anyio
import pytest
from assurance.interop.peers import LONG, SHORT, Connect, NewCurator, Peer
from kit.clients import eventually

import aiolead
from aiolead import Client, DelayQueue, PriorityQueue, Queue

PATH = "/queues/one"
CLAIMS = "/queues/one-locks"


async def taken(java: Peer, count: int) -> list[bytes]:
    """The items of Curator's consumer, in order."""
    return [bytes.fromhex(await java("queue.take", PATH, LONG)) for _ in range(count)]


# --- first come, first served --------------------------------------------------------------------


async def test_curator_consumes_in_order(client: Client, java: Peer) -> None:
    queue = Queue(client, PATH, claims=CLAIMS)
    await queue.put(b"first")
    await java("queue.open", PATH, "fifo", "consume", CLAIMS)
    await queue.put(b"")
    await queue.put_many([b"\x00\xff", b"last"])
    assert await taken(java, 4) == [b"first", b"", b"\x00\xff", b"last"]
    assert await java("queue.take", PATH, SHORT) == "nothing"

    async def is_empty() -> bool:
        return await queue.size() == 0 and await client.get_children(CLAIMS) == []

    await eventually(is_empty, "it has taken them off")


async def test_items_of_curator_are_consumed_in_order(client: Client, java: Peer) -> None:
    queue = Queue(client, PATH, claims=CLAIMS)
    await java("queue.open", PATH, "fifo", "produce", CLAIMS)
    for item in (b"first", b"", b"\x00\xff"):
        assert await java.is_so("queue.put", PATH, item, "")
    assert await java.is_so("queue.put-several", PATH, f"{b'a'.hex()},{b'b'.hex()}")
    async with queue.consume() as items:
        for expected in ((b"first",), (b"",), (b"\x00\xff",), (b"a", b"b")):
            item = await anext(items)
            assert item.parts == expected
            await item.ack()
    assert await queue.size() == 0


async def test_claimed_item_is_not_consumed_by_curator(client: Client, java: Peer) -> None:
    queue = Queue(client, PATH, claims=CLAIMS)
    await queue.put(b"ours")
    async with queue.get() as item:
        await java("queue.open", PATH, "fifo", "consume", CLAIMS)
        await queue.put(b"theirs")
        assert await taken(java, 1) == [b"theirs"]
        assert await java("queue.take", PATH, SHORT) == "nothing"
        assert item.is_held
    # It is given back; Curator looks when something else changes.
    await queue.put(b"more")
    assert sorted(await taken(java, 2)) == [b"more", b"ours"]


async def test_curator_respects_pauses_and_reads_dead_letters(client: Client, java: Peer) -> None:
    """The claim stays during the pause; and bytes behind the end of an item do not disturb it."""
    await client.ensure_path(CLAIMS)
    failing = Queue(client, "/failing", max_attempts=1, dead_letters=PATH)
    await failing.put(b"dead")
    async with failing.get():
        pass
    queue = Queue(client, PATH, claims=CLAIMS)
    async with queue.get() as item:
        assert item.dead_letter is not None
        await item.retry(delay=LONG / 1000)
    await java("queue.open", PATH, "fifo", "consume", CLAIMS)
    await queue.put(b"alive")
    assert await taken(java, 1) == [b"alive"]
    assert await java("queue.take", PATH, SHORT) == "nothing"
    await client.delete(item.path)
    await queue.put(b"more")
    assert sorted(await taken(java, 2)) == [b"dead", b"more"]


async def test_item_that_curator_refuses_is_put_back(client: Client, curator: NewCurator) -> None:
    queue = Queue(client, PATH, claims=CLAIMS)
    async with curator() as java:
        await java("queue.refuse", PATH, 1_000_000)
        await java("queue.open", PATH, "fifo", "consume", CLAIMS)
        name = await queue.put(b"refused")

        async def was_put_again() -> bool:
            return name not in await client.get_children(PATH) and await queue.size() == 1

        await eventually(was_put_again, "it has put it back, under another number")
    async with queue.get(timeout=LONG / 1000) as item:
        assert item.data == b"refused"
        await item.ack()
    assert await queue.size() == 0


async def test_each_item_is_consumed_once(connect: Connect, curator: NewCurator) -> None:
    count = 60
    async with connect() as client, curator() as java, curator() as producer:
        queue = Queue(client, PATH, claims=CLAIMS)
        await java("queue.open", PATH, "fifo", "consume", CLAIMS)
        await producer("queue.open", PATH, "fifo", "produce", CLAIMS)
        ours: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def consume() -> None:
                async with queue.consume() as items:
                    async for item in items:
                        ours.append(item.data)
                        await item.ack()

            tasks.start_soon(consume)
            for number in range(0, count, 2):
                await queue.put(b"%d" % number)
                await producer("queue.put", PATH, b"%d" % (number + 1), "")

            async def is_empty() -> bool:
                return await queue.size() == 0

            await eventually(is_empty, "all is consumed")
            tasks.cancel_scope.cancel()
        theirs: list[bytes] = []
        while (item := await java("queue.take", PATH, SHORT)) != "nothing":
            theirs.append(bytes.fromhex(item))
        assert sorted(map(int, ours + theirs)) == list(range(count))
        assert ours


async def test_items_with_ids_are_skipped(client: Client, java: Peer) -> None:
    await java("queue.open", PATH, "id", "produce", CLAIMS)
    assert await java.is_so("queue.put", PATH, b"with an id", "some-id")
    queue = Queue(client, PATH, claims=CLAIMS)
    async with queue.try_get() as item:
        assert item is None


async def test_items_of_a_simple_queue_are_skipped(client: Client, java: Peer) -> None:
    assert await java.is_so("queue.offer-simple", PATH, b"x")
    queue = Queue(client, PATH, claims=CLAIMS)
    async with queue.try_get() as item:
        assert item is None
    await queue.put(b"ours")
    async with queue.get() as item:
        assert item.data == b"ours"


# --- priorities ----------------------------------------------------------------------------------

PRIORITIES = [5, 0, -1, 2**31 - 1, -(2**31), 5, 1]


async def test_curator_consumes_by_priority(client: Client, java: Peer) -> None:
    queue = PriorityQueue(client, PATH, claims=CLAIMS)
    for number, priority in enumerate(PRIORITIES):
        await queue.put(b"%d: %d" % (priority, number), priority=priority)
    await java("queue.open", PATH, "priority", "consume", CLAIMS)
    order = [int(item.split(b":")[0]) for item in await taken(java, len(PRIORITIES))]
    assert order == sorted(PRIORITIES)


async def test_items_of_curator_are_consumed_by_priority(client: Client, java: Peer) -> None:
    await java("queue.open", PATH, "priority", "produce", CLAIMS)
    for number, priority in enumerate(PRIORITIES):
        item = b"%d: %d" % (priority, number)
        assert await java.is_so("queue.put", PATH, item, priority)
    found: list[bytes] = []
    async with PriorityQueue(client, PATH, claims=CLAIMS).consume() as items:
        for _ in PRIORITIES:
            item = await anext(items)
            found.append(item.data)
            await item.ack()
    by_priority = sorted(enumerate(PRIORITIES), key=lambda each: each[1])
    assert found == [b"%d: %d" % (priority, number) for number, priority in by_priority]


# --- delays --------------------------------------------------------------------------------------


async def test_curator_consumes_items_that_are_due(client: Client, java: Peer) -> None:
    queue = DelayQueue(client, PATH, claims=CLAIMS)
    now = time.time()
    await queue.put(b"in an hour", delay=3600)
    await queue.put(b"second", at=now - 1)
    await queue.put(b"first", at=now - 60)
    await queue.put(b"soon", at=now + 0.5)
    await java("queue.open", PATH, "delay", "consume", CLAIMS)
    assert await taken(java, 3) == [b"first", b"second", b"soon"]
    assert time.time() >= now + 0.5 - 0.001
    assert await java("queue.take", PATH, SHORT) == "nothing"


async def test_items_of_curator_are_consumed_when_due(client: Client, java: Peer) -> None:
    await java("queue.open", PATH, "delay", "produce", CLAIMS)
    now = round(time.time() * 1000)
    for item, after in (("in an hour", 3_600_000), ("second", -1000), ("first", -60_000)):
        assert await java.is_so("queue.put", PATH, item.encode(), now + after)
    queue = DelayQueue(client, PATH, claims=CLAIMS)
    found = []
    async with queue.consume() as items:
        for _ in range(2):
            item = await anext(items)
            found.append(item.data)
            await item.ack()
    assert found == [b"first", b"second"]
    async with queue.try_get() as none:
        assert none is None
    with pytest.raises(aiolead.AcquireTimeout):
        async with queue.get(timeout=0.05):
            pass
