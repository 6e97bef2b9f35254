"""The default ACL of a client: every znode that is created without an ACL of its own has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.stapled import StapledByteStream
from kit.clients import OVER_AIOZK, PATIENCE, Served, connect, in_memory
from kit.every_recipe import DONE, FOLLOWED, HELD, KEPT

import aiolead
from aiolead import ACL, Auth, Client, admin
from aiolead.errors import ConfigurationError, InvalidACLError, NoAuthError, NoNodeError
from aiolead.model import Permission
from aiolead.paths import join
from aiolead.testing import EmbeddedServer

AUTH = Auth.digest("app", "secret")
OURS = [ACL.digest("app", "secret")]
READABLE = [*OURS, ACL.world(Permission.READ)]
EVERYBODY = b"\0\0\0\x05world\0\0\0\x06anyone"

Act = Callable[[Client, str], Awaitable[object]]


class Sent:
    """The requests of a client, for znodes that are gone before anybody could look at them."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.data = bytearray()

    async def dial(self, _address: str, _port: int) -> ByteStream:
        inner = await self._server.connect_stream()
        sent = self.data

        class Outgoing(StapledByteStream):
            async def send(self, item: bytes) -> None:
                sent.extend(item)
                await super().send(item)

        return Outgoing(inner, inner)


@asynccontextmanager
async def restricted(server: EmbeddedServer, **options: Any) -> AsyncIterator[Client]:
    async with in_memory(server, auth=[AUTH], default_acl=[ACL.auth()], **options) as client:
        yield client


async def acls(client: Client, path: str = "/") -> dict[str, list[ACL]]:
    """The ACL of everything below a path."""
    found: dict[str, list[ACL]] = {}
    with suppress(NoNodeError):
        for name in await client.get_children(path):
            below = join(path, name)
            if below != "/zookeeper":
                with suppress(NoNodeError):
                    found[below] = (await client.get_acl(below))[0]
                found |= await acls(client, below)
    return found


async def follow(name: str, client: Client, path: str) -> None:
    scene = FOLLOWED[name]
    async with scene.change(client, path) as change:
        await change(1)
        async with scene.observe(client, path):
            pass


async def bar(client: Client, path: str) -> None:
    await aiolead.Barrier(client, path).set()


async def notify(client: Client, path: str) -> None:
    async with aiolead.Condition(client, path) as waiter, anyio.create_task_group() as tasks:

        async def wake() -> None:
            async with aiolead.Condition(client, path) as other:
                await other.notify()

        tasks.start_soon(wake)
        await waiter.wait()


async def finish(client: Client, path: str) -> None:
    board = aiolead.TaskBoard(client, path)
    await board.submit(b"x")
    async with board.claim() as task:
        await task.finish(b"result")


async def limit(client: Client, path: str) -> None:
    await aiolead.Semaphore(client, path, 3).set_limit(2)


async def promote(client: Client, path: str) -> None:
    await aiolead.Counter(client, path, lock=f"{path}/lock", promote_after=0).add(1)


ACTS: dict[str, Act] = {
    **{f"change {name}": lambda c, p, n=name: follow(n, c, p) for name in FOLLOWED},
    **{f"do {name}": scene.do for name, scene in DONE.items()},
    "Barrier.set": bar,
    "Condition.notify": notify,
    "TaskBoard.finish": finish,
    "Semaphore.set_limit": limit,
    "Counter, promoted": promote,
}


@pytest.mark.skipif(OVER_AIOZK, reason="sends through a connection of its own")
async def test_every_recipe_creates_with_the_default_acl(embedded_server: EmbeddedServer) -> None:
    sent = Sent(embedded_server)
    scenes = HELD | KEPT
    inside: set[str] = set()
    all_inside, seen = anyio.Event(), anyio.Event()

    async def have(name: str, client: Client) -> None:
        async with scenes[name].enter(client, f"/{name}"):
            inside.add(name)
            if inside == scenes.keys():
                all_inside.set()
            await seen.wait()

    async with restricted(embedded_server, dial=sent.dial) as client:
        for name, scene in scenes.items():
            if scene.prepare is not None:
                await scene.prepare(client, f"/{name}")
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for name in scenes:
                    tasks.start_soon(have, name, client)
                await all_inside.wait()
                held = await acls(client)
                seen.set()
            for name, act in ACTS.items():
                await act(client, f"/{name}")
        found = held | await acls(client)
    assert {path.split("/")[1] for path in found} >= {*scenes, *ACTS}
    assert {path: acl for path, acl in found.items() if acl != OURS} == {}
    assert AUTH.scheme.encode() in sent.data
    assert EVERYBODY not in sent.data


async def test_recipe_acl_replaces_the_default_acl(embedded_server: EmbeddedServer) -> None:
    async with restricted(embedded_server) as client:
        async with aiolead.Lock(client, "/lock", acl=READABLE) as held:
            assert (await client.get_acl(held.path))[0] == READABLE
            assert (await client.get_acl("/lock"))[0] == READABLE


@pytest.mark.parametrize("view", [lambda c: c, lambda c: c.chroot("/below")], ids=["", "chroot"])
async def test_operations_create_with_the_default_acl(
    server: Served, view: Callable[[Client], Client]
) -> None:
    async with connect(server, auth=[AUTH], default_acl=[ACL.auth()]) as whole:
        client = view(whole)
        await client.ensure_path("/a/b")
        await client.create("/a/b/c")
        await client.transaction().create("/a/b/d").commit()
        await client.fenced("/a").create("/a/b/e")
        found = await acls(whole)
        assert len([path for path in found if "/a" in path]) == 5
        assert {path: acl for path, acl in found.items() if acl != OURS} == {}
        await client.create("/a/f", acl=READABLE)
        assert (await client.get_acl("/a/f"))[0] == READABLE
        async with aiolead.Lock(client, "/a/lock") as held:
            assert (await client.get_acl(held.path))[0] == OURS
        await admin.delete_all(client, "/a")


async def test_other_clients_are_kept_out(embedded_server: EmbeddedServer) -> None:
    async with restricted(embedded_server) as client, in_memory(embedded_server) as other:
        await client.create("/a")
        with pytest.raises(NoAuthError):
            await other.get("/a")
        with pytest.raises(NoAuthError):
            await aiolead.Lock(other, "/a").__aenter__()


async def test_default_acl_without_credentials_is_refused(embedded_server: EmbeddedServer) -> None:
    async with in_memory(embedded_server, default_acl=[ACL.auth()]) as client:
        with pytest.raises(InvalidACLError):
            await client.create("/a")


@pytest.mark.parametrize("wrong", [[], ["world"], ACL.world(), "world:anyone:r", 3, [None]])
def test_malformed_default_acl_is_refused_at_the_call(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^default_acl: must be a sequence") as caught:
        aiolead.connect("127.0.0.1", default_acl=wrong)
    assert "anyone" not in str(caught.value)


async def test_acl_of_a_recipe_may_be_an_iterator() -> None:
    """Each create of the recipe needs it."""
    async with EmbeddedServer() as server, in_memory(server, auth=[AUTH]) as client:
        queue = aiolead.Queue(client, "/queue", acl=iter(OURS))  # type: ignore[arg-type]
        for _ in range(2):
            await queue.put(b"")
        found = await acls(client)
        assert len(found) == 3
        assert all(each == OURS for each in found.values())
