"""The semaphore: how many hold at once, who is next, what the limit does, and what is lost."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    Wire,
    catch_up,
    connect,
    contenders_left,
    eventually,
    joined,
    names,
    stopped_clock,
)
from kit.virtual_time import SESSION, Link, on_virtual_time, passes, settled
from kit.virtual_time import connect as connect_virtually

from aiolead import AcquireTimeout, Client, CreateMode, Held, LockLost, Semaphore
from aiolead._recipes.locks.semaphore.permits import Permits
from aiolead.errors import (
    AlreadyHeldError,
    ConfigurationError,
    InvalidDataError,
    LossReason,
    MixedLayoutError,
    UsageError,
)
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend
from aiolead.types import Layout

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/semaphore"
LEASES = f"{PATH}/leases"
LOCKS = f"{PATH}/locks"

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


class Count:
    """How many permits are out, and how many there were at most."""

    def __init__(self) -> None:
        self.now = self.most = self.turns = 0
        self.order: list[str] = []

    async def hold(
        self, semaphore: Semaphore, permits: int = 1, name: str = "", span: float = 0.0
    ) -> None:
        async with semaphore.acquire(permits=permits):
            self.now += permits
            self.turns += 1
            self.most = max(self.most, self.now)
            self.order.append(name)
            await anyio.sleep(span)
            self.now -= permits


# --- on every server -----------------------------------------------------------------------------


async def test_never_more_than_the_limit(server: ServerUnderTest) -> None:
    count = Count()
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        for semaphore in (Semaphore(a, PATH, 3), Semaphore(b, PATH, 3)):
            for permits in (1, 2, 1, 3, 1):
                tasks.start_soon(count.hold, semaphore, permits)
    assert count.turns == 10
    assert count.most == 3


async def test_first_come_first_served(server: ServerUnderTest) -> None:
    """Who wants many is not passed by those behind who want few."""
    count = Count()
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        semaphore = Semaphore(a, PATH, 3)
        async with semaphore.acquire(permits=2):
            tasks.start_soon(count.hold, Semaphore(b, PATH, 3), 2, "many")
            await joined(a, LOCKS, 1)
            for number, name in enumerate(("few", "fewer")):
                tasks.start_soon(count.hold, semaphore, 1, name)
                await joined(a, LOCKS, 2 + number)
            await anyio.sleep(0.05)
            assert count.order == []
    assert count.order == ["many", "few", "fewer"]


async def test_who_holds_and_who_waits(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        semaphore = Semaphore(a, PATH, 3, identity="a")
        other = Semaphore(b, PATH, 3, identity="b")
        assert (await semaphore.holders(), await semaphore.contenders()) == ([], [])
        assert await semaphore.available() == await semaphore.limit() == 3
        async with semaphore.acquire(permits=2) as held:
            await held.verify()
            first, second = await semaphore.holders()
            assert (first.identity, second.identity) == ("a", "a")
            assert first.token < second.token == held.token
            assert (second.path, second.session_id) == (held.path, a.session_id)
            assert await semaphore.available() == 1
            tasks.start_soon(Count().hold, other, 3)
            await joined(a, LOCKS, 1)
            await eventually(_count_is(a, LEASES, 5), "it has made its permits")
            seen: list[tuple[str, bool]] = []

            async def is_known_to_wait() -> bool:
                await catch_up(a)
                seen[:] = [(c.identity, c.is_holder) for c in await semaphore.contenders()]
                return seen == [("a", True), ("a", True), ("b", False)]

            await eventually(is_known_to_wait, f"b waits: {seen}")
            assert await semaphore.available() == 0
            async with semaphore.try_acquire() as more:
                assert more is None


def _count_is(client: Client, path: str, count: int):
    async def is_so() -> bool:
        return len(await names(client, path)) == count

    return is_so


async def test_waiting_ends_in_time(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Semaphore(a, PATH, 2).acquire(permits=2):
            for wait in (0, 0.05):
                with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
                    async with Semaphore(b, PATH, 2).acquire(timeout=wait):
                        pytest.fail("three hold it")
            await eventually(_count_is(a, LOCKS, 0), "nobody waits")
            await eventually(_count_is(a, LEASES, 2), "no permit is left")


async def test_the_limit_is_changed_while_people_wait(server: ServerUnderTest) -> None:
    count = Count()
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        ours, theirs = (Semaphore(each, PATH, 1, follow_limit=True) for each in (a, b))
        leaves = anyio.Event()

        async def hold_until_told() -> None:
            async with theirs:
                count.now += 1
                await leaves.wait()
                count.now -= 1

        async with ours:
            tasks.start_soon(hold_until_told)
            await eventually(_count_is(a, LEASES, 2), "it waits at the front")
            await ours.set_limit(2)
            await eventually(lambda: count.now == 1, "it is let in at once")
            assert await theirs.limit() == 2
            await ours.set_limit(1)
            assert count.now == 1  # nothing is taken away
            async with theirs.try_acquire() as more:
                assert more is None
        leaves.set()
        await eventually(lambda: count.now == 0, "it has left")
        async with theirs.acquire(timeout=PATIENCE):
            assert await theirs.available() == 0


@on_embedded
async def test_more_than_there_are(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        semaphore = Semaphore(a, PATH, 2, follow_limit=True)
        with pytest.raises(UsageError, match="3 permits were asked for, and there are 2"):
            async with semaphore.acquire(permits=3):
                pytest.fail("there are two")
        await semaphore.set_limit(3)
        async with semaphore.acquire(permits=3):
            pass
        # One that was possible as it came, and is not any more, does not keep others waiting.
        async with semaphore, anyio.create_task_group() as tasks:
            refused = anyio.Event()

            async def wait() -> None:
                with pytest.raises(UsageError):
                    async with semaphore.acquire(permits=3):
                        pytest.fail("one is out")
                refused.set()

            tasks.start_soon(wait)
            await eventually(_count_is(a, LEASES, 4), "it waits")
            await semaphore.set_limit(2)
            await refused.wait()
            async with semaphore.acquire(timeout=PATIENCE):
                pass


@on_embedded
async def test_what_one_task_may_do(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        semaphore = Semaphore(a, PATH, 3)
        async with semaphore as held:
            assert isinstance(held, Held)
            async with semaphore.try_acquire() as more:
                assert more is not None
                async with semaphore.acquire(timeout=PATIENCE) as third:
                    assert held.token < more.token < third.token
            with pytest.raises(AlreadyHeldError):
                async with semaphore.acquire():
                    pytest.fail("it would wait for itself")


@on_embedded
async def test_what_is_no_limit(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        semaphore = Semaphore(a, PATH, 3, follow_limit=True)
        await a.ensure_path(PATH)
        for data in (b"", b"3", b"\0\0\0\0", b"\xff\xff\xff\xff"):
            await a.delete_all(f"{PATH}/limit")
            await a.create(f"{PATH}/limit", data)
            with pytest.raises(InvalidDataError):
                await semaphore.limit()
            with pytest.raises(InvalidDataError):
                async with semaphore:
                    pytest.fail("how many are there?")
        await semaphore.set_limit(7)
        assert (await a.get(f"{PATH}/limit"))[0] == b"\0\0\0\7"
        async with semaphore.acquire(permits=7):
            pass


# --- in the layout of kazoo ----------------------------------------------------------------------


@on_embedded
async def test_the_layout_of_kazoo(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        one, other = (Semaphore(each, PATH, 2, layout=Layout.KAZOO) for each in (a, b))
        async with one as held:
            assert re.fullmatch(PATH + "/[0-9]{10}-[0-9a-f]{32}", held.path)
            assert (await a.get(PATH))[0] == b"2"
            async with other.acquire(), one.try_acquire() as third:
                assert third is None
                assert held.path in [each.path for each in await one.holders()]
                assert await one.available() == 0
        await eventually(_count_is(a, f"{PATH}-__lock__", 0), "nobody is left in the line")
        await eventually(_count_is(a, PATH, 0), "no permit is left")
        # Servers would delete an empty container, and kazoo would not look for it again.
        assert (stat := await a.exists(f"{PATH}-__lock__")) is not None
        assert stat.ephemeral_owner == 0
        with pytest.raises(UsageError, match="stop"):
            await one.set_limit(3)
        # What is stored counts; what is no number is passed over, as kazoo does.
        five = Semaphore(a, PATH, 5, layout=Layout.KAZOO)
        assert await five.limit() == 2
        for data in (b"", b"many", b"0", b"-1"):
            await a.set(PATH, data)
            assert await five.limit() == 5


@on_embedded
async def test_never_more_than_the_limit_in_the_layout_of_kazoo(server: ServerUnderTest) -> None:
    count = Count()
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        for client in (a, b):
            semaphore = Semaphore(client, PATH, 3, layout=Layout.KAZOO)
            for permits in (1, 2, 1, 3, 1):
                tasks.start_soon(count.hold, semaphore, permits)
    assert count.turns == 10
    assert count.most == 3


@on_embedded
async def test_a_permit_of_kazoos_counts_only_if_it_was_made_in_front_of_the_line(
    server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is in front now has looked before it was made, and does not look again."""
    ask, places = Permits._ask, list[str]()

    def ask_too_late(permits: Permits, *, watches: bool) -> Any:
        assert permits._contender is not None
        places.append(permits._contender.node.path)
        if len(places) == 1:
            permits._client.delete(places[0])
        return ask(permits, watches=watches)

    monkeypatch.setattr(Permits, "_ask", ask_too_late)
    async with connect(server) as a:
        await a.create(PATH)
        async with Semaphore(a, PATH, 1, layout=Layout.KAZOO).acquire(timeout=PATIENCE) as held:
            assert await a.get_children(PATH) == [held.path.rpartition("/")[2]]
        assert len(set(places)) == len(places) == 2


@on_embedded
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(Layout.CURATOR, Layout.KAZOO), (Layout.KAZOO, Layout.CURATOR)],
    ids=repr,
)
async def test_semaphores_of_another_layout_are_refused(
    server: ServerUnderTest, theirs: Layout, ours: Layout
) -> None:
    """Neither counts the permits of the other one, and kazoo takes Curator's parts for permits."""
    async with connect(server) as a, connect(server) as b:
        async with Semaphore(a, PATH, 1, layout=theirs) as held:
            await catch_up(b)
            before = await a.get_children(PATH)
            with pytest.raises(
                MixedLayoutError, match=re.escape(f"use layout={theirs!r}")
            ) as caught:
                async with Semaphore(b, PATH, 5, layout=ours):
                    pytest.fail("they are not counted together")
            owner = held.session_id if theirs == Layout.KAZOO else 0
            assert caught.value.session_id == owner
            assert caught.value.neighbour.rpartition("/")[2] in before
            await eventually(lambda: _children_are(a, before), "what it has made is gone")
        if theirs == Layout.KAZOO:
            # Nothing was written that kazoo would take for a permit.
            assert (stat := await a.exists(PATH)) is not None
            assert stat.cversion == 2
            await b.delete_all(f"{PATH}-__lock__")
            async with Semaphore(b, PATH, 5, layout=ours).acquire(timeout=PATIENCE):
                pass


async def _children_are(client: Client, expected: list[str]) -> bool:
    return await client.get_children(PATH) == expected


# --- what makes no sense -------------------------------------------------------------------------


@on_embedded
@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, 2**31])
async def test_numbers_that_make_no_sense(server: ServerUnderTest, wrong: object) -> None:
    async with connect(server) as a:
        with pytest.raises(ConfigurationError, match="limit"):
            Semaphore(a, PATH, wrong)  # type: ignore[arg-type]
        semaphore = Semaphore(a, PATH, 1)
        with pytest.raises(ConfigurationError, match="limit"):
            await semaphore.set_limit(wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="permits"):
            semaphore.acquire(permits=wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="permits"):
            semaphore.try_acquire(permits=wrong)  # type: ignore[arg-type]


# --- what is lost --------------------------------------------------------------------------------


@asynccontextmanager
async def clients(server: EmbeddedServer) -> AsyncIterator[tuple[Link, Client, Client]]:
    link = Link(server)
    async with link.connect() as a, connect_virtually(server) as b:
        yield link, a, b


@backends
@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_permit_is_lost_and_with_it_all(backend: Backend, which: int) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (_, a, b):
            with pytest.raises(LockLost) as caught:
                async with Semaphore(a, PATH, 3).acquire(permits=3):
                    await passes(1.0)
                    await b.delete(sorted(contenders_left(server, LEASES))[which])
                    await anyio.sleep_forever()
            assert caught.value.reason is LossReason.DELETED
            await settled()
            assert contenders_left(server, LEASES) == []

    on_virtual_time(backend, play)


@backends
def test_the_session_of_the_one_at_the_front_ends(backend: Backend) -> None:
    """It goes to the end of the line, with nothing left of before, and is served in the end."""

    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (_, a, b), anyio.create_task_group() as tasks:
            count = Count()
            async with Semaphore(b, PATH, 2).acquire(permits=2):
                tasks.start_soon(count.hold, Semaphore(a, PATH, 2), 2, "a", 1.0)
                await settled()
                tasks.start_soon(count.hold, Semaphore(b, PATH, 2), 1, "b", 1.0)
                await settled()
                assert len(contenders_left(server, LEASES)) == 4
                server.expire_session(a.session_id)
                await passes(1.0)
                assert len(contenders_left(server, LOCKS)) == 2
            await passes(5.0)
            assert count.order == ["b", "a"]
            assert count.most == 2

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("what", ["its place in line", "one of its permits"])
def test_an_operator_deletes_what_the_one_at_the_front_has(backend: Backend, what: str) -> None:
    """Nobody waits for permits that somebody has who waits behind him."""

    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (_, a, b), anyio.create_task_group() as tasks:
            count = Count()
            async with Semaphore(b, PATH, 3):
                tasks.start_soon(count.hold, Semaphore(a, PATH, 3), 3, "a", 1.0)
                await settled()
                tasks.start_soon(count.hold, Semaphore(b, PATH, 3), 3, "b", 1.0)
                await passes(1.0)
                line, permits = contenders_left(server, LOCKS), contenders_left(server, LEASES)
                await b.delete(line[0] if what == "its place in line" else permits[0])
                await passes(1.0)
                assert len(contenders_left(server, LOCKS)) == 2
            await passes(5.0)
            assert sorted(count.order) == ["a", "b"]
            assert count.most == 3

    on_virtual_time(backend, play)


@backends
def test_the_lease_of_the_one_at_the_front_runs_out(backend: Backend) -> None:
    """It has no link for longer than its lease; its session lasts, so it keeps its place."""

    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (link, a, b), anyio.create_task_group() as tasks:
            count = Count()
            async with Semaphore(b, PATH, 1):
                tasks.start_soon(count.hold, Semaphore(a, PATH, 1), 1, "a", 1.0)
                await passes(5.0)
                tasks.start_soon(count.hold, Semaphore(b, PATH, 1), 1, "b", 1.0)
                await settled()
                link.lose()
                await passes(7.5)
                link.restore()
                await a.ready()
                await passes(1.0)
            await passes(5.0)
            assert count.order == ["a", "b"]

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO], ids=["curator", "kazoo"])
def test_who_waits_at_the_front_holds_nothing(backend: Backend, layout: Layout) -> None:
    """So nothing can be lost, and a watchdog that knows of what is held has nothing to watch."""

    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (link, a, b), anyio.create_task_group() as tasks:
            count, leases = Count(), a._core.machine.leases
            async with Semaphore(b, PATH, 1, layout=layout):
                tasks.start_soon(count.hold, Semaphore(a, PATH, 1, layout=layout), 1, "a", 1.0)
                await passes(5.0)
                assert (leases.held, leases.is_in_grace) == (0, False)
                link.lose()
                for _ in range(20):  # until its lease is over, and its session
                    await passes(1.0)
                    assert (leases.held, leases.is_in_grace) == (0, False)
                link.restore()
                await passes(1.0)
                assert (leases.held, leases.is_in_grace) == (0, False)
            await passes(5.0)
            assert count.order == ["a"]

    on_virtual_time(backend, play)


@backends
def test_the_place_at_the_front_is_lost_time_and_again(backend: Backend) -> None:
    """More often than Python lets a function call itself, here."""
    limit = 300
    times = limit + 100

    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (_, a, b), anyio.create_task_group() as tasks:
            count = Count()
            async with Semaphore(b, PATH, 1):
                tasks.start_soon(count.hold, Semaphore(a, PATH, 1), 1, "a", 1.0)
                for _ in range(times):
                    await passes(0.5)
                    (place,) = contenders_left(server, LOCKS)
                    await b.delete(place)
            await passes(5.0)
            assert count.order == ["a"]

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        on_virtual_time(backend, play)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.exhaustive("all recipes alike", one_in=3)
@backends
@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("cancelled", [True, False], ids=["cancelled", "wanted"])
def test_a_create_whose_answer_was_lost(
    backend: Backend, applied: bool, number: int, cancelled: bool
) -> None:
    """Of the permits, or of the place in line: in the end there is what there should be."""

    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (link, a, b):
            async with Semaphore(b, PATH, 3).acquire(permits=3):
                pass  # makes the path
            count, scope = Count(), anyio.CancelScope()

            async def hold() -> None:
                with scope:
                    await count.hold(Semaphore(a, PATH, 3), 2, "a", 2.0)

            async with anyio.create_task_group() as tasks:
                fault = Nth(OpCode.CREATE2, number)
                core = server._running.core
                if applied:
                    core.dropped_replies = fault
                else:
                    core.dropped_requests = fault
                link.room = 0
                tasks.start_soon(hold)
                await settled()
                assert count.now == 0
                assert a.state is SessionState.SUSPENDED
                if cancelled:
                    scope.cancel()
                link.restore()
                await passes(1.0)
                assert count.now == (0 if cancelled else 2)
                assert len(contenders_left(server, LEASES)) == count.now
                assert contenders_left(server, LOCKS) == []
            await passes(20.0)
            assert contenders_left(server, LEASES) == []

    on_virtual_time(backend, play)


@backends
def test_a_create_is_applied_after_it_was_looked_for_in_vain(backend: Backend) -> None:
    """It was on its way for so long. It goes when the session timeout has passed."""

    async def play(server: EmbeddedServer) -> None:
        async with clients(server) as (_, a, b):
            async with Semaphore(b, PATH, 2):
                pass  # makes the path
            server.drop_request(OpCode.CREATE2)
            async with Semaphore(a, PATH, 2, identity="a") as held:
                began = anyio.current_time()
                lost = f"{LEASES}/{a.session_id:016x}-1-lease-"
                ghost = await a.create(lost, b"a", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
                await anyio.sleep_until(began + SESSION - 0.5)
                assert set(contenders_left(server, LEASES)) == {held.path, ghost.path}
                await anyio.sleep_until(began + SESSION + 0.1)
                assert contenders_left(server, LEASES) == [held.path]

    on_virtual_time(backend, play)


class Nth(Counter[OpCode]):
    """A fault that hits the n-th request of a kind, rather than the next."""

    def __init__(self, op: OpCode, number: int) -> None:
        super().__init__({op: 1})
        self._op = op
        self._before = number - 1

    def __getitem__(self, op: OpCode) -> int:
        if op is self._op and self._before > 0:
            self._before -= 1
            return 0
        return super().__getitem__(op)


# --- what it costs -------------------------------------------------------------------------------


async def test_alone_it_takes_one_round_trip() -> None:
    """However many permits: the place in line, the permits, and the two looks, in one segment."""
    async with EmbeddedServer(tick_time=60) as server:
        wire = Wire(server)
        async with wire.connect(session_timeout=120, clock=stopped_clock) as a:
            semaphore = Semaphore(a, PATH, 5)
            async with semaphore:
                pass  # makes the path
            for permits in (1, 3):
                await eventually(lambda: contenders_left(server, LEASES) == [], "all gone")
                before, segments = server.requests.copy(), len(wire.segments)
                async with semaphore.acquire(permits=permits):
                    assert len(wire.segments) - segments == 1
                    costs = server.requests - before
                    assert costs == {
                        "CREATE2": 1 + permits,
                        "GET_CHILDREN": 2,
                        "GET_DATA": 1,
                    }
                assert server.requests - before == costs + Counter({"DELETE": 1 + permits})
