"""A fence is good for one session: the name of its znode may be somebody else's in the next one."""

from __future__ import annotations

import anyio
import pytest

from aiolead import ConnectionLossError, CreateMode, Fenced, Lock, LockLost, connect
from aiolead.testing import EmbeddedServer


async def test_a_fence_does_not_outlive_its_session() -> None:
    async with EmbeddedServer() as server:
        async with (
            connect(server.connect_string) as client,
            connect(server.connect_string) as other,
        ):
            await other.create("/data", b"before")
            with anyio.fail_after(30):
                with pytest.raises(LockLost):
                    async with Lock(client, "/lock").acquire() as held:
                        fence, path = held.fenced(), held.path
                        plain = client.fenced(path)  # knows nothing of the hold
                        await fence.set("/data", b"held")
                        server.expire_session(client.session_id)
                        await anyio.sleep_forever()
                await client.ready()
                await other.create(path, mode=CreateMode.EPHEMERAL)
                direct = client.fenced(path)
                with pytest.raises(Fenced):
                    await fence.set("/data", b"from the past")
                with pytest.raises(Fenced):
                    await fence.transaction().set("/data", b"from the past")
                with pytest.raises(Fenced):
                    await plain.set("/data", b"from the past")
                assert (await other.get("/data"))[0] == b"held"
                await direct.set("/data", b"by the guard's name alone")


async def test_a_fence_ends_with_what_it_fences() -> None:
    async with EmbeddedServer() as server, connect(server.connect_string) as client:
        await client.create("/data")
        async with Lock(client, "/lock").acquire() as held:
            fence = held.fenced()
        before = server.requests.total()
        with pytest.raises(Fenced):
            await fence.set("/data", b"too late")
        assert server.requests.total() == before


@pytest.mark.keeps_time(1.0)
async def test_trying_is_bounded_where_no_server_is() -> None:
    async with EmbeddedServer() as server:
        async with connect(server.connect_string, session_timeout=1) as client:
            await server.stop()
            lock = Lock(client, "/lock")
            for context in (lock.try_acquire(), lock.acquire(timeout=0)):
                with anyio.fail_after(30), pytest.raises(ConnectionLossError):
                    await context.__aenter__()
