"""Servers that have lost their data: the session is given up, and the client goes on."""

from __future__ import annotations

import anyio

import aiolead
from aiolead import CreateMode
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer


async def test_servers_that_know_less_than_we_have_seen_end_the_session() -> None:
    """They hang up on our handshake without a word; that must not go on for ever."""
    async with EmbeddedServer() as server:
        async with (
            aiolead.connect(server.connect_string, session_timeout=1) as client,
            client.observe() as states,
        ):
            for _ in range(3):
                await client.create("/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
            before = client.session_id
            await server.stop()
            async with EmbeddedServer(port=server.port) as emptied:
                with anyio.fail_after(30):
                    while (change := await anext(states)).state is not SessionState.EXPIRED:
                        assert change.session_id in (0, before)
                    await client.ready()
                assert list(emptied.sessions()) == [client.session_id]
                assert await client.get_children("/") == ["zookeeper"]
