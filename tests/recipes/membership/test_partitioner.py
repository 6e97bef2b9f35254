"""Work that is split over all members: each item has one owner, and never two."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import JumpingClock, Served, connect, contenders_left, eventually, in_memory
from kit.virtual_time import VirtualClock, embedded, virtually
from kit.virtual_time import connect as connect_virtually

from aiolead import ACL, Client, CreateMode, Held, Lock, Partitioner
from aiolead.errors import NoAuthError, UsageError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/app/work"
ITEMS = [f"item-{number}" for number in range(8)]


class Owners:
    """The owner of each item; two owners of one item are an error at once.

    Args:
        may_overlap: for sessions that the servers end at once, which no lease can foresee.
    """

    def __init__(self, *, may_overlap: bool = False) -> None:
        self._may_overlap = may_overlap
        self.working: dict[str, str] = {}
        self.starts: list[tuple[str, str]] = []
        self.ends: list[str] = []

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
                self.ends.append(item)
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
        await eventually(
            lambda: Counter(self.working.values()) == Counter(sizes), f"a split into {sizes}"
        )


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
    folders = {f"{PATH}/party", f"{PATH}/locks", *(f"{PATH}/locks/{item}" for item in ITEMS)}
    await eventually(
        lambda: set(contenders_left(server, PATH)) <= folders and not server.watches(),
        f"nothing is left: {server.znodes()}, {server.watches()}",
    )


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


async def test_only_items_that_have_to_move_are_moved(a: Client, b: Client) -> None:
    owners = Owners()
    async with running(partitioner(a, "a"), owners.worker("a")):
        await owners.split(a=8)
        async with running(partitioner(b, "b"), owners.worker("b")):
            await owners.split(a=4, b=4)
        await owners.split(a=8)
    assert len(owners.starts) == 8 + 4 + 4


async def test_updated_items_are_split_again(a: Client) -> None:
    owners = Owners()
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


async def test_item_begins_again_if_it_comes_back_while_its_worker_ends(a: Client) -> None:
    owners = Owners()
    one = partitioner(a, "a")
    async with running(one, owners.worker("a")):
        await owners.split(a=8)
        one.update_items([])
        while not owners.ends:
            await anyio.lowlevel.checkpoint()
        one.update_items(ITEMS)
        await eventually(lambda: len(owners.starts) == 16, "all begin anew")
        await owners.split(a=8)


async def test_worker_that_returns_keeps_its_item(a: Client, b: Client) -> None:
    done: list[str] = []

    async def work(item: str, held: Held) -> None:
        await held.verify()
        done.append(item)

    one = partitioner(a, "a")
    async with running(one, work):
        await eventually(lambda: len(done) == 8, "all are done")
        assert one.owned == set(ITEMS)
        async with Lock(b, f"{PATH}/locks/{ITEMS[0]}").try_acquire() as held:
            assert held is None
        async with running(partitioner(b, "b"), work):
            await eventually(lambda: len(done) == 12, "those that have moved are done again")


async def test_member_that_comes_during_a_wait_for_a_lock_gets_its_share(server: Served) -> None:
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


async def test_short_absence_moves_nothing_within_the_quiet_period(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    """A rolling restart: a member that returns under its name gets its own items again."""
    owners = Owners()
    quiet = 1.0 if server.kind == "embedded" else 3.0  # a real server may take its time
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


async def test_error_of_a_worker_propagates_unchanged(a: Client) -> None:
    owners = Owners()

    async def work(item: str, held: Held) -> None:
        if item == ITEMS[3]:
            await eventually(lambda: len(owners.working) == 7, "all others work")
            raise KeyError(item)
        await owners.worker("a")(item, held)

    one = partitioner(a, "a")
    with pytest.raises(KeyError, match=ITEMS[3]):
        await one.run(work)
    assert owners.working == {}
    # It may run again.
    async with running(one, owners.worker("a")):
        await owners.split(a=8)
        with pytest.raises(UsageError, match="runs already"):
            await one.run(work)


async def test_errors_of_several_workers_are_raised_together() -> None:
    async def work(item: str, _held: Held) -> None:
        try:
            await anyio.sleep_forever() if item != ITEMS[0] else None
        finally:
            raise KeyError(item)

    async with EmbeddedServer() as server, in_memory(server) as a:
        with pytest.raises(ExceptionGroup) as told:
            await partitioner(a, "a").run(work)
        assert all(isinstance(error, KeyError) for error in told.value.exceptions)
        await nobody_left(server)


async def test_error_in_the_clean_up_of_a_worker_propagates() -> None:
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


async def checks_as_it_ends(held: Held) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        held.check()


@virtually
async def test_loss_of_an_item_that_moves_at_that_moment_is_no_error_of_the_worker() -> None:
    """On trio, the group of the worker has its cancellation beside the loss."""
    clock, starts = JumpingClock(VirtualClock()), list[str]()

    async def work(item: str, held: Held) -> None:
        starts.append(item)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(checks_as_it_ends, held)
            tasks.start_soon(anyio.sleep_forever)
            await anyio.sleep(1.0)
            if len(starts) == 1:
                clock.jump(2 * a.session_timeout)
                one.update_items(ITEMS[1:2])

    async with embedded() as server, connect_virtually(server, clock=clock) as a:
        one = Partitioner(a, PATH, ITEMS[:1])
        with anyio.move_on_after(5.0):
            await one.run(work)
    assert starts == ITEMS[:2]


@virtually
async def test_errors_of_workers_that_are_cancelled_are_raised_together() -> None:
    """On trio, the group of a worker has its cancellation beside its error."""

    async def fails_as_it_ends(item: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError(item)

    async def work(item: str, _held: Held) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fails_as_it_ends, item)
            tasks.start_soon(anyio.sleep_forever)
            if item == ITEMS[0]:
                await anyio.sleep(1.0)
                raise ValueError(item)

    async with embedded() as server, connect_virtually(server) as a:
        with pytest.raises(ExceptionGroup, match="2 workers have failed") as raised:
            await Partitioner(a, PATH, ITEMS[:2]).run(work)
    first, second = raised.value.exceptions
    assert isinstance(first, ExceptionGroup)
    assert [type(each) for each in first.exceptions] in (
        [ValueError, KeyError],
        [KeyError, ValueError],
    )
    assert isinstance(second, ExceptionGroup)
    assert [repr(each) for each in second.exceptions] == [f"KeyError({ITEMS[1]!r})"]


@virtually
async def test_member_whose_session_expires_gets_its_share_again() -> None:
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
async def test_member_whose_znode_is_deleted_keeps_its_work() -> None:
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


async def test_deleted_lock_is_lost_and_acquired_again() -> None:
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


async def test_persistent_znode_is_no_member() -> None:
    owners = Owners()
    async with EmbeddedServer() as server, in_memory(server) as a:
        await a.ensure_path(f"{PATH}/party/stone")
        async with running(partitioner(a, "a"), owners.worker("a")):
            await owners.split(a=8)
            await a.create(f"{PATH}/party/alive", mode=CreateMode.EPHEMERAL)
            await owners.split(a=4)


async def test_refused_request_ends_the_run() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.ensure_path(PATH)
        await b.create(f"{PATH}/locks", acl=[ACL.world(Permission.READ)])
        with pytest.raises(NoAuthError):
            await partitioner(a, "a").run(Owners().worker("a"))
        await b.create("/closed", acl=[ACL.world(Permission.READ)])
        with pytest.raises(NoAuthError):
            await Partitioner(a, "/closed", ITEMS).run(Owners().worker("a"))
