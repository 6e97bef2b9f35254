"""Queues when answers are lost, sessions end and consumers die: on virtual time, exactly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from kit.clients import contenders_left
from kit.virtual_time import (
    SESSION,
    Drop,
    Link,
    connect,
    lost_message,
    passes,
    settled,
    with_virtual_server,
)
from recipes.blocks import Holder, enter

from aiolead import Client, ConnectionLossError, Queue
from aiolead.errors import ClaimLost, LossReason, Outcome
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, OpCode

PATH, CLAIMS = "/jobs", "/jobs-claims"


async def items_and_claims(server: EmbeddedServer) -> tuple[int, int]:
    return len(contenders_left(server, PATH)), len(contenders_left(server, CLAIMS))


async def with_items(client: Client, count: int) -> Queue:
    """A queue with some items, one of which was consumed, so that all paths are there."""
    queue = Queue(client, PATH)
    await queue.put_many([str(number).encode() for number in range(-1, count)])
    async with queue.get() as item:
        await item.ack()
    return queue


# --- claiming ----------------------------------------------------------------------------------


@lost_message
@with_virtual_server
async def test_cancelled_claim_of_unknown_outcome_is_released(
    server: EmbeddedServer, link: Link, client: Client, other: Client, drop: Drop
) -> None:
    """The client deletes the claim, if there is one, in the background."""
    queue = await with_items(client, 1)
    link.refuse()
    drop(server, OpCode.MULTI)
    with anyio.move_on_after(1.0):
        await enter(queue.get())
        pytest.fail("the claim was never confirmed")
    assert client.state is SessionState.SUSPENDED
    link.heal()
    async with Queue(other, PATH).get() as item:
        assert item.data == b"0"
        await item.ack()
    await passes(2 * SESSION)
    assert await items_and_claims(server) == (0, 0)
    await queue.put(b"1")
    async with queue.get() as item:
        assert item.data == b"1"


@with_virtual_server
async def test_item_released_during_a_lost_claim_is_claimed_after_it(
    server: EmbeddedServer, link: Link, client: Client, other: Client
) -> None:
    """No watch fires when the reservation ends: the waiting consumer gets the item all the same."""
    async with anyio.create_task_group() as tasks:
        consumer = Holder((await with_items(client, 1)).get(), span=0)
        link.refuse()
        server.drop_request(OpCode.MULTI)
        tasks.start_soon(consumer)
        await passes(1.0)
        assert client.state is SessionState.SUSPENDED
        async with Queue(other, PATH).get():
            link.heal()
            await passes(1.0)  # the item is refused, since it is taken
            assert not consumer.has_entered
        await passes(2 * SESSION)
        assert consumer.has_entered


@lost_message
@with_virtual_server
async def test_item_reserved_by_a_cancelled_consumer_goes_to_another_one(
    server: EmbeddedServer, link: Link, client: Client, drop: Drop
) -> None:
    """Another queue object of the same client gets it, though nothing changes on the servers."""
    async with anyio.create_task_group() as tasks:
        queue, consumer = await with_items(client, 1), Holder(Queue(client, PATH).get(), span=0)
        link.refuse()
        drop(server, OpCode.MULTI)
        with anyio.move_on_after(1.0):
            await enter(queue.get())
            pytest.fail("the claim was never confirmed")
        tasks.start_soon(consumer)
        link.heal()
        await passes(2 * SESSION)
        assert consumer.has_entered


@with_virtual_server
async def test_next_session_repeats_a_claim(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    before = client.session_id
    async with anyio.create_task_group() as tasks:
        consumer = Holder((await with_items(client, 1)).get(), span=0)
        link.refuse()
        server.drop_reply(OpCode.MULTI)
        tasks.start_soon(consumer)
        await settled()
        assert await items_and_claims(server) == (1, 1)
        server.expire_session(before)
        link.heal()
    assert consumer.held.session_id != before
    await passes(1.0)  # the claim of the lost answer was the first attempt: a pause follows
    assert await items_and_claims(server) == (1, 0)


@with_virtual_server
async def test_waiters_get_items_of_an_ended_session_in_order(
    server: EmbeddedServer, link: Link
) -> None:
    """As soon as the servers know that the session has ended."""
    got: list[tuple[float, bytes]] = []

    async def consume(queue: Queue) -> None:
        async with queue.consume() as items:
            async for item in items:
                got.append((anyio.current_time(), item.data))
                await item.ack()

    async with link.connect() as dead, connect(server) as heir, anyio.create_task_group() as tasks:
        queue = await with_items(dead, 2)
        with pytest.raises(ClaimLost):
            async with queue.get(), queue.get():
                tasks.start_soon(consume, Queue(heir, PATH))
                await passes(1.0)
                assert got == []
                began = anyio.current_time()
                link.down()
                await anyio.sleep_forever()
        ended = anyio.current_time()
        await passes(2 * SESSION)
        tasks.cancel_scope.cancel()
    assert [data for _, data in got] == [b"0", b"1"]
    # The body had ended before the servers gave its items to somebody else.
    assert began < ended < got[0][0] < began + 1.5 * SESSION


# --- acknowledging -----------------------------------------------------------------------------


@pytest.mark.parametrize("refused", [1, 2])
@with_virtual_server
async def test_ack_pauses_between_tries(
    server: EmbeddedServer, client: Client, refused: int
) -> None:
    """An overloaded server refuses it: each try waits for a 16th of the session timeout."""
    queue = await with_items(client, 1)
    async with queue.get() as item:
        await passes(SESSION / 8)  # no renewal is due soon, which is a transaction, too
        before, began = server.requests["MULTI"], anyio.current_time()
        server.throttle(OpCode.MULTI, refused)
        await item.ack()
        took = anyio.current_time() - began
        assert took == pytest.approx(refused * SESSION / 16, abs=0.1)
        assert server.requests["MULTI"] == before + refused + 1
    assert await items_and_claims(server) == (0, 0)


@lost_message
@with_virtual_server
async def test_cancelled_lost_ack_is_no_loss(
    server: EmbeddedServer, client: Client, drop: Drop
) -> None:
    """Leaving gives the item back if it was not applied, and is no loss if it was."""
    queue = await with_items(client, 1)
    async with queue.get() as item:
        drop(server, OpCode.MULTI)
        with anyio.move_on_after(0):
            await item.ack()
    await passes(2 * SESSION)
    left = 0 if drop is EmbeddedServer.drop_reply else 1
    assert await items_and_claims(server) == (left, 0)


@with_virtual_server
async def test_cancelled_ack_is_repeated(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    queue = await with_items(client, 1)
    async with queue.get() as item:
        await passes(SESSION / 2)
        link.stall("to_client")
        with anyio.move_on_after(0.1):
            await item.ack()
        assert await items_and_claims(server) == (0, 0)
        link.heal()
        await item.ack()
        assert not item.is_held


@with_virtual_server
async def test_claim_is_lost_if_the_session_ends_before_the_ack_is_answered(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    """Nobody can know whether it was applied: the claim is lost, and says so."""
    queue = await with_items(client, 1)
    with pytest.raises(ClaimLost) as lost:
        async with queue.get() as item:
            link.refuse()
            server.drop_reply(OpCode.MULTI)
            await item.ack()
    assert lost.value.reason is LossReason.UNCONFIRMED
    assert lost.value.outcome is Outcome.UNKNOWN
    link.heal()


@with_virtual_server
async def test_lost_ack_of_a_deleted_claim(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    """That the claim has gone is no proof that the ack was applied: the item is still there."""
    async with connect(server) as operator:
        queue = await with_items(client, 1)

        async def meddle(claim: str) -> None:
            await settled()
            await operator.delete(claim)
            link.heal()

        async with anyio.create_task_group() as tasks:
            with pytest.raises(ClaimLost) as lost:
                async with queue.get() as item:
                    link.refuse()
                    server.drop_request(OpCode.MULTI)
                    tasks.start_soon(meddle, item.path)
                    await item.ack()
        assert lost.value.reason is LossReason.DELETED
        assert await items_and_claims(server) == (1, 0)


# --- putting -----------------------------------------------------------------------------------


@lost_message
@with_virtual_server
async def test_lost_put_is_reported_unknown(
    server: EmbeddedServer, client: Client, drop: Drop
) -> None:
    queue = await with_items(client, 0)
    puts: list[Callable[[], Awaitable[object]]] = [
        lambda: queue.put(b"x"),
        lambda: queue.put_many([b"x", b"x"]),
    ]
    for op, put in zip((OpCode.CREATE2, OpCode.MULTI), puts, strict=True):
        drop(server, op)
        with pytest.raises(ConnectionLossError) as lost:
            await put()
        assert lost.value.outcome is Outcome.UNKNOWN
    assert await queue.size() == (3 if drop is EmbeddedServer.drop_reply else 0)
    await queue.put(b"y")


# --- servers that are away ---------------------------------------------------------------------


@with_virtual_server
async def test_try_get_raises_when_no_server_answers(link: Link, client: Client) -> None:
    queue = await with_items(client, 1)
    link.down()
    await settled()
    with pytest.raises(ConnectionLossError):
        await enter(queue.try_get())
    link.heal()
    async with queue.get() as item:
        assert item.data == b"0"


@with_virtual_server
async def test_item_put_during_an_outage_is_seen(link: Link, client: Client, other: Client) -> None:
    async with anyio.create_task_group() as tasks:
        consumer = Holder((await with_items(client, 0)).get(), span=0)
        tasks.start_soon(consumer)
        await passes(1.0)
        link.down()
        await settled()
        await Queue(other, PATH).put(b"x")
        await passes(1.0)
        assert not consumer.has_entered
        link.heal()
    assert consumer.held.data == b"x"
