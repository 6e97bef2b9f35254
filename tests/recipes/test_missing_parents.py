"""Writes whose parents are missing: a fault while the parents are created changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE
from kit.every_recipe import DONE, HELD, KEPT, Done, Held
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import Barrier, Client, Condition, Counter, PriorityQueue, SharedValue, TaskBoard
from aiolead._wire.codes import OpCode
from aiolead.errors import ConnectionLossError, Outcome
from aiolead.model import CreateMode
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

ROOT = "/some/where"

Work = Callable[[Client], Awaitable[object]]
Fault = Callable[[EmbeddedServer, Client], object]


def done_once(what: Done) -> Work:
    async def work(client: Client) -> None:
        await what.do(client, f"{ROOT}/thing")
        assert await what.count(client, f"{ROOT}/thing") == 1

    return work


def entered(scene: Held) -> Work:
    async def work(client: Client) -> None:
        if scene.prepare is not None:
            await scene.prepare(client, f"{ROOT}/thing")
        async with scene.enter(client, f"{ROOT}/thing") as mine:
            await mine.verify()

    return work


async def finish(client: Client) -> None:
    board = TaskBoard(client, ROOT)
    name = await board.submit(b"work")
    async with board.claim() as task:
        await task.finish(b"done")
    assert (await board.result(name)).data == b"done"


async def fail(client: Client) -> None:
    board = TaskBoard(client, ROOT)
    name = await board.submit(b"work")
    async with board.claim() as task:
        await task.fail("no")
    assert (await board.result(name)).is_failed


async def consume(client: Client) -> None:
    board = TaskBoard(client, ROOT)
    names = [await board.submit(b"work") for _ in range(2)]
    async with board.consume() as tasks:
        async for task in tasks:
            await task.finish()
            if task.name == names[-1]:
                break


async def put_many(client: Client) -> None:
    queue = PriorityQueue(client, ROOT)
    await queue.put_many([b"a", b"b"])
    assert await queue.size() == 2


async def add_promoted(client: Client) -> None:
    assert await Counter(client, f"{ROOT}/counter", promote_after=0).add(3) == 3


async def set_value(client: Client) -> None:
    value = SharedValue(client, f"{ROOT}/value")
    await value.set(b"1")
    assert (await value.get()).value == b"1"


async def compare_and_set(client: Client) -> None:
    value = SharedValue(client, f"{ROOT}/value")
    assert await value.compare_and_set(await value.get(), b"1") is not None


async def set_barrier(client: Client) -> None:
    barrier = Barrier(client, f"{ROOT}/barrier")
    await barrier.set()
    assert await barrier.is_set()


async def notify(client: Client) -> None:
    condition = Condition(client, ROOT)
    is_waiting = anyio.Event()

    async def wait() -> None:
        async with condition as held:
            is_waiting.set()
            assert await held.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await is_waiting.wait()
        async with condition as held:
            assert await held.notify() == 1


PERSISTENT: dict[str, Work] = {
    **{name: done_once(what) for name, what in DONE.items()},
    **{work.__name__: work for work in (put_many, set_value, compare_and_set, set_barrier)},
}
"""Work that may go on over the end of a session: all of its znodes are persistent."""

WITH_PARENTS = (
    "ExclusiveLock",
    "Queue",
    "PriorityQueue",
    "DelayQueue",
    "TaskBoard",
    "UniqueNames",
    "Once",
    *KEPT,
)
"""Recipes that create the parents of what they hold in a request of its own."""

WORK: dict[str, Work] = {
    **PERSISTENT,
    **{f"{name} entered": entered((HELD | KEPT)[name]) for name in WITH_PARENTS},
    **{work.__name__: work for work in (finish, fail, consume, add_promoted, notify)},
}

OPS = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER)


def lost_reply(server: EmbeddedServer, _client: Client) -> None:
    for op in OPS:
        server.drop_reply(op)


def lost_request(server: EmbeddedServer, _client: Client) -> None:
    for op in OPS:
        server.drop_request(op)


def throttled(server: EmbeddedServer, _client: Client) -> None:
    for op in OPS:
        server.throttle(op)


@contextmanager
def each_creation_of_parents(server: EmbeddedServer, fault: Fault) -> Iterator[list[str]]:
    """Let the first creation of each path meet a fault; yield the paths, as they come."""
    create_parents = Client.ensure_path
    struck: list[str] = []

    async def ensure_path(client: Client, path: str, **options: Any) -> None:
        if path in struck:
            await create_parents(client, path, **options)
            return
        struck.append(path)
        fault(server, client)
        try:
            await create_parents(client, path, **options)
        finally:
            core = server._running.core
            for faults in (core.dropped_replies, core.dropped_requests, core.throttled):
                faults.clear()  # those of the other kinds of create

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "ensure_path", ensure_path)
        yield struck
    assert struck


def expired(server: EmbeddedServer, client: Client) -> None:
    server.expire_session(client.session_id)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, fault) for name in WORK for fault in (lost_reply, lost_request, throttled)),
        *((name, expired) for name in PERSISTENT),
    ],
)
@virtually
async def test_fault_while_parents_are_created_is_not_raised(name: str, fault: Fault) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        with each_creation_of_parents(server, fault), anyio.fail_after(PATIENCE):
            await WORK[name](client)


@virtually
async def test_own_loss_of_the_write_keeps_its_outcome() -> None:
    """The create of the znode itself is lost, after its parents were created."""
    async with embedded() as server, connect_virtually(server) as client:
        await client.ensure_path(ROOT)
        server.drop_reply(OpCode.CREATE2)
        with pytest.raises(ConnectionLossError) as caught:
            await Barrier(client, f"{ROOT}/barrier").set()
        assert caught.value.outcome is Outcome.UNKNOWN
        assert await client.exists(f"{ROOT}/barrier") is not None


@virtually
async def test_write_below_an_ephemeral_znode_is_still_refused() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        await client.create("/ephemeral", b"", mode=CreateMode.EPHEMERAL)
        with pytest.raises(aiolead.errors.NoChildrenForEphemeralsError):
            await SharedValue(client, "/ephemeral/a/b").set(b"1")
