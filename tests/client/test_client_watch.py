"""A one-shot watch, waited for: each event once, and never the old one again."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, connect
from kit.raw_client import RawClient

from aiolead.errors import UsageError
from aiolead.model import EventType, WatchEvent


async def test_an_event_is_returned_once(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        await client.create("/a")
        watch = client.backend.make_watch()
        await client.get("/a", watch=watch)
        with RawClient(server.connect_string) as other:
            other.set("/a", b"1")
            with anyio.fail_after(PATIENCE):
                event = await watch.wait()
            for _ in range(2):  # a loop around it would spin
                with pytest.raises(UsageError, match="pass the watch to a read"):
                    await watch.wait()
            assert watch.event == event
            await client.get("/a", watch=watch)
            other.delete("/a")
            with anyio.fail_after(PATIENCE):
                assert (await watch.wait()).type is EventType.DELETED


async def test_an_event_that_has_come_before_is_returned_at_once(server: ServerUnderTest) -> None:
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


async def test_all_who_wait_get_it(server: ServerUnderTest) -> None:
    events: list[WatchEvent] = []

    async def wait() -> None:
        events.append(await watch.wait())

    async with connect(server) as client:
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
