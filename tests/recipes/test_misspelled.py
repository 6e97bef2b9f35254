"""What people write who come from other libraries: the error shows the line that does it here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from kit.clients import in_memory

import aiolead
from aiolead import Client
from aiolead.errors import UsageError
from aiolead.testing import EmbeddedServer

HOLD = "async with lock.acquire(timeout=5) as held:"
LEAD = "async with election.leadership() as term:"
GET = "async with queue.get() as item:"
WORK = "async with board.claim() as task:"
CLAIM = "async with names.claim(kind) as held:"
ENTER = "async with barrier.enter() as member:"

RECIPES: dict[str, tuple[Callable[[Client], Any], str]] = {
    "Lock": (lambda c: aiolead.Lock(c, "/l"), HOLD),
    "ReentrantLock": (lambda c: aiolead.ReentrantLock(c, "/l"), HOLD),
    "ExclusiveLock": (lambda c: aiolead.ExclusiveLock(c, "/l"), HOLD),
    "Semaphore": (lambda c: aiolead.Semaphore(c, "/l", 2), HOLD),
    "Condition": (lambda c: aiolead.Condition(c, "/l"), HOLD),
    "ReadWriteLock.read": (lambda c: aiolead.ReadWriteLock(c, "/l").read, HOLD),
    "Election": (lambda c: aiolead.Election(c, "/l"), LEAD),
    "DoubleBarrier": (lambda c: aiolead.DoubleBarrier(c, "/l", 1), ENTER),
    "Queue": (lambda c: aiolead.Queue(c, "/l"), GET),
    "TaskBoard": (lambda c: aiolead.TaskBoard(c, "/l"), WORK),
}
CONTEXTS: dict[str, tuple[Callable[[Client], Any], str]] = {
    "hold": (lambda c: aiolead.Lock(c, "/l").acquire(), HOLD),
    "try_acquire": (lambda c: aiolead.Lock(c, "/l").try_acquire(), HOLD),
    "leadership": (lambda c: aiolead.Election(c, "/l").leadership(), LEAD),
    "several": (lambda c: aiolead.MultiLock(aiolead.Lock(c, "/l")).acquire(), HOLD),
    "enter": (lambda c: aiolead.DoubleBarrier(c, "/l", 1).enter(), ENTER),
    "get": (lambda c: aiolead.Queue(c, "/l").get(), GET),
    "work": (lambda c: aiolead.TaskBoard(c, "/l").claim(), WORK),
    "claim": (lambda c: aiolead.UniqueNames(c, "/l").claim("name"), CLAIM),
}


@pytest.mark.parametrize("name", RECIPES)
async def test_a_recipe_is_not_acquired(name: str) -> None:
    make, line = RECIPES[name]
    async with EmbeddedServer() as server, in_memory(server) as client:
        recipe = make(client)
        for attribute in ("acquire", "release", "lock"):
            if attribute == "acquire" and line == HOLD:
                continue  # that is what it is called here, too
            with pytest.raises(UsageError, match=re.escape(line)) as wrong:
                getattr(recipe, attribute)
            assert isinstance(wrong.value, AttributeError)
            assert not hasattr(recipe, attribute)
        with pytest.raises(AttributeError, match="no attribute 'nonsense'") as unknown:
            _ = recipe.nonsense
        assert not isinstance(unknown.value, UsageError)
        assert unknown.value.name == "nonsense"


@pytest.mark.parametrize("name", CONTEXTS)
async def test_what_is_held_for_a_block_is_not_awaited(name: str) -> None:
    make, line = CONTEXTS[name]
    async with EmbeddedServer() as server, in_memory(server) as client:
        context = make(client)
        with pytest.raises(
            UsageError, match=re.escape(f"write `async with` instead of `await`: `{line}`")
        ):
            await context
        assert "/l" not in server.znodes()


async def test_an_election_is_not_entered_itself() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        election: Any = aiolead.Election(client, "/l")
        with pytest.raises(UsageError, match=re.escape(f"write `{LEAD}`")):
            async with election:
                pytest.fail("it does not say what for")
        assert "/l" not in server.znodes()


async def test_a_connection_is_no_client_before_it_is_entered() -> None:
    connection: Any = aiolead.connect("127.0.0.1:1")
    for attribute in ("get", "create", "state", "chroot"):
        with pytest.raises(
            UsageError, match=rf"as client:` and then `client\.{attribute}`"
        ) as wrong:
            getattr(connection, attribute)
        assert isinstance(wrong.value, AttributeError)
        assert not hasattr(connection, attribute)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'") as unknown:
        _ = connection.nonsense
    assert not isinstance(unknown.value, UsageError)
    await anyio.lowlevel.checkpoint()
