"""Single reads of recipes while the session ends: they go on in the next one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE
from kit.virtual_time import Link, embedded, passes, settled, virtually
from kit.virtual_time import connect as connect_virtually

import aiolead
from aiolead import (
    Barrier,
    Client,
    Condition,
    Config,
    Counter,
    DoubleBarrier,
    Election,
    ExclusiveLock,
    Group,
    Lock,
    Queue,
    ReadWriteLock,
    Semaphore,
    ServiceRegistry,
    SharedValue,
    TaskBoard,
    UniqueNames,
)
from aiolead.errors import SessionExpiredError
from aiolead.model import CreateMode

pytestmark = pytest.mark.timeout(120)

MOST_SEGMENTS = 12
"""More than any read needs to hear."""

READS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "Barrier.is_set": lambda c: Barrier(c, "/barrier").is_set(),
    "Condition.waiters": lambda c: Condition(c, "/condition").waiters(),
    "Config.get": lambda c: Config(c, "/config").get(),
    "Config.history": lambda c: Config(c, "/config").history(),
    "Counter.get": lambda c: Counter(c, "/counter").get(),
    "DoubleBarrier.members": lambda c: DoubleBarrier(c, "/double", 2).members(),
    "Election.contenders": lambda c: Election(c, "/election").contenders(),
    "Election.leader": lambda c: Election(c, "/election").leader(),
    "ExclusiveLock.holders": lambda c: ExclusiveLock(c, "/exclusive").holders(),
    "Group.members": lambda c: Group(c, "/group").members(),
    "Lock.contenders": lambda c: Lock(c, "/lock").contenders(),
    "Lock.holders": lambda c: Lock(c, "/lock").holders(),
    "Queue.size": lambda c: Queue(c, "/queue").size(),
    "ReadWriteLock.contenders": lambda c: ReadWriteLock(c, "/shared").contenders(),
    "ReadWriteLock.holders": lambda c: ReadWriteLock(c, "/shared").holders(),
    "Semaphore.available": lambda c: Semaphore(c, "/permits", 3).available(),
    "Semaphore.contenders": lambda c: Semaphore(c, "/permits", 3).contenders(),
    "Semaphore.holders": lambda c: Semaphore(c, "/permits", 3).holders(),
    "Semaphore.limit": lambda c: Semaphore(c, "/permits", 3).limit(),
    "ServiceRegistry.instances": lambda c: ServiceRegistry(c, "/services").instances("web"),
    "ServiceRegistry.services": lambda c: ServiceRegistry(c, "/services").services(),
    "SharedValue.get": lambda c: SharedValue(c, "/value").get(),
    "TaskBoard.result": lambda c: TaskBoard(c, "/board").result("task-0000000000"),
    "UniqueNames.holders": lambda c: UniqueNames(c, "/names").holders(),
}


async def _fill(client: Client) -> None:
    """Write something for each read to find."""
    await Barrier(client, "/barrier").set()
    await Config(client, "/config").publish({"n": b"1"})
    await Counter(client, "/counter").add(3)
    await Queue(client, "/queue").put(b"item")
    await Semaphore(client, "/permits", 3).set_limit(2)
    await SharedValue(client, "/value").set(b"1")
    board = TaskBoard(client, "/board")
    await board.submit(b"work")
    async with board.claim() as task:
        await task.finish(b"done")
    for path in (
        "/double/00000000-0000-0000-0000-000000000001",
        "/exclusive",
        "/group/me",
        "/names/worker-0",
    ):
        await client.ensure_path(path.rpartition("/")[0] or "/")
        await client.create(path, b"me", mode=CreateMode.EPHEMERAL)
    for path in (
        "/condition/waiters/0123456789abcdef-1-wait-",
        "/election/a-latch-",
        "/lock/a-lock-",
        "/permits/leases/a-lease-",
        "/permits/locks/a-lock-",
        "/shared/a-__READ__",
    ):
        await client.ensure_path(path.rpartition("/")[0])
        await client.create(path, b"me", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    web = aiolead.ServiceInstance(name="web", id="i", address="h", port=1)
    await client.ensure_path("/services/web")
    await client.create("/services/web/i", web.to_json())


@pytest.mark.parametrize("by_loss", [False, True], ids=["expired", "lost and expired"])
@pytest.mark.parametrize("name", list(READS))
@virtually
async def test_single_read_goes_on_in_the_next_session(name: str, by_loss: bool) -> None:
    for heard in range(MOST_SEGMENTS):
        found: list[Any] = []

        async def look(client: Client, found: list[Any] = found) -> None:
            found.append(await READS[name](client))

        async with embedded() as server, connect_virtually(server) as b:
            await _fill(b)
            expected = await READS[name](b)
            link = Link(server)
            async with link.connect() as a, anyio.create_task_group() as tasks:
                before = a.session_id
                link.hold(after=heard)
                tasks.start_soon(look, a)
                await settled()
                is_needed = not found
                if by_loss:
                    link.lose()
                server.expire_session(before)
                link.release()
                link.restore()
                await passes(20.0)
                assert found == [expected], f"after {heard} segments"
                assert a.session_id != before
        assert expected
        if not is_needed:
            assert heard > 0
            return
    raise AssertionError(f"it needs more than {MOST_SEGMENTS} segments")


@virtually
async def test_plain_read_of_a_client_still_raises_the_expiry() -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client:
            link.hold()
            reply = client.exists("/")
            await settled()
            server.expire_session(client.session_id)
            link.lose()
            link.restore()
            with pytest.raises(SessionExpiredError), anyio.fail_after(PATIENCE):
                await reply
