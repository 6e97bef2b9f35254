"""Locks and elections on one path with the real Curator, beyond taking turns, in both directions.

Taking turns is in test_matrix.py.
"""

from __future__ import annotations

import anyio
import pytest
from assurance.interop.peers import LONG, PATIENCE, SHORT, Connect, NewCurator, Peer
from kit.clients import eventually, joined
from recipes.blocks import Holder

import aiolead
from aiolead import (
    AcquireTimeout,
    Client,
    Election,
    Lock,
    MultiLock,
    ReadWriteLock,
    ReentrantLock,
)

PATH = "/locks/one"


# --- those that come and go ----------------------------------------------------------------------


async def test_lock_of_a_closed_peer_is_released(client: Client, curator: NewCurator) -> None:
    holder = Holder(Lock(client, PATH), 0)
    async with anyio.create_task_group() as tasks, curator() as java:
        assert await java.is_so("mutex.acquire", PATH, LONG)
        tasks.start_soon(holder)
        await joined(client, PATH, 2)
        assert not holder.has_entered
    assert holder.has_entered


async def test_foreign_child_blocks_curator_only(client: Client, java: Peer) -> None:
    await client.ensure_path(f"{PATH}/-note")
    (note,) = aiolead.types.unrecognized_children(await client.get_children(PATH))
    assert note.blocks == ("Curator",)
    async with Lock(client, PATH).try_acquire() as held:
        assert held is not None
    assert not await java.is_so("mutex.acquire", PATH, SHORT)
    await client.delete(f"{PATH}/-note")
    assert await java.is_so("mutex.acquire", PATH, LONG)


async def test_latch_lists_two_leaders(connect: Connect, curator: NewCurator) -> None:
    """A latch reads names with a number of leaders: it lists both, and leads after them."""
    async with connect() as one, connect() as two, curator() as java:
        first = Election(one, PATH, identity="first", leaders=2)
        second = Election(two, PATH, identity="second", leaders=2)
        async with first.leadership():
            async with second.leadership():
                for child in await one.get_children(PATH):
                    assert "-2leaders-latch-" in child
                assert await java("latch.seen", PATH) == "first,second"
                latch = java.begin("latch.acquire", PATH, LONG)
                await joined(one, PATH, 3)
            assert not latch.is_done
        assert await latch.wait() == "true"
        state = await Election(one, PATH, leaders=2).contenders()
        assert [each.identity for each in state] == ["curator"]


async def test_observer_sees_a_latch(client: Client, curator: NewCurator) -> None:
    async with Election(client, PATH).observe() as states:

        def sees(identity: str | None) -> bool:
            state = states.value
            leader = state.leader if state else None
            return (leader.identity if leader else None) == identity

        async with curator() as java:
            assert await java.is_so("latch.acquire", PATH, LONG)
            await eventually(lambda: sees("curator"), "it sees the latch")
        await eventually(lambda: sees(None), "and that it is gone")


# --- ReentrantLock -------------------------------------------------------------------------------


async def test_reentrant_lock_and_mutex_exclude_each_other(client: Client, java: Peer) -> None:
    lock = ReentrantLock(client, PATH)
    async with lock:
        async with lock:
            waiting = java.begin("mutex.acquire", PATH, LONG)
            await joined(client, PATH, 2)
        await client.sync("/")
        assert not waiting.is_done
    assert await waiting.wait() == "true"
    # Curator's is re-entrant, too: only its last release lets us in.
    assert await java.is_so("mutex.acquire", PATH, LONG)
    await java("mutex.release", PATH)
    async with lock.try_acquire() as held:
        assert held is None
    await java("mutex.release", PATH)
    async with lock.try_acquire() as held:
        assert held is not None


# --- ReadWriteLock and InterProcessReadWriteLock -------------------------------------------------


async def test_readers_do_not_overtake_a_writer(connect: Connect, curator: NewCurator) -> None:
    """Whosever they are."""
    async with (
        connect() as client,
        connect() as another,
        curator() as java,
        curator() as third,
    ):
        lock = ReadWriteLock(client, PATH)
        order: list[str] = []

        async def write() -> None:
            async with lock.write:
                order.append("our writer")

        async with anyio.create_task_group() as tasks:
            async with lock.read:
                writing = java.begin("write.acquire", PATH, LONG)
                await joined(client, PATH, 2)
                tasks.start_soon(write)
                await joined(client, PATH, 3)
                reading = third.begin("read.acquire", PATH, LONG)
                await joined(client, PATH, 4)
                async with ReadWriteLock(another, PATH).read.try_acquire() as held:
                    assert held is None
                assert not writing.is_done
            assert await writing.wait() == "true"
            order.append("their writer")
            await java("write.release", PATH)
            assert await reading.wait() == "true"
            order.append("their reader")
        assert order == ["their writer", "our writer", "their reader"]


async def test_downgrade_admits_readers_of_curator(
    client: Client, java: Peer, curator: NewCurator
) -> None:
    async with curator() as third:
        async with ReadWriteLock(client, PATH).write as held:
            reading = java.begin("read.acquire", PATH, LONG)
            await joined(client, PATH, 2)
            writing = third.begin("write.acquire", PATH, LONG)
            await joined(client, PATH, 3)
            assert not reading.is_done
            await held.downgrade()
            assert await reading.wait() == "true"
            await java("read.release", PATH)
            await client.sync("/")
            assert not writing.is_done, "we still read"
        assert await writing.wait() == "true"


async def test_downgrade_of_curator_admits_readers(client: Client, java: Peer) -> None:
    """Curator acquires the lock for reading, and then releases the one for writing."""
    lock = ReadWriteLock(client, PATH)
    assert await java.is_so("write.acquire", PATH, LONG)
    reader, writer = Holder(lock.read), Holder(lock.write, 0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader)
        await joined(client, PATH, 2)
        assert await java.is_so("read.acquire", PATH, LONG)
        tasks.start_soon(writer)
        await joined(client, PATH, 4)
        assert not reader.has_entered
        await java("write.release", PATH)
        await reader.entered.wait()
        reader.may_leave.set()
        await joined(client, PATH, 2)
        assert not writer.has_entered, "Curator still reads"
        await java("read.release", PATH)
    assert writer.has_entered


# --- MultiLock and InterProcessMultiLock ---------------------------------------------------------


async def test_multi_locks_exclude_each_other(connect: Connect, curator: NewCurator) -> None:
    paths = [f"{PATH}/a", f"{PATH}/b"]
    async with connect() as client, curator() as java:
        several = MultiLock(*[Lock(client, path) for path in paths])
        async with several as held:
            assert not await java.is_so("multi.acquire", ",".join(paths), SHORT)
            waiting = java.begin("multi.acquire", ",".join(paths), LONG)
            await joined(client, paths[0], 2)
            assert held.is_held
        assert await waiting.wait() == "true"
        with pytest.raises(AcquireTimeout):
            async with several.acquire(timeout=0.1):
                pass
        await java("multi.release", ",".join(paths))
        async with several.acquire(timeout=LONG / 1000):
            # One of them is enough to keep Curator out, and to be kept out by it.
            assert not await java.is_so("mutex.acquire", paths[1], SHORT)
        assert await java.is_so("mutex.acquire", paths[1], LONG)
        with pytest.raises(AcquireTimeout):
            async with several.acquire(timeout=0.1):
                pass


# --- revocation ----------------------------------------------------------------------------------


async def test_curator_revokes_a_lock(client: Client, java: Peer, curator: NewCurator) -> None:
    async with Lock(client, PATH, identity="python") as held:
        waiting = java.begin("mutex.acquire", PATH, LONG)
        await joined(client, PATH, 2)
        assert not held.is_revocation_requested
        async with curator() as asking:
            await asking("mutex.revoke", held.path)
        with anyio.fail_after(PATIENCE):
            await held.revocation_requested()
        assert held.is_revocation_requested
        assert held.is_held, "it is only asked"
        assert not waiting.is_done
    assert await waiting.wait() == "true"


async def test_lock_of_curator_is_revoked(client: Client, java: Peer) -> None:
    await java("mutex.revocable", PATH)
    assert await java.is_so("mutex.acquire", PATH, LONG)
    lock = Lock(client, PATH)
    (asked,) = await lock.revoke()
    assert asked.session_id == java.session_id
    assert await java.is_so("mutex.revoked", PATH, LONG)
    await java("mutex.release", PATH)
    async with lock.try_acquire() as held:
        assert held is not None
