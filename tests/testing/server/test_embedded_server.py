"""The embedded server as its users meet it: over TCP and in memory, on every event loop."""

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
from testing.stream_client import ENDED, StreamClient, dial
from testing.wire_core import create

from aiolead._wire.framing import PING, encode_body, encode_record, encode_request
from aiolead._wire.handshake import ConnectRequest
from aiolead._wire.requests import Delete, Exists, GetChildren, GetData
from aiolead.errors import ConfigurationError, NoNodeError, UsageError
from aiolead.model import EventType
from aiolead.testing import EmbeddedServer, OpCode, SessionInfo
from aiolead.testing._server.core import Core
from aiolead.testing.embedded import MAX_CONNECTIONS

EPHEMERAL, SEQUENTIAL = 1, 2

both_transports = pytest.mark.parametrize("transport", ["tcp", "memory"])


pytestmark = pytest.mark.timeout(60)


# --- serving -----------------------------------------------------------------------------------


async def test_tls_port_serves_the_same_znodes_as_the_port_without_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context(authority.issue())
    async with EmbeddedServer(ssl_context=context, tls_port=0) as server:
        ports = server.port, int(server.tls_connect_string.rpartition(":")[2])
        for _ in range(2):
            plain = await (await dial(server, "tcp")).greet()
            in_memory = await (await dial(server, "memory")).greet()
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
                await client.stream.aclose()


async def test_without_tls_port_there_is_no_address_of_it() -> None:
    async with EmbeddedServer() as server:
        with pytest.raises(UsageError, match="without tls_port"):
            _ = server.tls_connect_string


@both_transports
async def test_it_serves(transport: str) -> None:
    async with EmbeddedServer() as server:
        a = await (await dial(server, transport)).greet()
        assert await a.create("/x") == "/x"
        b = await (await dial(server, transport)).greet()
        await b.ask(GetData("/x", watch=True))
        await a.ask(Delete("/x", -1))
        assert await b.hear() == (EventType.DELETED, "/x")
        with pytest.raises(NoNodeError):
            await b.ask(GetData("/x"))
        for talk in (a, b):
            await talk.stream.aclose()


@both_transports
async def test_many_requests_in_one_segment_are_answered_in_one(transport: str) -> None:
    async with EmbeddedServer() as server:
        talk = await (await dial(server, transport)).greet()
        await talk.stream.send(PING * 50)
        answers = await talk.stream.receive()
        assert len(answers) == 50 * 20
        await talk.stream.aclose()


async def test_segments_leave_at_once() -> None:
    async with EmbeddedServer() as server, await anyio.connect_tcp("127.0.0.1", server.port):
        (link,) = server._running._links.values()
        raw: socket.socket = link._transport._socket  # type: ignore[attr-defined]
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_where_it_is() -> None:
    async with EmbeddedServer(host="localhost") as server:
        assert server.connect_string == f"localhost:{server.port}"
        talk = StreamClient(await anyio.connect_tcp("localhost", server.port))
        await talk.greet()
        await talk.stream.aclose()


async def test_it_need_not_listen() -> None:
    async with EmbeddedServer(port=None) as server:
        with pytest.raises(UsageError, match="port=None"):
            _ = server.port
        talk = await (await dial(server, "memory")).greet()
        await server.stop()
        await talk.wait_closed()
        await server.start()
        again = await (await dial(server, "memory")).greet(session=talk.session)
        assert again.session_id == talk.session_id


async def test_timeouts_are_negotiated() -> None:
    async with EmbeddedServer(tick_time=0.1, max_session_timeout=1) as server:
        asked = {0.0: 0.2, 0.5: 0.5, 100.0: 1.0}
        for timeout, granted in asked.items():
            talk = await (await dial(server, "memory")).greet(timeout)
            assert talk.timeout == granted


@both_transports
async def test_a_word_whose_sender_half_closes_is_answered(transport: str) -> None:
    async with EmbeddedServer() as server:
        talk = await dial(server, transport)
        await talk.stream.send(b"ruok")
        await talk.stream.send_eof()
        answer = b""
        with pytest.raises(anyio.EndOfStream):
            while True:
                answer += await talk.stream.receive()
        assert answer == b"imok"
        await talk.stream.aclose()


# --- time --------------------------------------------------------------------------------------


@both_transports
async def test_a_silent_session_ends(transport: str) -> None:
    now = 1000.0
    options: dict[str, Any] = {"tick_time": 0.02, "max_session_timeout": 60}
    async with EmbeddedServer(clock=lambda: now, **options) as server:
        a = await (await dial(server, transport)).greet(0.04)
        b = await (await dial(server, transport)).greet(60)
        await a.create("/e", EPHEMERAL)
        await b.ask(Exists("/e", watch=True))
        now += 1  # Not before that, however long the requests have taken.
        assert await b.hear() == (EventType.DELETED, "/e")
        await a.wait_closed()
        assert list(server.sessions()) == [b.session_id]
        for talk in (a, b):
            await talk.stream.aclose()


def run_in_virtual_time(test: Callable[[], Awaitable[None]]) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(test, backend="trio", backend_options={"clock": clock})


def test_expiry_follows_the_clock_to_the_tick() -> None:
    async def test() -> None:
        async with EmbeddedServer(tick_time=2) as server:
            start = anyio.current_time()
            a = await (await dial(server, "memory")).greet(5)
            await a.wait_closed()
            expiry = (int((start + 5) // 2) + 1) * 2
            assert anyio.current_time() == pytest.approx(expiry)

    run_in_virtual_time(test)


def test_hours_pass_at_once_and_a_pinging_session_lives() -> None:
    async def test() -> None:
        async with EmbeddedServer() as server:
            talk = await (await dial(server, "memory")).greet(5)
            for _ in range(2000):
                await anyio.sleep(4)
                await talk.ping()
            assert server.sessions()[talk.session_id] == SessionInfo(5.0, is_connected=True)

    run_in_virtual_time(test)


def test_who_never_says_hello_is_cut_off() -> None:
    async def test() -> None:
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

    run_in_virtual_time(test)


def test_containers_are_reaped() -> None:
    async def test() -> None:
        async with EmbeddedServer(container_interval=60, max_session_timeout=1000) as server:
            talk = await (await dial(server, "memory")).greet(1000)
            await talk.ask(create("/c", flags=4, op=OpCode.CREATE_CONTAINER))
            await talk.create("/c/x")
            await talk.ask(Delete("/c/x", -1))
            await talk.ask(Exists("/c", watch=True))
            assert await talk.hear() == (EventType.DELETED, "/c")
            assert 0 < anyio.current_time() <= 61

    run_in_virtual_time(test)


# --- pausing, stopping, cutting ----------------------------------------------------------------


async def test_a_paused_server_is_silent_and_then_goes_on() -> None:
    async with EmbeddedServer() as server:
        talk = await (await dial(server, "memory")).greet()
        server.pause()
        newcomer = await dial(server, "memory")
        answered = []

        async def ask() -> None:
            await talk.ping()
            answered.append("ping")

        async def greet() -> None:
            await newcomer.greet()
            answered.append("greeting")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(greet)
            await anyio.wait_all_tasks_blocked()
            assert answered == []
            assert server.connections == 2
            server.resume()
        assert sorted(answered) == ["greeting", "ping"]
        server.resume()


async def test_a_paused_server_takes_tcp_connections_as_the_kernel_does() -> None:
    async with EmbeddedServer() as server:
        server.pause()
        talk = await dial(server, "tcp")
        await talk.stream.send(b"ruok")
        server.resume()
        assert await talk.stream.receive() == b"imok"
        await talk.stream.aclose()


async def test_sessions_that_ran_out_in_a_pause_are_over_before_anything_is_read() -> None:
    now = 1000.0
    async with EmbeddedServer(clock=lambda: now) as server:
        talk = await (await dial(server, "memory")).greet(5)
        server.pause()
        now += 100
        assert list(server.sessions()) == [talk.session_id]
        await talk.stream.send(PING)
        server.resume()
        await talk.wait_closed()
        assert server.sessions() == {}


async def test_a_short_pause_ends_no_session() -> None:
    now = 1000.0
    async with EmbeddedServer(clock=lambda: now) as server:
        talk = await (await dial(server, "memory")).greet(5)
        server.pause()
        now += 4
        server.resume()
        await talk.ping()


async def test_who_comes_while_it_closes_is_refused() -> None:
    """Each one is served or refused: nobody keeps a server from closing by coming again."""
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
async def test_who_comes_as_it_stops_is_cut_off(tls: bool) -> None:
    """In the very turn of the event loop in which the connection would be accepted or served."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
    async with EmbeddedServer(ssl_context=context) as server:
        for turns in 5 * [*range(8)]:
            await server.start()
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                await server.stop()
                assert server.connections == 0
                # Whoever had stayed accepted, and forgotten, would be a timeout here.
                client.settimeout(PATIENCE)
                with contextlib.suppress(ConnectionResetError):
                    assert client.recv(1) == b""


@both_transports
async def test_stopping_and_starting_keeps_what_a_disk_would(transport: str) -> None:
    now = 1000.0
    async with EmbeddedServer(clock=lambda: now) as server:
        port = server.port
        talk = await (await dial(server, transport)).greet(5)
        await talk.create("/e", EPHEMERAL)
        await talk.ask(GetData("/e", watch=True))
        await server.stop()
        await server.stop()
        await talk.wait_closed()
        with pytest.raises(OSError, match=r"."):
            await dial(server, transport)
        assert server.connections == 0
        assert server.watches() == {}
        now += 100
        await server.start()
        await server.start()
        assert server.port == port
        assert server.znodes() == ["/e"]
        assert server.sessions() == {talk.session_id: SessionInfo(5.0, is_connected=False)}
        again = await (await dial(server, transport)).greet(5, talk.session)
        assert again.session_id == talk.session_id
        await again.ask(Exists("/e"))
        for end in (talk, again):
            await end.stream.aclose()


@both_transports
@pytest.mark.parametrize(
    ("reset", "error"), [(False, anyio.EndOfStream), (True, anyio.BrokenResourceError)]
)
async def test_cutting_connections(transport: str, reset: bool, error: type[Exception]) -> None:
    async with EmbeddedServer() as server:
        talks = [await (await dial(server, transport)).greet() for _ in range(3)]
        server.disconnect(talks[0].session_id, reset=reset)
        assert server.connections == 2
        assert isinstance(await talks[0].wait_closed(), error)
        await talks[1].ping()
        server.disconnect(reset=reset)
        assert server.connections == 0
        for talk in talks[1:]:
            assert isinstance(await talk.wait_closed(), error)
        assert [info.is_connected for info in server.sessions().values()] == [False] * 3
        again = await (await dial(server, transport)).greet(session=talks[0].session)
        await again.ping()
        for talk in (*talks, again):
            await talk.stream.aclose()


@both_transports
async def test_a_lost_reply(transport: str) -> None:
    async with EmbeddedServer() as server:
        talk = await (await dial(server, transport)).greet()
        server.drop_reply(OpCode.CREATE2)
        with pytest.raises(ENDED):
            await talk.create("/x")
        assert server.znodes() == ["/x"]
        again = await (await dial(server, transport)).greet(session=talk.session)
        server.drop_request(OpCode.CREATE2)
        with pytest.raises(ENDED):
            await again.create("/y")
        assert server.znodes() == ["/x"]
        for end in (talk, again):
            await end.stream.aclose()


async def test_ending_a_session() -> None:
    async with EmbeddedServer() as server:
        talk, witness = [await (await dial(server, "memory")).greet() for _ in range(2)]
        await talk.create("/e", EPHEMERAL)
        await witness.ask(GetChildren("/", watch=True))
        server.expire_session(talk.session_id)
        assert server.znodes() == []
        assert await witness.hear() == (EventType.CHILDREN_CHANGED, "/")
        await talk.wait_closed()
        with pytest.raises(UsageError, match="no session"):
            server.expire_session(talk.session_id)
        refused = await (await dial(server, "memory")).greet(session=talk.session)
        assert (refused.session_id, refused.timeout) == (0, 0.0)


async def test_near_the_end_of_the_sequence() -> None:
    async with EmbeddedServer() as server:
        talk = await (await dial(server, "memory")).greet()
        server.set_sequence("/", 2147483647)
        assert await talk.create("/n-", SEQUENTIAL) == "/n-2147483647"
        for value in (-1, 2147483648):
            with pytest.raises(ConfigurationError, match="value"):
                server.set_sequence("/", value)


# --- looking inside ----------------------------------------------------------------------------


async def test_looking_inside() -> None:
    async with EmbeddedServer() as server:
        a = await (await dial(server, "memory")).greet(5)
        b = await (await dial(server, "tcp")).greet(3)
        await a.create("/b")
        await a.create("/a")
        await a.ask(GetData("/a", watch=True))
        await b.ask(GetChildren("/a", watch=True))
        await b.ping()
        assert server.znodes() == ["/a", "/b"]
        assert server.sessions() == {
            a.session_id: SessionInfo(5.0, is_connected=True),
            b.session_id: SessionInfo(3.0, is_connected=True),
        }
        assert server.watches() == {"/a": {a.session_id, b.session_id}}
        assert server.requests == {"CREATE2": 2, "GET_DATA": 1, "GET_CHILDREN2": 1, "PING": 1}
        assert server.connections == 2
        assert (server.packets_in, server.packets_out) == (7, 7)
        assert server.bytes_in > 7 * 12
        assert server.bytes_out > 7 * 20
        assert server.zxid == 4
        await b.stream.aclose()


# --- clients that misbehave --------------------------------------------------------------------


@both_transports
@pytest.mark.parametrize(
    "noise",
    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x04xxxx"],
)
async def test_noise_ends_the_connection_and_nothing_else(transport: str, noise: bytes) -> None:
    async with EmbeddedServer() as server:
        stranger = await dial(server, transport)
        client = await (await dial(server, transport)).greet()
        talker = await (await dial(server, transport)).greet()
        for talk in (stranger, talker):
            await talk.stream.send(noise)
            await talk.wait_closed()
        await client.ping()
        for talk in (stranger, talker, client):
            await talk.stream.aclose()


async def test_a_client_that_breaks_off_anywhere_leaves_nothing() -> None:
    async with EmbeddedServer() as server:
        for cut in range(1, 60):
            data = encode_record(ConnectRequest(0, 5000, 0, bytes(16))) + PING
            stream = await anyio.connect_tcp("127.0.0.1", server.port)
            await stream.send(data[:cut])
            if cut % 2:
                raw = stream.extra(SocketAttribute.raw_socket)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
        talk = await (await dial(server, "tcp")).greet()
        while server.connections > 1:
            await talk.ping()
        await talk.stream.aclose()


async def test_too_many_connections() -> None:
    async with EmbeddedServer(max_connections=1) as server:
        first = await (await dial(server, "tcp")).greet()
        for transport in ("tcp", "memory"):
            talk = await dial(server, transport)
            assert isinstance(await talk.wait_closed(), ENDED)
            await talk.stream.aclose()
        await first.ping()
        await first.stream.aclose()


@virtually
async def test_there_is_a_limit_of_connections_by_default() -> None:
    # A thousand of them would take a busy machine longer than a client may be silent.
    async with EmbeddedServer(port=None) as server:
        streams = [await server.connect_stream() for _ in range(MAX_CONNECTIONS)]
        assert server.connections == MAX_CONNECTIONS
        with pytest.raises(ENDED):
            await (await server.connect_stream()).receive()
        streams[0].close()
        while server.connections == MAX_CONNECTIONS:
            await anyio.lowlevel.checkpoint()
        talk = await (await dial(server, "memory")).greet()
        await talk.ping()
        for stream in (*streams, talk.stream):
            stream.close()


async def test_handshakes_of_tls_count_as_connections() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    async with EmbeddedServer(ssl_context=context, max_connections=2) as server:
        streams = [await server.connect_stream() for _ in range(2)]
        await anyio.wait_all_tasks_blocked()
        # Nobody of them has said anything yet, and there is no room for a third one.
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
    ("host", "is_told"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)]
)
async def test_listening_beyond_this_machine_is_a_warning(
    caplog: pytest.LogCaptureFixture, host: str, is_told: bool
) -> None:
    with caplog.at_level(logging.WARNING, "aiolead"):
        async with EmbeddedServer(host=host) as server:
            port = server.port
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == is_told
    assert all(f"{host}:{port}" in line for line in told)


async def test_who_does_not_read_holds_up_nobody_else_and_misses_nothing() -> None:
    async with EmbeddedServer() as server:
        deaf, other = [await (await dial(server, "memory")).greet() for _ in range(2)]
        await other.create("/" + "x" * 50_000)
        request = GetChildren("/")
        flood = encode_request(1, request.op, encode_body(request)) * 500
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deaf.stream.send, flood)
            await anyio.wait_all_tasks_blocked()
            await other.ping()
            # What is sent is bounded, wherever it waits: in the server, on its way, or unread.
            assert server.bytes_out < 3_000_000
            for _ in range(500):
                assert len(await deaf.next_frame()) > 50_000


# --- entering and leaving ----------------------------------------------------------------------


class Oops(Exception):
    pass


async def test_what_the_body_raises_leaves_bare() -> None:
    with pytest.raises(Oops):
        async with EmbeddedServer() as server:
            await dial(server, "memory")
            raise Oops


async def test_cancellation_passes() -> None:
    with anyio.move_on_after(0) as scope:
        async with EmbeddedServer():
            await anyio.sleep_forever()
    assert scope.cancelled_caught


def break_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive(*_: object) -> bool:
        raise Oops("in the core")

    monkeypatch.setattr(Core, "receive", receive)


async def test_what_goes_wrong_inside_is_raised_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Oops, match="in the core"):
        async with EmbeddedServer() as server:
            break_core(monkeypatch)
            talk = await dial(server, "memory")
            await talk.stream.send(b"anything")
            await talk.wait_closed()
    with pytest.RaisesGroup(Oops, Oops):
        async with EmbeddedServer() as server:
            for _ in range(2):
                talk = await dial(server, "memory")
                await talk.stream.send(b"anything")
                await talk.wait_closed()


async def test_the_bodys_own_error_wins_and_notes_the_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyError) as caught:
        async with EmbeddedServer() as server:
            break_core(monkeypatch)
            talk = await dial(server, "memory")
            await talk.stream.send(b"anything")
            await talk.wait_closed()
            raise KeyError
    assert ["in the core" in note for note in caught.value.__notes__] == [True]


async def test_sessions_that_are_local_have_no_ephemeral_znodes() -> None:
    async with EmbeddedServer(local_sessions=True) as server:
        await refuses_ephemerals(server.connect_string)


async def test_leaving_closes_everything() -> None:
    async with EmbeddedServer() as server:
        port = server.port
        tcp = await (await dial(server, "tcp")).greet()
        memory = await (await dial(server, "memory")).greet()
    for talk in (tcp, memory):
        await talk.wait_closed()
        await talk.stream.aclose()
    with pytest.raises(OSError, match=r"."):
        await anyio.connect_tcp("127.0.0.1", port)


async def test_a_port_that_is_taken() -> None:
    async with EmbeddedServer() as server:
        with pytest.raises(OSError, match="in use"):
            async with EmbeddedServer(port=server.port):
                pytest.fail("entered")


async def test_misuse() -> None:
    server = EmbeddedServer()
    with pytest.raises(UsageError, match="async with"):
        _ = server.port
    async with server:
        with pytest.raises(UsageError, match="once"):
            await server.__aenter__()


@pytest.mark.parametrize(
    ("options", "name"),
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
def test_arguments_that_make_no_sense(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        EmbeddedServer(**options)


# --- in a thread -------------------------------------------------------------------------------


def test_in_a_thread() -> None:
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
        assert server.packets_in > 0
        assert server.packets_out > 0
        assert server.bytes_in > 0
        assert server.bytes_out > 0


def test_in_a_thread_errors_arrive_here(monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedServer.in_thread()
    with pytest.raises(UsageError, match="with"):
        _ = server.port
    with server:
        with pytest.raises(UsageError, match="no session"):
            server.expire_session(5)
        with pytest.raises(UsageError, match="once"):
            server.__enter__()
    with (
        pytest.raises(Oops, match="in the core"),
        EmbeddedServer.in_thread() as server,
        socket.create_connection(("127.0.0.1", server.port), 5) as link,
    ):
        break_core(monkeypatch)
        link.sendall(b"?")
        assert link.recv(1) == b""
