"""Costs of locks that are no rows: a real server's packets, renewals, watches, and leaks."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import AsyncExitStack

import anyio
import anyio.lowlevel
import pytest
from kit.clients import connect, contenders_left, eventually, in_memory, stopped_clock, tasks_living
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

from aiolead import Client, Election, Lock, admin
from aiolead._client.core import KEPT
from aiolead._recipes.contender_queue import Contender, LocalContenders
from aiolead._recipes.hold import Tenure
from aiolead._session.lease import HeldZnode
from aiolead._session.requests import Call
from aiolead._session.watches import WatchSlot
from aiolead.testing import EmbeddedServer, ZooKeeperServer

pytestmark = pytest.mark.timeout(60)

PATH = "/lock"
LASTING = 3
"""A tick time with which sessions last so long that no ping is due while a test runs."""


async def test_lock_costs_three_packets_of_a_real_server(zookeeper: ZooKeeperServer) -> None:
    async def packets() -> int:
        return int((await zookeeper.mntr())["packets_received"])

    async with connect(zookeeper, clock=stopped_clock) as client:
        # No container, which the server might delete in the middle.
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


async def test_names_of_contenders_are_unique_also_on_a_forgotten_path() -> None:
    """Sequence numbers may begin again. A delete of an old name must not find the new znode."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        names = set[str]()
        for _ in range(2):
            for _ in range(5):
                async with Lock(client, PATH) as held:
                    names.add(held.path[:-10])
            await admin.delete_all(client, PATH)
            for number in range(KEPT):
                client.backend.shared(f"/{number}", LocalContenders)
            gc.collect()
        assert len(names) == 10


async def test_held_lock_is_watched_and_renewed() -> None:
    async with (
        EmbeddedServer(tick_time=LASTING) as server,
        in_memory(server, session_timeout=60) as client,
    ):
        async with Lock(client, PATH):
            pass
        before = server.requests.copy()
        async with Lock(client, PATH) as held:
            await eventually(lambda: server.requests["SYNC"] == 1, "it is renewed")
            assert server.watches() == {held.path: {client.session_id}}
        assert server.requests - before == {
            **dict.fromkeys(("CREATE2", "GET_CHILDREN", "MULTI", "SYNC", "DELETE"), 1),
            "GET_DATA": 2,  # one is of the configuration, once for each connection
        }
        await eventually(lambda: server.watches() == {}, "no watch is left")


async def test_watches_of_a_queue_are_bounded() -> None:
    async with EmbeddedServer(tick_time=LASTING) as server, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                in_memory(server, session_timeout=60, clock=stopped_clock)
            )
            for _ in range(10)
        ]
        await clients[0].create(PATH)
        leave = anyio.Event()

        async def hold(client: Client) -> None:
            async with Lock(client, PATH):
                await leave.wait()

        def watches() -> list[int]:
            by_session = Counter(who for path in server.watches().values() for who in path)
            return [by_session[client.session_id] for client in clients]

        async with anyio.create_task_group() as tasks:
            for number, client in enumerate(clients):
                tasks.start_soon(hold, client)
                await eventually(
                    lambda n=number: len(contenders_left(server, PATH)) == n + 1, "it has joined"
                )
                # Each watches at most two before it, and its own znode. The first hold is new.
                expected = [0, 2, *[3] * 8][: number + 1] + [0] * (9 - number)
                await eventually(lambda expected=expected: watches() == expected, "all watch")
            known = [client._core.machine.watches for client in clients]
            # The last answer may be on its way.
            await eventually(lambda: list(map(len, known)) == watches(), "the clients know of them")
            leave.set()
        assert contenders_left(server, PATH) == []
        await eventually(lambda: server.watches() == {}, "no watch is left")
        await eventually(lambda: not any(map(len, known)), "the clients know that")


def _census() -> Counter[str]:
    gc.collect()
    kinds = (Contender, Call, LocalContenders, Tenure, HeldZnode, WatchSlot)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


@virtually
async def test_two_hundred_holds_leave_nothing_behind() -> None:
    async with (
        embedded() as server,
        connect_virtually(server) as one,
        connect_virtually(server) as other,
    ):

        async def hold(client: Client, times: int) -> None:
            for _ in range(times // 2):
                async with Lock(client, PATH):
                    await anyio.lowlevel.checkpoint()
                async with Election(client, "/led").leadership():
                    await anyio.lowlevel.checkpoint()

        async def both(times: int) -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold, one, times)
                tasks.start_soon(hold, other, times)
            await eventually(lambda: server.watches() == {}, "no watch is left")

        await both(4)
        before = _census(), server.znodes(), tasks_living()
        await both(100)
        # A renewal that is on its way lives a little longer, now or before.
        await eventually(lambda: _census() <= before[0], f"{_census()}, not {before[0]}")
        assert (server.znodes(), tasks_living()) == before[1:]
        for client in (one, other):
            machine = client._core.machine
            assert len(machine.watches) == 0
            assert not machine.leases.held
            assert not machine.leases.is_in_grace
