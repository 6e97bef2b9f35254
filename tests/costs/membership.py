"""The costs of persistent nodes, groups, services and partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio

from aiolead import (
    Client,
    Group,
    Held,
    Partitioner,
    PersistentNode,
    ServiceInstance,
    ServiceRegistry,
)
from costs._acts import enter, leave, new
from costs._counting import IDENTITY, PATH, Bench, rows


async def until(check: Callable[[], bool]) -> None:
    """Waits for a condition, without a pause."""
    while not check():
        await anyio.lowlevel.checkpoint()


# --- a persistent node -------------------------------------------------------------------------


def node(client: Client) -> PersistentNode:
    return PersistentNode(client, PATH, b"data")


def entered(one: PersistentNode) -> PersistentNode:
    return one


async def set_data(bench: Bench) -> None:
    async with node(await bench.client()) as one, bench.measured():
        await one.set(b"more")


async def heal(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with node(client) as one, bench.measured():
        await other.delete(PATH)
        await until(lambda: not one.is_present)
        await until(lambda: one.is_present)


# --- a group -----------------------------------------------------------------------------------


async def look(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with Group(client, PATH).join(identity="a"), Group(client, PATH).join(identity="b"):
        await bench.start()
        async with Group(other, PATH).observe():
            await bench.stop()


async def member_joins(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with Group(other, PATH).join(identity="b"), Group(other, PATH).observe() as view:
        await bench.start()
        async with Group(client, PATH).join(identity="a"):
            await until(lambda: len(view.value) == 2)
            await bench.stop()


async def member_updates(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with Group(other, PATH).observe() as view:
        async with Group(client, PATH).join(identity="a") as membership:
            await until(lambda: bool(view.value))
            async with bench.measured():
                await membership.set(b"news")
                await until(lambda: view.value["a"].data == b"news")


async def member_leaves(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with Group(other, PATH).observe() as view:
        async with Group(client, PATH).join(identity="a"):
            await until(lambda: bool(view.value))
            await bench.start()
        await until(lambda: not view.value)
        await bench.stop()


# --- services ----------------------------------------------------------------------------------

WEB = ServiceInstance(name="web", id=IDENTITY, address="10.0.0.7", port=80, registered_at=1e9)


async def register(bench: Bench) -> None:
    client = await bench.client()
    registry = ServiceRegistry(client, PATH)
    async with registry.register(replace(WEB, id="other")):
        await bench.start()
        async with registry.register(WEB):
            await bench.stop()


async def drain(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with (
        ServiceRegistry(other, PATH).observe("web") as view,
        ServiceRegistry(client, PATH).register(WEB) as registration,
    ):
        await until(lambda: bool(view.value))
        async with bench.measured():
            await registration.drain()
            await until(lambda: not view.value[IDENTITY].enabled)


# --- work --------------------------------------------------------------------------------------


async def _work(_item: str, _held: Held) -> None:
    await anyio.sleep_forever()


async def move_one(bench: Bench) -> None:
    """A new member takes over one of two items."""
    first, second = [
        Partitioner(await bench.client(), PATH, ["a", "b"], identity=name) for name in "xy"
    ]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.run, _work)
        await until(lambda: len(first.owned) == 2)
        await bench.settle()
        await bench.start()
        tasks.start_soon(second.run, _work)
        await until(lambda: len(second.owned) == 1)
        await bench.stop()
        tasks.cancel_scope.cancel()


ROWS = [
    *rows(
        "PersistentNode",
        {
            "enter": enter(new(node), entered),
            "set": set_data,
            "deleted by another client, and created again": heal,
            "leave": leave(new(node), entered),
        },
    ),
    *rows(
        "Group",
        {
            "start to observe two members": look,
            "another member joins, until an observer sees it": member_joins,
            "a member updates its data, the same": member_updates,
            "a member leaves, the same": member_leaves,
        },
    ),
    *rows("ServiceRegistry", {"register": register, "drain, until an observer sees it": drain}),
    *rows("Partitioner", {"a second member joins, and takes over one of two items": move_one}),
]
