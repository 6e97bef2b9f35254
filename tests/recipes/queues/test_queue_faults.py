"""Queues when answers are lost, sessions end and consumers die: on virtual time, exactly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from kit.clients import contenders_left
from kit.virtual_time import SESSION, Link, connect, on_virtual_time, passes, settled

from aiolead import Client, ConnectionLossError, Queue
from aiolead.errors import ClaimLost, LossReason, Outcome
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PATH, CLAIMS = "/jobs", "/jobs-claims"

Drop = Callable[[EmbeddedServer, OpCode], None]
answers = pytest.mark.parametrize(
    "drop",
    [EmbeddedServer.drop_reply, EmbeddedServer.drop_request],
    ids=["answer lost", "request lost"],
)


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


@answers
def test_the_answer_to_a_claim_is_lost(backend: Backend, drop: Drop) -> None:
    """It is looked for, not made twice: the item is the first, and there is one claim."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client:
            queue = await with_items(client, 2)
            drop(server, OpCode.MULTI)
            async with queue.get() as item:
                assert item.data == b"0"
                assert contenders_left(server, CLAIMS) == [item.path]
                await item.ack()
            assert await items_and_claims(server) == (1, 0)

    on_virtual_time(backend, play)


@answers
def test_the_answer_to_a_claim_is_lost_and_nobody_wants_it_any_more(
    backend: Backend, drop: Drop
) -> None:
    """Cancelled before it knows: the claim, if there is one, is a debt that the client pays."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, connect(server) as other:
            queue = await with_items(client, 1)
            link.room = 0
            drop(server, OpCode.MULTI)
            with anyio.move_on_after(1.0):
                async with queue.get():
                    raise AssertionError("nobody told it that it is ours")
            assert client.state is SessionState.SUSPENDED
            link.restore()
            async with Queue(other, PATH).get() as item:
                assert item.data == b"0"
                await item.ack()
            await passes(2 * SESSION)
            assert await items_and_claims(server) == (0, 0)
            await queue.put(b"1")
            async with queue.get() as item:
                assert item.data == b"1"

    on_virtual_time(backend, play)


def test_an_item_is_released_by_others_while_a_lost_claim_reserves_it(backend: Backend) -> None:
    """No watch fires when the reservation ends: who waits gets the item all the same."""

    async def play(server: EmbeddedServer) -> None:
        link, got = Link(server), anyio.Event()
        async with (
            link.connect() as client,
            connect(server) as other,
            anyio.create_task_group() as tasks,
        ):
            queue = await with_items(client, 1)

            async def consume() -> None:
                async with queue.get():
                    got.set()

            link.room = 0
            server.drop_request(OpCode.MULTI)
            tasks.start_soon(consume)
            await passes(1.0)
            assert client.state is SessionState.SUSPENDED
            async with Queue(other, PATH).get():
                link.restore()
                await passes(1.0)  # the item is refused, since it is taken
                assert not got.is_set()
            await passes(2 * SESSION)
            assert got.is_set()

    on_virtual_time(backend, play)


@answers
def test_an_item_that_a_cancelled_consumer_has_reserved(backend: Backend, drop: Drop) -> None:
    """Another queue object of the same client gets it, though nothing changes on the servers."""

    async def play(server: EmbeddedServer) -> None:
        link, got = Link(server), anyio.Event()
        async with link.connect() as client, anyio.create_task_group() as tasks:
            queue = await with_items(client, 1)

            async def consume() -> None:
                async with Queue(client, PATH).get():
                    got.set()

            link.room = 0
            drop(server, OpCode.MULTI)
            with anyio.move_on_after(1.0):
                async with queue.get():
                    raise AssertionError("nobody told it that it is ours")
            tasks.start_soon(consume)
            link.restore()
            await passes(2 * SESSION)
            assert got.is_set()

    on_virtual_time(backend, play)


def test_the_session_ends_while_an_item_is_claimed(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, anyio.create_task_group() as tasks:
            queue = await with_items(client, 1)
            got: list[int] = []

            async def consume() -> None:
                async with queue.get() as item:
                    got.append(item.session_id)
                    await item.ack()

            before = client.session_id
            link.room = 0
            server.drop_reply(OpCode.MULTI)
            tasks.start_soon(consume)
            await settled()
            assert await items_and_claims(server) == (1, 1)
            server.expire_session(before)
            link.restore()
        assert got == [got[0]] != [before]
        assert await items_and_claims(server) == (0, 0)

    on_virtual_time(backend, play)


def test_claims_of_the_dead_are_noticed(backend: Backend) -> None:
    """By whoever waits, as soon as the servers know it, and in the order of the items."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        got: list[tuple[float, bytes]] = []

        async def consume(queue: Queue) -> None:
            async with queue.consume() as items:
                async for item in items:
                    got.append((anyio.current_time(), item.data))
                    await item.ack()

        async with (
            link.connect() as dead,
            connect(server) as heir,
            anyio.create_task_group() as tasks,
        ):
            queue = await with_items(dead, 2)
            with pytest.raises(ClaimLost):
                async with queue.get(), queue.get():
                    tasks.start_soon(consume, Queue(heir, PATH))
                    await passes(1.0)
                    assert got == []
                    began = anyio.current_time()
                    link.lose()
                    await anyio.sleep_forever()
            ended = anyio.current_time()
            await passes(2 * SESSION)
            tasks.cancel_scope.cancel()
        assert [data for _, data in got] == [b"0", b"1"]
        # The body had ended before the servers gave its items to somebody else.
        assert began < ended < got[0][0] < began + 1.5 * SESSION

    on_virtual_time(backend, play)


# --- acknowledging -----------------------------------------------------------------------------


@answers
def test_the_answer_to_an_ack_is_lost(backend: Backend, drop: Drop) -> None:
    """The acknowledgement finds out, and is repeated where it was not applied."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client, connect(server) as other:
            queue = await with_items(client, 2)
            async with queue.get() as item:
                await passes(SESSION / 2)  # it is watched by now
                drop(server, OpCode.MULTI)
                await item.ack()
                assert await items_and_claims(server) == (1, 0)
            async with Queue(other, PATH).get() as item:
                assert item.data == b"1"

    on_virtual_time(backend, play)


@pytest.mark.parametrize("refused", [1, 2])
def test_ack_waits_between_its_tries(backend: Backend, refused: int) -> None:
    """An overloaded server refuses it: each try waits for a 16th of the session timeout."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client:
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

    on_virtual_time(backend, play)


@answers
def test_an_ack_is_abandoned(backend: Backend, drop: Drop) -> None:
    """Leaving gives the item back if it was not applied, and is no loss if it was."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client:
            queue = await with_items(client, 1)
            async with queue.get() as item:
                drop(server, OpCode.MULTI)
                with anyio.move_on_after(0):
                    await item.ack()
            await passes(2 * SESSION)
            left = 0 if drop is EmbeddedServer.drop_reply else 1
            assert await items_and_claims(server) == (left, 0)

    on_virtual_time(backend, play)


def test_an_ack_is_abandoned_and_made_again(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client:
            queue = await with_items(client, 1)
            async with queue.get() as item:
                await passes(SESSION / 2)
                link.hold()
                with anyio.move_on_after(0.1):
                    await item.ack()
                assert await items_and_claims(server) == (0, 0)
                link.release()
                await item.ack()
                assert not item.is_held

    on_virtual_time(backend, play)


def test_the_session_ends_while_an_ack_is_unanswered(backend: Backend) -> None:
    """Nobody can know whether it was applied: the claim is lost, and says so."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client:
            queue = await with_items(client, 1)
            with pytest.raises(ClaimLost) as lost:
                async with queue.get() as item:
                    link.room = 0
                    server.drop_reply(OpCode.MULTI)
                    await item.ack()
            assert lost.value.reason is LossReason.UNCONFIRMED
            assert lost.value.outcome is Outcome.UNKNOWN
            link.restore()

    on_virtual_time(backend, play)


def test_a_claim_is_taken_away_while_the_answer_to_an_ack_is_lost(backend: Backend) -> None:
    """That the claim has gone is no proof that the ack was applied: the item is still there."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, connect(server) as operator:
            queue = await with_items(client, 1)

            async def meddle(claim: str) -> None:
                await settled()
                await operator.delete(claim)
                link.restore()

            async with anyio.create_task_group() as tasks:
                with pytest.raises(ClaimLost) as lost:
                    async with queue.get() as item:
                        link.room = 0
                        server.drop_request(OpCode.MULTI)
                        tasks.start_soon(meddle, item.path)
                        await item.ack()
            assert lost.value.reason is LossReason.DELETED
            assert await items_and_claims(server) == (1, 0)

    on_virtual_time(backend, play)


# --- putting -----------------------------------------------------------------------------------


@answers
def test_the_answer_to_a_put_is_lost(backend: Backend, drop: Drop) -> None:
    """Nobody can know whether it was applied, and it says so."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client:
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

    on_virtual_time(backend, play)


# --- servers that are away ---------------------------------------------------------------------


def test_to_try_gives_up_when_no_server_answers(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client:
            queue = await with_items(client, 1)
            link.lose()
            await settled()
            with pytest.raises(ConnectionLossError):
                async with queue.try_get():
                    pass
            link.restore()
            async with queue.get() as item:
                assert item.data == b"0"

    on_virtual_time(backend, play)


def test_the_link_breaks_while_nothing_can_be_had(backend: Backend) -> None:
    """What is put while nobody can tell us is seen after it is back."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        got: list[bytes] = []
        async with link.connect() as client, connect(server) as other:
            queue = await with_items(client, 0)

            async def consume() -> None:
                async with queue.get() as item:
                    got.append(item.data)
                    await item.ack()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consume)
                await passes(1.0)
                link.lose()
                await settled()
                await Queue(other, PATH).put(b"x")
                await passes(1.0)
                assert got == []
                link.restore()
            assert got == [b"x"]

    on_virtual_time(backend, play)
