"""A context that is taken for a result, or is never entered, shows the right statement."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from recipes.blocks import enter

from aiolead import (
    AcquireTimeout,
    Client,
    DoubleBarrier,
    Election,
    Lock,
    MultiLock,
    Once,
    Queue,
    ReentrantLock,
    Semaphore,
    TaskBoard,
    UniqueNames,
)
from aiolead.errors import ConfigurationError, UsageError

ACQUIRE = "async with lock.acquire(timeout=5) as held:"
TRY = "async with lock.try_acquire() as held:"

CONTEXTS: dict[str, tuple[Callable[[Client], Any], str]] = {
    "acquire": (lambda c: Lock(c, "/l").acquire(), ACQUIRE),
    "acquire(timeout=0)": (lambda c: Lock(c, "/l").acquire(timeout=0), TRY),
    "try_acquire": (lambda c: Lock(c, "/l").try_acquire(), TRY),
    "ReentrantLock": (lambda c: ReentrantLock(c, "/l").acquire(), ACQUIRE),
    "MultiLock": (lambda c: MultiLock(Lock(c, "/l")).try_acquire(), TRY),
    "Semaphore": (lambda c: Semaphore(c, "/s", 2).acquire(permits=2), ACQUIRE),
    "leadership": (
        lambda c: Election(c, "/e").leadership(timeout=0),
        "async with election.leadership() as term:",
    ),
    "DoubleBarrier": (
        lambda c: DoubleBarrier(c, "/b", 2).enter(),
        "async with barrier.enter() as member:",
    ),
    "Queue.get": (lambda c: Queue(c, "/q").get(), "async with queue.get() as item:"),
    "Queue.try_get": (lambda c: Queue(c, "/q").try_get(), "async with queue.try_get() as item:"),
    "Queue.consume": (lambda c: Queue(c, "/q").consume(), "async with queue.consume() as items:"),
    "TaskBoard.claim": (lambda c: TaskBoard(c, "/t").claim(), "async with board.claim() as task:"),
    "UniqueNames": (
        lambda c: UniqueNames(c, "/n").try_claim("id"),
        "async with names.try_claim(kind) as held:",
    ),
    "Once": (lambda c: Once(c, "/o").try_claim("id"), "async with once.try_claim(key) as run:"),
}

contexts = pytest.mark.parametrize(("make", "line"), CONTEXTS.values(), ids=CONTEXTS)


@contexts
async def test_context_has_no_truth_value(
    local: Client, make: Callable[[Client], Any], line: str
) -> None:
    context = make(local)
    with pytest.raises(UsageError, match="nothing is held before its block") as caught:
        bool(context)
    assert f"`{line}`" in str(caught.value)
    assert ("is not None:`" in str(caught.value)) == ("try_" in line)
    del context
    gc.collect()  # the error was report enough


@contexts
async def test_context_that_is_dropped_warns(
    local: Client, make: Callable[[Client], Any], line: str
) -> None:
    with pytest.warns(RuntimeWarning, match="was never entered, so nothing was acquired") as caught:
        make(local)
    (warning,) = caught
    assert f"`{line}`" in str(warning.message)


async def test_context_that_was_entered_does_not_warn(local: Client) -> None:
    lock = Lock(local, "/l")
    async with lock.acquire():
        async with Lock(local, "/l").try_acquire() as held:
            assert held is None
        with pytest.raises(AcquireTimeout):
            await enter(ReentrantLock(local, "/l").acquire(timeout=0))
    reentrant = ReentrantLock(local, "/r")
    async with reentrant, reentrant.acquire(), reentrant.try_acquire():
        pass
    await enter(MultiLock(lock, Lock(local, "/m")))
    with pytest.raises(ConfigurationError):
        lock.acquire(timeout=-1)  # nothing is left to enter
    gc.collect()
