"""On one path with the real kazoo, in both directions."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from support.kazoo_peer import Kazoo
from support.recipes import joined

import aiolead
from aiolead import Codec, Counter, Election, Layout, Lock, MixedLayoutError, ReadWriteLock

Connect = Callable[[], aiolead.Connection]

PATH = "/kazoo/one"


# --- Lock and Election ---------------------------------------------------------------------------


async def test_a_lock_in_the_layout_of_kazoo_excludes_kazoos(connect: Connect, hosts: str) -> None:
    async with connect() as client, Kazoo(hosts) as kazoo:
        lock = Lock(client, PATH, identity="python", layout=Layout.KAZOO)
        theirs = kazoo.client.Lock(PATH, "kazoo")
        async with lock:
            assert not await kazoo.do(lambda: theirs.acquire(blocking=False))
            waiting = kazoo.begin(lambda: theirs.acquire(timeout=15))
            await joined(client, PATH, 2)
            assert not waiting.is_done
            assert [each.identity for each in await lock.contenders()] == ["python", "kazoo"]
        assert await waiting.wait()
        async with lock.try_hold() as held:
            assert held is None
        entered = anyio.Event()

        async def hold() -> None:
            async with lock:
                entered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await joined(client, PATH, 2)
            assert not entered.is_set()
            assert await kazoo.do(theirs.contenders) == ["kazoo", "python"]
            await kazoo.do(theirs.release)
        assert entered.is_set()


async def test_an_election_in_the_layout_of_kazoo_has_one_leader(
    connect: Connect, hosts: str
) -> None:
    async with connect() as client, Kazoo(hosts) as kazoo:
        election = Election(client, PATH, identity="python", layout=Layout.KAZOO)
        led: list[str] = []
        async with election.leadership():
            waiting = kazoo.begin(
                lambda: kazoo.client.Election(PATH, "kazoo").run(lambda: led.append("kazoo"))
            )
            await joined(client, PATH, 2)
            assert not waiting.is_done
            led.append("python")
        await waiting.wait()
        assert led == ["python", "kazoo"]


@pytest.mark.parametrize("recipe", [Lock, Election])
async def test_kazoo_is_refused_where_it_would_not_see_us(
    connect: Connect, hosts: str, recipe: type[Lock | Election]
) -> None:
    async with connect() as client, Kazoo(hosts) as kazoo:
        theirs = kazoo.client.Lock(PATH)
        assert await kazoo.do(theirs.acquire)
        subject = recipe(client, PATH)
        context = subject.hold() if isinstance(subject, Lock) else subject.leadership()
        with pytest.raises(MixedLayoutError):
            async with context:
                pass


# --- ReadWriteLock -------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", ["read", "write"])
@pytest.mark.parametrize("theirs", ["read", "write"])
async def test_readers_share_and_writers_exclude(
    connect: Connect, hosts: str, ours: str, theirs: str
) -> None:
    shared = ours == theirs == "read"
    async with connect() as client, Kazoo(hosts) as kazoo:
        lock = ReadWriteLock(client, PATH, layout=Layout.KAZOO)
        mine = lock.read if ours == "read" else lock.write
        kazoos = kazoo.client.ReadLock(PATH) if theirs == "read" else kazoo.client.WriteLock(PATH)
        async with mine:
            assert await kazoo.do(lambda: kazoos.acquire(blocking=False)) == shared
            if not shared:
                waiting = kazoo.begin(lambda: kazoos.acquire(timeout=15))
                await joined(client, PATH, 2)
                assert not waiting.is_done
        if not shared:
            assert await waiting.wait()
        async with mine.try_hold() as held:
            assert (held is not None) == shared
        await kazoo.do(kazoos.release)
        async with mine.try_hold() as held:
            assert held is not None


# --- Counter -------------------------------------------------------------------------------------


@pytest.mark.parametrize("like_curator", [False, True])
async def test_a_counter_is_kazoos(connect: Connect, hosts: str, like_curator: bool) -> None:
    codec = Codec.int32() if like_curator else Codec.decimal()
    async with connect() as client, Kazoo(hosts) as kazoo:
        ours = Counter(client, PATH, codec=codec)
        theirs = kazoo.client.Counter(PATH, support_curator=like_curator)

        def add(n: int) -> int:
            nonlocal theirs
            theirs += n
            return theirs.value

        assert await kazoo.do(lambda: add(5)) == 5
        assert await ours.add(-7) == -2
        assert await kazoo.do(lambda: theirs.value) == -2

        def add_all() -> None:
            for _ in range(20):
                add(1)

        counting = kazoo.begin(add_all)
        for _ in range(20):
            await ours.add(1)
        await counting.wait()
        assert await ours.get() == 38


async def test_a_counter_of_ours_is_found_by_kazoo(connect: Connect, hosts: str) -> None:
    async with connect() as client, Kazoo(hosts) as kazoo:
        await Counter(client, PATH, codec=Codec.decimal()).add(3)
        assert await kazoo.do(lambda: kazoo.client.Counter(PATH).value) == 3
