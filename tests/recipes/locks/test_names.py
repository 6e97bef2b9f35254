"""Names that nobody else has."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest
from kit.clients import (
    PATIENCE,
    Served,
    catch_up,
    connect,
    contenders_left,
    eventually,
    in_memory,
)

from aiolead import AcquireTimeout, Client, LockLost, UniqueNames
from aiolead._wire.codes import OpCode
from aiolead.errors import ConfigurationError, LossReason
from aiolead.testing import EmbeddedServer

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/app/names"


async def test_the_lowest_free_name_is_had(server: Served) -> None:
    async with connect(server) as a, connect(server) as b:
        ours, theirs = UniqueNames(a, PATH, identity="we"), UniqueNames(b, PATH, identity="they")
        async with ours.claim("worker") as first:
            assert (first.name, first.number, first.path) == ("worker-0", 0, f"{PATH}/worker-0")
            async with theirs.claim("worker") as second, theirs.claim("other") as third:
                assert (second.name, third.name) == ("worker-1", "other-0")
                await first.verify()
                assert second.token > first.token
                await catch_up(a)
                taken = await ours.holders()
                assert {name: who.identity for name, who in taken.items()} == {
                    "other-0": "they",
                    "worker-0": "we",
                    "worker-1": "they",
                }
                await first.release()
                await catch_up(b)
                async with theirs.claim("worker") as again:
                    assert again.name == "worker-0"
        await catch_up(a)
        assert await ours.holders() == {}


async def test_many_want_one_at_once(server: Served) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(server)) for _ in range(3)]
        had: list[str] = []
        everybody = anyio.Event()

        async def claim(client: Client) -> None:
            async with UniqueNames(client, PATH).claim("n") as held:
                had.append(held.name)
                if len(had) == 9:
                    everybody.set()
                await everybody.wait()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for client in clients * 3:
                    tasks.start_soon(claim, client)
        assert sorted(had) == [f"n-{number}" for number in range(9)]


async def test_who_finds_none_free_waits(server: Served) -> None:
    async with connect(server) as a, connect(server) as b:
        ours, theirs = UniqueNames(a, PATH), UniqueNames(b, PATH)
        async with AsyncExitStack() as stack:
            held = [await stack.enter_async_context(ours.claim("s", most=2)) for _ in range(2)]
            async with theirs.try_claim("s", most=2) as none:
                assert none is None
            with pytest.raises(AcquireTimeout):
                async with theirs.claim("s", most=2, timeout=0.05):
                    pass
            got: list[int] = []

            async def wait() -> None:
                async with theirs.claim("s", most=2, timeout=PATIENCE) as later:
                    got.append(later.number)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.sleep(0.01)
                await held[1].release()
            assert got == [1]


async def test_a_name_is_lost_like_a_lock() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        for reason in (LossReason.DELETED, LossReason.EXPIRED):
            with pytest.raises(LockLost) as lost:
                async with UniqueNames(a, PATH).claim("n") as held:
                    if reason is LossReason.DELETED:
                        await eventually(lambda: server.watches() != {}, "it is watched")
                        await b.delete(held.path)
                    else:
                        server.expire_session(a.session_id)
                    await anyio.sleep_forever()
            assert lost.value.reason is reason
            async with UniqueNames(a, PATH).claim("n", timeout=PATIENCE) as again:
                assert again.name == "n-0"
        await eventually(lambda: contenders_left(server, PATH) == [], "nothing is left")


@pytest.mark.parametrize("is_applied", [True, False], ids=["applied", "not applied"])
async def test_the_answer_to_the_create_is_lost(is_applied: bool) -> None:
    """The name is ours all the same: nobody waits for his own ghost."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        names = UniqueNames(client, PATH)
        async with names.claim("n"):
            pass
        drop = server.drop_reply if is_applied else server.drop_request
        drop(OpCode.CREATE2)
        async with names.claim("n", most=1, timeout=PATIENCE) as held:
            assert held.name == "n-0"
            assert contenders_left(server, PATH) == [held.path]
        await eventually(lambda: contenders_left(server, PATH) == [], "nothing is left")


async def test_it_costs_two_requests() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        async with in_memory(server, session_timeout=60) as client:
            names = UniqueNames(client, PATH)
            async with names.claim("n"):
                pass
            before = server.requests.copy()
            async with names.claim("n"):
                assert server.requests - before == {"GET_CHILDREN": 1, "CREATE2": 1}


@pytest.mark.parametrize("kind", ["", "a/b", "a\0", 1])
async def test_arguments_are_checked(kind: str) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        requests = server.requests.copy()
        with pytest.raises(ConfigurationError):
            UniqueNames(client, PATH).claim(kind)
        with pytest.raises(ConfigurationError):
            UniqueNames(client, PATH).claim("n", most=0)
        with pytest.raises(ConfigurationError):
            UniqueNames(client, PATH).claim("n", timeout=-1)
        assert server.requests == requests
