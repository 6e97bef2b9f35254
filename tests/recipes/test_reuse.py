"""One object, many uses: by many tasks, one after another, and in every wrong way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, contenders_left, eventually, in_memory, nothing_left

from aiolead import AcquireTimeout, Client, Election, Lock
from aiolead.errors import AlreadyHeldError, UsageError
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/contended"


def of_lock(client: Client) -> Callable[..., Any]:
    return Lock(client, PATH).acquire


def of_election(client: Client) -> Callable[..., Any]:
    return Election(client, PATH).leadership


both = pytest.mark.parametrize("make", [of_lock, of_election], ids=["lock", "election"])


@both
async def test_one_object_for_many_tasks(make: Callable[[Client], Callable[..., Any]]) -> None:
    inside, most, tokens = 0, 0, []

    async def use() -> None:
        nonlocal inside, most
        async with enter() as tenure:
            inside += 1
            most = max(most, inside)
            tokens.append(tenure.token)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with EmbeddedServer() as server, in_memory(server) as client:
        enter = make(client)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(use)
        assert (most, len(tokens)) == (1, 20)
        assert tokens == sorted(set(tokens))
        await nothing_left(server, PATH)


async def test_the_lock_itself_for_many_tasks() -> None:
    inside = 0

    async def use() -> None:
        nonlocal inside
        async with lock:
            inside += 1
            await anyio.lowlevel.checkpoint()
            assert inside == 1
            inside -= 1

    async with EmbeddedServer() as server, in_memory(server) as client:
        lock = Lock(client, PATH)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(use)
        await nothing_left(server, PATH)


async def test_who_asks_for_what_it_holds_is_told_at_once() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        lock, election = Lock(client, PATH), Election(client, "/led")
        async with lock as held, election.leadership() as term:
            requests = server.requests["CREATE2"]
            for again in (lock, lock.acquire(), lock.acquire(timeout=0), lock.try_acquire()):
                with pytest.raises(AlreadyHeldError, match="wait for itself"):
                    await again.__aenter__()
            with pytest.raises(AlreadyHeldError):
                await election.leadership().__aenter__()
            assert server.requests["CREATE2"] == requests, "nothing was even asked"
            held.check()
            term.check()
        async with lock, election.leadership():
            pass
        async with lock.acquire():
            with pytest.raises(AlreadyHeldError):
                await lock.__aenter__()
        await nothing_left(server, PATH)


async def test_a_task_may_hold_different_locks() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        one, two = Lock(client, "/one"), Lock(client, "/two")
        async with one, two:
            pass
        async with two, one:
            pass
        # Another object for the same path would wait for this one, and so for itself.
        async with one:
            with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError):
                await Lock(client.chroot("/"), "/one").acquire().__aenter__()
            with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
                await Lock(client, "/one").acquire(timeout=0.05).__aenter__()


@both
async def test_left_by_another_task(make: Callable[[Client], Callable[..., Any]]) -> None:
    """It is refused, and whoever entered can still leave. Nothing is held any more by then."""

    async def leave() -> None:
        with pytest.raises(UsageError, match="another task"):
            await context.__aexit__(None, None, None)

    async with EmbeddedServer() as server, in_memory(server) as client:
        enter = make(client)
        context = enter()
        async with context as tenure:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
            assert not tenure.is_held
            await nothing_left(server, PATH)
            with pytest.raises(UsageError, match="resigned"):
                await tenure.verify()
        await nothing_left(server, PATH)
        async with enter(timeout=0):
            pass


async def test_the_lock_left_by_another_task() -> None:
    async def leave() -> None:
        with pytest.raises(UsageError, match="not entered by this task"):
            await lock.__aexit__(None, None, None)

    async with EmbeddedServer() as server, in_memory(server) as client:
        lock = Lock(client, PATH)
        async with lock as held:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
            assert not held.is_held
            await nothing_left(server, PATH)
        await leave()
        async with lock.acquire(timeout=0):
            pass


@both
async def test_one_context_manager_is_for_one_task_at_a_time(
    make: Callable[[Client], Callable[..., Any]],
) -> None:
    async def enter_it() -> None:
        with pytest.raises(UsageError, match="another task"):
            await context.__aenter__()

    async def enter_it_later() -> None:
        async with context as later:
            later.check()

    async with EmbeddedServer() as server, in_memory(server) as client:
        context = make(client)()
        async with context as tenure, anyio.create_task_group() as tasks:
            tasks.start_soon(enter_it)
            await anyio.wait_all_tasks_blocked()
            tenure.check()
        # One after another is fine.
        async with context:
            pass
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter_it_later)
        await nothing_left(server, PATH)


async def test_an_object_is_as_good_as_new_after_errors() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        lock = Lock(a, PATH)
        for _ in range(3):
            with pytest.raises(KeyError):
                async with lock:
                    raise KeyError
            async with Lock(b, PATH):
                for wait in (0, 0.01):
                    with pytest.raises(AcquireTimeout):
                        await lock.acquire(timeout=wait).__aenter__()
                async with lock.try_acquire() as held:
                    assert held is None
                with anyio.move_on_after(0.01) as scope:
                    await lock.__aenter__()
                assert scope.cancelled_caught
            await b.create(f"{PATH}/0123456789abcdef0123456789abcdef__lock__0000000000")
            await eventually(lambda: len(contenders_left(server, PATH)) == 1, "all have left")
            with pytest.raises(Exception, match="kazoo"):
                await lock.__aenter__()
            await b.delete(f"{PATH}/0123456789abcdef0123456789abcdef__lock__0000000000")
        async with lock:
            pass
        await nothing_left(server, PATH)


async def test_a_context_manager_that_was_not_entered() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client, in_memory(server) as b:
        lock = Lock(client, PATH)
        with pytest.raises(UsageError):
            await lock.__aexit__(None, None, None)
        # One that gave nothing has nothing to leave.
        async with Lock(b, PATH):
            context = lock.try_acquire()
            async with context as held:
                assert held is None
            async with context as held:
                assert held is None
        async with context as held:
            assert held is not None
