"""What values cost: shared ones, counters, numbers, configurations, trees."""

from __future__ import annotations

from aiolead import Client, Config, Counter, SequenceAllocator, SharedValue, TreeCache, UniqueNames
from costs._counting import IDENTITY, PATH, Bench, Operation

KEYS = {"colour": b"red", "limit": b"10", "name": b"one"}


async def get(bench: Bench) -> None:
    value = SharedValue(await bench.client(), PATH)
    await value.set(b"one")
    async with bench.measured():
        await value.get()


async def set_value(bench: Bench) -> None:
    value = SharedValue(await bench.client(), PATH)
    await value.set(b"one")
    async with bench.measured():
        await value.set(b"two")


async def compare_and_set(bench: Bench) -> None:
    value = SharedValue(await bench.client(), PATH)
    now = await value.set(b"one")
    async with bench.measured():
        await value.compare_and_set(now, b"two")


async def follow(bench: Bench) -> None:
    value = SharedValue(await bench.client(), PATH)
    await value.set(b"one")
    await bench.start()
    async with value.observe():
        await bench.stop()


async def change(bench: Bench) -> None:
    """From the write of one client to the value that another one follows."""
    value = SharedValue(await bench.client(), PATH)
    await value.set(b"one")
    async with SharedValue(await bench.client(), PATH).observe() as view:
        values = aiter(view)
        await anext(values)
        await bench.start()
        await value.set(b"two")
        await anext(values)
        await bench.stop()


async def add(bench: Bench) -> None:
    counter = Counter(await bench.client(), PATH)
    await counter.add(1)
    async with bench.measured():
        await counter.add(1)


async def add_first(bench: Bench) -> None:
    counter = Counter(await bench.client(), PATH)
    async with bench.measured():
        await counter.add(1)


async def number(bench: Bench) -> None:
    numbers = SequenceAllocator(await bench.client(), PATH)
    await numbers.next()
    async with bench.measured():
        await numbers.next()


async def numbers_at_hand(bench: Bench) -> None:
    numbers = SequenceAllocator(await bench.client(), PATH, block=100)
    await numbers.next()
    async with bench.measured():
        for _ in range(99):
            await numbers.next()


async def stamp(bench: Bench) -> None:
    numbers = SequenceAllocator(await bench.client(), PATH)
    await numbers.stamp()
    async with bench.measured():
        await numbers.stamp()


async def claim(bench: Bench) -> None:
    names = UniqueNames(await bench.client(), PATH, identity=IDENTITY)
    async with names.claim("worker"):
        pass
    await bench.start()
    async with names.claim("worker"):
        await bench.stop()


async def give_up(bench: Bench) -> None:
    async with UniqueNames(await bench.client(), PATH, identity=IDENTITY).claim("worker"):
        await bench.start()
    await bench.stop()


def config(client: Client) -> Config[dict[str, bytes]]:
    return Config(client, PATH, identity=IDENTITY)


async def publish(bench: Bench) -> None:
    settings = config(await bench.client())
    await settings.publish(dict(KEYS))
    async with bench.measured():
        await settings.publish({"limit": b"20"})


async def rollback(bench: Bench) -> None:
    settings = config(await bench.client())
    await settings.publish(dict(KEYS))
    await settings.publish({"limit": b"20"})
    async with bench.measured():
        await settings.rollback(1)


async def observe_config(bench: Bench) -> None:
    settings = config(await bench.client())
    await settings.publish(dict(KEYS))
    await bench.start()
    async with settings.observe():
        await bench.stop()


async def config_changes(bench: Bench) -> None:
    """From the publishing by one client to the value that another one follows."""
    settings = config(await bench.client())
    await settings.publish(dict(KEYS))
    async with config(await bench.client()).observe() as view:
        values = aiter(view)
        await anext(values)
        await bench.start()
        await settings.publish({"limit": b"20"})
        await anext(values)
        await bench.stop()


async def copy_tree(bench: Bench) -> None:
    client = await bench.client()
    for each in range(9):
        await client.ensure_path(f"{PATH}/{each}")
    async with TreeCache(client, PATH):
        pass  # asks the server once, over another connection, which version it is
    await bench.start()
    async with TreeCache(client, PATH):
        await bench.stop()


async def tree_changes(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    await client.ensure_path(f"{PATH}/a")
    async with TreeCache(client, PATH) as cache:
        events = cache.events()
        await bench.start()
        await other.set(f"{PATH}/a", b"new")
        await anext(events)
        await bench.stop()


ROWS = [
    Operation("SharedValue", "get", get),
    Operation("SharedValue", "set", set_value),
    Operation("SharedValue", "compare and set", compare_and_set),
    Operation("SharedValue", "start to observe", follow),
    Operation("SharedValue", "set, seen by an observer", change),
    Operation("Counter", "add, the first time", add_first),
    Operation("Counter", "add", add),
    Operation("SequenceAllocator", "the next number, blocks of 1", number),
    Operation("SequenceAllocator", "99 numbers at hand", numbers_at_hand),
    Operation("SequenceAllocator", "stamp", stamp),
    Operation("UniqueNames", "claim a name", claim),
    Operation("UniqueNames", "release a name", give_up),
    Operation("Config", "publish one of 3 keys", publish),
    Operation("Config", "roll back one of 3 keys", rollback),
    Operation("Config", "start to observe 3 keys", observe_config),
    Operation("Config", "publish one of 3 keys, seen by an observer", config_changes),
    Operation("TreeCache", "copy 10 znodes", copy_tree),
    Operation("TreeCache", "one of them is set, and reported", tree_changes),
]
