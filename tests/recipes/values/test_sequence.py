"""Numbers that are given out once."""

from __future__ import annotations

import random

import anyio
import pytest
from kit.clients import catch_up, in_memory
from kit.virtual_time import Drop, embedded, lost_message, virtually
from kit.virtual_time import connect as connect_virtually

from aiolead import Client, SequenceAllocator, admin
from aiolead._wire.codes import OpCode
from aiolead.errors import InvalidDataError, SequenceExhaustedError
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/app/ids"


async def test_numbers_rise_from_one(client: Client) -> None:
    numbers = SequenceAllocator(client, PATH)
    assert [await numbers.next() for _ in range(3)] == [1, 2, 3]
    assert await numbers.take(5) == range(4, 9)
    assert await numbers.next() == 9
    assert (await client.get(PATH))[0] == (9).to_bytes(8, "big")


async def test_no_number_is_given_twice(a: Client, b: Client) -> None:
    """With blocks of any size, and many concurrent calls."""
    allocators = [
        SequenceAllocator(client, PATH, block=block, rng=random.Random(2))
        for client, block in ((a, 1), (b, 7), (b, 3))
    ]
    given: list[int] = []

    async def ask(allocator: SequenceAllocator) -> None:
        mine = [await allocator.next() for _ in range(10)]
        assert mine == sorted(mine)
        given.extend(mine)

    async with anyio.create_task_group() as tasks:
        for allocator in allocators:
            tasks.start_soon(ask, allocator)
    assert len(given) == len(set(given)) == 30
    assert max(given) <= 10 + 14 + 12


async def test_stamps_are_never_repeated(client: Client) -> None:
    numbers = SequenceAllocator(client, PATH)
    stamps = [await numbers.stamp() for _ in range(3)]
    await admin.delete_all(client, "/app")
    stamps += [await numbers.stamp() for _ in range(3)]
    assert stamps == sorted(set(stamps))
    assert await client.get_children(PATH) == ["stamp"]
    assert await numbers.next() == 1


async def test_block_costs_two_requests() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        numbers = SequenceAllocator(client, PATH, block=50)
        await numbers.next()
        before = server.requests.copy()
        for _ in range(49):
            await numbers.next()
        assert server.requests == before
        assert numbers.at_hand == 0
        assert await numbers.next() == 51
        assert server.requests - before == {"GET_DATA": 1, "SET_DATA": 1}
        assert numbers.at_hand == 49


async def test_tasks_of_one_process_share_a_block() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        numbers = SequenceAllocator(client, PATH, block=10)
        given: list[int] = []

        async def ask() -> None:
            given.append(await numbers.next())

        async with anyio.create_task_group() as tasks:
            for _ in range(25):
                tasks.start_soon(ask)
        assert sorted(given) == list(range(1, 26))
        assert server.requests["SET_DATA"] == 2


async def test_numbers_rise_by_next_and_take_alike(a: Client, b: Client) -> None:
    mine, theirs = SequenceAllocator(a, PATH, block=10), SequenceAllocator(b, PATH, block=10)
    given = [await mine.next(), *await mine.take(3), await mine.next()]
    assert given == [1, 2, 3, 4, 5]
    assert await mine.take(7) == range(6, 13)  # five at hand, and two behind them
    assert mine.at_hand == 0
    assert await mine.next() == 13
    assert await theirs.next() == 23
    await catch_up(a)
    # The nine at hand are too few, and the numbers behind them are taken: they are given up.
    assert await mine.take(12) == range(33, 45)
    assert await mine.next() == 45


async def test_failed_take_leaves_the_numbers_at_hand() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        numbers = SequenceAllocator(client, PATH, block=5, last=7)
        assert await numbers.next() == 1
        with pytest.raises(SequenceExhaustedError):
            await numbers.take(8)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await numbers.take(6)
        assert numbers.at_hand == 4
        assert await numbers.take(6) == range(2, 8)


@virtually
async def test_numbers_of_one_object_rise_whatever_is_called_at_once() -> None:
    """Tasks of two clients, with lost messages and cancelled calls."""
    rng = random.Random(3)
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:

        async def ask(allocator: SequenceAllocator, given: list[int]) -> None:
            for _ in range(40):
                with anyio.move_on_after(rng.choice((0.001, 1.0, 10.0))):
                    if rng.random() < 0.5:
                        given.append(await allocator.next())
                    else:
                        given.extend(await allocator.take(rng.randrange(1, 9)))
                if rng.random() < 0.1:
                    rng.choice((server.drop_reply, server.drop_request))(OpCode.SET_DATA)

        objects: list[list[int]] = [[], [], []]
        async with anyio.create_task_group() as tasks:
            for given, client, block in zip(objects, (a, a, b), (1, 7, 5), strict=True):
                allocator = SequenceAllocator(client, PATH, block=block)
                for _ in range(3):
                    tasks.start_soon(ask, allocator, given)
        for given in objects:
            assert given == sorted(given)
            assert len(given) > 200
        all_given = [number for given in objects for number in given]
        assert len(all_given) == len(set(all_given))


@lost_message
@virtually
async def test_lost_message_repeats_no_number(drop: Drop) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        numbers = SequenceAllocator(client, PATH)
        given = [await numbers.next(), await numbers.stamp()]
        for _ in range(3):
            for allocate in (numbers.next, numbers.stamp):
                drop(server, OpCode.SET_DATA)
                given.append(await allocate())
        assert len(given) == len(set(given))
        is_applied = drop is EmbeddedServer.drop_reply
        assert given[::2] == ([1, 3, 5, 7] if is_applied else [1, 2, 3, 4])


async def test_allocator_does_not_go_back_when_the_path_is_deleted() -> None:
    """The path is deleted: it starts again for clients that have not counted yet."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        old, new = SequenceAllocator(a, PATH), SequenceAllocator(b, PATH)
        for _ in range(3):
            await old.next()
        await a.delete(PATH)
        assert await old.next() == 4
        assert await new.next() == 5


async def test_allocation_fails_after_the_last_number() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        numbers = SequenceAllocator(client, PATH, block=4, last=6)
        assert [await numbers.next() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
        for _ in range(2):
            with pytest.raises(SequenceExhaustedError, match="up to 6"):
                await numbers.next()
        with pytest.raises(SequenceExhaustedError):
            await numbers.take(1)
        longest = SequenceAllocator(client, PATH)
        await client.set(PATH, (2**63 - 2).to_bytes(8, "big"))
        assert await longest.next() == 2**63 - 1
        with pytest.raises(SequenceExhaustedError):
            await longest.next()


async def test_data_that_are_no_number_are_refused() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.ensure_path(PATH)
        await client.set(PATH, b"?")
        with pytest.raises(InvalidDataError):
            await SequenceAllocator(client, PATH).next()
