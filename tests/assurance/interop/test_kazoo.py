"""Recipes on one path with the real kazoo, beyond taking turns, in both directions.

Taking turns is in test_matrix.py.
"""

from __future__ import annotations

import anyio
import pytest
from assurance.interop.kazoo_peer import Kazoo
from assurance.interop.peers import PATIENCE, Connect
from kit.clients import eventually, joined, names
from recipes.blocks import Holder

from aiolead import Barrier, Client, Counter, DoubleBarrier, Lock, Semaphore
from aiolead.paths import parent
from aiolead.types import Codec, Layout

PATH = "/kazoo/one"


# --- Semaphore -----------------------------------------------------------------------------------


async def test_permits_are_shared_with_kazoo(client: Client, hosts: str) -> None:
    async with Kazoo(hosts) as kazoo, Kazoo(hosts) as another:
        ours = Semaphore(client, PATH, 2, identity="python", layout=Layout.KAZOO)
        theirs, more = (
            each.client.Semaphore(PATH, "kazoo", max_leases=2) for each in (kazoo, another)
        )
        async with ours:
            assert await kazoo.do(theirs.acquire)
            assert sorted(await kazoo.do(theirs.lease_holders)) == ["kazoo", "python"]
            assert sorted(who.identity for who in await ours.holders()) == ["kazoo", "python"]
            assert not await another.do(lambda: more.acquire(blocking=False))
            async with ours.try_acquire() as none:
                assert none is None
            # One of theirs waits for our permit.
            waiting = another.begin(lambda: more.acquire(timeout=PATIENCE))
            await joined(client, f"{PATH}-__lock__", 1)
            assert not waiting.is_done
        assert await waiting.wait()
        # And one of ours for theirs; another one of theirs is behind us in the line.
        holder = Holder(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(holder)
            await joined(client, f"{PATH}-__lock__", 1)
            assert not holder.has_entered
            await kazoo.do(theirs.release)
            await holder.entered.wait()
            again = kazoo.begin(lambda: theirs.acquire(timeout=PATIENCE))
            await joined(client, f"{PATH}-__lock__", 1)
            assert not again.is_done
            holder.may_leave.set()
        assert await again.wait()
        assert await ours.available() == 0


async def test_first_contender_sets_the_limit(client: Client, hosts: str) -> None:
    async with Kazoo(hosts) as kazoo:
        assert await kazoo.do(kazoo.client.Semaphore(PATH, max_leases=3).acquire)
        ours = Semaphore(client, PATH, 1, layout=Layout.KAZOO)
        assert await ours.limit() == 1
        theirs = Semaphore(client, PATH, 1, layout=Layout.KAZOO, follow_limit=True)
        assert await theirs.limit() == 3
        other = f"{PATH}-other"
        async with Semaphore(client, other, 1, layout=Layout.KAZOO):
            with pytest.raises(ValueError, match="Inconsistent max leases"):
                await kazoo.do(kazoo.client.Semaphore(other, max_leases=3).acquire)


# --- Lock ----------------------------------------------------------------------------------------


async def test_path_outlives_the_lock(client: Client, hosts: str) -> None:
    """kazoo makes it once: an empty container would be gone by the time that it is needed again."""
    async with Lock(client, PATH, layout=Layout.KAZOO):
        pass
    stat = await client.exists(PATH)
    assert stat is not None
    assert stat.ephemeral_owner == 0


# --- Counter -------------------------------------------------------------------------------------


@pytest.mark.parametrize("like_curator", [False, True])
async def test_both_update_a_counter(connect: Connect, hosts: str, like_curator: bool) -> None:
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


async def test_kazoo_finds_a_counter(client: Client, hosts: str) -> None:
    async with Kazoo(hosts) as kazoo:
        await Counter(client, PATH, codec=Codec.decimal()).add(3)
        assert await kazoo.do(lambda: kazoo.client.Counter(PATH).value) == 3


# --- Barrier and DoubleBarrier -------------------------------------------------------------------


async def test_barrier_is_shared_with_kazoo(client: Client, hosts: str) -> None:
    async with Kazoo(hosts) as kazoo:
        ours, theirs = Barrier(client, PATH), kazoo.client.Barrier(PATH)
        # Ours would make it as a container, and kazoo trips over what a server reaps meanwhile.
        await client.ensure_path(parent(PATH))
        await ours.set()
        assert not await kazoo.do(lambda: theirs.wait(0.1))
        waiting = kazoo.begin(lambda: theirs.wait(PATIENCE))
        await ours.remove()
        assert await waiting.wait()
        await kazoo.do(theirs.create)
        assert await ours.is_set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.wait)
            assert await kazoo.do(theirs.remove)
        assert not await ours.is_set()


@pytest.mark.parametrize("last", ["python", "kazoo"])
async def test_double_barrier_is_shared_with_kazoo(client: Client, hosts: str, last: str) -> None:
    async with Kazoo(hosts) as kazoo:
        theirs = kazoo.client.DoubleBarrier(PATH, 2)
        inside, leave, left = anyio.Event(), anyio.Event(), anyio.Event()

        async def take_part() -> None:
            async with DoubleBarrier(client, PATH, 2):
                inside.set()
                await leave.wait()
            left.set()

        async with anyio.create_task_group() as tasks:
            entering = kazoo.begin(theirs.enter)
            await eventually(lambda: _count(client), "kazoo is there")
            assert not entering.is_done
            tasks.start_soon(take_part)
            await entering.wait()
            await inside.wait()
            if last == "python":
                leaving = kazoo.begin(theirs.leave)
                await client.sync("/")
                assert not leaving.is_done
                leave.set()
                await leaving.wait()
            else:
                leave.set()
                await client.sync("/")
                assert not left.is_set()
                await kazoo.do(theirs.leave)
            await left.wait()


async def _count(client: Client) -> bool:
    return len(await names(client, PATH)) == 1
