"""The lock, over every kind of server: who holds it, who waits, and how it is lost."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    SESSION,
    JumpingClock,
    catch_up,
    connect,
    eventually,
    joined,
    names,
    raw,
)

from aiolead import AcquireTimeout, Fenced, Held, Lock, LockLost, NoNodeError
from aiolead.errors import Blame, ClientClosedError, LossReason, UsageError

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/lock"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
"""For what the client decides, whatever the server."""


# --- holding -----------------------------------------------------------------------------------


async def test_it_excludes_in_the_order_of_its_tokens(server: ServerUnderTest) -> None:
    """Ten tasks of each of two clients count together, with a counter that nothing else guards."""
    counter, tokens = 0, []

    async def count(lock: Lock) -> None:
        nonlocal counter
        async with lock as held:
            seen = counter
            tokens.append(held.token)
            await anyio.lowlevel.checkpoint()
            counter = seen + 1

    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        for lock in (Lock(a, PATH), Lock(b, PATH)):
            for _ in range(10):
                tasks.start_soon(count, lock)
    assert counter == 20
    assert tokens == sorted(set(tokens))


async def test_first_come_first_served(server: ServerUnderTest) -> None:
    entered = []

    async def hold(lock: Lock, number: int) -> None:
        async with lock:
            entered.append(number)

    async with connect(server) as a, connect(server) as b:
        async with anyio.create_task_group() as tasks, Lock(a, PATH):
            for number in range(6):
                tasks.start_soon(hold, Lock((a, b)[number % 2], PATH), number)
                await joined(a, PATH, number + 2)
    assert entered == [0, 1, 2, 3, 4, 5]


@on_embedded
async def test_one_of_our_own_that_gives_up_was_not_the_holder(server: ServerUnderTest) -> None:
    """Who waits behind it knows it without a listing, and what its going means only with one."""
    entered: list[int] = []
    scopes = [anyio.CancelScope() for _ in range(3)]

    async def wait(lock: Lock, number: int) -> None:
        with scopes[number]:
            async with lock:
                entered.append(number)

    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        async with Lock(a, PATH):
            for number in range(3):
                tasks.start_soon(wait, Lock(b, PATH), number)
                await joined(a, PATH, number + 2)
            scopes[1].cancel()
            await joined(b, PATH, 3)
            for _ in range(5):
                await b.sync(PATH)  # the news, and all that could follow from it, is behind us
            assert entered == []
    assert entered == [0, 2]


@on_embedded
async def test_what_a_hold_says_of_itself(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        lock = Lock(client, PATH, identity="me")
        async with lock as held:
            _, stat = await client.get(held.path)
            assert held.token == stat.czxid
            assert held.session_id == stat.ephemeral_owner == client.session_id
            assert (held.identity, lock.identity, lock.path) == ("me", "me", PATH)
            assert held.is_held
            assert 0 < held.remaining() <= client.session_timeout
            held.check()
            await held.verify()
            assert repr(held) == f"<Held {PATH} token={held.token} held>"
        # Whoever kept the object holds nothing any more.
        assert not held.is_held
        assert held.remaining() == 0
        with pytest.raises(UsageError, match="released"):
            held.check()
        with pytest.raises(UsageError, match="released"):
            await held.verify()
        assert repr(held).endswith("not held>")
        assert await names(client, PATH) == []


async def test_who_holds_and_who_waits(server: ServerUnderTest) -> None:
    async def wait(lock: Lock) -> None:
        async with lock:
            pass

    async with connect(server) as a, connect(server) as b:
        lock = Lock(a, PATH, identity="a")
        assert await lock.holders() == await lock.contenders() == []
        async with anyio.create_task_group() as tasks, lock as held:
            tasks.start_soon(wait, Lock(b, PATH, identity="bé"))
            await joined(a, PATH, 2)
            first, second = await lock.contenders()
            assert await lock.holders() == [first]
            assert (first.identity, first.path, first.token) == ("a", held.path, held.token)
            assert (first.session_id, first.is_holder) == (a.session_id, True)
            assert (second.identity, second.session_id) == ("bé", b.session_id)
            assert not second.is_holder
            assert second.token > first.token


# --- not waiting, or not for ever --------------------------------------------------------------


async def test_try_acquire(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Lock(a, PATH).try_acquire() as held:
            assert isinstance(held, Held)
            mine = await names(a, PATH)
            async with Lock(b, PATH).try_acquire() as other:
                assert other is None
                # Who did not get it does not stand in line, whatever its body does.
                assert await names(b, PATH) == mine
        async with Lock(b, PATH).try_acquire() as held:
            assert held is not None


@pytest.mark.parametrize("wait", [0, 0.05])
async def test_waiting_ends_in_time(server: ServerUnderTest, wait: float) -> None:
    async with connect(server) as a, connect(server) as b:
        lock = Lock(b, PATH)
        async with Lock(a, PATH):
            mine = await names(a, PATH)
            with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout) as caught:
                async with lock.acquire(timeout=wait):
                    pytest.fail("two hold it")
            assert isinstance(caught.value, TimeoutError)
            assert f"{wait:g} seconds" in str(caught.value)
            await eventually(lambda: _are(a, mine), "the place in line is given up")
        async with lock.acquire(timeout=0) as held:
            held.check()


async def _are(client, expected: list[str]) -> bool:  # type: ignore[no-untyped-def]
    return await names(client, PATH) == expected


@on_embedded
async def test_there_is_one_deadline_however_often_a_waiter_is_woken(
    server: ServerUnderTest,
) -> None:
    """The predecessor's znode changes without end: the deadline must not start anew each time."""

    async def disturb(holder: Held) -> None:
        while True:
            await a.set(holder.path, b"")
            await anyio.sleep(0.01)

    async with connect(server) as a, connect(server) as b:
        async with Lock(a, PATH) as held, anyio.create_task_group() as tasks:
            tasks.start_soon(disturb, held)
            with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
                async with Lock(b, PATH).acquire(timeout=0.3):
                    pytest.fail("two hold it")
            tasks.cancel_scope.cancel()


# --- losing it ---------------------------------------------------------------------------------


async def test_deleted_by_an_operator(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        lock = Lock(a, PATH)
        with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as caught:
            async with lock as held:
                await b.delete(held.path)
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.DELETED
        assert caught.value.token == held.token
        assert caught.value.blame is Blame.RIVAL
        assert not caught.value.session_over
        with pytest.raises(LockLost):
            held.check()
        async with lock:
            pass


async def test_deleted_and_left_before_it_was_noticed(server: ServerUnderTest) -> None:
    """The answer to the release says that the znode was gone: somebody else may have held it."""
    async with connect(server) as a:
        with pytest.raises(LockLost) as caught:
            async with Lock(a, PATH) as held:
                with raw(server) as operator:
                    operator.delete(held.path)
        assert caught.value.reason is LossReason.DELETED


async def test_verify_finds_out(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as caught:
            async with Lock(a, PATH) as held:
                await b.delete(held.path)
                await held.verify()
                pytest.fail("verified what is gone")
        assert caught.value.reason is LossReason.DELETED


async def test_a_fenced_write_of_a_deposed_holder_is_refused(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        await a.create("/data", b"old")
        with pytest.raises(LockLost):
            async with Lock(a, PATH) as held:
                fenced = held.fenced()
                await fenced.set("/data", b"new")
                with raw(server) as operator:
                    operator.delete(held.path)
                with anyio.CancelScope(shield=True) as scope:
                    scope.deadline = anyio.current_time() + PATIENCE
                    for write in (
                        fenced.set("/data", b"wrong"),
                        fenced.create("/wrong"),
                        fenced.delete("/data"),
                    ):
                        with pytest.raises(Fenced) as caught:
                            await write
                        assert caught.value.path == held.path
        assert (await a.get("/data"))[0] == b"new"
        assert await a.exists("/wrong") is None


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "fresh"])
async def test_the_path_is_deleted_and_made_anew_by_others(
    server: ServerUnderTest, settled: bool
) -> None:
    """The numbers start anew; still no znode has the name of the one that is gone."""
    others: list[Held] = []
    has_left = anyio.Event()

    async def hold(lock: Lock) -> None:
        async with lock as held:
            others.append(held)
            await has_left.wait()
            # That the first holder has left has not deleted what is not its own.
            await held.verify()
            assert (await b.get(held.path))[1].czxid == held.token

    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as caught:
            async with Lock(a, PATH) as held:
                if settled:
                    await anyio.sleep(0.3)
                with raw(server) as operator:
                    operator.delete(held.path)
                    with suppress(NoNodeError):  # the server may have reaped the empty path
                        operator.delete(PATH)
                tasks.start_soon(hold, Lock(b, PATH))
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.move_on_after(PATIENCE, shield=True):
                        await eventually(lambda: others != [], "somebody else holds it")
        assert caught.value.reason is LossReason.DELETED
        assert others[0].path != held.path
        has_left.set()


@on_embedded
async def test_a_body_that_ignores_being_cancelled(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        with anyio.fail_after(PATIENCE), pytest.raises(LockLost):
            async with Lock(a, PATH) as held:
                await b.delete(held.path)
                try:
                    await anyio.sleep_forever()
                except anyio.get_cancelled_exc_class():
                    pass
                assert not held.is_held


@on_embedded
async def test_what_a_body_raises_while_it_is_cancelled_goes_first(
    server: ServerUnderTest,
) -> None:
    async with connect(server) as a, connect(server) as b:
        lock = Lock(a, PATH)
        with anyio.fail_after(PATIENCE), pytest.raises(ZeroDivisionError) as caught:
            async with lock as held:
                await b.delete(held.path)
                try:
                    await anyio.sleep_forever()
                finally:
                    raise ZeroDivisionError
        assert [note.partition(":")[2].strip() for note in caught.value.__notes__] == [
            LossReason.DELETED.value
        ]
        async with lock:
            pass


@on_embedded
async def test_what_a_task_of_the_body_raises_while_it_is_cancelled(
    server: ServerUnderTest,
) -> None:
    """A task group raises it together with our cancellation; what is left of that is raised."""

    async def fail() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ZeroDivisionError

    async with connect(server) as a, connect(server) as b:
        lock = Lock(a, PATH)
        with anyio.fail_after(PATIENCE), pytest.raises(ExceptionGroup) as caught:
            async with lock as held:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(fail)
                    tasks.start_soon(anyio.sleep_forever)
                    await b.delete(held.path)
                    await anyio.sleep_forever()
        assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
        assert len(caught.value.__notes__) == 1
        assert not held.is_held
        async with lock.acquire(timeout=0):
            assert await names(a, PATH) != []


@on_embedded
async def test_what_the_body_raises_leaves_bare(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        with pytest.raises(KeyError) as caught:
            async with Lock(a, PATH):
                raise KeyError("mine")
        assert not hasattr(caught.value, "__notes__")
        assert await names(a, PATH) == []


@on_embedded
async def test_a_body_that_blocked_the_event_loop_past_the_lease(server: ServerUnderTest) -> None:
    """Nothing has run that could have cancelled it: only the clock tells."""
    clock = JumpingClock()
    async with connect(server, clock=clock) as a, connect(server) as b:
        with pytest.raises(LockLost) as caught:
            async with Lock(a, PATH) as held:
                clock.jump(2 * a.session_timeout)
                assert not held.is_held
                assert held.remaining() == 0
        assert caught.value.reason is LossReason.UNCONFIRMED
        # The session itself may well have lived on: the znode must not stay.
        async with Lock(b, PATH).acquire(timeout=PATIENCE):
            pass


@on_embedded
async def test_check_compares_clocks(server: ServerUnderTest) -> None:
    clock = JumpingClock()
    async with connect(server, clock=clock) as a:
        with pytest.raises(LockLost) as caught:
            async with Lock(a, PATH) as held:
                held.check()
                clock.jump(2 * a.session_timeout)
                with pytest.raises(LockLost):
                    held.check()
        assert caught.value.reason is LossReason.UNCONFIRMED


async def test_the_client_is_closed_around_a_holder(server: ServerUnderTest) -> None:
    """The session outlives the body: nobody can hold it while the body winds down."""
    lost: list[LockLost] = []
    seen: list[list[str]] = []
    entered = anyio.Event()

    async def hold(lock: Lock) -> None:
        try:
            async with lock as held:
                entered.set()
                try:
                    await anyio.sleep_forever()
                finally:
                    with raw(server) as operator:
                        operator.sync(PATH)
                        seen.append([held.path.rpartition("/")[2]])
                        seen.append(operator.children(PATH))
        except LockLost as error:
            lost.append(error)

    async with anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(hold, Lock(client, PATH))
            await entered.wait()
    assert [error.reason for error in lost] == [LossReason.CLOSED]
    assert lost[0].session_over
    assert seen[0] == seen[1]
    with raw(server) as operator:
        operator.sync(PATH)
        with pytest.raises(NoNodeError):
            operator.exists(f"{PATH}/{seen[0][0]}")


async def test_the_client_is_closed_while_waiting(server: ServerUnderTest) -> None:
    ended: list[type[BaseException]] = []

    async def wait(lock: Lock) -> None:
        try:
            async with lock:
                pytest.fail("two hold it")
        except ClientClosedError as error:
            ended.append(type(error))

    async with connect(server) as a, Lock(a, PATH):
        mine = await names(a, PATH)
        async with anyio.create_task_group() as tasks:
            async with connect(server) as b:
                tasks.start_soon(wait, Lock(b, PATH))
                await joined(a, PATH, 2)
        assert ended == [ClientClosedError]
        assert await names(a, PATH) == mine


async def test_a_client_that_is_being_closed_lets_nothing_begin(server: ServerUnderTest) -> None:
    """While one holder winds down, another one has left: who is next there must not be let in."""
    entered: Counter[str] = Counter()
    ended: list[str] = []
    all_ended = anyio.Event()

    async def hold(lock: Lock) -> None:
        try:
            async with lock:
                entered[lock.path] += 1
                await anyio.sleep_forever()
        except (LockLost, ClientClosedError) as error:
            ended.append(type(error).__name__)
            if len(ended) == 3:
                all_ended.set()

    async def grace_period(lock: Lock) -> None:
        with pytest.raises(LockLost):
            async with lock:
                entered[lock.path] += 1
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.move_on_after(PATIENCE, shield=True):
                        await all_ended.wait()

    async with anyio.create_task_group() as tasks:
        async with connect(server, grace_period=SESSION / 4) as client:
            tasks.start_soon(grace_period, Lock(client, "/other"))
            lock = Lock(client, PATH)
            for _ in range(3):
                tasks.start_soon(hold, lock)
            await joined(client, PATH, 3)
            await eventually(lambda: entered.total() == 2, "both are held")
    assert entered == {PATH: 1, "/other": 1}
    assert sorted(ended) == ["ClientClosedError", "ClientClosedError", "LockLost"]


# --- others meddle -----------------------------------------------------------------------------


async def test_a_waiter_whose_znode_was_deleted_queues_again(server: ServerUnderTest) -> None:
    entered = []

    async def hold(lock: Lock, name: str) -> None:
        async with lock:
            entered.append(name)

    async with connect(server) as a, connect(server) as b:
        async with anyio.create_task_group() as tasks, Lock(a, PATH):
            for number, name in enumerate(("first", "second")):
                tasks.start_soon(hold, Lock(b, PATH), name)
                line = await joined(a, PATH, number + 2)
            await a.delete(f"{PATH}/{line[1]}")
            again = line

            async def is_back() -> bool:
                again[:] = await names(a, PATH)
                return len(again) == 3

            await eventually(is_back, "it stands in line again")
    assert entered == ["second", "first"]


async def test_a_change_of_data_hands_nothing_over(server: ServerUnderTest) -> None:
    """Curator asks holders to let go by writing `__REVOKE__` into their znodes."""
    inside = 0

    async def hold(lock: Lock) -> None:
        nonlocal inside
        async with lock:
            inside += 1

    async with connect(server) as a, connect(server) as b:
        async with anyio.create_task_group() as tasks:
            async with Lock(a, PATH) as held:
                tasks.start_soon(hold, Lock(b, PATH))
                line = await joined(a, PATH, 2)
                await anyio.sleep(0.15)  # so that the holder, too, watches its own
                for _ in range(3):
                    for name in line:
                        await a.set(f"{PATH}/{name}", b"__REVOKE__")
                # b has been told of all that, and answered a request since.
                await catch_up(b)
                await held.verify()
                assert inside == 0
                assert await names(a, PATH) == line
                # ... and both still hear of what matters.
                await a.delete(f"{PATH}/{line[1]}")
                await eventually(lambda: _are_others(a, line), "the waiter queues again")
        assert inside == 1


async def _are_others(client, before: list[str]) -> bool:  # type: ignore[no-untyped-def]
    now = await names(client, PATH)
    return len(now) == 2 and now != before


# --- giving it up ------------------------------------------------------------------------------


async def test_resigning(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        lock = Lock(a, PATH)
        async with lock as held:
            await held.release()
            assert not held.is_held
            for _ in range(2):
                with pytest.raises(UsageError, match="resigned"):
                    held.check()
            # The body goes on, and others can have the lock.
            async with Lock(b, PATH).acquire(timeout=PATIENCE) as other:
                await other.verify()
            await held.release()
        async with lock:
            pass
