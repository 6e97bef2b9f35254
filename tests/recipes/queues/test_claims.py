"""Which znodes of a line are a client's own is known while they are there, and no longer."""

from __future__ import annotations

from aiolead import Lock, connect
from aiolead._recipes.contention.queue_node import LocalContenders
from aiolead.testing import EmbeddedServer


async def test_a_name_is_claimed_while_its_znode_is_there() -> None:
    async with EmbeddedServer() as server, connect(server.connect_string) as client:
        line = client.backend.shared("/lock", LocalContenders)
        for _ in range(3):
            async with Lock(client, "/lock").acquire() as held:
                assert line.is_claimed(held.path.removeprefix("/lock/"))
                assert not line.is_empty
            assert line.is_empty
