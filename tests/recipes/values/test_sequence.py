"""Numbers that are given out once."""

from __future__ import annotations

import random

import anyio
import pytest
from support.recipes import Served, connect, eventually, in_memory
from support.virtual_time import connect as connect_virtually
from support.virtual_time import embedded, virtually

from aiolead import SequenceAllocator
from aiolead._wire.codes import OpCode
from aiolead.errors import ConfigurationError, InvalidDataError, SequenceExhaustedError
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/app/ids"


async def test_numbers_rise_from_one(server: Served) -> None:
    async with connect(server) as client:
        numbers = SequenceAllocator(client, PATH)
        assert [await numbers.next() for _ in range(3)] == [1, 2, 3]
        assert await numbers.take(5) == range(4, 9)
        assert await numbers.next() == 9
        assert (await client.get(PATH))[0] == (9).to_bytes(8, "big")


async def test_nobody_gets_the_same(server: Served) -> None:
    """Whatever the blocks are, and however many ask at once."""
    async with connect(server) as a, connect(server) as b:
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


async def test_stamps_are_never_repeated(server: Served) -> None:
    async with connect(server) as client:
        numbers = SequenceAllocator(client, PATH)
        stamps = [await numbers.stamp() for _ in range(3)]
        await client.delete_all("/app")
        stamps += [await numbers.stamp() for _ in range(3)]
        assert stamps == sorted(set(stamps))
        assert await client.get_children(PATH) == ["stamp"]
        assert await numbers.next() == 1


async def test_a_block_costs_two_requests() -> None:
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


@pytest.mark.parametrize("is_applied", [True, False], ids=["applied", "not applied"])
@virtually
async def test_the_answer_is_lost(is_applied: bool) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        numbers = SequenceAllocator(client, PATH)
        given = [await numbers.next(), await numbers.stamp()]
        for _ in range(3):
            drop = server.drop_reply if is_applied else server.drop_request
            drop(OpCode.SET_DATA)
            given.append(await numbers.next())
            drop(OpCode.SET_DATA)
            given.append(await numbers.stamp())
        assert len(given) == len(set(given))
        assert [given[n] for n in (0, 2, 4, 6)] == ([1, 3, 5, 7] if is_applied else [1, 2, 3, 4])


async def test_a_session_that_expires_changes_nothing() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        numbers = SequenceAllocator(client, PATH, block=2)
        assert await numbers.next() == 1
        session_id = client.session_id
        server.expire_session(session_id)
        assert await numbers.next() == 2
        assert await numbers.next() == 3
        await eventually(lambda: client.session_id != session_id, "another session")


async def test_who_has_counted_does_not_go_back() -> None:
    """The path is deleted: it starts anew for those who have not counted yet."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        old, new = SequenceAllocator(a, PATH), SequenceAllocator(b, PATH)
        for _ in range(3):
            await old.next()
        await a.delete(PATH)
        assert await old.next() == 4
        assert await new.next() == 5


async def test_it_comes_to_its_end() -> None:
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


async def test_what_is_no_number_is_refused() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.ensure_path(PATH)
        await client.set(PATH, b"?")
        with pytest.raises(InvalidDataError):
            await SequenceAllocator(client, PATH).next()
        requests = server.requests.copy()
        for options in ({"block": 0}, {"last": 0}, {"last": 2**63}, {"rng": 1}, {"path": "/"}):
            with pytest.raises(ConfigurationError):
                SequenceAllocator(client, **{"path": PATH, **options})  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError):
            await SequenceAllocator(client, PATH).take(0)
        assert server.requests == requests
