"""Jobs of a client that is closed before they have begun: they end all the same, and say so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from kit.clients import PATIENCE, connect

import aiolead
from aiolead import Client, Election, SharedValue, TreeCache
from aiolead.errors import ClientClosedError
from aiolead.testing import EmbeddedServer


@asynccontextmanager
async def closing_as_a_job_is_made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client that is closed right behind its next `spawn`, in the same step of the same task."""
    async with EmbeddedServer() as server, connect(server) as client:
        core = client._core
        spawn = core.spawn

        def spawn_and_close(job: Any, on_end: Any) -> None:
            spawn(job, on_end)
            monkeypatch.undo()
            core.end_jobs()  # what leaving `connect` does in one step
            core.machine.closed()

        await client.create("/a")
        monkeypatch.setattr(core, "spawn", spawn_and_close)
        yield client


async def campaigning(client: Client) -> None:
    async with Election(client, "/e").campaign() as states:
        async for _ in states:
            pass


async def observing(client: Client) -> None:
    async with Election(client, "/e").observe() as leaders:
        async for _ in leaders:
            pass


async def following(client: Client) -> None:
    async with SharedValue(client, "/a").observe() as view:
        async for _ in view:
            pass


async def caching(client: Client) -> None:
    async with TreeCache(client, "/a") as cache:
        async for _ in cache.events():
            pass


@pytest.mark.parametrize("use", [campaigning, observing, following, caching])
async def test_an_owner_of_a_job_hears_that_the_client_was_closed(
    use: Callable[[Client], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with closing_as_a_job_is_made(monkeypatch) as client:
        with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError):
            await use(client)
        assert client._core.spawned == 0


async def test_a_campaign_whose_client_is_closed_at_once() -> None:
    """Without a server, leaving `connect` takes not one turn of the event loop."""
    with anyio.fail_after(PATIENCE):
        async with aiolead.connect("127.0.0.1:1", connect_timeout=0) as client:
            campaign = Election(client, "/e").campaign()
            states = await campaign.__aenter__()
        with pytest.raises(ClientClosedError):
            async for _ in states:
                pass
        assert campaign._ended.is_set()  # so leaving it waits for nothing
        await campaign.__aexit__(None, None, None)


async def test_a_client_that_is_closed_while_a_campaign_is_entered() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        campaign = Election(client, "/e").campaign()
        entering: list[BaseException] = []

        async def enter() -> None:
            try:
                async with campaign as states:
                    async for _ in states:
                        pass
            except ClientClosedError as error:
                entering.append(error)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(enter)
                await anyio.lowlevel.checkpoint()
                client._core.end_jobs()
                client._core.machine.closed()
        assert len(entering) == 1


@pytest.mark.parametrize("is_begun", [True, False])
async def test_a_job_is_run_to_its_first_await_at_least(is_begun: bool) -> None:
    told: list[str] = []

    async def job() -> None:
        told.append("begun")
        try:
            await anyio.sleep_forever()
        finally:
            told.append("ended")

    async with aiolead.connect("127.0.0.1:1", connect_timeout=0) as client:
        client.backend.spawn(job)
        if is_begun:
            await anyio.wait_all_tasks_blocked()
    assert told == ["begun", "ended"]
    assert client._core.spawned == 0
    client.backend.spawn(job)  # without effect
    await anyio.wait_all_tasks_blocked()
    assert told == ["begun", "ended"]
