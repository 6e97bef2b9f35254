"""Writes whose parents are missing: a fault while the parents are created changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import (
    Barrier,
    Client,
    Condition,
    Config,
    Counter,
    ExclusiveLock,
    Group,
    PriorityQueue,
    Queue,
    SequenceAllocator,
    SharedValue,
    TaskBoard,
    UniqueNames,
)
from aiolead._wire.codes import OpCode
from aiolead.errors import ConnectionLossError, Outcome
from aiolead.model import CreateMode
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

ROOT = "/some/where"

Work = Callable[[Client], Awaitable[object]]
Fault = Callable[[EmbeddedServer, Client], object]


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


async def put(client: Client) -> None:
    queue = Queue(client, ROOT)
    await queue.put(b"item")
    assert await queue.size() == 1


async def put_many(client: Client) -> None:
    queue = PriorityQueue(client, ROOT)
    await queue.put_many([b"a", b"b"])
    assert await queue.size() == 2


async def publish(client: Client) -> None:
    config = Config(client, ROOT)
    assert await config.publish({"n": b"1"}) == 1
    assert (await config.get()).value == {"n": b"1"}


async def add(client: Client) -> None:
    assert await Counter(client, f"{ROOT}/counter").add(3) == 3


async def add_promoted(client: Client) -> None:
    assert await Counter(client, f"{ROOT}/counter", promote_after=0).add(3) == 3


async def set_value(client: Client) -> None:
    value = SharedValue(client, f"{ROOT}/value")
    await value.set(b"1")
    assert (await value.get()).value == b"1"


async def compare_and_set(client: Client) -> None:
    value = SharedValue(client, f"{ROOT}/value")
    assert await value.compare_and_set(await value.get(), b"1") is not None


async def count_next(client: Client) -> None:
    assert await SequenceAllocator(client, f"{ROOT}/numbers").next() >= 1


async def set_barrier(client: Client) -> None:
    barrier = Barrier(client, f"{ROOT}/barrier")
    await barrier.set()
    assert await barrier.is_set()


async def lock(client: Client) -> None:
    async with ExclusiveLock(client, f"{ROOT}/lock") as held:
        held.check()


async def name(client: Client) -> None:
    async with UniqueNames(client, ROOT).claim("worker") as held:
        held.check()


async def join(client: Client) -> None:
    async with Group(client, f"{ROOT}/group").join(b"", identity="me") as membership:
        assert membership.is_present


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


WORK = (
    finish,
    fail,
    consume,
    put,
    put_many,
    publish,
    add,
    add_promoted,
    set_value,
    compare_and_set,
    count_next,
    set_barrier,
    lock,
    name,
    join,
    notify,
)

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


@pytest.mark.parametrize("fault", [lost_reply, lost_request, throttled])
@pytest.mark.parametrize("work", WORK)
@virtually
async def test_fault_while_parents_are_created_is_not_raised(work: Work, fault: Fault) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        with each_creation_of_parents(server, fault), anyio.fail_after(PATIENCE):
            await work(client)


def expired(server: EmbeddedServer, client: Client) -> None:
    server.expire_session(client.session_id)


PERSISTENT = (put, put_many, publish, add, set_value, compare_and_set, count_next, set_barrier)


@pytest.mark.parametrize("work", PERSISTENT)
@virtually
async def test_expiry_while_parents_are_created_is_not_raised(work: Work) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        with each_creation_of_parents(server, expired), anyio.fail_after(PATIENCE):
            await work(client)


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
