"""The lock, over every kind of server: its queue, and how it is lost.

The promises that all holds make are in `test_every_hold.py`.
"""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, SESSION, catch_up, connect, eventually, joined, names, raw
from kit.selection import on_embedded
from recipes.blocks import enter
from recipes.crowd import crowd

from aiolead import AcquireTimeout, Client, Fenced, Held, Lock, LockLost, NoNodeError
from aiolead.errors import ClientClosedError, LossReason

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/lock"


# --- the queue ---------------------------------------------------------------------------------


async def test_contenders_enter_in_the_order_in_which_they_came(a: Client, b: Client) -> None:
    async with crowd() as them, Lock(a, PATH):
        for number in range(6):
            them.come(str(number), to=Lock((a, b)[number % 2], PATH))
            await joined(a, PATH, number + 2)
        them.leave()
    assert them.log == ["0", "1", "2", "3", "4", "5"]


@on_embedded
async def test_waiter_of_the_same_client_that_gives_up_lets_nobody_in(a: Client, b: Client) -> None:
    """The waiter behind it knows of it without a listing, and needs one to know what follows."""
    async with crowd() as them:
        async with Lock(a, PATH):
            for number in range(3):
                them.come(str(number), to=Lock(b, PATH))
                await joined(a, PATH, number + 2)
            them.cancel("1")
            await joined(b, PATH, 3)
            for _ in range(5):
                await b.sync(PATH)  # the events, and all that could follow from them, are past
            assert them.log == []
    assert them.log == ["0", "2"]


@on_embedded
async def test_hold_describes_itself(a: Client) -> None:
    lock = Lock(a, PATH, identity="me")
    async with lock as held:
        _, stat = await a.get(held.path)
        assert held.token == stat.czxid
        assert held.session_id == stat.ephemeral_owner == a.session_id
        assert (held.identity, lock.identity, lock.path) == ("me", "me", PATH)
        assert repr(held) == f"<Held {PATH} token={held.token} held>"
    assert repr(held).endswith("not held>")


async def test_holders_and_contenders_are_listed(a: Client, b: Client) -> None:
    lock = Lock(a, PATH, identity="a")
    assert await lock.holders() == await lock.contenders() == []
    async with crowd() as them, lock as held:
        them.come("b", to=Lock(b, PATH, identity="bé"))
        await joined(a, PATH, 2)
        first, second = await lock.contenders()
        assert await lock.holders() == [first]
        assert (first.identity, first.path, first.token) == ("a", held.path, held.token)
        assert (first.session_id, first.is_holder) == (a.session_id, True)
        assert (second.identity, second.session_id) == ("bé", b.session_id)
        assert not second.is_holder
        assert second.token > first.token
        them.leave()


@on_embedded
async def test_deadline_is_the_same_however_often_a_waiter_is_woken(a: Client, b: Client) -> None:
    """The predecessor's znode changes all the time."""

    async def disturb(holder: Held) -> None:
        while True:
            await a.set(holder.path, b"")
            await anyio.sleep(0.01)

    async with Lock(a, PATH) as held, anyio.create_task_group() as tasks:
        tasks.start_soon(disturb, held)
        with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
            await enter(Lock(b, PATH).acquire(timeout=0.3))
        tasks.cancel_scope.cancel()


async def test_waiter_whose_znode_was_deleted_queues_again(a: Client, b: Client) -> None:
    async with crowd() as them, Lock(a, PATH):
        for number, name in enumerate(("first", "second")):
            them.come(name, to=Lock(b, PATH))
            line = await joined(a, PATH, number + 2)
        await a.delete(f"{PATH}/{line[1]}")
        await eventually(lambda: _are_others(a, line), "it queues again")
        them.leave()
    assert them.log == ["second", "first"]


async def test_change_of_data_hands_nothing_over(a: Client, b: Client) -> None:
    """Curator asks holders to release by writing `__REVOKE__` into their znodes."""
    async with crowd() as them, Lock(a, PATH) as held:
        them.come("b", to=Lock(b, PATH))
        line = await joined(a, PATH, 2)
        await anyio.sleep(0.15)  # so that the holder, too, watches its own znode
        for _ in range(3):
            for name in line:
                await a.set(f"{PATH}/{name}", b"__REVOKE__")
        # The waiter has received all these events, and has answered a request since.
        await catch_up(b)
        await held.verify()
        assert them.log == []
        assert await names(a, PATH) == line
        # Both still receive the events that matter.
        await a.delete(f"{PATH}/{line[1]}")
        await eventually(lambda: _are_others(a, line), "the waiter queues again")
        them.leave()
    assert them.log == ["b"]


async def _are_others(client: Client, before: list[str]) -> bool:
    now = await names(client, PATH)
    return len(now) == len(before) and now != before


# --- how it is lost ----------------------------------------------------------------------------


async def test_fenced_writes_of_a_former_holder_are_refused(
    server: ServerUnderTest, a: Client
) -> None:
    await a.create("/data", b"old")
    with pytest.raises(LockLost):
        async with Lock(a, PATH) as held:
            fenced = held.fenced()
            await fenced.set("/data", b"new")
            with raw(server) as operator:
                operator.delete(held.path)
            with anyio.move_on_after(PATIENCE, shield=True):
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
async def test_path_that_others_create_again_has_no_znode_of_the_old_name(
    server: ServerUnderTest, a: Client, b: Client, settled: bool
) -> None:
    """Its numbers begin again. The former holder does not delete the znode of the next one."""
    async with crowd() as them:
        with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as caught:
            async with Lock(a, PATH) as held:
                if settled:
                    await anyio.sleep(0.3)
                with raw(server) as operator:
                    operator.delete(held.path)
                    with suppress(NoNodeError):  # the server may have reaped the empty path
                        operator.delete(PATH)
                them.come("b", to=Lock(b, PATH))
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.move_on_after(PATIENCE, shield=True):
                        await them.are_inside("b")
        assert caught.value.reason is LossReason.DELETED
        other = them.inside["b"]
        assert other.path != held.path
        await other.verify()
        assert (await b.get(other.path))[1].czxid == other.token


@on_embedded
async def test_loss_is_raised_although_the_body_ignored_its_cancellation(
    a: Client, b: Client
) -> None:
    with anyio.fail_after(PATIENCE), pytest.raises(LockLost):
        async with Lock(a, PATH) as held:
            await b.delete(held.path)
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                pass
            assert not held.is_held


@on_embedded
async def test_error_of_a_body_that_is_being_cancelled_precedes_the_loss(
    a: Client, b: Client
) -> None:
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
    await enter(lock)


@on_embedded
async def test_error_of_a_task_of_the_body_is_raised_without_the_cancellation(
    a: Client, b: Client
) -> None:
    """The body's task group raises both together."""

    async def fail() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ZeroDivisionError

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


# --- when the client is closed -----------------------------------------------------------------


async def test_session_of_a_closed_client_outlives_the_body_of_a_hold(
    server: ServerUnderTest,
) -> None:
    """Nobody else can hold it while the body ends."""
    entered = anyio.Event()
    mine: list[str] = []
    seen: list[str] = []

    async def hold(lock: Lock) -> None:
        with pytest.raises(LockLost):
            async with lock as held:
                entered.set()
                try:
                    await anyio.sleep_forever()
                finally:
                    mine.append(held.path.rpartition("/")[2])
                    with raw(server) as operator:
                        operator.sync(PATH)
                        seen.extend(operator.children(PATH))

    async with anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(hold, Lock(client, PATH))
            await entered.wait()
    assert seen == mine
    with raw(server) as operator:
        operator.sync(PATH)
        with pytest.raises(NoNodeError):
            operator.exists(f"{PATH}/{mine[0]}")


async def test_client_that_is_being_closed_lets_nobody_in(server: ServerUnderTest) -> None:
    """A holder releases while another one still ends: the waiter behind it must not enter."""
    entered: list[str] = []
    ended: list[str] = []
    all_ended = anyio.Event()

    async def hold(lock: Lock) -> None:
        try:
            async with lock:
                entered.append(lock.path)
                await anyio.sleep_forever()
        except (LockLost, ClientClosedError) as error:
            ended.append(type(error).__name__)
            if len(ended) == 3:
                all_ended.set()

    async def end_slowly(lock: Lock) -> None:
        with pytest.raises(LockLost):
            async with lock:
                entered.append(lock.path)
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.move_on_after(PATIENCE, shield=True):
                        await all_ended.wait()

    async with anyio.create_task_group() as tasks:
        async with connect(server, grace_period=SESSION / 4) as client:
            tasks.start_soon(end_slowly, Lock(client, "/other"))
            lock = Lock(client, PATH)
            for _ in range(3):
                tasks.start_soon(hold, lock)
            await joined(client, PATH, 3)
            await eventually(lambda: len(entered) == 2, "both are held")
    assert sorted(entered) == [PATH, "/other"]
    assert sorted(ended) == ["ClientClosedError", "ClientClosedError", "LockLost"]
