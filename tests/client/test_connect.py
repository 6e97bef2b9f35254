"""Opening a client, failing to open it, and closing it: nothing is left behind."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import trio.testing
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from client.fake_server import FakeServer, error
from conftest import ServerUnderTest
from kit.clients import PATIENCE, Link, connect, eventually, tasks_living, why_not_connected
from kit.selection import BACKENDS
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded as embedded_in_memory
from kit.virtual_time import settled, virtually

import aiolead
from aiolead import Auth, Client, CreateMode
from aiolead._client.connect_options import best_clock, lease_clock
from aiolead._client.core import Core
from aiolead._client.net.opener import dial_tcp
from aiolead._wire.codes import XID_AUTH, OpCode
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    ConnectFailed,
    InternalError,
    UsageError,
)
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, Hooks

on_asyncio = pytest.mark.parametrize(
    "anyio_backend",
    [each for each in BACKENDS if each.values[0][0] == "asyncio"],  # type: ignore[index]
)
on_trio = pytest.mark.parametrize("anyio_backend", [pytest.param(("trio", {}), id="trio")])


@asynccontextmanager
async def leaving_nothing(server: EmbeddedServer) -> AsyncIterator[None]:
    """Checks that no task, connection or session is left of what happened inside."""
    tasks, connections, sessions = tasks_living(), server.connections, set(server.sessions())
    try:
        yield
    finally:
        assert tasks_living() <= tasks
        assert set(server.sessions()) == sessions
        await eventually(lambda: server.connections == connections, "connections are closed")
        await eventually(lambda: tasks_living() <= tasks, "the server's tasks for them ended")


@contextmanager
def free_port() -> Iterator[int]:
    """A port on which nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


# --- open and closed ---------------------------------------------------------------------------


async def test_closed_client_leaves_no_task(server: ServerUnderTest) -> None:
    tasks = tasks_living()
    async with connect(server) as client:
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        assert client.state is SessionState.CONNECTED
        assert client.session_id != 0
        assert client.backend.lease.remaining() > 0
    assert client.state is SessionState.CLOSED
    assert tasks_living() == tasks


async def test_closed_client_leaves_nothing_at_the_server(zk: EmbeddedServer) -> None:
    async with leaving_nothing(zk):
        async with connect(zk) as client:
            await client.create("/e", mode=CreateMode.EPHEMERAL)
            await client.get_children("/", watch=client.backend.make_watch())
            assert zk.sessions()[client.session_id].is_connected
        for _ in range(20):
            async with connect(zk) as client:
                await client.sync()
    assert zk.znodes() == []
    assert zk.watches() == {}


async def test_small_packets_are_not_held_back(zk: EmbeddedServer) -> None:
    stream = await dial_tcp("127.0.0.1", zk.port)
    raw = stream.extra(SocketAttribute.raw_socket)
    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    await anyio.aclose_forcefully(stream)


async def test_connection_is_entered_only_once(server: ServerUnderTest) -> None:
    connection = connect(server)
    async with connection:
        with pytest.raises(UsageError, match="entered already"):
            await connection.__aenter__()
    with pytest.raises(UsageError, match="entered already"):
        await connection.__aenter__()


async def test_closed_client_refuses_everything(zk: EmbeddedServer) -> None:
    async with Link(zk).connect() as client:
        open_ = client.get("/", watch=client.backend.make_watch())
        watch = client.backend.make_watch()
        await client.get("/", watch=watch)
    assert open_.is_done
    assert watch.event is not None
    packets = zk.packets_in
    for ask in (
        lambda: client.get("/"), lambda: client.create("/a"), client.sync,
        lambda: client.check("/a"), lambda: client.transaction().check("/a"),
        lambda: client.get("/", watch=client.backend.make_watch()),
        lambda: client.ensure_path("/a/b"), lambda: client.fenced("/a").set("/b", b""),
        client.ready,
    ):  # fmt: skip
        with pytest.raises(ClientClosedError, match="the client is closed"):
            await ask()
    client.backend.spawn(client.ready)  # without effect, and without a coroutine left behind
    assert zk.packets_in == packets


async def test_open_request_is_still_sent_at_the_close(zk: EmbeddedServer) -> None:
    async with Link(zk).connect() as client:
        last = client.create("/last")
    assert last.result().path == "/last"
    assert "/last" in zk.znodes()


# --- failing to connect ------------------------------------------------------------------------


async def test_connect_failed_names_each_server_and_reason() -> None:
    with free_port() as first, free_port() as second:
        hosts = f"127.0.0.1:{first},127.0.0.1:{second}"
        tasks = tasks_living()
        error = await why_not_connected(hosts, session_timeout=30)
        assert tasks_living() == tasks
    assert isinstance(error, OSError)
    attempts = dict(error.attempts)
    assert set(attempts) == set(hosts.split(","))
    for reason in attempts.values():
        assert isinstance(reason, ConnectionRefusedError)
    said = rf"no session with {hosts} within [\d.]+ seconds \(127\.0\.0\.1:"
    assert re.match(said, str(error))


@pytest.mark.parametrize(("patience", "so_far"), [(0.9, "yet"), (1.1, "in time")])
@virtually
async def test_silent_server_is_the_reason(patience: float, so_far: str) -> None:
    async with embedded_in_memory() as server:
        link = Link(server)
        link.ignore()
        with pytest.raises(ConnectFailed) as raised:
            async with link.connect(session_timeout=2, connect_timeout=patience):
                raise AssertionError
    ((name, reason),) = raised.value.attempts
    assert name == "10.0.0.1:2181"
    # One attempt has a second: half of the session timeout, where there is one server.
    assert str(reason) == f"no answer to the handshake {so_far}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            b"HTTP/1.1 400 Bad\r\n\r\n",
            "an answer of an HTTP server, beginning with 'HTTP/1.1 400 Bad'",
        ),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "the greeting of an SSH server"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "it is TLS: a port for TLS, spoken to in plain text?"),
        (b"", "hung up"),
    ],
    ids=["http", "ssh", "tls", "closed"],
)
async def test_other_protocol_of_a_server_is_named(answer: bytes, said: str) -> None:
    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            if answer:
                await stream.send(answer)
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await stream.receive()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        failed = await why_not_connected(f"127.0.0.1:{port}")
        tasks.cancel_scope.cancel()
    ((name, reason),) = failed.attempts
    assert name == f"127.0.0.1:{port}"
    if answer:
        assert isinstance(reason, aiolead.errors.RemoteWireError)
        assert said in str(reason)
    assert str(reason) in str(failed)


@pytest.mark.parametrize("connect", [aiolead.connect, aiolead.blocking.connect])
def test_session_timeout_in_milliseconds_is_explained(connect: Callable[..., object]) -> None:
    with pytest.raises(
        aiolead.errors.ConfigurationError,
        match=r"session_timeout: must be a number of seconds from 0\.1 to 3600, not 10000: .*"
        r"In milliseconds, as Java's client has it\? Then write 10$",
    ):
        connect("127.0.0.1:1", session_timeout=10000)
    for value in (1e300, float("inf"), "10000", True, None):
        with pytest.raises(aiolead.errors.ConfigurationError) as refused:
            connect("127.0.0.1:1", session_timeout=value)
        assert "In milliseconds" not in str(refused.value)
    connect("127.0.0.1:1", session_timeout=3600)


@virtually
async def test_servers_that_were_not_tried_are_named() -> None:
    async def dial(_host: str, _port: int) -> ByteStream:
        await anyio.sleep_forever()
        raise AssertionError

    hosts = "127.0.0.1:1,127.0.0.1:11,[::1]:1"
    with pytest.raises(ConnectFailed) as raised:
        async with aiolead.connect(hosts, connect_timeout=0.1, hooks=Hooks(dial=dial)):
            raise AssertionError
    reasons = {name: str(reason) for name, reason in raised.value.attempts}
    assert set(reasons) == {"127.0.0.1:1", "127.0.0.1:11", "[::1]:1"}
    assert sorted(reasons.values()) == ["no connection yet", "not tried yet", "not tried yet"]


async def test_only_running_server_is_found(embedded: str) -> None:
    with free_port() as port:
        hosts = f"127.0.0.1:{port},{embedded},127.0.0.1:{port}"
        async with aiolead.connect(hosts, session_timeout=8) as client:
            assert client.state is SessionState.CONNECTED


@pytest.mark.parametrize("waits", [True, False], ids=["connect", "request"])
async def test_refused_credentials_end_the_client(fake: FakeServer, waits: bool) -> None:
    fake.answer = lambda header: error(header, -115)
    options = {"auth": [Auth("digest", b"user:secret")]} | ({} if waits else {"connect_timeout": 0})
    with (
        anyio.fail_after(PATIENCE),
        pytest.raises(AuthFailedError, match="refused the credentials"),
    ):
        async with fake.connect(**options) as client:
            assert not waits
            await client.exists("/")
    assert fake.connections == 1
    assert fake.requests[0].xid == XID_AUTH  # no other request was sent before it
    if waits:
        assert len(fake.requests) == 1


async def test_cancelled_connecting_leaves_no_task(fake: FakeServer) -> None:
    fake.greet = lambda _: None
    tasks = tasks_living()
    with anyio.move_on_after(0.05) as scope:
        async with fake.connect():
            raise AssertionError
    assert scope.cancelled_caught
    await eventually(lambda: tasks_living() <= tasks, "no task is left")


@virtually
async def test_cancelled_connecting_leaves_no_session() -> None:
    async def enter() -> None:
        async with connect_virtually(server):
            await anyio.sleep_forever()

    async with embedded_in_memory() as server:
        for turns in range(40):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(enter)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert server.sessions() == {}, f"after {turns} turns"
        assert server.packets_in > 10


@virtually
async def test_client_that_is_left_while_it_reconnects_closes_its_session() -> None:
    async with embedded_in_memory() as server:
        link = Link(server)
        async with link.connect() as client:
            link.reset()
            link.stall("to_client")
            await anyio.sleep(0.1)
            assert client.state is SessionState.SUSPENDED
            link.heal()
        assert server.sessions() == {}


# --- leaving -----------------------------------------------------------------------------------


class Stop(BaseException):
    """As a KeyboardInterrupt: not an Exception."""


async def raising(error: BaseException) -> None:
    await anyio.lowlevel.checkpoint()
    raise error


@pytest.mark.parametrize(
    "error",
    [
        KeyError("mine"),
        ExceptionGroup("mine", [ValueError("one"), KeyError("two")]),
        BaseExceptionGroup("mine", [Stop()]),
        Stop(),
        ConnectFailed("mine"),
        TimeoutError("mine"),
    ],
    ids=repr,
)
async def test_body_error_propagates_unchanged(zk: EmbeddedServer, error: BaseException) -> None:
    async with leaving_nothing(zk):
        with pytest.raises(BaseException) as raised:
            async with connect(zk) as client:
                await client.create("/e", mode=CreateMode.EPHEMERAL)
                await raising(error)
    assert raised.value is error
    assert raised.value.__cause__ is None
    assert zk.znodes() == []


@pytest.mark.parametrize("where", ["around", "inside"])
async def test_cancelled_client_closes_its_session(zk: EmbeddedServer, where: str) -> None:
    async with leaving_nothing(zk):
        with anyio.CancelScope() as around:
            async with connect(zk) as client:
                await client.create("/e", mode=CreateMode.EPHEMERAL)
                with anyio.CancelScope() as inside:
                    (around if where == "around" else inside).cancel()
                    await anyio.sleep_forever()
        assert (around if where == "around" else inside).cancelled_caught
    # The request to close the session is sent although all around it is cancelled.
    assert zk.znodes() == []
    assert zk.requests["CLOSE_SESSION"] == 1


@pytest.mark.both_loops
@pytest.mark.parametrize("depth", ["waiting", "leading"])
async def test_cancelled_recipes_leave_no_znode(zk: EmbeddedServer, depth: str) -> None:
    """Otherwise the next contender would wait for the session timeout after a clean exit."""
    with anyio.CancelScope() as scope:
        async with aiolead.connect(zk.connect_string) as client:
            async with aiolead.Election(client, "/app").leadership():
                if depth == "leading":
                    scope.cancel()
                    await anyio.sleep_forever()
                second = aiolead.Election(client, "/app").leadership(timeout=60)
                with anyio.move_on_after(0.1, shield=True):
                    async with second:
                        pytest.fail("there was a leader already")
                scope.cancel()
                async with second:
                    pytest.fail("was cancelled")
    assert scope.cancelled_caught
    assert zk.sessions() == {}
    assert [path for path in zk.znodes() if "-" in path] == []
    async with aiolead.connect(zk.connect_string) as client:
        async with aiolead.Election(client, "/app").leadership(timeout=0):
            pass


@pytest.mark.both_loops
async def test_shielded_cleanup_of_the_body_still_has_its_client(zk: EmbeddedServer) -> None:
    with anyio.CancelScope() as scope:
        async with connect(zk) as client:
            scope.cancel()
            with anyio.move_on_after(PATIENCE, shield=True):
                await client.create("/farewell")
    assert "/farewell" in zk.znodes()


@pytest.mark.both_loops
async def test_cancelled_dialling_ends_connecting() -> None:
    with anyio.fail_after(PATIENCE):
        with anyio.move_on_after(0.2) as scope:
            # TEST-NET-1: nobody answers there, and nobody refuses either.
            async with aiolead.connect("192.0.2.1:2181", connect_timeout=60):
                pytest.fail("there is nobody")
    assert scope.cancelled_caught


async def test_cancelled_client_waits_for_the_answer_to_its_close(zk: EmbeddedServer) -> None:
    wire, left, scope = Link(zk), anyio.Event(), anyio.CancelScope()

    async def run() -> None:
        with scope:
            async with wire.connect():
                wire.stall("to_client")
                scope.cancel()
                await anyio.sleep_forever()
        left.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await eventually(lambda: zk.requests["CLOSE_SESSION"] == 1, "the goodbye")
        await anyio.wait_all_tasks_blocked()
        assert not left.is_set()
        wire.heal()
        with anyio.fail_after(PATIENCE):
            await left.wait()
    assert zk.sessions() == {}


@on_asyncio
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_task_cancelled_by_asyncio_leaves_no_task(zk: EmbeddedServer, times: int) -> None:
    """The session may end by itself, if its close was cancelled."""
    tasks, entered = tasks_living(), asyncio.Event()

    async def run() -> None:
        async with connect(zk) as client:
            await client.create("/e", mode=CreateMode.EPHEMERAL)
            entered.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(run())
    await entered.wait()
    zk.pause()  # so that the exit has something to wait for
    for _ in range(times):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
    zk.resume()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: zk.connections == 0, "connections are closed")
    await eventually(lambda: tasks_living() <= tasks, "no task is left")


async def test_crash_of_a_client_task_closes_the_client(
    internal_errors: list[logging.LogRecord],
) -> None:
    """Jobs contain their errors, so this is a defect. It reaches the user of the client."""
    async with EmbeddedServer() as server:
        async with Link(server).connect() as client:

            async def job() -> None:
                await anyio.lowlevel.checkpoint()
                raise ZeroDivisionError

            assert client._core.tasks is not None
            client._core.tasks.start_soon(job)
            with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError) as closed:
                while True:
                    await client.get("/")
            assert isinstance(closed.value.__cause__, InternalError)
            assert isinstance(closed.value.__cause__.__cause__, ZeroDivisionError)
        if (task := _asyncio_task()) is not None:
            # Nothing of a cancellation is left that a later `asyncio.timeout` trips over.
            assert task.cancelling() == 0
        await anyio.lowlevel.checkpoint()
    assert len(internal_errors) == 1


def _asyncio_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # on trio
        return None


async def test_job_that_fails_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:

    async def job() -> None:
        await client.get("/missing")

    client.backend.spawn(job)
    await eventually(lambda: "no such znode: /missing" in caplog.text, "it is logged")
    await client.sync()


async def test_close_without_a_server_ends_open_requests(zk: EmbeddedServer) -> None:
    tasks = tasks_living()
    async with connect(zk) as client:
        await zk.stop()
        await eventually(lambda: client.state is SessionState.SUSPENDED, "the connection is lost")
        waiting = client.get("/")
    with pytest.raises(ClientClosedError):
        await waiting
    assert tasks_living() <= tasks


async def test_close_whose_answer_is_lost_ends_the_session(zk: EmbeddedServer) -> None:
    async with connect(zk):
        zk.drop_reply(OpCode.CLOSE_SESSION)
    assert zk.sessions() == {}


@virtually
async def test_close_ends_waiting_requests_as_unknown() -> None:
    async with embedded_in_memory() as server:
        wire, told = Link(server), []

        async def wait(client: Client) -> None:
            try:
                await client.create("/a")
            except ClientClosedError as error:
                told.append(error.outcome)

        async with anyio.create_task_group() as tasks:
            async with wire.connect(session_timeout=4.0) as client:
                wire.stall("to_client")
                tasks.start_soon(wait, client)
                await settled()
            wire.heal()
        assert told == [aiolead.errors.Outcome.UNKNOWN]


# --- checkpoints -------------------------------------------------------------------------------


@on_trio
async def test_every_verb_is_a_checkpoint(zk: EmbeddedServer) -> None:
    connection = Link(zk).connect()
    with trio.testing.assert_checkpoints():
        client = await connection.__aenter__()
    try:
        fence = client.fenced("/")
        watch = client.backend.make_watch()
        done = client.get("/", watch=watch)
        await done
        verbs: list[Callable[[], Awaitable[object]]] = [
            lambda: done,
            client.ready,
            lambda: client.create("/a"),
            lambda: client.exists("/a"),
            lambda: client.exists("/missing"),
            lambda: client.get("/a"),
            lambda: client.set("/a", b""),
            lambda: client.get_children("/a"),
            lambda: client.get_acl("/a"),
            client.sync,
            lambda: client.check("/a"),
            lambda: client.transaction().check("/a"),
            lambda: client.ensure_path("/"),
            lambda: client.ensure_path("/a"),
            lambda: client.ensure_path("/b/c"),
            lambda: fence.create("/d"),
            lambda: fence.set("/d", b""),
            lambda: fence.delete("/d"),
            lambda: fence.transaction().create("/d").commit(),
            lambda: client.set("/", b""),
            watch.wait,
        ]
        for verb in verbs:
            with trio.testing.assert_checkpoints():
                await verb()
        states = client.observe()
        with trio.testing.assert_checkpoints():
            await states.__aenter__()
        with trio.testing.assert_checkpoints():
            await anext(states)
        await states.__aexit__(None, None, None)
        watch.close()
    finally:
        with trio.testing.assert_checkpoints():
            await connection.__aexit__(None, None, None)


# --- without waiting for a server ----------------------------------------------------------------


async def test_requests_wait_for_the_session(server: ServerUnderTest, chroot: str) -> None:
    async with aiolead.connect(server.connect_string, connect_timeout=0) as client:
        assert client.state is SessionState.CONNECTING
        root, created = client.exists("/"), client.create(chroot, b"x")
        with anyio.fail_after(PATIENCE):
            assert await root is not None
            await created
            async with aiolead.Lock(client, f"{chroot}/lock"):
                assert (await client.get(chroot))[0] == b"x"


async def test_request_fails_if_there_is_no_server() -> None:
    with free_port() as port:
        async with aiolead.connect(
            f"127.0.0.1:{port}", session_timeout=0.5, connect_timeout=0
        ) as client:
            with (
                anyio.fail_after(PATIENCE),
                pytest.raises(aiolead.ConnectionLossError, match="no server was reached"),
            ):
                await client.exists("/")


async def test_cancelled_ready_leaves_no_subscriber() -> None:
    machine: Any = SimpleNamespace(state=SessionState.CONNECTING)
    supervisor: Any = None
    core = Core(lambda _: machine, lambda _: supervisor, lease_clock)
    for _ in range(3):
        with anyio.move_on_after(0.001):
            await core.ready()
    assert core._subscribers == {}


# --- the clock of leases ------------------------------------------------------------------------


def test_lease_clock_cannot_be_set() -> None:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(clock)
    now = lease_clock()
    assert before <= now <= time.clock_gettime(clock)


@pytest.mark.parametrize(
    ("has", "reads"),
    [({"CLOCK_BOOTTIME": 7, "CLOCK_MONOTONIC": 1}, 7), ({"CLOCK_MONOTONIC": 1}, 1), ({}, -1)],
    ids=["Linux", "macOS", "Windows"],
)
def test_each_platform_has_a_clock_for_leases(has: dict[str, int], reads: float) -> None:
    """`time.CLOCK_MONOTONIC` is not there on every platform; `time.monotonic` is."""
    clocks = SimpleNamespace(**has, clock_gettime=float, monotonic=lambda: -1.0)
    assert best_clock(clocks)() == reads
