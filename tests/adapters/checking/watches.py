"""Promises about watches."""

from __future__ import annotations

from contextlib import suppress

from aiolead._wire.codes import OpCode
from aiolead.errors import NoNodeError, UnsupportedError, UsageError
from aiolead.model import EventType, WatchEvent

from .stage import Stage, fails, promise, same, true


@promise
async def a_watch_fires_once(stage: Stage) -> None:
    """It reports the first change, by its type and the path as the watcher named it; no other."""
    client = stage.client
    events: list[WatchEvent] = []
    await client.create("/a")
    watch = client.backend.make_watch(events.append)
    true(not watch.is_armed and watch.event is None, "a new watch is not armed")
    await client.get("/a", watch=watch)
    true(watch.is_armed, "it is armed once its read is answered")
    await stage.operator.set("/a", b"1")
    await stage.operator.set("/a", b"2")
    event = await watch.wait()
    same((event.type, event.path), (EventType.DATA_CHANGED, "/a"), "the event")
    await stage.operator.delete("/a")
    await client.sync("/")
    same(await client.exists("/a"), None, "the znode")
    same(events, [event], "the events")
    true(not watch.is_armed and watch.event == event, "it keeps its event and is not armed")
    await fails(watch.wait(), UsageError)  # its event was returned, and it is not armed again


@promise
async def every_kind_of_change_is_watched(stage: Stage) -> None:
    """`exists` watches creation, data and deletion; `get_children` the list of children."""
    client, operator = stage.client, stage.operator
    await client.create("/p")
    created, deleted, listed, ended = (client.backend.make_watch() for _ in range(4))
    await client.exists("/a", watch=created)
    await client.get_children("/p", watch=listed)
    await operator.create("/a")
    same((await created.wait()).type, EventType.CREATED, "where nothing was")
    await client.exists("/a", watch=deleted)
    await operator.delete("/a")
    same((await deleted.wait()).type, EventType.DELETED, "where something was")
    await operator.create("/p/c")
    same((await listed.wait()).type, EventType.CHILDREN_CHANGED, "where a child came")
    await client.get_children("/p/c", watch=ended)
    await operator.delete("/p/c")
    same((await ended.wait()).type, EventType.DELETED, "where the parent itself has gone")


@promise
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
            true(watch.event is None, "an event without its change")
        true(watch.event is not None, "the change was read, but its event did not come")


@promise
async def a_watch_is_armed_again_by_another_read(stage: Stage) -> None:
    """Reading with the same object arms it again, and it fires again."""
    client = stage.client
    await client.create("/a")
    watch = client.backend.make_watch()
    for number in range(3):
        await client.get("/a", watch=watch)
        true(watch.is_armed and watch.event is None, "it is as new")
        await stage.operator.set("/a", b"%d" % number)
        await watch.wait()


@promise
async def watches_are_armed_together(stage: Stage) -> None:
    """`arm` watches several znodes; changes since then are reported at once."""
    client, operator = stage.client, stage.operator
    for name in ("same", "changed", "gone"):
        await client.create(f"/{name}")
    since = (await client.create("/since")).stat.czxid
    await operator.set("/changed", b"1")
    await operator.delete("/gone")
    await client.sync("/")
    same_, changed, gone = (client.backend.make_watch() for _ in range(3))
    await client.backend.arm(
        [("/same", same_), ("/changed", changed), ("/gone", gone)], since=since
    )
    true(same_.is_armed and same_.event is None, "where nothing was, it is armed")
    told = changed.event
    true(told is not None and told.type is EventType.DATA_CHANGED, "a change is reported")
    told = gone.event
    true(told is not None and told.type is EventType.DELETED, "a deletion is reported")
    true(not (changed.is_armed or gone.is_armed), "and not watched for")
    await operator.delete("/same")
    same((await same_.wait()).type, EventType.DELETED, "what comes later")


@promise
async def a_read_that_fails_arms_no_watch(stage: Stage) -> None:
    """Where there is no such znode only `exists` watches."""
    client = stage.client
    watch = client.backend.make_watch()
    await fails(client.get("/none", watch=watch), NoNodeError)
    true(not watch.is_armed, "after a get that has failed")
    same(await client.exists("/none", watch=watch), None, "exists")
    true(watch.is_armed, "after an exists")


@promise
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
    same(sorted(events), ["a", "c"], "the notified watches")


@promise
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
    same(events, [], "the events")


@promise
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
    await stage.cut_off()
    true(not quiet.is_armed, "nothing is watched without a link")
    await operator.set("/changed", b"1")
    await operator.delete("/deleted")
    await operator.create("/created")
    await operator.create("/parent/child")
    stage.proxy.heal()
    same((await changed.wait()).type, EventType.DATA_CHANGED, "of the one that was changed")
    same((await deleted.wait()).type, EventType.DELETED, "of the one that was deleted")
    same((await created.wait()).type, EventType.CREATED, "of the one that was created")
    same((await listed.wait()).type, EventType.CHILDREN_CHANGED, "of the one with a new child")
    await stage.eventually(lambda: quiet.is_armed, "the one that nothing happened to is armed")
    same(quiet.event, None, "its event")
    await operator.delete("/quiet")
    same((await quiet.wait()).type, EventType.DELETED, "its event at last")


@promise
async def an_event_that_is_lost_comes_again(stage: Stage) -> None:
    """A link that dies with the event on it costs nothing but time."""
    client = stage.client
    await client.create("/a")
    watch = client.backend.make_watch()
    await client.get("/a", watch=watch)
    stage.proxy.drop_reply(OpCode.NOTIFICATION)
    await stage.operator.delete("/a")
    same((await watch.wait()).type, EventType.DELETED, "the event")


@promise
async def the_end_of_a_session_ends_its_watches(stage: Stage) -> None:
    """A watch whose session is over reports `NONE`: nobody waits for what cannot come."""
    client = stage.client
    events: list[WatchEvent] = []
    await client.create("/a")
    waited, told = client.backend.make_watch(), client.backend.make_watch(events.append)
    await client.get("/a", watch=waited)
    await client.get("/a", watch=told)
    await stage.expire()
    same((await waited.wait()).type, EventType.NONE, "the event of a waiter")
    same([event.type for event in events], [EventType.NONE], "the events of a callback")
    await client.get("/a", watch=waited)
    true(waited.is_armed and waited.event is None, "it can be armed in the next session")


@promise
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
                true(isinstance(event, WatchEvent), "nothing was missed")
                assert isinstance(event, WatchEvent)
                same(event.path, "/a/b", "the path")
                seen.append(event.type)
                if event.type is EventType.DELETED:
                    break
        wanted = [EventType.CREATED, EventType.DATA_CHANGED, EventType.DELETED]
        same(seen, wanted, "the events")
