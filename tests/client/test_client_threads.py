"""A client that threads read, and whose requests they try to send: it stays as it was."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest
from conftest import ServerUnderTest
from kit.clients import connect
from kit.elsewhere import in_thread

from aiolead.errors import UsageError

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.parametrize("server", ["embedded"], indirect=True),
]


async def test_statistics_are_read_while_watches_come_and_go(server: ServerUnderTest) -> None:
    interval = sys.getswitchinterval()
    async with connect(server) as client:
        watches = [client.backend.make_watch() for _ in range(300)]
        for number, watch in enumerate(watches):
            await client.exists(f"/{number}", watch=watch)
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                client.statistics()
                client.healthy()

        sys.setswitchinterval(1e-6)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, read)
                for number in range(300):
                    watch = client.backend.make_watch()
                    await client.exists(f"/n{number}", watch=watch)
                    watches[number].close()
                    watches.append(watch)
                stop.set()
        finally:
            stop.set()
            sys.setswitchinterval(interval)


def refused_elsewhere(function: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="another thread"):
        in_thread(function)


async def test_a_transaction_that_was_refused_may_still_be_sent(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        transaction, fenced = client.transaction().check("/"), client.fenced("/").transaction()
        fenced.create("/a")
        for each in (transaction, fenced):
            refused_elsewhere(each.commit)
        await transaction
        await fenced
        assert await client.exists("/a")


async def test_a_read_that_was_refused_has_not_reserved_its_watch(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        watch, other = client.backend.make_watch(), client.backend.make_watch()
        refused_elsewhere(lambda: client.exists("/a", watch=watch))
        refused_elsewhere(lambda: client.backend.arm([("/b", watch), ("/c", other)], since=0))
        assert client.statistics().watches == 0
        await client.exists("/a", watch=watch)
        await client.exists("/b", watch=other)
        await client.create("/a")
        assert (await watch.wait()).path == "/a"
        assert other.is_armed


async def test_a_thread_closes_a_watch(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        watch = client.backend.make_watch()
        await client.exists("/a", watch=watch)
        in_thread(watch.close)
        await client.get("/")
        assert not watch.is_armed
        assert client.statistics().watches == 0
