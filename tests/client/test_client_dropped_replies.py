"""Requests that nobody awaits: if they fail, the log and a warning say so, once, and only of a
user's own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from kit.clients import connect

from aiolead import Client, NoNodeError
from aiolead.errors import ClientClosedError
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.exhaustive("each request is one case", one_in=2)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [record.getMessage() for record in caplog.records if "never awaited" in record.message]


def _drop(replies: list[Any]) -> None:
    replies.clear()
    gc.collect()


async def _delete_unseen(client: Client) -> None:
    client.delete("/none")
    await client.sync()


DROPPED: dict[str, Callable[[Client], Any]] = {
    "DELETE /none": lambda client: client.delete("/none"),
    "GET_DATA /none": lambda client: client.get("/none"),
    "MULTI /none": lambda client: client.transaction().delete("/none").commit(),
}


@pytest.mark.parametrize("what", DROPPED)
async def test_a_request_that_fails_unseen_is_logged(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        replies = [DROPPED[what](client)]
        await client.sync()
        assert logged(caplog) == []  # somebody may still ask
        with pytest.warns(RuntimeWarning, match=f"was never awaited has failed: {what}: "):
            _drop(replies)
        (message,) = logged(caplog)
        assert message.startswith(f"a request that was never awaited has failed: {what}: ")


async def test_one_that_is_dropped_before_it_fails_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        with pytest.warns(RuntimeWarning, match="was never awaited has failed: DELETE /none: "):
            await _delete_unseen(client)
        assert len(logged(caplog)) == 1


async def _awaited(client: Client) -> None:
    with pytest.raises(NoNodeError):
        await client.delete("/none")


async def _awaited_late(client: Client) -> None:
    reply = client.delete("/none")
    await client.sync()
    with pytest.raises(NoNodeError):
        await reply


async def _asked_for_its_error(client: Client) -> None:
    reply = client.delete("/none")
    await client.sync()
    assert isinstance(reply.error(), NoNodeError)


async def _asked_in_a_callback(client: Client) -> None:
    reply = client.delete("/none")
    reply.add_done_callback(reply.error)
    del reply
    await client.sync()


async def _cancelled(client: Client) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.delete("/none")
    await client.sync()


async def _succeeded(client: Client) -> None:
    client.create("/a")
    await client.sync()


async def _made_by_a_recipe(client: Client) -> None:
    client.backend.unlimited().delete("/none")
    await client.sync()


@pytest.mark.parametrize(
    "use",
    [
        _awaited,
        _awaited_late,
        _asked_for_its_error,
        _asked_in_a_callback,
        _cancelled,
        _succeeded,
        _made_by_a_recipe,
    ],
)
async def test_what_was_seen_or_is_no_news_is_not(
    use: Callable[[Client], Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        await use(client)
    assert logged(caplog) == []


async def test_what_was_under_way_when_the_client_was_closed_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        server.pause()
        reply = client.delete("/none")
        client._core.machine.closed()
        assert reply.is_done
        server.resume()
        del reply
        with pytest.raises(ClientClosedError):
            await client.get("/")
    assert logged(caplog) == []
