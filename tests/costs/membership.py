"""What it costs to be there, to know who is, and to share work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio

from aiolead import Group, Held, Partitioner, PersistentNode, ServiceInstance, ServiceRegistry
from aiolead.types import MembersView
from costs._counting import IDENTITY, PATH, Bench, Operation


async def until(check: Callable[[], bool]) -> None:
    """Waits until something is so, in as little time as that takes."""
    while not check():
        await anyio.lowlevel.checkpoint()


# --- a persistent node -------------------------------------------------------------------------


async def enter(bench: Bench) -> None:
    client = await bench.client()
    await bench.start()
    async with PersistentNode(client, PATH, b"data"):
        await bench.stop()


async def set_data(bench: Bench) -> None:
    async with PersistentNode(await bench.client(), PATH, b"data") as node:
        async with bench.measured():
            await node.set(b"more")


async def heal(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with PersistentNode(client, PATH, b"data") as node:
        async with bench.measured():
            await other.delete(PATH)
            await until(lambda: not node.is_present)
            await until(lambda: node.is_present)


async def leave(bench: Bench) -> None:
    async with PersistentNode(await bench.client(), PATH, b"data"):
        await bench.start()
    await bench.stop()


# --- a group -----------------------------------------------------------------------------------


async def look(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with Group(client, PATH).join(identity="a"), Group(client, PATH).join(identity="b"):
        await bench.start()
        async with Group(other, PATH).observe():
            await bench.stop()


async def _seen(bench: Bench, view: MembersView, count: int) -> None:
    await until(lambda: len(view.value) == count)
    await bench.stop()


async def member_joins(bench: Bench) -> None:
    client, other = await bench.client(), await bench.client()
    async with Group(other, PATH).join(identity="b"), Group(other, PATH).observe() as view:
        await bench.start()
        async with Group(client, PATH).join(identity="a"):
            await _seen(bench, view, 2)


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
        await _seen(bench, view, 0)


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
    """Two items, and a member that takes one of them over."""
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
    Operation("PersistentNode", "enter", enter),
    Operation("PersistentNode", "set", set_data),
    Operation("PersistentNode", "deleted by another client, and created again", heal),
    Operation("PersistentNode", "leave", leave),
    Operation("Group", "start to observe two members", look),
    Operation("Group", "another member joins, until an observer sees it", member_joins),
    Operation("Group", "a member updates its data, the same", member_updates),
    Operation("Group", "a member leaves, the same", member_leaves),
    Operation("ServiceRegistry", "register", register),
    Operation("ServiceRegistry", "drain, until an observer sees it", drain),
    Operation("Partitioner", "a second member joins, and takes over one of two items", move_one),
]
