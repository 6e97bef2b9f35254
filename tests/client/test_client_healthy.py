"""`Client.healthy`: what a probe is told."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from kit.clients import eventually

import aiolead
from aiolead import Election, blocking
from aiolead.errors import ConfigurationError
from aiolead.model import SessionState
from aiolead.paths import parse_connect_string
from aiolead.testing import EmbeddedServer, FaultProxy

# It looks at what is known, and waits for nothing: one event loop will do.
on_asyncio = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])


@on_asyncio
async def test_before_leading_while_leading_and_after() -> None:
    async with EmbeddedServer() as server:
        hosts = server.connect_string
        async with aiolead.connect(hosts) as client, aiolead.connect(hosts) as other:
            assert client.healthy()
            async with Election(client, "/e").leadership(), anyio.create_task_group() as tasks:
                tasks.start_soon(Election(other, "/e").run, lambda _: anyio.sleep_forever())
                assert client.healthy()
                assert other.healthy()  # it waits for its turn
                tasks.cancel_scope.cancel()
            assert client.healthy()
            # The next session begins within milliseconds: what is said at each change is noted.
            said: list[tuple[SessionState, bool]] = []
            client.backend.subscribe(lambda state, _: said.append((state, client.healthy(86_400))))
            server.expire_session(client.session_id)
            await eventually(
                lambda: bool(said) and said[-1][0] is SessionState.CONNECTED, "a session"
            )
            assert (SessionState.EXPIRED, False) in said
            assert {
                is_healthy for state, is_healthy in said if state is SessionState.CONNECTED
            } == {True}
            assert client.healthy()
        assert not client.healthy(86_400)


@on_asyncio
async def test_without_answers_it_is_false_after_that_time_and_true_again_with_them() -> None:
    async with EmbeddedServer() as server:
        address = parse_connect_string(server.connect_string).hosts[0]
        with FaultProxy(*address) as proxy:
            async with aiolead.connect(proxy.connect_string, session_timeout=4) as client:
                limit = client.session_timeout / 4
                proxy.blackhole()
                await eventually(lambda: not client.healthy(limit), "without answers")
                assert client.healthy(86_400)
                proxy.heal()
                await eventually(client.healthy, "with answers")


@on_asyncio
async def test_what_is_no_number_of_seconds_is_refused(embedded: str) -> None:
    bad: list[Any] = [-1, float("nan"), float("inf"), "5", True, 86_401]
    async with aiolead.connect(embedded) as client:
        for each in bad:
            with pytest.raises(ConfigurationError, match="max_unconfirmed: must be a number of"):
                client.healthy(each)


def test_threads_may_ask(embedded: str) -> None:
    with blocking.connect(embedded) as client:
        assert client.healthy()
        assert client.healthy(5)
    assert not client.healthy()
