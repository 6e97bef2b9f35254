"""Several locks as one: all of them, or none."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    JumpingClock,
    connect,
    contenders_left,
    eventually,
    in_memory,
    joined,
    names,
    raw,
)
from kit.virtual_time import SESSION, on_virtual_time, passes
from kit.virtual_time import connect as connect_virtually

from aiolead import (
    AcquireTimeout,
    Condition,
    Held,
    Lock,
    LockLost,
    MultiLock,
    ReadWriteLock,
    ReentrantLock,
)
from aiolead.errors import AlreadyHeldError, ConfigurationError, LossReason, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend
from aiolead.types import MultiHeld, WriteHeld

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

A, B, C = "/a", "/b", "/c"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


async def test_all_are_held_and_all_are_released(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as other:
        shared = ReadWriteLock(client, C)
        multi = MultiLock(shared.write, ReentrantLock(client, B), Lock(client, A))
        assert repr(multi) == "<MultiLock /a, /b, /c>"
        async with multi as held:
            assert isinstance(held, MultiHeld)
            first, second, third = held.holds
            assert [first.path[:2], second.path[:2], third.path[:2]] == [A, B, C]
            assert (type(first), type(third)) == (Held, WriteHeld)
            assert held.is_held
            assert 0 < held.remaining() <= client.session_timeout
            held.check()
            await held.verify()
            for path in (A, B):
                async with Lock(other, path).try_acquire() as theirs:
                    assert theirs is None
            async with MultiLock(Lock(other, A), Lock(other, "/0")).try_acquire() as theirs:
                assert theirs is None
            assert await names(other, "/0") == []
        assert not held.is_held
        assert held.remaining() == 0
        with pytest.raises(UsageError):
            held.check()
        for path in (A, B, C):
            assert await names(client, path) == []


async def test_whatever_the_order_they_never_wait_for_each_other(server: ServerUnderTest) -> None:
    inside: set[int] = set()
    turns = 0

    async with connect(server) as a, connect(server) as b:

        async def take(multi: MultiLock, number: int) -> None:
            nonlocal turns
            for _ in range(4):
                async with multi:
                    assert not inside
                    inside.add(number)
                    await anyio.lowlevel.checkpoint()
                    inside.remove(number)
                    turns += 1

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number, order in enumerate(((A, B, C), (C, B, A), (B, C, A))):
                    client = (a, b)[number % 2]
                    multi = MultiLock(*(Lock(client, path) for path in order))
                    tasks.start_soon(take, multi, number)
    assert turns == 12


async def test_the_chroot_makes_no_difference(server: ServerUnderTest) -> None:
    """Their order is that of the full paths, however each of them is named in a view."""
    async with connect(server) as client:
        view, deeper = client.chroot("/z"), client.chroot("/z/b")
        locks = [Lock(view, "/b/1"), Lock(client, "/c"), Lock(deeper, "/2"), Lock(client, "/z/a")]
        multi = MultiLock(*locks)
        assert [lock.path for lock in multi.recipes] == ["/c", "/z/a", "/b/1", "/2"]
        async with multi as held:
            assert len(held.holds) == 4
        for same in (Lock(client, "/z/b/1"), Lock(deeper, "/1")):
            with pytest.raises(ConfigurationError, match="two of them contend"):
                MultiLock(locks[0], same)


async def test_a_condition_counts_with_the_path_of_its_lock(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        condition, beside, below = Condition(client, "/x"), Lock(client, "/x/a"), Lock(client, "/y")
        multi = MultiLock(below, condition, beside)
        assert multi.recipes == (beside, condition, below)
        with pytest.raises(ConfigurationError, match="two of them contend"):
            MultiLock(condition, Lock(client, "/x/lock"))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("what", ["chroots", "a condition"])
def test_two_that_name_the_same_locks_differently_do_not_wait_for_each_other(
    backend: Backend, what: str
) -> None:
    """Both begin at the same instant: in different orders, each would have what the other wants."""
    turns: list[str] = []

    async def take(multi: MultiLock, who: str) -> None:
        async with multi:
            turns.append(who)
            await passes(1.0)

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, connect_virtually(server) as b:
            view = b.chroot("/z")
            if what == "chroots":
                one = MultiLock(Lock(a, "/z/b"), Lock(a, "/c"))
                other = MultiLock(Lock(view, "/b"), Lock(b, "/c"))
            else:
                one = MultiLock(Condition(a, "/x"), Lock(a, "/x/a"))
                other = MultiLock(Lock(b, "/x/lock"), Lock(b, "/x/a"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take, one, "one")
                tasks.start_soon(take, other, "other")
                await passes(60.0)
                tasks.cancel_scope.cancel()

    on_virtual_time(backend, play)
    assert sorted(turns) == ["one", "other"]


async def test_one_limit_for_all(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Lock(b, B):
            multi = MultiLock(Lock(a, A), Lock(a, B))
            for wait in (0, 0.05):
                with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
                    async with multi.acquire(timeout=wait):
                        pytest.fail("one of them is held by another")
                assert await names(a, A) == []
                assert len(await names(a, B)) == 1
            async with multi.try_acquire() as held:
                assert held is None
        async with multi.try_acquire() as held:
            assert held is not None


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_limit_is_not_that_of_each(backend: Backend) -> None:
    """The first one is waited for most of the time, and the second for what is left."""

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, connect_virtually(server) as b:
            async with anyio.create_task_group() as tasks:

                async def hold(path: str, span: float) -> None:
                    async with Lock(b, path):
                        await passes(span)

                tasks.start_soon(hold, A, 6.0)
                tasks.start_soon(hold, B, 12.0)
                await passes(1.0)
                began = anyio.current_time()
                with pytest.raises(AcquireTimeout):
                    async with MultiLock(Lock(a, A), Lock(a, B)).acquire(timeout=8.0):
                        pytest.fail("it took longer")
                assert 7.9 < anyio.current_time() - began < 8.5

    on_virtual_time(backend, play)


@pytest.mark.parametrize("lost", [0, 1])
async def test_if_one_is_lost_all_are_given_up(server: ServerUnderTest, lost: int) -> None:
    async with connect(server) as a, connect(server) as b:
        with pytest.raises(LockLost) as caught:
            async with MultiLock(Lock(a, A), Lock(a, B)) as held:
                path = held.holds[lost].path
                with raw(server) as operator:
                    operator.delete(path)
                await anyio.sleep(PATIENCE)
                pytest.fail("it was not cancelled")
        assert caught.value.path == (A, B)[lost]
        assert caught.value.reason is LossReason.DELETED
        async with MultiLock(Lock(b, A), Lock(b, B)).acquire(timeout=PATIENCE):
            pass


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_is_lost_while_the_other_is_waited_for(backend: Backend) -> None:
    """Nothing was held yet, as far as the caller is concerned: it begins anew."""

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, connect_virtually(server) as b:
            async with anyio.create_task_group() as tasks:
                held = anyio.Event()

                async def take() -> None:
                    async with MultiLock(Lock(a, A), Lock(a, B)) as both:
                        await both.verify()
                        held.set()

                async with Lock(b, B):
                    tasks.start_soon(take)
                    await passes(1.0)
                    (znode,) = contenders_left(server, A)
                    await b.delete(znode)
                    await passes(1.0)
                    assert contenders_left(server, A) not in ([], [znode])
                    assert len(contenders_left(server, B)) == 2
                    server.expire_session(a.session_id)
                    await passes(SESSION)
                    assert not held.is_set()
                    assert len(contenders_left(server, A)) == 1
                await held.wait()
            assert contenders_left(server, A) == contenders_left(server, B) == []

    on_virtual_time(backend, play)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_is_lost_as_the_other_becomes_ours(backend: Backend) -> None:
    """Whoever is let in has both: the news that the first is lost comes in the same packet."""

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, connect_virtually(server) as b:
            async with anyio.create_task_group() as tasks:

                async def take() -> None:
                    async with MultiLock(Lock(a, A), Lock(a, B)) as both:
                        assert both.is_held
                        await both.verify()

                with pytest.raises(LockLost):
                    async with Lock(b, B) as held:
                        tasks.start_soon(take)
                        await passes(1.0)
                        (znode,) = contenders_left(server, A)
                        await b.transaction().delete(held.path).delete(znode).commit()
                        await passes(1.0)
            assert contenders_left(server, A) == contenders_left(server, B) == []

    on_virtual_time(backend, play)


async def test_what_is_lost_by_the_clock_is_not_held() -> None:
    clock = JumpingClock()
    async with EmbeddedServer() as server, in_memory(server, clock=clock) as a:
        with pytest.raises(LockLost):
            async with MultiLock(Lock(a, A), Lock(a, B)) as held:
                clock.jump(60)
                assert not held.is_held
                held.check()


@on_embedded
async def test_what_the_body_raises_leaves_bare(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        with pytest.raises(KeyError):
            async with MultiLock(Lock(a, A), Lock(a, B)):
                raise KeyError
        assert await names(a, A) == await names(a, B) == []


@on_embedded
async def test_resigning(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with MultiLock(Lock(a, A), Lock(a, B)) as held:
            await held.release()
            async with MultiLock(Lock(b, B), Lock(b, A)).try_acquire() as theirs:
                assert theirs is not None
            assert not held.is_held


@on_embedded
async def test_what_one_can_be_made_of(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        shared = ReadWriteLock(a, A)
        for parts in (
            (),
            (shared,),
            (Lock(a, A), A),
            (shared.read, shared.write),
            (Lock(a, A), Lock(a, B), ReentrantLock(a, A)),
        ):
            with pytest.raises(ConfigurationError, match="recipes"):
                MultiLock(*parts)  # type: ignore[arg-type]


@on_embedded
async def test_misuse(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        multi = MultiLock(Lock(a, A), Lock(a, B))
        context = multi.acquire()
        async with context:
            with pytest.raises(UsageError, match="one each"):
                await context.__aenter__()
            with pytest.raises(AlreadyHeldError):
                async with multi:
                    pytest.fail("it waits for itself")
        with pytest.raises(UsageError, match="not entered"):
            await multi.__aexit__(None, None, None)
        again = MultiLock(ReentrantLock(a, A), ReentrantLock(a, B))
        async with again as outer, again as inner:
            assert inner.holds == outer.holds


async def test_whoever_is_cancelled_leaves_all(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Lock(b, B), anyio.create_task_group() as tasks:

            async def take() -> None:
                async with MultiLock(Lock(a, A), Lock(a, B)):
                    pytest.fail("one of them is held by another")

            tasks.start_soon(take)
            await joined(b, B, 2)
            assert len(await names(b, A)) == 1
            tasks.cancel_scope.cancel()
        await eventually_empty(b)


async def eventually_empty(client: object) -> None:
    async def empty() -> bool:
        return not await names(client, A) and not await names(client, B)  # type: ignore[arg-type]

    await eventually(empty, "nobody is in line")
