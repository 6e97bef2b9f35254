"""The costs of queues and task boards."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import anyio
from kit.clients import eventually

from aiolead import Client, DelayQueue, PriorityQueue, Queue, TaskBoard
from costs._acts import Setup, call, enter, leave, prepared
from costs._counting import IDENTITY, PATH, Bench, rows


def queue(client: Client) -> Queue:
    return Queue(client, PATH, identity=IDENTITY)


def filled(count: int) -> Setup[Queue]:
    """A used queue with some items, and a client that has not looked at it."""

    async def setup(bench: Bench) -> Queue:
        one = queue(await bench.client())
        await one.put(b"hello")
        async with one.get() as item:
            await item.ack()
        for _ in range(count):
            await one.put(b"hello")
        return queue(await bench.client())

    return setup


async def get_next(bench: Bench) -> None:
    one = await filled(100)(bench)
    async with one.get() as item:
        await item.ack()
    await bench.start()
    async with one.get():
        await bench.stop()


async def get_beside_others(bench: Bench) -> None:
    """Another consumer has the first item, and acknowledges the next one in this client's list."""
    one = await filled(100)(bench)
    other = queue(await bench.client())
    async with other.get():
        async with one.get() as item:
            async with other.get() as taken:
                await taken.ack()
            await item.ack()
        await bench.start()
        async with one.get():
            await bench.stop()


async def ack(bench: Bench) -> None:
    one = await filled(1)(bench)
    async with one.get() as item, bench.measured():
        await item.ack()


async def rest(bench: Bench) -> None:
    """Until the claim is gone, after the pause."""
    one = await filled(1)(bench)
    async with one.get() as item:
        await bench.start()
        deletes = bench.server.requests["DELETE"]
        await item.retry(delay=0.001)
        # Nothing is sent during the pause, which is not the end of the operation.
        await eventually(lambda: bench.server.requests["DELETE"] > deletes, "the claim is deleted")
        await bench.quiet()
        await bench.stop()


async def limited(bench: Bench) -> Queue:
    """A used queue with an item that may be tried once, and dead letters."""
    client = await bench.client()
    one = Queue(client, PATH, identity=IDENTITY, max_attempts=1, dead_letters=f"{PATH}-dead")
    for _ in range(2):
        await one.put(b"hello")
    async with one.get():
        pass
    return one


async def deliver(bench: Bench, waiting: int) -> None:
    """From the put until the item is acknowledged, and no consumer sends anything."""
    one = await filled(0)(bench)
    consumers = [queue(await bench.client()) for _ in range(waiting)]

    async def consume(consumer: Queue) -> None:
        async with consumer.consume() as items:
            async for item in items:
                await item.ack()

    async with anyio.create_task_group() as tasks:
        for consumer in consumers:
            tasks.start_soon(consume, consumer)
        await bench.settle()
        await bench.start()
        await one.put(b"hello")
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def reach(bench: Bench) -> None:
    """From the put to the consumer's body."""
    one, consumer = await filled(0)(bench), queue(await bench.client())

    async def get() -> None:
        async with consumer.get():
            await bench.stop()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get)
        await bench.settle()
        await bench.start()
        await one.put(b"hello")
        await bench.over()
        tasks.cancel_scope.cancel()


async def priorities(bench: Bench) -> PriorityQueue:
    one = PriorityQueue(await bench.client(), PATH, identity=IDENTITY)
    for priority in range(100):
        await one.put(b"hello", priority=priority)
    async with one.get() as item:
        await item.ack()
    return one


async def delays(bench: Bench) -> DelayQueue:
    one = DelayQueue(await bench.client(), PATH, identity=IDENTITY)
    for second in range(3):
        await one.put(b"hello", at=1e9 + second)
    async with one.get() as item:
        await item.ack()
    return one


# --- task boards ---------------------------------------------------------------------------------


def board(client: Client) -> TaskBoard:
    return TaskBoard(client, PATH, identity=IDENTITY, report_every=0)


async def used_board(bench: Bench) -> TaskBoard:
    """A board with a result and three tasks."""
    one = board(await bench.client())
    for _ in range(4):
        await one.submit(b"hello")
    async with one.claim() as task:
        await task.finish(b"done")
    await bench.settle()
    return one


async def report(bench: Bench, looking: int) -> None:
    one = await used_board(bench)
    async with AsyncExitStack() as views, one.claim() as task:
        for _ in range(looking):
            await views.enter_async_context(board(await bench.client()).observe())
        await bench.start()
        await task.report(0.5, "half")
        await bench.quiet()
        await bench.stop()


async def finish(bench: Bench) -> None:
    one = await used_board(bench)
    async with one.claim() as task, bench.measured():
        await task.finish(b"done")


async def observe(bench: Bench) -> None:
    one = await used_board(bench)
    async with one.claim():
        other = board(await bench.client())
        await bench.start()
        async with other.observe():
            await bench.stop()


PUT = prepared(queue, lambda one: one.put(b"hello"))

ROWS = [
    *rows(
        "Queue",
        {
            "put an item": call(PUT, lambda one: one.put(b"hello")),
            "put 100 items at once": call(PUT, lambda one: one.put_many([b"hello"] * 100)),
            "get, 1 item there": enter(filled(1), Queue.get),
            "get, 100 items there": enter(filled(100), Queue.get),
            "get, the next one": get_next,
            "get, the next one, with 100 there and another consumer": get_beside_others,
            "acknowledge": ack,
            "release an item": leave(filled(1), Queue.get),
            "release an item for an attempt after a pause": rest,
            "give an item up: to the dead letters": leave(limited, Queue.get),
            "try, nothing there": enter(filled(0), Queue.try_get),
            "put, until a waiting consumer has the item": reach,
            "put to the end, one consumer waiting": partial(deliver, waiting=1),
            "put to the end, three of them": partial(deliver, waiting=3),
        },
    ),
    *rows("PriorityQueue", {"get, the next one of 100": enter(priorities, PriorityQueue.get)}),
    *rows("DelayQueue", {"get, the next one that is due": enter(delays, DelayQueue.get)}),
    *rows(
        "TaskBoard",
        {
            "submit a task": call(used_board, lambda one: one.submit(b"hello")),
            "claim a task": enter(used_board, TaskBoard.claim),
            "report, no observers": partial(report, looking=0),
            "report, two observers": partial(report, looking=2),
            "finish a task": finish,
            "get an existing result": call(used_board, lambda one: one.result("task-0000000000")),
            "start to observe 3 tasks and a result": observe,
        },
    ),
]
