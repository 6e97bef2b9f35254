"""Names that ZooKeeper would refuse, from a server that does not: read, deleted, never created."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.clients import PATIENCE, connect, eventually
from parsing.hostile_data import FORBIDDEN_NAMES

import aiolead
from aiolead import Client, Lock, TreeCache, admin, paths
from aiolead.cli.scene_feed import Feed
from aiolead.errors import AioleadError, InvalidPathError
from aiolead.paths import ListedPath, as_listed, basename, join, parent, validate
from aiolead.testing import EmbeddedServer
from aiolead.testing._server.transaction import Transaction

NAMES = [
    name.replace("\0", "\1") for name in FORBIDDEN_NAMES.values() if name not in ("", ".", "..")
]
"""Those that the embedded server can keep: its tree goes by what is between slashes."""


@asynccontextmanager
async def lenient(
    monkeypatch: pytest.MonkeyPatch, *, chroot: str = ""
) -> AsyncIterator[tuple[Client, Callable[..., str]]]:
    """A client of a server that allows all names, and what creates a znode by such a name."""
    monkeypatch.setattr(Transaction, "_validate", lambda *_: None)
    async with EmbeddedServer() as server:
        if chroot:
            server.create(chroot)

        class Below:
            connect_string = server.connect_string + chroot

        def create(path: str, data: bytes = b"") -> str:
            server.create(ListedPath(chroot + path), data)
            return path

        async with connect(Below()) as client:
            with anyio.fail_after(PATIENCE):
                yield client, create


each_chroot = pytest.mark.parametrize("chroot", ["", "/app"])


def test_path_stays_a_listed_path() -> None:
    path = join("/a", ListedPath("\x00"))
    assert validate(path) is path
    assert isinstance(join(path, "b"), ListedPath)
    assert isinstance(basename(path), ListedPath)
    assert isinstance(parent(join(path, "b")), ListedPath)
    assert not isinstance(parent(path), ListedPath)
    assert path == "/a/\x00"
    with pytest.raises(InvalidPathError):
        validate(str(path))


@each_chroot
async def test_listed_names_are_usable(chroot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with lenient(monkeypatch, chroot=chroot) as (client, create):
        create("/a")
        for name in NAMES:
            create(f"/a/{name}", b"data")
            create(f"/a/{name}/below")
        listed = await client.get_children("/a")
        assert sorted(listed) == sorted(NAMES)
        for name in listed:
            path = join("/a", name)
            assert (await client.get(path))[0] == b"data"
            assert await client.exists(path) is not None
            await client.set(path, b"other")
            assert await client.get_children(path) == ["below"]
            await client.get_acl(path)
            await client.sync(path)
            await client.check(path)
            async with client.observe_data(path) as view:
                assert view.value is not None
            with pytest.raises(InvalidPathError):
                await client.create(path)
            with pytest.raises(InvalidPathError):
                await client.create(join(path, "new"))
            with pytest.raises(InvalidPathError):
                await client.get(str(path))
            await client.delete(join(path, "below"))
            await client.transaction().check(path).delete(path)
        assert await client.get_children("/a") == []


@each_chroot
async def test_listed_tree_is_deleted(chroot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with lenient(monkeypatch, chroot=chroot) as (client, create):
        create("/a")
        for name in NAMES:
            create(f"/a/{name}")
            create(f"/a/{name}/{name}")
        assert await admin.delete_all(client, "/a") == 1 + 2 * len(NAMES)
        assert await client.exists("/a") is None


@each_chroot
async def test_listed_tree_is_cached(chroot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with lenient(monkeypatch, chroot=chroot) as (client, create):
        create("/a")
        create(f"/a/{NAMES[0]}")
        async with TreeCache(client, "/a") as cache:
            for name in NAMES[1:]:
                create(f"/a/{name}")
            create(f"/a/{NAMES[0]}/below")
            await eventually(lambda: len(cache) == 2 + len(NAMES), "all of them are there")
            await admin.delete_all(client, "/a")
            await eventually(lambda: len(cache) == 0, "none of them is there")


RECIPES: dict[str, Callable[[Client], Awaitable[object]]] = {
    "Election": lambda c: aiolead.Election(c, "/a").contenders(),
    "Election.revoke": lambda c: aiolead.Election(c, "/a").revoke(),
    "Lock": lambda c: aiolead.Lock(c, "/a").contenders(),
    "Lock.revoke": lambda c: aiolead.Lock(c, "/a").revoke(),
    "Semaphore.holders": lambda c: aiolead.Semaphore(c, "/a", 1).holders(),
    "Semaphore.contenders": lambda c: aiolead.Semaphore(c, "/a", 1).contenders(),
    "ReadWriteLock": lambda c: aiolead.ReadWriteLock(c, "/a").contenders(),
    "Condition": lambda c: aiolead.Condition(c, "/a").waiters(),
    "DoubleBarrier": lambda c: aiolead.DoubleBarrier(c, "/a", 1).members(),
    "Group": lambda c: aiolead.Group(c, "/a").members(),
    "ServiceRegistry": lambda c: aiolead.ServiceRegistry(c, "/").instances("a"),
    "ServiceRegistry.services": lambda c: aiolead.ServiceRegistry(c, "/a").services(),
    "UniqueNames": lambda c: aiolead.UniqueNames(c, "/a").holders(),
    "Config": lambda c: aiolead.Config(c, "/a").get(),
    "Config.history": lambda c: aiolead.Config(c, "/a").history(),
}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(
    "parts", [(), ("/leases", "/locks"), ("/waiters", "/signals"), ("/keys", "/history")], ids=str
)
async def test_recipes_accept_listed_names(
    name: str, parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recipes read, skip or report them (`MixedLayoutError`); a path is never refused."""
    async with lenient(monkeypatch) as (client, create):
        create("/a")
        for part in parts:
            create(f"/a{part}")
        for part in parts or ("",):
            for each in NAMES:
                create(f"/a{part}/{each}")
                create(f"/a{part}/{each}x-lock-0000000007")
        try:
            await RECIPES[name](client)
        except InvalidPathError:
            raise
        except AioleadError:
            pass


async def test_queue_skips_what_cannot_be_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lenient(monkeypatch) as (client, create):
        queue = aiolead.Queue(client, "/a")
        await queue.put(b"first")
        create("/a/queue-\n0000000000", b"foreign")
        create("/a/\x1b0000000000", b"foreign")
        async with queue.get() as item:
            assert item.data == b"first"


async def test_lock_behind_a_listed_name_is_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lenient(monkeypatch) as (client, create):
        create("/a")
        foreign = create("/a/\x1b[2J-lock-0000000000")
        async with anyio.create_task_group() as tasks:

            async def acquire() -> None:
                async with Lock(client, "/a") as held:
                    await held.verify()

            tasks.start_soon(acquire)
            await eventually(lambda: is_waiting(client), "it waits, or has had it")
            await client.delete(ListedPath(foreign))


async def is_waiting(client: Client) -> bool:
    return len(await client.get_children("/a")) != 0


async def test_dashboard_shows_a_queue_of_listed_names(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lenient(monkeypatch) as (client, create):
        create("/a")
        for each in NAMES:
            create(f"/a/{each}x-lock-0000000007")
        feed = Feed(client, ["/a"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed.run)
            revision = -1
            while not (feed.scene.is_current and feed.scene.queue("/a")):
                revision = await feed.changed(revision)
            create(f"/a/{NAMES[0]}x-lock-0000000008")
            await feed.changed(revision)
            tasks.cancel_scope.cancel()


NAME = st.one_of(
    st.text(st.sampled_from("a-_.é/€\x01\x7f\x80\ue000\ufff0\uffff\U0001f600"), max_size=4),
    st.sampled_from(["", ".", "..", "...", ".a", "a.", "/", "//", "a/", "/a", "a/../b"]),
)


@given(st.lists(NAME, max_size=5))
def test_names_are_judged_together_as_one_by_one(names: list[str]) -> None:
    listed = as_listed(names)
    assert listed == names
    for name, judged in zip(names, listed, strict=True):
        with nullcontext() if type(judged) is str else pytest.raises(InvalidPathError):
            validate(f"/{name}")


def test_one_accent_costs_no_check_of_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_is_valid", None)  # nobody calls it
    names = [f"member-{number:010d}" for number in range(1000)]
    assert as_listed([*names, "é"]) == [*names, "é"]
