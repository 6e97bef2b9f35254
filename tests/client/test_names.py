"""Names of servers: how they are looked up, and what a slow or broken resolver costs."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from blocking.threads import in_daemon
from client.network import ONE, THREE, TWO, Network
from kit.checks import PATIENCE
from kit.clients import eventually
from kit.pages import ROOT
from kit.selection import BACKENDS
from kit.virtual_time import SESSION, passes, settled, virtually

import aiolead
from aiolead import Lock
from aiolead._client.net.known_addresses import FRESH, KNOWN_AFTER, MOST, KnownAddresses
from aiolead._util import daemon_threads
from aiolead._util.name_lookup import look_up
from aiolead._util.racing import NEXT_AFTER, by_family, open_first
from aiolead.errors import ConnectFailed
from aiolead.model import SessionState
from aiolead.testing.streams import MemoryStream, memory_stream_pair
from benchmarks.names import ROWS, Outcome, Row, command_for
from benchmarks.names_network import has_namespaces

AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def now() -> float:
    return anyio.current_time()


# --- lookups in the background -----------------------------------------------------------------


@pytest.mark.parametrize("hosts", ["zk1", "zk1,zk2,zk3"])
@virtually
async def test_lookup_goes_on_across_attempts(network: Network, hosts: str) -> None:
    """As with the first of two nameservers dead: glibc asks the second one after five seconds."""
    async with network:
        network.delay = 5.0
        begin = now()
        async with network.connect(hosts) as client:
            assert 5.0 <= now() - begin < 5.2
            assert client.state is SessionState.CONNECTED
        assert set(network.asked.values()) == {1}


@virtually
async def test_lookup_longer_than_session_timeout(network: Network) -> None:
    async with network:
        network.delay = 3 * SESSION
        begin = now()
        async with network.connect("zk1,zk2,zk3", connect_timeout=60):
            assert now() - begin < 3 * SESSION + SESSION / 4 + 1


@pytest.mark.parametrize("delay", [3.0, float("inf")], ids=["slow", "never"])
@virtually
async def test_crash_with_a_slow_resolver_costs_nothing(network: Network, delay: float) -> None:
    async with network:
        async with network.connect("zk1,zk2,zk3") as client, Lock(client, "/l").acquire() as held:
            session = client.session_id
            await settled()  # the other names are looked up meanwhile
            network.delay = delay
            for _ in range(2):
                await passes(2 * FRESH)
                begin = now()
                network.down = {network.dialled[-1]}
                network.crash(network.dialled[-1])
                await settled()
                await client.exists("/")
                assert now() - begin < 1.0
                held.check()
                assert client.session_id == session
            assert set(network.most.values()) == {1}


@virtually
async def test_all_addresses_change_while_resolver_is_slow(network: Network) -> None:
    async with network:
        async with network.connect("zk1,zk2,zk3") as client, Lock(client, "/l").acquire() as held:
            await passes(2 * FRESH)
            session, network.delay = client.session_id, 2.0
            for name, old in (("zk1", ONE), ("zk2", TWO), ("zk3", THREE)):
                network.names[name] = [f"10.0.1.{old[-1]}"]
                network.crash(old)
            begin = now()
            await client.exists("/")
            # The new addresses may come after a round with the old ones has begun, or in its pause.
            assert now() - begin < 2.0 + 3 * KNOWN_AFTER + SESSION / 10 + 0.1
            held.check()
            assert client.session_id == session
            assert network.dialled[-1].startswith("10.0.1.")


@virtually
async def test_known_addresses_outlive_failed_lookups(network: Network) -> None:
    async with network, network.connect("zk1") as client:
        session = client.session_id
        network.names["zk1"] = AGAIN
        await passes(2 * FRESH)
        network.reset()
        await settled()
        await client.exists("/")
        assert client.session_id == session
        assert network.asked["zk1"] == 2


@virtually
async def test_addresses_of_removed_name_are_forgotten(network: Network) -> None:
    async with network, network.connect("zk1") as client:
        network.names["zk1"] = NO_NAME
        await passes(2 * FRESH)
        network.reset()
        with pytest.raises(aiolead.errors.ConnectionLossError):
            await client.exists("/")
        assert network.dialled == [ONE]


@virtually
async def test_failed_lookup_is_the_reason_of_connect_failed(network: Network) -> None:
    async with network:
        network.names["zk1"] = AGAIN
        network.names["zk2"] = ValueError("no name")
        with pytest.raises(ConnectFailed) as raised:
            async with network.connect("zk1,zk2", connect_timeout=1):
                raise AssertionError
        reasons = {name: str(reason) for name, reason in raised.value.attempts}
        assert reasons == {"zk1:2181": str(AGAIN), "zk2:2181": "no name"}
        network.names["zk1"] = [ONE]
        network.delay = float("inf")
        with pytest.raises(ConnectFailed) as raised:
            async with network.connect("zk1", connect_timeout=SESSION - 1):
                raise AssertionError
        assert [str(reason) for _, reason in raised.value.attempts] == [
            "its name was not resolved in time"
        ]


@virtually
async def test_changed_address_is_found_within_half_a_second(network: Network) -> None:
    async with network, network.connect("zk1") as client:
        await passes(2 * FRESH)
        network.names["zk1"] = [TWO]
        network.crash(ONE)
        await client.exists("/")
        assert network.dialled == [ONE, TWO]


# --- several addresses of a name ---------------------------------------------------------------


@virtually
async def test_unreachable_addresses_of_a_name_cost_little(network: Network) -> None:
    """Nodes that are gone, without a reset: each costs a quarter of a second."""
    async with network:
        network.names["zk1"] = [ONE, TWO, THREE]
        network.holes = {ONE, TWO}
        for _ in range(10):  # in every order
            begin = now()
            async with network.connect("zk1"):
                assert now() - begin < 2 * NEXT_AFTER + 0.01


@virtually
async def test_unreachable_ipv6_costs_a_quarter_of_a_second(network: Network) -> None:
    async with network:
        network.names["zk1"] = [ONE, "fd00::1", TWO]
        network.holes = {"fd00::1"}
        for _ in range(3):
            begin = now()
            network.dialled.clear()
            async with network.connect("zk1"):
                assert NEXT_AFTER <= now() - begin < NEXT_AFTER + 0.01
                assert network.dialled[0] == "fd00::1"
                assert len(network.dialled) == 2


@virtually
async def test_refused_address_costs_no_time(network: Network) -> None:
    async with network:
        network.names["zk1"] = ["fd00::1", "fd00::2", ONE]
        network.down = {"fd00::1", "fd00::2"}
        begin = now()
        async with network.connect("zk1"):
            assert now() - begin < 0.01


@virtually
async def test_frozen_addresses_of_a_name_share_the_session_timeout(network: Network) -> None:
    async with network:
        network.names["zk1"] = [ONE, TWO, THREE]
        async with network.connect("zk1") as client:
            session = client.session_id
            for last in (ONE, TWO, THREE):
                network.frozen = {ONE, TWO, THREE} - {last}
                begin = now()
                network.reset()
                await settled()
                await client.exists("/")
                assert now() - begin <= SESSION / 2 + 0.1
                assert client.session_id == session


@virtually
async def test_held_lease_outlives_frozen_and_unreachable_addresses(network: Network) -> None:
    async with network:
        network.names["zk1"] = ["fd00::1", ONE, TWO, THREE]
        network.holes = {"fd00::1", ONE}
        network.frozen = {TWO}
        async with network.connect("zk1") as client, Lock(client, "/l").acquire() as held:
            for _ in range(5):
                network.reset()
                await settled()
                await client.exists("/")
                held.check()
                await passes(SESSION / 2)


@virtually
async def test_slower_address_is_tried_again_if_the_faster_one_is_frozen(network: Network) -> None:
    async with network:
        network.names["zk1"] = ["fd00::1", ONE]
        network.slow, network.frozen = {"fd00::1": 1.0}, {ONE}
        async with network.connect("zk1"):
            assert network.dialled == ["fd00::1", ONE, "fd00::1"]


@virtually
async def test_one_connection_is_left_of_a_race(network: Network) -> None:
    """Both addresses are connected at the same instant, or the slower one a little later."""
    network.names["zk1"] = ["fd00::1", ONE]
    async with network:
        for delay in (0.0, 0.001, 0.1):
            network.slow = {"fd00::1": NEXT_AFTER + 0.1, ONE: 0.1 - delay}
            async with network.connect("zk1"):
                await passes(1.0)
                assert network.dialled[-2:] == ["fd00::1", ONE]
                assert network.server.connections == 1
            await settled()
            assert network.server.connections == 0


@virtually
async def test_connect_failed_names_each_address(network: Network) -> None:
    async with network:
        network.names["zk1"] = ["fd00::1", "fd00::2", ONE]
        network.down, network.holes = {"fd00::1"}, {"fd00::2", ONE}
        with pytest.raises(ConnectFailed) as raised:
            async with network.connect("zk1", connect_timeout=1):
                raise AssertionError
        assert {name: str(reason) for name, reason in raised.value.attempts} == {
            "zk1:2181 (fd00::1)": "not at fd00::1",
            "zk1:2181 (fd00::2)": "no connection yet",
            f"zk1:2181 ({ONE})": "no connection yet",
        }


@virtually
async def test_cancelled_race_closes_what_it_has_opened() -> None:
    opened: list[MemoryStream] = []

    async def open_at(address: str) -> MemoryStream:
        if address == ONE:
            await anyio.sleep_forever()
        await anyio.sleep(1.0)
        stream, other = memory_stream_pair()
        opened.append(other)
        scope.cancel()
        return stream

    with anyio.CancelScope() as scope:
        await open_first([ONE, TWO], open_at, anyio.create_task_group)
        raise AssertionError
    (other,) = opened
    with pytest.raises(anyio.EndOfStream):
        await other.receive()


@pytest.mark.parametrize(
    ("addresses", "order"),
    [
        ([], []),
        ([ONE, TWO], [ONE, TWO]),
        ([ONE, "::1"], ["::1", ONE]),
        ([ONE, TWO, "::1", THREE, "::2"], ["::1", ONE, "::2", TWO, THREE]),
        (["::1", "::2", "::3", ONE], ["::1", ONE, "::2", "::3"]),
    ],
)
def test_families_are_tried_in_turn(addresses: list[str], order: list[str]) -> None:
    assert by_family(addresses) == order


# --- what is kept ------------------------------------------------------------------------------


@virtually
async def test_lookups_at_once_are_bounded_and_removed_names_forgotten(network: Network) -> None:
    async with network, anyio.create_task_group() as tasks:
        servers = [(f"many{n}", 1) for n in range(3 * MOST)]
        network.names = {host: [ONE, TWO] for host, _ in servers}
        network.delay = 1.0
        known = KnownAddresses(tasks.start_soon)
        known.look_ahead(servers)
        await settled()
        assert network.running.total() == MOST
        # A name that nobody has looked up yet has its turn when another one is done.
        begin = now()
        assert await known.of(servers[-1], 10.0) == [ONE, TWO]
        assert now() - begin < 2.1
        assert known.count(servers[0]) == 2
        known.look_ahead(servers[1:2])
        assert known.count(servers[0]) == 1
        assert known.count(servers[1]) == 2


async def test_literal_address_takes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_threads.threading, "Thread", None)
    for host in ("127.0.0.1", "::1", "fe80::1%lo"):
        assert await look_up(host, 1) == [host]
    with pytest.raises(TypeError):
        await look_up("localhost", 1)


async def test_lookup_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: bytes, port: int, **_options: Any) -> list[Any]:
        asked.append(host)
        return [
            (socket.AF_INET6, 1, 6, "", ("fe80::1", port, 0, 3)),
            (socket.AF_INET6, 1, 6, "", ("::2", port, 0, 0)),
            (socket.AF_INET, 1, 6, "", (ONE, port)),
            (socket.AF_INET, 1, 6, "", (ONE, port)),
        ]

    asked: list[bytes] = []
    assert set(await look_up("localhost", 1)) & {"127.0.0.1", "::1"}
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert await look_up("bücher.example", 1) == ["fe80::1%3", "::2", ONE]
    assert asked == [b"xn--bcher-kva.example"]
    with pytest.raises(ValueError):
        await look_up("a" * 300 + "ü", 1)


# --- a resolver that does not answer -------------------------------------------------------------


@pytest.fixture
def hung_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Lookups end with the test; the event is set by the first one."""
    asked, over = threading.Event(), threading.Event()

    def getaddrinfo(*_args: object, **_options: object) -> Any:
        asked.set()
        over.wait(4 * PATIENCE)
        raise AGAIN

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield asked
    over.set()


@pytest.mark.parametrize("loop", BACKENDS)
def test_event_loop_ends_while_resolver_does_not_answer(
    hung_resolver: threading.Event, loop: tuple[str, dict[str, Any]]
) -> None:
    async def connects() -> None:
        with pytest.raises(ConnectFailed):
            async with aiolead.connect("zk.example", connect_timeout=0.2):
                raise AssertionError

    async def is_cancelled() -> None:
        with anyio.move_on_after(0.2):
            async with aiolead.connect("zk.example", connect_timeout=60):
                raise AssertionError

    async def is_closed() -> None:
        async with aiolead.connect("zk.example", connect_timeout=0):
            await eventually(hung_resolver.is_set, "the name is looked up")

    backend, options = loop
    for main in (connects, is_cancelled, is_closed):
        hung_resolver.clear()
        run = partial(anyio.run, main, backend=backend, backend_options=options)
        in_daemon(run).result(PATIENCE)
        assert hung_resolver.is_set()


# --- with the system's resolver and real connections -------------------------------------------


@pytest.mark.timeout(120)
@pytest.mark.exhaustive("each case waits for real time; the same is tested on virtual time")
@pytest.mark.skipif(not has_namespaces(), reason="the system allows no namespaces")
@pytest.mark.parametrize("client", ["aiolead", "aiolead-uvloop", "aiolead-trio"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_lock_is_kept_while_a_server_can_be_reached(row: Row, client: str) -> None:
    """`benchmarks/names.py` has the rows, and measures the times."""
    command = command_for(row.name, "--clients", client, "--trials", "1", "--json")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (outcome,) = (Outcome(**each) for each in json.loads(done.stdout)[row.name][client])
    assert outcome.is_kept
