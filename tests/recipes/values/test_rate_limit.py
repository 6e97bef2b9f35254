"""A limit on calls per time that processes share."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import anyio
import pytest
from assurance.simulation.recipes.rates import most_beyond
from conftest import ServerUnderTest
from kit.clients import JumpingClock, in_memory, watches_the_bytes
from kit.every_recipe import calls_taken, rate_limit
from kit.faults import end_session
from kit.virtual_time import (
    Drop,
    Link,
    VirtualClock,
    embedded,
    goes_by_the_virtual_clock,
    lost_message,
    passes,
    virtually,
)
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import with_virtual_server as on_virtual_server

from aiolead import AcquireTimeout, Client, ConnectionLossError, NoNodeError, RateLimit
from aiolead._recipes.rate_limit import Share
from aiolead._util.token_bucket import Numbers, Write
from aiolead._wire.codes import OpCode
from aiolead.errors import ConfigurationError, InvalidDataError, MixedLayoutError
from aiolead.model import Stat
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/limits/api"

KEEPER = "clickhouse-keeper"
ENGINES = [(KEEPER, "24.8"), (KEEPER, "26.3"), (KEEPER, "26.9"), ("raftkeeper", "2.3")]


async def waits(limit: RateLimit, n: int = 1) -> float:
    """Acquires calls; returns how long that took, in seconds."""
    began = anyio.current_time()
    await limit.acquire(n)
    return anyio.current_time() - began


async def allowed(limit: RateLimit, tries: int, n: int = 1) -> int:
    """How many of some tries are allowed."""
    return sum([await limit.try_acquire(n) for _ in range(tries)])


def about(seconds: float) -> object:
    """Equal to that many seconds, within the few milliseconds of messages and clocks."""
    return pytest.approx(seconds, abs=0.01)


# --- what is allowed -----------------------------------------------------------------------------


@on_virtual_server
async def test_burst_is_allowed_at_once_and_then_the_rate(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=10, burst=3)
    assert [await waits(limit) for _ in range(5)] == [
        *(about(0), about(0), about(0)),
        *(about(0.1), about(0.1)),
    ]
    await passes(60)
    assert await allowed(limit, 5) == 3


@pytest.mark.parametrize(("engine", "version"), ENGINES)
@goes_by_the_virtual_clock
@virtually
async def test_burst_is_allowed_once_on_other_engines(engine: str, version: str) -> None:
    async with (
        embedded(engine=engine, version=version) as server,
        connect_virtually(server) as client,
    ):
        for n, path in ((1, PATH), (3, f"{PATH}-3")):
            limit = RateLimit(client, path, rate=10, burst=6)
            assert [await waits(limit, n) for _ in range(6 // n)] == [about(0)] * (6 // n)
            assert await waits(limit, n) == about(n / 10)


@on_virtual_server
async def test_calls_of_all_processes_count(a: Client, b: Client) -> None:
    mine, theirs = (RateLimit(client, PATH, rate=60, per=60, burst=4) for client in (a, b))
    assert await allowed(mine, 2) == 2
    assert await allowed(theirs, 5) == 2
    assert await waits(mine) == about(1)
    assert not await theirs.try_acquire()


@on_virtual_server
async def test_several_calls_are_allowed_together(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=1, burst=5)
    await limit.acquire(5)
    assert await waits(limit, 3) == about(3)
    assert not await limit.try_acquire(2)
    await passes(2.01)
    assert await limit.try_acquire(2)


@on_virtual_server
async def test_burst_defaults_to_the_rate_rounded_up(client: Client) -> None:
    assert await allowed(RateLimit(client, PATH, rate=2.5, per=60), 5) == 3


@on_virtual_server
async def test_tasks_are_served_in_order_of_arrival(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=10, burst=1)
    served: list[int] = []

    async def call(number: int) -> None:
        await limit.acquire()
        served.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(call, number)
            await anyio.lowlevel.checkpoint()
    assert served == list(range(20))


@on_virtual_server
async def test_processes_share_the_rate(a: Client, b: Client) -> None:
    """Two processes that ask all the time, with four tasks and with one."""
    made = {"a": 0, "b": 0}
    calls: list[tuple[float, int]] = []

    async def call(name: str, limit: RateLimit) -> None:
        while True:
            await limit.acquire()
            made[name] += 1
            calls.append((anyio.current_time(), 1))

    with anyio.move_on_after(20):
        async with anyio.create_task_group() as tasks:
            for name, client, count in (("a", a, 4), ("b", b, 1)):
                limit = RateLimit(client, PATH, rate=100, burst=10)
                for _ in range(count):
                    tasks.start_soon(call, name, limit)
    assert 1900 <= sum(made.values()) <= 2010
    assert min(made.values()) > 800
    assert most_beyond(calls, 100) <= 10 + 2  # the answers are as quick as the clock


@on_virtual_server
async def test_bound_holds_with_lost_messages_and_cancelled_calls(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    rng = random.Random(5)
    calls: list[tuple[float, int]] = []

    async def call(limit: RateLimit) -> None:
        for _ in range(60):
            n = rng.choice((1, 1, 3))
            is_allowed = False
            with (
                suppress(ConnectionLossError),
                anyio.move_on_after(rng.choice((0.001, 0.1, 10.0))),
            ):
                if rng.random() < 0.5:
                    is_allowed = await limit.try_acquire(n)
                else:
                    await limit.acquire(n)
                    is_allowed = True
            if is_allowed:
                calls.append((anyio.current_time(), n))
            if rng.random() < 0.1:
                rng.choice((server.drop_reply, server.drop_request))(OpCode.SET_DATA)
            await anyio.sleep(rng.choice((0.0, 0.0, 1.0)))

    async with anyio.create_task_group() as tasks:
        for client in (a, a, b):
            limit = RateLimit(client, PATH, rate=20, burst=5, max_age=0.5)
            for _ in range(3):
                tasks.start_soon(call, limit)
    assert sum(n for _, n in calls) > 200
    assert most_beyond(calls, 20) <= 5 + 20 * 0.5


# --- what it costs -------------------------------------------------------------------------------


@on_virtual_server
async def test_share_serves_the_calls_of_half_of_max_age(
    server: EmbeddedServer, client: Client
) -> None:
    limit = RateLimit(client, PATH, rate=1000)
    for _ in range(2000):
        await limit.acquire()
    before = server.requests.copy()
    for _ in range(1000):
        await limit.acquire()
    # Without reads, since nobody else writes.
    assert server.requests - before in ({"SET_DATA": 2}, {"SET_DATA": 3})


@on_virtual_server
async def test_one_write_serves_all_tasks_that_wait(server: EmbeddedServer, client: Client) -> None:
    limit = RateLimit(client, PATH, rate=1000)
    results: list[bool] = []

    async def call() -> None:
        results.append(await limit.try_acquire())

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(call)
    assert results == [True] * 100
    assert server.requests["CREATE2"] + server.requests["SET_DATA"] <= 4


@watches_the_bytes
@virtually
async def test_try_behind_another_one_is_allowed_what_that_has_left() -> None:
    """A share is a multiple of its task's number, and may leave nothing for those behind it."""
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client, anyio.create_task_group() as tasks:
            limit = RateLimit(client, PATH, rate=0.001, burst=9)
            results: dict[int, bool] = {}

            async def call(n: int) -> None:
                results[n] = await limit.try_acquire(n)

            # Both ask before the first one has read what there is.
            link.stall("to_client")
            for n in (2, 1):
                tasks.start_soon(call, n)
                await passes(0.1)
            link.heal()
        assert results == {2: True, 1: True}


@on_virtual_server
async def test_tries_beside_tasks_that_wait_use_what_those_leave(client: Client) -> None:
    """Nobody has to wait, so no try is refused, whichever of them asks first."""
    for acquires in (1, 3, 11):
        limit = RateLimit(client, f"{PATH}-{acquires}", rate=0.001, burst=12)
        results: list[bool] = []

        async def attempt(limit: RateLimit = limit, results: list[bool] = results) -> None:
            results.append(await limit.try_acquire())

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(limit.acquire if number < acquires else attempt)
        assert results == [True] * (12 - acquires)


@on_virtual_server
async def test_tries_are_refused_once_a_task_before_them_has_to_wait(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=0.1, burst=2)
    assert await limit.try_acquire()
    results: list[bool] = []

    async def attempt() -> None:
        results.append(await limit.try_acquire())

    async with anyio.create_task_group() as tasks:
        began = anyio.current_time()
        tasks.start_soon(limit.acquire, 2)
        for _ in range(5):
            tasks.start_soon(attempt)
        await passes(1)
        assert results == [False] * 5
    # The tries have taken nothing from the task that waits.
    assert anyio.current_time() - began == about(10)


@on_virtual_server
async def test_refusals_and_idle_limits_send_nothing(
    server: EmbeddedServer, client: Client
) -> None:
    limit = RateLimit(client, PATH, rate=1, per=60)
    await limit.acquire()
    assert not await limit.try_acquire()
    before = server.requests.copy()
    assert await allowed(limit, 1000) == 0
    assert server.requests == before
    await passes(30)
    assert server.requests["SET_DATA"] == before["SET_DATA"]


@on_virtual_server
async def test_share_is_no_greater_than_what_was_used(client: Client) -> None:
    """A process that makes few calls takes few tokens ahead, which others could have."""
    limit = RateLimit(client, PATH, rate=1000)
    for _ in range(3):
        await limit.acquire()
    fields = json.loads((await client.get(PATH))[0])
    assert fields["lack"] + fields["take"] <= 4


# --- timeouts and tries --------------------------------------------------------------------------


@on_virtual_server
async def test_timeout_is_raised_at_once_if_the_calls_come_too_late(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=0.1, burst=1)
    await limit.acquire()
    began = anyio.current_time()
    with pytest.raises(AcquireTimeout, match="api>: 1 calls are not allowed within 5 s"):
        await limit.acquire(timeout=5)
    with pytest.raises(AcquireTimeout, match="within 0 seconds"):
        await limit.acquire(timeout=0)
    assert anyio.current_time() - began == about(0)
    # Nothing was taken.
    assert await waits(limit) == about(10)


@on_virtual_server
async def test_timeout_counts_while_another_task_waits(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=0.1, burst=1)
    await limit.acquire()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limit.acquire)
        await passes(1)
        assert not await limit.try_acquire()
        began = anyio.current_time()
        with pytest.raises(AcquireTimeout):
            await limit.acquire(timeout=3)
        assert anyio.current_time() - began == about(3)


@on_virtual_server
async def test_timeout_zero_is_a_try(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=1, burst=2)
    await limit.acquire(2, timeout=0)
    await passes(1.01)
    await limit.acquire(timeout=0)


@on_virtual_server
async def test_cancelled_wait_leaves_its_calls_to_the_next_task(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=0.1, burst=1)
    await limit.acquire()
    with anyio.move_on_after(4):
        await limit.acquire()
    assert await waits(limit) == about(6)


# --- failures ------------------------------------------------------------------------------------


@lost_message
@virtually
async def test_lost_message_grants_nothing_twice(drop: Drop) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        await client.ensure_path("/limits")
        limit = rate_limit(client, PATH)
        for made in range(1, 6):
            drop(server, OpCode.SET_DATA if made > 1 else OpCode.CREATE2)
            await limit.acquire()
            taken = await calls_taken(client, PATH)
            # A share whose answer was lost is lost.
            assert taken == made * (2 if drop is EmbeddedServer.drop_reply else 1)


@goes_by_the_virtual_clock
@virtually
async def test_share_is_lost_with_its_process() -> None:
    async with embedded() as server, connect_virtually(server) as b:
        async with connect_virtually(server) as a:
            limit = RateLimit(a, PATH, rate=10, burst=100)
            for _ in range(3):
                await limit.acquire()
            taken = json.loads((await a.get(PATH))[0])
        other = RateLimit(b, PATH, rate=10, burst=100)
        assert await allowed(other, 110) == 100 - taken["lack"] - taken["take"] == 97


@watches_the_bytes
@virtually
async def test_lost_connection_leaves_the_calls_at_hand() -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client:
            limit = RateLimit(client, PATH, rate=100, burst=100)
            for _ in range(32):
                await limit.acquire()
            link.refuse()
            link.reset()
            at_hand = 0
            with pytest.raises(AcquireTimeout):
                while True:
                    await limit.acquire(timeout=1)
                    at_hand += 1
            assert 0 < at_hand <= 50
            link.heal()
            await limit.acquire()


@watches_the_bytes
@virtually
async def test_try_does_not_wait_for_a_connection() -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client:
            limit = RateLimit(client, PATH, rate=100, burst=3)
            assert await limit.try_acquire()
            link.refuse()
            link.reset()
            began = anyio.current_time()
            for attempt in (limit.try_acquire(), limit.acquire(timeout=0)):
                with pytest.raises(ConnectionLossError):
                    await attempt
            assert anyio.current_time() - began == about(0)
            link.heal()
            await client.ready()
            # The connection is lost while the answer is on its way.
            server.drop_reply(OpCode.SET_DATA)
            with pytest.raises(ConnectionLossError):
                await limit.try_acquire()
            await client.ready()
            assert await limit.try_acquire()


@goes_by_the_virtual_clock
@virtually
async def test_late_answer_and_late_process_use_no_calls() -> None:
    """Tokens are dropped `max_age` seconds after they were due."""
    now = VirtualClock()
    clock = JumpingClock(now)
    async with embedded() as server, connect_virtually(server, clock=clock) as client:
        limit = RateLimit(client, PATH, rate=10, burst=100, max_age=0.5)
        for _ in range(16):
            await limit.acquire()
        share = limit._share
        assert share.given < share.count
        clock.jump(0.4)
        await limit.acquire()
        assert limit._share is share
        clock.jump(0.2)
        await limit.acquire()
        assert limit._share is not share


@watches_the_bytes
@virtually
async def test_answer_that_takes_longer_than_max_age_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client, anyio.create_task_group() as tasks:
            limit = RateLimit(client, PATH, rate=100)
            assert await limit.try_acquire()
            link.stall("to_client")

            async def heal() -> None:
                await passes(1.2)
                link.heal()

            tasks.start_soon(heal)
            assert not await limit.try_acquire()
            assert await limit.try_acquire()
    (warning,) = [each.getMessage() for each in caplog.records if "max_age" in each.getMessage()]
    assert warning == f"{PATH}: a write took 1.2 s, so its tokens are lost: pass a max_age above 1"


def share(**changes: float) -> Share:
    fields = {"lack": 8.0, "count": 4, "sent": 100.0, "answered": 100.25} | changes
    return Share(Numbers(1.0, 1.0, 10), **fields)  # type: ignore[arg-type]


def test_tokens_of_a_share_are_due_one_after_the_other() -> None:
    mine = share()
    found = []
    while (ready := mine.ready(1, 101.0, 10.0)) is not None:
        found.append(ready)
        mine.given += 1
    # By the time of the answer, since the write was not later.
    assert found == [100.25, 100.25, 101.25, 102.25]
    assert share().ready(3, 101.0, 10.0) == 101.25
    assert share().ready(5, 101.0, 10.0) is None


def test_tokens_that_are_too_old_are_dropped() -> None:
    """By the time of the request, since the write was not earlier."""
    assert share().ready(1, 100.9, 1.0) == 100.25
    assert share().ready(1, 101.1, 1.0) == 101.25
    assert share().ready(1, 102.1, 1.0) == 102.25
    assert share().ready(1, 103.1, 1.0) is None
    # Those that are used together are as old as the last of them.
    assert share().ready(4, 102.9, 1.0) == 102.25
    assert share().ready(4, 103.1, 1.0) is None
    # An answer that took too long.
    assert share(answered=101.1).ready(1, 101.1, 1.0) is None


def test_earliest_time_for_others_is_after_all_that_was_taken() -> None:
    assert share().earliest(1) == 103.0
    assert share(count=0, lack=3.0).earliest(7) == 100.0


# --- whose clock counts --------------------------------------------------------------------------


def written(at: int, zxid: int) -> Stat:
    return Stat(1, zxid, 0, at, 0, 0, 0, 0, 0, 0, 1)


NUMBERS = Numbers(10.0, 1.0, 100)


@pytest.mark.parametrize(
    ("at", "zxid", "lack"),
    [
        pytest.param(2000, 0x100000009, 40.0, id="a second later"),
        pytest.param(1000, 0x100000009, 50.0, id="at once"),
        pytest.param(900, 0x100000009, 50.0, id="the clock was set back by a little"),
        pytest.param(-59_001, 0x100000009, 50.0, id="the clock was set back by more than a minute"),
        pytest.param(900_000, 0x100000009, 0.0, id="a long time later"),
        pytest.param(900_000, 0x200000001, 50.0, id="another leader, whose clock is another one"),
    ],
)
def test_time_counts_between_two_writes_of_one_leader(at: int, zxid: int, lack: float) -> None:
    write = Write(NUMBERS, lack=50.0, at=1000, epoch=1, take=5, ahead=0.5, least=2)
    assert write.applied(written(at, zxid)) == (lack, 5)
    after = write.followed(written(at, zxid), 1, 0.5, 1, None)
    latest = 1000 if at == 900 else at
    assert (after.lack, after.at, after.epoch) == (lack + 5, latest, zxid >> 32)


def test_clocks_of_several_servers_give_the_tokens_of_one() -> None:
    """As on ClickHouse Keeper: each write has the time of the server that the client is on."""
    write, taken = Write(NUMBERS, lack=100.0), 0
    for n in range(1000):
        write = write.followed(written(10 * n + (n % 2) * 5000, n + 1), 1, 0.0, 0, None)
        taken += write.applied(written(10 * n + 10 + ((n + 1) % 2) * 5000, n + 2))[1]
    # In 10 seconds, and those 5 by which one clock is ahead.
    assert taken <= 100 + 15 * 10


@pytest.mark.parametrize(("within", "took"), [(None, 5), (0.0, 0), (0.4, 0), (0.5, 5)])
def test_write_takes_nothing_that_is_due_too_late(within: float | None, took: int) -> None:
    write = Write(NUMBERS, lack=100.0, take=9, least=5, within=within)
    assert write.applied(written(1000, 1)) == (100.0, took)
    assert Write.parse(PATH, write.encode(), written(0, 1)) == write


@pytest.mark.parametrize(("lack", "took"), [(0, 30), (79, 26), (100, 5), (103, 3), (200, 2)])
def test_write_takes_nothing_beyond_the_least_that_is_due_later(lack: float, took: int) -> None:
    write = Write(NUMBERS, lack=lack, take=30, ahead=1.0, least=2)
    assert write.applied(written(1000, 1)) == (lack, took)


@pytest.mark.parametrize(
    ("lack", "later", "level"),
    [(0, 0.0, 95.0), (0, 0.2, 97.0), (0, 60.0, 100.0), (103, 0.0, -8.0), (103, -5.0, -8.0)],
)
def test_level_grows_from_the_last_write_to_the_burst(
    lack: float, later: float, level: float
) -> None:
    write = Write(NUMBERS, lack=lack, take=5, least=5)
    assert write.level(written(1000, 1), 1.0 + later) == pytest.approx(level)


# --- numbers -------------------------------------------------------------------------------------


@on_virtual_server
async def test_other_numbers_are_refused(server: EmbeddedServer, a: Client, b: Client) -> None:
    await RateLimit(a, PATH, rate=5, per=1, burst=5).acquire()
    before = server.requests["SET_DATA"]
    for numbers in ({"rate": 6}, {"rate": 5, "per": 2}, {"rate": 5, "burst": 6}):
        limit = RateLimit(b, PATH, **numbers)  # type: ignore[arg-type]
        for attempt in (limit.acquire, limit.try_acquire):
            with pytest.raises(MixedLayoutError, match="has rate=5, per=1, burst=5, not rate="):
                await attempt()
    assert server.requests["SET_DATA"] == before


@on_virtual_server
async def test_limit_without_numbers_follows_the_stored_ones(a: Client, b: Client) -> None:
    follower = RateLimit(b, PATH)
    with pytest.raises(NoNodeError, match="no rate is stored"):
        await follower.acquire()
    await RateLimit(a, PATH, rate=2, burst=3).acquire()
    assert await allowed(follower, 5) == 2
    with pytest.raises(ConfigurationError, match="n: must be at most 3, not 4"):
        await follower.acquire(4)
    await follower.set_rate(10, burst=6)
    assert await waits(follower) == about(0)
    await RateLimit(a, PATH, rate=10, burst=6).acquire()


@on_virtual_server
async def test_new_rate_counts_for_all_processes(a: Client, b: Client) -> None:
    owner, follower = RateLimit(a, PATH, rate=1, burst=10), RateLimit(b, PATH)
    assert await allowed(owner, 10) == 10
    await passes(5)
    await owner.set_rate(100, burst=10)
    # The time before the change is not counted, neither by the old rate nor by the new one.
    assert await allowed(follower, 3) == 0
    assert await waits(owner) == about(0.01)
    assert await waits(follower) <= 0.03
    stale = RateLimit(a, PATH, rate=1, burst=10)
    with pytest.raises(MixedLayoutError):
        await stale.acquire()


async def test_tasks_go_on_while_another_one_changes_the_rate() -> None:
    """One object has the old numbers and the new ones for a moment."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        limit = RateLimit(client, PATH, rate=10_000)

        async def use() -> None:
            while True:
                await limit.acquire(3)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(use)
            for more in range(100):
                await limit.set_rate(10_000 + more)
            tasks.cancel_scope.cancel()


@on_virtual_server
async def test_rate_may_be_stored_by_a_call_that_was_cancelled(link: Link, client: Client) -> None:
    limit = RateLimit(client, PATH, rate=5)
    await limit.acquire()
    link.hold_reply(OpCode.SET_DATA)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limit.set_rate, 6)
        await passes(0.1)
        tasks.cancel_scope.cancel()
    link.heal()
    for _ in range(12):
        await limit.acquire()
    with pytest.raises(MixedLayoutError):
        await RateLimit(client, PATH, rate=4).acquire()


@on_virtual_server
async def test_refusal_is_not_believed_longer_than_max_age(a: Client, b: Client) -> None:
    limit = RateLimit(a, PATH, rate=1, per=3600)
    await limit.acquire()
    assert not await limit.try_acquire()
    await RateLimit(b, PATH).set_rate(100)
    limit._numbers = None
    await passes(1.1)
    assert await limit.try_acquire()


@on_virtual_server
async def test_deleted_path_begins_full(client: Client) -> None:
    limit = RateLimit(client, PATH, rate=0.01, burst=2)
    assert await allowed(limit, 3) == 2
    await client.delete(PATH)
    await passes(2)
    assert await allowed(limit, 3) == 2
    await client.set(PATH, b"")
    await passes(2)
    assert await allowed(limit, 3) == 2


@on_virtual_server
async def test_data_that_are_no_limit_are_refused(client: Client) -> None:
    await client.ensure_path(PATH)
    limit = RateLimit(client, PATH, rate=5)
    for data in (b"?", b"{}", b"[]", (5).to_bytes(8, "big")):
        await client.set(PATH, data)
        for attempt in (limit.acquire, limit.try_acquire):
            with pytest.raises(InvalidDataError):
                await attempt()
        with pytest.raises(InvalidDataError):
            await limit.set_rate(5)


# --- real servers --------------------------------------------------------------------------------


@pytest.mark.only_zookeeper("a session that outlives its connection")
@pytest.mark.prefers_real_servers
async def test_limit_holds_in_real_time_while_sessions_end(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    calls: list[tuple[float, int]] = []

    async def call(limit: RateLimit) -> None:
        for _ in range(15):
            await limit.acquire()
            calls.append((anyio.current_time(), 1))

    async with anyio.create_task_group() as tasks:
        for client in (a, b):
            limit = RateLimit(client, PATH, rate=50, burst=5)
            for _ in range(2):
                tasks.start_soon(call, limit)
        for client in (a, b):
            await end_session(server.hosts, client)
    assert len(calls) == 60
    assert most_beyond(calls, 50) <= 5 + 50
