"""Opening a client, failing to, and leaving it: with what the body raised, and nothing behind."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import pytest
import trio.testing
import uvloop
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from client.fake_server import FakeServer
from conftest import ServerUnderTest
from kit.clients import PATIENCE, Wire, connect, eventually, tasks_living
from kit.virtual_time import embedded as embedded_in_memory
from kit.virtual_time import settled, virtually

import aiolead
from aiolead import Auth, Client, CreateMode
from aiolead._client.net import known_addresses
from aiolead._client.net.opener import dial_tcp
from aiolead._wire.codes import XID_AUTH, OpCode
from aiolead._wire.framing import encode_reply
from aiolead._wire.replies import ReplyHeader
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    ConnectFailed,
    InternalError,
    UsageError,
)
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, FaultProxy, Hooks

# trio has no cancellation but that of scopes, and is the only one that can count checkpoints.
on_asyncio = pytest.mark.parametrize(
    "anyio_backend",
    [
        pytest.param(("asyncio", {"debug": True}), id="asyncio"),
        pytest.param(("asyncio", {"loop_factory": uvloop.new_event_loop}), id="asyncio+uvloop"),
    ],
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


# --- a good life -------------------------------------------------------------------------------


async def test_nothing_is_left_of_a_client(server: ServerUnderTest) -> None:
    tasks = tasks_living()
    async with connect(server) as client:
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        assert client.state is SessionState.CONNECTED
        assert client.session_id != 0
        assert client.backend.lease.remaining() > 0
    assert client.state is SessionState.CLOSED
    assert tasks_living() == tasks


async def test_nothing_is_left_at_the_server() -> None:
    async with EmbeddedServer() as server:
        async with leaving_nothing(server), connect(server) as client:
            await client.create("/e", mode=CreateMode.EPHEMERAL)
            await client.get_children("/", watch=client.backend.make_watch())
            assert server.sessions()[client.session_id].is_connected
        assert server.znodes() == []
        assert server.watches() == {}


async def test_many_clients_after_one_another_leave_no_more_than_one() -> None:
    async with EmbeddedServer() as server:
        async with leaving_nothing(server):
            for _ in range(20):
                async with connect(server) as client:
                    await client.sync()


async def test_small_packets_are_not_held_back() -> None:
    async with EmbeddedServer() as server:
        stream = await dial_tcp("127.0.0.1", server.port)
        raw = stream.extra(SocketAttribute.raw_socket)
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        await anyio.aclose_forcefully(stream)


async def test_a_connection_is_entered_once(server: ServerUnderTest) -> None:
    connection = connect(server)
    async with connection:
        with pytest.raises(UsageError, match="entered already"):
            await connection.__aenter__()
    with pytest.raises(UsageError, match="entered already"):
        await connection.__aenter__()


async def test_a_closed_client_refuses_everything() -> None:
    async with EmbeddedServer() as server:
        async with Wire(server).connect() as client:
            open_ = client.get("/", watch=client.backend.make_watch())
            watch = client.backend.make_watch()
            await client.get("/", watch=watch)
        assert open_.is_done
        assert watch.event is not None
        packets = server.packets_in
        for reply in (
            client.get("/"), client.create("/a"), client.sync(), client.check("/"),
            client.transaction().check("/").commit(),
            client.get("/", watch=client.backend.make_watch()),
        ):  # fmt: skip
            with pytest.raises(ClientClosedError, match="the client is closed"):
                await reply
        with pytest.raises(ClientClosedError):
            await client.ensure_path("/a/b")
        with pytest.raises(ClientClosedError):
            await client.fenced("/a").set("/b", b"")
        client.backend.spawn(client.ready)  # without effect, and without a coroutine left behind
        assert server.packets_in == packets


async def test_what_is_open_at_the_end_is_still_sent() -> None:
    async with EmbeddedServer() as server:
        async with Wire(server).connect() as client:
            last = client.create("/last")
        assert last.result().path == "/last"
        assert "/last" in server.znodes()


# --- failing to connect ------------------------------------------------------------------------


async def test_nobody_there() -> None:
    with free_port() as first, free_port() as second:
        hosts = f"127.0.0.1:{first},127.0.0.1:{second}"
        tasks = tasks_living()
        with pytest.raises(ConnectFailed) as raised:
            async with aiolead.connect(hosts, session_timeout=30, connect_timeout=0.5):
                raise AssertionError
        assert tasks_living() == tasks
    error = raised.value
    assert isinstance(error, OSError)
    attempts = dict(error.attempts)
    assert set(attempts) == set(hosts.split(","))
    for reason in attempts.values():
        assert isinstance(reason, ConnectionRefusedError)
    assert str(error).startswith(f"no session with {hosts} within 0.5 seconds (127.0.0.1:")


@pytest.mark.parametrize("patience", [0.3, 1.5])
async def test_a_server_that_accepts_and_says_nothing(embedded: str, patience: float) -> None:
    host, _, port = embedded.rpartition(":")
    async with FaultProxy(host, int(port)) as proxy:
        proxy.ignore()
        target = proxy.connect_string
        with pytest.raises(ConnectFailed) as raised:
            async with aiolead.connect(target, session_timeout=2, connect_timeout=patience):
                raise AssertionError
    ((name, reason),) = raised.value.attempts
    assert name == target
    # One attempt has a second: half of the session timeout, where there is one server.
    expected = "no answer to the handshake yet" if patience < 1 else "no answer to the handshake in"
    assert expected in str(reason)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
            "an answer of an HTTP server, beginning with 'HTTP/1.1 400 Bad Request'",
        ),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "the greeting of an SSH server"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "it is TLS: a port for TLS, spoken to in plain text?"),
        (b"", "hung up"),
    ],
    ids=["http", "ssh", "tls", "closed"],
)
async def test_what_is_there_is_no_zookeeper(answer: bytes, said: str) -> None:
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
        with pytest.raises(ConnectFailed) as raised:
            async with aiolead.connect(f"127.0.0.1:{port}", connect_timeout=0.5):
                raise AssertionError
        tasks.cancel_scope.cancel()
    ((name, reason),) = raised.value.attempts
    assert name == f"127.0.0.1:{port}"
    if answer:
        assert isinstance(reason, aiolead.errors.RemoteWireError)
        assert said in str(reason)
    assert str(reason) in str(raised.value)


@pytest.mark.parametrize("connect", [aiolead.connect, aiolead.blocking.connect])
def test_a_session_timeout_in_milliseconds(connect: Callable[..., object]) -> None:
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


async def test_every_server_that_was_not_reached_is_named() -> None:
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


@virtually
async def test_a_name_that_means_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def look_up(host: str, _port: int) -> list[str]:
        asked.append(host)
        if len(asked) > 1:
            await anyio.sleep_forever()  # what the first answer led to is still what is known
        return ["127.0.0.2", "127.0.0.3"]

    async def dial(host: str, _port: int) -> ByteStream:
        await anyio.lowlevel.checkpoint()
        raise ConnectionRefusedError(f"not at {host}")

    monkeypatch.setattr(known_addresses, "look_up", look_up)
    with pytest.raises(ConnectFailed) as raised:
        async with aiolead.connect("name:1", connect_timeout=3, hooks=Hooks(dial=dial)):
            raise AssertionError
    assert len(asked) == 2
    assert {name: str(reason) for name, reason in raised.value.attempts} == {
        "name:1 (127.0.0.2)": "not at 127.0.0.2",
        "name:1 (127.0.0.3)": "not at 127.0.0.3",
    }


async def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(ConnectFailed) as raised:
        async with aiolead.connect("no.such.host.invalid:1", connect_timeout=0.5):
            raise AssertionError
    assert [name for name, _ in raised.value.attempts] == ["no.such.host.invalid:1"]


async def test_the_one_server_that_is_there_is_found(embedded: str) -> None:
    with free_port() as port:
        hosts = f"127.0.0.1:{port},{embedded},127.0.0.1:{port}"
        async with aiolead.connect(hosts, session_timeout=8) as client:
            assert client.state is SessionState.CONNECTED


async def test_credentials_that_are_refused() -> None:
    async with FakeServer() as fake:
        fake.answer = lambda header: encode_reply(ReplyHeader(header.xid, 0, -115))
        with pytest.raises(AuthFailedError, match="refused the credentials"):
            async with fake.connect(auth=[Auth("digest", b"user:secret")]):
                raise AssertionError
        assert fake.connections == 1
        assert [header.xid for header in fake.requests] == [XID_AUTH]


async def test_cancelled_while_connecting() -> None:
    async with FakeServer(greet=lambda _: None) as fake:
        tasks = tasks_living()
        with anyio.move_on_after(0.05) as scope:
            async with fake.connect():
                raise AssertionError
        assert scope.cancelled_caught
        await eventually(lambda: tasks_living() <= tasks, "no task is left")


# --- leaving -----------------------------------------------------------------------------------

Body = Callable[[Client], Awaitable[None]]


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
async def test_what_the_body_raises_leaves_bare(error: BaseException) -> None:
    async with EmbeddedServer() as server:
        async with leaving_nothing(server):
            with pytest.raises(BaseException) as raised:
                async with connect(server) as client:
                    await client.create("/e", mode=CreateMode.EPHEMERAL)
                    await raising(error)
        assert raised.value is error
        assert raised.value.__cause__ is None
        assert server.znodes() == []


async def test_a_task_group_of_the_body_keeps_its_shape() -> None:
    async with EmbeddedServer() as server:
        with pytest.raises(ExceptionGroup) as raised:
            async with Wire(server).connect():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(raising, KeyError("one"))
        assert [type(error) for error in raised.value.exceptions] == [KeyError]


@pytest.mark.parametrize("where", ["around", "inside"])
async def test_cancelled_by_a_scope(where: str) -> None:
    async with EmbeddedServer() as server:
        async with leaving_nothing(server):
            if where == "around":
                with anyio.CancelScope() as scope:
                    async with connect(server) as client:
                        await client.create("/e", mode=CreateMode.EPHEMERAL)
                        scope.cancel()
                        await anyio.sleep_forever()
            else:
                async with connect(server) as client:
                    await client.create("/e", mode=CreateMode.EPHEMERAL)
                    with anyio.CancelScope() as scope:
                        scope.cancel()
                        await anyio.sleep_forever()
            assert scope.cancelled_caught
        # The goodbye went through although everything around it was cancelled.
        assert server.znodes() == []
        assert server.requests["CLOSE_SESSION"] == 1


async def test_the_goodbye_is_waited_for_although_everything_is_cancelled() -> None:
    async with EmbeddedServer() as server:
        wire, left, scope = Wire(server), anyio.Event(), anyio.CancelScope()

        async def run() -> None:
            with scope:
                async with wire.connect():
                    wire.hold()
                    scope.cancel()
                    await anyio.sleep_forever()
            left.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await eventually(lambda: server.requests["CLOSE_SESSION"] == 1, "the goodbye")
            await anyio.wait_all_tasks_blocked()
            assert not left.is_set()
            wire.release()
            with anyio.fail_after(PATIENCE):
                await left.wait()
        assert server.sessions() == {}


@on_asyncio
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_by_asyncio_itself(times: int) -> None:
    async with EmbeddedServer() as server:
        async with leaving_nothing_soon(server):
            entered = asyncio.Event()

            async def run() -> None:
                async with connect(server) as client:
                    await client.create("/e", mode=CreateMode.EPHEMERAL)
                    entered.set()
                    await asyncio.sleep(3600)

            task = asyncio.create_task(run())
            await entered.wait()
            server.pause()  # so that the exit has something to wait for
            for _ in range(times):
                task.cancel()
                for _ in range(5):
                    await asyncio.sleep(0)
            server.resume()
            with pytest.raises(asyncio.CancelledError):
                await task


@asynccontextmanager
async def leaving_nothing_soon(server: EmbeddedServer) -> AsyncIterator[None]:
    """The goodbye may have been cut off, so that the session ends by itself."""
    tasks = tasks_living()
    yield
    await eventually(lambda: server.connections == 0, "connections are closed")
    await eventually(lambda: tasks_living() <= tasks, "no task is left")


async def test_crash_of_a_task_of_the_client_ends_it_and_cancels_nobody(
    internal_errors: list[logging.LogRecord],
) -> None:
    """Jobs contain their errors, so this is a defect. It reaches whoever uses the client."""
    async with EmbeddedServer() as server:
        async with Wire(server).connect() as client:

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


async def test_a_job_that_fails_as_expected_is_logged_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EmbeddedServer() as server, Wire(server).connect() as client:

        async def job() -> None:
            await client.get("/missing")

        client.backend.spawn(job)
        await eventually(lambda: "no such znode: /missing" in caplog.text, "it is logged")
        await client.sync()


async def test_a_job_ends_with_its_client() -> None:
    ended: list[BaseException] = []
    async with EmbeddedServer() as server:
        async with Wire(server).connect() as client:

            async def job() -> None:
                try:
                    await anyio.sleep_forever()
                except BaseException as error:
                    ended.append(error)
                    raise

            client.backend.spawn(job)
            await anyio.wait_all_tasks_blocked()
    assert [type(error) for error in ended] == [anyio.get_cancelled_exc_class()]


async def test_leaving_while_the_server_is_gone() -> None:
    async with EmbeddedServer() as server:
        tasks = tasks_living()
        async with connect(server) as client:
            await server.stop()
            await eventually(lambda: client.state is SessionState.SUSPENDED, "the link is lost")
            waiting = client.get("/")
        with pytest.raises(ClientClosedError):
            await waiting
        assert tasks_living() <= tasks


@pytest.mark.keeps_time(1.5)
async def test_leaving_while_the_server_does_not_answer_is_bounded() -> None:
    async with EmbeddedServer() as server:
        with anyio.fail_after(PATIENCE):
            async with connect(server, session_timeout=1.5) as client:
                server.pause()
        assert client.state is SessionState.CLOSED
        server.resume()


async def test_leaving_while_the_goodbyes_answer_is_lost() -> None:
    async with EmbeddedServer() as server:
        async with connect(server):
            server.drop_reply(OpCode.CLOSE_SESSION)
        assert server.sessions() == {}


@virtually
async def test_whoever_waits_for_a_reply_at_the_end_is_told() -> None:
    async with embedded_in_memory() as server:
        wire, told = Wire(server), []

        async def wait(client: Client) -> None:
            try:
                await client.create("/a")
            except ClientClosedError as error:
                told.append(error.outcome)

        async with anyio.create_task_group() as tasks:
            async with wire.connect(session_timeout=4.0) as client:
                wire.hold()
                tasks.start_soon(wait, client)
                await settled()
            wire.release()
        assert told == [aiolead.errors.Outcome.UNKNOWN]


# --- checkpoints -------------------------------------------------------------------------------


@on_trio
async def test_every_verb_checkpoints() -> None:
    async with EmbeddedServer() as server:
        connection = Wire(server).connect()
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


async def test_without_waiting_for_the_session(server: ServerUnderTest, chroot: str) -> None:
    async with aiolead.connect(server.connect_string, connect_timeout=0) as client:
        assert client.state is SessionState.CONNECTING
        root, created = client.exists("/"), client.create(chroot, b"x")
        with anyio.fail_after(PATIENCE):
            assert await root is not None
            await created
            async with aiolead.Lock(client, f"{chroot}/lock"):
                assert (await client.get(chroot))[0] == b"x"


async def test_no_server_is_for_the_operations_to_find_out() -> None:
    with free_port() as port:
        async with aiolead.connect(
            f"127.0.0.1:{port}", session_timeout=0.5, connect_timeout=0
        ) as client:
            with (
                anyio.fail_after(PATIENCE),
                pytest.raises(aiolead.ConnectionLossError, match="no server was reached"),
            ):
                await client.exists("/")


async def test_refused_credentials_are_for_the_operations_to_find_out() -> None:
    async with FakeServer() as fake:
        fake.answer = lambda header: encode_reply(ReplyHeader(header.xid, 0, -115))
        async with fake.connect(auth=[Auth("digest", b"user:secret")], connect_timeout=0) as client:
            with anyio.fail_after(PATIENCE), pytest.raises(AuthFailedError):
                await client.exists("/")
            assert fake.requests[0].xid == XID_AUTH  # nothing was asked for before it
