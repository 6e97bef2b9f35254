"""Other clients put znodes below those that a recipe deletes: no server deletes these any more.

The recipe sets such a znode aside, warns of it once, and goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, catch_up, children_are, connect, eventually, names
from recipes.blocks import Block, Holder, enter, happens

from aiolead import (
    AcquireTimeout,
    Barrier,
    Client,
    Config,
    DoubleBarrier,
    PriorityQueue,
    Queue,
    TaskBoard,
)
from aiolead.errors import NotEmptyError
from aiolead.testing import EmbeddedServer, OpCode

pytestmark = pytest.mark.timeout(60)

PATH = "/here"


def warned_of(caplog: pytest.LogCaptureFixture, path: str) -> int:
    return sum(f"{path} has znodes below it" in each.getMessage() for each in caplog.records)


async def put_below(other: Client, client: Client, *paths: str) -> None:
    for path in paths:
        await other.sync(path)
        await other.create(f"{path}/below", b"")
    await catch_up(client)


# --- queues and the task board -------------------------------------------------------------------


class Work:
    """A queue or a task board of a client."""

    def __init__(self, client: Client, recipe: type[Any]) -> None:
        self.recipe: Any = recipe(client, PATH)
        self.is_board = recipe is TaskBoard
        self.folder = f"{PATH}/tasks" if self.is_board else PATH
        self.claims = f"{PATH}/claims" if self.is_board else f"{PATH}-claims"
        self.put: Callable[[bytes], Awaitable[str]] = (
            self.recipe.submit if self.is_board else self.recipe.put
        )

    def take(self, **options: float) -> Block:
        return (self.recipe.claim if self.is_board else self.recipe.get)(**options)

    def try_take(self) -> Block:
        return (self.recipe.try_claim if self.is_board else self.recipe.try_get)()

    async def finish(self, item: Any) -> None:
        await (item.finish(b"r") if self.is_board else item.ack())


@asynccontextmanager
async def consuming(work: Work) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Consumes in the block; gives what waits until just these items have been done."""
    done: list[bytes] = []

    async def consume() -> None:
        async with work.recipe.consume() as items:
            async for item in items:
                await work.finish(item)
                done.append(item.data)

    async def has_done(*data: bytes) -> None:
        await eventually(lambda: done == list(data), f"{data} are done")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        yield has_done
        tasks.cancel_scope.cancel()


RECIPES = pytest.mark.parametrize("recipe", [Queue, PriorityQueue, TaskBoard])


@RECIPES
async def test_consumer_skips_item_with_znodes_below_until_they_are_gone(
    client: Client, other: Client, recipe: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(client, recipe)
    name = await work.put(b"1")
    first = f"{work.folder}/{name}"
    await work.put(b"2")
    await put_below(other, client, first)
    async with consuming(work) as has_done:
        await has_done(b"2")
        await work.put(b"3")
        await has_done(b"2", b"3")
        assert await names(client, work.folder) == [name]
        assert warned_of(caplog, first) == 1
        await other.delete(f"{first}/below")
        await has_done(b"2", b"3", b"1")
        assert await names(client, work.folder) == []


@RECIPES
async def test_later_consumers_skip_item_with_znodes_below(
    client: Client, other: Client, recipe: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them has watches of its own, and none is left."""
    work = Work(client, recipe)
    first = f"{work.folder}/{await work.put(b'1')}"
    await put_below(other, client, first)
    for data in (b"2", b"3"):
        await work.put(data)
        async with consuming(work) as has_done:
            await has_done(data)
    await other.delete(f"{first}/below")
    await catch_up(client)
    async with consuming(work) as has_done:
        await has_done(b"1")
    assert warned_of(caplog, first) == 1


@RECIPES
async def test_item_that_gets_znodes_below_while_it_is_held_is_finished_once(
    client: Client, other: Client, recipe: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(client, recipe)
    name = await work.put(b"1")
    item = f"{work.folder}/{name}"
    async with work.take(timeout=PATIENCE) as held:
        await put_below(other, client, item)
        await work.finish(held)
        assert held.is_released
        assert not held.is_held
    assert warned_of(caplog, item) == 1
    if work.is_board:
        assert (await work.recipe.result(name)).data == b"r"
    # Neither this client nor another one gets it again, also once it could be deleted.
    await other.delete(f"{item}/below")
    for each in (client, other):
        await catch_up(each)
        async with Work(each, recipe).try_take() as nothing:
            assert nothing is None


@RECIPES
async def test_finishing_beside_znodes_below_survives_a_lost_answer(recipe: type[Any]) -> None:
    async with EmbeddedServer() as server, connect(server) as client, connect(server) as other:
        work = Work(client, recipe)
        name = await work.put(b"1")
        if work.is_board:
            await client.ensure_path(f"{PATH}/results")
        async with work.take(timeout=PATIENCE) as held:
            await put_below(other, client, f"{work.folder}/{name}")
            held._has_children = True  # so that the answer to the right transaction is lost
            server.drop_reply(OpCode.MULTI)
            await work.finish(held)
        await catch_up(client)
        assert await names(client, work.claims) == [name]


async def test_idle_consumer_beside_set_aside_items_sends_nothing() -> None:
    async with EmbeddedServer() as server, connect(server) as client, connect(server) as other:
        work = Work(client, Queue)
        items = await work.recipe.put_many([b"1", b"2", b"3"])
        await put_below(other, client, *(f"{PATH}/{name}" for name in items))
        async with consuming(work):
            available = work.recipe._available
            await eventually(
                lambda: len(available._set_aside) == 3 and not available.is_stale,
                "all are set aside",
            )
            before = server.packets_in
            for _ in range(5):
                await other.exists("/")
            assert server.packets_in == before + 5


# --- results -------------------------------------------------------------------------------------


async def finish_tasks(board: TaskBoard, count: int) -> list[str]:
    done = []
    for _ in range(count):
        done.append(await board.submit(b"x"))
        async with board.claim(timeout=PATIENCE) as task:
            await task.finish(b"r")
    return done


async def test_results_with_znodes_below_are_kept_and_others_are_deleted(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    board = TaskBoard(client, PATH, keep_results=2)
    stuck = await finish_tasks(board, 2)
    await put_below(other, client, *(f"{PATH}/results/{name}" for name in stuck))
    for count in (4, 3):
        await finish_tasks(board, count)
        await eventually(
            lambda: not board._results.trimmer._is_trimming, "the old results are deleted"
        )
        await catch_up(client)
        there = await names(client, f"{PATH}/results")
        assert set(stuck) < set(there)
        assert len(there) <= len(stuck) + 3
    for name in stuck:
        assert warned_of(caplog, f"{PATH}/results/{name}") == 1


async def test_old_results_are_deleted_once_the_server_is_no_longer_overloaded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EmbeddedServer() as server, connect(server, session_timeout=2.0) as client:
        board = TaskBoard(client, PATH, keep_results=2)
        await finish_tasks(board, 3)
        await board.submit(b"x")
        async with board.claim(timeout=PATIENCE) as task:
            server.throttle(OpCode.EXISTS, 2)
            await task.finish(b"r")

        async def are_trimmed() -> bool:
            return len(await names(client, f"{PATH}/results")) <= 2

        await eventually(are_trimmed, "the old results are deleted")
        assert "failed" not in caplog.text


# --- configurations ------------------------------------------------------------------------------


async def test_publisher_keeps_old_versions_with_znodes_below_and_goes_on(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(client, PATH, keep=2)
    history = f"{PATH}/history"
    for number in (1, 2):
        await config.publish({"a": b"%d" % number})
    stuck = sorted(await client.get_children(history))
    await put_below(other, client, *(f"{history}/{name}" for name in stuck))
    for number in range(3, 8):
        assert await config.publish({"a": b"%d" % number}) == number
    assert [each.version for each in await config.history()] == [7, 6, 2, 1]
    for name in stuck:
        assert warned_of(caplog, f"{history}/{name}") == 1
    # Another publisher finds out for itself.
    assert await Config(other, PATH, keep=2).publish({"a": b"8"}) == 8
    for name in stuck:
        await other.delete(f"{history}/{name}/below")
    await catch_up(client)
    await config.publish({"a": b"9"})
    assert [each.version for each in await config.history()] == [9, 8]


async def test_deleting_a_key_with_znodes_below_is_refused(client: Client, other: Client) -> None:
    config = Config(client, PATH)
    await config.publish({"a": b"1", "b": b"1"})
    await put_below(other, client, f"{PATH}/keys/a")
    with pytest.raises(NotEmptyError) as caught:
        await config.publish({"a": None, "b": b"2"})
    assert caught.value.path == f"{PATH}/keys/a"
    assert await config.publish({"a": b"2"}) == 2


# --- barriers ------------------------------------------------------------------------------------


async def test_double_barrier_round_ends_as_ready_gets_znodes_below(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    barrier = DoubleBarrier(client, PATH, 1)
    with anyio.fail_after(PATIENCE):
        async with barrier.enter():
            await put_below(other, client, f"{PATH}/ready")
    assert warned_of(caplog, f"{PATH}/ready") == 1
    with pytest.raises(AcquireTimeout, match="since /here/ready has znodes below it"):
        await enter(barrier.enter(timeout=0.3))
    assert warned_of(caplog, f"{PATH}/ready") == 1


async def test_member_enters_once_ready_has_no_znodes_below(client: Client, other: Client) -> None:
    await other.ensure_path(f"{PATH}/ready/below")
    await catch_up(client)
    member = Holder(DoubleBarrier(client, PATH, 1).enter(), span=0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(member)

        async def waits() -> bool:
            return len(await names(other, PATH)) == 2

        await eventually(waits, "the member is there")
        assert not member.has_entered
        await other.delete(f"{PATH}/ready/below")
        await happens(member.entered)


async def test_body_error_leaves_double_barrier_as_ready_has_znodes_below(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with DoubleBarrier(client, PATH, 1).enter():
            await put_below(other, client, f"{PATH}/ready")
            raise ZeroDivisionError
    await children_are(client, PATH, "ready")
    await eventually(lambda: warned_of(caplog, f"{PATH}/ready") > 0, "it is reported")


async def test_removing_a_barrier_with_znodes_below_fails(client: Client, other: Client) -> None:
    barrier = Barrier(client, PATH)
    await barrier.set()
    await put_below(other, client, PATH)
    with pytest.raises(NotEmptyError):
        await barrier.remove()
    assert await barrier.is_set()
