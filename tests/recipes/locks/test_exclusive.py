"""The lock that is one znode: who has it, who gets it next, and whose znode it is."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    connect,
    eventually,
    in_memory,
    nothing_left,
    stopped_clock,
)
from kit.virtual_time import Link, on_virtual_time, passes, settled
from kit.virtual_time import connect as connect_virtually

from aiolead import AcquireTimeout, CreateMode, ExclusiveLock, Held, LockLost
from aiolead.errors import AlreadyHeldError, ConfigurationError, LossReason
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PARENT = "/locks"
PATH = "/locks/nightly"

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


# --- holding, on every server --------------------------------------------------------------------


async def test_it_excludes_everybody(server: ServerUnderTest) -> None:
    """Tasks of two clients count together, with a counter that nothing else guards."""
    counter, tokens = 0, []

    async def count(lock: ExclusiveLock) -> None:
        nonlocal counter
        async with lock as held:
            seen = counter
            tokens.append(held.token)
            await anyio.lowlevel.checkpoint()
            counter = seen + 1

    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        for lock in (ExclusiveLock(a, PATH), ExclusiveLock(b, PATH)):
            for _ in range(5):
                tasks.start_soon(count, lock)
    assert counter == 10
    assert tokens == sorted(set(tokens))


async def test_who_holds_it_and_what_a_hold_says(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        lock = ExclusiveLock(a, PATH, identity="mé")
        assert await lock.holders() == []
        async with lock as held:
            (holder,) = await lock.holders()
            assert (holder.identity, holder.path, holder.token) == ("mé", PATH, held.token)
            assert (holder.session_id, holder.is_holder) == (a.session_id, True)
            assert (held.path, held.identity, held.session_id) == (PATH, "mé", a.session_id)
            await held.verify()
            await held.fenced().create("/written")
            async with ExclusiveLock(b, PATH).try_acquire() as other:
                assert other is None
            with pytest.raises(AlreadyHeldError):
                async with lock:
                    pytest.fail("it waits for itself")
        assert await lock.holders() == []
        async with ExclusiveLock(b, PATH).try_acquire() as other:
            assert isinstance(other, Held)
            assert other.token > held.token


@pytest.mark.parametrize("wait", [0, 0.05])
async def test_waiting_ends_in_time(server: ServerUnderTest, wait: float) -> None:
    async with connect(server) as a, connect(server) as b:
        async with ExclusiveLock(a, PATH):
            with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
                async with ExclusiveLock(b, PATH).acquire(timeout=wait):
                    pytest.fail("two hold it")


async def test_an_operator_takes_it_away(server: ServerUnderTest) -> None:
    """Its holder is told, and leaves what is at the path by then to whom it belongs."""
    others: list[Held] = []
    leaves = anyio.Event()

    async def take() -> None:
        async with ExclusiveLock(b, PATH) as other:
            others.append(other)
            await leaves.wait()
            await other.verify()

    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        with pytest.raises(LockLost) as caught:
            async with ExclusiveLock(a, PATH) as held:
                await held.verify()
                try:
                    with anyio.CancelScope(shield=True):  # its end may be told before the answer
                        await b.delete(PATH)
                    tasks.start_soon(take)
                    await anyio.sleep_forever()
                finally:
                    with anyio.move_on_after(PATIENCE, shield=True):
                        await eventually(lambda: others != [], "somebody else holds it")
        assert caught.value.reason is LossReason.DELETED
        assert others[0].token > held.token
        leaves.set()


# --- whose znode ---------------------------------------------------------------------------------


async def test_a_znode_of_another_is_left_alone() -> None:
    """Deleted by an operator, and made by somebody else: all before the holder releases."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        others: list[Held] = []
        leave = anyio.Event()

        async def hold() -> None:
            async with ExclusiveLock(b, PATH) as other:
                others.append(other)
                await leave.wait()
                await other.verify()

        async with anyio.create_task_group() as tasks:
            with pytest.raises(LockLost):
                async with ExclusiveLock(a, PATH):
                    await eventually(lambda: server.requests["SYNC"] == 1, "it has settled")
                    with anyio.CancelScope(shield=True):  # its end may be told before the answer
                        await b.delete(PATH)
                        tasks.start_soon(hold)
                        await eventually(lambda: others != [], "somebody else has it")
                    await anyio.sleep_forever()
            assert len(others) == 1
            await a.sync(PATH)
            leave.set()
        await nothing_left(server, PARENT)


async def test_the_next_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our znode is deleted before we hold, which our check shows; then somebody makes theirs."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.create(PARENT)
        proofs = iter([False])
        is_enough, check = a.backend.lease.is_enough, a.check

        async def deleted_before_it(path: str) -> None:
            await b.delete(path)
            try:
                await check(path)
            finally:
                await b.create(path, mode=CreateMode.EPHEMERAL)

        monkeypatch.setattr(type(a.backend.lease), "is_enough", lambda _: next(proofs, is_enough()))
        monkeypatch.setattr(type(a), "check", lambda _, path: deleted_before_it(path))
        with pytest.raises(AcquireTimeout):
            async with ExclusiveLock(a, PATH).acquire(timeout=0):
                raise AssertionError("two hold the lock")
        await a.sync(PATH)
        stat = await b.exists(PATH)
        assert stat is not None
        assert stat.ephemeral_owner == b.session_id


@backends
@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("cancelled", [True, False], ids=["cancelled", "wanted"])
def test_a_create_whose_answer_was_lost(backend: Backend, applied: bool, cancelled: bool) -> None:
    """It is looked for, and used or deleted; and sent again only if it was not applied."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            await b.create(PARENT)
            entered: list[Held] = []
            scope = anyio.CancelScope()

            async def hold() -> None:
                with scope:
                    async with ExclusiveLock(a, PATH) as held:
                        entered.append(held)
                        await passes(1.0)

            async with anyio.create_task_group() as tasks:
                before = server.requests["CREATE2"]
                (server.drop_reply if applied else server.drop_request)(OpCode.CREATE2)
                link.room = 0
                tasks.start_soon(hold)
                await settled()
                assert (PATH in server.znodes()) == applied
                if cancelled:
                    scope.cancel()
                link.restore()
            await passes(20.0)
            assert (entered == []) == cancelled
            wanted = 1 if applied or cancelled else 2
            assert server.requests["CREATE2"] - before == wanted
            assert PATH not in server.znodes()

    on_virtual_time(backend, play)


@backends
def test_two_tasks_of_one_session_do_not_take_each_others_znode(backend: Backend) -> None:
    """One of them has lost the answer to its create, and the znode that it finds is the other's."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a:
            inside = most = 0

            async def hold() -> None:
                nonlocal inside, most
                async with ExclusiveLock(a, PATH, identity="the same"):
                    inside += 1
                    most = max(most, inside)
                    await passes(0.5)
                    inside -= 1

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold)
                await settled()
                server.drop_request(OpCode.CREATE2)
                tasks.start_soon(hold)
                await settled()
            assert most == 1

    on_virtual_time(backend, play)


@backends
def test_a_lost_create_that_is_applied_late_is_taken_over(backend: Backend) -> None:
    """It is applied after it was looked for twice, and its client does not wait for itself."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a:
            await a.create(PARENT)

            async def give_up() -> None:
                with anyio.move_on_after(5.0):
                    async with ExclusiveLock(a, PATH, identity="me"):
                        pytest.fail("it was not created")

            async with anyio.create_task_group() as tasks:
                server.drop_request(OpCode.CREATE2)
                link.room = 0
                tasks.start_soon(give_up)
                await settled()
                tasks.cancel_scope.cancel()
            link.restore()
            await passes(30.0)
            assert PATH not in server.znodes()
            # As if the lost create was applied only now.
            ghost = a.create(PATH, b"me", mode=CreateMode.EPHEMERAL)
            await ghost
            async with ExclusiveLock(a, PATH, identity="me").acquire(timeout=1.0) as held:
                assert held.token == (await ghost).stat.czxid

    on_virtual_time(backend, play)


@backends
def test_what_was_released_without_a_link_is_not_taken_from_the_next(backend: Backend) -> None:
    """Its session is over by the time there is a link again, and somebody else has the znode."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            async with ExclusiveLock(a, PATH):
                await passes(1.0)
                link.lose()
                await settled()
            server.expire_session(a.session_id)
            async with ExclusiveLock(b, PATH) as other:
                link.restore()
                await a.ready()
                await passes(5.0)
                await other.verify()

    on_virtual_time(backend, play)


@backends
def test_who_leaves_when_its_session_is_over_deletes_nothing(backend: Backend) -> None:
    """It has a new session by the time its body ends, and somebody else has the znode."""

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, connect_virtually(server) as b:
            left = anyio.Event()
            others: list[Held] = []

            async def take_over() -> None:
                async with ExclusiveLock(b, PATH) as other:
                    others.append(other)
                    await left.wait()
                    await passes(1.0)
                    await other.verify()

            async with anyio.create_task_group() as tasks:
                with pytest.raises(LockLost) as caught:
                    async with ExclusiveLock(a, PATH) as held:
                        await passes(1.0)
                        tasks.start_soon(take_over)
                        server.expire_session(a.session_id)
                        with anyio.CancelScope(shield=True):
                            await passes(5.0)
                assert caught.value.reason is LossReason.EXPIRED
                assert a.session_id != held.session_id
                assert len(others) == 1
                left.set()

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("whose", ["the waiter's", "the holder's"])
def test_a_session_ends(backend: Backend, whose: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, connect_virtually(server) as b:
            entered: list[Held] = []

            async def hold() -> None:
                async with ExclusiveLock(b, PATH) as held:
                    entered.append(held)
                    assert held.session_id == b.session_id
                    await passes(1.0)

            is_lost = whose == "the holder's"
            async with anyio.create_task_group() as tasks:
                with pytest.raises(LockLost) if is_lost else nullcontext():
                    async with ExclusiveLock(a, PATH):
                        tasks.start_soon(hold)
                        await settled()
                        server.expire_session((a if is_lost else b).session_id)
                        await passes(1.0)
                        assert entered == []
                        assert not is_lost
            assert len(entered) == 1

    on_virtual_time(backend, play)


# --- what it costs -------------------------------------------------------------------------------


async def test_counts() -> None:
    """Trying is one request, whether or not somebody else has it; waiting is two."""
    async with EmbeddedServer(tick_time=60) as server:
        async with (
            in_memory(server, session_timeout=120, clock=stopped_clock) as a,
            in_memory(server, session_timeout=120, clock=stopped_clock) as b,
        ):
            await a.create(PARENT)
            before = server.requests.copy()
            async with ExclusiveLock(a, PATH):
                assert server.requests - before == {"CREATE2": 1}
                async with ExclusiveLock(b, PATH).try_acquire() as held:
                    assert held is None
                assert server.requests - before == {"CREATE2": 2}

                async def wait() -> None:
                    async with ExclusiveLock(b, PATH):
                        pytest.fail("two hold it")

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(wait)
                    await eventually(lambda: PATH in server.watches(), "it waits")
                    tasks.cancel_scope.cancel()
                await eventually(lambda: PATH not in server.watches(), "the watch is gone")
                more = server.requests - before
                assert (more["CREATE2"], more["GET_DATA"]) == (3, 1)
            await eventually(lambda: PATH not in server.znodes(), "it is released")
            assert (server.requests - before)["DELETE"] == 1


@pytest.mark.parametrize("waiters", [1, 5])
async def test_all_who_wait_are_woken(waiters: int) -> None:
    """The herd: each hand-over costs each waiter a look and a create, and all but one another look.

    The first look is at the change by which the holder proves its znode before it deletes it.
    """
    async with EmbeddedServer(tick_time=60) as server, anyio.create_task_group() as tasks:
        entered = 0
        leave = anyio.Event()

        async def wait() -> None:
            nonlocal entered
            async with in_memory(server, session_timeout=120, clock=stopped_clock) as client:
                async with ExclusiveLock(client, PATH):
                    entered += 1
                    await leave.wait()

        async with in_memory(server, session_timeout=120, clock=stopped_clock) as a:
            async with ExclusiveLock(a, PATH):
                for _ in range(waiters):
                    tasks.start_soon(wait)
                await eventually(lambda: len(server.watches().get(PATH, ())) == waiters, "all wait")
                before = server.requests.copy()
            await eventually(lambda: entered == 1, "one of them enters")
            await eventually(
                lambda: len(server.watches().get(PATH, ())) == waiters - 1, "the others wait again"
            )
            costs = server.requests - before
            looks = 2 * waiters - 1
            assert costs == Counter(SET_DATA=1, DELETE=1, CREATE2=waiters, GET_DATA=looks)
            leave.set()


def test_arguments() -> None:
    with pytest.raises(ConfigurationError):
        ExclusiveLock(None, PATH)  # type: ignore[arg-type]
