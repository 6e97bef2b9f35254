"""The embedded server over TCP and in memory, on every event loop."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio.testing
from anyio.abc import SocketAttribute
from client.login.certificates import Authority
from kit.checks import PATIENCE
from kit.raw_client import RawClient, refuses_ephemerals
from kit.virtual_time import virtually
from testing.server.conftest import Visit
from testing.stream_client import ENDED, StreamClient, dial
from testing.wire_core import create

from aiolead._wire.handshake import ConnectRequest
from aiolead._wire.jute import PING, encode_record, encode_request
from aiolead._wire.requests import Delete, Exists, GetChildren, GetData
from aiolead.errors import ConfigurationError, NoNodeError, UsageError
from aiolead.model import EventType
from aiolead.testing import EmbeddedServer, OpCode, SessionInfo
from aiolead.testing._server.core import Core
from aiolead.testing.embedded import MAX_CONNECTIONS

EPHEMERAL, SEQUENTIAL = 1, 2

both_transports = pytest.mark.parametrize("transport", ["tcp", "memory"])

pytestmark = pytest.mark.timeout(60)


class Clock:
    """A server's clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


# --- serving -----------------------------------------------------------------------------------


async def test_tls_port_serves_the_same_znodes_as_the_port_without_tls(
    tmp_path: Path, visit: Visit
) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context(authority.issue())
    async with EmbeddedServer(ssl_context=context, tls_port=0) as server:
        ports = server.port, int(server.tls_connect_string.rpartition(":")[2])
        for _ in range(2):
            plain, in_memory = await visit(server, "tcp"), await visit(server)
            stream = await anyio.connect_tcp(
                "127.0.0.1",
                ports[1],
                ssl_context=ssl.create_default_context(cafile=authority.pem),
                tls_hostname="localhost",
                tls_standard_compatible=False,
            )
            secure = await StreamClient(stream).greet()
            path = await secure.create("/x-", SEQUENTIAL)
            await plain.ask(GetData(path))
            await in_memory.ask(Delete(path, -1))
            # Both ports are the same after a restart.
            await server.stop()
            await server.start()
            assert (server.port, int(server.tls_connect_string.rpartition(":")[2])) == ports
            for client in (plain, in_memory, secure):
                with pytest.raises(ENDED):
                    await client.next_frame()
            await stream.aclose()


async def test_tls_address_needs_tls_port(own: EmbeddedServer) -> None:
    with pytest.raises(UsageError, match="without tls_port"):
        _ = own.tls_connect_string


@both_transports
async def test_requests_and_watches_are_served(
    own: EmbeddedServer, visit: Visit, transport: str
) -> None:
    a, b = await visit(own, transport), await visit(own, transport)
    assert await a.create("/x") == "/x"
    await b.ask(GetData("/x", watch=True))
    await a.ask(Delete("/x", -1))
    assert await b.hear() == (EventType.DELETED, "/x")
    with pytest.raises(NoNodeError):
        await b.ask(GetData("/x"))


@both_transports
async def test_requests_of_one_segment_are_answered_in_one(
    own: EmbeddedServer, visit: Visit, transport: str
) -> None:
    client = await visit(own, transport)
    await client.stream.send(PING * 50)
    assert len(await client.stream.receive()) == 50 * 20


async def test_connections_have_no_delay(own: EmbeddedServer) -> None:
    async with await anyio.connect_tcp("127.0.0.1", own.port):
        (link,) = own._running._links.values()
        raw: socket.socket = link._transport._socket  # type: ignore[attr-defined]
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_connect_string_has_the_given_host() -> None:
    async with EmbeddedServer(host="localhost") as server:
        assert server.connect_string == f"localhost:{server.port}"
        async with await anyio.connect_tcp("localhost", server.port) as stream:
            await StreamClient(stream).greet()


async def test_server_without_a_port(visit: Visit) -> None:
    async with EmbeddedServer(port=None) as server:
        with pytest.raises(UsageError, match="port=None"):
            _ = server.port
        client = await visit(server)
        await server.stop()
        await client.wait_closed()
        await server.start()
        again = await visit(server, session=client.session)
        assert again.session_id == client.session_id


async def test_timeouts_are_negotiated(visit: Visit) -> None:
    async with EmbeddedServer(tick_time=0.1, max_session_timeout=1) as server:
        for timeout, granted in {0.0: 0.2, 0.5: 0.5, 100.0: 1.0}.items():
            assert (await visit(server, timeout=timeout)).timeout == granted


@both_transports
async def test_word_of_a_half_closed_connection_is_answered(
    own: EmbeddedServer, visit: Visit, transport: str
) -> None:
    client = await visit(own, transport, timeout=None)
    await client.stream.send(b"ruok")
    await client.stream.send_eof()
    answer = b""
    with pytest.raises(anyio.EndOfStream):
        while True:
            answer += await client.stream.receive()
    assert answer == b"imok"


# --- time --------------------------------------------------------------------------------------


@both_transports
async def test_silent_session_expires(visit: Visit, transport: str) -> None:
    clock = Clock()
    async with EmbeddedServer(clock=clock, tick_time=0.02, max_session_timeout=60) as server:
        a, b = await visit(server, transport, 0.04), await visit(server, transport, 60)
        await a.create("/e", EPHEMERAL)
        await b.ask(Exists("/e", watch=True))
        clock.now += 1  # Not before that, however long the requests have taken.
        assert await b.hear() == (EventType.DELETED, "/e")
        await a.wait_closed()
        assert list(server.sessions()) == [b.session_id]


def in_virtual_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run a test on trio, with a clock that jumps to the next event."""

    def run() -> None:
        clock = trio.testing.MockClock(autojump_threshold=0)
        anyio.run(test, backend="trio", backend_options={"clock": clock})

    run.__name__ = test.__name__
    return run


@in_virtual_time
async def test_expiry_follows_the_clock_to_the_tick() -> None:
    async with EmbeddedServer(tick_time=2) as server:
        start = anyio.current_time()
        client = await (await dial(server, "memory")).greet(5)
        await client.wait_closed()
        assert anyio.current_time() == pytest.approx((int((start + 5) // 2) + 1) * 2)


@in_virtual_time
async def test_session_that_pings_lives() -> None:
    async with EmbeddedServer() as server:
        client = await (await dial(server, "memory")).greet(5)
        for _ in range(2000):
            await anyio.sleep(4)
            await client.ping()
        assert server.sessions()[client.session_id] == SessionInfo(5.0, is_connected=True)


@in_virtual_time
async def test_connection_without_a_handshake_is_closed() -> None:
    async with EmbeddedServer() as server:
        silent, slow = await dial(server, "memory"), await dial(server, "memory")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(silent.wait_closed)
            # A byte now and then does not help.
            with pytest.raises(anyio.BrokenResourceError):
                for byte in encode_record(ConnectRequest(0, 5000, 0, bytes(16))):
                    await slow.stream.send(bytes([byte]))
                    await anyio.sleep(3)
        assert server.connections == 0


@in_virtual_time
async def test_containers_are_reaped() -> None:
    async with EmbeddedServer(container_interval=60, max_session_timeout=1000) as server:
        client = await (await dial(server, "memory")).greet(1000)
        await client.ask(create("/c", flags=4, op=OpCode.CREATE_CONTAINER))
        await client.create("/c/x")
        await client.ask(Delete("/c/x", -1))
        await client.ask(Exists("/c", watch=True))
        assert await client.hear() == (EventType.DELETED, "/c")
        assert 0 < anyio.current_time() <= 61


# --- pausing, stopping, cutting ----------------------------------------------------------------


async def test_paused_server_answers_after_it_is_resumed(own: EmbeddedServer, visit: Visit) -> None:
    client = await visit(own)
    own.pause()
    newcomer = await visit(own, timeout=None)
    answered = []

    async def ask() -> None:
        await client.ping()
        answered.append("ping")

    async def greet() -> None:
        await newcomer.greet()
        answered.append("greeting")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(greet)
        await anyio.wait_all_tasks_blocked()
        assert answered == []
        assert own.connections == 2
        own.resume()
    assert sorted(answered) == ["greeting", "ping"]
    own.resume()


async def test_paused_server_accepts_tcp_connections(own: EmbeddedServer, visit: Visit) -> None:
    own.pause()
    client = await visit(own, "tcp", timeout=None)
    await client.stream.send(b"ruok")
    own.resume()
    assert await client.stream.receive() == b"imok"


@pytest.mark.parametrize("seconds", [4, 100])
async def test_sessions_expire_in_a_pause_before_anything_is_read(
    visit: Visit, seconds: int
) -> None:
    clock = Clock()
    async with EmbeddedServer(clock=clock) as server:
        client = await visit(server)
        server.pause()
        clock.now += seconds
        assert list(server.sessions()) == [client.session_id]
        await client.stream.send(PING)
        server.resume()
        if seconds > client.timeout:
            await client.wait_closed()
            assert server.sessions() == {}
        else:
            await client.ping()


async def test_connection_to_a_server_that_closes_is_refused() -> None:
    """Each one is served or refused. A client that connects again cannot keep a server open."""
    refused = 0

    async def come(server: EmbeddedServer, closing: anyio.Event) -> None:
        nonlocal refused
        await closing.wait()
        while not refused:
            try:
                await (await server.connect_stream()).aclose()
            except ConnectionRefusedError:
                refused += 1

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            closing = anyio.Event()
            async with EmbeddedServer(port=None) as server:
                tasks.start_soon(come, server, closing)
                closing.set()
    assert refused == 1


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_connection_to_a_server_that_stops_is_closed(tls: bool) -> None:
    """In the same iteration of the event loop in which it would be accepted or served."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
    async with EmbeddedServer(ssl_context=context) as server:
        for turns in 5 * [*range(8)]:
            await server.start()
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                await server.stop()
                assert server.connections == 0
                # A connection that was accepted and forgotten would be a timeout here.
                client.settimeout(PATIENCE)
                with contextlib.suppress(ConnectionResetError):
                    assert client.recv(1) == b""


@both_transports
async def test_restart_keeps_znodes_and_sessions(visit: Visit, transport: str) -> None:
    clock = Clock()
    async with EmbeddedServer(clock=clock) as server:
        port = server.port
        client = await visit(server, transport)
        await client.create("/e", EPHEMERAL)
        await client.ask(GetData("/e", watch=True))
        await server.stop()
        await server.stop()
        await client.wait_closed()
        with pytest.raises(OSError, match=r"."):
            await dial(server, transport)
        assert server.connections == 0
        assert server.watches() == {}
        clock.now += 100
        await server.start()
        await server.start()
        assert server.port == port
        assert server.znodes() == ["/e"]
        assert server.sessions() == {client.session_id: SessionInfo(5.0, is_connected=False)}
        again = await visit(server, transport, session=client.session)
        assert again.session_id == client.session_id
        await again.ask(Exists("/e"))


@both_transports
@pytest.mark.parametrize(
    ("reset", "error"), [(False, anyio.EndOfStream), (True, anyio.BrokenResourceError)]
)
async def test_disconnect(
    own: EmbeddedServer, visit: Visit, transport: str, reset: bool, error: type[Exception]
) -> None:
    clients = [await visit(own, transport) for _ in range(3)]
    own.disconnect(clients[0].session_id, reset=reset)
    assert own.connections == 2
    assert isinstance(await clients[0].wait_closed(), error)
    await clients[1].ping()
    own.disconnect(reset=reset)
    assert own.connections == 0
    for client in clients[1:]:
        assert isinstance(await client.wait_closed(), error)
    assert [info.is_connected for info in own.sessions().values()] == [False] * 3
    again = await visit(own, transport, session=clients[0].session)
    await again.ping()


@both_transports
async def test_dropped_replies_and_requests(
    own: EmbeddedServer, visit: Visit, transport: str
) -> None:
    client = await visit(own, transport)
    own.drop_reply(OpCode.CREATE2)
    with pytest.raises(ENDED):
        await client.create("/x")
    assert own.znodes() == ["/x"]
    again = await visit(own, transport, session=client.session)
    own.drop_request(OpCode.CREATE2)
    with pytest.raises(ENDED):
        await again.create("/y")
    assert own.znodes() == ["/x"]


async def test_expire_session(own: EmbeddedServer, visit: Visit) -> None:
    client, witness = await visit(own), await visit(own)
    await client.create("/e", EPHEMERAL)
    await witness.ask(GetChildren("/", watch=True))
    own.expire_session(client.session_id)
    assert own.znodes() == []
    assert await witness.hear() == (EventType.CHILDREN_CHANGED, "/")
    await client.wait_closed()
    with pytest.raises(UsageError, match="no session"):
        own.expire_session(client.session_id)
    refused = await visit(own, session=client.session)
    assert (refused.session_id, refused.timeout) == (0, 0.0)


async def test_set_sequence(own: EmbeddedServer, visit: Visit) -> None:
    client = await visit(own)
    own.set_sequence("/", 2147483647)
    assert await client.create("/n-", SEQUENTIAL) == "/n-2147483647"
    for value in (-1, 2147483648):
        with pytest.raises(ConfigurationError, match="value"):
            own.set_sequence("/", value)


async def test_state_and_counters(own: EmbeddedServer, visit: Visit) -> None:
    a, b = await visit(own, "memory", 5), await visit(own, "tcp", 3)
    await a.create("/b")
    await a.create("/a")
    await a.ask(GetData("/a", watch=True))
    await b.ask(GetChildren("/a", watch=True))
    await b.ping()
    assert own.znodes() == ["/a", "/b"]
    assert own.sessions() == {
        a.session_id: SessionInfo(5.0, is_connected=True),
        b.session_id: SessionInfo(3.0, is_connected=True),
    }
    assert own.watches() == {"/a": {a.session_id, b.session_id}}
    assert own.requests == {"CREATE2": 2, "GET_DATA": 1, "GET_CHILDREN2": 1, "PING": 1}
    assert own.connections == 2
    assert (own.packets_in, own.packets_out) == (7, 7)
    assert own.bytes_in > 7 * 12
    assert own.bytes_out > 7 * 20
    assert own.zxid == 4


# --- clients that misbehave --------------------------------------------------------------------


@both_transports
@pytest.mark.parametrize(
    "noise",
    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x04xxxx"],
)
async def test_noise_ends_only_its_connection(
    own: EmbeddedServer, visit: Visit, transport: str, noise: bytes
) -> None:
    client = await visit(own, transport)
    for noisy in (await visit(own, transport, timeout=None), await visit(own, transport)):
        await noisy.stream.send(noise)
        await noisy.wait_closed()
    await client.ping()


async def test_connection_that_ends_anywhere_leaves_nothing(
    own: EmbeddedServer, visit: Visit
) -> None:
    for cut in range(1, 60):
        data = encode_record(ConnectRequest(0, 5000, 0, bytes(16))) + PING
        stream = await anyio.connect_tcp("127.0.0.1", own.port)
        await stream.send(data[:cut])
        if cut % 2:
            raw = stream.extra(SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.aclose()
    client = await visit(own, "tcp")
    while own.connections > 1:
        await client.ping()


async def test_connections_above_the_limit_are_closed(visit: Visit) -> None:
    async with EmbeddedServer(max_connections=1) as server:
        first = await visit(server, "tcp")
        for transport in ("tcp", "memory"):
            client = await visit(server, transport, timeout=None)
            assert isinstance(await client.wait_closed(), ENDED)
        await first.ping()


@virtually
async def test_connections_are_limited_by_default() -> None:
    # A thousand of them would take a busy machine longer than a client may be silent.
    async with EmbeddedServer(port=None) as server:
        streams = [await server.connect_stream() for _ in range(MAX_CONNECTIONS)]
        assert server.connections == MAX_CONNECTIONS
        with pytest.raises(ENDED):
            await (await server.connect_stream()).receive()
        streams[0].close()
        while server.connections == MAX_CONNECTIONS:
            await anyio.lowlevel.checkpoint()
        client = await (await dial(server, "memory")).greet()
        await client.ping()
        for stream in (*streams, client.stream):
            stream.close()


async def test_tls_handshakes_count_as_connections() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    async with EmbeddedServer(ssl_context=context, max_connections=2) as server:
        streams = [await server.connect_stream() for _ in range(2)]
        await anyio.wait_all_tasks_blocked()
        # None of them has sent anything yet, and there is no room for a third one.
        with pytest.raises(ENDED):
            await (await server.connect_stream()).receive()
        for stream in streams:
            stream.close()
        await anyio.wait_all_tasks_blocked()
        third = await server.connect_stream()
        with anyio.move_on_after(0) as scope:
            await third.receive()
        assert scope.cancelled_caught
        third.close()


@pytest.mark.parametrize(
    ("host", "is_logged"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)]
)
async def test_listening_beyond_this_machine_is_a_warning(
    caplog: pytest.LogCaptureFixture, host: str, is_logged: bool
) -> None:
    with caplog.at_level(logging.WARNING, "aiolead"):
        async with EmbeddedServer(host=host) as server:
            port = server.port
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == is_logged
    assert all(f"{host}:{port}" in line for line in logged)


async def test_client_that_does_not_read_delays_nobody_else(
    own: EmbeddedServer, visit: Visit
) -> None:
    deaf, other = await visit(own), await visit(own)
    await other.create("/" + "x" * 50_000)
    request = GetChildren("/")
    flood = encode_request(1, request.op, request.encode()) * 500
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deaf.stream.send, flood)
        await anyio.wait_all_tasks_blocked()
        await other.ping()
        # The unsent data are bounded, in the server and on the connection.
        assert own.bytes_out < 3_000_000
        for _ in range(500):
            assert len(await deaf.next_frame()) > 50_000


# --- entering and leaving ----------------------------------------------------------------------


class Oops(Exception):
    pass


@pytest.fixture
def broken_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that fails at whatever a client sends."""

    def receive(*_: object) -> bool:
        raise Oops("in the core")

    monkeypatch.setattr(Core, "receive", receive)


async def break_it(server: EmbeddedServer) -> None:
    client = await dial(server, "memory")
    await client.stream.send(b"anything")
    await client.wait_closed()


@pytest.mark.usefixtures("broken_core")
async def test_internal_errors_are_raised_at_the_end() -> None:
    with pytest.raises(Oops, match="in the core"):
        async with EmbeddedServer() as server:
            await break_it(server)
    with pytest.RaisesGroup(Oops, Oops):
        async with EmbeddedServer() as server:
            await break_it(server)
            await break_it(server)
    with pytest.raises(KeyError) as caught:
        async with EmbeddedServer() as server:
            await break_it(server)
            raise KeyError
    assert ["in the core" in note for note in caught.value.__notes__] == [True]


async def test_local_sessions_have_no_ephemeral_znodes() -> None:
    async with EmbeddedServer(local_sessions=True) as server:
        await refuses_ephemerals(server.connect_string)


async def test_leaving_closes_all_connections_and_the_port(visit: Visit) -> None:
    async with EmbeddedServer() as server:
        port = server.port
        clients = await visit(server, "tcp"), await visit(server)
    for client in clients:
        await client.wait_closed()
    with pytest.raises(OSError, match=r"."):
        await anyio.connect_tcp("127.0.0.1", port)


async def test_port_that_is_taken(own: EmbeddedServer) -> None:
    with pytest.raises(OSError, match="in use"):
        async with EmbeddedServer(port=own.port):
            pytest.fail("entered")


async def test_misuse() -> None:
    server = EmbeddedServer()
    with pytest.raises(UsageError, match="async with"):
        _ = server.port
    async with server:
        with pytest.raises(UsageError, match="once"):
            await server.__aenter__()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tick_time": 0}, "tick_time"),
        ({"min_session_timeout": 0}, "min_session_timeout"),
        ({"min_session_timeout": 5, "max_session_timeout": 4}, "min_session_timeout"),
        ({"max_frame": 0}, "max_frame"),
        ({"container_interval": 0}, "container_interval"),
        ({"max_connections": -1}, "max_connections"),
        ({"tls_port": 0}, "tls_port: needs ssl_context"),
        (
            {"tls_port": 0, "port": None, "ssl_context": ssl.create_default_context()},
            "tls_port: needs port",
        ),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        EmbeddedServer(**options)


# --- in a thread -------------------------------------------------------------------------------


def test_server_in_a_thread() -> None:
    with EmbeddedServer.in_thread(tick_time=0.1) as server:
        with RawClient(server.connect_string, session_timeout=2) as client:
            client.create("/x")
            session_id = client.session.session_id
            assert server.sessions() == {session_id: SessionInfo(2.0, is_connected=True)}
            assert server.znodes() == ["/x"]
            assert server.requests == {"CREATE": 1}
            assert server.connections == 1
            assert server.watches() == {}
            server.set_sequence("/x", 5)
            assert client.create("/x/n-", flags=SEQUENTIAL) == "/x/n-0000000005"
            server.drop_reply(OpCode.CREATE)
            with pytest.raises((EOFError, ConnectionError)):
                client.create("/y")
        server.expire_session(session_id)
        server.drop_request(OpCode.CREATE)
        server.pause()
        server.resume()
        server.disconnect()
        port = server.port
        server.stop()
        server.start()
        assert server.port == port
        assert server.zxid == 5
        counters = (server.packets_in, server.packets_out, server.bytes_in, server.bytes_out)
        assert min(counters) > 0


def test_errors_of_a_server_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedServer.in_thread()
    with pytest.raises(UsageError, match="with"):
        _ = server.port
    with server:
        with pytest.raises(UsageError, match="no session"):
            server.expire_session(5)
        with pytest.raises(UsageError, match="once"):
            server.__enter__()


@pytest.mark.usefixtures("broken_core")
def test_internal_error_of_a_server_in_a_thread() -> None:
    with (
        pytest.raises(Oops, match="in the core"),
        EmbeddedServer.in_thread() as server,
        socket.create_connection(("127.0.0.1", server.port), 5) as link,
    ):
        link.sendall(b"?")
        assert link.recv(1) == b""
