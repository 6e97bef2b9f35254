"""Leaving a block waits until its znode is gone, also for what a lost link has left open.

On virtual time: an answer is lost, and the next connection is there a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from kit.clients import contenders_left
from kit.every_recipe import HELD, KEPT, held
from kit.virtual_time import (
    SESSION,
    Drop,
    Link,
    connect,
    lost_message,
    passes,
    settled,
    with_virtual_server,
)

import aiolead
from aiolead import Client, CreateMode, Lock, LockLost, PersistentNode, ReadWriteLock, SharedValue
from aiolead._recipes.view import View
from aiolead.errors import UsageError
from aiolead.testing import EmbeddedServer, OpCode

pytestmark = pytest.mark.both_loops

PATH = "/left/thing"

# A partitioner has tasks of its own, which are cancelled.
LEFT = {name: scene for name, scene in (HELD | KEPT).items() if name != "Partitioner"} | {
    "Election.campaign": held(lambda c, p: aiolead.Election(c, p).campaign())
}


def ours(server: EmbeddedServer, client: Client) -> list[str]:
    """The znodes that live by a client's session."""
    return sorted(server._running.core.processor.tree.ephemerals(client.session_id))


async def later(call: Callable[[], object]) -> None:
    await passes(1.0)
    call()


# --- holds ---------------------------------------------------------------------------------------


@lost_message
@pytest.mark.parametrize("name", LEFT)
@with_virtual_server
async def test_leaving_waits_for_a_delete_of_unknown_outcome(
    server: EmbeddedServer, client: Client, name: str, drop: Drop
) -> None:
    scene = LEFT[name]
    if scene.prepare is not None:
        await scene.prepare(client, PATH)
    async with scene.enter(client, PATH):
        await passes(1.0)
        assert ours(server, client)
        drop(server, OpCode.DELETE)
    assert ours(server, client) == []


@lost_message
@with_virtual_server
async def test_leaving_during_a_downgrade_deletes_the_writer_and_then_the_reader(
    server: EmbeddedServer, link: Link, client: Client, drop: Drop
) -> None:
    """Whether the reader was created is found out in the background."""
    async with anyio.create_task_group() as tasks:
        async with ReadWriteLock(client, PATH).write as held:
            await passes(1.0)
            link.refuse()
            drop(server, OpCode.CREATE2)
            with anyio.move_on_after(0.5):
                await held.downgrade()
            assert len(ours(server, client)) == (1 if drop is EmbeddedServer.drop_request else 2)
            tasks.start_soon(later, link.heal)
        assert "__WRIT__" not in "".join(ours(server, client))
        await settled()
        assert ours(server, client) == []


@lost_message
@with_virtual_server
async def test_reader_that_a_read_does_not_show_yet_is_deleted(
    server: EmbeddedServer, link: Link, client: Client, drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader answers reads, and its own clients' `sync`, before what it is about to apply.

    So only a read behind a write of our own says that the reader never comes.
    """
    is_applied = False

    def not_yet(read: Any) -> Any:
        def reads(self: Client, path: str, **options: Any) -> Any:
            is_hidden = "__READ__" in path and not is_applied
            return read(self, f"{path}-not-yet" if is_hidden else path, **options)

        return reads

    def check(self: Client, path: str, **options: Any) -> Any:
        nonlocal is_applied
        is_applied = True
        return checked(self, path, **options)

    for read in (Client.exists, Client.get):
        monkeypatch.setattr(Client, read.__name__, not_yet(read))
    checked = Client.check
    monkeypatch.setattr(Client, "check", check)
    async with ReadWriteLock(client, PATH).write as held:
        await passes(1.0)
        link.refuse()
        server.drop_reply(OpCode.CREATE2)
        with anyio.move_on_after(0.5):
            await held.downgrade()
        (reader,) = (path for path in ours(server, client) if path != held.path)
        assert "__READ__" in reader
        link.heal()
        await passes(0.5)
        drop(server, OpCode.DELETE)
    await passes(3 * SESSION)
    assert ours(server, client) == []


@pytest.mark.parametrize("role", ["reader", "writer"])
@with_virtual_server
async def test_leaving_before_a_downgrade_is_known_loses_the_lock_only_with_the_writer(
    server: EmbeddedServer, link: Link, client: Client, other: Client, role: str
) -> None:
    """Until the hold has moved to the reader, the reader's deletion is no loss."""
    with pytest.raises(LockLost) if role == "writer" else nullcontext():
        async with ReadWriteLock(client, PATH).write as held:
            await passes(1.0)
            link.stall("to_client")
            with anyio.move_on_after(0.1):
                await held.downgrade()
            reader, writer = sorted(contenders_left(server, PATH))
            assert "__READ__" in reader
            await other.delete(reader if role == "reader" else writer)
            link.heal()
    await passes(1.0)
    assert ours(server, client) == []


@with_virtual_server
async def test_leaving_waits_for_the_release_of_another_task(link: Link, client: Client) -> None:
    async with anyio.create_task_group() as tasks:
        async with Lock(client, PATH) as held:
            link.stall("to_client")
            tasks.start_soon(held.release)
            tasks.start_soon(later, link.heal)
            await settled()
            began = anyio.current_time()
        assert anyio.current_time() - began > 0.9


# --- persistent nodes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT]
)
@with_virtual_server
async def test_leaving_deletes_a_node_whose_repair_was_not_answered(
    server: EmbeddedServer, link: Link, client: Client, other: Client, mode: CreateMode
) -> None:
    """Nobody knows of the znode: it is looked for."""
    async with anyio.create_task_group() as tasks:
        async with PersistentNode(client, PATH, b"x", mode=mode) as node:
            await passes(1.0)
            path = node.path
            link.refuse()
            server.drop_reply(OpCode.CREATE2)
            await other.delete(path)
            await passes(1.0)
            assert path in server.znodes()
            assert not node.is_present
            tasks.start_soon(later, link.heal)
        assert path not in server.znodes()


@with_virtual_server
async def test_waiting_set_is_refused_once_the_node_was_left(link: Link, client: Client) -> None:
    refused: list[UsageError] = []

    async def set_it(node: PersistentNode) -> None:
        with pytest.raises(UsageError) as error:
            await node.set(b"y")
        refused.append(error.value)

    async with anyio.create_task_group() as tasks:
        async with PersistentNode(client, PATH, b"x") as node:
            link.down()
            tasks.start_soon(set_it, node)
            await settled()
            assert not refused
        link.heal()
        await passes(2 * SESSION)
        assert len(refused) == 1
        tasks.cancel_scope.cancel()


# --- no answer comes: what has ended the body propagates all the same ----------------------------


async def leave_without_an_answer(
    server: EmbeddedServer, body: Callable[[], Awaitable[object]]
) -> float:
    """Runs `body` while the lock is held; returns how long it and leaving took."""
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


@pytest.mark.parametrize(
    ("body", "wait"),
    [(anyio.sleep_forever, 1.0 + SESSION / 3), (anyio.lowlevel.checkpoint, SESSION / 3)],
    ids=["during the body", "while it waits"],
)
@with_virtual_server
async def test_cancellation_takes_effect_after_the_wait_for_the_release(
    server: EmbeddedServer, body: Callable[[], Awaitable[object]], wait: float
) -> None:
    began = anyio.current_time()
    with anyio.move_on_after(1.0) as outer:
        await leave_without_an_answer(server, body)
        await anyio.lowlevel.checkpoint()
        pytest.fail("the cancellation was swallowed")
    assert outer.cancelled_caught
    assert anyio.current_time() - began == pytest.approx(wait, abs=0.01)


@with_virtual_server
async def test_body_error_is_raised_after_the_wait_for_the_release(server: EmbeddedServer) -> None:
    async def fails() -> None:
        raise LookupError("of the body")

    began = anyio.current_time()
    with pytest.raises(LookupError, match="of the body"):
        await leave_without_an_answer(server, fails)
    assert anyio.current_time() - began == pytest.approx(SESSION / 3, abs=0.01)


@pytest.mark.parametrize(
    ("body", "wait"),
    [(anyio.sleep_forever, SESSION / 3), (anyio.lowlevel.checkpoint, 0.0)],
    ids=["during the body", "while it waits"],
)
@with_virtual_server
async def test_native_cancellation_of_asyncio_ends_the_wait(
    server: EmbeddedServer, body: Callable[[], Awaitable[object]], wait: float
) -> None:
    if trio.lowlevel.in_trio_run():
        return
    task = asyncio.current_task()
    assert task is not None
    began = anyio.current_time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await leave_without_an_answer(server, body)
    assert anyio.current_time() - began == pytest.approx(1.0 + wait, abs=0.01)
    assert task.cancelling() == 0


@with_virtual_server
async def test_view_is_left_in_time_although_its_task_does_not_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = View._run

    async def lingers(view: View[Any]) -> None:
        try:
            await run(view)
        finally:
            with anyio.CancelScope(shield=True):
                await passes(5 * SESSION)

    monkeypatch.setattr(View, "_run", lingers)
    async with SharedValue(client, PATH).observe():
        began = anyio.current_time()
    assert anyio.current_time() - began == pytest.approx(SESSION / 3, abs=0.01)
