"""What is left is gone: leaving a block waits also for what a lost link has left open.

On virtual time: an answer is lost, and the next connection is there a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from kit.clients import contenders_left
from kit.virtual_time import SESSION, Link, connect, on_virtual_time, passes, settled

from aiolead import (
    Client,
    CreateMode,
    DoubleBarrier,
    Election,
    ExclusiveLock,
    Lock,
    LockLost,
    PersistentNode,
    Queue,
    ReadWriteLock,
    Semaphore,
    SharedValue,
    UniqueNames,
)
from aiolead._recipes._core.observe import View
from aiolead.errors import UsageError
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend

pytestmark = [
    pytest.mark.parametrize("backend", ["asyncio", "trio"]),
    pytest.mark.both_loops,
]

PATH = "/left/thing"

Enter = Callable[[Client], AbstractAsyncContextManager[object]]

HELD: dict[str, Enter] = {
    "Lock": lambda client: Lock(client, PATH),
    "Election": lambda client: Election(client, PATH).leadership(),
    "Election.campaign": lambda client: Election(client, PATH).campaign(),
    "ReadWriteLock.read": lambda client: ReadWriteLock(client, PATH).read,
    "ExclusiveLock": lambda client: ExclusiveLock(client, PATH),
    "Semaphore": lambda client: Semaphore(client, PATH, 3).acquire(permits=2),
    "DoubleBarrier": lambda client: DoubleBarrier(client, PATH, 1),
    "UniqueNames": lambda client: UniqueNames(client, PATH).claim("name"),
    "Queue": lambda client: Queue(client, f"{PATH}-items", claims=PATH).get(),
    "PersistentNode": lambda client: PersistentNode(client, PATH),
}

answers = pytest.mark.parametrize(
    "drop",
    [EmbeddedServer.drop_request, EmbeddedServer.drop_reply],
    ids=["request lost", "answer lost"],
)


def ours(server: EmbeddedServer, client: Client) -> list[str]:
    """The znodes that live by a client's session."""
    return sorted(server._running.core.processor.tree.ephemerals(client.session_id))


@answers
@pytest.mark.parametrize("enter", HELD.values(), ids=HELD.keys())
def test_the_link_is_lost_as_it_is_left(
    backend: Backend, enter: Enter, drop: Callable[[EmbeddedServer, OpCode], None]
) -> None:
    """The delete may have been applied or not: leaving waits until that is known, and it is."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client:
            await Queue(client, f"{PATH}-items").put(b"x")
            async with enter(client):
                await passes(1.0)
                assert ours(server, client)
                drop(server, OpCode.DELETE)
            assert ours(server, client) == []

    on_virtual_time(backend, play)


@answers
def test_a_writer_is_left_as_it_becomes_a_reader(
    backend: Backend, drop: Callable[[EmbeddedServer, OpCode], None]
) -> None:
    """There is one znode or the other; whichever it is, it is gone."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, anyio.create_task_group() as tasks:

            async def reconnect() -> None:
                await passes(1.0)
                link.restore()

            async with ReadWriteLock(client, PATH).write as held:
                await passes(1.0)
                link.room = 0
                drop(server, OpCode.MULTI)
                with anyio.move_on_after(0.5):
                    await held.downgrade()
                assert len(ours(server, client)) == 1
                tasks.start_soon(reconnect)
            assert ours(server, client) == []

    on_virtual_time(backend, play)


@answers
def test_a_reader_that_a_read_does_not_show_yet_is_deleted(
    backend: Backend,
    drop: Callable[[EmbeddedServer, OpCode], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader answers reads, and its own clients' `sync`, before what it is about to apply.

    So no read says that the reader never comes. Once the writer has been deleted, it does not.
    """

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client:

            def not_yet(read: Any) -> Any:
                def reads(self: Client, path: str, **options: Any) -> Any:
                    return read(self, f"{path}-not-yet" if "__READ__" in path else path, **options)

                return reads

            for read in (Client.exists, Client.get):
                monkeypatch.setattr(Client, read.__name__, not_yet(read))
            async with ReadWriteLock(client, PATH).write as held:
                await passes(1.0)
                link.room = 0
                server.drop_reply(OpCode.MULTI)
                with anyio.move_on_after(0.5):
                    await held.downgrade()
                (reader,) = ours(server, client)
                assert "__READ__" in reader
                link.restore()
                await passes(0.5)
                drop(server, OpCode.DELETE)
            await passes(3 * SESSION)
            assert ours(server, client) == []

    on_virtual_time(backend, play)


def test_a_writer_is_taken_away_as_it_becomes_a_reader(backend: Backend) -> None:
    """By an operator, and left before that was known: it had been lost."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, connect(server) as operator:
            with pytest.raises(LockLost):
                async with ReadWriteLock(client, PATH).write as held:
                    await passes(1.0)
                    link.hold()
                    with anyio.move_on_after(0.1):
                        await held.downgrade()
                    (reader,) = contenders_left(server, PATH)
                    assert "__READ__" in reader
                    await operator.delete(reader)
                    link.release()

    on_virtual_time(backend, play)


def test_left_while_another_task_resigns(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, anyio.create_task_group() as tasks:

            async def release() -> None:
                await passes(1.0)
                link.release()

            async with Lock(client, PATH) as held:
                link.hold()
                tasks.start_soon(held.release)
                tasks.start_soon(release)
                await settled()
                began = anyio.current_time()
            assert anyio.current_time() - began > 0.9

    on_virtual_time(backend, play)


# --- what is kept --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT]
)
def test_a_kept_znode_is_left_with_its_repair_in_doubt(backend: Backend, mode: CreateMode) -> None:
    """The answer to the create was lost, so nobody knows of the znode: it is looked for."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with (
            link.connect() as client,
            connect(server) as operator,
            anyio.create_task_group() as tasks,
        ):

            async def reconnect() -> None:
                await passes(1.0)
                link.restore()

            async with PersistentNode(client, PATH, b"x", mode=mode) as node:
                await passes(1.0)
                path = node.path
                link.room = 0
                server.drop_reply(OpCode.CREATE2)
                await operator.delete(path)
                await passes(1.0)
                assert path in server.znodes()
                assert not node.is_present
                tasks.start_soon(reconnect)
            assert path not in server.znodes()

    on_virtual_time(backend, play)


def test_a_kept_znode_is_left_while_it_is_set(backend: Backend) -> None:
    """Whoever waits for what nobody looks after any more is told."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        refused: list[Any] = []
        async with link.connect() as client, anyio.create_task_group() as tasks:

            async def set_it(node: PersistentNode) -> None:
                with pytest.raises(UsageError) as error:
                    await node.set(b"y")
                refused.append(error.value)

            async with PersistentNode(client, PATH, b"x") as node:
                link.lose()
                tasks.start_soon(set_it, node)
                await settled()
                assert not refused
            link.restore()
            await passes(2 * SESSION)
            assert len(refused) == 1
            tasks.cancel_scope.cancel()

    on_virtual_time(backend, play)


# --- no answer comes: what has ended the body propagates all the same ----------------------------


async def left_without_an_answer(server: EmbeddedServer, body: Callable[[], Any]) -> float:
    """How long it took; `body` runs while the lock is held."""
    async with connect(server) as client:
        began = anyio.current_time()
        try:
            async with Lock(client, PATH):
                server.pause()
                await body()
        finally:
            took = anyio.current_time() - began
            server.resume()
            await settled()
            assert contenders_left(server, PATH) == []
        return took


def test_a_cancelled_body_waits_for_the_whole_time(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        began = anyio.current_time()
        with anyio.move_on_after(1.0) as outer:
            await left_without_an_answer(server, anyio.sleep_forever)
            pytest.fail("the cancellation was swallowed")
        assert outer.cancelled_caught
        assert anyio.current_time() - began == pytest.approx(1.0 + SESSION / 3, abs=0.01)

    on_virtual_time(backend, play)


def test_a_cancellation_that_comes_while_it_waits_is_late(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        began = anyio.current_time()
        with anyio.move_on_after(1.0) as outer:
            took = await left_without_an_answer(server, anyio.lowlevel.checkpoint)
            assert took == pytest.approx(SESSION / 3, abs=0.01)
            await anyio.lowlevel.checkpoint()
            pytest.fail("the cancellation was swallowed")
        assert outer.cancelled_caught
        assert anyio.current_time() - began == pytest.approx(SESSION / 3, abs=0.01)

    on_virtual_time(backend, play)


def test_an_error_of_the_body_is_raised_after_the_wait(backend: Backend) -> None:
    async def fails() -> None:
        raise LookupError("of the body")

    async def play(server: EmbeddedServer) -> None:
        began = anyio.current_time()
        with pytest.raises(LookupError, match="of the body"):
            await left_without_an_answer(server, fails)
        assert anyio.current_time() - began == pytest.approx(SESSION / 3, abs=0.01)

    on_virtual_time(backend, play)


@pytest.mark.parametrize("when", ["the body ran", "it waited"])
def test_asyncios_own_cancellation(backend: Backend, when: str) -> None:
    """It ends the wait, as it ends every other one."""

    async def play(server: EmbeddedServer) -> None:
        if backend == "trio":
            return
        task = asyncio.current_task()
        assert task is not None
        began = anyio.current_time()
        body = anyio.sleep_forever if when == "the body ran" else anyio.lowlevel.checkpoint
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await left_without_an_answer(server, body)
        wait = SESSION / 3 if when == "the body ran" else 0.0
        assert anyio.current_time() - began == pytest.approx(1.0 + wait, abs=0.01)
        assert task.cancelling() == 0

    on_virtual_time(backend, play)


def test_view_is_left_in_time_although_its_job_does_not_end(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = View._run

    async def lingers(view: View[Any]) -> None:
        try:
            await run(view)
        finally:
            with anyio.CancelScope(shield=True):
                await passes(5 * SESSION)

    async def play(server: EmbeddedServer) -> None:
        monkeypatch.setattr(View, "_run", lingers)
        async with connect(server) as client:
            async with SharedValue(client, PATH).observe():
                began = anyio.current_time()
            assert anyio.current_time() - began == pytest.approx(SESSION / 3, abs=0.01)

    on_virtual_time(backend, play)
