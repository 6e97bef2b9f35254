"""The holder in the errors and in the lines of those who wait for it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from kit.virtual_time import Link, embedded, passes, virtually, with_virtual_server
from logs.log_lines import Lines
from recipes.blocks import Block, Holder, enter

import aiolead
from aiolead import (
    AcquireTimeout,
    Client,
    Election,
    ExclusiveLock,
    Lock,
    MultiLock,
    Queue,
    ReadWriteLock,
    Semaphore,
)
from aiolead.events import Event, EventName
from aiolead.testing import EmbeddedServer
from aiolead.types import Layout

PATH = "/x"
HOLDER, WAITER = "host-1:4711", "host-2:17"


Make = Callable[[Client, str, float | None], Block]

RECIPES: dict[str, tuple[Make, int | None]] = {
    "Lock": (lambda c, who, t: Lock(c, PATH, identity=who).acquire(timeout=t), 1),
    "Election": (lambda c, who, t: Election(c, PATH, identity=who).leadership(timeout=t), 1),
    "reader": (
        lambda c, who, t: (
            ReadWriteLock(c, PATH, identity=who).read
            if who == WAITER
            else ReadWriteLock(c, PATH, identity=who).write
        ).acquire(timeout=t),
        1,
    ),
    "writer": (lambda c, who, t: ReadWriteLock(c, PATH, identity=who).write.acquire(timeout=t), 1),
    "ExclusiveLock": (
        lambda c, who, t: ExclusiveLock(c, PATH, identity=who).acquire(timeout=t),
        None,
    ),
    "Semaphore": (
        lambda c, who, t: Semaphore(c, PATH, 1, identity=who).acquire(timeout=t),
        None,
    ),
    "MultiLock": (lambda c, who, t: MultiLock(Lock(c, PATH, identity=who)).acquire(timeout=t), 1),
}


@pytest.mark.parametrize("timeout", [0, 2])
@pytest.mark.parametrize("recipe", RECIPES)
@with_virtual_server
async def test_timeout_names_the_holder(a: Client, b: Client, recipe: str, timeout: float) -> None:
    make, position = RECIPES[recipe]
    async with make(a, HOLDER, None):
        with pytest.raises(AcquireTimeout) as late:
            await enter(make(b, WAITER, timeout))
    error = late.value
    assert (error.holder, error.position) == (HOLDER, position)
    assert error.since is not None
    assert abs(error.since - time.time()) < 3600
    before = "" if position is None else ", 1 before us"
    assert re.search(rf"held by {HOLDER} \(there for \d+ s{before}\)$", str(error))


@pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO], ids=str)
@pytest.mark.parametrize("timeout", [0, 2])
@with_virtual_server
async def test_timeout_of_a_semaphore_names_the_oldest_permit_and_counts_them(
    a: Client, b: Client, layout: Layout, timeout: float
) -> None:
    async with anyio.create_task_group() as tasks:
        for number, client in ((3, a), (1, b), (2, a)):
            semaphore = Semaphore(client, PATH, 4, layout=layout, identity=f"host-{number}")
            tasks.start_soon(Holder(semaphore.acquire(permits=2 if number == 3 else 1)))
            await passes(1.0)
        with pytest.raises(AcquireTimeout) as late:
            await enter(Semaphore(b, PATH, 4, layout=layout).acquire(timeout=timeout))
        tasks.cancel_scope.cancel()
    error = late.value
    assert (error.holder, error.permits, error.position) == ("host-3", 4, None)
    assert re.search(r"held by host-3 \(there for \d+ s\), the oldest of 4 permits$", str(error))


@with_virtual_server
async def test_position_counts_all_before_us(a: Client, b: Client) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(Holder(Lock(a, PATH, identity=f"host-{number}").acquire()))
            await passes(0.1)
        with pytest.raises(AcquireTimeout) as late:
            await enter(Lock(b, PATH).acquire(timeout=1))
        tasks.cancel_scope.cancel()
    assert (late.value.holder, late.value.position) == ("host-0", 4)


@virtually
async def test_silent_server_costs_no_time_and_leaves_the_holder_unknown() -> None:
    async with embedded() as server:
        link = Link(server)
        async with Link(server).connect() as a, link.connect() as b, Lock(a, PATH):
            with anyio.fail_after(2.001):
                async with anyio.create_task_group() as tasks:

                    async def wait_in_vain() -> None:
                        with pytest.raises(AcquireTimeout) as late:
                            await enter(Lock(b, PATH).acquire(timeout=2))
                        assert late.value.holder is None

                    tasks.start_soon(wait_in_vain)
                    await passes(1.2)
                    link.blackhole()
            link.heal()


async def requests_of(server: EmbeddedServer, block: Block) -> dict[str, int]:
    before = server.requests.copy()
    await enter(block)
    return dict(server.requests - before)


@with_virtual_server
async def test_attempt_without_an_error_reads_nothing(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    await enter(Lock(b, PATH))
    async with Lock(a, PATH):
        seen = await requests_of(server, Lock(b, PATH).try_acquire())
        several = await requests_of(server, MultiLock(Lock(b, PATH)).try_acquire())
    assert "GET_DATA" not in seen
    assert "GET_DATA" not in several


@with_virtual_server
async def test_hostile_identity_is_escaped_and_cut(a: Client, b: Client) -> None:
    async with Lock(a, PATH, identity="\x1b[2J\n" + "x" * 1000):
        with pytest.raises(AcquireTimeout) as late:
            await enter(Lock(b, PATH).acquire(timeout=1))
    assert str(late.value).isprintable()
    assert len(str(late.value)) < 300
    assert late.value.holder is not None
    assert len(late.value.holder) == 1005


# --- long waits ----------------------------------------------------------------------------------


def waiting(lines: Lines, word: str = "waiting for") -> list[str]:
    return [each for each in lines.new() if word in each and "connected to" not in each]


@with_virtual_server
async def test_long_wait_names_the_holder_ever_more_rarely(
    a: Client, b: Client, lines: Lines
) -> None:
    behind = f"behind {HOLDER} (there for T, 1 before us)"
    async with Election(a, PATH, identity=HOLDER).leadership():
        with anyio.move_on_after(29.0):
            await enter(Election(b, PATH).leadership())
        assert waiting(lines) == []
        with anyio.move_on_after(300.0):
            await enter(Election(b, PATH).leadership())
    assert waiting(lines) == [
        f"I waiting for leadership of {PATH} for {lasts} {behind}"
        for lasts in ("30 s", "1 min 0 s", "2 min 0 s", "4 min 0 s")
    ]


@with_virtual_server
async def test_many_tasks_at_one_path_are_one_line(
    server: EmbeddedServer, a: Client, b: Client, lines: Lines
) -> None:
    async with Lock(a, PATH, identity=HOLDER), anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(enter, Lock(b, PATH).acquire())
        await passes(29.0)
        before = server.requests.copy()
        await passes(2.0)
        assert (server.requests - before)["GET_CHILDREN"] <= 1
        tasks.cancel_scope.cancel()
    (said,) = waiting(lines)
    assert said.startswith(f"I waiting for Lock {PATH} for 30 s behind {HOLDER} (there for ")


BLOCKED = (
    "W {0}: contenders wait for this znode, which belongs to no session: it will never go away by "
    "itself. It was created {1}. If no program needs it, delete it: aiolead rm {0}"
)


@with_virtual_server
async def test_foreign_znode_is_named_with_its_age_and_the_remedy(a: Client, lines: Lines) -> None:
    path = f"/app{PATH}"
    await a.ensure_path(path)
    made = await a.create(f"{path}/restored-lock-0000000000", b"host-9")
    created = datetime.fromtimestamp(made.stat.ctime / 1000, UTC)
    with anyio.move_on_after(1.0):
        await enter(Lock(a.chroot("/app"), PATH).acquire())
    with pytest.raises(AcquireTimeout):
        await enter(Lock(a, path).acquire(timeout=1))
    (said,) = waiting(lines, "contenders wait")
    assert said == BLOCKED.format(made.path, f"{created:%Y-%m-%d %H:%M:%S} UTC")


@with_virtual_server
async def test_everybody_behind_a_foreign_znode_learns_of_it(
    a: Client, b: Client, c: Client, lines: Lines
) -> None:
    await a.ensure_path(PATH)
    foreign = await a.create(f"{PATH}/restored-lock-0000000000", b"host-9")
    async with anyio.create_task_group() as tasks:
        for client in (a, b, c):
            tasks.start_soon(enter, Lock(client, PATH).acquire())
            await passes(0.1)
        # Two read it: the next one, and the one that watches it beside its predecessor.
        assert len(waiting(lines, "contenders wait")) == 2
        await passes(31.0)
        said = waiting(lines, "")
        tasks.cancel_scope.cancel()
    assert len(said) == 3
    assert all(each.startswith(f"W {foreign.path}: contenders wait") for each in said)


def test_foreign_znode_of_any_time_has_a_line() -> None:
    for created in (-1e300, -1.0, 0.0, 1e300, float("nan")):
        fields = {"znode": "/x/a-0000000000", "created": created}
        assert "It was created " in str(Event(EventName.CONTENTION_BLOCKED, 30, 1, "/x", fields))


@with_virtual_server
async def test_idle_consumer_is_no_long_wait(a: Client, lines: Lines) -> None:
    with anyio.move_on_after(100.0):
        await enter(Queue(a, "/queue").get())
    assert waiting(lines) == []


@virtually
async def test_wait_without_a_server_says_nothing_of_a_holder(lines: Lines) -> None:
    async with embedded() as server:
        link = Link(server)
        async with Link(server).connect() as a, link.connect() as b, Lock(a, PATH):
            with anyio.move_on_after(40.0):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(enter, Lock(b, PATH).acquire())
                    await passes(1.0)
                    link.down()
            link.heal()
    assert waiting(lines) == []


@with_virtual_server
async def test_nobody_reads_for_a_log_that_is_not_shown(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    async with Lock(a, PATH):
        with anyio.move_on_after(29.0):
            await enter(Lock(b, PATH))
        before = server.requests.copy()
        with anyio.move_on_after(100.0):
            await enter(Lock(b, PATH))
    assert (server.requests - before)["GET_CHILDREN"] <= 1


@virtually
async def test_long_wait_has_its_facts_as_fields() -> None:
    told: list[Event] = []
    async with embedded() as server:
        async with Link(server).connect() as a, Lock(a, PATH, identity=HOLDER):
            async with Link(server).connect(on_event=told.append) as b:
                with anyio.move_on_after(31.0):
                    await enter(Lock(b, PATH, identity=WAITER))
    (event,) = [event for event in told if event.name is EventName.CONTENTION_WAITING]
    fields: dict[str, Any] = dict(event.fields)
    assert fields.pop("waited") == pytest.approx(30.0, abs=0.5)
    assert fields.pop("age") < 3600
    assert fields == {
        "recipe": "Lock",
        "identity": WAITER,
        "holder": HOLDER,
        "is_known": 1,
        "position": 1,
    }
    assert aiolead.AcquireTimeout("x").holder is None
