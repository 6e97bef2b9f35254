"""The lock that readers share, and that a writer has alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    catch_up,
    connect,
    contenders_left,
    eventually,
    in_memory,
    joined,
    names,
    nothing_left,
    raw,
)
from kit.virtual_time import (
    SESSION,
    Link,
    embedded,
    on_virtual_time,
    passes,
    settled,
    virtually,
)
from kit.virtual_time import connect as connect_virtually

from aiolead import AcquireTimeout, Fenced, Held, Lock, LockLost, ReadWriteLock
from aiolead.errors import (
    AlreadyHeldError,
    LossReason,
    MixedLayoutError,
    NoAuthError,
    ReleaseError,
    ServerError,
    UpgradeError,
)
from aiolead.model import ACL, Permission, SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend
from aiolead.types import Layout, ReadLock, WriteHeld, WriteLock

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/shared"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Crowd:
    """Holders by name, each of which stays until it is told to leave.

    Attributes:
        inside: who holds now.
        log: who has come in, in order.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._leave: dict[str, anyio.Event] = {}
        self.inside: dict[str, Held] = {}
        self.log: list[str] = []

    async def come(self, name: str, lock: ReadLock | WriteLock) -> None:
        """Gets in line; returns once that is so."""

        async def length() -> int:
            await catch_up(lock._client)  # that the others are there it may not know yet
            return len(await lock._contenders_with_data())

        there = await length()
        self._leave[name] = anyio.Event()
        self._tasks.start_soon(self._stay, name, lock)

        async def in_line() -> bool:
            return await length() > there

        await eventually(in_line, f"{name} is in line")

    async def _stay(self, name: str, lock: ReadLock | WriteLock) -> None:
        async with lock as held:
            assert not any(other.startswith("w") for other in self.inside), self.inside
            assert not (name.startswith("w") and self.inside), self.inside
            self.inside[name] = held
            self.log.append(name)
            await self._leave[name].wait()
            del self.inside[name]

    def leave(self, *names: str) -> None:
        for name in names:
            self._leave[name].set()

    async def are_inside(self, *names: str) -> None:
        await eventually(
            lambda: sorted(self.inside) == sorted(names),
            f"{names} are inside; there are {list(self.inside)}",
        )


@asynccontextmanager
async def crowd() -> AsyncIterator[Crowd]:
    async with anyio.create_task_group() as tasks:
        yield Crowd(tasks)


# --- who is let in -----------------------------------------------------------------------------


async def test_readers_share_and_nobody_is_overtaken(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b, crowd() as them:
        one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
        await them.come("r1", one.read)
        await them.come("r2", other.read)
        await them.are_inside("r1", "r2")
        await them.come("w3", one.write)
        # These could share with those inside, but w3 was there before them.
        await them.come("r4", one.read)
        await them.come("r5", other.read)
        await them.come("w6", other.write)
        await them.come("r7", other.read)
        await catch_up(a)
        kinds = [who.is_holder for who in await one.contenders()]
        assert kinds == [True, True, False, False, False, False, False]
        assert [len(await one.read.holders()), len(await one.write.holders())] == [2, 0]
        assert [len(await one.read.contenders()), len(await one.write.contenders())] == [5, 2]
        them.leave("r2")
        await them.are_inside("r1")
        them.leave("r1")
        await them.are_inside("w3")
        assert [who.token for who in await one.holders()] == [them.inside["w3"].token]
        them.leave("w3")
        await them.are_inside("r4", "r5")
        them.leave("r5", "r4")
        await them.are_inside("w6")
        them.leave("w6")
        await them.are_inside("r7")
        them.leave("r7")
        await them.are_inside()


async def test_they_wait_for_whoever_is_left(server: ServerUnderTest) -> None:
    """Waiters that give up let in those behind them, and nobody else."""
    async with connect(server) as a, connect(server) as b, crowd() as them:
        one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
        await them.come("r1", one.read)
        with anyio.move_on_after(PATIENCE) as giving_up:
            async with anyio.create_task_group() as tasks:

                async def give_up() -> None:
                    async with other.write:
                        pytest.fail("it was let in")

                tasks.start_soon(give_up)
                await joined(a, PATH, 2)
                await them.come("r3", other.read)
                await them.come("w4", one.write)
                await them.come("r5", one.read)
                await them.are_inside("r1")
                giving_up.cancel()
        await them.are_inside("r1", "r3")
        them.leave("r1")
        await them.are_inside("r3")
        them.leave("r3")
        await them.are_inside("w4")
        them.leave("w4", "r5")
        await them.are_inside()


async def test_try_acquire_and_limits(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
        async with one.read.try_acquire() as held:
            assert type(held) is Held
            async with other.read.try_acquire() as reads:
                assert reads is not None
            async with other.write.try_acquire() as writes:
                assert writes is None
            with pytest.raises(AcquireTimeout):
                async with other.write.acquire(timeout=0.05):
                    pytest.fail("a writer beside a reader")
        await joined(a, PATH, 0)  # a waiter that gives up does not wait for the servers
        async with one.write.try_acquire() as held:
            assert type(held) is WriteHeld
            async with other.write.try_acquire() as writes, other.read.try_acquire() as reads:
                assert writes is None
                assert reads is None
        await joined(a, PATH, 0)  # who gives up does not wait for the servers


# --- downgrading -------------------------------------------------------------------------------


async def test_a_writer_becomes_a_reader_and_lets_no_writer_in(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b, crowd() as them:
        one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
        leave = anyio.Event()

        async def write_then_read() -> None:
            async with one.write as held:
                await them.come("r1", other.read)
                await them.come("w2", other.write)
                await them.come("r3", other.read)
                token, before, fence = held.token, held.path, held.fenced()
                assert not held.is_downgraded
                await held.downgrade()
                assert held.is_downgraded
                assert (held.token, held.session_id) == (token, a.session_id)
                assert held.path == before.replace("__WRIT__", "__READ__")
                await held.verify()
                # Who reads does not write: not with what a writer was given.
                with pytest.raises(Fenced):
                    await fence.create("/written", b"")
                await held.downgrade()  # once more does nothing
                await leave.wait()
                held.check()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_then_read)
            await them.are_inside("r1")
            line = await joined(a, PATH, 4)
            assert "__READ__" in line[0]
            them.leave("r1")
            await them.are_inside()  # w2 waits for the reader that was a writer
            leave.set()
            await them.are_inside("w2")
            them.leave("w2", "r3")
        await joined(a, PATH, 0)


@on_embedded
async def test_downgrading_what_is_lost(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        lock = ReadWriteLock(a, PATH)
        with pytest.raises(LockLost) as caught:
            async with lock.write as held:
                with raw(server) as operator:
                    operator.delete(held.path)
                await held.downgrade()
                pytest.fail("there was nothing to downgrade")
        assert caught.value.reason is LossReason.DELETED
        assert await names(a, PATH) == []


@on_embedded
async def test_a_downgraded_writer_hears_that_its_znode_is_deleted(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        lock = ReadWriteLock(a, PATH)
        with pytest.raises(LockLost) as caught:
            async with lock.write as held:
                await held.downgrade()
                with raw(server) as operator:
                    operator.delete(held.path)
                await anyio.sleep(PATIENCE)
        assert caught.value.reason is LossReason.DELETED


async def test_a_refused_downgrade_leaves_a_writer() -> None:
    """Whoever may create, but not delete, in a path cannot downgrade, and still holds."""
    may = Permission.ALL & ~Permission.DELETE
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await a.create(PATH, acl=[ACL(may, "world", "anyone")])
        with anyio.fail_after(PATIENCE), pytest.raises(ReleaseError, match=PATH):
            async with ReadWriteLock(a, PATH).write as held:
                with pytest.raises(ServerError) as caught:
                    await held.downgrade()
                assert isinstance(getattr(caught.value, "cause", caught.value), NoAuthError)
                assert not held.is_downgraded
                await held.verify()
                async with ReadWriteLock(b, PATH).read.try_acquire() as reads:
                    assert reads is None


@backends
@pytest.mark.parametrize("what", ["request", "reply"])
@pytest.mark.parametrize("then", ["stays", "leaves", "session ends"])
def test_the_link_is_lost_in_the_middle_of_a_downgrade(
    backend: Backend, what: str, then: str
) -> None:
    """Applied or not: it goes on, never without a znode, and nothing is left in the end."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            mine, theirs = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
            entered: list[str] = []
            ends = anyio.Event()

            async def write() -> None:
                async with theirs.write:
                    entered.append("w")

            async def body() -> None:
                async with mine.write as held:
                    tasks.start_soon(write)
                    await passes(1.0)
                    if what == "request":
                        server.drop_request(OpCode.MULTI)
                    else:
                        server.drop_reply(OpCode.MULTI)
                    link.room = 0
                    async with anyio.create_task_group() as within:
                        within.start_soon(held.downgrade)
                        await settled()
                        assert a.state is SessionState.SUSPENDED
                        assert (what == "reply") == held_by_a_reader(server)
                        if then == "leaves":
                            within.cancel_scope.cancel()
                            return
                        if then == "session ends":
                            server.expire_session(a.session_id)
                        link.restore()
                    assert held.is_downgraded
                    assert held_by_a_reader(server)
                    assert len(contenders_left(server, PATH)) == 2
                    assert entered == []
                    await passes(3 * SESSION)
                    held.check()
                    await held.verify()

            async with anyio.create_task_group() as tasks:
                if then == "session ends":
                    with pytest.raises(LockLost):
                        await body()
                else:
                    await body()
                link.restore()
                ends.set()
                await passes(2 * SESSION)
                assert entered == ["w"]
            assert contenders_left(server, PATH) == []

    on_virtual_time(backend, play)


def held_by_a_reader(server: EmbeddedServer) -> bool:
    first = min(contenders_left(server, PATH), key=lambda name: name[-10:])
    return "__READ__" in first


# --- what is refused ---------------------------------------------------------------------------


@on_embedded
async def test_a_reader_is_never_made_a_writer(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        lock = ReadWriteLock(a, PATH)
        same = ReadWriteLock(a, PATH)
        async with lock.read:
            for write in (lock.write, same.write):
                for attempt in (write, write.acquire(timeout=1), write.try_acquire()):
                    with pytest.raises(UpgradeError):
                        async with attempt:
                            pytest.fail("it was made a writer")
        async with lock.write as held:
            for read in (lock.read, same.read):
                with pytest.raises(AlreadyHeldError, match="downgrade"):
                    async with read:
                        pytest.fail("it waits for itself")
            await held.downgrade()
        async with lock.read:
            with pytest.raises(AlreadyHeldError):
                async with lock.read:
                    pytest.fail("a writer between the two would wait for ever")
        assert await names(a, PATH) == []


@on_embedded
async def test_other_recipes_do_not_fit(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Lock(a, PATH):
            with pytest.raises(MixedLayoutError, match="path of its own"):
                async with ReadWriteLock(b, PATH).read:
                    pytest.fail("they do not exclude each other")
        async with ReadWriteLock(a, PATH).read:
            with pytest.raises(MixedLayoutError, match="read/write lock"):
                async with Lock(b, PATH).acquire(timeout=1):
                    pytest.fail("they do not exclude each other")


@on_embedded
async def test_kazoos_layout(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
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
                async with Lock(b, PATH, layout=Layout.KAZOO):
                    pytest.fail("another one, of kazoo, would hold beside them")


@on_embedded
async def test_what_it_says_of_itself(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        lock = ReadWriteLock(a, PATH, identity="me")
        assert (lock.path, lock.identity) == (PATH, "me")
        assert repr(lock) == f"<ReadWriteLock {PATH}>"
        assert [repr(lock.read), repr(lock.write)] == [f"<ReadLock {PATH}>", f"<WriteLock {PATH}>"]


# --- what it costs -----------------------------------------------------------------------------


async def test_what_it_costs_to_read_beside_readers_and_to_downgrade() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        async with (
            in_memory(server, session_timeout=60) as a,
            in_memory(server, session_timeout=60) as b,
        ):
            mine, theirs = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
            async with mine.read, theirs.read:
                pass  # makes the path
            async with mine.write:
                pass  # looks whether it fits on the path
            async with theirs.read:
                await eventually(lambda: server.requests["SYNC"] == 1, "it is renewed")
                before = server.requests.copy()
                async with mine.read:
                    assert server.requests - before == {"CREATE2": 1, "GET_CHILDREN": 1}
                assert server.requests - before == {"CREATE2": 1, "GET_CHILDREN": 1, "DELETE": 1}
            before = server.requests.copy()
            async with mine.write as held:
                assert server.requests - before == {"CREATE2": 1, "GET_CHILDREN": 1}
                before = server.requests.copy()
                await held.downgrade()
                assert (server.requests - before)["GET_DATA"] == 1
                assert (server.requests - before)["MULTI"] in (1, 2), "a renewal may leave, too"
            await nothing_left(server, PATH)


@virtually
async def test_downgrade_sends_one_transaction_and_one_read() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        async with ReadWriteLock(client, PATH).write as held:
            await passes(1.0)  # no other renewal is due
            before = server.requests.copy()
            await held.downgrade()
            await passes(0.01)
            assert server.requests - before == {"MULTI": 1, "GET_DATA": 1}


async def test_readers_come_in_without_looking_again() -> None:
    """All those behind a writer are woken when it goes, and only then."""
    async with (
        EmbeddedServer(tick_time=3) as server,
        in_memory(server, session_timeout=60) as a,
        in_memory(server, session_timeout=60) as b,
        crowd() as them,
    ):
        one, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
        await them.come("w1", one.write)
        await them.are_inside("w1")
        for number in range(2, 7):
            await them.come(f"r{number}", other.read)
        before = server.requests.copy()
        them.leave("w1")
        await them.are_inside(*(f"r{number}" for number in range(2, 7)))
        assert (server.requests - before)["GET_CHILDREN"] == 0
        them.leave(*(f"r{number}" for number in range(2, 7)))
