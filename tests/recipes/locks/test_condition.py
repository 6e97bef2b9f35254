"""The condition: waiting under a lock, notifications, and the signals that carry them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

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
    joined,
)
from kit.selection import on_embedded
from kit.virtual_time import SESSION, Link, passes, settled, with_virtual_server
from kit.virtual_time import connect as connect_virtually
from recipes.crowd import Crowd, crowd

from aiolead import ACL, Client, Condition, Fenced, Lock, LockLost
from aiolead.errors import ConfigurationError, UsageError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import ConditionHeld

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/condition"
LOCK, WAITERS, SIGNALS = f"{PATH}/lock", f"{PATH}/waiters", f"{PATH}/signals"

drops = pytest.mark.parametrize("drop", ["request", "reply"])


def lose(server: EmbeddedServer, drop: str, op: OpCode) -> None:
    (server.drop_request if drop == "request" else server.drop_reply)(op)


@asynccontextmanager
async def notified(client: Client) -> AsyncIterator[ConditionHeld]:
    """Entered when a notification has come."""
    async with Condition(client, PATH) as held:
        await held.wait()
        yield held


def wait(them: Crowd, name: str, client: Client) -> None:
    """One more task waits; its name is in the log when it was woken."""
    them.come(name, to=notified(client))
    them.leave(name)


async def waiting(condition: Condition, count: int) -> None:
    async def are_there() -> bool:
        return len(await condition.waiters()) == count

    await eventually(are_there, f"{count} wait")


async def woken(them: Crowd, *names: str) -> None:
    await eventually(lambda: sorted(them.log) == list(names), f"{names} are woken: {them.log}")


# --- waiting and notifying ---------------------------------------------------------------------


async def test_condition_guards_a_buffer_of_several_processes(a: Client, b: Client) -> None:
    """The purpose of conditions: consumers wait for items, producers for room."""
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

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, a, 4)
            tasks.start_soon(put, b, range(4))
            tasks.start_soon(take, b, 4)
            tasks.start_soon(put, a, range(4, 8))
    assert sorted(taken) == list(range(8))
    for part in (LOCK, WAITERS, SIGNALS):
        await joined(b, part, 0)


async def test_request_for_a_release_reaches_who_waits_since_before_the_wait(
    a: Client, b: Client
) -> None:
    there = Condition(b, PATH)
    with anyio.fail_after(PATIENCE):
        async with Condition(a, PATH) as held, anyio.create_task_group() as tasks:
            tasks.start_soon(held.revocation_requested)
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as others:

                async def notify() -> None:
                    await waiting(there, 1)
                    async with there as other:
                        await other.notify()

                others.start_soon(notify)
                await held.wait()
            assert [who.token for who in await there.revoke()] == [held.token]


async def test_waiters_are_woken_in_the_order_in_which_they_came(a: Client, b: Client) -> None:
    condition = Condition(a, PATH, identity="me")
    tokens: dict[str, tuple[int, int]] = {}

    async def wait_and_look(number: int) -> None:
        async with Condition((a, b)[number % 2], PATH) as held:
            first = held.token
            assert await held.wait()
            held.check()
            await held.verify()
            tokens[str(number)] = (first, held.token)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(wait_and_look, number)
            await waiting(condition, number + 1)
        async with condition as held:
            assert await held.notify() == 1
            assert await held.notify(2) == 2
            # They have to get the lock first.
            assert tokens == {}
            held.check()
        await eventually(lambda: sorted(tokens) == ["0", "1", "2"], "three are woken")
        await catch_up(a)
        assert [each.is_holder for each in await condition.waiters()] == [False, False]
        async with condition as held:
            assert await held.notify_all() == 2
            assert await held.notify() == 0
    assert len(tokens) == 5
    assert all(first < second for first, second in tokens.values())
    async with condition as held:
        assert await held.notify_all() == 0


async def test_lock_is_free_while_its_holder_waits(a: Client, b: Client) -> None:
    condition = Condition(a, PATH)
    seen: list[str] = []

    async def wait_and_write() -> None:
        async with condition as held:
            fence = held.fenced()
            tasks.start_soon(look, held)
            await held.wait()
            # A fence of the hold before is good for nothing now.
            with pytest.raises(Fenced):
                await fence.create("/written")
            await held.fenced().create("/written")
            seen.append("held again")

    async def look(held: ConditionHeld) -> None:
        await waiting(condition, 1)
        await eventually(lambda: not held.is_held, "it releases the lock")
        assert held.remaining() == 0
        with pytest.raises(UsageError, match="waits"):
            held.check()
        with pytest.raises(UsageError, match="waits"):
            await held.release()
        seen.append("not held")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_and_write)
        await waiting(Condition(b, PATH), 1)
        async with Lock(b, LOCK).acquire(timeout=PATIENCE):
            await eventually(lambda: seen == ["not held"], "it says that it does not hold")
        async with Condition(b, PATH) as held:
            assert await held.notify() == 1
    assert seen == ["not held", "held again"]


async def test_waiter_is_registered_before_it_releases_the_lock(a: Client, b: Client) -> None:
    """So the next holder finds it."""

    async def come_in() -> None:
        async with Condition(b, PATH) as held:
            assert await held.notify() == 1

    async with anyio.create_task_group() as tasks, Condition(a, PATH) as held:
        tasks.start_soon(come_in)
        await joined(a, LOCK, 2)
        with anyio.fail_after(PATIENCE):
            assert await held.wait()


async def test_wait_ends_in_time(a: Client, b: Client) -> None:
    condition = Condition(a, PATH)
    async with condition as held:
        for limit in (0, 0.05):
            assert not await held.wait(timeout=limit)
            held.check()
            await held.verify()
        await waiting(condition, 0)

    async def wait_for_long() -> None:
        async with condition as held:
            assert await held.wait(timeout=PATIENCE)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for_long)
        await waiting(condition, 1)
        async with Condition(b, PATH) as held:
            await held.notify()


# --- cancelled, and misused --------------------------------------------------------------------


@on_embedded
async def test_scope_around_a_wait_ends_the_block(a: Client) -> None:
    """After it the lock is not held; so the rest of the block must not run."""
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
async def test_only_the_holder_waits_and_notifies(a: Client) -> None:
    condition = Condition(a, PATH, identity="me")
    assert (condition.path, repr(condition)) == (PATH, f"<Condition {PATH}>")
    async with condition as held:

        async def wait_elsewhere() -> None:
            with pytest.raises(UsageError, match="only the task"):
                await held.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_elsewhere)
        with pytest.raises(ConfigurationError):
            await held.wait(timeout=-1)
        with pytest.raises(ConfigurationError):
            await held.notify(0)
    for verb in (held.wait, held.notify, held.notify_all):
        with pytest.raises(UsageError, match="released"):
            await verb()


# --- who inherits a notification ---------------------------------------------------------------


async def test_notified_waiter_that_is_cancelled_passes_the_notification_on(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    async with connect(server) as c, crowd() as them:
        condition = Condition(c, PATH)
        wait(them, "first", a)
        await waiting(condition, 1)
        wait(them, "second", b)
        await waiting(condition, 2)
        async with condition as held:
            assert await held.notify() == 1
            # It is notified, and waits for the lock, as it is cancelled.
            await joined(c, LOCK, 2)
            them.cancel("first")
            await waiting(condition, 1)
        await woken(them, "second")


@dataclass
class Waiters:
    """Waiters `a`, `b` and `c`, each with a client behind a link, and the client that notifies."""

    server: EmbeddedServer
    links: dict[str, Link]
    clients: dict[str, Client]
    notifier: Client
    crowd: Crowd

    async def wait(self, *names: str) -> None:
        for name in names:
            wait(self.crowd, name, self.clients[name])
            await passes(1.0)

    async def notify(self, count: int | None = 1) -> int:
        async with Condition(self.notifier, PATH) as held:
            return await (held.notify_all() if count is None else held.notify(count))

    async def notify_unheard(self, *names: str) -> None:
        """Notify one; of these waiters, none receives anything from now on."""
        for name in names:
            self.links[name].stall("to_client")
        assert await self.notify() == 1
        await passes(1.0)

    async def leave(self, name: str, how: str) -> None:
        if how == "dies":
            self.server.expire_session(self.clients[name].session_id)
        self.crowd.cancel(name)
        await passes(1.0)
        for link in self.links.values():
            link.heal()
        await passes(SESSION)

    @property
    def woken(self) -> list[str]:
        return self.crowd.log

    def signals(self) -> list[str]:
        return contenders_left(self.server, SIGNALS)

    @asynccontextmanager
    async def few_requests(self, most: int = 100) -> AsyncIterator[None]:
        before = self.server.requests.total()
        yield
        assert self.server.requests.total() - before < most


@asynccontextmanager
async def waiters(server: EmbeddedServer) -> AsyncIterator[Waiters]:
    links = {name: Link(server) for name in "abc"}
    async with (
        links["a"].connect() as a,
        links["b"].connect() as b,
        links["c"].connect() as c,
        connect_virtually(server) as notifier,
        anyio.create_task_group() as tasks,
    ):
        yield Waiters(server, links, {"a": a, "b": b, "c": c}, notifier, Crowd(tasks))
        tasks.cancel_scope.cancel()


leaving = pytest.mark.parametrize("how", ["is cancelled", "dies"])


@pytest.mark.parametrize("dying", ["notifier", "notified", "both"])
@with_virtual_server
async def test_waiter_is_woken_although_sessions_end(server: EmbeddedServer, dying: str) -> None:
    async with waiters(server) as they:
        await they.wait("a", "b", "c")
        with pytest.raises(LockLost) if dying != "notified" else anyio.CancelScope():
            async with Condition(they.notifier, PATH) as held:
                assert await held.notify() == 1
                await passes(1.0)
                if dying != "notifier":
                    server.expire_session(they.clients["a"].session_id)
                if dying != "notified":
                    server.expire_session(they.notifier.session_id)
                    await passes(SESSION)
        await passes(SESSION)
        # A waiter whose session ends is woken, and takes it for a notification.
        assert sorted(they.woken) == (["a"] if dying == "notifier" else ["a", "b"])
        assert await they.notify(None) == 3 - len(they.woken)
        await passes(1.0)
        assert sorted(they.woken) == ["a", "b", "c"]
        for part in (LOCK, WAITERS, SIGNALS):
            assert contenders_left(server, part) == []


@leaving
@pytest.mark.parametrize(
    ("before", "after", "heir"),
    [("a", "", None), ("a", "b", None), ("ab", "c", "b")],
    ids=["nobody", "a later waiter", "an earlier waiter"],
)
@with_virtual_server
async def test_notification_of_a_waiter_that_left_is_inherited_by_earlier_waiters_alone(
    server: EmbeddedServer, how: str, before: str, after: str, heir: str | None
) -> None:
    """If there is none, its signal goes, too: it wakes no waiter that comes later."""
    async with waiters(server) as they:
        await they.wait(*before)
        await they.notify_unheard("a")
        assert len(they.signals()) == 1
        await they.wait(*after)
        await they.leave("a", how)
        assert they.woken == ([heir] if heir else [])
        assert they.signals() == [] or (how, after) == ("dies", "")
        async with Condition(they.notifier, PATH) as held:
            assert not await held.wait(timeout=5.0)
        assert they.signals() == []
        assert await they.notify() == len(after)
        await passes(1.0)
        assert they.woken == [*filter(None, (heir, after))]


@leaving
@with_virtual_server
async def test_inherited_notification_keeps_its_age(server: EmbeddedServer, how: str) -> None:
    """It was given before the third one came, and passed on after that."""
    async with waiters(server) as they:
        await they.wait("a", "b")
        await they.notify_unheard("a", "b")
        server.expire_session(they.clients["a"].session_id)
        (before,) = they.signals()
        await they.wait("c")
        (after,) = they.signals()
        assert after != before
        they.crowd.cancel("a")
        await they.leave("b", how)
        assert they.woken == []
        assert they.signals() == []


# --- connections -------------------------------------------------------------------------------


@drops
@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
@with_virtual_server
async def test_lost_answer_to_a_notification_wakes_one_waiter(
    server: EmbeddedServer, link: Link, a: Client, b: Client, drop: str, leaves: bool
) -> None:
    """If the waiter leaves meanwhile, whether it had been notified or not, the next one is."""
    async with crowd() as them:
        for name in ("zeroth", "first", "second"):
            wait(them, name, b)
            await passes(1.0)
        async with Condition(a, PATH) as held:
            await held.notify()  # makes the parent of the signals, and its signal stays there
            await passes(2.0)
            lose(server, drop, OpCode.MULTI)
            link.refuse()
            async with anyio.create_task_group() as within:

                async def notify() -> None:
                    assert await held.notify() == 1

                within.start_soon(notify)
                await settled()
                if leaves:
                    them.cancel("first")
                    await passes(1.0)
                link.heal()
        await passes(1.0)
        assert them.log == ["zeroth", "second" if leaves else "first"]
        async with Condition(a, PATH) as held:
            assert await held.notify_all() == (0 if leaves else 1)


@with_virtual_server
async def test_waiter_is_notified_after_a_lost_connection(link: Link, a: Client, b: Client) -> None:
    async with crowd() as them:
        wait(them, "a", a)
        await passes(1.0)
        link.down()
        await settled()
        async with Condition(b, PATH) as held:
            assert await held.notify() == 1
        assert them.log == []
        link.heal()
        await passes(1.0)
        assert them.log == ["a"]


@with_virtual_server
async def test_create_of_a_waiter_without_an_answer_is_not_repeated(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    condition = Condition(a, PATH)
    async with condition as held:
        await held.wait(timeout=0)  # makes the paths
    woken = anyio.Event()

    async def wait_unanswered() -> None:
        async with condition as held:
            server.drop_reply(OpCode.CREATE2)
            link.refuse()
            await held.wait()
            woken.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_unanswered)
        await settled()
        link.heal()
        await passes(1.0)
        assert len(contenders_left(server, WAITERS)) == 1
        async with Condition(b, PATH) as held:
            assert await held.notify_all() == 1
        await passes(1.0)
        assert woken.is_set()
        assert contenders_left(server, WAITERS) == []


# --- signals and waiters that no waiter made -----------------------------------------------------

FOREIGN = "junk"
ORPHAN = "0123456789abcdef-1-wait-0000000000"
"""A signal whose waiter is gone, by its name."""


async def put_signal(client: Client, name: str, *, with_child: bool = False) -> None:
    await client.ensure_path(SIGNALS)
    await client.create(f"{SIGNALS}/{name}")
    if with_child:
        await client.create(f"{SIGNALS}/{name}/child")


async def test_signals_of_waiters_that_are_gone_are_deleted_and_wake_nobody(a: Client) -> None:
    woken: list[int] = []

    async def wake() -> None:
        await joined(a, SIGNALS, 0)
        async with Condition(a, PATH) as notifier:
            woken.append(await notifier.notify())  # the waiter still waits

    async with Condition(a, PATH) as held:
        await a.ensure_path(WAITERS)
        await put_signal(a, ORPHAN)
        assert await held.notify() == 0
        await joined(a, SIGNALS, 0)
        await put_signal(a, ORPHAN.replace("-1-", "-2-"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake)
            assert await held.wait()
        assert woken == [1]


@pytest.mark.parametrize("name", [FOREIGN, ORPHAN], ids=["foreign", "orphan"])
@with_virtual_server
async def test_signal_that_cannot_be_moved_causes_no_hot_loop(
    server: EmbeddedServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with waiters(server) as they:
        await put_signal(they.notifier, name, with_child=True)
        await they.wait("a", "b")
        # A try and a look for each waiter and session timeout, and the pings.
        async with they.few_requests():
            await passes(4 * SESSION)
        assert they.woken == []
        assert await they.notify(None) == 2
        assert await they.notify() == 0
        await passes(1.0)
        assert sorted(they.woken) == ["a", "b"]
    said = {record.message for record in caplog.records if record.name.startswith("aiolead.rec")}
    assert len(said) == (0 if name == FOREIGN else 1), said
    assert all(f"{SIGNALS}/{name}" in line for line in said)


@with_virtual_server
async def test_orphan_behind_one_that_cannot_be_moved_is_passed_on(server: EmbeddedServer) -> None:
    async with waiters(server) as they:
        await they.wait("a", "b")
        await put_signal(they.notifier, ORPHAN, with_child=True)
        await put_signal(they.notifier, ORPHAN.replace("-1-", "-2-"))
        they.crowd.cancel("a")  # the next one looks at all signals
        await passes(1.0)
        assert they.woken == ["b"]


@with_virtual_server
async def test_orphan_that_can_be_moved_later_is_tried_again(server: EmbeddedServer) -> None:
    async with waiters(server) as they:
        await they.wait("a", "b")
        await put_signal(they.notifier, ORPHAN, with_child=True)
        they.crowd.cancel("a")
        await passes(1.0)
        assert they.woken == []
        await they.notifier.delete(f"{SIGNALS}/{ORPHAN}/child")
        await passes(2 * SESSION)
        assert they.woken == ["b"]


@with_virtual_server
async def test_children_that_are_no_waiters_are_neither_woken_nor_waited_for(
    server: EmbeddedServer,
) -> None:
    """A persistent znode with a waiter's name, foreign names, in front and between."""
    async with waiters(server) as they:
        create = they.notifier.create
        await they.notifier.ensure_path(WAITERS)
        for name in ("x__lock__0000000001", "junk", "junk0000000003", ORPHAN):
            await create(f"{WAITERS}/{name}")
        await they.wait("a")
        between = ORPHAN.replace("0000000000", "0000000005")
        await create(f"{WAITERS}/{between}")
        server.set_sequence(WAITERS, 7)
        await they.wait("b", "c")
        assert len(await Condition(they.notifier, PATH).waiters()) == 3
        async with they.few_requests():
            await passes(4 * SESSION)
        # The first one leaves with its notification: it goes to the second one, which is behind a
        # znode that never goes.
        await they.notify_unheard("a")
        await they.leave("a", "dies")
        assert they.woken == ["b"]
        assert await they.notify(None) == 1
        await passes(1.0)
        assert they.woken == ["b", "c"]
        # Those that no session owns keep a signal, by which they are left out from now on.
        assert they.signals() == [f"{SIGNALS}/{name}" for name in (ORPHAN, between)]


@with_virtual_server
async def test_waiter_behind_many_persistent_names_is_notified(server: EmbeddedServer) -> None:
    async with waiters(server) as they:
        await they.notifier.ensure_path(WAITERS)
        for number in range(250):
            await they.notifier.create(f"{WAITERS}/{ORPHAN.replace('-1-', f'-{number:x}-')}")
        server.set_sequence(WAITERS, 3)
        await they.wait("a")
        assert await they.notify() == 1
        await passes(1.0)
        assert they.woken == ["a"]


@with_virtual_server
async def test_many_stale_signals_are_deleted_in_few_round_trips(server: EmbeddedServer) -> None:
    async with waiters(server) as they:
        for number in range(500):
            await put_signal(they.notifier, ORPHAN.replace("-1-", f"-{number:x}-"))
        await they.wait("a")
        assert they.signals() == []
        assert server.requests["GET_CHILDREN"] < 30
        assert they.woken == []


@pytest.mark.parametrize("others", ["may not read", "may not delete"])
@with_virtual_server
async def test_signal_that_may_not_be_read_or_deleted_ends_no_wait(
    server: EmbeddedServer, others: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with waiters(server) as they:
        if others == "may not read":
            await they.notifier.ensure_path(SIGNALS)
            acl = [ACL.world(Permission.WRITE)]
            await they.notifier.create(f"{SIGNALS}/{ORPHAN}", acl=acl)
        else:
            await put_signal(they.notifier, ORPHAN, with_child=True)
        async with they.few_requests(150):
            await they.wait("a")
            async with Condition(they.notifier, PATH) as held:
                assert await held.notify_all() == 1
                assert await held.notify_all() == 0
            await passes(4 * SESSION)
        assert they.woken == ["a"]
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len({record.message for record in said}) == 1


@with_virtual_server
async def test_waiter_is_woken_although_its_signal_has_a_child(server: EmbeddedServer) -> None:
    async with waiters(server) as they:
        await they.wait("a")
        async with Condition(they.notifier, PATH) as held:
            assert await held.notify() == 1
            (signal,) = they.signals()
            await they.notifier.create(f"{signal}/child")
        await passes(1.0)
        assert they.woken == ["a"]
        assert contenders_left(server, WAITERS) == []


@drops
@with_virtual_server
async def test_lost_answer_beside_stale_signals_notifies_as_many_as_asked_for(
    server: EmbeddedServer, drop: str
) -> None:
    """Orphans that are deleted meanwhile say nothing about the notification."""
    async with waiters(server) as they, anyio.create_task_group() as tasks:
        await they.wait("a", "b", "c")
        await put_signal(they.notifier, ORPHAN)
        async with Condition(they.notifier, PATH) as held:
            lose(server, drop, OpCode.MULTI)

            async def delete_orphan() -> None:
                await they.clients["b"].delete(f"{SIGNALS}/{ORPHAN}")

            tasks.start_soon(delete_orphan)
            assert await held.notify() == 1
        await passes(1.0)
        assert they.woken == ["a"]
