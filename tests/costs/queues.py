"""What queues and task boards cost."""

from __future__ import annotations

from functools import partial

import anyio

from aiolead import Client, DelayQueue, PriorityQueue, Queue, TaskBoard
from costs._counting import IDENTITY, PATH, Bench, Operation


def queue(client: Client) -> Queue:
    return Queue(client, PATH, identity=IDENTITY)


async def filled(bench: Bench, count: int) -> Queue:
    """A queue that has been used, with so many items, and a client that has not looked at it."""
    one = queue(await bench.client())
    await one.put(b"hello")
    async with one.get() as item:
        await item.ack()
    for _ in range(count):
        await one.put(b"hello")
    return queue(await bench.client())


async def put(bench: Bench) -> None:
    one = queue(await bench.client())
    await one.put(b"hello")
    async with bench.measured():
        await one.put(b"hello")


async def put_many(bench: Bench) -> None:
    one = queue(await bench.client())
    await one.put(b"hello")
    async with bench.measured():
        await one.put_many([b"hello"] * 100)


async def get(bench: Bench, count: int) -> None:
    one = await filled(bench, count)
    await bench.start()
    async with one.get():
        await bench.stop()


async def get_next(bench: Bench) -> None:
    one = await filled(bench, 100)
    async with one.get() as item:
        await item.ack()
    await bench.start()
    async with one.get():
        await bench.stop()


async def get_beside_others(bench: Bench) -> None:
    """Another consumer has the first item, and takes the next one that is on our list."""
    one = await filled(bench, 100)
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
    one = await filled(bench, 1)
    async with one.get() as item:
        async with bench.measured():
            await item.ack()


async def give_back(bench: Bench) -> None:
    one = await filled(bench, 1)
    async with one.get():
        await bench.start()
    await bench.stop()


async def try_get(bench: Bench) -> None:
    one = await filled(bench, 0)
    await bench.start()
    async with one.try_get() as item:
        assert item is None
        await bench.stop()


async def _consume(one: Queue) -> None:
    async with one.consume() as items:
        async for item in items:
            await item.ack()


async def deliver(bench: Bench, waiting: int) -> None:
    """From the put until everybody who waits has heard of everything, the item is acknowledged."""
    one = await filled(bench, 0)
    consumers = [queue(await bench.client()) for _ in range(waiting)]
    async with anyio.create_task_group() as tasks:
        for consumer in consumers:
            tasks.start_soon(_consume, consumer)
        await bench.settle()
        await bench.start()
        await one.put(b"hello")
        await bench.quiet()
        await bench.stop()
        tasks.cancel_scope.cancel()


async def reach(bench: Bench) -> None:
    """From the put to the body."""
    one, consumer = await filled(bench, 0), queue(await bench.client())

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


async def get_the_best(bench: Bench) -> None:
    one = PriorityQueue(await bench.client(), PATH, identity=IDENTITY)
    for priority in range(100):
        await one.put(b"hello", priority=priority)
    async with one.get() as item:
        await item.ack()
    await bench.start()
    async with one.get():
        await bench.stop()


async def get_what_is_due(bench: Bench) -> None:
    one = DelayQueue(await bench.client(), PATH, identity=IDENTITY)
    for second in range(3):
        await one.put(b"hello", at=1e9 + second)
    async with one.get() as item:
        await item.ack()
    await bench.start()
    async with one.get():
        await bench.stop()


# --- the board ---------------------------------------------------------------------------------


def board(client: Client) -> TaskBoard:
    return TaskBoard(client, PATH, identity=IDENTITY, report_every=0)


async def used(bench: Bench) -> TaskBoard:
    """A board with a result and three tasks."""
    one = board(await bench.client())
    for _ in range(4):
        await one.submit(b"hello")
    async with one.claim() as task:
        await task.finish(b"done")
    await bench.settle()
    return one


async def announce(bench: Bench) -> None:
    one = await used(bench)
    async with bench.measured():
        await one.submit(b"hello")


async def work(bench: Bench) -> None:
    one = await used(bench)
    await bench.start()
    async with one.claim():
        await bench.stop()


async def report(bench: Bench, looking: int) -> None:
    one = await used(bench)
    async with one.claim() as task:
        views = [board(await bench.client()).observe() for _ in range(looking)]
        for view in views:
            await view.__aenter__()
        await bench.start()
        await task.report(0.5, "half")
        await bench.quiet()
        await bench.stop()
        for view in views:
            await view.__aexit__(None, None, None)


async def finish(bench: Bench) -> None:
    one = await used(bench)
    async with one.claim() as task:
        async with bench.measured():
            await task.finish(b"done")


async def look_on(bench: Bench) -> None:
    one = await used(bench)
    async with one.claim():
        other = board(await bench.client())
        await bench.start()
        async with other.observe():
            await bench.stop()


async def result(bench: Bench) -> None:
    one = await used(bench)
    async with bench.measured():
        await one.result("task-0000000000")


ROWS = [
    Operation("Queue", "put an item", put),
    Operation("Queue", "put 100 items at once", put_many),
    Operation("Queue", "get, 1 item there", partial(get, count=1)),
    Operation("Queue", "get, 100 items there", partial(get, count=100)),
    Operation("Queue", "get, the next one", get_next),
    Operation("Queue", "get, the next one, with 100 there and another consumer", get_beside_others),
    Operation("Queue", "acknowledge", ack),
    Operation("Queue", "release an item", give_back),
    Operation("Queue", "try, nothing there", try_get),
    Operation("Queue", "put, until a waiting consumer has the item", reach),
    Operation("Queue", "put to the end, one consumer waiting", partial(deliver, waiting=1)),
    Operation("Queue", "put to the end, three of them", partial(deliver, waiting=3)),
    Operation("PriorityQueue", "get, the next one of 100", get_the_best),
    Operation("DelayQueue", "get, the next one that is due", get_what_is_due),
    Operation("TaskBoard", "submit a task", announce),
    Operation("TaskBoard", "claim a task", work),
    Operation("TaskBoard", "report, no observers", partial(report, looking=0)),
    Operation("TaskBoard", "report, two observers", partial(report, looking=2)),
    Operation("TaskBoard", "finish a task", finish),
    Operation("TaskBoard", "get an existing result", result),
    Operation("TaskBoard", "start to observe 3 tasks and a result", look_on),
]
