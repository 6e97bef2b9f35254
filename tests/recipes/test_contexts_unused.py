"""A context that is taken for a result, or is never entered, shows the right statement."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kit.clients import in_memory

import aiolead
from aiolead.errors import ConfigurationError, UsageError
from aiolead.testing import EmbeddedServer

CONTEXTS: dict[str, tuple[Callable[[aiolead.Client], Any], str]] = {
    "acquire": (
        lambda client: aiolead.Lock(client, "/l").acquire(),
        "async with lock.acquire(timeout=5) as held:",
    ),
    "acquire(timeout=0)": (
        lambda client: aiolead.Lock(client, "/l").acquire(timeout=0),
        "async with lock.try_acquire() as held:",
    ),
    "try_acquire": (
        lambda client: aiolead.Lock(client, "/l").try_acquire(),
        "async with lock.try_acquire() as held:",
    ),
    "ReentrantLock": (
        lambda client: aiolead.ReentrantLock(client, "/l").acquire(),
        "async with lock.acquire(timeout=5) as held:",
    ),
    "MultiLock": (
        lambda client: aiolead.MultiLock(aiolead.Lock(client, "/l")).try_acquire(),
        "async with lock.try_acquire() as held:",
    ),
    "Semaphore": (
        lambda client: aiolead.Semaphore(client, "/s", 2).acquire(permits=2),
        "async with lock.acquire(timeout=5) as held:",
    ),
    "leadership": (
        lambda client: aiolead.Election(client, "/e").leadership(timeout=0),
        "async with election.leadership() as term:",
    ),
    "DoubleBarrier": (
        lambda client: aiolead.DoubleBarrier(client, "/b", 2).enter(),
        "async with barrier.enter() as member:",
    ),
    "Queue.get": (
        lambda client: aiolead.Queue(client, "/q").get(),
        "async with queue.get() as item:",
    ),
    "Queue.try_get": (
        lambda client: aiolead.Queue(client, "/q").try_get(),
        "async with queue.try_get() as item:",
    ),
    "Queue.consume": (
        lambda client: aiolead.Queue(client, "/q").consume(),
        "async with queue.consume() as items:",
    ),
    "TaskBoard.claim": (
        lambda client: aiolead.TaskBoard(client, "/t").claim(),
        "async with board.claim() as task:",
    ),
    "UniqueNames": (
        lambda client: aiolead.UniqueNames(client, "/n").try_claim("id"),
        "async with names.try_claim(kind) as held:",
    ),
}


@pytest.fixture
async def client() -> AsyncIterator[aiolead.Client]:
    async with EmbeddedServer() as server, in_memory(server) as client:
        yield client


@pytest.mark.parametrize("name", CONTEXTS)
async def test_a_context_has_no_truth_value(client: aiolead.Client, name: str) -> None:
    make, line = CONTEXTS[name]
    context = make(client)
    with pytest.raises(UsageError, match="nothing is held before its block") as caught:
        bool(context)
    assert f"`{line}`" in str(caught.value)
    assert ("is not None:`" in str(caught.value)) == ("try_" in line)
    del context
    gc.collect()  # that was report enough


@pytest.mark.parametrize("name", CONTEXTS)
async def test_a_dropped_context_warns(client: aiolead.Client, name: str) -> None:
    make, line = CONTEXTS[name]
    with pytest.warns(RuntimeWarning, match="was never entered, so nothing was acquired") as caught:
        make(client)
    (warning,) = caught
    assert f"`{line}`" in str(warning.message)


async def test_an_entered_context_does_not_warn(client: aiolead.Client) -> None:
    lock = aiolead.Lock(client, "/l")
    async with lock.acquire():
        async with aiolead.Lock(client, "/l").try_acquire() as held:
            assert held is None
        with pytest.raises(aiolead.AcquireTimeout):
            async with aiolead.ReentrantLock(client, "/l").acquire(timeout=0):
                pass
    reentrant = aiolead.ReentrantLock(client, "/r")
    async with reentrant, reentrant.acquire(), reentrant.try_acquire():
        pass
    async with aiolead.MultiLock(lock, aiolead.Lock(client, "/m")):
        pass
    gc.collect()


async def test_a_refused_argument_leaves_nothing_to_enter(client: aiolead.Client) -> None:
    with pytest.raises(ConfigurationError):
        aiolead.Lock(client, "/l").acquire(timeout=-1)
    gc.collect()
