"""Other clients put znodes below those that a recipe deletes: no server deletes these any more.

The recipe sets such a znode aside, warns of it once, and goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, Served, catch_up, connect, eventually, names

import aiolead
from aiolead import AcquireTimeout, Client, Config, DoubleBarrier, PriorityQueue, Queue, TaskBoard
from aiolead.errors import NotEmptyError
from aiolead.testing import EmbeddedServer, OpCode

pytestmark = pytest.mark.timeout(60)

PATH = "/here"


@asynccontextmanager
async def two_clients(server: Served) -> AsyncIterator[tuple[Client, Client]]:
    async with connect(server) as client, connect(server) as other:
        yield client, other


def warned_of(caplog: pytest.LogCaptureFixture, path: str) -> int:
    return sum(f"{path} has znodes below it" in each.getMessage() for each in caplog.records)


async def put_below(other: Client, client: Client, *paths: str) -> None:
    for path in paths:
        await other.sync(path)
        await other.create(f"{path}/below", b"")
    await catch_up(client)


class Consumer:
    """Acknowledges whatever a queue hands out."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.done: list[bytes] = []

    async def run(self) -> None:
        async with self.queue.consume() as items:
            async for item in items:
                if isinstance(self.queue, TaskBoard):
                    await item.finish(b"done")
                else:
                    await item.ack()
                self.done.append(item.data)

    async def has_done(self, *data: bytes) -> None:
        await eventually(lambda: self.done == list(data), f"{data} are done")


def queue_of(client: Client) -> tuple[Queue, Callable[[bytes], Any], str]:
    queue = Queue(client, PATH)
    return queue, queue.put, PATH


def priority_queue_of(client: Client) -> tuple[PriorityQueue, Callable[[bytes], Any], str]:
    queue = PriorityQueue(client, PATH)
    return queue, queue.put, PATH


def board_of(client: Client) -> tuple[TaskBoard, Callable[[bytes], Any], str]:
    board = TaskBoard(client, PATH)
    return board, board.submit, f"{PATH}/tasks"


RECIPES = pytest.mark.parametrize("recipe", [queue_of, priority_queue_of, board_of])


# --- queues and the task board -------------------------------------------------------------------


@RECIPES
async def test_consumer_skips_item_with_znodes_below_until_they_are_gone(
    server: ServerUnderTest, recipe: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_clients(server) as (client, other):
        queue, put, parent = recipe(client)
        first = f"{parent}/{await put(b'1')}"
        await put(b"2")
        await put_below(other, client, first)
        consumer = Consumer(queue)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run)
            await consumer.has_done(b"2")
            await put(b"3")
            await consumer.has_done(b"2", b"3")
            assert await names(client, parent) == [first.rpartition("/")[2]]
            assert warned_of(caplog, first) == 1
            await other.delete(f"{first}/below")
            await consumer.has_done(b"2", b"3", b"1")
            assert await names(client, parent) == []
            tasks.cancel_scope.cancel()


@RECIPES
async def test_later_consumers_skip_item_with_znodes_below(
    server: ServerUnderTest, recipe: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them has watches of its own, and none is left."""
    async with two_clients(server) as (client, other):
        queue, put, parent = recipe(client)
        first = f"{parent}/{await put(b'1')}"
        await put_below(other, client, first)
        for data in (b"2", b"3"):
            await put(data)
            consumer = Consumer(queue)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run)
                await consumer.has_done(data)
                tasks.cancel_scope.cancel()
        await other.delete(f"{first}/below")
        await catch_up(client)
        consumer = Consumer(queue)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run)
            await consumer.has_done(b"1")
            tasks.cancel_scope.cancel()
        assert warned_of(caplog, first) == 1


@RECIPES
async def test_item_that_gets_znodes_below_while_it_is_held_is_finished_once(
    server: ServerUnderTest, recipe: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_clients(server) as (client, other):
        queue, put, parent = recipe(client)
        name = await put(b"1")
        item = f"{parent}/{name}"
        take = queue.claim if isinstance(queue, TaskBoard) else queue.get
        async with take(timeout=PATIENCE) as held:
            await put_below(other, client, item)
            await (held.finish(b"r") if isinstance(queue, TaskBoard) else held.ack())
            assert held.is_released
            assert not held.is_held
        assert warned_of(caplog, item) == 1
        if isinstance(queue, TaskBoard):
            assert (await queue.result(name)).data == b"r"
        # Neither this client nor another one gets it again, also once it could be deleted.
        await other.delete(f"{item}/below")
        for each in (client, other):
            await catch_up(each)
            again, _, _ = recipe(each)
            take_again = again.try_claim if isinstance(again, TaskBoard) else again.try_get
            async with take_again() as nothing:
                assert nothing is None


@RECIPES
async def test_finishing_beside_znodes_below_survives_a_lost_answer(recipe: Any) -> None:
    async with EmbeddedServer() as server, two_clients(server) as (client, other):
        queue, put, parent = recipe(client)
        name = await put(b"1")
        if isinstance(queue, TaskBoard):
            await client.ensure_path(f"{PATH}/results")
        take = queue.claim if isinstance(queue, TaskBoard) else queue.get
        async with take(timeout=PATIENCE) as held:
            await put_below(other, client, f"{parent}/{name}")
            held._has_children = True  # so that the answer to the right transaction is lost
            server.drop_reply(OpCode.MULTI)
            await (held.finish(b"r") if isinstance(queue, TaskBoard) else held.ack())
        await catch_up(client)
        claims = f"{PATH}/claims" if isinstance(queue, TaskBoard) else f"{PATH}-claims"
        assert await names(client, claims) == [name]


async def test_idle_consumer_beside_set_aside_items_sends_nothing() -> None:
    async with EmbeddedServer() as server, two_clients(server) as (client, other):
        queue = Queue(client, PATH)
        items = await queue.put_many([b"1", b"2", b"3"])
        await put_below(other, client, *(f"{PATH}/{name}" for name in items))
        consumer = Consumer(queue)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run)
            await eventually(
                lambda: len(queue._available._set_aside) == 3 and not queue._available.is_stale,
                "all are set aside",
            )
            before = server.packets_in
            for _ in range(5):
                await other.exists("/")
            assert server.packets_in == before + 5
            tasks.cancel_scope.cancel()


# --- results -------------------------------------------------------------------------------------


async def test_results_with_znodes_below_are_kept_and_others_are_deleted(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_clients(server) as (client, other):
        board = TaskBoard(client, PATH, keep_results=2)

        async def work(count: int) -> list[str]:
            done = []
            for _ in range(count):
                done.append(await board.submit(b"x"))
                async with board.claim(timeout=PATIENCE) as task:
                    await task.finish(b"r")
            return done

        async def are_trimmed(kept: Sequence[str]) -> None:
            await eventually(lambda: not board._results._is_trimming, "the old results are deleted")
            await catch_up(client)
            there = await names(client, f"{PATH}/results")
            assert set(kept) < set(there)
            assert len(there) <= len(kept) + 3

        stuck = await work(2)
        await put_below(other, client, *(f"{PATH}/results/{name}" for name in stuck))
        await work(4)
        await are_trimmed(stuck)
        await work(3)
        await are_trimmed(stuck)
        for name in stuck:
            assert warned_of(caplog, f"{PATH}/results/{name}") == 1


async def test_old_results_are_deleted_once_the_server_is_no_longer_overloaded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EmbeddedServer() as server, connect(server, session_timeout=2.0) as client:
        board = TaskBoard(client, PATH, keep_results=2)
        for number in range(4):
            await board.submit(b"x")
            async with board.claim(timeout=PATIENCE) as task:
                if number == 3:
                    server.throttle(OpCode.EXISTS, 2)
                await task.finish(b"r")

        async def are_trimmed() -> bool:
            return len(await names(client, f"{PATH}/results")) <= 2

        await eventually(are_trimmed, "the old results are deleted")
        assert "failed" not in caplog.text


# --- configurations ------------------------------------------------------------------------------


async def test_publisher_keeps_old_versions_with_znodes_below_and_goes_on(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_clients(server) as (client, other):
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


async def test_deleting_a_key_with_znodes_below_raises_documented_error(
    server: ServerUnderTest,
) -> None:
    async with two_clients(server) as (client, other):
        config = Config(client, PATH)
        await config.publish({"a": b"1", "b": b"1"})
        await put_below(other, client, f"{PATH}/keys/a")
        with pytest.raises(NotEmptyError) as caught:
            await config.publish({"a": None, "b": b"2"})
        assert caught.value.path == f"{PATH}/keys/a"
        assert await config.publish({"a": b"2"}) == 2


# --- barriers ------------------------------------------------------------------------------------


async def test_double_barrier_round_ends_as_ready_gets_znodes_below(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_clients(server) as (client, other):
        barrier = DoubleBarrier(client, PATH, 1)
        with anyio.fail_after(PATIENCE):
            async with barrier.enter():
                await put_below(other, client, f"{PATH}/ready")
        assert warned_of(caplog, f"{PATH}/ready") == 1
        with pytest.raises(AcquireTimeout, match="since /here/ready has znodes below it"):
            async with barrier.enter(timeout=0.3):
                pytest.fail("the last round is not over")
        assert warned_of(caplog, f"{PATH}/ready") == 1


async def test_double_barrier_member_enters_once_ready_has_no_znodes_below(
    server: ServerUnderTest,
) -> None:
    async with two_clients(server) as (client, other):
        await other.ensure_path(f"{PATH}/ready/below")
        await catch_up(client)
        barrier = DoubleBarrier(client, PATH, 1)
        entered = anyio.Event()

        async def enter() -> None:
            async with barrier.enter():
                entered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter)

            async def waits() -> bool:
                return len(await names(other, PATH)) == 2

            await eventually(waits, "the member is there")
            assert not entered.is_set()
            await other.delete(f"{PATH}/ready/below")
            with anyio.fail_after(PATIENCE):
                await entered.wait()


async def test_body_error_leaves_double_barrier_as_ready_has_znodes_below(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_clients(server) as (client, other):
        with pytest.raises(ZeroDivisionError):
            async with DoubleBarrier(client, PATH, 1).enter():
                await put_below(other, client, f"{PATH}/ready")
                raise ZeroDivisionError
        await eventually(lambda: warned_of(caplog, f"{PATH}/ready") > 0, "it is reported")


async def test_removing_a_barrier_with_znodes_below_raises_documented_error(
    server: ServerUnderTest,
) -> None:
    async with two_clients(server) as (client, other):
        barrier = aiolead.Barrier(client, PATH)
        await barrier.set()
        await put_below(other, client, PATH)
        with pytest.raises(NotEmptyError):
            await barrier.remove()
        assert await barrier.is_set()
