"""Streams of events: all events, in order, and a report where some may be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from client.network import through_proxy
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually
from kit.raw_client import RawClient, told_zxid
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually, with_virtual_server

import aiolead
from aiolead import Client, ConnectionLossError, Election
from aiolead.errors import (
    ClientClosedError,
    ConfigurationError,
    InvalidPathError,
    UnsupportedError,
    UsageError,
)
from aiolead.model import EventType, Missed, MissedReason, SessionState, WatchEvent
from aiolead.testing import EmbeddedServer
from aiolead.types import WatchStream

E = EventType
RECONNECTED, EXPIRED, OVERFLOW = (Missed(reason) for reason in MissedReason)


async def read(stream: WatchStream, count: int) -> list[tuple[EventType, str] | Missed]:
    found: list[tuple[EventType, str] | Missed] = []
    with anyio.fail_after(PATIENCE):
        while len(found) < count:
            item = await anext(stream)
            found.append(item if isinstance(item, Missed) else (item.type, item.path))
    return found


def change(other: RawClient) -> None:
    other.create("/a")
    other.create("/a/b")
    other.set("/a/b", b"1")
    other.set("/a", b"1")
    other.delete("/a/b")
    other.delete("/a")


EXACTLY = [
    (E.CREATED, "/a"),
    (E.CHILDREN_CHANGED, "/a"),
    (E.DATA_CHANGED, "/a"),
    (E.CHILDREN_CHANGED, "/a"),
    (E.DELETED, "/a"),
]
BELOW = [
    (E.CREATED, "/a"),
    (E.CREATED, "/a/b"),
    (E.DATA_CHANGED, "/a/b"),
    (E.DATA_CHANGED, "/a"),
    (E.DELETED, "/a/b"),
    (E.DELETED, "/a"),
]


# --- events -------------------------------------------------------------------------------------


async def test_every_event_is_read_in_order(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as quick:
        with RawClient(server.connect_string) as other:
            async with client.watch("/a") as exact, client.watch("/", recursive=True) as deep:
                seen = []
                async with quick.watch("/a") as events:
                    for step in (E.CREATED, E.DELETED) * 2:
                        other.create("/a") if step is E.CREATED else other.delete("/a")
                        seen += await read(events, 1)
                assert seen == [(E.CREATED, "/a"), (E.DELETED, "/a")] * 2
                assert await read(exact, 4) == seen
                assert await read(deep, 4) == seen
                change(other)
                await catch_up(client)  # all of it has come in before it is read
                # The second change of the children is merged into the first, which is unread.
                assert await read(exact, 4) == EXACTLY[:3] + EXACTLY[4:]
                assert await read(deep, 6) == BELOW


async def test_watches_of_all_kinds_on_one_path_fire(server: ServerUnderTest) -> None:
    """Before 3.9, servers know one watch for a path and a connection (ZOOKEEPER-4466)."""
    async with connect(server) as client:
        with RawClient(server.connect_string) as other:
            other.create("/a")
            await catch_up(client)
            early, late = client.backend.make_watch(), client.backend.make_watch()
            data = client.backend.make_watch()
            await client.get_children("/a", watch=early)
            async with client.watch("/a") as exact, client.watch("/a", recursive=True) as deep:
                await client.get_children("/a", watch=late)
                await client.get("/a", watch=data)
                other.create("/a/b")
                other.set("/a", b"1")
                other.set("/a", b"2")
                other.set("/a/b", b"1")
                # Equal events are merged while they are unread, so all of them must have come in.
                await catch_up(client)
                assert await read(deep, 3) == [
                    (E.CREATED, "/a/b"),
                    (E.DATA_CHANGED, "/a"),
                    (E.DATA_CHANGED, "/a/b"),
                ]
                assert await read(exact, 2) == [(E.CHILDREN_CHANGED, "/a"), (E.DATA_CHANGED, "/a")]
                for watch in (early, late, data):
                    with anyio.fail_after(PATIENCE):
                        await watch.wait()
                _, stat = await client.get("/a/b")
                created = told_zxid(server.hosts, stat.czxid)
                expected = WatchEvent(E.CHILDREN_CHANGED, "/a", created)
                assert (early.event, late.event) == (expected, expected)
                await client.get_children("/a", watch=early)
                await client.get("/a", watch=data)
            # The other watches live on without the streams.
            other.set("/a", b"3")
            other.delete("/a/b")
            with anyio.fail_after(PATIENCE):
                assert (await data.wait()).type is E.DATA_CHANGED
                assert (await early.wait()).type is E.CHILDREN_CHANGED


async def test_stream_of_a_chroot_has_its_own_paths(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.ensure_path("/x/y")
        inner = client.chroot("/x")
        async with inner.watch("/", recursive=True) as deep, inner.watch("/y") as exact:
            await client.create("/x/y/z")
            await client.set("/x", b"1")
            assert await read(deep, 2) == [(E.CREATED, "/y/z"), (E.DATA_CHANGED, "/")]
            assert await read(exact, 1) == [(E.CHILDREN_CHANGED, "/y")]


async def test_entering_waits_until_the_server_watches(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        with RawClient(server.connect_string) as other:
            for n in range(20):
                async with client.watch("/", recursive=True) as events:
                    other.create(f"/{n}")
                    assert await read(events, 1) == [(E.CREATED, f"/{n}")]


async def test_cancelled_wait_loses_no_event(client: Client) -> None:
    async with client.watch("/a") as events:
        for n in range(20):
            with anyio.move_on_after(0):
                await anext(events)
                raise AssertionError("there is no event yet")
            await (client.delete("/a") if n % 2 else client.create("/a"))
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anext(events)
                raise AssertionError("it was not cancelled")
            assert await read(events, 1) == [(E.DELETED if n % 2 else E.CREATED, "/a")]


# --- connections, sessions ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["reset", "fin"])
async def test_reconnect_is_reported_with_the_watch(server: ServerUnderTest, fault: str) -> None:
    async with through_proxy(server) as (proxy, client), client.watch("/a") as events:
        one_shot = client.backend.make_watch()
        await client.exists("/a", watch=one_shot)
        async with client.watch("/", recursive=True) as deep:
            proxy.refuse()
            getattr(proxy, fault)()
            await eventually(
                lambda: client.state is SessionState.SUSPENDED, "the connection is lost"
            )
            assert not events.is_live
            with RawClient(server.connect_string) as other:
                other.create("/a")
                proxy.heal()
                # The streams get the event of the one-shot watch, too.
                assert await read(deep, 2) == [(E.CREATED, "/a"), RECONNECTED]
                assert events.is_live
                assert (await client.get("/a"))[0] == b""
                other.set("/a", b"1")
                assert await read(deep, 1) == [(E.DATA_CHANGED, "/a")]
                with anyio.fail_after(PATIENCE):
                    assert (await one_shot.wait()).type is E.CREATED
                assert await read(events, 3) == [
                    (E.CREATED, "/a"),
                    RECONNECTED,
                    (E.DATA_CHANGED, "/a"),
                ]


@with_virtual_server
async def test_reader_knows_the_tree_after_many_faults(
    server: EmbeddedServer, client: Client
) -> None:
    """A reader that reads it at the start and after each gap, and applies the events, has it."""
    async with connect_virtually(server) as writer:
        await client.create("/t")
        known: set[str] = set()
        async with client.watch("/t", recursive=True) as events, anyio.create_task_group() as tasks:

            async def follow() -> None:
                known.update(await client.get_children("/t"))
                async for event in events:
                    if isinstance(event, Missed):
                        while True:
                            try:
                                names = await client.get_children("/t")
                                break
                            except aiolead.errors.SessionExpiredError:
                                continue
                        known.clear()
                        known.update(names)
                    elif event.type is E.CREATED:
                        known.add(event.path.removeprefix("/t/"))
                    elif event.type is E.DELETED:
                        known.discard(event.path.removeprefix("/t/"))

            tasks.start_soon(follow)
            for n in range(40):
                await writer.create(f"/t/{n}")
                if n % 3 == 2:
                    await writer.delete(f"/t/{n - 1}")
                if n % 20 == 7:
                    server.disconnect(client.session_id)
                if n % 20 == 17:
                    await client.ready()
                    server.expire_session(client.session_id)
                if n % 5 == 0:
                    await anyio.sleep(0.01)
            final = set(await writer.get_children("/t"))
            await eventually(lambda: known == final, "it knows the tree")
            tasks.cancel_scope.cancel()


# --- the end -----------------------------------------------------------------------------------


async def test_leaving_ends_the_iteration_of_another_task(client: Client) -> None:
    async with anyio.create_task_group() as tasks, client.watch("/a") as events:

        async def follow() -> None:
            async for _ in events:
                raise AssertionError("nothing happened")

        tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()


async def test_closed_client_ends_the_iteration(zk: EmbeddedServer) -> None:
    async with connect(zk) as client:
        stream = client.watch("/a")
        await stream.__aenter__()
        await client.create("/a")
    assert await read(stream, 1) == [(E.CREATED, "/a")]
    for _ in range(2):
        with pytest.raises(ClientClosedError):
            await anext(stream)
    await stream.__aexit__(None, None, None)
    with pytest.raises(ClientClosedError):
        async with client.watch("/a"):
            pass


# --- opening -----------------------------------------------------------------------------------


async def test_older_server_gets_no_request() -> None:
    async with EmbeddedServer(version="3.5.9") as server, connect(server) as client:
        with pytest.raises(UnsupportedError, match=r"a persistent watch"):
            async with client.watch("/a"):
                pass
        assert server.requests["ADD_WATCH"] == 0
        assert client.state is SessionState.CONNECTED
        assert len(client._core.machine.watches) == 0


@virtually
async def test_opening_fails_in_time_without_a_server() -> None:
    async with embedded(tick_time=0.1) as server:
        async with connect_virtually(server, session_timeout=0.6, server_version="3.8") as client:
            await server.stop()
            with anyio.fail_after(PATIENCE), pytest.raises(ConnectionLossError):
                async with client.watch("/a"):
                    pass
            await server.start()
            await client.ready()
            assert len(client._core.machine.watches) == 0


async def test_cancelled_opening_leaves_no_watch(zk: EmbeddedServer) -> None:
    async with connect(zk, server_version="3.8") as client:
        zk.pause()
        with anyio.move_on_after(0.05) as scope:
            async with client.watch("/a"):
                pass
        assert scope.cancelled_caught
        zk.resume()
        await client.sync()
        await eventually(lambda: zk.watches() == {}, "no watch is left")
        assert client._core.machine.watches.persistent.by_path == {}


async def test_misuse_is_refused(client: Client) -> None:
    for bad in (0, -1, 1.5, True, None):
        with pytest.raises(ConfigurationError, match="max_events"):
            client.watch("/a", max_events=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidPathError):
        client.watch("a")
    stream = client.watch("/a")
    with pytest.raises(UsageError, match="was not opened"):
        await anext(stream)
    async with stream:
        assert "open" in repr(stream)
        with pytest.raises(UsageError, match="entered already"):
            await stream.__aenter__()
    assert "closed" in repr(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_each_event_goes_to_one_of_several_readers(client: Client) -> None:
    async with client.watch("/", recursive=True) as events:
        seen: list[str] = []

        async def follow(count: int) -> None:
            for _ in range(count):
                item = await anext(events)
                assert isinstance(item, WatchEvent)
                seen.append(item.path)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for count in (1, 2, 3):
                    tasks.start_soon(follow, count)
                await anyio.wait_all_tasks_blocked()
                for n in range(6):
                    await client.create(f"/{n}")
        assert sorted(seen) == [f"/{n}" for n in range(6)]


async def test_events_that_came_together_are_read_in_one_turn() -> None:
    """Or a reader that always reads would fall behind, and miss some."""
    count, turns = 500, 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with EmbeddedServer() as server, connect(server) as client, connect(server) as other:
        await other.create("/a")
        async with client.watch("/a", recursive=True) as events:
            for reply in [other.create(f"/a/{number}") for number in range(count)]:
                await reply
            await eventually(lambda: events.unread == count, "all events have come")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take_turns)
                await anyio.lowlevel.checkpoint()
                before = turns
                for _ in range(count):
                    await anext(events)
                assert turns - before < 10
                tasks.cancel_scope.cancel()


# --- other iterators that are used without their `async with`, or after it -----------------------

Make = Callable[[aiolead.Client], Any]


OBSERVERS: dict[str, Make] = {
    "campaign": lambda client: Election(client, "/election").campaign(),
    "observer": lambda client: Election(client, "/election").observe(),
    "session": lambda client: client.observe(),
}
each_observer = pytest.mark.parametrize("make", OBSERVERS.values(), ids=OBSERVERS)


@each_observer
async def test_iterator_that_was_not_opened_is_refused(client: Client, make: Make) -> None:
    """It would wait forever: nothing gives it its values."""
    with anyio.fail_after(PATIENCE), pytest.raises(UsageError, match="async with"):
        await anext(aiter(make(client)))


@each_observer
async def test_closed_iterator_has_ended(client: Client, make: Make) -> None:
    async with make(client) as states:
        await anext(aiter(states))
    with anyio.fail_after(PATIENCE):
        async for _ in states:
            pass


async def test_cancelled_session_observer_leaves_no_subscriber(client: Client) -> None:
    before = len(client._core._subscribers)
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with client.observe():
            pytest.fail("entered")
    assert len(client._core._subscribers) == before
