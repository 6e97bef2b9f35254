"""Values and counters in the same znode as the real Curator's, in both directions."""

from __future__ import annotations

import anyio
import pytest
from assurance.interop.peers import LONG, NewCurator, Peer, PeerError
from kit.clients import eventually

from aiolead import Client, Counter, SequenceAllocator, SharedValue, TreeCache
from aiolead.errors import CounterOverflowError, InvalidDataError
from aiolead.types import Codec

PATH = "/values/one"


# --- SharedValue and SharedCount -----------------------------------------------------------------


async def test_both_update_a_shared_value(client: Client, java: Peer) -> None:
    ours = SharedValue(client, PATH, b"default")
    assert await java("shared.start", PATH, b"seed") == b"seed".hex()
    assert (await ours.get()).value == b"seed"
    async with ours.observe() as view:
        await ours.set(b"\x00\xff")
        assert await java("shared.await", PATH, b"\x00\xff", LONG) == "00ff"
        await java("shared.set", PATH, b"theirs")
        await eventually(lambda: view.value == b"theirs", "we follow it")
        now = await ours.get()
        assert await java.is_so("shared.try-set", PATH, b"quicker")
        assert await ours.compare_and_set(now, b"slower") is None
        await eventually(lambda: view.value == b"quicker", "we follow that, too")


async def test_curator_finds_a_shared_value(client: Client, java: Peer) -> None:
    await SharedValue(client, PATH).set(b"first")
    assert await java("shared.start", PATH, b"seed") == b"first".hex()
    # Curator's value is old for a moment; its compare-and-set must not overwrite the new one.
    await SharedValue(client, PATH).set(b"second")
    if not await java.is_so("shared.try-set", PATH, b"third"):
        assert (await SharedValue(client, PATH).get()).value == b"second"


@pytest.mark.parametrize("number", [0, 1, -1, 2**31 - 1, -(2**31)])
async def test_shared_count_is_a_value_of_four_bytes(
    client: Client, java: Peer, number: int
) -> None:
    ours = SharedValue(client, PATH, 7, codec=Codec.int32())
    assert int(await java("count.start", PATH, number)) == number
    assert (await ours.get()).value == number
    await ours.set(-3)
    assert await java("count.await", PATH, -3, LONG) == "-3"
    await ours.set(number)
    assert int(await java("count.await", PATH, number, LONG)) == number


async def test_both_update_a_shared_count(client: Client, java: Peer) -> None:
    ours = SharedValue(client, PATH, 0, codec=Codec.int32())
    await java("count.start", PATH, 0)

    async def theirs() -> None:
        for _ in range(20):
            while not await java.is_so("count.try-increment", PATH):
                pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(theirs)
        for _ in range(20):
            await ours.update(lambda value: value + 1)
    assert (await ours.get()).value == 40


# --- Counter and DistributedAtomicLong -----------------------------------------------------------


async def test_counter_is_an_atomic_long(client: Client, java: Peer) -> None:
    counter = Counter(client, PATH)
    assert await java("atomic.add", PATH, 5) == "5"
    assert await counter.get() == 5
    assert await counter.add(-7) == -2
    assert await java("atomic.get", PATH) == "-2"
    assert await counter.compare_and_set(-2, 2**63 - 1)
    assert await java("atomic.get", PATH) == str(2**63 - 1)
    with pytest.raises(CounterOverflowError):
        await counter.add(1)
    await java("atomic.set", PATH, -(2**63))
    assert await counter.get() == -(2**63)


async def test_counter_starts_as_an_atomic_long(client: Client, java: Peer) -> None:
    assert await Counter(client, PATH).add(1) == 1
    assert not await java.is_so("atomic.initialize", PATH, 9)
    assert await java("atomic.add", PATH, 1) == "2"
    assert await java("atomic.add", "/values/theirs", 1) == "1"
    assert await Counter(client, "/values/theirs").add(1) == 2


async def test_counter_of_four_bytes_is_an_atomic_integer(client: Client, java: Peer) -> None:
    counter = Counter(client, PATH, codec=Codec.int32())
    assert await counter.add(40) == 40
    assert await java("atomic.add-int", PATH, 2) == "42"
    assert await counter.get() == 42
    with pytest.raises(InvalidDataError):
        await Counter(client, PATH).get()


@pytest.mark.parametrize("promoted", [False, True])
async def test_no_count_is_lost_beside_curator(
    client: Client, java: Peer, curator: NewCurator, promoted: bool
) -> None:
    async with curator() as other:
        counter = Counter(client, PATH, lock="/values/lock", promote_after=0 if promoted else 1000)

        counted = 15

        async def theirs(actor: Peer) -> None:
            nonlocal counted
            for _ in range(15):
                try:
                    if promoted:
                        await actor("atomic.add-promoted", PATH, 1, "/values/lock")
                    else:
                        await actor("atomic.add", PATH, 1)
                except PeerError as failed:
                    # It tries again as often as its policy says, and then says so.
                    if "did not succeed" not in str(failed):
                        raise
                else:
                    counted += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(theirs, java)
            tasks.start_soon(theirs, other)
            for _ in range(15):
                await counter.add(1)
        assert await counter.get() == counted


# --- SequenceAllocator and CachedAtomicLong ------------------------------------------------------


async def test_blocks_of_numbers_alternate(client: Client, java: Peer) -> None:
    ours = SequenceAllocator(client, PATH, block=5)
    assert await ours.next() == 1
    # Curator takes the next block, of its own size.
    assert [await java("atomic.next", PATH, 3) for _ in range(3)] == ["6", "7", "8"]
    assert [await ours.next() for _ in range(5)] == [2, 3, 4, 5, 9]
    assert await java("atomic.next", PATH, 3) == "14"
    assert await ours.take(2) == range(10, 12), "the rest of its block"


async def test_no_number_is_given_out_twice_beside_curator(client: Client, java: Peer) -> None:
    ours = SequenceAllocator(client, PATH, block=3)
    numbers: list[int] = []

    async def theirs() -> None:
        while len(numbers) < 60:
            try:
                numbers.append(int(await java("atomic.next", PATH, 2)))
            except PeerError as failed:
                if "did not succeed" not in str(failed):
                    raise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(theirs)
        while len(numbers) < 60:
            numbers.append(await ours.next())
    assert len(set(numbers)) == len(numbers)


# --- TreeCache and CuratorCache ------------------------------------------------------------------


async def test_caches_have_the_same_tree(client: Client, java: Peer) -> None:
    """They have no layout: what either writes, both follow."""
    async with TreeCache(client, "/tree") as cache:
        await java("create", "/tree/java/below", b"theirs")
        await client.create("/tree/python", b"ours")
        for path, data in (("/tree/java/below", b"theirs"), ("/tree/python", b"ours")):
            assert await java("cache.await", "/tree", path, data, LONG) == data.hex()
            await eventually(
                lambda path=path, data=data: (
                    (node := cache.get(path)) is not None  # type: ignore[misc]
                    and node.data == data
                ),
                f"we have {path}",
            )
        await client.set("/tree/java/below", b"changed")
        await client.delete("/tree/python")
        changed = ("/tree", "/tree/java/below", b"changed", LONG)
        assert await java("cache.await", *changed) == b"changed".hex()
        assert await java("cache.await", "/tree", "/tree/python", "nothing", LONG) == "nothing"
        await eventually(lambda: "/tree/python" not in cache, "it is gone")
