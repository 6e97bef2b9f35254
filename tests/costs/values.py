"""The costs of values: shared ones, counters, numbers, names, configurations and trees."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable
from typing import Any

from aiolead import (
    Client,
    Config,
    Counter,
    RateLimit,
    SequenceAllocator,
    SharedValue,
    TreeCache,
    UniqueNames,
)
from costs._acts import call, enter, leave, new, prepared, used
from costs._counting import IDENTITY, PATH, Bench, rows

KEYS = {"colour": b"red", "limit": b"10", "name": b"one"}


def value(client: Client) -> SharedValue[bytes]:
    return SharedValue(client, PATH)


def counter(client: Client) -> Counter:
    return Counter(client, PATH)


def numbers(client: Client, block: int = 1) -> SequenceAllocator:
    return SequenceAllocator(client, PATH, block=block)


def limit(client: Client) -> RateLimit:
    # Slow, so that it takes one token at a time, and writes as many bytes each time.
    return RateLimit(client, PATH, rate=1e-6, per=1e9, burst=1000)


def config(client: Client) -> Config[dict[str, bytes]]:
    return Config(client, PATH, identity=IDENTITY)


def names(client: Client) -> UniqueNames:
    return UniqueNames(client, PATH, identity=IDENTITY)


def worker(one: UniqueNames) -> Any:
    return one.claim("worker")


SET = prepared(value, lambda one: one.set(b"one"))
PUBLISHED = prepared(config, lambda one: one.publish(dict(KEYS)))


async def compare_and_set(bench: Bench) -> None:
    one = value(await bench.client())
    now = await one.set(b"one")
    async with bench.measured():
        await one.compare_and_set(now, b"two")


async def roll_back(bench: Bench) -> None:
    one = await PUBLISHED(bench)
    await one.publish({"limit": b"20"})
    async with bench.measured():
        await one.rollback(1)


async def at_hand(bench: Bench) -> None:
    one = numbers(await bench.client(), block=100)
    await one.next()
    async with bench.measured():
        for _ in range(99):
            await one.next()


async def in_turns(bench: Bench) -> None:
    one, other = limit(await bench.client()), limit(await bench.client())
    for each in (one, other, one, other):
        await each.acquire()
    async with bench.measured():
        await one.acquire()


async def set_seen(bench: Bench) -> None:
    one = await SET(bench)
    async with value(await bench.client()).observe() as view:
        await seen(bench, view, one.set(b"two"))


async def publish_seen(bench: Bench) -> None:
    one = await PUBLISHED(bench)
    async with config(await bench.client()).observe() as view:
        await seen(bench, view, one.publish({"limit": b"20"}))


async def seen(bench: Bench, view: AsyncIterable[object], change: Awaitable[object]) -> None:
    """From a change until an observer of another client has it."""
    values = aiter(view)
    await anext(values)
    await bench.start()
    await change
    await anext(values)
    await bench.stop()


async def copy_tree(bench: Bench) -> None:
    client = await bench.client()
    for each in range(9):
        await client.ensure_path(f"{PATH}/{each}")
    async with TreeCache(client, PATH):
        pass  # asks for the version of the server once, over another connection
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
    *rows(
        "SharedValue",
        {
            "get": call(SET, SharedValue.get),
            "set": call(SET, lambda one: one.set(b"two")),
            "compare and set": compare_and_set,
            "start to observe": enter(SET, SharedValue.observe),
            "set, seen by an observer": set_seen,
        },
    ),
    *rows(
        "Counter",
        {
            "add, the first time": call(new(counter), lambda one: one.add(1)),
            "add": call(prepared(counter, lambda one: one.add(1)), lambda one: one.add(1)),
        },
    ),
    *rows(
        "SequenceAllocator",
        {
            "the next number, blocks of 1": call(
                prepared(numbers, SequenceAllocator.next), SequenceAllocator.next
            ),
            "99 numbers at hand": at_hand,
            "stamp": call(prepared(numbers, SequenceAllocator.stamp), SequenceAllocator.stamp),
        },
    ),
    *rows(
        "RateLimit",
        {
            "acquire, the first time": call(new(limit), RateLimit.acquire),
            "acquire, none at hand": call(prepared(limit, RateLimit.acquire), RateLimit.acquire),
            "acquire, in turns with another process": in_turns,
        },
    ),
    *rows(
        "UniqueNames",
        {
            "claim a name": enter(used(names, worker), worker),
            "release a name": leave(new(names), worker),
        },
    ),
    *rows(
        "Config",
        {
            "publish one of 3 keys": call(PUBLISHED, lambda one: one.publish({"limit": b"20"})),
            "roll back one of 3 keys": roll_back,
            "start to observe 3 keys": enter(PUBLISHED, Config.observe),
            "publish one of 3 keys, seen by an observer": publish_seen,
        },
    ),
    *rows(
        "TreeCache", {"copy 10 znodes": copy_tree, "one of them is set, and reported": tree_changes}
    ),
]
