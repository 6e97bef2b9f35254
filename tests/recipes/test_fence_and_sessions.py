"""A fence is good for one session: in the next one, its znode may belong to another client."""

from __future__ import annotations

import anyio
import pytest
from kit.clients import in_memory

from aiolead import Client, CreateMode, Fenced, Lock, LockLost
from aiolead.testing import EmbeddedServer


async def test_fence_does_not_outlive_its_session(
    embedded_server: EmbeddedServer, local: Client
) -> None:
    async with in_memory(embedded_server) as other:
        await other.create("/data", b"before")
        with anyio.fail_after(30):
            with pytest.raises(LockLost):
                async with Lock(local, "/lock").acquire() as held:
                    fence, path = held.fenced(), held.path
                    plain = local.fenced(path)  # knows nothing of the hold
                    await fence.set("/data", b"held")
                    embedded_server.expire_session(local.session_id)
                    await anyio.sleep_forever()
            await local.ready()
            await other.create(path, mode=CreateMode.EPHEMERAL)
            direct = local.fenced(path)
            for write in (fence.set, fence.transaction().set, plain.set):
                with pytest.raises(Fenced):
                    await write("/data", b"from the past")  # type: ignore[misc]
            assert (await other.get("/data"))[0] == b"held"
            await direct.set("/data", b"by the guard's name alone")


async def test_fence_ends_with_its_hold(embedded_server: EmbeddedServer, local: Client) -> None:
    await local.create("/data")
    async with Lock(local, "/lock").acquire() as held:
        fence = held.fenced()
    before = embedded_server.requests.total()
    with pytest.raises(Fenced):
        await fence.set("/data", b"too late")
    assert embedded_server.requests.total() == before
