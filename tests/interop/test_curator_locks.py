"""Locks and elections on one path with the real Curator, in both directions."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from support.curator import LONG, SHORT, Curator
from support.recipes import eventually, joined

import aiolead
from aiolead import (
    AcquireTimeout,
    Election,
    Layout,
    Lock,
    MixedLayoutError,
    MultiLock,
    ReadWriteLock,
    ReentrantLock,
)

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
            assert second.startswith(f"{PATH}/")
            assert "-lock-" in second
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


async def test_an_election_with_names_of_mutexes_shares_their_path(
    connect: Connect, curator: NewCurator
) -> None:
    """As `LeaderSelector` has them: in a layout of one's own."""
    layout = Layout(election="{id}-lock-")
    async with connect() as client, curator() as java:
        election = Election(client, PATH, layout=layout)
        async with election.leadership():
            waiting = java.begin("mutex.acquire", PATH, LONG)
            await joined(client, PATH, 2)
            assert not waiting.is_done
        assert await waiting.wait() == "true"
        leader = await election.leader()
        assert leader is not None
        assert leader.session_id == java.session_id
        led = anyio.Event()

        async def lead() -> None:
            async with election.leadership():
                led.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lead)
            await joined(client, PATH, 2)
            assert not led.is_set()
            await java("mutex.release", PATH)
        assert led.is_set()


async def test_a_selector_takes_turns_with_a_lock_and_is_refused_by_an_election(
    connect: Connect, curator: NewCurator
) -> None:
    """`LeaderSelector` names its znodes as mutexes do."""
    async with connect() as client, curator() as java:
        lock = Lock(client, PATH)
        async with lock:
            await java("selector.start", PATH)
            assert not await java.is_so("selector.leads", PATH, SHORT)
        assert await java.is_so("selector.leads", PATH, LONG)
        async with lock.try_hold() as held:
            assert held is None
        with pytest.raises(MixedLayoutError):
            async with Election(client, PATH).leadership():
                pass
        await java("selector.interrupt", PATH)
        async with lock.hold(wait=LONG / 1000) as held:
            await held.verify()


async def test_a_latch_is_refused_where_a_lock_is(connect: Connect, curator: NewCurator) -> None:
    async with connect() as client, curator() as java:
        await java("latch.start", PATH, "java")
        assert await java.is_so("latch.await", PATH, LONG)
        with pytest.raises(MixedLayoutError):
            async with Lock(client, PATH):
                pass


# --- ReentrantLock -------------------------------------------------------------------------------


async def test_a_reentrant_lock_and_a_mutex_exclude_each_other(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client, curator() as java:
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
        async with lock.try_hold() as held:
            assert held is None
        await java("mutex.release", PATH)
        async with lock.try_hold() as held:
            assert held is not None


# --- ReadWriteLock and InterProcessReadWriteLock -------------------------------------------------


@pytest.mark.parametrize("ours", ["read", "write"])
@pytest.mark.parametrize("theirs", ["read", "write"])
async def test_readers_share_and_writers_exclude(
    connect: Connect, curator: NewCurator, ours: str, theirs: str
) -> None:
    shared = ours == theirs == "read"
    async with connect() as client, curator() as java:
        lock = ReadWriteLock(client, PATH)
        mine = lock.read if ours == "read" else lock.write
        async with mine:
            if shared:
                assert await java.is_so("rw.acquire", theirs, PATH, LONG)
            else:
                assert not await java.is_so("rw.acquire", theirs, PATH, SHORT)
                waiting = java.begin("rw.acquire", theirs, PATH, LONG)
                await joined(client, PATH, 2)
                assert not waiting.is_done
        if not shared:
            assert await waiting.wait() == "true"
        async with mine.try_hold() as held:
            assert (held is not None) == shared
        if not shared:
            entered = anyio.Event()

            async def hold() -> None:
                async with mine:
                    entered.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold)
                await joined(client, PATH, 2)
                assert not entered.is_set()
                await java("rw.release", theirs, PATH)
            assert entered.is_set()


async def test_a_waiting_writer_is_not_overtaken_by_readers(
    connect: Connect, curator: NewCurator
) -> None:
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
                writing = java.begin("rw.acquire", "write", PATH, LONG)
                await joined(client, PATH, 2)
                tasks.start_soon(write)
                await joined(client, PATH, 3)
                reading = third.begin("rw.acquire", "read", PATH, LONG)
                await joined(client, PATH, 4)
                async with ReadWriteLock(another, PATH).read.try_hold() as held:
                    assert held is None
                assert not writing.is_done
            assert await writing.wait() == "true"
            order.append("their writer")
            await java("rw.release", "write", PATH)
            assert await reading.wait() == "true"
            order.append("their reader")
        assert order == ["their writer", "our writer", "their reader"]


async def test_a_writer_of_ours_that_becomes_a_reader_lets_curators_readers_in(
    connect: Connect, curator: NewCurator
) -> None:
    async with connect() as client, curator() as java, curator() as third:
        async with ReadWriteLock(client, PATH).write as held:
            reading = java.begin("rw.acquire", "read", PATH, LONG)
            await joined(client, PATH, 2)
            writing = third.begin("rw.acquire", "write", PATH, LONG)
            await joined(client, PATH, 3)
            assert not reading.is_done
            await held.downgrade()
            assert await reading.wait() == "true"
            await java("rw.release", "read", PATH)
            await client.sync("/")
            assert not writing.is_done, "we still read"
        assert await writing.wait() == "true"


async def test_a_writer_of_curators_that_becomes_a_reader_lets_ours_in(
    connect: Connect, curator: NewCurator
) -> None:
    """It takes the lock for reading besides, and lets go of that for writing then."""
    async with connect() as client, curator() as java:
        lock = ReadWriteLock(client, PATH)
        assert await java.is_so("rw.acquire", "write", PATH, LONG)
        entered, leave = anyio.Event(), anyio.Event()
        written = anyio.Event()

        async def read() -> None:
            async with lock.read:
                entered.set()
                await leave.wait()

        async def write() -> None:
            async with lock.write:
                written.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await joined(client, PATH, 2)
            assert await java.is_so("rw.acquire", "read", PATH, LONG)
            tasks.start_soon(write)
            await joined(client, PATH, 4)
            assert not entered.is_set()
            await java("rw.release", "write", PATH)
            await entered.wait()
            leave.set()
            await joined(client, PATH, 2)
            assert not written.is_set(), "Curator still reads"
            await java("rw.release", "read", PATH)
        assert written.is_set()


# --- MultiLock and InterProcessMultiLock ---------------------------------------------------------


async def test_several_locks_are_held_by_us_or_by_curator(
    connect: Connect, curator: NewCurator
) -> None:
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
            async with several.hold(wait=0.1):
                pass
        await java("multi.release", ",".join(paths))
        async with several.hold(wait=15):
            # One of them is enough to keep Curator out, and to be kept out by it.
            assert not await java.is_so("mutex.acquire", paths[1], SHORT)
        assert await java.is_so("mutex.acquire", paths[1], LONG)
        with pytest.raises(AcquireTimeout):
            async with several.hold(wait=0.1):
                pass


# --- revocation ----------------------------------------------------------------------------------


async def test_we_are_asked_to_let_go_by_curator(connect: Connect, curator: NewCurator) -> None:
    async with connect() as client, curator() as java:
        async with Lock(client, PATH, identity="python") as held:
            waiting = java.begin("mutex.acquire", PATH, LONG)
            await joined(client, PATH, 2)
            assert not held.is_revocation_requested
            async with curator() as asking:
                await asking("mutex.revoke", held.path)
            with anyio.fail_after(20):
                await held.revocation_requested()
            assert held.is_revocation_requested
            assert held.is_held, "it is only asked"
            assert not waiting.is_done
        assert await waiting.wait() == "true"


async def test_curator_is_asked_to_let_go_by_us(connect: Connect, curator: NewCurator) -> None:
    async with connect() as client, curator() as java:
        await java("mutex.revocable", PATH)
        assert await java.is_so("mutex.acquire", PATH, LONG)
        lock = Lock(client, PATH)
        (asked,) = await lock.revoke()
        assert asked.session_id == java.session_id
        assert await java.is_so("mutex.revoked", PATH, LONG)
        await java("mutex.release", PATH)
        async with lock.try_hold() as held:
            assert held is not None
