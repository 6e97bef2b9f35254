"""Several locks as one: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from kit.clients import PATIENCE, contenders_left, names
from kit.selection import on_embedded
from kit.tasks import end_of_cancelled
from kit.virtual_time import SESSION, connect, on_virtual_time, passes, with_virtual_server
from recipes.blocks import enter
from recipes.crowd import crowd

from aiolead import (
    ACL,
    AcquireTimeout,
    Client,
    Condition,
    Held,
    Lock,
    LockLost,
    MultiLock,
    ReadWriteLock,
    ReentrantLock,
)
from aiolead.errors import ConfigurationError, LossReason, ReleaseError, UsageError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer
from aiolead.types import MultiHeld, WriteHeld

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

A, B, C = "/a", "/b", "/c"


def both(client: Client) -> MultiLock:
    return MultiLock(Lock(client, A), Lock(client, B))


async def test_all_are_held_and_all_are_released(a: Client, b: Client) -> None:
    multi = MultiLock(ReadWriteLock(a, C).write, ReentrantLock(a, B), Lock(a, A))
    assert repr(multi) == "<MultiLock /a, /b, /c>"
    async with multi as held:
        assert isinstance(held, MultiHeld)
        assert repr(held) == "<MultiHeld of 3>"
        first, second, third = held.holds
        assert [first.path[:2], second.path[:2], third.path[:2]] == [A, B, C]
        assert (type(first), type(third)) == (Held, WriteHeld)
        assert held.is_held
        await held.verify()
        for path in (A, B):
            async with Lock(b, path).try_acquire() as theirs:
                assert theirs is None
        async with MultiLock(Lock(b, A), Lock(b, "/0")).try_acquire() as theirs:
            assert theirs is None
        assert await names(b, "/0") == []
    for path in (A, B, C):
        assert await names(a, path) == []


async def test_locks_in_any_order_never_wait_for_each_other(a: Client, b: Client) -> None:
    inside: set[int] = set()
    turns = 0

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
                multi = MultiLock(*(Lock((a, b)[number % 2], path) for path in order))
                tasks.start_soon(take, multi, number)
    assert turns == 12


async def test_order_is_that_of_the_full_paths_in_any_chroot(a: Client) -> None:
    view, deeper = a.chroot("/z"), a.chroot("/z/b")
    locks = [Lock(view, "/b/1"), Lock(a, "/c"), Lock(deeper, "/2"), Lock(a, "/z/a")]
    multi = MultiLock(*locks)
    assert [lock.path for lock in multi.recipes] == ["/c", "/z/a", "/b/1", "/2"]
    async with multi as held:
        assert len(held.holds) == 4
    for same in (Lock(a, "/z/b/1"), Lock(deeper, "/1")):
        with pytest.raises(ConfigurationError, match="two of them contend"):
            MultiLock(locks[0], same)


async def test_condition_counts_with_the_path_of_its_lock(a: Client) -> None:
    condition, beside, below = Condition(a, "/x"), Lock(a, "/x/a"), Lock(a, "/y")
    assert MultiLock(below, condition, beside).recipes == (beside, condition, below)
    with pytest.raises(ConfigurationError, match="two of them contend"):
        MultiLock(condition, Lock(a, "/x/lock"))


@pytest.mark.parametrize("what", ["chroots", "a condition"])
@with_virtual_server
async def test_locks_that_are_named_differently_do_not_wait_for_each_other(
    a: Client, b: Client, what: str
) -> None:
    """Both begin at the same instant: in different orders, each would have what the other wants."""
    view = b.chroot("/z")
    if what == "chroots":
        one = MultiLock(Lock(a, "/z/b"), Lock(a, "/c"))
        other = MultiLock(Lock(view, "/b"), Lock(b, "/c"))
    else:
        one = MultiLock(Condition(a, "/x"), Lock(a, "/x/a"))
        other = MultiLock(Lock(b, "/x/lock"), Lock(b, "/x/a"))
    async with crowd() as them:
        them.come("one", to=one)
        them.come("other", to=other)
        them.leave()
        await passes(60.0)
        assert sorted(them.log) == ["one", "other"]


async def test_timeout_leaves_none_of_the_locks(a: Client, b: Client) -> None:
    multi = both(a)
    async with Lock(b, B):
        for wait in (0, 0.05):
            with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
                await enter(multi.acquire(timeout=wait))
            assert await names(a, A) == []
            assert len(await names(a, B)) == 1
        async with multi.try_acquire() as held:
            assert held is None
    async with multi.try_acquire() as held:
        assert held is not None


@with_virtual_server
async def test_timeout_is_one_for_all_locks(a: Client, b: Client) -> None:
    """The first lock is waited for most of the time, and the second for what is left."""
    async with crowd() as them:
        for path in (A, B):
            them.come(path, to=Lock(b, path))
        await passes(1.0)
        async with anyio.create_task_group() as tasks:

            async def leave_late() -> None:
                await passes(5.0)
                them.leave(A)

            tasks.start_soon(leave_late)
            began = anyio.current_time()
            with pytest.raises(AcquireTimeout):
                await enter(both(a).acquire(timeout=8.0))
            assert 7.9 < anyio.current_time() - began < 8.5


@pytest.mark.parametrize("lost", [0, 1])
async def test_all_are_given_up_if_one_is_lost(a: Client, b: Client, lost: int) -> None:
    with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as caught:
        async with both(a) as held:
            await b.delete(held.holds[lost].path)
            await anyio.sleep_forever()
    assert caught.value.path == (A, B)[lost]
    assert caught.value.reason is LossReason.DELETED
    await enter(both(b).acquire(timeout=PATIENCE))


@with_virtual_server
async def test_release_releases_all_although_one_of_them_is_refused(a: Client, b: Client) -> None:
    async with both(a) as held:
        await b.set_acl(B, [ACL.world(Permission.ALL & ~Permission.DELETE)])
        with pytest.raises(ReleaseError) as refused:
            await held.release()
        assert refused.value.path == held.holds[1].path
        assert [each.is_released for each in held.holds] == [True, True]
        assert await names(b, A) == []


ENDS = {"native": "CancelledError", "scope": "cancelled"}


@pytest.mark.parametrize("how", ENDS)
def test_cancelled_release_releases_all(how: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a:

            async def release(inside: Callable[[], object]) -> str:
                async with both(a) as held:
                    server.pause()
                    inside()
                    try:
                        await held.release()
                    finally:
                        assert [each.is_released for each in held.holds] == [True, True]
                        server.resume()
                        await passes(0.1)
                return "released"

            assert await end_of_cancelled(release, how) == ENDS[how]

    on_virtual_time("asyncio", play)


@with_virtual_server
async def test_lock_that_is_lost_while_another_is_waited_for_is_acquired_again(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    """As far as the caller is concerned, nothing was held yet."""
    async with crowd() as them:
        async with Lock(b, B):
            them.come("a", to=both(a))
            await passes(1.0)
            (znode,) = contenders_left(server, A)
            await b.delete(znode)
            await passes(1.0)
            assert contenders_left(server, A) not in ([], [znode])
            assert len(contenders_left(server, B)) == 2
            server.expire_session(a.session_id)
            await passes(SESSION)
            assert them.log == []
            assert len(contenders_left(server, A)) == 1
        await them.are_inside("a")
        await them.inside["a"].verify()
    assert contenders_left(server, A) == contenders_left(server, B) == []


@with_virtual_server
async def test_lock_that_is_lost_as_the_last_is_acquired_is_acquired_again(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    """The event that the first is lost comes in the packet that lets the second in."""
    async with crowd() as them:
        with pytest.raises(LockLost):
            async with Lock(b, B) as held:
                them.come("a", to=both(a))
                await passes(1.0)
                (znode,) = contenders_left(server, A)
                await b.transaction().delete(held.path).delete(znode).commit()
                await passes(1.0)
        await them.are_inside("a")
        assert them.inside["a"].is_held
        await them.inside["a"].verify()
    assert contenders_left(server, A) == contenders_left(server, B) == []


@on_embedded
async def test_parts_that_contend_or_are_no_locks_are_refused(a: Client) -> None:
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
async def test_context_that_is_used_twice_is_refused(a: Client) -> None:
    multi = both(a)
    context = multi.acquire()
    async with context:
        with pytest.raises(UsageError, match="one each"):
            await context.__aenter__()
    with pytest.raises(UsageError, match="not entered"):
        await multi.__aexit__(None, None, None)
    again = MultiLock(ReentrantLock(a, A), ReentrantLock(a, B))
    async with again as outer, again as inner:
        assert inner.holds == outer.holds
