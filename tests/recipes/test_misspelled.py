"""Calls that other libraries have: the error shows the line to write in their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from kit.clients import in_memory
from recipes.blocks import enter

import aiolead
from aiolead import Client
from aiolead.errors import UsageError
from aiolead.testing import EmbeddedServer

HOLD = "async with lock.acquire(timeout=5) as held:"
TRY = "async with lock.try_acquire() as held:"
LEAD = "async with election.leadership() as term:"
GET = "async with queue.get() as item:"
CONSUME = "async with queue.consume() as items:"
WORK = "async with board.claim() as task:"
CLAIM = "async with names.claim(kind) as held:"
RUN = "async with once.claim(key) as run:"
ENTER = "async with barrier.enter() as member:"

Make = Callable[[Client], Any]

RECIPES: dict[str, tuple[Make, str]] = {
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
BLOCKS: dict[str, tuple[Make, str]] = {
    "hold": (lambda c: aiolead.Lock(c, "/l").acquire(), HOLD),
    "try_acquire": (lambda c: aiolead.Lock(c, "/l").try_acquire(), TRY),
    "leadership": (lambda c: aiolead.Election(c, "/l").leadership(), LEAD),
    "several": (lambda c: aiolead.MultiLock(aiolead.Lock(c, "/l")).acquire(), HOLD),
    "enter": (lambda c: aiolead.DoubleBarrier(c, "/l", 1).enter(), ENTER),
    "get": (lambda c: aiolead.Queue(c, "/l").get(), GET),
    "consume": (lambda c: aiolead.Queue(c, "/l").consume(), CONSUME),
    "work": (lambda c: aiolead.TaskBoard(c, "/l").claim(), WORK),
    "claim": (lambda c: aiolead.UniqueNames(c, "/l").claim("name"), CLAIM),
    "run": (lambda c: aiolead.Once(c, "/l").claim("key"), RUN),
}


def check_missing(thing: Any, attribute: str, says: str) -> None:
    """An attribute is missing, and the error says what to write instead."""
    with pytest.raises(UsageError, match=says) as wrong:
        getattr(thing, attribute)
    assert isinstance(wrong.value, AttributeError)
    assert not hasattr(thing, attribute)


def check_nonsense(thing: Any) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'") as unknown:
        _ = thing.nonsense
    assert not isinstance(unknown.value, UsageError)
    assert unknown.value.name == "nonsense"


@pytest.mark.parametrize("name", RECIPES)
async def test_methods_of_other_libraries_are_answered_with_a_block(name: str) -> None:
    make, line = RECIPES[name]
    async with EmbeddedServer() as server, in_memory(server) as client:
        recipe = make(client)
        for attribute in ("acquire", "release", "lock"):
            # `acquire` is what it is called here, too
            if attribute != "acquire" or line != HOLD:
                check_missing(recipe, attribute, re.escape(line))
        check_nonsense(recipe)


@pytest.mark.parametrize("name", BLOCKS)
async def test_awaited_block_is_answered_with_async_with(name: str) -> None:
    make, line = BLOCKS[name]
    async with EmbeddedServer() as server, in_memory(server) as client:
        says = re.escape(f"write `async with` instead of `await`: `{line}`")
        with pytest.raises(UsageError, match=says):
            await make(client)
        assert "/l" not in server.znodes()


async def test_entered_election_is_answered_with_leadership() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        election: Any = aiolead.Election(client, "/l")
        with pytest.raises(UsageError, match=re.escape(f"write `{LEAD}`")):
            await enter(election)
        assert "/l" not in server.znodes()


async def test_connection_that_was_not_entered_is_no_client() -> None:
    connection: Any = aiolead.connect("127.0.0.1:1")
    for attribute in ("get", "create", "state", "chroot"):
        check_missing(connection, attribute, rf"as client:` and then `client\.{attribute}`")
    check_nonsense(connection)
    await anyio.lowlevel.checkpoint()
