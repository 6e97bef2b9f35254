"""Servers that are too old for an operation, or do not report their version.

No operation costs the connection.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio.abc import ByteStream
from conftest import ServerUnderTest
from kit.clients import PATIENCE, SESSION, connect, eventually, hooked
from kit.virtual_time import Link, embedded, virtually

import aiolead
from aiolead import Client, ConnectionLossError, Lock, admin
from aiolead._client.api.server_features import require
from aiolead._wire.codes import OpCode
from aiolead._wire.versions import NOT_SERVING, SRVR, Engine
from aiolead.errors import (
    ClientClosedError,
    ConfigurationError,
    Outcome,
    SessionExpiredError,
    UnimplementedError,
    UnsupportedError,
    UsageError,
)
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer
from aiolead.types import Feature

Operation = Callable[[Client], Awaitable[object]]

NEWER: list[tuple[Operation, str]] = [
    (lambda client: client.get_all_children_number("/"), "3.6"),
    (admin.get_ephemerals, "3.6"),
    (lambda client: client.reads().get("/"), "3.6"),
    (admin.whoami, "3.7"),
]
"""Operations, with the version that brought them."""

Answer = Callable[[], Awaitable[bytes]]


def says(answer: bytes) -> Answer:
    async def say() -> bytes:
        return answer

    return say


def in_small_pieces(data: bytes) -> Callable[..., Awaitable[bytes]]:
    source = io.BytesIO(data)

    async def receive(_max_bytes: int = 65536) -> bytes:
        if piece := source.read(7):
            return piece
        raise anyio.EndOfStream

    return receive


class Telephone:
    """Connects to an embedded server in memory, and answers `srvr` in its place.

    Attributes:
        answer: the answer; None for that of the server.
        asked: how often the version was asked for.
        before_dial: awaited before each connection.
        openings: the first bytes of each connection.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.answer: Answer | None = None
        self.openings: list[bytes] = []
        self.before_dial: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint

    @property
    def asked(self) -> int:
        return self.openings.count(SRVR)

    async def dial(self, _host: str, _port: int) -> ByteStream:
        await self.before_dial()
        stream = await self._server.connect_stream()
        send = stream.send

        async def first_send(item: bytes) -> None:
            stream.send = send  # type: ignore[method-assign]
            self.openings.append(bytes(item))
            if item == SRVR and self.answer is not None:
                stream.receive = in_small_pieces(await self.answer())  # type: ignore[method-assign]
            else:
                await send(item)

        stream.send = first_send  # type: ignore[method-assign]
        return stream

    def connect(self, **options: Any) -> aiolead.types.Connection:
        settings = {"session_timeout": SESSION, "dial": self.dial, **options}
        return aiolead.connect("127.0.0.1:1", **hooked(**settings))


@pytest.fixture
def telephone(zk: EmbeddedServer) -> Telephone:
    return Telephone(zk)


@pytest.fixture
async def client(telephone: Telephone) -> AsyncIterator[Client]:
    async with telephone.connect() as client:
        yield client


# --- too old -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "old"), [("3.5.9", {"3.6", "3.7"}), ("3.6.4", {"3.7"})])
async def test_operation_of_a_newer_server_is_not_sent(version: str, old: set[str]) -> None:
    async with EmbeddedServer(version=version) as server:
        telephone = Telephone(server)
        async with telephone.connect() as client, client.observe() as states:
            session_id, sent = client.session_id, server.requests.total()
            for operation, needs in NEWER:
                if needs not in old:
                    await operation(client)
                    sent += 1
                    continue
                with pytest.raises(UnsupportedError, match=f"needs ZooKeeper {needs}") as raised:
                    await operation(client)
                assert raised.value.needs == needs
                assert raised.value.server == version
                assert raised.value.outcome is Outcome.NOT_APPLIED
                assert isinstance(raised.value, UnimplementedError)
                assert "127.0.0.1:1 is " + version in str(raised.value)
            # Nothing of it was sent, and the connection is the same.
            assert server.requests.total() == sent
            assert telephone.asked == 1
            assert len(telephone.openings) == 2
            assert await client.get_children("/") == ["zookeeper"]
            assert (client.session_id, states.current.state) == (session_id, SessionState.CONNECTED)


async def test_operations_of_every_version_ask_for_none(telephone: Telephone) -> None:
    async with telephone.connect() as client:
        await client.create("/a")
        await client.get_children_and_stat("/")
        await client.transaction().set("/a", b"").delete("/a")
    assert telephone.asked == 0


async def test_version_is_asked_per_connection(telephone: Telephone, zk: EmbeddedServer) -> None:
    async with telephone.connect() as client:
        for _ in range(3):
            await admin.whoami(client)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(admin.get_ephemerals, client)
        assert telephone.asked == 1
        zk.disconnect(client.session_id)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(admin.whoami, client)
        await admin.whoami(client)
        assert telephone.asked == 2
    await eventually(lambda: zk.connections == 0, "the side connections are closed")


async def test_servers_report_their_version(server: ServerUnderTest, client: Client) -> None:
    peer = await require(client._core, Feature.WHO_AM_I)
    release = await peer.release(SESSION)
    assert release is not None
    assert release.engine is Engine.ZOOKEEPER
    assert release.version >= (3, 8, 0)


@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_unknown_operation_costs_the_connection(server: ServerUnderTest) -> None:
    """The reason for all of this; a server that behaved better would need none of it."""
    from aiolead._client.core import PendingReply

    async with connect(server) as client, client.observe() as states:
        reply: PendingReply[None] = PendingReply(999, b"", lambda _: None)
        client._core.submit(reply)
        with pytest.raises(UnimplementedError):
            await reply
        with anyio.fail_after(PATIENCE):
            async for change in states:
                if change.state is SessionState.SUSPENDED:
                    break


# --- not telling -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"srvr is not executed because it is not in the whitelist.",
        b"Another Keeper version: v23.3.1-stable\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 100_000,
        b"",
    ],
    ids=["whitelist", "another", "http", "endless", "hangs up"],
)
async def test_server_that_does_not_report_its_version(
    telephone: Telephone, zk: EmbeddedServer, answer: bytes
) -> None:
    telephone.answer = says(answer)
    async with telephone.connect() as client:
        sent = zk.requests.total()
        with pytest.raises(UnsupportedError, match=r"not report.*server_version") as raised:
            await admin.whoami(client)
        assert raised.value.server is None
        assert zk.requests.total() == sent
        await client.sync()
    async with telephone.connect(server_version="3.9") as client:
        assert await admin.whoami(client)
    assert telephone.asked == 1


async def test_another_engine_is_named_by_its_version(telephone: Telephone) -> None:
    telephone.answer = says(b"ClickHouse Keeper version: v24.8.4.13-lts-abc\nLatency")
    async with telephone.connect() as client:
        with pytest.raises(
            UnsupportedError, match=r"is ClickHouse Keeper 24\.8\.4, and no"
        ) as raised:
            await admin.whoami(client)
        assert raised.value.server == "24.8.4"
        with pytest.raises(UnsupportedError, match=r"has it from 25\.12 on"):
            async with client.watch("/"):
                pass
        assert await client.reads().get_children("/") == [["zookeeper"]]


async def test_server_that_hung_up_is_asked_again(client: Client, telephone: Telephone) -> None:
    telephone.answer = says(b"")
    with pytest.raises(UnsupportedError):
        await admin.whoami(client)
    telephone.answer = None
    assert await admin.whoami(client)


async def test_version_given_to_connect_is_used(server: ServerUnderTest) -> None:
    async with connect(server, server_version="3.7") as client:
        assert await admin.whoami(client)
    async with connect(server, server_version="3.6.3") as client:
        assert await admin.get_ephemerals(client) == []
        with pytest.raises(UnsupportedError, match=r"connect\(server_version=\) says 3\.6\.3"):
            await admin.whoami(client)
        await client.sync()


@pytest.mark.parametrize("version", ["", "3", "3.x", "v3.9", "3.9.1.2", "3.9\n", 3.9, (3, 9)])
def test_invalid_versions_are_refused(version: object) -> None:
    with pytest.raises(ConfigurationError, match="server_version"):
        aiolead.connect("127.0.0.1:1", server_version=version)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="version"):
        EmbeddedServer(version=version)  # type: ignore[arg-type]


# --- not reached -------------------------------------------------------------------------------


async def refuse() -> None:
    raise ConnectionRefusedError("no more connections")


@pytest.mark.parametrize("way", ["refused", "silent", "not serving"])
async def test_server_that_cannot_be_asked_is_asked_later(telephone: Telephone, way: str) -> None:
    timeout = 1.5 if way == "silent" else SESSION
    async with telephone.connect(session_timeout=timeout) as client:
        session_id = client.session_id
        match way:
            case "refused":
                telephone.before_dial = refuse
            case "silent":
                telephone.before_dial = anyio.sleep_forever
            case _:
                telephone.answer = says(NOT_SERVING)
        with pytest.raises(ConnectionLossError, match="could not be asked") as raised:
            await admin.whoami(client)
        assert raised.value.outcome is Outcome.NOT_APPLIED
        telephone.before_dial = anyio.lowlevel.checkpoint
        telephone.answer = None
        assert await admin.whoami(client)
        assert client.session_id == session_id
    assert len([opening for opening in telephone.openings if opening != SRVR]) == 1


async def test_cancelled_question_does_not_block_others(
    client: Client, telephone: Telephone
) -> None:
    async with anyio.create_task_group() as tasks:
        telephone.before_dial = anyio.sleep_forever
        first = anyio.CancelScope()

        async def asks() -> None:
            with first:
                await admin.whoami(client)

        tasks.start_soon(asks)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(admin.whoami, client)
        await anyio.wait_all_tasks_blocked()
        telephone.before_dial = anyio.lowlevel.checkpoint
        first.cancel()


async def test_old_connection_version_is_unused(
    client: Client, telephone: Telephone, zk: EmbeddedServer
) -> None:
    """During an upgrade the next connection may lead to an older server."""

    async def lost_meanwhile() -> bytes:
        telephone.answer = says(b"Zookeeper version: 3.5.9-abc, built on ...\n")
        zk.disconnect(client.session_id)
        await eventually(
            lambda: client.state is not SessionState.CONNECTED, "the connection is lost"
        )
        return b"Zookeeper version: 3.8.0-abc, built on ...\n"

    telephone.answer = lost_meanwhile
    with pytest.raises(UnsupportedError) as raised:
        await admin.whoami(client)
    assert raised.value.server == "3.5.9"
    assert telephone.asked == 2
    assert zk.requests["WHO_AM_I"] == 0


async def test_lost_request_skips_an_old_server(
    client: Client, telephone: Telephone, zk: EmbeddedServer
) -> None:
    await admin.whoami(client)
    telephone.answer = says(b"Zookeeper version: 3.5.9\n")
    zk.drop_reply(OpCode.WHO_AM_I)
    with pytest.raises(UnsupportedError):
        await admin.whoami(client)
    assert zk.requests["WHO_AM_I"] == 2
    await client.sync()


async def test_old_server_gets_no_queued_request(
    client: Client, telephone: Telephone, zk: EmbeddedServer
) -> None:
    await admin.whoami(client)
    telephone.answer = says(b"Zookeeper version: 3.5.9\n")
    submit = client._core.submit

    def lose_at_once(call: Any, **options: Any) -> Any:
        client._core.machine.hold_back()
        submit(call, **options)
        zk.disconnect(client.session_id)
        return call

    client._core.submit = lose_at_once  # type: ignore[method-assign]
    with pytest.raises(UnsupportedError):
        await admin.whoami(client)
    assert zk.requests["WHO_AM_I"] == 1


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_lost_read_is_repeated(client: Client, zk: EmbeddedServer, lost: str) -> None:
    drop = zk.drop_reply if lost == "reply" else zk.drop_request
    drop(OpCode.WHO_AM_I, 2)
    assert await admin.whoami(client)
    assert zk.requests["WHO_AM_I"] == 3


@virtually
async def test_recipes_run_on_the_oldest_line_of_releases() -> None:
    """Releases before `OLDEST` lack the containers in which recipes put their znodes."""
    async with embedded(version="3.5") as server:
        async with Link(server).connect(server_version="3.5") as client:
            async with Lock(client, "/missing/parents") as held:
                held.check()


@virtually
async def test_question_without_a_server_ends_with_the_session_timeout() -> None:
    async with embedded() as server, Telephone(server).connect(session_timeout=1.0) as client:
        await server.stop()
        await eventually(lambda: client.state is SessionState.SUSPENDED, "the connection is lost")
        with pytest.raises(ConnectionLossError, match="no server was reached") as raised:
            await admin.whoami(client)
        assert raised.value.outcome is Outcome.NOT_APPLIED


async def test_question_without_a_server_ends_with_the_session() -> None:
    async with EmbeddedServer() as server, Telephone(server).connect() as client:
        await server.stop()
        await eventually(lambda: client.state is SessionState.SUSPENDED, "the connection is lost")
        errors: list[Exception] = []

        async def asks() -> None:
            try:
                await admin.get_ephemerals(client)
            except SessionExpiredError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asks)
            await anyio.wait_all_tasks_blocked()
            server.expire_session(client.session_id)
            await server.start()
        assert len(errors) == 1
        # The next session is asked as the one before was.
        assert await admin.get_ephemerals(client) == []


async def test_closed_client_asks_for_no_version(telephone: Telephone) -> None:
    async with telephone.connect() as client:
        pass
    with pytest.raises(ClientClosedError):
        await admin.whoami(client)
    assert telephone.asked == 0


@pytest.mark.parametrize(("operation", "needs"), NEWER)
async def test_other_thread_asks_for_no_version(operation: Operation, needs: str) -> None:
    async def ask(client: Client) -> None:
        await operation(client)

    async with EmbeddedServer() as server:
        telephone = Telephone(server)
        async with telephone.connect() as client:
            with pytest.raises(UsageError, match="another thread"):
                await anyio.to_thread.run_sync(anyio.run, ask, client)
            assert telephone.asked == 0
