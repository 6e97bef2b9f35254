"""On one path with the real aiozk, in both directions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from support.aiozk_thread import Aiozk
from support.recipes import joined

import aiolead
from aiolead import Election, Layout, Lock, MixedLayoutError, ReadWriteLock

Connect = Callable[[], aiolead.Connection]

PATH = "/aiozk/one"


class Waiting:
    """Somebody of ours who waits for something, in a task of its own."""

    def __init__(self, context: Callable[[], aiolead.TenureContext[aiolead.Held]]) -> None:
        self._context = context
        self.holds = anyio.Event()
        self.leave = anyio.Event()

    async def run(self) -> None:
        async with self._context():
            self.holds.set()
            await self.leave.wait()


async def test_a_lock_in_the_layout_of_aiozk_excludes_aiozks(connect: Connect, hosts: str) -> None:
    async with connect() as client, Aiozk(hosts) as peer, Aiozk(hosts) as another:
        lock = Lock(client, PATH, identity="python", layout=Layout.AIOZK)
        theirs = peer.client.recipes.Lock(PATH)
        async with lock:
            waiting = peer.begin(theirs.acquire)
            await joined(client, PATH, 2)
            assert not waiting.is_done
            assert [each.identity for each in await lock.contenders()] == ["python", ""]
        await waiting.wait()
        async with lock.try_hold() as held:
            assert held is None
        # First come, first served: ours, and behind it another one of theirs.
        ours = Waiting(lock.hold)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.run)
            await joined(client, PATH, 2)
            behind = another.client.recipes.Lock(PATH)
            last = another.begin(behind.acquire)
            await joined(client, PATH, 3)
            assert not ours.holds.is_set()
            await peer.do(theirs.release)
            await ours.holds.wait()
            assert not last.is_done
            ours.leave.set()
        await last.wait()
        await another.do(behind.release)


async def test_an_election_in_the_layout_of_aiozk_has_one_leader(
    connect: Connect, hosts: str
) -> None:
    async with connect() as client, Aiozk(hosts) as peer:
        election = Election(client, PATH, identity="python", layout=Layout.AIOZK)
        theirs = peer.client.recipes.LeaderElection(PATH)
        async with election.leadership():
            await peer.do(theirs.volunteer)
            waiting = peer.begin(theirs.wait_for_leadership)
            first, second = await election.participants()
            assert (first.identity, first.is_holder) == ("python", True)
            assert not second.is_holder
            assert not waiting.is_done
        await waiting.wait()
        led = anyio.Event()

        async def lead() -> None:
            async with election.leadership():
                led.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lead)
            await joined(client, PATH, 2)
            assert not led.is_set()
            leader = await election.leader()
            assert leader is not None
            assert leader.session_id != client.session_id
            await peer.do(theirs.resign)
        assert led.is_set()


@pytest.mark.parametrize("ours", ["read", "write"])
@pytest.mark.parametrize("theirs", ["read", "write"])
async def test_readers_share_and_writers_exclude(
    connect: Connect, hosts: str, ours: str, theirs: str
) -> None:
    shared = ours == theirs == "read"
    async with connect() as client, Aiozk(hosts) as peer:
        lock = ReadWriteLock(client, PATH, layout=Layout.AIOZK)
        mine = lock.read if ours == "read" else lock.write
        both = peer.client.recipes.SharedLock(PATH)
        aiozks = both.reader_lock if theirs == "read" else both.writer_lock
        async with mine:
            acquiring = peer.begin(aiozks.acquire)
            await joined(client, PATH, 2)
            if shared:
                await acquiring.wait()
            assert acquiring.is_done == shared
        await acquiring.wait()
        async with mine.try_hold() as held:
            assert (held is not None) == shared
        await peer.do(aiozks.release)
        async with mine.try_hold() as held:
            assert held is not None


@pytest.mark.parametrize("what", ["Lock", "LeaderElection"])
async def test_aiozk_is_refused_where_others_would_not_see_it(
    connect: Connect, hosts: str, what: str
) -> None:
    async with connect() as client, Aiozk(hosts) as peer:
        theirs = getattr(peer.client.recipes, what)(PATH)
        enter: Callable[[], Awaitable[None]]
        enter = theirs.acquire if what == "Lock" else theirs.volunteer
        await peer.do(enter)
        subject = Lock(client, PATH) if what == "Lock" else Election(client, PATH)
        context = subject.hold() if isinstance(subject, Lock) else subject.leadership()
        with pytest.raises(MixedLayoutError, match=r"use layout=Layout\.AIOZK") as caught:
            async with context:
                pytest.fail("not everybody on this path excludes each other")
        assert caught.value.session_id == peer.client.session.session_id
        await joined(client, PATH, 1)
