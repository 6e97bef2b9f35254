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

FIRST_TASK = "task-0000000000"

READS: dict[str, Callable[[Client], Callable[[], Awaitable[Any]]]] = {
    "Barrier.is_set": lambda client: Barrier(client, "/barrier").is_set,
    "Condition.waiters": lambda client: Condition(client, "/condition").waiters,
    "Config.get": lambda client: Config(client, "/config").get,
    "Config.history": lambda client: Config(client, "/config").history,
    "Counter.get": lambda client: Counter(client, "/counter").get,
    "DoubleBarrier.members": lambda client: DoubleBarrier(client, "/double", 2).members,
    "Election.contenders": lambda client: Election(client, "/election").contenders,
    "Election.leader": lambda client: Election(client, "/election").leader,
    "ExclusiveLock.holders": lambda client: ExclusiveLock(client, "/exclusive").holders,
    "Group.members": lambda client: Group(client, "/group").members,
    "Lock.contenders": lambda client: Lock(client, "/lock").contenders,
    "Lock.holders": lambda client: Lock(client, "/lock").holders,
    "Queue.size": lambda client: Queue(client, "/queue").size,
    "ReadWriteLock.contenders": lambda client: ReadWriteLock(client, "/shared").contenders,
    "ReadWriteLock.holders": lambda client: ReadWriteLock(client, "/shared").holders,
    "Semaphore.available": lambda client: Semaphore(client, "/permits", 3).available,
    "Semaphore.contenders": lambda client: Semaphore(client, "/permits", 3).contenders,
    "Semaphore.holders": lambda client: Semaphore(client, "/permits", 3).holders,
    "Semaphore.limit": lambda client: Semaphore(client, "/permits", 3).limit,
    "ServiceRegistry.instances": lambda client: (
        lambda: ServiceRegistry(client, "/services").instances("web")
    ),
    "ServiceRegistry.services": lambda client: ServiceRegistry(client, "/services").services,
    "SharedValue.get": lambda client: SharedValue(client, "/value").get,
    "TaskBoard.result": lambda client: (
        lambda: TaskBoard(client, "/board").result("task-0000000000")
    ),
    "UniqueNames.holders": lambda client: UniqueNames(client, "/names").holders,
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
        async with embedded() as server, connect_virtually(server) as b:
            await _fill(b)
            expected = await READS[name](b)()
            link = Link(server)
            async with link.connect() as a, anyio.create_task_group() as tasks:
                read = READS[name](a)

                async def look(
                    found: list[Any] = found, read: Callable[[], Awaitable[Any]] = read
                ) -> None:
                    found.append(await read())

                before = a.session_id
                link.hold(after=heard)
                tasks.start_soon(look)
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
