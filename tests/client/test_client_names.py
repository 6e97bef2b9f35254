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
from support.hooks import hooked
from support.recipes import eventually
from support.virtual_time import SESSION, embedded, passes, settled, virtually
from support.waiting import PATIENCE

import aiolead
from aiolead import Lock, _name_lookup
from aiolead._client.net import known_addresses
from aiolead._client.net.known_addresses import FRESH, KNOWN_AFTER, MOST, KnownAddresses
from aiolead._name_lookup import look_up
from aiolead.errors import ConnectFailed
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer
from aiolead.testing.streams import MemoryStream

ONE, TWO, THREE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Network:
    """One server at several addresses, and a resolver.

    Attributes:
        names: the addresses of each name, or the exception of its lookups.
        delay: how long lookups take, in seconds.
        asked: how often each name was looked up.
        running: how many lookups of each name go on, with the most there ever were.
        holes: addresses that never answer.
        down: addresses that refuse connections.
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
    monkeypatch.setattr(_name_lookup.threading, "Thread", None)
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
