"""Unique names: each is held by one client at a time."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, contenders_left
from recipes.blocks import enter
from recipes.crowd import crowd

from aiolead import Client, UniqueNames
from aiolead.testing import EmbeddedServer, OpCode

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/app/names"


async def test_lowest_free_name_is_claimed(a: Client, b: Client) -> None:
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


async def test_concurrent_claims_get_different_names(server: ServerUnderTest) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(server)) for _ in range(3)]
        async with crowd() as them:
            for number in range(9):
                them.come(str(number), to=UniqueNames(clients[number % 3], PATH).claim("n"))
            await them.are_inside(*map(str, range(9)))
            had = sorted(held.name for held in them.inside.values())
    assert had == [f"n-{number}" for number in range(9)]


@pytest.mark.parametrize("is_applied", [True, False], ids=["applied", "not applied"])
async def test_name_whose_create_had_no_answer_is_claimed_all_the_same(
    embedded_server: EmbeddedServer, local: Client, is_applied: bool
) -> None:
    names = UniqueNames(local, PATH)
    await enter(names.claim("n"))
    (embedded_server.drop_reply if is_applied else embedded_server.drop_request)(OpCode.CREATE2)
    async with names.claim("n", most=1, timeout=PATIENCE) as held:
        assert held.name == "n-0"
        assert contenders_left(embedded_server, PATH) == [held.path]
