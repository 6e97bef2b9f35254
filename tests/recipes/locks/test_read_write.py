"""The lock that readers share, and that a writer has alone."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    catch_up,
    contenders_left,
    in_memory,
    joined,
    names,
    raw,
)
from kit.selection import on_embedded
from kit.virtual_time import SESSION, Link, passes, settled, with_virtual_server
from recipes.blocks import enter
from recipes.crowd import Crowd, crowd

from aiolead import AcquireTimeout, Client, Fenced, Held, Lock, LockLost, ReadWriteLock
from aiolead.errors import (
    AlreadyHeldError,
    LossReason,
    MixedLayoutError,
    NoAuthError,
    ReleaseError,
    UpgradeError,
    UsageError,
)
from aiolead.model import ACL, Permission, SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import Layout, ReadLock, WriteHeld, WriteLock

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/shared"


async def come(them: Crowd, watcher: Client, name: str, lock: ReadLock | WriteLock) -> None:
    """One more queues; returns once it is in the queue."""
    there = len(await names(watcher, PATH))
    them.come(name, to=lock)
    await joined(watcher, PATH, there + 1)


def writers_were_alone(them: Crowd) -> bool:
    return all(most == 1 for name, most in them.most.items() if name.startswith("w"))


# --- who is let in -----------------------------------------------------------------------------


async def test_readers_share_and_nobody_is_overtaken(a: Client, b: Client) -> None:
    one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
    async with crowd() as them:
        await come(them, a, "r1", one.read)
        await come(them, a, "r2", other.read)
        await them.are_inside("r1", "r2")
        await come(them, a, "w3", one.write)
        # These could share with those inside, but w3 was there before them.
        await come(them, a, "r4", one.read)
        await come(them, a, "r5", other.read)
        await come(them, a, "w6", other.write)
        await come(them, a, "r7", other.read)
        kinds = [each.is_holder for each in await one.contenders()]
        assert kinds == [True, True, False, False, False, False, False]
        assert [len(await one.read.holders()), len(await one.write.holders())] == [2, 0]
        assert [len(await one.read.contenders()), len(await one.write.contenders())] == [5, 2]
        them.leave("r2")
        await them.are_inside("r1")
        them.leave("r1")
        await them.are_inside("w3")
        await catch_up(a)
        assert [each.token for each in await one.holders()] == [them.inside["w3"].token]
        them.leave("w3")
        await them.are_inside("r4", "r5")
        them.leave("r5", "r4")
        await them.are_inside("w6")
        them.leave("w6")
        await them.are_inside("r7")
    assert writers_were_alone(them)


async def test_waiter_that_gives_up_lets_in_those_behind_it_and_nobody_else(
    a: Client, b: Client
) -> None:
    one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
    async with crowd() as them:
        await come(them, a, "r1", one.read)
        await come(them, a, "w2", other.write)
        await come(them, a, "r3", other.read)
        await come(them, a, "w4", one.write)
        await come(them, a, "r5", one.read)
        await them.are_inside("r1")
        them.cancel("w2")
        await them.are_inside("r1", "r3")
        them.leave("r1")
        await them.are_inside("r3")
        them.leave("r3")
        await them.are_inside("w4")
    assert "w2" not in them.log
    assert writers_were_alone(them)


async def test_try_acquire_and_timeout(a: Client, b: Client) -> None:
    one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
    async with one.read.try_acquire() as held:
        assert type(held) is Held
        async with other.read.try_acquire() as reads:
            assert reads is not None
        async with other.write.try_acquire() as writes:
            assert writes is None
        with pytest.raises(AcquireTimeout):
            await enter(other.write.acquire(timeout=0.05))
    await joined(a, PATH, 0)  # a waiter that gives up does not wait for the servers
    async with one.write.try_acquire() as held:
        assert type(held) is WriteHeld
        async with other.write.try_acquire() as writes, other.read.try_acquire() as reads:
            assert (writes, reads) == (None, None)
    await joined(a, PATH, 0)


# --- downgrading -------------------------------------------------------------------------------


async def test_downgraded_writer_lets_readers_in_and_no_writer(a: Client, b: Client) -> None:
    one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
    async with crowd() as them:
        async with one.write as held:
            await come(them, a, "r1", other.read)
            await come(them, a, "w2", other.write)
            await come(them, a, "r3", other.read)
            token, before, fence = held.token, held.path, held.fenced()
            assert not held.is_downgraded
            await held.downgrade()
            assert held.is_downgraded
            assert (held.token, held.session_id) == (token, a.session_id)
            assert held.path == before.replace("__WRIT__", "__READ__")
            await held.verify()
            # A reader does not write: not with what the writer was given.
            with pytest.raises(Fenced):
                await fence.create("/written", b"")
            await held.downgrade()  # once more does nothing
            await them.are_inside("r1")
            assert "__READ__" in (await joined(a, PATH, 4))[0]
            them.leave("r1")
            await them.are_inside()  # w2 waits for the reader that was a writer
            held.check()
        await them.are_inside("w2")
    await joined(a, PATH, 0)


@on_embedded
@pytest.mark.parametrize("when", ["before", "after"])
async def test_deleted_znode_is_lost_by_a_writer_that_downgrades(
    server: ServerUnderTest, a: Client, when: str
) -> None:
    lock = ReadWriteLock(a, PATH)
    with pytest.raises(LockLost) as caught:
        async with lock.write as held:
            if when == "after":
                await held.downgrade()
            with raw(server) as operator:
                operator.delete(held.path)
            if when == "before":
                await held.downgrade()
                pytest.fail("there was nothing to downgrade")
            await anyio.sleep(PATIENCE)
    assert caught.value.reason is LossReason.DELETED
    assert await names(a, PATH) == []


async def test_refused_create_of_the_reader_leaves_a_writer() -> None:
    may = Permission.ALL & ~Permission.CREATE
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        with anyio.fail_after(PATIENCE):
            async with ReadWriteLock(a, PATH).write as held, crowd() as them:
                await come(them, b, "r", ReadWriteLock(b, PATH).read)
                await a.set_acl(PATH, [ACL(may, "world", "anyone")])
                with pytest.raises(NoAuthError):
                    await held.downgrade()
                assert not held.is_downgraded
                await held.verify()
                await them.are_inside()
                await a.set_acl(PATH, [ACL(Permission.ALL, "world", "anyone")])
                await held.downgrade()
                await them.are_inside("r")
        assert contenders_left(server, PATH) == []


async def test_refused_delete_of_the_writer_is_raised_and_nobody_comes_in() -> None:
    """A client that may create in a path, but not delete, reads on; its znodes stay."""
    may = Permission.ALL & ~Permission.DELETE
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await a.create(PATH, acl=[ACL(may, "world", "anyone")])
        with anyio.fail_after(PATIENCE), pytest.raises(ReleaseError, match="__READ__"):
            async with ReadWriteLock(a, PATH).write as held:
                for _ in range(2):
                    with pytest.raises(ReleaseError, match="__WRIT__") as caught:
                        await held.downgrade()
                    assert isinstance(caught.value.__cause__, NoAuthError)
                assert held.is_downgraded
                await held.verify()
                async with ReadWriteLock(b, PATH).read.try_acquire() as reads:
                    assert reads is None


def front_of(server: EmbeddedServer) -> list[str]:
    """The roles of the znodes with the lowest number, sorted."""
    left = contenders_left(server, PATH)
    lowest = min((path[-10:] for path in left), default="")
    return sorted("read" if "__READ__" in path else "write" for path in left if lowest in path)


@pytest.mark.parametrize(
    ("step", "what", "there"),
    [
        (OpCode.CREATE2, "request", ["write"]),
        (OpCode.CREATE2, "reply", ["read", "write"]),
        (OpCode.DELETE, "request", ["read", "write"]),
        (OpCode.DELETE, "reply", ["read"]),
    ],
    ids=["create lost", "answer to create lost", "delete lost", "answer to delete lost"],
)
@pytest.mark.parametrize("then", ["stays", "leaves", "session ends"])
@with_virtual_server
async def test_connection_is_lost_in_the_middle_of_a_downgrade(
    server: EmbeddedServer,
    link: Link,
    a: Client,
    b: Client,
    step: OpCode,
    what: str,
    there: list[str],
    then: str,
) -> None:
    """Whether it was applied or not, there is always a znode, and nothing is left in the end."""

    async def body() -> None:
        async with ReadWriteLock(a, PATH).write as held:
            them.come("w", to=ReadWriteLock(b, PATH).write)
            await passes(1.0)
            (server.drop_request if what == "request" else server.drop_reply)(step)
            link.refuse()
            async with anyio.create_task_group() as within:
                within.start_soon(held.downgrade)
                await settled()
                assert a.state is SessionState.SUSPENDED
                assert front_of(server) == there
                assert held.is_downgraded == (step is OpCode.DELETE)
                if then == "leaves":
                    within.cancel_scope.cancel()
                    return
                if then == "session ends":
                    server.expire_session(a.session_id)
                link.heal()
            assert held.is_downgraded
            assert front_of(server) == ["read"]
            assert len(contenders_left(server, PATH)) == 2
            assert them.log == []
            await passes(3 * SESSION)
            held.check()
            await held.verify()

    async with crowd() as them:
        if then == "session ends":
            with pytest.raises(LockLost):
                await body()
        else:
            await body()
        link.heal()
        await passes(2 * SESSION)
        await them.are_inside("w")
    assert contenders_left(server, PATH) == []


@pytest.mark.parametrize("reader", ["stays", "is deleted"])
@with_virtual_server
async def test_cancelled_downgrade_leaves_a_writer_until_it_is_called_again(
    server: EmbeddedServer, link: Link, a: Client, b: Client, reader: str
) -> None:
    """Its reader may be there by then: it lets nobody in, and the next call takes it."""
    async with crowd() as them:
        async with ReadWriteLock(a, PATH).write as held:
            them.come("r", to=ReadWriteLock(b, PATH).read)
            await passes(1.0)
            link.stall("to_client")
            with anyio.move_on_after(0.1):
                await held.downgrade()
            link.heal()
            await passes(2 * SESSION)
            assert not held.is_downgraded
            assert front_of(server) == ["read", "write"]
            if reader == "is deleted":
                await b.delete(held.path.replace("__WRIT__", "__READ__"))
                await passes(1.0)
                held.check()
            await them.are_inside()
            await held.downgrade()
            assert front_of(server) == ["read"]
            await passes(1.0)
            await them.are_inside("r")
            held.check()
            await held.verify()
    assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_writer_deleted_during_its_downgrade_loses_the_lock(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """Another writer comes in before the reader is there, which therefore must not hold."""
    async with crowd() as them:
        with pytest.raises(LockLost) as caught:
            async with ReadWriteLock(a, PATH).write as held:
                them.come("w", to=ReadWriteLock(b, PATH).write)
                await passes(0.1)
                # The writer is not watched yet: its hold is young.
                link.stall("to_client")
                await b.delete(held.path)
                await them.are_inside("w")
                async with anyio.create_task_group() as within:
                    within.start_soon(held.downgrade)
                    await passes(0.1)
                    link.heal()
        assert caught.value.reason is LossReason.DELETED
        await passes(0.1)
        assert front_of(server) == ["write"]
    assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_reader_that_was_asked_to_release_before_it_was_known_is_found(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """Others change its data meanwhile, so they do not show whose it is."""
    async with ReadWriteLock(a, PATH).write as held:
        await passes(1.0)
        server.drop_reply(OpCode.CREATE2)
        link.refuse()
        async with anyio.create_task_group() as within:
            within.start_soon(held.downgrade)
            await settled()
            assert [each.path for each in await ReadWriteLock(b, PATH).revoke()] != [held.path]
            link.heal()
        assert held.is_downgraded
        await held.revocation_requested()
        await passes(3 * SESSION)
        await held.verify()
    assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_release_during_a_downgrade_leaves_no_znode(
    server: EmbeddedServer, link: Link, a: Client
) -> None:
    async with ReadWriteLock(a, PATH).write as held:
        await passes(1.0)
        server.drop_reply(OpCode.CREATE2)
        link.refuse()
        async with anyio.create_task_group() as within:

            async def downgrade() -> None:
                with pytest.raises(UsageError, match="resigned"):
                    await held.downgrade()

            within.start_soon(downgrade)
            await settled()
            within.start_soon(held.release)
            await settled()
            link.heal()
        assert not held.is_downgraded
        await passes(2 * SESSION)
        assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_release_before_a_downgrade_has_begun_is_reported(a: Client) -> None:
    """A second downgrade has checked the hold, and waits for the first one."""
    refused: list[str] = []

    async def downgrade(held: WriteHeld) -> None:
        try:
            await held.downgrade()
        except UsageError as error:
            refused.append(str(error))

    async with ReadWriteLock(a, PATH).write as held, anyio.create_task_group() as within:
        within.start_soon(downgrade, held)
        within.start_soon(downgrade, held)
        within.start_soon(held.release)
    assert refused == [f"the lock of {PATH} was resigned"] * 2


@with_virtual_server
async def test_two_tasks_downgrade_once(server: EmbeddedServer, a: Client) -> None:
    async with ReadWriteLock(a, PATH).write as held:
        async with anyio.create_task_group() as within:
            within.start_soon(held.downgrade)
            within.start_soon(held.downgrade)
        assert held.is_downgraded
        assert front_of(server) == ["read"]
        await held.verify()
    assert contenders_left(server, PATH) == []


# --- what is refused ---------------------------------------------------------------------------


@on_embedded
async def test_reader_is_never_made_a_writer(a: Client) -> None:
    lock, same = ReadWriteLock(a, PATH), ReadWriteLock(a, PATH)
    async with lock.read:
        for write in (lock.write, same.write):
            for attempt in (write, write.acquire(timeout=1), write.try_acquire()):
                with pytest.raises(UpgradeError):
                    await enter(attempt)
        with pytest.raises(AlreadyHeldError):
            await enter(lock.read)
    async with lock.write as held:
        for read in (lock.read, same.read):
            with pytest.raises(AlreadyHeldError, match="downgrade"):
                await enter(read)
        await held.downgrade()
    assert await names(a, PATH) == []


@on_embedded
async def test_plain_lock_on_the_same_path_is_refused(a: Client, b: Client) -> None:
    async with Lock(a, PATH):
        with pytest.raises(MixedLayoutError, match="path of its own"):
            await enter(ReadWriteLock(b, PATH).read)
    async with ReadWriteLock(a, PATH).read:
        with pytest.raises(MixedLayoutError, match="read/write lock"):
            await enter(Lock(b, PATH).acquire(timeout=1))


@on_embedded
async def test_kazoos_layout_names_readers_and_writers_as_kazoo_does(a: Client, b: Client) -> None:
    one, other = (ReadWriteLock(each, PATH, layout=Layout.KAZOO) for each in (a, b))
    async with one.write as held:
        assert "__lock__" in held.path
        async with other.read.try_acquire() as reads:
            assert reads is None
        await held.downgrade()
        assert "__rlock__" in held.path
        async with other.read as reads:
            assert "__rlock__" in reads.path
        # kazoo's plain lock does not wait for readers.
        with pytest.raises(MixedLayoutError, match="path of its own"):
            await enter(Lock(b, PATH, layout=Layout.KAZOO))


@on_embedded
async def test_lock_describes_itself(a: Client) -> None:
    lock = ReadWriteLock(a, PATH, identity="me")
    assert (lock.path, lock.identity) == (PATH, "me")
    assert repr(lock) == f"<ReadWriteLock {PATH}>"
    assert [repr(lock.read), repr(lock.write)] == [f"<ReadLock {PATH}>", f"<WriteLock {PATH}>"]
