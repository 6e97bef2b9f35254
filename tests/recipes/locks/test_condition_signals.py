"""Signals of a condition that no waiter can pass on: names of others, and ones with children."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import TaskGroup
from kit.clients import contenders_left
from kit.virtual_time import SESSION, Link, connect, on_virtual_time, passes, settled

from aiolead import ACL, Client, Condition, LockLost
from aiolead._recipes.locks.condition_signals import sort_out
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/condition"
SIGNALS = f"{PATH}/signals"

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])

FOREIGN = "junk"
ORPHAN = "0123456789abcdef-1-wait-0000000000"
"""A signal whose waiter is gone, by its name."""


async def _put_signal(client: Client, name: str, *, with_child: bool) -> None:
    await client.ensure_path(SIGNALS)
    await client.create(f"{SIGNALS}/{name}")
    if with_child:
        await client.create(f"{SIGNALS}/{name}/child")


class Waiters:
    """Tasks that wait for a notification each."""

    def __init__(self) -> None:
        self.woken = 0
        self.names: list[str] = []
        """Those that were woken, in order."""
        self.first = anyio.CancelScope()

    async def wait(
        self, client: Client, name: str = "", scope: anyio.CancelScope | None = None
    ) -> None:
        with scope or anyio.CancelScope(), suppress(LockLost):
            async with Condition(client, PATH) as held:
                await held.wait()
                self.woken += 1
                self.names.append(name)

    async def two_of_whom_the_first_leaves(self, client: Client, tasks: TaskGroup) -> None:
        """Two wait; the second one looks at all signals when `first` is cancelled."""
        tasks.start_soon(self.wait, client, "first", self.first)
        await passes(1.0)
        tasks.start_soon(self.wait, client, "second")
        await passes(1.0)


def test_signal_without_a_number_is_no_orphan() -> None:
    seen = sort_out([FOREIGN, ORPHAN], [])
    assert seen.orphans == [ORPHAN]


@backends
@pytest.mark.parametrize("name", [FOREIGN, ORPHAN], ids=["foreign", "orphan"])
def test_signal_that_cannot_be_moved_causes_no_hot_loop(
    backend: Backend, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
            await _put_signal(b, name, with_child=True)
            waiters = Waiters()
            for client in (a, b):
                tasks.start_soon(waiters.wait, client)
                await settled()
            before = sum(server.requests.values())
            with anyio.fail_after(100 * SESSION):
                await passes(4 * SESSION)
            # A try and a look for each waiter and session timeout, and the pings.
            assert sum(server.requests.values()) - before < 100
            assert waiters.woken == 0
            async with Condition(a, PATH) as held:
                assert await held.notify_all() == 2
                assert await held.notify() == 0
            await settled()
            assert waiters.woken == 2
            said = {record.message for record in caplog.records}
            assert len(said) == (0 if name == FOREIGN else 1), said
            assert all(f"{SIGNALS}/{name}" in line for line in said)

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)


@backends
def test_orphan_behind_one_that_cannot_be_moved_is_passed_on(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, anyio.create_task_group() as tasks:
            waiters = Waiters()
            await waiters.two_of_whom_the_first_leaves(a, tasks)
            await _put_signal(a, ORPHAN, with_child=True)
            await _put_signal(a, ORPHAN.replace("-1-", "-2-"), with_child=False)
            waiters.first.cancel()
            await passes(1.0)
            assert waiters.woken == 1

    on_virtual_time(backend, play)


@backends
def test_orphan_that_can_be_moved_later_is_tried_again(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, anyio.create_task_group() as tasks:
            waiters = Waiters()
            await waiters.two_of_whom_the_first_leaves(a, tasks)
            await _put_signal(a, ORPHAN, with_child=True)
            waiters.first.cancel()
            await passes(1.0)
            assert waiters.woken == 0
            await a.delete(f"{SIGNALS}/{ORPHAN}/child")
            await passes(2 * SESSION)
            assert waiters.woken == 1

    on_virtual_time(backend, play)


# --- waiters that a notification may wake ---------------------------------------------------------


class Scene:
    """Clients `a`, `b`, `c` with a waiter each, and `d`. What `a` and `b` get can be held back."""

    def __init__(
        self, server: EmbeddedServer, link: Link, link_of_b: Link, *clients: Client
    ) -> None:
        self.server = server
        self.link = link
        self.link_of_b = link_of_b
        self.a, self.b, self.c, self.d = clients
        self.waiters = Waiters()
        self.scopes = {name: anyio.CancelScope() for name in "abc"}

    async def wait(self, tasks: TaskGroup, name: str) -> None:
        """One more begins to wait."""
        tasks.start_soon(self.waiters.wait, getattr(self, name), name, self.scopes[name])
        await passes(1.0)

    async def notify(self) -> None:
        async with Condition(self.d, PATH) as held:
            assert await held.notify() == 1
        await passes(1.0)

    async def leave(self, name: str, how: str) -> None:
        """A waiter gives up, or its process dies."""
        if how == "dies":
            self.server.expire_session(getattr(self, name).session_id)
        self.scopes[name].cancel()
        await passes(1.0)
        self.link.release()
        self.link_of_b.release()
        await passes(SESSION)

    def signals(self) -> list[str]:
        return contenders_left(self.server, SIGNALS)


@asynccontextmanager
async def scene(server: EmbeddedServer) -> AsyncIterator[tuple[Scene, TaskGroup]]:
    link, link_of_b = Link(server), Link(server)
    async with (
        link.connect() as a,
        link_of_b.connect() as b,
        connect(server) as c,
        connect(server) as d,
        anyio.create_task_group() as tasks,
    ):
        yield Scene(server, link, link_of_b, a, b, c, d), tasks
        tasks.cancel_scope.cancel()


leaving = pytest.mark.parametrize("how", ["is cancelled", "dies"])


@backends
@leaving
def test_signal_of_waiter_that_left_does_not_outlive_it(backend: Backend, how: str) -> None:
    """Nobody else waits: somebody who begins to wait later is not woken by it."""

    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            await stage.wait(tasks, "a")
            stage.link.hold()
            await stage.notify()
            assert len(stage.signals()) == 1
            await stage.leave("a", how)
            if how == "is cancelled":
                assert stage.signals() == []
            async with Condition(stage.b, PATH) as held:
                assert not await held.wait(timeout=5.0)
            assert stage.signals() == []
            assert stage.waiters.names == []

    on_virtual_time(backend, play)


@backends
@leaving
def test_waiter_that_came_after_the_notification_does_not_inherit_it(
    backend: Backend, how: str
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            await stage.wait(tasks, "a")
            stage.link.hold()
            await stage.notify()
            await stage.wait(tasks, "b")
            await stage.leave("a", how)
            assert stage.waiters.names == []
            assert stage.signals() == []
            await stage.notify()
            assert stage.waiters.names == ["b"]

    on_virtual_time(backend, play)


@backends
@leaving
def test_waiter_that_waited_already_inherits_the_notification(backend: Backend, how: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            await stage.wait(tasks, "a")
            await stage.wait(tasks, "b")
            stage.link.hold()
            await stage.notify()
            await stage.wait(tasks, "c")
            await stage.leave("a", how)
            assert stage.waiters.names == ["b"]
            assert stage.signals() == []

    on_virtual_time(backend, play)


@backends
@leaving
def test_inherited_notification_is_as_old_as_it_was(backend: Backend, how: str) -> None:
    """It was given before the third one came, and passed on after that."""

    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            await stage.wait(tasks, "a")
            await stage.wait(tasks, "b")
            for link in (stage.link, stage.link_of_b):
                link.hold()
            await stage.notify()
            server.expire_session(stage.a.session_id)
            (before,) = stage.signals()
            await stage.wait(tasks, "c")
            (after,) = stage.signals()
            assert after != before
            stage.scopes["a"].cancel()
            await stage.leave("b", how)
            assert stage.waiters.names == []
            assert stage.signals() == []

    on_virtual_time(backend, play)


# --- others' znodes -------------------------------------------------------------------------------


@backends
def test_children_that_are_no_waiters_are_neither_woken_nor_waited_for(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """A persistent znode with a waiter's name, others' names, in front and between."""

    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            await stage.d.ensure_path(f"{PATH}/waiters")
            for name in ("x__lock__0000000001", "junk", "junk0000000003", ORPHAN):
                await stage.d.create(f"{PATH}/waiters/{name}")
            await stage.wait(tasks, "a")
            between = ORPHAN.replace("0000000000", "0000000005")
            await stage.d.create(f"{PATH}/waiters/{between}")
            server.set_sequence(f"{PATH}/waiters", 7)
            await stage.wait(tasks, "b")
            await stage.wait(tasks, "c")
            assert len(await Condition(stage.d, PATH).waiters()) == 3
            before = sum(server.requests.values())
            await passes(4 * SESSION)
            assert sum(server.requests.values()) - before < 100
            # The first one leaves with its notification: it goes to the second one, which is
            # behind a znode that never goes.
            stage.link.hold()
            await stage.notify()
            await stage.leave("a", "dies")
            assert stage.waiters.names == ["b"]
            async with Condition(stage.d, PATH) as held:
                assert await held.notify_all() == 1
            await passes(1.0)
            assert stage.waiters.names == ["b", "c"]
            # Those that no session owns keep a signal, by which they are left out from now on.
            assert stage.signals() == [f"{SIGNALS}/{name}" for name in (ORPHAN, between)]

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)


@backends
def test_notification_of_a_waiter_behind_many_persistent_names(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            await stage.d.ensure_path(f"{PATH}/waiters")
            for number in range(250):
                await stage.d.create(f"{PATH}/waiters/{ORPHAN.replace('-1-', f'-{number:x}-')}")
            server.set_sequence(f"{PATH}/waiters", 3)
            await stage.wait(tasks, "a")
            await stage.notify()
            assert stage.waiters.names == ["a"]

    on_virtual_time(backend, play)


@backends
def test_many_stale_signals_are_deleted_in_few_round_trips(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            for number in range(500):
                name = ORPHAN.replace("-1-", f"-{number:x}-")
                await _put_signal(stage.d, name, with_child=False)
            await stage.wait(tasks, "a")
            assert stage.signals() == []
            assert server.requests["GET_CHILDREN"] < 30
            assert stage.waiters.names == []

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("others", ["may not read", "may not delete"])
def test_signal_that_may_not_be_read_or_deleted_ends_no_wait(
    backend: Backend, others: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            if others == "may not read":
                await stage.d.ensure_path(SIGNALS)
                acl = [ACL.world(Permission.WRITE)]
                await stage.d.create(f"{SIGNALS}/{ORPHAN}", acl=acl)
            else:
                await _put_signal(stage.d, ORPHAN, with_child=True)
            before = sum(server.requests.values())
            await stage.wait(tasks, "a")
            async with Condition(stage.d, PATH) as held:
                assert await held.notify_all() == 1
                assert await held.notify_all() == 0
            await passes(4 * SESSION)
            assert stage.waiters.names == ["a"]
            assert sum(server.requests.values()) - before < 150

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)
    assert len({record.message for record in caplog.records}) == 1


@backends
def test_child_below_its_signal_does_not_keep_a_waiter(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            await stage.wait(tasks, "a")
            async with Condition(stage.d, PATH) as held:
                assert await held.notify() == 1
                (signal,) = stage.signals()
                await stage.d.create(f"{signal}/child")
            await passes(1.0)
            assert stage.waiters.names == ["a"]
            assert contenders_left(server, f"{PATH}/waiters") == []

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("drop", ["request", "reply"])
def test_lost_answer_beside_stale_signals_notifies_as_many_as_asked_for(
    backend: Backend, drop: str
) -> None:
    """Orphans that are deleted meanwhile say nothing about the notification."""

    async def play(server: EmbeddedServer) -> None:
        async with scene(server) as (stage, tasks):
            for name in "abc":
                await stage.wait(tasks, name)
            await _put_signal(stage.d, ORPHAN, with_child=False)
            async with Condition(stage.d, PATH) as held:
                (server.drop_request if drop == "request" else server.drop_reply)(OpCode.MULTI)

                async def delete_orphan() -> None:
                    await stage.b.delete(f"{SIGNALS}/{ORPHAN}")

                tasks.start_soon(delete_orphan)
                assert await held.notify() == 1
            await passes(1.0)
            assert stage.waiters.names == ["a"]

    on_virtual_time(backend, play)
