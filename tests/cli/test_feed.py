"""What keeps a scene up to date."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial

import anyio
import pytest
from kit.cli import WITHIN
from kit.raw_client import SESSION, RawClient

import aiolead
from aiolead import Election, Semaphore, Term
from aiolead.cli.scene_feed import Feed, PartOfTree, SceneOptions
from aiolead.cli.scene_values import (
    ContenderQueue,
    OwnerConnection,
    QueueState,
    SceneEventType,
)
from aiolead.cli.server_inquiry import Inquirer, ServerAddress
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.exhaustive("an edge of the command")


@asynccontextmanager
async def running(feed: Feed) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed.run)
        yield
        tasks.cancel_scope.cancel()


async def until(feed: Feed, condition: Callable[[], object]) -> None:
    """Waits until all is there, and so."""
    with anyio.fail_after(WITHIN):
        revision = -1
        while not (feed.scene.is_current and condition()):
            revision = await feed.changed(revision)


def names(feed: Feed, path: str) -> tuple[list[str | None], list[str | None]]:
    """Who holds, and who waits."""
    line = feed.scene.queue(path)
    if line is None:
        return [], []
    return [term.identity for term in line.terms], [one.identity for one in line.waiting]


def line_of(feed: Feed, path: str) -> ContenderQueue:
    line = feed.scene.queue(path)
    assert line is not None
    return line


def test_what_recipes_do_is_seen(hosts: str, embedded: str) -> None:
    async def idle(_: Term) -> None:
        await anyio.sleep_forever()

    async def story() -> None:
        async with aiolead.connect(hosts) as client, aiolead.connect(hosts) as other:
            feed = Feed(client, ["/jobs", "/s", "/s/leases", "/nobody"])
            async with running(feed), anyio.create_task_group() as tasks:
                await until(feed, lambda: True)
                assert [line.path for line in feed.scene.queues] == ["/jobs", "/nobody", "/s"]
                first = Election(client, "/jobs/one", identity="first")
                second = Election(other, "/jobs/one", identity="second")
                async with first.leadership() as term:
                    tasks.start_soon(second.run, idle)
                    await until(feed, lambda: names(feed, "/jobs/one") == (["first"], ["second"]))
                await until(feed, lambda: names(feed, "/jobs/one") == (["second"], []))
                async with Semaphore(client, "/s", 2, identity="holder").acquire():
                    await until(feed, lambda: names(feed, "/s") == (["holder"], []))
                seen = [one for one in feed.scene.since(0) if one.path == "/jobs/one"]
                assert [(one.what, one.identity) for one in seen] == [
                    (SceneEventType.BEGAN, "first"),
                    (SceneEventType.JOINED, "second"),
                    (SceneEventType.BEGAN, "second"),
                ]
                assert seen[0].token == term.token
                assert feed.scene.session_id == client.session_id
                tasks.cancel_scope.cancel()

    # Each event loop with another server: what depends on one does not on the other.
    anyio.run(story, backend="trio" if hosts.startswith(embedded) else "asyncio")


def test_sessions_and_links_that_are_lost() -> None:
    """A contender's, then our own; who came meanwhile is found afterwards."""

    async def story(server: str, expire: Callable[[int], None]) -> None:
        host, _, port = server.partition(":")
        inquirer = Inquirer(None, WITHIN, 0)
        async with aiolead.connect(server) as client:
            feed = Feed(
                *(client, ["/"]),
                inquirer=inquirer,
                servers=[ServerAddress(host, int(port))],
                interval=0.02,
            )
            async with running(feed):
                with RawClient(server) as dead:
                    dead.create("/a")
                    dead.create("/a/_c_x-latch-", b"dead", flags=3)
                    await until(feed, lambda: feed.scene.knows_sessions and names(feed, "/a")[0])
                    line = feed.scene.queue("/a")
                    assert line is not None
                    (one,) = line.contenders
                    assert feed.scene.connection_of(one) is OwnerConnection.CONNECTED
                    dead.drop()
                    await until(
                        feed, lambda: feed.scene.connection_of(one) is OwnerConnection.SILENT
                    )
                    assert feed.scene.since(0)[-1].what is SceneEventType.SILENT
                    with RawClient(server) as operator:
                        session = feed.scene.session_id
                        # What is seen of this is seen before, or after, the session's end.
                        expire(session)
                        operator.create("/a/_c_y-latch-", b"next", flags=3)
                        await until(feed, lambda: feed.scene.session_id not in (0, session))
                        await until(feed, lambda: names(feed, "/a") == (["dead"], ["next"]))

    with EmbeddedServer.in_thread(max_session_timeout=SESSION) as server:
        anyio.run(story, server.connect_string, server.expire_session)


HOLDER = """
import sys, anyio, aiolead
async def main():
    async with aiolead.connect(sys.argv[1], session_timeout=4) as client:
        async with aiolead.Lock(client, "/l", identity="holder").acquire():
            await anyio.sleep_forever()
anyio.run(main)
"""


def test_a_holder_whose_process_is_stopped(hosts: str) -> None:
    """It keeps its connection, and its lock, until the servers end its session."""

    async def story(stack: ExitStack) -> None:
        host, _, port = hosts.partition("/")[0].partition(":")
        async with aiolead.connect(hosts) as client:
            feed = Feed(
                *(client, ["/l"]),
                inquirer=Inquirer(None, WITHIN, 0),
                servers=[ServerAddress(host, int(port))],
                interval=0.1,
            )
            async with running(feed):
                await until(feed, lambda: True)
                # After the first look: what is there by then is no event.
                process = await anyio.to_thread.run_sync(
                    lambda: stack.enter_context(
                        subprocess.Popen([sys.executable, "-c", HOLDER, hosts])
                    )
                )
                stack.callback(process.kill)
                await until(feed, lambda: names(feed, "/l") == (["holder"], []))
                await until(feed, lambda: feed.scene.knows_sessions)
                assert line_of(feed, "/l").state is QueueState.HELD
                process.send_signal(signal.SIGSTOP)
                await until(feed, lambda: line_of(feed, "/l").state is QueueState.PAUSED)
                await until(feed, lambda: line_of(feed, "/l").state is QueueState.FREE)
        told = [one.what for one in feed.scene.since(0) if one.path == "/l"]
        assert told[:2] == [SceneEventType.BEGAN, SceneEventType.SILENT]
        assert SceneEventType.BACK not in told
        assert told[-1] is SceneEventType.VACANT

    with ExitStack() as stack:
        anyio.run(story, stack)


def test_too_many_znodes(somewhere: str) -> None:
    """It leaves bare, as what else a client raises; and what may not be read has no name."""

    async def story() -> None:
        async with aiolead.connect(somewhere) as client:
            await client.ensure_path("/l/below")
            closed = [aiolead.ACL(aiolead.model.Permission.ADMIN, "world", "anyone")]
            mode = aiolead.CreateMode.PERSISTENT_SEQUENTIAL
            ghost = await client.create("/l/_c_x-lock-", b"secret", acl=closed, mode=mode)
            feed = Feed(client, ["/l"])
            async with running(feed):
                # What may be below it is said to be unknown; below an ephemeral one is nothing.
                await until(feed, lambda: feed.scene.unreadable == [ghost.path])
                # A znode that never goes by itself makes no lock; in one, it is waited for.
                assert line_of(feed, "/l").kind == ""
                ephemeral = aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
                await client.create("/l/_c_y-lock-", acl=closed, mode=ephemeral)
                await client.create("/l/below/closed", acl=closed)
                await until(feed, lambda: "/l/below/closed" in feed.scene.unreadable)
                await until(feed, lambda: names(feed, "/l") == ([None], [None]))
                assert len(feed.scene.unreadable) == 2
                await client.set_acl("/l/below/closed", aiolead.model.OPEN_ACL_UNSAFE)
                # Servers tell of no change of an ACL by itself.
                await client.set("/l/below/closed", b"")
                await until(feed, lambda: "/l/below/closed" not in feed.scene.unreadable)

    anyio.run(story)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_of_a_tree_that_is_too_large_a_part_is_shown(backend: str) -> None:
    async def story() -> None:
        async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
            server.create("/l")
            for number in range(10):
                server.create(f"/l/{number}")
            async with aiolead.Lock(client, "/l/0", identity="one"):
                feed = Feed(client, ["/l"], SceneOptions(max_znodes=4))

                async def look() -> None:
                    await feed.caught_up()
                    cache = feed._parts[0].cache
                    assert list(cache) == ["/l", "/l/0", "/l/1", "/l/2"]
                    assert feed.scene.incomplete == ["/l"]
                    # A znode that is gone makes room for a later one.
                    await client.delete("/l/1")
                    await until(feed, lambda: "/l/1" not in feed._parts[0]._chosen)
                    await client.create("/l/new")
                    await until(feed, lambda: "/l/new" in cache)
                    await client.create("/l/more")
                    await client.delete("/l/2")
                    await until(feed, lambda: "/l/2" not in cache)
                    assert list(cache) == ["/l", "/l/0", "/l/new"]

                await feed.during(look)
            whole = Feed(client, ["/l"], SceneOptions(max_znodes=12))
            await whole.during(partial(shows_all, whole))

    async def shows_all(feed: Feed) -> None:
        await feed.caught_up()
        assert len(feed._parts[0].cache) == 11
        assert feed.scene.incomplete == []

    anyio.run(story, backend=backend)


async def test_names_that_never_were_read_do_not_take_room() -> None:
    """Others may create and delete faster than znodes are read."""
    async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
        left_out: list[None] = []
        part = PartOfTree(client, "/", 1000, lambda: left_out.append(None))
        assert all(part._is_chosen(f"/{number}") for number in range(5_000))
        assert left_out == []
