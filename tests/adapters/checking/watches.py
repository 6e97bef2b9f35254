"""Promises about watches."""

from __future__ import annotations

from contextlib import suppress

from aiolead._wire.codes import OpCode
from aiolead.errors import NoNodeError, UnsupportedError, UsageError
from aiolead.model import EventType, WatchEvent

from .stage import Stage, fails


async def a_watch_fires_once(stage: Stage) -> None:
    """It reports the first change, by its type and the path as the watcher named it; no other."""
    client = stage.client
    events: list[WatchEvent] = []
    await client.create("/a")
    watch = client.backend.make_watch(events.append)
    assert (watch.is_armed, watch.event) == (False, None), "a new watch is not armed"
    await client.get("/a", watch=watch)
    assert watch.is_armed, "it is armed once its read is answered"
    await stage.operator.set("/a", b"1")
    await stage.operator.set("/a", b"2")
    event = await watch.wait()
    assert (event.type, event.path) == (EventType.DATA_CHANGED, "/a"), "the event"
    await stage.operator.delete("/a")
    await client.sync("/")
    assert await client.exists("/a") is None, "the znode"
    assert events == [event], "the events"
    assert (watch.is_armed, watch.event) == (False, event), "it keeps its event and is not armed"
    await fails(watch.wait(), UsageError)  # its event was returned, and it is not armed again


async def every_kind_of_change_is_watched(stage: Stage) -> None:
    """`exists` watches creation, data and deletion; `get_children` the list of children."""
    client, operator = stage.client, stage.operator
    await client.create("/p")
    created, deleted, listed, ended = (client.backend.make_watch() for _ in range(4))
    await client.exists("/a", watch=created)
    await client.get_children("/p", watch=listed)
    await operator.create("/a")
    assert (await created.wait()).type == EventType.CREATED, "where nothing was"
    await client.exists("/a", watch=deleted)
    await operator.delete("/a")
    assert (await deleted.wait()).type == EventType.DELETED, "where something was"
    await operator.create("/p/c")
    assert (await listed.wait()).type == EventType.CHILDREN_CHANGED, "where a child came"
    await client.get_children("/p/c", watch=ended)
    await operator.delete("/p/c")
    assert (await ended.wait()).type == EventType.DELETED, "where the parent itself has gone"


async def an_event_comes_before_what_it_tells_of(stage: Stage) -> None:
    """Nobody reads a change, over a connection, before the event of a watch for it came in."""
    client = stage.client
    await client.create("/a", b"0")
    for number in range(1, 10):
        data = str(number).encode()
        watch = client.backend.make_watch()
        await client.get("/a", watch=watch)
        await stage.operator.set("/a", data)
        while (await client.get("/a"))[0] != data:
            assert watch.event is None, "an event without its change"
        assert watch.event is not None, "the change was read, but its event did not come"


async def a_watch_is_armed_again_by_another_read(stage: Stage) -> None:
    """Reading with the same object arms it again, and it fires again."""
    client = stage.client
    await client.create("/a")
    watch = client.backend.make_watch()
    for number in range(3):
        await client.get("/a", watch=watch)
        assert (watch.is_armed, watch.event) == (True, None), "it is as new"
        await stage.operator.set("/a", b"%d" % number)
        await watch.wait()


async def a_read_that_fails_arms_no_watch(stage: Stage) -> None:
    """Where there is no such znode only `exists` watches."""
    client = stage.client
    watch = client.backend.make_watch()
    await fails(client.get("/none", watch=watch), NoNodeError)
    assert not watch.is_armed, "after a get that has failed"
    assert await client.exists("/none", watch=watch) is None, "exists"
    assert watch.is_armed, "after an exists"


async def watches_on_one_path_are_independent(stage: Stage) -> None:
    """Each of them fires; closing one leaves the others."""
    client = stage.client
    await client.create("/a")
    events: list[str] = []
    watches = {
        name: client.backend.make_watch(lambda _, name=name: events.append(name))  # type: ignore[misc]
        for name in "abc"
    }
    for watch in watches.values():
        await client.get("/a", watch=watch)
    watches["b"].close()
    await client.exists("/")
    await stage.operator.set("/a", b"1")
    await watches["a"].wait()
    await watches["c"].wait()
    assert sorted(events) == ["a", "c"], "the notified watches"


async def a_closed_watch_is_taken_back(stage: Stage) -> None:
    """Closing it, armed or about to be, removes it from the server; it does not fire."""
    client = stage.client
    events: list[WatchEvent] = []
    await client.create("/a")
    armed, arming = (
        client.backend.make_watch(events.append),
        client.backend.make_watch(events.append),
    )
    await client.get("/a", watch=armed)
    armed.close()
    looked = client.get("/a", watch=arming)
    arming.close()
    await looked
    await stage.eventually(lambda: not stage.server.watches(), "the server forgets them")
    await stage.operator.set("/a", b"1")
    await client.sync("/")
    assert events == [], "the events"


async def watches_outlive_links(stage: Stage) -> None:
    """The next connection reports missed events; znodes without a change stay watched."""
    client, operator = stage.client, stage.operator
    for path in ("/changed", "/deleted", "/parent", "/quiet"):
        await client.create(path)
    changed, deleted, created, listed, quiet = (client.backend.make_watch() for _ in range(5))
    await client.get("/changed", watch=changed)
    await client.get("/deleted", watch=deleted)
    await client.exists("/created", watch=created)
    await client.get_children("/parent", watch=listed)
    await client.get("/quiet", watch=quiet)
    await stage.isolate()
    assert not quiet.is_armed, "nothing is watched without a link"
    await operator.set("/changed", b"1")
    await operator.delete("/deleted")
    await operator.create("/created")
    await operator.create("/parent/child")
    stage.proxy.heal()
    assert (await changed.wait()).type == EventType.DATA_CHANGED, "of the one that was changed"
    assert (await deleted.wait()).type == EventType.DELETED, "of the one that was deleted"
    assert (await created.wait()).type == EventType.CREATED, "of the one that was created"
    assert (await listed.wait()).type == EventType.CHILDREN_CHANGED, "of the one with a new child"
    await stage.eventually(lambda: quiet.is_armed, "the one that nothing happened to is armed")
    assert quiet.event is None, "its event"
    await operator.delete("/quiet")
    assert (await quiet.wait()).type == EventType.DELETED, "its event at last"


async def an_event_that_is_lost_comes_again(stage: Stage) -> None:
    """A link that dies with the event on it costs nothing but time."""
    client = stage.client
    await client.create("/a")
    watch = client.backend.make_watch()
    await client.get("/a", watch=watch)
    stage.proxy.drop_reply(OpCode.NOTIFICATION)
    await stage.operator.delete("/a")
    assert (await watch.wait()).type == EventType.DELETED, "the event"


async def the_end_of_a_session_ends_its_watches(stage: Stage) -> None:
    """A watch whose session is over reports `NONE`: nobody waits for what cannot come."""
    client = stage.client
    events: list[WatchEvent] = []
    await client.create("/a")
    waited, told = client.backend.make_watch(), client.backend.make_watch(events.append)
    await client.get("/a", watch=waited)
    await client.get("/a", watch=told)
    await stage.expire()
    assert (await waited.wait()).type == EventType.NONE, "the event of a waiter"
    assert [event.type for event in events] == [EventType.NONE], "the events of a callback"
    await client.get("/a", watch=waited)
    assert (waited.is_armed, waited.event) == (True, None), "it can be armed in the next session"


async def a_stream_tells_every_event(stage: Stage) -> None:
    """A persistent watch reports all events in order, if the client has such watches at all."""
    await stage.client.create("/a")
    seen: list[EventType] = []
    with suppress(UnsupportedError):
        async with stage.client.watch("/a", recursive=True) as events:
            await stage.operator.create("/a/b")
            await stage.operator.set("/a/b", b"1")
            await stage.operator.delete("/a/b")
            async for event in events:
                assert isinstance(event, WatchEvent)
                assert event.path == "/a/b", "the path"
                seen.append(event.type)
                if event.type is EventType.DELETED:
                    break
        wanted = [EventType.CREATED, EventType.DATA_CHANGED, EventType.DELETED]
        assert seen == wanted, "the events"
