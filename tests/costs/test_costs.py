"""The measured costs are those of the tables, on every event loop."""

from __future__ import annotations

import re
from dataclasses import replace

import anyio
import pytest
import trio

from aiolead import Lock
from costs import _tables as tables
from costs import lock
from costs._counting import PATH, Bench, Cost, Operation, measure

PAGE = tables.PAGE.read_text("utf-8")
LATE_ON_TRIO = "Lock: 200 contenders of one client join"
"""trio runs tasks in a random order. So the second contender may look before the first one knows
that it is in front, takes it for a waiter, and watches it a round trip later."""
ROWS = [operation for rows in tables.groups().values() for operation in rows]


@pytest.mark.exhaustive("each case is one row of the table of costs", one_in=3)
@pytest.mark.parametrize(
    "operation",
    # Locks stand for the other recipes that contend, so they are all promises.
    [
        pytest.param(row, marks=[pytest.mark.promise] * (row.recipe == "Lock"), id=str(row))
        for row in ROWS
    ],
)
async def test_operation_costs_what_the_page_says(operation: Operation) -> None:
    cost = await measure(operation)
    if str(operation) == LATE_ON_TRIO and trio.lowlevel.in_trio_run():
        assert cost.round_trips in (3, 4)
        cost = replace(cost, round_trips=3)
    line = tables.row(operation, cost)
    assert line in PAGE, "if it may cost that: python -m tests.costs --write"


def test_each_group_has_a_table() -> None:
    sections = dict(re.findall(r"^### (.*)\n\n((?:\|.*\n)*)", PAGE, re.MULTILINE))
    groups = tables.groups()
    assert set(sections) == {tables.title(name) for name in groups}
    for name, rows in groups.items():
        assert sections[tables.title(name)].count("\n") == len(rows) + 2


def test_rows_for_users_are_rows_of_the_table() -> None:
    rows = {tables.short_row(row) for row in re.findall(r"^\| `.*\n", PAGE, re.MULTILINE)}
    shown = re.findall(r"^\| `.*", tables.SUMMARY.read_text("utf-8"), re.MULTILINE)
    assert len(shown) > 20
    assert set(shown) <= rows


def test_names_of_rows_are_unique() -> None:
    assert len(set(map(str, ROWS))) == len(ROWS)


# --- the measure itself ------------------------------------------------------------------------


async def test_no_operation_costs_nothing() -> None:
    async def nothing(bench: Bench) -> None:
        await bench.client()
        async with bench.measured():
            pass

    assert await measure(Operation("x", "nothing", nothing)) == Cost((), 0, 0, 0, 0)


async def test_requests_one_after_another_are_as_many_round_trips() -> None:
    async def twice(bench: Bench) -> None:
        client = await bench.client()
        async with bench.measured():
            await client.exists("/")
            await client.exists("/", watch=client.backend.make_watch())

    cost = await measure(Operation("x", "twice", twice))
    assert (cost.requests, cost.round_trips, cost.watches) == ((("exists", 2),), 2, 1)


async def test_requests_at_once_are_one_round_trip() -> None:
    async def at_once(bench: Bench) -> None:
        one, other = await bench.client(), await bench.client()
        async with bench.measured():
            replies = [client.exists("/") for client in (one, one, other)]
            for reply in replies:
                await reply

    cost = await measure(Operation("x", "at once", at_once))
    assert (cost.requests, cost.round_trips) == ((("exists", 3),), 1)
    # A header of 8 bytes, the path and a flag, in a frame; back, 16 bytes and a Stat.
    assert (cost.sent, cost.received) == (3 * (4 + 8 + 5 + 1), 3 * (4 + 16 + 68))


async def test_request_without_a_wait_takes_no_round_trip() -> None:
    async def behind(bench: Bench) -> None:
        client = await bench.client()
        await bench.start()
        client.exists("/")
        await bench.stop()

    cost = await measure(Operation("x", "behind", behind))
    assert (cost.requests, cost.round_trips) == ((("exists", 1),), 0)


async def test_event_for_another_client_takes_one_round_trip() -> None:

    async def tell(bench: Bench) -> None:
        one, other = await bench.client(), await bench.client()
        watch = other.backend.make_watch()
        await other.exists("/told", watch=watch)
        async with bench.measured():
            one.create("/told")
            await watch.wait()

    cost = await measure(Operation("x", "tell", tell))
    assert (cost.requests, cost.round_trips) == ((("create2", 1),), 1)


async def test_killed_client_is_not_counted() -> None:
    async def die(bench: Bench) -> None:
        dead = await bench.client()
        lock = Lock(dead, PATH)
        async with anyio.create_task_group() as tasks:

            async def hold() -> None:
                async with lock:
                    await anyio.sleep_forever()

            tasks.start_soon(hold)
            await bench.settle()
            bench.kill(dead)
            async with bench.measured():
                bench.server.expire_session(dead.session_id)
                await bench.quiet()
            assert not [path for path in bench.server.znodes() if path.startswith(PATH + "/")]
            tasks.cancel_scope.cancel()

    assert await measure(Operation("x", "die", die)) == Cost((), 0, 0, 0, 0)


async def test_higher_costs_are_noticed() -> None:
    async def dearer(bench: Bench) -> None:
        client = await bench.client()
        one = lock.lock(client)
        async with one:
            pass
        await bench.start()
        await client.exists("/")
        async with one:
            await bench.stop()

    (alone,) = [row for row in lock.ROWS if row.act is lock.acquire_again]
    line = tables.row(Operation(alone.recipe, alone.name, dearer), await measure(alone))
    assert line in PAGE
    more = await measure(Operation(alone.recipe, alone.name, dearer))
    assert tables.row(alone, more) not in PAGE
