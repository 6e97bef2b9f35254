"""Locks and elections on one path with the real Curator, in both directions."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from support.curator import LONG, SHORT, Curator
from support.recipes import eventually, joined

import aiolead
from aiolead import AcquireTimeout, Election, Lock, MixedLayoutError

NewCurator = Callable[[], Curator]
Connect = Callable[[], aiolead.Connection]

PATH = "/locks/one"


# --- Lock and InterProcessMutex ------------------------------------------------------------------


async def test_a_lock_and_a_mutex_exclude_each_other(connect: Connect, curator: NewCurator) -> None:
    async with connect() as client, curator() as java:
        lock = Lock(client, PATH)
        async with lock as held:
            assert not await java.is_so("mutex.acquire", PATH, SHORT)
            waiting = java.begin("mutex.acquire", PATH, LONG)
            await joined(client, PATH, 2)
            assert not waiting.is_done
            assert held.is_held
        assert await waiting.wait() == "true"
        async with lock.try_hold() as held_or_none:
            assert held_or_none is None
        with pytest.raises(AcquireTimeout):
            async with lock.hold(wait=0.1):
                pass
        entered = anyio.Event()

        async def hold() -> None:
            async with lock:
                entered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await joined(client, PATH, 2)
            assert not entered.is_set()
            await java("mutex.release", PATH)
        assert entered.is_set()


async def test_mutexes_and_locks_take_turns_in_the_order_of_their_arrival(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client, curator() as java, curator() as other:
        lock = Lock(client, PATH)
        order: list[str] = []

        async def hold() -> None:
            async with lock:
                order.append("aiolead")

        async with anyio.create_task_group() as tasks:
            assert await java.is_so("mutex.acquire", PATH, LONG)
            tasks.start_soon(hold)
            await joined(client, PATH, 2)
            behind = other.begin("mutex.acquire", PATH, LONG)
            await joined(client, PATH, 3)
            await java("mutex.release", PATH)
            assert await behind.wait() == "true"
            order.append("curator")
            await other("mutex.release", PATH)
        assert order == ["aiolead", "curator"]


async def test_a_mutex_whose_process_goes_leaves_the_lock_to_us(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client:
        async with anyio.create_task_group() as tasks:
            entered = anyio.Event()

            async def hold() -> None:
                async with Lock(client, PATH):
                    entered.set()

            async with curator() as java:
                assert await java.is_so("mutex.acquire", PATH, LONG)
                tasks.start_soon(hold)
                await joined(client, PATH, 2)
                assert not entered.is_set()
        assert entered.is_set()


async def test_each_sees_the_others_in_line(connect: Connect, curator: NewCurator) -> None:
    async with connect() as client, curator() as java:
        lock = Lock(client, PATH, identity="python")
        async with lock as held:
            waiting = java.begin("mutex.acquire", PATH, LONG)
            await joined(client, PATH, 2)
            contenders = await lock.contenders()
            assert [each.identity for each in contenders] == ["python", "curator"]
            assert contenders[1].session_id == java.session_id
        assert await waiting.wait() == "true"
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                async with lock:
                    pass

            tasks.start_soon(wait)
            await joined(client, PATH, 2)
            first, second = (await java("mutex.participants", PATH)).split(",")
            assert first.startswith(f"{PATH}/_c_")
            assert second.startswith(f"{PATH}/lock-")
            assert second != held.path
            await java("mutex.release", PATH)


# --- Election and LeaderLatch --------------------------------------------------------------------


async def test_an_election_and_a_latch_have_one_leader(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client, curator() as java:
        election = Election(client, PATH, identity="python")
        async with election.leadership() as term:
            await java("latch.start", PATH, "java")
            await joined(client, PATH, 2)
            assert not await java.is_so("latch.await", PATH, SHORT)
            assert await java("latch.leader", PATH) == "python"
            assert await java("latch.participants", PATH) == "python,java"
            assert term.is_held
        assert await java.is_so("latch.await", PATH, LONG)
        leader = await election.leader()
        assert leader is not None
        assert (leader.identity, leader.session_id) == ("java", java.session_id)
        async with anyio.create_task_group() as tasks:
            led = anyio.Event()

            async def lead() -> None:
                async with election.leadership():
                    led.set()

            tasks.start_soon(lead)
            await joined(client, PATH, 2)
            assert await java.is_so("latch.has", PATH)
            assert not led.is_set()
            await java("latch.close", PATH)
        assert led.is_set()


async def test_an_observer_sees_latches_come_and_go(connect: Connect, curator: NewCurator) -> None:
    async with connect() as client, Election(client, PATH).observe() as states:

        def sees(identity: str | None) -> bool:
            state = states.current
            leader = state.leader if state else None
            return (leader.identity if leader else None) == identity

        async with curator() as java:
            await java("latch.start", PATH, "java")
            await eventually(lambda: sees("java"), "it sees the latch")
        await eventually(lambda: sees(None), "and that it is gone")


# --- what does not belong on one path ------------------------------------------------------------


async def test_a_mutex_is_refused_where_leaders_are_elected(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client, curator() as java:
        assert await java.is_so("mutex.acquire", PATH, LONG)
        with pytest.raises(MixedLayoutError):
            async with Election(client, PATH).leadership():
                pass


async def test_a_latch_is_refused_where_a_lock_is(connect: Connect, curator: NewCurator) -> None:
    async with connect() as client, curator() as java:
        await java("latch.start", PATH, "java")
        assert await java.is_so("latch.await", PATH, LONG)
        with pytest.raises(MixedLayoutError):
            async with Lock(client, PATH):
                pass
