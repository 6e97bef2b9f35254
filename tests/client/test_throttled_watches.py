"""An overloaded server drops the request that sets the watches again after a reconnect.

It is asked again on the same connection, less and less often. Nothing that happens meanwhile is
missed, and what the session holds is kept.
"""

from __future__ import annotations

import pytest
from kit.virtual_time import SESSION, Link, connect, embedded, passes, settled, virtually

from aiolead import Client, Lock
from aiolead.model import EventType, Missed, WatchEvent
from aiolead.testing import EmbeddedServer, OpCode

SETS = (OpCode.SET_WATCHES, OpCode.SET_WATCHES2)


def throttle(server: EmbeddedServer) -> None:
    for op in SETS:
        server.throttle(op, 1000)


def asked(server: EmbeddedServer) -> int:
    return sum(server.requests[op.name] for op in SETS)


async def reconnect(link: Link, client: Client) -> None:
    link.lose()
    link.restore()
    await settled()
    await client.ready()


@virtually
async def test_lock_is_kept_while_the_watches_are_throttled() -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client, connect(server) as other:
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


@virtually
async def test_event_during_throttling_is_reported_later() -> None:
    """Also if other answers have shown later transactions, and the connection is lost again."""
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client, connect(server) as other:
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
            assert [(event.type, event.path) for event in events] == [
                (EventType.DATA_CHANGED, "/a")
            ]


@virtually
async def test_watch_that_is_closed_meanwhile_is_not_set() -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client:
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


@virtually
@pytest.mark.parametrize("recursive", [False, True])
async def test_stream_reports_its_gap_once_it_is_watched_again(recursive: bool) -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client, connect(server) as other:
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


@virtually
async def test_one_shot_watches_beside_a_persistent_one_are_set_again_later() -> None:
    """`SetWatches` is also sent when a persistent watch is set or removed on the same path."""
    async with embedded() as server, connect(server) as client, connect(server) as other:
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
