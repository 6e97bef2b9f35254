"""The costs of locks and elections, counted: requests, round trips, bytes and wake-ups."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest
from kit.clients import (
    HandClock,
    Wire,
    connect,
    contenders_left,
    eventually,
    in_memory,
    stopped_clock,
    tasks_living,
)
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually, with_virtual_server
from recipes.crowd import Crowd

from aiolead import Client, Election, Lock
from aiolead._client.core import KEPT
from aiolead._recipes._core.tenure import Tenure
from aiolead._recipes.contention.contender import Contender
from aiolead._recipes.contention.queue_node import LocalContenders
from aiolead._session.lease.lease_book import HeldZnode
from aiolead._session.requests.call import Call
from aiolead._session.watches.one_shot import WatchSlot
from aiolead.testing import EmbeddedServer, ZooKeeperServer

pytestmark = pytest.mark.timeout(60)

PATH = "/lock"

ENTERED = {"CREATE2": 1, "GET_CHILDREN": 1}
LEFT = {**ENTERED, "DELETE": 1}
RENEWED = {"GET_DATA": 1, "MULTI": 1, "SYNC": 1}


@asynccontextmanager
async def quiet(**options: Any) -> AsyncIterator[tuple[EmbeddedServer, Wire, Client]]:
    """A server, a wire and its client, whose session lasts so long that no ping is due."""
    async with EmbeddedServer(tick_time=3) as server:
        wire = Wire(server)
        async with wire.connect(**{"session_timeout": 60, **options}) as client:
            async with Lock(client, PATH):
                pass  # makes the path
            yield server, wire, client


# --- alone -------------------------------------------------------------------------------------


async def test_lock_costs_three_requests_in_two_round_trips() -> None:
    async with quiet(clock=stopped_clock) as (server, wire, client):
        lock = Lock(client, PATH)
        for _ in range(5):
            before, segments = server.requests.copy(), len(wire.segments)
            async with lock:
                assert server.requests - before == ENTERED
                assert len(wire.segments) - segments == 1, "both leave in one segment"
            assert server.requests - before == LEFT
            assert len(wire.segments) - segments == 2


async def test_lock_costs_three_requests_of_a_real_server(zookeeper: ZooKeeperServer) -> None:
    async def packets() -> int:
        return int((await zookeeper.mntr())["packets_received"])

    async with connect(zookeeper, clock=stopped_clock) as client:
        # Not a container: the server might reap that in the middle.
        await client.create("/lock-counted")
        lock = Lock(client, "/lock-counted")
        async with lock:
            pass
        first = await packets()
        second = await packets()
        for _ in range(10):
            async with lock:
                pass
        # Asking costs a packet, too.
        assert await packets() - second - (second - first) == 30
        await client.delete("/lock-counted")


async def test_new_object_for_each_use_costs_no_more() -> None:
    """The client, and not the `Lock`, knows that it fits on the path, and which names are used."""
    async with quiet(clock=stopped_clock) as (server, _, client):
        before, names = server.requests.copy(), set[str]()
        for _ in range(5):
            async with Lock(client, PATH) as held:
                names.add(held.path[:-10])
        assert server.requests - before == dict.fromkeys(LEFT, 5)
        assert len(names) == 5


async def test_no_name_comes_twice_although_a_path_was_forgotten() -> None:
    """Its numbers may begin again: a write under the old name must not find the new znode."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        names = set[str]()
        for _ in range(2):
            async with Lock(client, PATH) as held:
                names.add(held.path)
            await client.delete_all(PATH)
            for number in range(KEPT):
                client.backend.shared(f"/{number}", LocalContenders)
            gc.collect()
        assert len(names) == 2


async def test_lock_that_is_held_for_a_while_is_watched_and_renewed() -> None:
    async with quiet() as (server, _, client):
        before = server.requests.copy()
        async with Lock(client, PATH) as held:
            await eventually(lambda: server.requests["SYNC"] == 1, "it is renewed")
            assert server.watches() == {held.path: {client.session_id}}
        # One more read is of the configuration, once a connection.
        assert server.requests - before == Counter(LEFT) + Counter(RENEWED) + Counter(GET_DATA=1)
        await eventually(lambda: server.watches() == {}, "no watch is left")


@virtually
async def test_leading_costs_three_more_requests() -> None:
    """Leadership lasts: its znode is watched, and its lease renewed, at once.

    Nothing waits for these. A renewal is a transaction, and the `sync` that makes it count. The
    second leadership is renewed with the next beat, a quarter of the timeout after the first one.
    """
    async with (
        embedded(tick_time=3) as server,
        connect_virtually(server, session_timeout=60) as other,
    ):
        await other.create(PATH)
        async with connect_virtually(server, session_timeout=8) as client:
            async with Election(client, PATH).leadership():
                # It has looked whether it fits on the path.
                await eventually(lambda: server.requests["SYNC"] == 1, "it is renewed")
            before = server.requests.copy()
            async with Election(client, PATH).leadership() as term:
                await eventually(lambda: server.requests["SYNC"] == 2, "it is renewed")
                assert server.watches() == {term.path: {client.session_id}}
            assert server.requests - before == LEFT | RENEWED


async def idle(client: Client, clock: HandClock, timeouts: float) -> None:
    """The client does nothing for so many session timeouts, except answered reads as its pings."""
    for _ in range(round(timeouts * 4)):
        clock.advance(client.session_timeout / 4)
        await client.exists("/")


async def test_lock_on_an_idle_session_costs_one_request_more() -> None:
    """Nothing is proven any more; a second write confirms what the create is the first half of."""
    clock = HandClock()
    async with quiet(clock=clock) as (server, wire, client):
        lock = Lock(client, PATH)
        for questions in ({"GET_DATA": 1}, {}):  # the configuration, once a connection
            await idle(client, clock, 2)
            assert client.backend.lease.remaining() == 0
            # The next one profits from the proof.
            for more, round_trips in (({"MULTI": 1, **questions}, 2), ({}, 1)):
                before, segments = server.requests.copy(), len(wire.segments)
                async with lock:
                    assert server.requests - before == ENTERED | more
                    assert len(wire.segments) - segments == round_trips
                    assert client.backend.lease.remaining() >= 60 / 8


async def test_locks_one_after_another_prove_each_other() -> None:
    """However long that goes on, each costs three requests, and none of them for the lease."""
    clock = HandClock()
    async with quiet(clock=clock) as (server, _, client):
        lock = Lock(client, PATH)
        before = server.requests.copy()
        for _ in range(50):
            clock.advance(60 / 10)
            async with lock:
                pass
        # The configuration is read once a connection.
        assert server.requests - before == dict.fromkeys(LEFT, 50) | {"GET_DATA": 1}


async def test_attempt_that_does_not_get_the_lock_costs_little() -> None:
    async with quiet() as (server, _, a), in_memory(server, clock=stopped_clock) as b:
        async with Lock(a, PATH):
            await eventually(lambda: server.requests["SYNC"] == 1, "it has settled")
            for look_before in (1, 0):
                before = server.requests.copy()
                async with Lock(b, PATH).try_acquire() as held:
                    assert held is None
                more = server.requests - before
                await eventually(lambda: len(contenders_left(server, PATH)) == 1, "it left")
                assert (more["CREATE2"], more["GET_CHILDREN"]) == (1, 1 + look_before)
                assert set(more) <= set(LEFT)


# --- in a queue --------------------------------------------------------------------------------


class Queue(Crowd):
    """Contenders in a queue, each with a client, a session and a connection of its own."""

    server: EmbeddedServer

    def __init__(self, tasks: Any) -> None:
        super().__init__(tasks)
        self.wires: list[Wire] = []
        self.clients: list[Client] = []
        self.cost_of_joining: list[tuple[int, int]] = []
        """Bytes sent and received."""
        self.sent_on_entering: list[int] = []
        """How many segments each had sent when its body began."""

    @asynccontextmanager
    async def hold(self, number: int) -> AsyncIterator[None]:
        async with Lock(self.clients[number], PATH, identity="x"):
            self.sent_on_entering.append(len(self.wires[number].segments))
            yield

    def traffic(self) -> list[tuple[int, int]]:
        return [(sum(map(len, wire.segments)), wire.received) for wire in self.wires]

    async def quiesce(self) -> None:
        """Waits until nothing moves any more: all is in memory, so what can go on does."""
        before = None
        while before != (before := (self.traffic(), self.server.packets_in)):
            for _ in range(20):
                await anyio.lowlevel.checkpoint()

    async def join(self, number: int) -> None:
        await self.quiesce()
        sent, received = self.traffic()[number]
        self.come(str(number), to=self.hold(number))
        await eventually(
            lambda: len(contenders_left(self.server, PATH)) > number, f"{number} has joined"
        )
        await self.quiesce()
        now = self.traffic()[number]
        self.cost_of_joining.append((now[0] - sent, now[1] - received))

    async def hand_over(self, number: int) -> None:
        """One leaves; looks at who is woken by that, and at what it takes them."""
        requests, traffic = self.server.requests.copy(), self.traffic()
        heir, behind = number + 1, number + 2
        sent = len(self.wires[heir].segments)
        self.leave(str(number))
        await self.are_inside(str(heir))
        await self.quiesce()
        # The next one enters at the event alone: it has asked for nothing since.
        assert self.sent_on_entering[-1] == sent
        now = self.traffic()
        woken = [each for each in range(len(now)) if now[each] != traffic[each] and each != number]
        costs = self.server.requests - requests
        if behind < len(now):
            assert (woken, costs) == ([heir, behind], {"DELETE": 1, "GET_CHILDREN": 1})
        else:
            assert (woken, costs) == ([heir], {"DELETE": 1})


@asynccontextmanager
async def queue_of(length: int) -> AsyncIterator[Queue]:
    async with EmbeddedServer(tick_time=3) as server, AsyncExitStack() as stack:
        async with anyio.create_task_group() as tasks:
            queue = Queue(tasks)
            queue.server = server
            for _ in range(length):
                queue.wires.append(Wire(server))
                connection = queue.wires[-1].connect(session_timeout=60, clock=stopped_clock)
                queue.clients.append(await stack.enter_async_context(connection))
            await queue.clients[0].create(PATH)
            for number in range(length):
                await queue.join(number)
            assert queue.log == ["0"]
            yield queue
            queue.leave()


@pytest.mark.parametrize("length", [2, 3, 10])
async def test_hand_over_wakes_the_next_and_prepares_the_one_behind(length: int) -> None:
    async with queue_of(length) as queue:
        for number in range(length - 1):
            await queue.hand_over(number)


async def test_long_queue_costs_each_contender_one_name_more() -> None:
    """The names are sent to each that joins, and once more to a client that is new to the path.

    Handing over costs the same, whatever the length.
    """
    async with queue_of(50) as queue:
        name = contenders_left(queue.server, PATH)[0].rpartition("/")[2]
        sent, received = zip(*queue.cost_of_joining[2:], strict=True)
        assert len(set(sent)) == 1
        assert {more - less for less, more in pairwise(received)} == {2 * (4 + len(name))}
        for number in range(5):
            await queue.hand_over(number)


async def test_many_contenders_of_one_client_do_not_list_each_other() -> None:
    """The client knows its own: the first one lists the queue, and nobody does as others leave.

    One look before anything is written is enough for all of them.
    """
    async with EmbeddedServer(tick_time=3) as server, anyio.create_task_group() as tasks:
        async with in_memory(server, session_timeout=60, clock=stopped_clock) as client:
            await client.create(PATH)
            them = Crowd(tasks)
            for number in range(200):
                them.come(str(number), to=Lock(client, PATH))
            # Each watches the one before it, and its own znode.
            await eventually(lambda: server.requests["SET_WATCHES"] == 199, "all are queued")
            assert server.requests["CREATE2"] == 1 + 200
            before = server.requests.copy()
            assert before["GET_CHILDREN"] == 1 + 1
            them.leave()
            await eventually(lambda: len(them.log) == 200 and not them.inside, "all have left")
            assert server.requests - before == {"DELETE": 200}


async def test_waiter_that_gives_up_in_the_middle_delays_nobody() -> None:
    """The contenders behind it look again, and are as well prepared as before."""
    async with queue_of(6) as queue:
        requests = queue.server.requests.copy()
        queue.cancel("1")
        await eventually(lambda: len(contenders_left(queue.server, PATH)) == 5, "it has left")
        await queue.quiesce()
        # The two that watched it; one of them has another contender to watch as well.
        costs = queue.server.requests - requests
        assert (costs["DELETE"], costs["GET_CHILDREN"]) == (1, 2)
        for heir in (2, 3, 4, 5):
            sent = len(queue.wires[heir].segments)
            queue.leave(queue.log[-1])
            await queue.are_inside(str(heir))
            assert queue.sent_on_entering[-1] == sent
            await queue.quiesce()


async def test_contender_that_has_waited_for_long_asks_twice() -> None:
    """Its turn proves nothing about its session: a check, and then a `sync` that confirms it.

    Both go to the leader, one after the other: two round trips. They also prove the next turns.
    """
    clock = HandClock()
    async with quiet(clock=clock) as (server, wire, b):
        async with in_memory(server, session_timeout=60, clock=stopped_clock) as a:
            first = await _turn_after(server, a, b, wire, partial(idle, b, clock, 2))
            assert first == (Counter({"DELETE": 1, "MULTI": 2, "GET_DATA": 1}), 2)
            again = await _turn_after(server, a, b, wire, anyio.lowlevel.checkpoint)
            assert again == (Counter({"DELETE": 1}), 0)


async def _turn_after(
    server: EmbeddedServer,
    a: Client,
    b: Client,
    wire: Wire,
    meanwhile: Callable[[], Awaitable[object]],
) -> tuple[Counter[str], int]:
    """The costs for b of taking over from a, after it has waited: requests, and segments."""
    costs: list[tuple[Counter[str], int]] = []

    async def queue() -> None:
        async with Lock(b, PATH):
            costs.append((server.requests - requests, len(wire.segments) - segments))

    async with anyio.create_task_group() as tasks, Lock(a, PATH):
        tasks.start_soon(queue)
        await eventually(lambda: len(server.watches()) == 2, "it watches a's znode and its own")
        await meanwhile()
        requests, segments = server.requests.copy(), len(wire.segments)
    return costs[0]


async def test_watches_do_not_pile_up_in_a_queue() -> None:
    async with queue_of(10) as queue:
        server, known = queue.server, [client._core.machine.watches for client in queue.clients]
        # Two watched by each, at most, and one's own; the first one's hold has not settled.
        by_session = Counter(who for path in server.watches().values() for who in path)
        order = [by_session[client.session_id] for client in queue.clients]
        assert order == [0, 2] + [3] * 8
        assert order == [len(watches) for watches in known]
        queue.leave()
        await eventually(lambda: contenders_left(server, PATH) == [], "all have left")
        await eventually(lambda: server.watches() == {}, "no watch is left")
        await eventually(lambda: not any(map(len, known)), "and nobody thinks there is one")


# --- nothing grows -----------------------------------------------------------------------------


def _census() -> Counter[str]:
    gc.collect()
    kinds = (Contender, Call, LocalContenders, Tenure, HeldZnode, WatchSlot)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


@with_virtual_server
async def test_two_hundred_cycles_leave_nothing_behind(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    async def cycle(client: Client, times: int) -> None:
        for _ in range(times // 2):
            async with Lock(client, PATH):
                await anyio.lowlevel.checkpoint()
            async with Election(client, "/led").leadership():
                await anyio.lowlevel.checkpoint()

    async def both(times: int) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cycle, a, times)
            tasks.start_soon(cycle, b, times)

    await both(4)
    await eventually(lambda: server.watches() == {}, "no watch is left")
    before = _census(), server.znodes(), tasks_living()
    await both(100)
    await eventually(lambda: server.watches() == {}, "no watch is left")
    # A renewal that is on its way is alive a little longer, now or before.
    await eventually(lambda: _census() <= before[0], f"{_census()}, not {before[0]}")
    assert (server.znodes(), tasks_living()) == before[1:]
    for client in (a, b):
        machine = client._core.machine
        assert len(machine.watches) == 0
        assert not machine.leases.is_held
        assert not machine.leases.is_in_grace
