"""Work that is split over whoever is there: never two owners, and all of it is owned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    Served,
    connect,
    contenders_left,
    eventually,
    in_memory,
)
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

from aiolead import ACL, Client, CreateMode, Held, Lock, Partitioner
from aiolead.errors import ConfigurationError, NoAuthError, UsageError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/app/work"
ITEMS = [f"item-{number}" for number in range(8)]


class Owners:
    """Who works on what; two at the same item are an error at once.

    Args:
        may_overlap: for sessions that the servers end at once, which no lease can foresee.
    """

    def __init__(self, *, may_overlap: bool = False) -> None:
        self._may_overlap = may_overlap
        self.working: dict[str, str] = {}
        self.starts: list[tuple[str, str]] = []

    def worker(self, name: str) -> Callable[[str, Held], Any]:
        async def work(item: str, held: Held) -> None:
            held.check()
            if not self._may_overlap:
                assert item not in self.working, f"{item} is {self.working[item]}'s"
            self.working[item] = name
            self.starts.append((item, name))
            try:
                await anyio.sleep_forever()
            finally:
                # However long it takes to come to an end, nobody else begins meanwhile.
                with anyio.move_on_after(1, shield=True):
                    for _ in range(5):
                        await anyio.lowlevel.checkpoint()
                if self.working[item] == name:
                    del self.working[item]
                else:
                    assert self._may_overlap

        return work

    def share(self, name: str) -> set[str]:
        return {item for item, owner in self.working.items() if owner == name}

    async def split(self, **sizes: int) -> None:
        """Waits until everybody works on so many items."""

        def check() -> bool:
            return {name: len(self.share(name)) for name in sizes} == sizes and len(
                self.working
            ) == sum(sizes.values())

        await eventually(check, f"a split into {sizes}")


@asynccontextmanager
async def running(
    partitioner: Partitioner, worker: Callable[[str, Held], Any]
) -> AsyncIterator[anyio.CancelScope]:
    """It runs, as long as the body does, or until the scope is cancelled."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partitioner.run, worker)
        yield tasks.cancel_scope
        tasks.cancel_scope.cancel()


def partitioner(client: Client, name: str, **options: Any) -> Partitioner:
    return Partitioner(client, PATH, ITEMS, identity=name, **options)


async def nobody_left(server: EmbeddedServer) -> None:
    def check() -> bool:
        left = {path for path in contenders_left(server, PATH) if path.rpartition("/")[2] != ""}
        folders = {f"{PATH}/party", f"{PATH}/locks", *(f"{PATH}/locks/{item}" for item in ITEMS)}
        return left <= folders and not server.watches()

    await eventually(check, f"nothing is left: {server.znodes()}, {server.watches()}")


# --- sharing -----------------------------------------------------------------------------------


async def test_work_is_split_as_members_come_and_go(server: Served) -> None:
    owners = Owners()
    async with connect(server) as a, connect(server) as b, connect(server) as c:
        one, other = partitioner(a, "a"), partitioner(b, "b")
        async with running(one, owners.worker("a")):
            await owners.split(a=8)
            assert one.owned == set(ITEMS)
            assert one.members == {"a"}
            async with running(other, owners.worker("b")):
                await owners.split(a=4, b=4)
                assert (one.owned, other.owned) == (owners.share("a"), owners.share("b"))
                async with running(partitioner(c, "c"), owners.worker("c")):
                    await eventually(
                        lambda: (
                            len(owners.working) == 8
                            and all(len(owners.share(name)) >= 2 for name in "abc")
                        ),
                        "a split among three",
                    )
                await owners.split(a=4, b=4)
            await owners.split(a=8)
        assert owners.working == {}
        assert one.owned == one.members == set()


async def test_only_what_has_to_move_does(server: Served) -> None:
    owners = Owners()
    async with connect(server) as a, connect(server) as b:
        async with running(partitioner(a, "a"), owners.worker("a")):
            await owners.split(a=8)
            async with running(partitioner(b, "b"), owners.worker("b")):
                await owners.split(a=4, b=4)
            await owners.split(a=8)
    assert len(owners.starts) == 8 + 4 + 4


async def test_other_items(server: Served) -> None:
    owners = Owners()
    async with connect(server) as a:
        one = partitioner(a, "a")
        async with running(one, owners.worker("a")):
            await owners.split(a=8)
            one.update_items([*ITEMS[:3], "new"])
            await eventually(lambda: owners.share("a") == {*ITEMS[:3], "new"}, "the other items")
            assert one.items == {*ITEMS[:3], "new"}
            one.update_items([])
            await owners.split(a=0)
            one.update_items(ITEMS)
            await owners.split(a=8)


async def test_an_item_that_is_ours_again_while_its_worker_ends(server: Served) -> None:
    owners = Owners()
    async with connect(server) as a:
        one = partitioner(a, "a")
        async with running(one, owners.worker("a")):
            await owners.split(a=8)
            one.update_items([])
            while all(not scope.cancel_called for scope in one._shares.values()):
                await anyio.lowlevel.checkpoint()
            one.update_items(ITEMS)
            await eventually(lambda: len(owners.starts) == 16, "all begin anew")
            await owners.split(a=8)


async def test_a_worker_that_returns_keeps_its_item(server: Served) -> None:
    done: list[str] = []

    async def work(item: str, held: Held) -> None:
        await held.verify()
        done.append(item)

    async with connect(server) as a, connect(server) as b:
        one = partitioner(a, "a")
        async with running(one, work):
            await eventually(lambda: len(done) == 8, "all are done")
            assert one.owned == set(ITEMS)
            async with Lock(b, f"{PATH}/locks/{ITEMS[0]}").try_acquire() as held:
                assert held is None
            async with running(partitioner(b, "b"), work):
                await eventually(lambda: len(done) == 12, "those that have moved are done again")


async def test_a_change_while_the_last_lock_is_waited_for(server: Served) -> None:
    """kazoo's loses it (issue 259): another member comes while one still holds what should move."""
    owners = Owners()
    async with connect(server) as a, connect(server) as b, connect(server) as c:
        async with Lock(c, f"{PATH}/locks/{ITEMS[0]}").acquire() as stranger:
            async with running(partitioner(a, "a"), owners.worker("a")):
                await owners.split(a=7)
                async with running(partitioner(b, "b"), owners.worker("b")):
                    await eventually(lambda: len(owners.share("b")) >= 3, "the rest is split")
                    await stranger.release()
                    await owners.split(a=4, b=4)
                await owners.split(a=8)


async def test_a_short_absence_moves_nothing_within_the_quiet_period(
    server: ServerUnderTest,
) -> None:
    """A rolling restart: who comes back under its name gets its own items, and nobody else's."""
    owners = Owners()
    quiet = 1.0 if server.kind == "embedded" else 3.0  # a real server may take its time
    async with connect(server) as a, connect(server) as b:
        async with running(partitioner(a, "a", quiet=quiet), owners.worker("a")):
            async with running(partitioner(b, "b", quiet=quiet), owners.worker("b")):
                await owners.split(a=4, b=4)
                before = owners.share("a")
            async with running(partitioner(b, "b", quiet=0.0), owners.worker("b again")):
                await eventually(lambda: len(owners.share("b again")) == 4, "it has its own again")
                assert owners.share("a") == before
            # Nobody's but b's have ever moved.
            assert {item for item, name in owners.starts if name == "a"} == before


# --- what goes wrong ---------------------------------------------------------------------------


async def test_what_a_worker_raises_leaves_bare(server: Served) -> None:
    owners = Owners()

    async def work(item: str, held: Held) -> None:
        if item == ITEMS[3]:
            await eventually(lambda: len(owners.working) == 7, "all others work")
            raise KeyError(item)
        await owners.worker("a")(item, held)

    async with connect(server) as a:
        one = partitioner(a, "a")
        with pytest.raises(KeyError, match=ITEMS[3]):
            await one.run(work)
        assert owners.working == {}
        # It may run again.
        async with running(one, owners.worker("a")):
            await owners.split(a=8)
            with pytest.raises(UsageError, match="runs already"):
                await one.run(work)


async def test_several_that_raise_are_told_of_together() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a:

        async def work(item: str, _held: Held) -> None:
            try:
                await anyio.sleep_forever() if item != ITEMS[0] else None
            finally:
                raise KeyError(item)

        with pytest.raises(ExceptionGroup) as told:
            await partitioner(a, "a").run(work)
        assert all(isinstance(error, KeyError) for error in told.value.exceptions)
        await nobody_left(server)


async def test_a_worker_whose_clean_up_fails() -> None:
    owners = Owners()
    async with EmbeddedServer() as server, in_memory(server) as a:
        one = partitioner(a, "a")

        async def work(item: str, held: Held) -> None:
            try:
                await owners.worker("a")(item, held)
            finally:
                if item == ITEMS[0] and one.items != set(ITEMS):
                    raise KeyError(item)

        with pytest.raises(KeyError):
            async with anyio.create_task_group() as tasks:

                async def change() -> None:
                    await owners.split(a=8)
                    one.update_items(ITEMS[1:])

                tasks.start_soon(change)
                try:
                    await one.run(work)
                except KeyError as error:
                    raised = error
            raise raised


@virtually
async def test_a_member_whose_session_expires() -> None:
    owners = Owners(may_overlap=True)
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:
        async with (
            running(partitioner(a, "a"), owners.worker("a")),
            running(partitioner(b, "b"), owners.worker("b")),
        ):
            await owners.split(a=4, b=4)
            for client in (a, b, a):
                before, starts = client.session_id, len(owners.starts)
                server.expire_session(before)
                await eventually(lambda n=starts: len(owners.starts) > n, "some begin anew")
                await owners.split(a=4, b=4)
                assert client.session_id != before
        await nobody_left(server)


@virtually
async def test_a_member_whose_znode_is_deleted_keeps_its_work() -> None:
    owners = Owners()
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:
        async with (
            running(partitioner(a, "a"), owners.worker("a")),
            running(partitioner(b, "b", quiet=0.5), owners.worker("b")),
        ):
            await owners.split(a=4, b=4)
            starts = len(owners.starts)
            await b.delete(f"{PATH}/party/a")
            await eventually(lambda: f"{PATH}/party/a" in server.znodes(), "it is there again")
            assert len(owners.starts) == starts


async def test_a_lock_that_is_deleted_is_lost_and_held_again() -> None:
    owners = Owners()
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        one = partitioner(a, "a")
        async with running(one, owners.worker("a")):
            await owners.split(a=8)
            (lock,) = await b.get_children(f"{PATH}/locks/{ITEMS[0]}")
            await b.delete(f"{PATH}/locks/{ITEMS[0]}/{lock}")
            await eventually(lambda: owners.starts.count((ITEMS[0], "a")) == 2, "it begins anew")
            await owners.split(a=8)
        await nobody_left(server)


async def test_a_znode_that_is_not_ephemeral_is_no_member() -> None:
    owners = Owners()
    async with EmbeddedServer() as server, in_memory(server) as a:
        await a.ensure_path(f"{PATH}/party/stone")
        async with running(partitioner(a, "a"), owners.worker("a")):
            await owners.split(a=8)
            await a.create(f"{PATH}/party/alive", mode=CreateMode.EPHEMERAL)
            await owners.split(a=4)


async def test_it_is_refused() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.ensure_path(PATH)
        await b.create(f"{PATH}/locks", acl=[ACL.world(Permission.READ)])
        with pytest.raises(NoAuthError):
            await partitioner(a, "a").run(Owners().worker("a"))
        await b.create("/closed", acl=[ACL.world(Permission.READ)])
        with pytest.raises(NoAuthError):
            await Partitioner(a, "/closed", ITEMS).run(Owners().worker("a"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"path": "/"}, "path"),
        ({"items": "abc"}, "items"),
        ({"items": ["a/b"]}, "items"),
        ({"items": list(map(str, range(3000)))}, "items"),
        ({"identity": "a/b"}, "identity"),
        ({"quiet": -1}, "quiet"),
        ({"on_disconnect": "never"}, "on_disconnect"),
    ],
)
async def test_arguments_are_checked_before_anything_is_sent(
    options: dict[str, Any], named: str
) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        before = server.packets_in
        with pytest.raises(ConfigurationError, match=f"^{named}"):
            Partitioner(client, **{"path": PATH, "items": ITEMS, **options})
        assert server.packets_in == before
