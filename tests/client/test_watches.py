"""One-shot watches: waits for them, and what becomes of those that are dropped or throttled.

The promises in `tests/adapters/checking/watches.py` say when they fire, and when they are armed.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, connect, eventually
from kit.virtual_time import SESSION, Link, passes, settled, with_virtual_server

from aiolead import Client, Lock
from aiolead.errors import UsageError
from aiolead.model import EventType, Missed, WatchEvent
from aiolead.testing import EmbeddedServer, OpCode


async def test_closed_watch_is_removed_and_wakes_its_waiters(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        with client.backend.make_watch() as watch:
            await client.get("/a", watch=watch)
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    with pytest.raises(UsageError, match="closed"):
                        await watch.wait()

                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                watch.close()
        with pytest.raises(UsageError, match="closed"):
            await watch.wait()
        await client.set("/a", b"")
        await client.get("/a")
        assert watch.event is None


async def test_watch_of_another_client_is_refused(server: ServerUnderTest) -> None:
    async with connect(server) as client, connect(server) as other:
        with pytest.raises(UsageError, match="made by this client's make_watch"):
            client.exists("/a", watch=other.backend.make_watch())
        # Of another view of the same client it is fine.
        await client.exists("/a", watch=client.chroot("/app").backend.make_watch())


async def test_event_that_came_before_the_wait_is_returned_at_once(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        watch = client.backend.make_watch()
        await client.get("/a", watch=watch)
        await client.delete("/a")
        await client.sync()
        assert watch.event is not None
        with anyio.move_on_after(0) as scope:
            await watch.wait()
        assert scope.cancelled_caught  # which leaves the event for the next one
        assert await watch.wait() == watch.event
        with pytest.raises(UsageError, match=r"pass the watch to a read .* to arm it again"):
            await watch.wait()


async def test_all_waiting_tasks_get_the_event(server: ServerUnderTest, client: Client) -> None:
    events: list[WatchEvent] = []

    async def wait() -> None:
        events.append(await watch.wait())

    await client.create("/a")
    watch = client.backend.make_watch()
    await client.get("/a", watch=watch)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await client.delete("/a")
    assert [event.type for event in events] == [EventType.DELETED] * 2


# --- watches that are dropped --------------------------------------------------------------------


@pytest.fixture
def no_gc() -> Iterator[None]:
    """A dropped watch must not wait for the garbage collector."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("when", ["after its read", "during its read"])
async def test_dropped_watch_is_removed(client: Client, zk: EmbeddedServer, when: str) -> None:
    reply = client.exists("/a", watch=client.backend.make_watch())
    await reply
    if when == "after its read":
        del reply
        assert set(zk.watches()) == {"/a"}
    await client.sync()
    await client.sync()
    assert zk.watches() == {}
    assert len(client._core.machine.watches) == 0


@pytest.mark.usefixtures("no_gc")
@pytest.mark.keeps_time(0.6)
async def test_watch_dropped_by_a_thread_is_removed_with_a_ping() -> None:
    async with EmbeddedServer(tick_time=0.1) as server:
        async with connect(server, session_timeout=0.6) as client:
            held = [client.backend.make_watch()]
            await client.exists("/a", watch=held[0])
            thread = threading.Thread(target=held.clear)
            thread.start()
            await anyio.to_thread.run_sync(thread.join)
            await eventually(lambda: server.watches() == {}, "a ping later")


@pytest.mark.usefixtures("no_gc")
async def test_awaited_watch_and_callback_are_kept(client: Client, zk: EmbeddedServer) -> None:
    events: list[WatchEvent] = []
    await client.exists("/told", watch=client.backend.make_watch(events.append))

    async def wait(started: Callable[[], object]) -> None:
        watch = client.backend.make_watch()
        await client.exists("/waited", watch=watch)
        waiting: Awaitable[WatchEvent] = watch.wait()
        del watch
        started()
        events.append(await waiting)

    async with anyio.create_task_group() as tasks:
        started = anyio.Event()
        tasks.start_soon(wait, started.set)
        await started.wait()
        await client.sync()
        await client.sync()
        assert set(zk.watches()) == {"/told", "/waited"}
        await client.create("/told")
        await client.create("/waited")
    assert [event.path for event in events] == ["/told", "/waited"]
    assert zk.watches() == {}


# --- throttled watches ---------------------------------------------------------------------------

# An overloaded server drops the request that sets the watches again after a reconnect. The client
# sends it again on the same connection, at growing intervals, and misses no event.

SETS = (OpCode.SET_WATCHES, OpCode.SET_WATCHES2)


def throttle(server: EmbeddedServer) -> None:
    for op in SETS:
        server.throttle(op, 1000)


def asked(server: EmbeddedServer) -> int:
    return sum(server.requests[op.name] for op in SETS)


async def reconnect(link: Link, client: Client) -> None:
    link.down()
    link.heal()
    await settled()
    await client.ready()


@with_virtual_server
async def test_lock_is_kept_while_the_watches_are_throttled(
    server: EmbeddedServer, link: Link, client: Client, other: Client
) -> None:
    await other.create("/a")
    async with Lock(client, "/held") as held, client.observe_data("/a") as view:
        throttle(server)
        await reconnect(link, client)
        before = asked(server)
        await passes(20 * SESSION)
        held.check()
        # After 1/16, 1/8, 1/4, 1/2 and then always one session timeout.
        assert 20 <= asked(server) - before <= 25
        assert client.statistics().connections == 2
        assert not view.is_live
        await other.set("/a", b"new")
        await server.heal()
        await passes(1.1 * SESSION)
        assert view.value[0] == b"new"
        assert view.is_live
        held.check()


@with_virtual_server
async def test_event_during_throttling_is_reported_later(
    server: EmbeddedServer, link: Link, client: Client, other: Client
) -> None:
    """Also if other answers have shown later transactions, and the connection is lost again."""
    await other.create("/a")
    await other.create("/b")
    events: list[WatchEvent] = []
    watch = client.backend.make_watch(events.append)
    await client.get("/a", watch=watch)
    throttle(server)
    await reconnect(link, client)
    await other.set("/a", b"new")
    await client.set("/b", b"later")
    assert not watch.is_armed
    await reconnect(link, client)
    await client.set("/b", b"later still")
    await passes(3 * SESSION)
    assert events == []
    await server.heal()
    await passes(1.1 * SESSION)
    assert [(event.type, event.path) for event in events] == [(EventType.DATA_CHANGED, "/a")]


@with_virtual_server
async def test_watch_that_is_closed_meanwhile_is_not_set(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    await client.create("/a")
    watch = client.backend.make_watch(lambda _: None)
    await client.get("/a", watch=watch)
    throttle(server)
    await reconnect(link, client)
    watch.close()
    await passes(SESSION / 8)
    before = asked(server)
    await passes(10 * SESSION)
    assert asked(server) == before
    other = client.backend.make_watch(lambda _: None)
    await client.get("/a", watch=other)
    assert other.is_armed


@with_virtual_server
@pytest.mark.parametrize("recursive", [False, True])
async def test_stream_reports_its_gap_once_it_is_watched_again(
    server: EmbeddedServer, link: Link, client: Client, other: Client, recursive: bool
) -> None:
    await other.create("/a")
    async with client.watch("/a", recursive=recursive) as stream:
        throttle(server)
        await reconnect(link, client)
        await other.set("/a", b"new")
        await passes(3 * SESSION)
        assert not stream.is_live
        await server.heal()
        await passes(1.1 * SESSION)
        assert stream.is_live
        assert isinstance(await anext(aiter(stream)), Missed)
        await other.set("/a", b"newer")
        event = await anext(aiter(stream))
        assert isinstance(event, WatchEvent)
        assert event.type is EventType.DATA_CHANGED
    assert client.statistics().connections == 2


@with_virtual_server
async def test_one_shot_watches_beside_a_persistent_one_are_set_again_later(
    server: EmbeddedServer, client: Client, other: Client
) -> None:
    """`SetWatches` is also sent when a persistent watch is set or removed on the same path."""
    await other.create("/a")
    events: list[WatchEvent] = []
    watch = client.backend.make_watch(events.append)
    async with client.watch("/a"):
        await client.get("/a", watch=watch)
        throttle(server)
    await passes(SESSION)
    await other.set("/a", b"new")
    await passes(SESSION)
    await server.heal()
    await passes(2 * SESSION)
    assert [event.type for event in events] == [EventType.DATA_CHANGED]
    assert client.statistics().connections == 1
