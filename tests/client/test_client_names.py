"""Names of servers: how they are looked up, and what a slow or broken resolver costs."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import uvloop
from anyio.abc import ByteStream
from kit.checks import PATIENCE
from kit.clients import eventually, hooked
from kit.virtual_time import SESSION, embedded, passes, settled, virtually

import aiolead
from aiolead import Lock, _daemon_threads
from aiolead._client.net import known_addresses
from aiolead._client.net.known_addresses import FRESH, KNOWN_AFTER, MOST, KnownAddresses
from aiolead._name_lookup import look_up
from aiolead._racing import NEXT_AFTER, by_family, open_first
from aiolead.errors import ConnectFailed
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer
from aiolead.testing.streams import MemoryStream

ONE, TWO, THREE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Frozen(ByteStream):
    """A connection to a server that says nothing."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        raise AssertionError

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


class Network:
    """One server at several addresses, and a resolver.

    Attributes:
        names: the addresses of each name, or the exception of its lookups.
        delay: how long lookups take, in seconds.
        asked: how often each name was looked up.
        running: how many lookups of each name go on, with the most there ever were.
        holes: addresses that never answer.
        down: addresses that refuse connections.
        frozen: addresses that accept connections, and never answer.
        slow: how long it takes to connect to an address, in seconds.
        dialled: the addresses that were dialled, in order.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self.names: dict[str, list[str] | Exception] = {}
        self.delay = 0.0
        self.asked: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.holes: set[str] = set()
        self.down: set[str] = set()
        self.frozen: set[str] = set()
        self.slow: dict[str, float] = {}
        self.dialled: list[str] = []
        self._server = server
        self._streams: list[tuple[str, MemoryStream]] = []

    async def look_up(self, host: str, _port: int) -> list[str]:
        self.asked[host] += 1
        self.running[host] += 1
        self.most[host] = max(self.most[host], self.running[host])
        try:
            await anyio.sleep(self.delay)
        finally:
            self.running[host] -= 1
        found = self.names[host]
        if isinstance(found, Exception):
            raise found
        return list(found)

    async def dial(self, address: str, _port: int) -> ByteStream:
        self.dialled.append(address)
        if address in self.holes:
            await anyio.sleep_forever()
        if address in self.down:
            raise ConnectionRefusedError(f"not at {address}")
        if address in self.frozen:
            return Frozen()
        await anyio.sleep(self.slow.get(address, 0))
        stream = await self._server.connect_stream()
        self._streams.append((address, stream))
        return stream

    def crash(self, address: str) -> None:
        """Refuses connections to an address, and resets those that there are."""
        self.down.add(address)
        self.reset(address)

    def reset(self, address: str = "") -> None:
        for at, stream in self._streams:
            if address in ("", at):
                stream.reset()

    def connect(self, hosts: str, **options: Any) -> aiolead.types.Connection:
        return aiolead.connect(
            hosts, **hooked(**{"session_timeout": SESSION, "dial": self.dial, **options})
        )


@asynccontextmanager
async def a_network(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    async with embedded() as server:
        network = Network(server)
        network.names = {"zk1": [ONE], "zk2": [TWO], "zk3": [THREE]}
        monkeypatch.setattr(known_addresses, "look_up", network.look_up)
        yield network


def now() -> float:
    return anyio.current_time()


# --- lookups in the background -----------------------------------------------------------------


@pytest.mark.parametrize("hosts", ["zk1", "zk1,zk2,zk3"])
@virtually
async def test_lookup_goes_on_across_attempts(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    """As with the first of two nameservers dead: glibc asks the second one after five seconds."""
    async with a_network(monkeypatch) as network:
        network.delay = 5.0
        begin = now()
        async with network.connect(hosts) as client:
            assert 5.0 <= now() - begin < 5.2
            assert client.state is SessionState.CONNECTED
        assert set(network.asked.values()) == {1}


@virtually
async def test_lookup_longer_than_session_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_network(monkeypatch) as network:
        network.delay = 3 * SESSION
        begin = now()
        async with network.connect("zk1,zk2,zk3", connect_timeout=60):
            assert now() - begin < 3 * SESSION + SESSION / 4 + 1


@pytest.mark.parametrize("delay", [3.0, float("inf")], ids=["slow", "never"])
@virtually
async def test_crashed_server_costs_nothing_while_resolver_is_slow(
    monkeypatch: pytest.MonkeyPatch, delay: float
) -> None:
    async with a_network(monkeypatch) as network:
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
async def test_all_addresses_change_while_resolver_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network:
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
async def test_known_addresses_outlive_failed_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_network(monkeypatch) as network, network.connect("zk1") as client:
        session = client.session_id
        network.names["zk1"] = AGAIN
        await passes(2 * FRESH)
        network.reset()
        await settled()
        await client.exists("/")
        assert client.session_id == session
        assert network.asked["zk1"] == 2


@virtually
async def test_addresses_of_removed_name_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_network(monkeypatch) as network, network.connect("zk1") as client:
        network.names["zk1"] = NO_NAME
        await passes(2 * FRESH)
        network.reset()
        with pytest.raises(aiolead.errors.ConnectionLossError):
            await client.exists("/")
        assert network.dialled == [ONE]


@virtually
async def test_failed_lookup_is_the_reason_of_connect_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network:
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
async def test_changed_address_is_found_within_half_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network, network.connect("zk1") as client:
        await passes(2 * FRESH)
        network.names["zk1"] = [TWO]
        network.crash(ONE)
        await client.exists("/")
        assert network.dialled == [ONE, TWO]


# --- several addresses of a name ---------------------------------------------------------------


@virtually
async def test_unreachable_addresses_of_a_name_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are gone, without a reset: each costs a quarter of a second."""
    async with a_network(monkeypatch) as network:
        network.names["zk1"] = [ONE, TWO, THREE]
        network.holes = {ONE, TWO}
        for _ in range(10):  # in every order
            begin = now()
            async with network.connect("zk1"):
                assert now() - begin < 2 * NEXT_AFTER + 0.01


@virtually
async def test_unreachable_ipv6_costs_a_quarter_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network:
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
async def test_refused_address_costs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_network(monkeypatch) as network:
        network.names["zk1"] = ["fd00::1", "fd00::2", ONE]
        network.down = {"fd00::1", "fd00::2"}
        begin = now()
        async with network.connect("zk1"):
            assert now() - begin < 0.01


@virtually
async def test_frozen_addresses_of_a_name_share_the_session_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network:
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
async def test_held_lease_outlives_frozen_and_unreachable_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network:
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
async def test_slower_address_is_tried_again_if_the_faster_one_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network:
        network.names["zk1"] = ["fd00::1", ONE]
        network.slow, network.frozen = {"fd00::1": 1.0}, {ONE}
        async with network.connect("zk1"):
            assert network.dialled == ["fd00::1", ONE, "fd00::1"]


@virtually
async def test_one_connection_is_left_of_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both addresses are connected at the same instant, or the slower one a little later."""
    async with embedded() as server:
        network = Network(server)
        monkeypatch.setattr(known_addresses, "look_up", network.look_up)
        network.names["zk1"] = ["fd00::1", ONE]
        for delay in (0.0, 0.001, 0.1):
            network.slow = {"fd00::1": NEXT_AFTER + 0.1, ONE: 0.1 - delay}
            async with network.connect("zk1"):
                await passes(1.0)
                assert network.dialled[-2:] == ["fd00::1", ONE]
                assert server.connections == 1
            await settled()
            assert server.connections == 0


@virtually
async def test_connect_failed_names_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_network(monkeypatch) as network:
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


class Opened:
    """Something that was opened, and is closed once."""

    def __init__(self) -> None:
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1
        await anyio.lowlevel.checkpoint()


@virtually
async def test_cancelled_race_closes_what_it_has_opened() -> None:
    opened: list[Opened] = []

    async def open_at(address: str) -> Opened | None:
        if address == ONE:
            await anyio.sleep_forever()
        await anyio.sleep(1.0)
        opened.append(Opened())
        scope.cancel()
        return opened[-1]

    with anyio.CancelScope() as scope:
        await open_first([ONE, TWO], open_at, anyio.create_task_group)
        raise AssertionError
    assert [each.closed for each in opened] == [1]


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
async def test_lookups_at_once_are_bounded_and_removed_names_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_network(monkeypatch) as network, anyio.create_task_group() as tasks:
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
    monkeypatch.setattr(_daemon_threads.threading, "Thread", None)
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

LOOPS: list[Any] = [
    pytest.param(("asyncio", {}), id="asyncio"),
    pytest.param(("asyncio", {"loop_factory": uvloop.new_event_loop}), id="uvloop"),
    pytest.param(("trio", {}), id="trio"),
]


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


def in_daemon(act: Callable[[], object]) -> object:
    """Does it in a thread that nobody has to wait for, and returns its result."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(act())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result(PATIENCE)


@pytest.mark.parametrize("loop", LOOPS)
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
        in_daemon(lambda main=main: anyio.run(main, backend=backend, backend_options=options))
        assert hung_resolver.is_set()
