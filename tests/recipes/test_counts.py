"""What the recipes cost, counted: requests, round trips, bytes, who is woken, and what stays."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import pairwise

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
from kit.virtual_time import embedded, virtually

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


@asynccontextmanager
async def quiet_server(port: int | None = 0) -> AsyncIterator[EmbeddedServer]:
    """A server whose sessions last so long that no ping is due while a test runs."""
    async with EmbeddedServer(tick_time=3, port=port) as server:
        yield server


# --- alone -------------------------------------------------------------------------------------


async def test_a_lock_costs_three_requests_in_two_round_trips() -> None:
    async with quiet_server() as server:
        wire = Wire(server)
        async with wire.connect(session_timeout=60, clock=stopped_clock) as client:
            lock = Lock(client, PATH)
            async with lock:
                pass  # makes the path
            before, segments = server.requests.copy(), len(wire.segments)
            for _ in range(5):
                async with lock:
                    assert server.requests - before == {"CREATE2": 1, "GET_CHILDREN": 1}
                    assert len(wire.segments) - segments == 1, "both leave in one segment"
                assert server.requests - before == {"CREATE2": 1, "GET_CHILDREN": 1, "DELETE": 1}
                assert len(wire.segments) - segments == 2
                before, segments = server.requests.copy(), len(wire.segments)


async def test_a_lock_costs_three_requests_of_a_real_server(zookeeper: ZooKeeperServer) -> None:
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


async def test_a_new_object_for_each_use_costs_no_more() -> None:
    """What is known of a path outlives the `Lock`: that it fits there, and which names are used."""
    async with quiet_server() as server, in_memory(server, clock=stopped_clock) as client:
        async with Lock(client, PATH):
            pass
        before, names = server.requests.copy(), set[str]()
        for _ in range(5):
            async with Lock(client, PATH) as held:
                names.add(held.path[:-10])
        assert server.requests - before == {"CREATE2": 5, "GET_CHILDREN": 5, "DELETE": 5}
        assert len(names) == 5


async def test_no_name_comes_twice_also_when_a_path_was_forgotten() -> None:
    """Its numbers may begin anew: what was written under the old name must not find the new one."""
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


async def test_a_lock_that_is_held_for_a_while_is_watched_and_renewed() -> None:
    async with quiet_server() as server, in_memory(server, session_timeout=60) as client:
        async with Lock(client, PATH):
            pass
        before = server.requests.copy()
        async with Lock(client, PATH) as held:
            await eventually(lambda: server.requests["SYNC"] == 1, "it is renewed")
            assert server.watches() == {held.path: {client.session_id}}
        assert server.requests - before == {
            "CREATE2": 1,
            "GET_CHILDREN": 1,
            "GET_DATA": 2,  # one is of the configuration, once a connection
            "MULTI": 1,
            "SYNC": 1,
            "DELETE": 1,
        }
        await eventually(lambda: server.watches() == {}, "no watch is left")


@virtually
async def test_leading_costs_three_more_requests() -> None:
    """Leadership lasts: its znode is watched, and its lease renewed, at once.

    Nothing waits for these. A renewal is a transaction, and the `sync` that makes it count. The
    second leadership is renewed with the next beat, a quarter of the timeout after the first one.
    """
    async with (
        quiet_server(port=None) as server,
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
            assert server.requests - before == {
                "CREATE2": 1,
                "GET_CHILDREN": 1,
                "GET_DATA": 1,
                "MULTI": 1,
                "SYNC": 1,
                "DELETE": 1,
            }


async def idle(client: Client, clock: HandClock, timeouts: float) -> None:
    """The client does nothing for so many session timeouts, but for answered reads as its pings."""
    for _ in range(round(timeouts * 4)):
        clock.advance(client.session_timeout / 4)
        await client.exists("/")


async def test_a_lock_on_an_idle_session_costs_one_request_more() -> None:
    """Nothing is proven any more; a second write confirms what the create is the first half of."""
    async with quiet_server() as server:
        wire, clock = Wire(server), HandClock()
        async with wire.connect(session_timeout=60, clock=clock) as client:
            lock = Lock(client, PATH)
            async with lock:
                pass  # makes the path
            for questions in ({"GET_DATA": 1}, {}):  # the configuration, once a connection
                await idle(client, clock, 2)
                assert client.backend.lease.remaining() == 0
                before, segments = server.requests.copy(), len(wire.segments)
                async with lock:
                    assert server.requests - before == {
                        "CREATE2": 1,
                        "GET_CHILDREN": 1,
                        "MULTI": 1,
                        **questions,
                    }
                    assert len(wire.segments) - segments == 2
                    assert client.backend.lease.remaining() >= 60 / 8
                # The next one profits from it.
                before, segments = server.requests.copy(), len(wire.segments)
                async with lock:
                    assert server.requests - before == {"CREATE2": 1, "GET_CHILDREN": 1}
                    assert len(wire.segments) - segments == 1


async def test_locks_one_after_another_prove_each_other() -> None:
    """However long that goes on, each costs three requests, and none of them for the lease.

    Only the ensemble's configuration is read for it, once a connection.
    """
    async with quiet_server() as server:
        clock = HandClock()
        async with in_memory(server, session_timeout=60, clock=clock) as client:
            lock = Lock(client, PATH)
            async with lock:
                pass
            before = server.requests.copy()
            for _ in range(50):
                clock.advance(60 / 10)
                async with lock:
                    pass
            assert server.requests - before == {
                "CREATE2": 50,
                "GET_CHILDREN": 50,
                "DELETE": 50,
                "GET_DATA": 1,
            }


async def test_who_does_not_get_it_costs_little() -> None:
    async with quiet_server() as server:
        async with in_memory(server, session_timeout=60) as a:
            async with in_memory(server, session_timeout=60, clock=stopped_clock) as b:
                async with Lock(a, PATH):
                    await eventually(lambda: server.requests["SYNC"] == 1, "it has settled")
                    for look_before in (1, 0):
                        before = server.requests.copy()
                        async with Lock(b, PATH).try_acquire() as held:
                            assert held is None
                        more = server.requests - before
                        await eventually(lambda: len(contenders_left(server, PATH)) == 1, "it left")
                        assert more["CREATE2"] == 1
                        assert more["GET_CHILDREN"] == 1 + look_before
                        assert set(more) <= {"CREATE2", "GET_CHILDREN", "DELETE"}


# --- in line -----------------------------------------------------------------------------------


class Queue:
    """Contenders in a line, each with a client, a session and a connection of its own."""

    def __init__(self, server: EmbeddedServer, length: int) -> None:
        self._server = server
        self.wires = [Wire(server) for _ in range(length)]
        self.clients: list[Client] = []
        self.cost_of_joining: list[tuple[int, int]] = []
        """Bytes sent and received."""
        self.entered: list[int] = []
        self.sent_on_entering: list[int] = []
        """How many segments each had sent when its body began."""
        self._leave = [anyio.Event() for _ in range(length)]
        self._scopes = [anyio.CancelScope() for _ in range(length)]

    async def _hold(self, number: int) -> None:
        with self._scopes[number]:
            async with Lock(self.clients[number], PATH, identity="x"):
                self.sent_on_entering.append(len(self.wires[number].segments))
                self.entered.append(number)
                await self._leave[number].wait()

    def leave(self, number: int) -> None:
        self._leave[number].set()

    def give_up(self, number: int) -> None:
        """Waits no longer."""
        self._scopes[number].cancel()

    def traffic(self) -> list[tuple[int, int]]:
        return [(sum(map(len, wire.segments)), wire.received) for wire in self.wires]

    async def quiesce(self) -> None:
        """Waits until nothing moves any more: all is in memory, so what can go on does."""
        before = None
        while before != (before := (self.traffic(), self._server.packets_in)):
            for _ in range(20):
                await anyio.lowlevel.checkpoint()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for wire in self.wires:
                connection = wire.connect(session_timeout=60, clock=stopped_clock)
                self.clients.append(await stack.enter_async_context(connection))
            await self.clients[0].create(PATH)
            async with anyio.create_task_group() as tasks:
                for number in range(len(self.wires)):
                    await self.quiesce()
                    sent, received = self.traffic()[number]
                    tasks.start_soon(self._hold, number)
                    await eventually(
                        lambda number=number: len(contenders_left(self._server, PATH)) > number,
                        "it has joined",
                    )
                    await self.quiesce()
                    now = self.traffic()[number]
                    self.cost_of_joining.append((now[0] - sent, now[1] - received))
                yield
                for leave in self._leave:
                    leave.set()


async def _hand_over(server: EmbeddedServer, queue: Queue, number: int) -> None:
    """One leaves; looks at who is woken by that, and at what it takes them."""
    requests, traffic = server.requests.copy(), queue.traffic()
    heir, behind = number + 1, number + 2
    sent = len(queue.wires[heir].segments)
    queue.leave(number)
    await eventually(lambda: len(queue.entered) == number + 2, "the next one enters")
    await queue.quiesce()
    assert queue.entered[-1] == heir
    # Who is next enters at the event alone: it has asked for nothing since. Its session is young.
    assert queue.sent_on_entering[-1] == sent
    now = queue.traffic()
    woken = [each for each in range(len(now)) if now[each] != traffic[each] and each != number]
    if behind < len(now):
        assert woken == [heir, behind]
        assert server.requests - requests == {"DELETE": 1, "GET_CHILDREN": 1}
    else:
        assert woken == [heir]
        assert server.requests - requests == {"DELETE": 1}


@pytest.mark.parametrize("length", [2, 3, 10])
async def test_a_hand_over_wakes_the_next_and_prepares_the_one_behind(length: int) -> None:
    async with quiet_server() as server:
        queue = Queue(server, length)
        async with queue.open():
            assert queue.entered == [0]
            for number in range(length - 1):
                await _hand_over(server, queue, number)


async def test_a_long_line_costs_each_of_them_one_name_more() -> None:
    """They are sent to whoever joins, and once more to a client that is new to the path.

    Handing over costs the same, whatever the length.
    """
    async with quiet_server() as server:
        queue = Queue(server, 50)
        async with queue.open():
            name = contenders_left(server, PATH)[0].rpartition("/")[2]
            sent, received = zip(*queue.cost_of_joining[2:], strict=True)
            assert len(set(sent)) == 1
            assert {more - less for less, more in pairwise(received)} == {2 * (4 + len(name))}
            for number in range(5):
                await _hand_over(server, queue, number)


async def test_many_of_one_client_do_not_list_each_other() -> None:
    """It knows its own: the first one lists the line, and nobody does when another one leaves.

    One look before anything is written is enough for all of them.
    """
    async with quiet_server() as server:
        wire = Wire(server)
        async with wire.connect(session_timeout=60, clock=stopped_clock) as client:
            await client.create(PATH)
            leave = anyio.Event()
            entered: list[Lock] = []

            async def hold(lock: Lock) -> None:
                async with lock:
                    entered.append(lock)
                    await leave.wait()

            async with anyio.create_task_group() as tasks:
                for _ in range(200):
                    tasks.start_soon(hold, Lock(client, PATH))
                # Each watches the one before it, and its own znode.
                await eventually(lambda: server.requests["SET_WATCHES"] == 199, "all are in line")
                assert server.requests["CREATE2"] == 1 + 200
                before = server.requests.copy()
                assert before["GET_CHILDREN"] == 1 + 1
                leave.set()
            assert len(entered) == 200
            assert server.requests - before == {"DELETE": 200}


async def test_who_gives_up_in_the_middle_delays_nobody() -> None:
    """Those behind it look anew, and are as well prepared as before: again nobody has to ask."""
    async with quiet_server() as server:
        queue = Queue(server, 6)
        async with queue.open():
            requests = server.requests.copy()
            queue.give_up(1)
            await eventually(lambda: len(contenders_left(server, PATH)) == 5, "it has left")
            await queue.quiesce()
            # The two that watched it; one of them has somebody new to watch as well.
            assert server.requests - requests >= Counter({"DELETE": 1, "GET_CHILDREN": 2})
            assert server.requests["GET_CHILDREN"] - requests["GET_CHILDREN"] == 2
            for heir in (2, 3, 4, 5):
                sent = len(queue.wires[heir].segments)
                queue.leave(queue.entered[-1])
                await eventually(lambda heir=heir: queue.entered[-1] == heir, "the next enters")
                assert queue.sent_on_entering[-1] == sent
                await queue.quiesce()


async def test_who_has_waited_for_long_asks_twice() -> None:
    """Its turn proves nothing about its session: a check, and then a `sync` that confirms it.

    Both go to the leader, one after the other: two round trips. What they prove serves the next
    turns, too.
    """
    async with quiet_server() as server:
        wire, clock = Wire(server), HandClock()
        async with (
            in_memory(server, session_timeout=60, clock=stopped_clock) as a,
            wire.connect(session_timeout=60, clock=clock) as b,
        ):
            await a.create(PATH)
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
    """What it costs b to take over from a, after it has waited: requests, and segments of b's."""
    costs: list[tuple[Counter[str], int]] = []

    async def wait_in_line() -> None:
        async with Lock(b, PATH):
            costs.append((server.requests - requests, len(wire.segments) - segments))

    async with anyio.create_task_group() as tasks:
        async with Lock(a, PATH):
            tasks.start_soon(wait_in_line)
            await eventually(lambda: len(server.watches()) == 2, "it watches a's znode and its own")
            await meanwhile()
            requests, segments = server.requests.copy(), len(wire.segments)
    return costs[0]


async def test_watches_do_not_pile_up_in_a_line() -> None:
    async with quiet_server() as server:
        queue = Queue(server, 10)
        async with queue.open():
            # Two watched by each, at most, and one's own; the first one's hold has not settled.
            by_session = Counter(who for path in server.watches().values() for who in path)
            order = [by_session[client.session_id] for client in queue.clients]
            assert order == [0, 2] + [3] * 8
            for client in queue.clients:
                machine = client._core.machine
                assert len(machine.watches) == by_session[client.session_id]
            for number in range(10):
                queue.leave(number)
            await eventually(lambda: contenders_left(server, PATH) == [], "all have left")
            await eventually(lambda: server.watches() == {}, "no watch is left")
            known = [client._core.machine.watches for client in queue.clients]
            await eventually(lambda: not any(map(len, known)), "and nobody thinks there is one")


# --- nothing grows -----------------------------------------------------------------------------


def _census() -> Counter[str]:
    gc.collect()
    kinds = (Contender, Call, LocalContenders, Tenure, HeldZnode, WatchSlot)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


@virtually
async def test_two_hundred_cycles_leave_nothing_behind() -> None:
    async with (
        embedded() as server,
        connect_virtually(server) as a,
        connect_virtually(server) as b,
    ):

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
