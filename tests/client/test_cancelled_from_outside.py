"""A scope around the whole client is cancelled, as a service does when it is told to end."""

from __future__ import annotations

import anyio
import pytest
from kit.checks import PATIENCE

import aiolead
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.both_loops


@pytest.mark.parametrize("depth", ["connected", "waiting", "leading"])
async def test_outer_cancel_leaves_nothing_with_the_servers(depth: str) -> None:
    """Else the next in line would wait for the session timeout, although we left in good order."""
    async with EmbeddedServer() as server:
        other = aiolead.connect(server.connect_string)
        with anyio.CancelScope() as scope:
            async with aiolead.connect(server.connect_string) as client:
                election = aiolead.Election(client, "/app")
                if depth == "connected":
                    scope.cancel()
                    await anyio.sleep_forever()
                async with election.leadership():
                    if depth == "leading":
                        scope.cancel()
                        await anyio.sleep_forever()
                    second = aiolead.Election(client, "/app").leadership(timeout=60)
                    with anyio.move_on_after(0.1, shield=True):
                        async with second:
                            pytest.fail("there was a leader already")
                    scope.cancel()
                    async with second:
                        pytest.fail("was cancelled")
        assert scope.cancelled_caught
        assert server.sessions() == {}
        assert [path for path in server.znodes() if "-" in path] == []
        async with other as client, aiolead.Election(client, "/app").leadership(timeout=0):
            pass


async def test_shielded_cleanup_of_the_body_still_has_its_client() -> None:
    async with EmbeddedServer() as server:
        with anyio.CancelScope() as scope:
            async with aiolead.connect(server.connect_string) as client:
                scope.cancel()
                with anyio.move_on_after(PATIENCE, shield=True):
                    await client.create("/farewell")
        assert "/farewell" in server.znodes()


async def test_an_entry_that_is_cancelled_leaves_no_task() -> None:
    with anyio.fail_after(PATIENCE):
        with anyio.move_on_after(0.2) as scope:
            # TEST-NET-1: nobody answers there, and nobody refuses either.
            async with aiolead.connect("192.0.2.1:2181", connect_timeout=60):
                pytest.fail("there is nobody")
    assert scope.cancelled_caught
