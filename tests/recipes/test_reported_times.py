"""The events of a wait and of a hold: once each, with the time that it took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from kit.pages import RecordedEvents
from kit.virtual_time import connect, embedded, passes, virtually
from recipes.blocks import Holder

from aiolead import Client, Election, Lock, Queue
from aiolead.events import EventName

PATH = "/path"
CLOSE = 0.1
"""How exact a time is, in seconds: a few round trips may pass."""


@virtually
async def test_wait_and_hold_report_how_long_they_took() -> None:
    told = RecordedEvents()
    async with embedded() as server, connect(server) as other:
        async with connect(server, on_event=told) as client:
            await passes(10.0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(Holder(Lock(other, PATH), span=3.0))
                await passes(1.0)
                async with Lock(client, PATH):
                    await passes(5.0)
    (waited,) = told.of(EventName.CONTENTION_ENDED)
    (ended,) = told.of(EventName.TENURE_ENDED)
    assert waited.fields["waited"] == pytest.approx(2.0, abs=CLOSE)
    assert ended.fields["lasted"] == pytest.approx(5.0, abs=CLOSE)
    assert told.wrong == []


async def iterate(client: Client) -> None:
    """The first item is acknowledged, the second one released by the next iteration."""
    queue = Queue(client, PATH)
    await queue.put_many([b"1", b"2", b"3"])
    async with queue.consume() as items:
        count = 0
        async for item in items:
            count += 1
            await passes(1.0)
            if count == 1:
                await item.ack()
            if count == 3:
                break


async def iterate_cancelled(client: Client) -> None:
    """The iteration is cancelled as it releases an item."""
    queue = Queue(client, PATH)
    await queue.put_many([b"1", b"2"])
    with anyio.CancelScope() as scope:
        async with queue.consume() as items:
            async for _ in items:
                await passes(1.0)
                scope.cancel()


async def campaign(client: Client) -> None:
    async with Election(client, PATH).campaign() as states:
        async for state in states:
            if state.term is not None:
                await passes(1.0)
                return


async def campaign_that_resigns(client: Client) -> None:
    async with Election(client, PATH).campaign() as states:
        async for state in states:
            if state.term is not None:
                await passes(1.0)
                await state.term.resign()


@virtually
@pytest.mark.parametrize(
    ("use", "count"),
    [(iterate, 3), (iterate_cancelled, 1), (campaign, 1), (campaign_that_resigns, 1)],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_every_tenure_that_begins_is_reported_to_end(
    use: Callable[[Client], Awaitable[None]], count: int
) -> None:
    told = RecordedEvents()
    async with embedded() as server, connect(server, on_event=told) as client:
        await use(client)
        ended = told.of(EventName.TENURE_ENDED)
        tokens = [event.fields["token"] for event in ended]
        begun = [event.fields["token"] for event in told.of(EventName.TENURE_BEGUN)]
        assert tokens == begun
        assert len(ended) == count
        for event in ended:
            assert event.fields["lasted"] == pytest.approx(1.0, abs=CLOSE)
    assert told.wrong == []
