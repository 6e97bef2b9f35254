"""The condition: waiting under a lock, and who is woken by whom."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest
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
)
from kit.virtual_time import SESSION, Link, on_virtual_time, passes, settled
from kit.virtual_time import connect as connect_virtually

from aiolead import Client, Condition, Fenced, Lock, LockLost
from aiolead._recipes.locks.condition_signals import sort_out
from aiolead.errors import ConfigurationError, UsageError
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend
from aiolead.types import ConditionHeld

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/condition"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def waiter(number: int) -> str:
    """The name of a waiter, or of its signal."""
    return f"0123456789abcdef-1-wait-{number:010d}"


async def waiting(condition: Condition, count: int) -> None:
    async def are_there() -> bool:
        return len(await condition.waiters()) == count

    await eventually(are_there, f"{count} wait")


# --- waiting and notifying ---------------------------------------------------------------------


async def test_a_buffer_between_processes(server: ServerUnderTest) -> None:
    """What conditions are for: consumers wait for items, producers for room."""
    buffer: list[int] = []
    taken: list[int] = []

    async def put(client: Client, numbers: range) -> None:
        condition = Condition(client, PATH)
        for number in numbers:
            async with condition as held:
                while len(buffer) >= 2:
                    await held.wait()
                buffer.append(number)
                await held.notify_all()

    async def take(client: Client, count: int) -> None:
        condition = Condition(client, PATH)
        for _ in range(count):
            async with condition as held:
                while not buffer:
                    await held.wait()
                taken.append(buffer.pop(0))
                await held.notify_all()

    async with connect(server) as a, connect(server) as b:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take, a, 4)
                tasks.start_soon(put, b, range(4))
                tasks.start_soon(take, b, 4)
                tasks.start_soon(put, a, range(4, 8))
        assert sorted(taken) == list(range(8))
        for part in ("lock", "waiters", "signals"):
            await eventually(
                lambda part=part: nobody(b, f"{PATH}/{part}"), f"nothing is left in {part}"
            )


async def nobody(client: Client, path: str) -> bool:
    return not await names(client, path)


async def test_they_are_woken_in_the_order_in_which_they_came(server: ServerUnderTest) -> None:
    woken: list[int] = []

    async with connect(server) as a, connect(server) as b:

        async def wait(number: int) -> None:
            async with Condition((a, b)[number % 2], PATH) as held:
                first = held.token
                assert await held.wait()
                assert held.token > first
                held.check()
                await held.verify()
                woken.append(number)

        condition = Condition(a, PATH, identity="me")
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(wait, number)
                await waiting(condition, number + 1)
            async with condition as held:
                assert await held.notify() == 1
                assert await held.notify(2) == 2
                # They have to get the lock first.
                assert woken == []
                held.check()
            await eventually(lambda: sorted(woken) == [0, 1, 2], "three are woken")
            await catch_up(a)
            assert [who.is_holder for who in await condition.waiters()] == [False, False]
            async with condition as held:
                assert await held.notify_all() == 2
                assert await held.notify() == 0
            await eventually(lambda: sorted(woken) == [0, 1, 2, 3, 4], "all are woken")
        async with condition as held:
            assert await held.notify_all() == 0


async def test_the_lock_is_free_while_one_waits(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        condition = Condition(a, PATH)
        seen: list[str] = []

        async def wait() -> None:
            async with condition as held:
                fence = held.fenced()
                tasks.start_soon(look, held)
                await held.wait()
                # What was given for the tenure before is good for nothing now.
                with pytest.raises(Fenced):
                    await fence.create("/written")
                await held.fenced().create("/written")
                seen.append("held again")

        async def look(held: ConditionHeld) -> None:
            await waiting(condition, 1)
            await eventually(lambda: not held.is_held, "it lets go")
            assert held.remaining() == 0
            with pytest.raises(UsageError, match="waits"):
                held.check()
            with pytest.raises(UsageError, match="waits"):
                await held.release()
            seen.append("not held")

        tasks.start_soon(wait)
        await waiting(Condition(b, PATH), 1)
        async with Lock(b, f"{PATH}/lock").acquire(timeout=PATIENCE):
            await eventually(lambda: seen == ["not held"], "it says that it does not hold")
        async with Condition(b, PATH) as held:
            assert await held.notify() == 1
    assert seen == ["not held", "held again"]


async def test_who_comes_in_as_one_begins_to_wait_finds_it_waiting(server: ServerUnderTest) -> None:
    """It is registered before it lets go of the lock: nothing comes between."""
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:

        async def come_in() -> None:
            async with Condition(b, PATH) as held:
                assert await held.notify() == 1

        async with Condition(a, PATH) as held:
            tasks.start_soon(come_in)
            await joined(a, f"{PATH}/lock", 2)
            with anyio.fail_after(PATIENCE):
                assert await held.wait()


async def test_a_limit(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        condition = Condition(a, PATH)
        async with condition as held:
            for limit in (0, 0.05):
                assert not await held.wait(timeout=limit)
                held.check()
                await held.verify()
            await waiting(condition, 0)

        async def wait() -> None:
            async with condition as held:
                assert await held.wait(timeout=PATIENCE)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await waiting(condition, 1)
            async with Condition(b, PATH) as held:
                await held.notify()


# --- who goes, and what becomes of his signal --------------------------------------------------


async def test_a_notified_waiter_that_is_cancelled_passes_it_on(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b, connect(server) as c:
        woken: list[str] = []

        async def wait(client: Client, name: str, scope: anyio.CancelScope) -> None:
            with scope:
                async with Condition(client, PATH) as held:
                    await held.wait()
                    woken.append(name)

        condition = Condition(c, PATH)
        first, other = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, a, "first", first)
            await waiting(condition, 1)
            tasks.start_soon(wait, b, "second", other)
            await waiting(condition, 2)
            async with condition as held:
                assert await held.notify() == 1
                # It is notified, and waits for the lock, as it is cancelled.
                await eventually(lambda: has_come(c, 2), "it comes for the lock")
                first.cancel()
                await waiting(condition, 1)
            await eventually(lambda: woken == ["second"], "the second one is woken")


async def has_come(client: Client, count: int) -> bool:
    return len(await names(client, f"{PATH}/lock")) == count


@backends
@pytest.mark.parametrize("who", ["notifier", "notified", "both"])
def test_the_notifier_and_the_notified_die(backend: Backend, who: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        woken: list[str] = []
        async with (
            connect_virtually(server) as a,
            connect_virtually(server) as b,
            connect_virtually(server) as c,
            connect_virtually(server) as d,
            anyio.create_task_group() as tasks,
        ):

            async def wait(client: Client, name: str) -> None:
                try:
                    async with Condition(client, PATH) as held:
                        await held.wait()
                        woken.append(name)
                except LockLost:
                    pass

            for client, name in ((a, "first"), (b, "second"), (c, "third")):
                tasks.start_soon(wait, client, name)
                await passes(1.0)
            with pytest.raises(LockLost) if who != "notified" else anyio.CancelScope():
                async with Condition(d, PATH) as held:
                    assert await held.notify() == 1
                    await passes(1.0)
                    if who != "notifier":
                        server.expire_session(a.session_id)
                    if who != "notified":
                        server.expire_session(d.session_id)
                        await passes(SESSION)
            await passes(SESSION)
            # A waiter whose session ends is woken, and takes it for a notification.
            first = ["first"] if who == "notifier" else ["first", "second"]
            assert sorted(woken) == first
            async with Condition(d, PATH) as held:
                assert await held.notify_all() == 3 - len(woken)
            await passes(1.0)
            assert sorted(woken) == ["first", "second", "third"]
            assert [
                znode
                for part in ("lock", "waiters", "signals")
                for znode in contenders_left(server, f"{PATH}/{part}")
            ] == []

    on_virtual_time(backend, play)


async def test_signals_that_nobody_is_left_to_take(server: ServerUnderTest) -> None:
    """They are deleted, and wake nobody who comes later."""
    async with connect(server) as a:
        condition = Condition(a, PATH)
        async with condition as held:
            for part in ("waiters", "signals"):
                await a.ensure_path(f"{PATH}/{part}")
            await a.create(f"{PATH}/signals/{waiter(7)}")
            assert await held.notify() == 0
            assert await names(a, f"{PATH}/signals") == []
            await a.create(f"{PATH}/signals/{waiter(8)}")
            assert not await held.wait(timeout=0.1)
            await eventually(lambda: nobody(a, f"{PATH}/signals"), "it is deleted")


# --- links -------------------------------------------------------------------------------------


@backends
@pytest.mark.parametrize("what", ["request", "reply"])
def test_the_link_is_lost_while_notifying(backend: Backend, what: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        woken: list[int] = []
        async with (
            link.connect() as a,
            connect_virtually(server) as b,
            anyio.create_task_group() as tasks,
        ):

            async def wait(number: int) -> None:
                async with Condition(b, PATH) as held:
                    await held.wait()
                    woken.append(number)

            for number in range(3):
                tasks.start_soon(wait, number)
                await passes(1.0)
            async with Condition(a, PATH) as held:
                await held.notify(1)  # makes the parent of the signals
                await passes(2.0)
                drop: Callable[[OpCode], None] = (
                    server.drop_request if what == "request" else server.drop_reply
                )
                drop(OpCode.MULTI)
                link.room = 0
                async with anyio.create_task_group() as within:

                    async def notify() -> None:
                        assert await held.notify() == 1

                    within.start_soon(notify)
                    await settled()
                    link.restore()
            await passes(1.0)
            assert woken == [0, 1]
            async with Condition(a, PATH) as held:
                assert await held.notify_all() == 1

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("what", ["request", "reply"])
def test_the_one_to_be_notified_leaves_while_the_answer_is_lost(
    backend: Backend, what: str
) -> None:
    """Whether it had been notified or not: the next one is."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        woken: list[str] = []
        async with (
            link.connect() as a,
            connect_virtually(server) as b,
            connect_virtually(server) as c,
            anyio.create_task_group() as tasks,
        ):
            leaves = anyio.CancelScope()

            async def wait(client: Client, name: str, scope: anyio.CancelScope) -> None:
                with scope:
                    async with Condition(client, PATH) as held:
                        await held.wait()
                        woken.append(name)

            tasks.start_soon(wait, c, "zeroth", anyio.CancelScope())
            await passes(1.0)
            tasks.start_soon(wait, b, "first", leaves)
            await passes(1.0)
            tasks.start_soon(wait, c, "second", anyio.CancelScope())
            await passes(1.0)
            async with Condition(a, PATH) as held:
                await held.notify()  # makes the parent of the signals
            await passes(1.0)
            async with Condition(a, PATH) as held:
                await passes(1.0)
                (server.drop_request if what == "request" else server.drop_reply)(OpCode.MULTI)
                link.room = 0
                async with anyio.create_task_group() as within:

                    async def notify() -> None:
                        assert await held.notify() == 1

                    within.start_soon(notify)
                    await settled()
                    leaves.cancel()
                    await passes(1.0)
                    link.restore()
            await passes(1.0)
            assert woken == ["zeroth", "second"]

    on_virtual_time(backend, play)


@backends
def test_a_waiter_survives_a_lost_link(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        woken = anyio.Event()
        async with (
            link.connect() as a,
            connect_virtually(server) as b,
            anyio.create_task_group() as tasks,
        ):

            async def wait() -> None:
                async with Condition(a, PATH) as held:
                    await held.wait()
                    woken.set()

            tasks.start_soon(wait)
            await passes(1.0)
            link.lose()
            await settled()
            async with Condition(b, PATH) as held:
                assert await held.notify() == 1
            assert not woken.is_set()
            link.restore()
            await passes(1.0)
            assert woken.is_set()

    on_virtual_time(backend, play)


@backends
def test_the_create_of_a_waiter_is_lost(backend: Backend) -> None:
    """It is looked for, and not made twice."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with (
            link.connect() as a,
            connect_virtually(server) as b,
            anyio.create_task_group() as tasks,
        ):
            condition = Condition(a, PATH)
            async with condition as held:
                await held.wait(timeout=0)  # makes the paths
            woken = anyio.Event()

            async def wait() -> None:
                async with condition as held:
                    server.drop_reply(OpCode.CREATE2)
                    link.room = 0
                    await held.wait()
                    woken.set()

            tasks.start_soon(wait)
            await settled()
            link.restore()
            await passes(1.0)
            assert len(contenders_left(server, f"{PATH}/waiters")) == 1
            async with Condition(b, PATH) as held:
                assert await held.notify_all() == 1
            await passes(1.0)
            assert woken.is_set()
            assert contenders_left(server, f"{PATH}/waiters") == []

    on_virtual_time(backend, play)


# --- cancelled, and misused --------------------------------------------------------------------


@on_embedded
async def test_a_scope_around_a_wait_ends_the_block(server: ServerUnderTest) -> None:
    """After it the lock is not held; so the rest of the block must not run."""
    async with connect(server) as a:
        condition = Condition(a, PATH)
        with pytest.raises(UsageError, match="timeout="):
            async with condition as held, anyio.create_task_group() as tasks:
                scope = anyio.CancelScope()

                async def cut_short() -> None:
                    await eventually(lambda: not held.is_held, "it waits")
                    scope.cancel()

                tasks.start_soon(cut_short)
                with scope:
                    await held.wait()
                assert not held.is_held
                await anyio.lowlevel.checkpoint()
                pytest.fail("it went on without the lock")
        async with condition as held:
            held.check()
        await waiting(condition, 0)


@on_embedded
async def test_a_scope_around_the_block_is_an_ordinary_one(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        condition = Condition(a, PATH)
        with anyio.move_on_after(0.05) as scope:
            async with condition as held:
                await held.wait()
        assert scope.cancelled_caught
        await eventually(lambda: nobody(a, f"{PATH}/waiters"), "it does not wait")


@on_embedded
async def test_who_can_wait_and_notify(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        condition = Condition(a, PATH, identity="me")
        assert (condition.path, repr(condition)) == (PATH, f"<Condition {PATH}>")
        async with condition as held:

            async def wait() -> None:
                with pytest.raises(UsageError, match="only the task"):
                    await held.wait()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
            with pytest.raises(ConfigurationError):
                await held.wait(timeout=-1)
            with pytest.raises(ConfigurationError):
                await held.notify(0)
        for verb in (held.wait, held.notify, held.notify_all):
            with pytest.raises(UsageError, match="released"):
                await verb()
        async with condition.try_acquire() as held:
            assert held is not None


def left(server: EmbeddedServer) -> list[str]:
    parts = ("lock", "waiters", "signals")
    return [znode for part in parts for znode in contenders_left(server, f"{PATH}/{part}")]


# --- who is who --------------------------------------------------------------------------------


def test_who_waits_and_who_has_a_signal() -> None:
    one, two, three, four = (waiter(number) for number in range(1, 5))
    seen = sort_out([one, three], [four, three, two, "unlike"])
    assert seen.waiting == [two, three, four]
    assert seen.orphans == [one]
    assert seen.unsignalled == [two, four]


# --- what it costs -----------------------------------------------------------------------------


async def test_what_it_costs() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        async with (
            in_memory(server, session_timeout=60) as a,
            in_memory(server, session_timeout=60) as b,
            anyio.create_task_group() as tasks,
        ):
            mine, theirs = Condition(a, PATH), Condition(b, PATH)
            async with mine as held:
                assert not await held.wait(timeout=0)

            async def wait() -> None:
                async with mine as held:
                    await held.wait()

            for _ in range(2):
                tasks.start_soon(wait)
            await waiting(theirs, 2)
            async with theirs as held:
                await held.notify()  # makes the parent of the signals
            await waiting(theirs, 1)
            async with theirs as held:
                before = server.requests.copy()
                assert await held.notify() == 1
                asked = server.requests - before
                assert asked["GET_CHILDREN"] - 2 in (0, 2), "the one that was woken may look"
