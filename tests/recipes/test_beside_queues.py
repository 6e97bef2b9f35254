"""A queue and the contenders of another recipe on one path refuse each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, catch_up, eventually, names
from recipes.blocks import enter

from aiolead import (
    Client,
    CreateMode,
    DelayQueue,
    Election,
    Lock,
    PriorityQueue,
    Queue,
    ReadWriteLock,
    Semaphore,
)
from aiolead.errors import AcquireTimeout, MixedLayoutError
from aiolead.model import ACL, Permission
from aiolead.types import Layout

pytestmark = pytest.mark.timeout(60)

PATH = "/shared"

CONTENDERS: dict[str, Callable[[Client], Callable[..., Any]]] = {
    "lock": lambda client: Lock(client, PATH).acquire,
    "kazoo's lock": lambda client: Lock(client, PATH, layout=Layout.KAZOO).acquire,
    "election": lambda client: Election(client, PATH).leadership,
    "reader": lambda client: ReadWriteLock(client, PATH).read.acquire,
    "semaphore": lambda client: Semaphore(client, PATH, 2).acquire,
    "kazoo's semaphore": lambda client: Semaphore(client, PATH, 2, layout=Layout.KAZOO).acquire,
}

contenders = pytest.mark.parametrize("contend", CONTENDERS.values(), ids=CONTENDERS)

PUTS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "queue": lambda client: Queue(client, PATH).put(b"x"),
    "priority queue": lambda client: PriorityQueue(client, PATH).put(b"x", priority=-3),
    "delay queue": lambda client: DelayQueue(client, PATH).put(b"x", delay=60),
}

GETS: dict[str, Callable[[Client], Any]] = {
    "queue": lambda client: Queue(client, PATH).get(timeout=PATIENCE),
    "priority queue": lambda client: PriorityQueue(client, PATH).get(timeout=PATIENCE),
    "delay queue": lambda client: DelayQueue(client, PATH).get(timeout=PATIENCE),
    "queue, without waiting": lambda client: Queue(client, PATH).try_get(),
}


@contenders
@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS)
async def test_contender_is_refused_beside_items(
    a: Client, b: Client, put: Callable[[Client], Awaitable[object]], contend: Callable[..., Any]
) -> None:
    await put(a)
    (item,) = await names(a, PATH)
    await catch_up(b)
    for _ in range(2):
        with pytest.raises(MixedLayoutError, match="an item of a queue") as caught:
            await enter(contend(b)(timeout=PATIENCE))
        assert caught.value.neighbour == f"{PATH}/{item}"
        assert caught.value.session_id == 0
    await catch_up(a)
    assert item in await names(a, PATH)
    assert not [name for name in await names(a, PATH) if name not in (item, "leases", "locks")]


@pytest.mark.parametrize("prefix", ["queue-", "qn-", "entry-100-"])
async def test_only_a_persistent_znode_is_an_item(a: Client, b: Client, prefix: str) -> None:
    """Another program's contender may have the name of an item: then it is waited for."""
    await a.ensure_path(PATH)
    mode = CreateMode.EPHEMERAL_SEQUENTIAL
    created = await a.create(f"{PATH}/{prefix}", b"", mode=mode)
    await catch_up(b)
    with pytest.raises(AcquireTimeout):
        await enter(Lock(b, PATH).acquire(timeout=0))
    await a.delete(created.path)
    await a.create(f"{PATH}/{prefix}", b"", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    await catch_up(b)
    with pytest.raises(MixedLayoutError, match="an item of a queue"):
        await enter(Lock(b, PATH).acquire(timeout=0))


@contenders
@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS)
async def test_put_is_refused_on_the_path_of_a_contender(
    a: Client, b: Client, put: Callable[[Client], Awaitable[object]], contend: Callable[..., Any]
) -> None:
    async with contend(a)(timeout=PATIENCE) as held:
        await catch_up(b)
        before = await names(b, PATH)
        for _ in range(2):
            with pytest.raises(MixedLayoutError, match="path of its own") as caught:
                await put(b)
            assert caught.value.neighbour == held.path
        assert set(await names(b, PATH)) <= set(before)  # servers delete empty containers


@contenders
@pytest.mark.parametrize("get", GETS.values(), ids=GETS)
async def test_consumer_is_refused_on_the_path_of_a_contender(
    a: Client, b: Client, get: Callable[[Client], Any], contend: Callable[..., Any]
) -> None:
    async with contend(a)(timeout=PATIENCE) as held:
        await catch_up(b)
        with anyio.fail_after(PATIENCE):
            for _ in range(2):
                with pytest.raises(MixedLayoutError, match="path of its own") as caught:
                    await enter(get(b))
                assert caught.value.neighbour == held.path


async def test_waiting_consumer_is_refused_once_a_contender_comes(a: Client, b: Client) -> None:
    async with anyio.create_task_group() as tasks:

        async def consume() -> None:
            with pytest.raises(MixedLayoutError, match="path of its own"):
                await enter(Queue(a, PATH).get(timeout=PATIENCE))
            tasks.cancel_scope.cancel()

        tasks.start_soon(consume)

        async def waits() -> bool:
            await catch_up(b)
            return await b.exists(PATH) is not None

        await eventually(waits, "the consumer has made the path")
        async with Election(b, PATH).leadership(timeout=PATIENCE):
            await anyio.sleep_forever()


async def test_foreign_children_refuse_no_queue(a: Client, b: Client) -> None:
    """Names that no library gives to contenders, and contenders that no session owns."""
    await a.ensure_path(PATH)
    await a.create(f"{PATH}/note", b"", mode=CreateMode.EPHEMERAL)
    await a.create(f"{PATH}/old-lock-0000000001", b"")
    await catch_up(b)
    await Queue(b, PATH).put(b"x")
    async with Queue(b, PATH).get(timeout=PATIENCE) as item:
        assert item.data == b"x"


async def test_put_where_the_children_may_not_be_listed_goes_on(a: Client, b: Client) -> None:
    acl = [ACL.world(Permission.CREATE)]
    await a.create(PATH, b"", acl=acl)
    for client in (a, b):
        await Queue(client, PATH).put(b"x")
