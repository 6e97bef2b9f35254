"""The queues, over every kind of server: what is put, who gets it, and what is given back."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    Link,
    catch_up,
    children_are,
    connect,
    eventually,
    in_memory,
    names,
)
from kit.faults import end_session
from kit.selection import on_embedded
from recipes.blocks import Holder, enter, happens

from aiolead import (
    AcquireTimeout,
    Client,
    CreateMode,
    DelayQueue,
    Fenced,
    PriorityQueue,
    Queue,
)
from aiolead._recipes.queue_items import encode
from aiolead.errors import (
    ClaimLost,
    ConfigurationError,
    InvalidDataError,
    LossReason,
    QueueFullError,
    SequenceExhaustedError,
    UsageError,
)
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec, QueueItem

pytestmark = pytest.mark.timeout(60)

PATH, CLAIMS = "/jobs", "/jobs-claims"


@pytest.fixture
async def queue(client: Client) -> Queue:
    return Queue(client, PATH)


AnyQueue = Queue | PriorityQueue | DelayQueue


async def take(queue: AnyQueue, count: int) -> list[bytes]:
    """Consumes so many items."""
    taken: list[bytes] = []
    with anyio.fail_after(PATIENCE):
        async with queue.consume() as items:
            async for item in items:
                taken.append(item.data)
                await item.ack()
                if len(taken) == count:
                    return taken
    raise AssertionError("a consumption has ended by itself")


# --- one queue ---------------------------------------------------------------------------------


async def test_first_come_first_served(a: Client, b: Client) -> None:
    queue = Queue(a, PATH)
    put = [await queue.put(b"0")]
    put += await queue.put_many([b"1", b"2", b"3"])
    put.append(await Queue(b, PATH).put(b"4"))
    assert put == [f"queue-{number:010d}" for number in range(5)]
    await catch_up(a)  # its server may not know yet what b has put
    assert await queue.size() == 5
    assert await take(queue, 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert await queue.size() == 0
    assert await names(b, CLAIMS) == []


async def test_waiting_consumers_share_the_items(server: ServerUnderTest) -> None:
    """Three tasks of each of three clients: each item is worked on once."""
    worked: list[bytes] = []

    async def work(queue: Queue) -> None:
        async with queue.consume() as items:
            async for item in items:
                worked.append(item.data)
                await anyio.lowlevel.checkpoint()
                await item.ack()

    async def all_are_done() -> bool:
        return len(worked) >= 30 and await queue.size() == 0

    data = [str(number).encode() for number in range(30)]
    async with connect(server) as a, connect(server) as b, connect(server) as c:
        async with anyio.create_task_group() as tasks:
            for client in (a, b, c):
                queue = Queue(client, PATH)
                for _ in range(3):
                    tasks.start_soon(work, queue)
            for one in data[:10]:
                await queue.put(one)
            await queue.put_many(data[10:])
            await eventually(all_are_done, "all are done")
            tasks.cancel_scope.cancel()
        assert sorted(worked) == sorted(data)
        assert await names(a, CLAIMS) == []


async def test_item_that_is_not_acknowledged_is_released(a: Client, b: Client) -> None:
    mine, theirs = Queue(a, PATH), Queue(b, PATH)
    await mine.put_many([b"0", b"1"])
    async with mine.get() as item:
        assert item.data == b"0"
        assert await names(b, CLAIMS) == [item.name]
        await catch_up(b)
        async with theirs.get() as other:
            assert other.data == b"1"
        await catch_up(b)
        async with theirs.try_get() as other:
            assert other is not None
            assert other.data == b"1"
            await other.ack()
        async with theirs.try_get() as nothing:
            assert nothing is None
    with pytest.raises(ZeroDivisionError):
        async with theirs.get(timeout=PATIENCE) as item:
            assert item.data == b"0"
            raise ZeroDivisionError
    assert await take(mine, 1) == [b"0"]


@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_waiter_gets_a_released_item(server: ServerUnderTest, a: Client, b: Client) -> None:
    """By another client, by another task of this one, and by one that has died."""
    mine, theirs = Queue(a, PATH), Queue(b, PATH)
    await mine.put(b"x")
    for waiter in (theirs, mine):
        async with anyio.create_task_group() as tasks, mine.get() as item:
            consumer = Holder(waiter.get(), span=0)
            tasks.start_soon(consumer)
            await anyio.sleep(0.05)
            assert not consumer.has_entered
            assert item.is_held
        assert consumer.held.data == b"x"
    async with connect(server) as dead, anyio.create_task_group() as tasks:
        consumer = Holder(theirs.get(), span=0)
        with pytest.raises(ClaimLost):
            async with Queue(dead, PATH).get():
                tasks.start_soon(consumer)
                await anyio.sleep(0.05)
                await end_session(server.hosts, dead)
                await anyio.sleep_forever()
    assert consumer.held.data == b"x"


@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_wait_goes_on_in_the_next_session(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    """The watches have gone with the session."""
    async with anyio.create_task_group() as tasks:
        consumer = Holder(Queue(a, PATH).get(), span=0)
        tasks.start_soon(consumer)
        await eventually(lambda: len(a._core.machine.watches) == 2, "it waits")
        await end_session(server.hosts, a)
        await a.ready()
        await Queue(b, PATH).put(b"x")
        await happens(consumer.entered)
    assert consumer.held.data == b"x"


async def test_try_get_and_timeouts_end_without_an_item(a: Client, b: Client) -> None:
    mine, theirs = Queue(a, PATH), Queue(b, PATH)
    async with mine.try_get() as item:
        assert item is None
    with pytest.raises(AcquireTimeout):
        await enter(mine.get(timeout=0))
    await mine.put(b"x")
    async with mine.try_get() as item:
        assert item is not None
        await catch_up(b)
        with pytest.raises(AcquireTimeout):
            await enter(theirs.get(timeout=0.01))


@pytest.mark.parametrize("notices", [True, False], ids=["noticed", "acknowledged before"])
async def test_claim_that_others_delete_is_lost(queue: Queue, other: Client, notices: bool) -> None:
    await queue.put(b"x")
    with pytest.raises(ClaimLost) as lost:
        async with queue.get() as item:
            await other.delete(item.path)
            await (anyio.sleep_forever() if notices else item.ack())
    assert lost.value.reason is LossReason.DELETED or not notices
    assert await take(queue, 1) == [b"x"]


async def test_loss_is_raised_again_where_the_body_went_on(queue: Queue, b: Client) -> None:
    """A body that goes on after the loss is cancelled, and that is not swallowed."""
    await queue.put(b"x")
    told = []
    with pytest.raises(ClaimLost) as lost:
        async with queue.consume() as items:
            item = await anext(items)
            with anyio.CancelScope(shield=True):
                await b.delete(item.path)
                await eventually(lambda: item.loss is not None, "it is lost")
                with pytest.raises(ClaimLost) as first:
                    await anext(items)
                told.append(first.value)
            await anyio.sleep_forever()
    assert told == [lost.value]
    assert lost.value.reason is LossReason.DELETED


async def test_item_that_others_delete_is_passed_over(queue: Queue, b: Client) -> None:
    await queue.put_many([b"0", b"1", b"2"])
    with pytest.raises(ClaimLost):
        async with queue.get() as item:
            assert item.data == b"0"
            await b.delete(f"{PATH}/{item.name}")
            await item.ack()
    # The list is old by now.
    await b.delete(f"{PATH}/queue-0000000001")
    assert await take(queue, 1) == [b"2"]
    assert await names(b, CLAIMS) == []


async def test_fenced_write_fails_once_the_item_is_acknowledged(a: Client, b: Client) -> None:
    await a.create("/account")
    queue = Queue(a, PATH)
    await queue.put(b"x")
    async with queue.get() as item:
        await catch_up(b)
        assert item.token == (await b.get(item.path))[1].czxid
        await item.fenced().set("/account", b"1")
        fenced = item.fenced()
        await item.ack()
        with pytest.raises(Fenced):
            await fenced.set("/account", b"2")


# --- what an item says of itself ---------------------------------------------------------------


@on_embedded
async def test_item_has_name_data_path_and_lease(client: Client) -> None:
    queue = Queue(client, PATH, identity="me", claims="/locks")
    await queue.put(b"x")
    async with queue.get() as item:
        assert (item.name, item.data, item.parts) == ("queue-0000000000", b"x", (b"x",))
        assert item.path == "/locks/queue-0000000000"
        assert await client.get(item.path) == (b"me", await client.exists(item.path))
        item.check()
        assert item.is_held
        assert 0 < item.remaining() <= client.session_timeout
        await item.verify()
        await item.ack()
        assert not item.is_held
        with pytest.raises(UsageError, match="done with"):
            item.check()
        await item.ack()  # once more does nothing
    with pytest.raises(UsageError, match="done with"):
        item.check()


@on_embedded
async def test_released_item_cannot_be_acknowledged(queue: Queue) -> None:
    await queue.put(b"x")
    async with queue.get() as item:
        await item.release()
        with pytest.raises(UsageError, match="resigned"):
            await item.ack()
    async with queue.get() as item:
        pass
    with pytest.raises(UsageError, match="released"):
        await item.ack()
    assert await take(queue, 1) == [b"x"]


@on_embedded
async def test_one_of_two_tasks_acknowledges_an_item(queue: Queue) -> None:
    await queue.put(b"x")
    refused: list[UsageError] = []

    async def ack(item: QueueItem) -> None:
        try:
            await item.ack()
        except UsageError as error:
            refused.append(error)

    async with queue.get() as item, anyio.create_task_group() as tasks:
        tasks.start_soon(ack, item)
        tasks.start_soon(ack, item)
    assert (len(refused), await queue.size()) == (1, 0)


@on_embedded
async def test_one_task_may_hold_several_items(client: Client, queue: Queue) -> None:
    await queue.put_many([b"0", b"1", b"2"])
    async with queue.get() as first, Queue(client, PATH).get() as second, queue.get() as third:
        assert [first.data, second.data, third.data] == [b"0", b"1", b"2"]
        await second.ack()
    assert await take(queue, 2) == [b"0", b"2"]


@on_embedded
async def test_item_of_curators_put_multi_has_several_parts(client: Client, queue: Queue) -> None:
    await client.create(PATH)
    for parts in ([b"a", b"b"], []):
        sequential = CreateMode.PERSISTENT_SEQUENTIAL
        await client.create(f"{PATH}/queue-", encode(parts), mode=sequential)
    async with queue.consume() as items:
        for expected in ((b"a", b"b"), ()):
            item = await anext(items)
            assert item.parts == expected
            with pytest.raises(UsageError, match=f"has {len(expected)} parts"):
                _ = item.data
            await item.ack()


@pytest.mark.parametrize("how", ["logged", "told"])
@on_embedded
async def test_invalid_item_is_reported_and_passed_over(
    client: Client, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create(PATH)
    bad = await client.create(f"{PATH}/queue-", b"!", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    await client.create(f"{PATH}/note", b"none of ours")
    told: list[InvalidDataError] = []
    queue = Queue(client, PATH, on_invalid=told.append if how == "told" else None)
    await queue.put(b"good")
    async with queue.get() as item:
        assert item.data == b"good"
    async with queue.get() as item:
        assert item.data == b"good"
        await item.ack()
    why = f"{bad.path} has data that cannot be used: 1 bytes are too few for an item"
    if how == "told":
        (error,) = told
        assert (str(error), error.path, error.version) == (why, bad.path, 0)
    else:
        lines = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert [line for line in lines if "item" in line] == [f"{why}; the item is passed over"]
    await children_are(client, CLAIMS)
    assert (await client.get(bad.path))[0] == b"!"


# --- values ------------------------------------------------------------------------------------


@on_embedded
async def test_codec_encodes_and_decodes_items(client: Client) -> None:
    queue = Queue(client, PATH, codec=Codec.json())
    await queue.put({"account": 17})
    await queue.put_many([[], "ä"])
    values = []
    for data in (b'{"account":17}', b"[]", '"ä"'.encode()):
        async with queue.get() as item:
            assert item.data == data
            values.append(item.value)
            await item.ack()
    assert values == [{"account": 17}, [], "ä"]
    numbers = PriorityQueue(client, "/numbers", codec=Codec.int32())
    await numbers.put(-5, priority=1)
    later = DelayQueue(client, "/later", codec=Codec.text())
    await later.put("x", delay=0)
    async with numbers.get() as number, later.get() as text, Queue(client, "/numbers").try_get():
        assert (number.value, text.value) == (-5, "x")
    plain = Queue(client, "/plain")
    await plain.put(b"x")
    async with plain.get() as one:
        assert one.value == b"x"


@on_embedded
async def test_codec_refuses_values_before_anything_is_sent(client: Client) -> None:
    queue = Queue(client, PATH, codec=Codec.int32())
    for bad in (2**31, "1", None):
        with pytest.raises(ConfigurationError, match="data: "):
            await queue.put(bad)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="data: "):
        await queue.put_many([1, 2**31])
    with pytest.raises(ConfigurationError, match="codec: "):
        Queue(client, PATH, codec="json")  # type: ignore[arg-type]
    assert await client.exists(PATH) is None


@on_embedded
async def test_item_that_the_codec_refuses_is_invalid(client: Client) -> None:
    """It is reported once, and passed over; with a limit it moves, and no loop is endless."""
    await Queue(client, PATH).put_many([b"what?", b"[1]"])
    told: list[InvalidDataError] = []
    queue = Queue(client, PATH, codec=Codec.json(), on_invalid=told.append)
    for _ in range(2):
        async with queue.get() as item:
            assert item.value == [1]
            await item.retry(delay=0)
    (error,) = told
    assert error.path == f"{PATH}/queue-0000000000"
    limited = Queue(
        *(client, PATH),
        codec=Codec.json(),
        max_attempts=3,
        dead_letters="/dead",
        retry_pause=0,
        on_invalid=told.append,
    )
    async with limited.get() as item:
        assert item.value == [1]
        await item.ack()
    with pytest.raises(AcquireTimeout):
        await enter(limited.get(timeout=0.5))
    assert len(told) == 2  # it had one attempt before, and moves in its third
    async with Queue(client, "/dead").get(timeout=PATIENCE) as letter:
        assert letter.data == b"what?"
        assert letter.dead_letter is not None
        assert letter.dead_letter.reason.startswith("invalid: MalformedError: ")
        assert letter.dead_letter.attempts == 3


@on_embedded
async def test_value_of_an_item_with_several_parts_is_refused(client: Client) -> None:
    await client.create(PATH)
    mode = CreateMode.PERSISTENT_SEQUENTIAL
    await client.create(f"{PATH}/queue-", encode([b"1", b"2"]), mode=mode)
    async with Queue(client, PATH, codec=Codec.json()).get() as item:
        with pytest.raises(UsageError, match="has 2 parts"):
            _ = item.value


# --- limits ------------------------------------------------------------------------------------


async def test_full_queue_refuses_items(a: Client, b: Client) -> None:
    mine, theirs = Queue(a, PATH, max_items=3), Queue(b, PATH, max_items=3)
    await mine.put(b"0")
    with pytest.raises(QueueFullError) as full:
        await mine.put_many([b"1", b"2", b"3"])
    assert (full.value.path, full.value.size, full.value.max_items) == (PATH, 1, 3)
    await mine.put_many([b"1", b"2"])
    await catch_up(b)
    with pytest.raises(QueueFullError):
        await theirs.put(b"3")
    assert await take(theirs, 1) == [b"0"]
    await catch_up(a)
    await mine.put(b"3")
    assert await take(theirs, 3) == [b"1", b"2", b"3"]


@on_embedded
async def test_limit_counts_items_that_are_being_put(client: Client) -> None:
    queue = Queue(client, PATH, max_items=5)
    await queue.put(b"0")
    full: list[QueueFullError] = []

    async def put() -> None:
        try:
            await queue.put(b"x")
        except QueueFullError as error:
            full.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(put)
    assert (len(full), await queue.size()) == (6, 5)


async def test_put_fails_once_the_sequence_is_exhausted() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        queue = Queue(client, PATH)
        await queue.put(b"x")
        server.set_sequence(PATH, 2**31 - 1)
        for _ in range(2):
            with pytest.raises(SequenceExhaustedError):
                await queue.put(b"y")
            with pytest.raises(SequenceExhaustedError):
                await queue.put_many([b"y", b"y"])
            assert len(server.znodes()) <= 2, "the items were deleted again"
        assert await take(queue, 1) == [b"x"]


# --- consuming ---------------------------------------------------------------------------------


@on_embedded
async def test_next_iteration_releases_an_item_that_was_not_acknowledged(queue: Queue) -> None:
    await queue.put_many([b"0", b"1"])
    seen: list[bytes] = []
    async with queue.consume() as items:
        async for item in items:
            seen.append(item.data)
            if seen.count(b"0") == 2 or item.data == b"1":
                await item.ack()
            if len(seen) == 3:
                break
    assert seen == [b"0", b"0", b"1"]
    assert await queue.size() == 0


async def test_lost_claim_ends_the_consumption(queue: Queue, b: Client) -> None:
    await queue.put_many([b"0", b"1"])
    with pytest.raises(ClaimLost):
        async with queue.consume() as items:
            item = await anext(items)
            await item.ack()
            async for item in items:
                await b.delete(item.path)
                await anyio.sleep_forever()
    # Lost while the body has not noticed, and asks for the next one.
    with pytest.raises(ClaimLost):
        async with queue.consume() as items:
            async for item in items:
                await b.delete(item.path)
    assert await take(queue, 1) == [b"1"]


@on_embedded
async def test_body_error_of_a_consumption_propagates_unchanged(queue: Queue) -> None:
    with pytest.raises(ZeroDivisionError):
        async with queue.consume():
            raise ZeroDivisionError
    await queue.put(b"x")
    with pytest.raises(ZeroDivisionError):
        async with queue.consume() as items:
            await anext(items)
            raise ZeroDivisionError
    with anyio.move_on_after(0.05) as scope:
        async with queue.consume() as items:
            await anext(items)
            with anyio.move_on_after(0.01):
                await anyio.sleep_forever()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert await take(queue, 1) == [b"x"]


@on_embedded
async def test_cancelled_iteration_does_not_disturb_the_next_one(queue: Queue) -> None:
    async with queue.consume() as items:
        for _ in range(2):
            with anyio.move_on_after(0.02):
                await anext(items)
                raise AssertionError("there is nothing")
        await queue.put(b"x")
        with anyio.fail_after(PATIENCE):
            item = await anext(items)
        await item.ack()


@on_embedded
async def test_consumption_outside_its_block_is_refused(queue: Queue) -> None:
    items = queue.consume()
    for _ in range(2):
        with pytest.raises(UsageError, match="async with"):
            await anext(items)
        async with items:
            with pytest.raises(UsageError, match="in use"):
                await enter(items)


# --- the others --------------------------------------------------------------------------------


async def test_smallest_priority_comes_first(a: Client, b: Client) -> None:
    mine, theirs = PriorityQueue(a, PATH), PriorityQueue(b, PATH)
    for priority in (5, -3, 0, 5):
        await mine.put(f"{priority}".encode(), priority=priority)
    await mine.put_many([b"1a", b"1b"], priority=1)
    await catch_up(b)
    async with theirs.get() as item:
        assert item.data == b"-3"
        # A later item of a smaller priority goes before the listed ones.
        await mine.put(b"-1", priority=-1)
        await catch_up(b)
        async with theirs.get() as other:
            assert other.data == b"-1"
            await other.ack()
        await item.ack()
    assert await take(mine, 5) == [b"0", b"1a", b"1b", b"5", b"5"]


async def test_delayed_items_come_when_they_are_due(client: Client) -> None:
    now = 1_700_000_000.0
    queue = DelayQueue(client, PATH, clock=lambda: now)
    await queue.put(b"in a minute", delay=60)
    await queue.put(b"in an hour", at=now + 3600)
    await queue.put_many([b"past", b"long past"], delay=-1)
    await queue.put(b"longer past", at=now - 5000)
    assert await take(queue, 3) == [b"longer past", b"past", b"long past"]
    async with queue.try_get() as item:
        assert item is None
    assert await queue.size() == 2
    now += 61
    assert await take(queue, 1) == [b"in a minute"]
    now += 3600
    assert await take(queue, 1) == [b"in an hour"]


@on_embedded
async def test_waiting_consumer_gets_a_delayed_item_when_it_is_due(client: Client) -> None:
    """By the clock of the wall, not by an event of the servers."""
    queue = DelayQueue(client, PATH)
    await queue.put(b"x", delay=0.05)
    assert await take(queue, 1) == [b"x"]


# --- many items, and competing consumers ---------------------------------------------------------


async def test_long_queue_is_not_listed_for_each_item() -> None:
    """Though others take items from it: the next few items, and the claims, are enough."""
    items, rounds = 2000, 30
    async with EmbeddedServer() as server, in_memory(server) as producer, in_memory(server) as b:
        wire = Link(server)
        async with wire.connect() as a:
            queue = Queue(a, "/jobs")
            for first in range(0, items, 500):
                await Queue(producer, "/jobs").put_many(str(first + n).encode() for n in range(500))
            seen: list[int] = []

            async def take(mine: Queue) -> None:
                async with mine.get() as item:
                    seen.append(int(item.data))
                    await item.ack()

            others = Queue(b, "/jobs")
            await take(queue)
            await take(others)
            before = wire.bytes["to_client"]
            for number in range(rounds):
                async with others.get() as held:  # it holds one meanwhile
                    await take(queue)
                    if number % 3:
                        await held.ack()
            assert (wire.bytes["to_client"] - before) / rounds < 2048
            assert seen[:2] == [0, 1]
            # The item that the other one has released is the first one again.
            assert seen[2:] == sorted(seen[2:])
            async with others.get() as held, queue.get() as next_one:
                assert int(held.data) < int(next_one.data)


@pytest.fixture
async def server_with_items() -> AsyncIterator[EmbeddedServer]:
    """A server with a queue of three items, one of which was claimed before."""
    async with EmbeddedServer(tick_time=3) as server, in_memory(server) as client:
        queue = Queue(client, PATH)
        await queue.put_many([b"first", b"second", b"third"])
        await enter(queue.get())
        yield server


async def test_one_look_serves_several_consumers(server_with_items: EmbeddedServer) -> None:
    async with in_memory(server_with_items) as client, anyio.create_task_group() as tasks:
        queue = Queue(client, PATH)
        before = server_with_items.requests["GET_CHILDREN"]
        holders = [Holder(queue.try_get()) for _ in range(3)]
        for holder in holders:
            tasks.start_soon(holder)
        for holder in holders:
            await happens(holder.entered)
        looks = server_with_items.requests["GET_CHILDREN"] - before
        assert looks == 2, "items and claims are listed once"
        found = sorted(holder.held.data for holder in holders)
        assert found == [b"first", b"second", b"third"]
        tasks.cancel_scope.cancel()


async def test_cancelled_look_delays_no_other_consumer(server_with_items: EmbeddedServer) -> None:
    async with in_memory(server_with_items) as client:
        for turns in range(12):
            queue = Queue(client, PATH)
            first, second = Holder(queue.get(), span=0), Holder(queue.get(), span=0)
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(first)
                    await anyio.lowlevel.checkpoint()
                    tasks.start_soon(second)
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    first.scope.cancel()
            assert second.has_entered
