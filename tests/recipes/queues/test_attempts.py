"""Attempts of items, and the pauses between them: on virtual time, exactly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from kit.clients import PATIENCE, Link, catch_up, connect, contenders_left
from kit.virtual_time import SESSION, Drop, lost_message, passes, settled, with_virtual_server
from recipes.blocks import enter

from aiolead import (
    ACL,
    Client,
    CreateMode,
    PriorityQueue,
    Queue,
    TaskBoard,
)
from aiolead.admin import set_quota
from aiolead.errors import ClaimLost, ConfigurationError, UsageError
from aiolead.model import Permission, Quota
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import QueueItem, Task, TaskPhase

pytestmark = pytest.mark.timeout(60)

PATH, CLAIMS = "/jobs", "/jobs-claims"

PAUSES = [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0]
"""The pauses after the first, the second ... attempt."""


async def attempts_within(queue: Queue, seconds: float) -> list[tuple[float, int]]:
    """When a consumer that never acknowledges got the item, and which attempt that was."""
    got: list[tuple[float, int]] = []
    began = anyio.current_time()
    with anyio.move_on_after(seconds):
        while True:
            async with queue.get() as item:
                got.append((anyio.current_time() - began, item.attempts))
    return got


def claims_of(server: EmbeddedServer) -> list[str]:
    return contenders_left(server, CLAIMS)


async def attempt(queue: Queue) -> int:
    """Claim the item and release it without a pause; which attempt that was."""
    async with queue.get() as item:
        await item.retry(delay=0)
    return item.attempts


# --- counting ------------------------------------------------------------------------------------


async def test_every_claim_counts_on_every_server(a: Client, b: Client) -> None:
    """By any consumer, also the one that acknowledges the item."""
    mine, theirs = Queue(a, PATH), PriorityQueue(b, "/urgent")
    await mine.put(b"x")
    for number in range(1, 4):
        async with mine.get(timeout=PATIENCE) as item:
            assert item.attempts == number
            await item.retry(delay=0)
    await catch_up(b)
    async with Queue(b, PATH).get(timeout=PATIENCE) as item:
        assert item.attempts == 4
        await item.ack()
    await theirs.put(b"y")
    async with theirs.get() as other:
        assert other.attempts == 1


@with_virtual_server
async def test_attempt_of_a_dead_consumer_counts(link: Link, client: Client, other: Client) -> None:
    await Queue(other, PATH).put(b"x")
    with pytest.raises(ClaimLost):
        async with Queue(client, PATH).get() as item:
            assert item.attempts == 1
            link.down()
            await anyio.sleep_forever()
    async with Queue(other, PATH).get() as item:
        assert item.attempts == 2
    link.heal()


@lost_message
@with_virtual_server
async def test_lost_claim_message_counts_once_or_twice(
    server: EmbeddedServer, client: Client, drop: Drop
) -> None:
    """A claim whose answer was lost is found, and not counted again."""
    queue = Queue(client, PATH)
    await queue.put(b"x")
    await attempt(queue)
    drop(server, OpCode.MULTI)
    assert await attempt(queue) == 2


@pytest.mark.parametrize("more", [Permission.DELETE, Permission.CREATE])
@with_virtual_server
async def test_item_that_cannot_be_counted_is_handed_out(
    client: Client, other: Client, more: Permission
) -> None:
    """Its ACL forbids to create znodes below it, or to delete them."""
    await client.create(PATH)
    acl = [ACL.world(Permission.READ | more)]
    sequential = CreateMode.PERSISTENT_SEQUENTIAL
    data = b"\x00\x01\x00\x01\x02"
    await client.create(f"{PATH}/queue-", data, mode=sequential, acl=acl)
    queue = Queue(client, PATH)
    for _ in range(2):
        assert await attempt(queue) == 1
    async with Queue(other, PATH).get() as item:
        await item.ack()
    assert await queue.size() == 0


async def test_used_up_quota_does_not_stop_the_consumers() -> None:
    async with EmbeddedServer(enforce_quota=True) as server, connect(server) as client:
        queue = Queue(client, PATH)
        await queue.put(b"x")
        await set_quota(client, PATH, Quota(count_hard=2))
        assert [await attempt(queue) for _ in range(2)] == [1, 1]
        await set_quota(client, PATH, Quota(count_hard=3))
        assert [await attempt(queue) for _ in range(2)] == [1, 2]


@with_virtual_server
async def test_znode_of_others_in_place_of_the_mark_sets_the_item_aside(
    client: Client, other: Client
) -> None:
    queue = Queue(client, PATH)
    await queue.put_many([b"0", b"1"])
    await other.create(f"{PATH}/queue-0000000000/attempt")
    async with queue.get() as item:
        assert item.data == b"1"
        await item.ack()
    await other.delete(f"{PATH}/queue-0000000000/attempt")
    async with queue.get() as item:
        assert item.data == b"0"
        # Theirs counts, too: a create and a delete.
        assert item.attempts == 2


# --- pauses --------------------------------------------------------------------------------------


@with_virtual_server
async def test_pauses_between_attempts_double_up_to_a_minute(client: Client) -> None:
    queue = Queue(client, PATH)
    await queue.put(b"x")
    got = await attempts_within(queue, 220.0)
    assert [number for _, number in got] == list(range(1, 14))
    due = 0.0
    for (at, _), pause in zip(got, PAUSES, strict=True):
        assert at == pytest.approx(due, abs=0.1)
        due = at + pause


@with_virtual_server
async def test_item_that_nobody_acknowledges_costs_less_than_a_write_per_second(
    server: EmbeddedServer, client: Client
) -> None:
    queue = Queue(client, PATH)
    await queue.put(b"x")
    writes = ("MULTI", "SET_DATA", "DELETE", "CREATE2", "CREATE_CONTAINER")

    def written() -> int:
        return sum(server.requests[name] for name in writes)

    for seconds, most in ((60.0, 45), (120.0, 20)):
        before = written()
        await attempts_within(queue, seconds)
        assert 0 < written() - before <= most, "writes, those of the lease included"


@with_virtual_server
async def test_other_items_go_ahead_during_a_pause(client: Client, other: Client) -> None:
    """Of both clients; and the claim is there for everybody to see."""
    mine, theirs = Queue(client, PATH), Queue(other, PATH)
    await mine.put_many([b"0", b"1"])
    async with mine.get() as item:
        await item.retry(delay=5.0)
        assert not item.is_held
        with pytest.raises(UsageError):
            await item.ack()
        for queue in (mine, theirs):
            async with queue.get() as next_one:
                assert next_one.data == b"1"
                await next_one.retry(delay=0)
        assert await other.exists(item.path) is not None
    began = anyio.current_time()
    async with theirs.get() as next_one:
        await next_one.ack()
    async with theirs.get() as item:
        assert (item.data, item.attempts) == (b"0", 2)
        assert anyio.current_time() - began == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("way", ["retry", "release", "body"])
@with_virtual_server
async def test_every_release_pauses(server: EmbeddedServer, client: Client, way: str) -> None:
    queue = Queue(client, PATH)
    await queue.put(b"x")
    for _ in range(4):
        await attempt(queue)
    async with queue.get() as item:
        if way != "body":
            await getattr(item, way)()
    began = anyio.current_time()
    assert claims_of(server) == [item.path]
    await attempt(queue)
    assert anyio.current_time() - began == pytest.approx(PAUSES[4], abs=0.05)


@with_virtual_server
async def test_pause_ends_with_its_client(
    server: EmbeddedServer, link: Link, other: Client
) -> None:
    """As it is closed, and as its session expires."""
    queue = Queue(other, PATH)
    await queue.put(b"x")
    async with link.connect() as client, Queue(client, PATH).get() as item:
        await item.retry(delay=1000.0)
    with anyio.fail_after(0.1):
        assert await attempt(queue) == 2
    async with link.connect() as client:
        async with Queue(client, PATH).get() as item:
            await item.retry(delay=1000.0)
        server.expire_session(client.session_id)
        with anyio.fail_after(0.1):
            assert await attempt(queue) == 4


@with_virtual_server
async def test_pause_does_not_outlast_a_detached_session_that_goes_on(
    server: EmbeddedServer, link: Link, other: Client
) -> None:
    """The client that continues it deletes the claim, which would last as long as the session."""
    await Queue(other, PATH).put(b"x")
    async with link.connect() as client:
        async with Queue(client, PATH).get() as item:
            await item.retry(delay=1.0)
        credentials = client.detach()
    assert claims_of(server) == [item.path]
    async with link.connect(resume=credentials) as again:
        assert again.session_id == credentials.session_id
        with anyio.fail_after(3 * SESSION):
            assert await attempt(Queue(again, PATH)) == 2


@with_virtual_server
async def test_claim_that_others_delete_during_a_pause_is_not_ours_any_more(
    server: EmbeddedServer, client: Client, other: Client
) -> None:
    """Another consumer may have one of that name when the pause ends; its claim stays."""
    await Queue(client, PATH).put(b"x")
    async with Queue(client, PATH).get() as item:
        await item.retry(delay=5.0)
    await other.delete(item.path)
    async with Queue(other, PATH).get() as theirs:
        await passes(10.0)
        assert theirs.is_held
        assert claims_of(server) == [theirs.path]
        await theirs.ack()


@pytest.mark.parametrize("op", [OpCode.SET_DATA, OpCode.DELETE])
@lost_message
@with_virtual_server
async def test_lost_message_of_a_pause_leaves_no_claim(
    server: EmbeddedServer, client: Client, drop: Drop, op: OpCode
) -> None:
    queue = Queue(client, PATH)
    await queue.put(b"x")
    async with queue.get() as item:
        drop(server, op)
        await item.retry(delay=1.0)
    await passes(2 * SESSION)
    assert claims_of(server) == []
    assert await attempt(queue) == 2


@with_virtual_server
async def test_pause_that_ends_during_an_outage_ends_after_it(link: Link, client: Client) -> None:
    queue = Queue(client, PATH)
    await queue.put(b"x")
    async with queue.get() as item:
        await item.retry(delay=1.0)
    link.down()
    await passes(SESSION / 4)
    link.heal()
    with anyio.fail_after(SESSION):
        assert await attempt(queue) == 2


@with_virtual_server
async def test_claim_that_is_gone_ends_the_pause_at_once(client: Client, other: Client) -> None:
    """The release is the first to notice, so the hold was lost."""
    queue = Queue(client, PATH)
    await queue.put(b"x")
    with pytest.raises(ClaimLost):
        async with queue.get() as item:
            await other.delete(item.path)
            await item.retry(delay=100.0)
            await settled()
    with anyio.fail_after(1.0):
        assert await attempt(queue) == 2


@with_virtual_server
async def test_retry_refuses_bad_delays_and_finished_items(client: Client) -> None:
    queue = Queue(client, PATH)
    await queue.put(b"x")
    async with queue.get() as item:
        bad: object
        for bad in (-1, float("nan"), float("inf"), "1", True):
            with pytest.raises(ConfigurationError, match="delay"):
                await item.retry(delay=bad)  # type: ignore[arg-type]
        assert item.is_held
        await item.ack()
        with pytest.raises(UsageError):
            await item.retry()
    await queue.put(b"x")
    async with queue.get() as item:
        await item.retry(delay=0)
        with pytest.raises(UsageError):
            await item.retry(delay=0)
    with pytest.raises(UsageError):
        await item.retry()


# --- task boards ---------------------------------------------------------------------------------


@with_virtual_server
async def test_task_waits_during_its_pause_and_its_attempts_count(
    client: Client, other: Client
) -> None:
    board = TaskBoard(client, "/board", identity="w", report_every=0)
    name = await board.submit(b"x")
    release: list[Callable[[Task], Awaitable[None]]] = [
        lambda task: task.retry(delay=1.0),
        lambda task: task.release(),
    ]
    async with TaskBoard(other, "/board").observe() as view:
        for number, give_up in enumerate(release, 1):
            async with board.claim() as task:
                assert task.attempts == number
                await task.report(0.5, "half of it")
                await settled()
                assert view.value[name].phase is TaskPhase.WORKING
                await give_up(task)
                await settled()
                state = view.value[name]
                assert (state.phase, state.worker, state.note) == (TaskPhase.WAITING, None, "")
                assert await other.exists(task.path) is not None
    async with board.claim() as task:
        assert task.attempts == 3
        await task.finish()


@with_virtual_server
async def test_consumption_pauses_items_that_it_passes_over(client: Client) -> None:
    """Asking for the next item releases the last one, and other items come first."""
    queue = Queue(client, PATH)
    await queue.put_many([b"0", b"1"])
    await attempt(queue)
    seen: list[tuple[bytes, int]] = []
    item: QueueItem
    async with queue.consume() as items:
        async for item in items:
            seen.append((item.data, item.attempts))
            if seen.count((b"1", 1)):
                await item.ack()
            if len(seen) == 3:
                break
    assert seen == [(b"0", 2), (b"1", 1), (b"0", 3)]
    with pytest.raises(TimeoutError), anyio.fail_after(1.0):
        await enter(queue.get())
