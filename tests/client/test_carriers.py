"""Carriers: the cost of an operation, the order of data, and long answers."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from client.fake_server import FakeServer, usual
from kit.checks import PATIENCE
from kit.clients import connect as dial

import aiolead
from aiolead import Client, Lock
from aiolead._client.fast.asyncio_carrier import LoopCarrier
from aiolead._client.fast.trio_carrier import TrioCarrier
from aiolead._session import machine as machines
from aiolead._wire import long_frames
from aiolead._wire.handshake import ConnectRequest
from aiolead._wire.jute import FrameReader, Reader, encode_reply
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import RequestHeader
from aiolead.model import EventType
from aiolead.testing import EmbeddedServer

on_asyncio = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])
on_trio = pytest.mark.parametrize("anyio_backend", [pytest.param(("trio", {}), id="trio")])

DELETED = encode_reply(ReplyHeader(-1, -1, 0), WatcherEvent(EventType.DELETED, "/a"))


class Output:
    """The traffic of a connection whose input is ignored."""

    def __init__(self, take: Callable[[], bytes]) -> None:
        self.take = take

    def feed(self, _: bytes) -> bool:
        return False


class Transport:
    """asyncio's side of a connection, with a server at the other end that answers a turn later.

    Attributes:
        written: each piece of data that was written.
        steps: how many callbacks the event loop has been given to run, its own for what comes in
            included.
    """

    def __init__(self) -> None:
        self._loop: Any = asyncio.get_running_loop()
        self._call_soon: Callable[..., Any] = self._loop.call_soon
        self._frames = FrameReader(1 << 24)
        self._server = FakeServer()
        self._greeted = False
        self.written: list[bytes] = []
        self.carrier: LoopCarrier
        self.steps = 0
        self.answer: Callable[[RequestHeader], bytes | None] = usual

    async def create_connection(
        self, make: Callable[[], LoopCarrier], host: str, port: int
    ) -> tuple[Transport, LoopCarrier]:
        await asyncio.sleep(0)
        self._frames, self._greeted = FrameReader(1 << 24), False
        self.carrier = make()
        self.carrier.connection_made(self)  # type: ignore[arg-type]
        return self, self.carrier

    def call_soon(self, *args: Any, **options: Any) -> Any:
        self.steps += 1
        return self._call_soon(*args, **options)

    def write(self, data: bytes) -> None:
        self.written.append(data)
        answers: list[bytes] = []
        for frame in self._frames.feed(data):
            if self._greeted:
                answers.append(self.answer(RequestHeader.read(Reader(frame))) or b"")
            else:
                answers.append(self._server._grant(ConnectRequest.read(Reader(frame))))
                self._greeted = True
        self.call_soon(self.come_in, b"".join(answers))

    def come_in(self, data: bytes) -> None:
        if data:
            self.carrier.get_buffer(-1)[: len(data)] = data
            self.carrier.buffer_updated(len(data))

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0  # more would be taken than has left

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self._call_soon(self.carrier.connection_lost, None)


@pytest.fixture
async def transport(monkeypatch: pytest.MonkeyPatch) -> Transport:
    transport = Transport()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_connection", transport.create_connection)
    monkeypatch.setattr(loop, "call_soon", transport.call_soon)
    return transport


def connect() -> aiolead.types.Connection:
    return aiolead.connect("127.0.0.1:1", session_timeout=60)


@pytest.fixture
async def client(transport: Transport) -> AsyncIterator[Client]:
    async with connect() as client:
        yield client


@on_asyncio
async def test_operation_takes_two_callbacks(client: Client, transport: Transport) -> None:
    await client.get("/a")
    transport.steps, transport.written = 0, []
    for _ in range(10):
        await client.get("/a")
    # To come in, which is the network's; and the caller. It was sent where it was asked for.
    assert transport.steps == 20
    assert len(transport.written) == 10


@on_asyncio
async def test_requests_made_together_leave_together(client: Client, transport: Transport) -> None:
    await client.get("/a")
    transport.steps, transport.written = 0, []
    replies = [client.get("/a") for _ in range(100)]
    for reply in replies:
        await reply
    # The first one alone, as nobody knows what follows; and the answer to it wakes its caller.
    assert [data.count(b"/a") for data in transport.written] == [1, 99]
    # 98 answers were there when they were awaited, with one look for a cancellation, which is
    # forgotten in a step of its own.
    assert transport.steps == 5 + 1


@on_asyncio
async def test_pipelined_requests_leave_in_a_segment(client: Client, transport: Transport) -> None:
    await client.get("/a")
    transport.written = []
    with client.pipelined():
        replies = [client.get("/a") for _ in range(100)]
        assert transport.written == []
    assert len(transport.written) == 1
    for reply in replies:
        await reply


@on_asyncio
async def test_request_awaited_while_pipelining_is_sent(transport: Transport) -> None:
    async with connect() as client:
        with client.pipelined():
            await client.get("/a")


@on_asyncio
async def test_first_read_leaves_with_the_handshake(transport: Transport) -> None:
    async with aiolead.connect("127.0.0.1:1", connect_timeout=0) as client:
        assert client.state is aiolead.model.SessionState.CONNECTING
        await client.get("/first")
        assert b"/first" in transport.written[0]


@on_asyncio
async def test_defect_of_the_source_of_data_is_not_raised_in_the_caller(
    client: Client, transport: Transport, internal_errors: list[logging.LogRecord]
) -> None:
    """It ends the connection; the data leaves over the next one."""
    transport.carrier._traffic = Output(lambda: bytes(1 // 0))
    reply = client.get("/a")
    with anyio.fail_after(PATIENCE):
        await reply
    assert len(internal_errors) == 1


@on_asyncio
async def test_awaiting_again_yields_to_other_tasks(client: Client, transport: Transport) -> None:
    reply = client.get("/a")
    await reply
    transport.steps = 0
    await reply
    await reply
    assert transport.steps == 2


@on_asyncio
async def test_cancelled_task_does_not_get_an_answer_that_is_there(transport: Transport) -> None:
    async with connect() as client:
        first, second = client.get("/a"), client.get("/a")
        await first
        with anyio.CancelScope() as scope:
            scope.cancel()
            await second
            pytest.fail("was not cancelled")


@on_asyncio
async def test_nothing_is_taken_before_data_has_left(client: Client, transport: Transport) -> None:
    await client.get("/a")
    transport.written = []
    transport.carrier.pause_writing()
    replies = [client.get("/a") for _ in range(3)]
    with anyio.move_on_after(0.01):
        await replies[0]
    assert (transport.written, client.statistics().queued) == ([], 3)
    transport.carrier.resume_writing()
    for reply in replies:
        await reply
    assert len(transport.written) == 1


@on_asyncio
async def test_end_of_the_stream_is_noticed_at_once(client: Client, transport: Transport) -> None:
    states: list[aiolead.model.SessionState] = []
    client.backend.subscribe(lambda state, _: states.append(state))
    transport.carrier.eof_received()
    with anyio.fail_after(PATIENCE):
        await client.get("/a")
    assert states[:1] == [aiolead.model.SessionState.SUSPENDED]


@on_asyncio
def test_callback_of_a_watch_runs_in_a_task(anyio_backend: Any) -> None:
    seen: list[object] = []
    called = asyncio.Event()

    def on_event(_: aiolead.model.WatchEvent) -> None:
        seen.append((asyncio.current_task() is not None, anyio.CancelScope()))
        called.set()

    async def main() -> None:
        transport, loop = Transport(), asyncio.get_running_loop()
        loop.create_connection = transport.create_connection  # type: ignore[assignment,method-assign]
        async with connect() as client:
            await client.get("/a", watch=client.backend.make_watch(on_event))
            loop.call_soon(transport.come_in, DELETED)
            await asyncio.wait_for(called.wait(), PATIENCE)

    # As most programs: without anyio's own `run`, whose context shows it the event loop everywhere.
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()
    assert [in_task for in_task, _ in seen] == [True]  # type: ignore[misc]


# --- trio ----------------------------------------------------------------------------------------

LARGE = 4 << 20
"""More than a socket takes at a time, in bytes."""


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[TrioCarrier, socket.socket]]:
    """A carrier that carries nothing yet, and the other end."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        stream = await anyio.connect_tcp(*listener.getsockname())
        other, _ = listener.accept()
    carrier = TrioCarrier(stream)
    with other:
        other.setblocking(False)
        try:
            yield carrier, other
        finally:
            await carrier.aclose()


@asynccontextmanager
async def carried(take: Callable[[], bytes]) -> AsyncIterator[tuple[TrioCarrier, socket.socket]]:
    """A carrier whose sender waits for something to send, and the other end."""
    async with connected() as (carrier, other), anyio.create_task_group() as tasks:
        tasks.start_soon(carrier.carry, Output(take))
        await anyio.wait_all_tasks_blocked()
        yield carrier, other
        tasks.cancel_scope.cancel()


async def all_of(other: socket.socket, size: int) -> bytes:
    got = b""
    with anyio.fail_after(PATIENCE):
        while len(got) < size:
            await anyio.wait_readable(other)
            got += other.recv(1 << 20)
    return got


@on_trio
async def test_trio_sends_what_fits_at_once() -> None:
    waiting: list[bytes] = []
    async with carried(lambda: waiting.pop() if waiting else b"") as (carrier, other):
        waiting += [b"two", b"one"]
        carrier.push()
        assert waiting == []
        assert await all_of(other, 6) == b"onetwo"


@on_trio
async def test_trio_sends_the_rest_in_order() -> None:
    waiting: list[bytes] = []
    async with carried(lambda: waiting.pop(0) if waiting else b"") as (carrier, other):
        waiting += [b"a" * LARGE, b"b"]
        carrier.push()
        assert waiting == [b"b"]  # no more is taken than has left
        waiting.append(b"c" * LARGE)
        carrier.push()
        expected = b"a" * LARGE + b"b" + b"c" * LARGE
        assert await all_of(other, len(expected)) == expected


@on_trio
async def test_cancelled_carrier_raises_the_cancellation_alone_on_trio() -> None:
    raised: list[type[BaseException]] = []
    async with connected() as (carrier, _):
        with anyio.move_on_after(0.01):
            try:
                await carrier.carry(Output(lambda: b""))
            except BaseException as error:
                raised.append(type(error))
                raise
    assert raised == [anyio.get_cancelled_exc_class()]


@on_trio
async def test_broken_connection_is_not_raised_in_the_caller_on_trio() -> None:
    waiting: list[bytes] = []
    # The kernel reports it once, here to the push. For the tasks, it may look like a regular end.
    ended = (anyio.BrokenResourceError, anyio.EndOfStream)
    with pytest.RaisesGroup(pytest.RaisesExc(ended), flatten_subgroups=True):
        async with carried(lambda: waiting.pop(0) if waiting else b"") as (carrier, other):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            other.close()
            waiting.append(b"a")
            carrier.push()
            await anyio.sleep(5)


@on_trio
async def test_defect_is_not_raised_in_the_caller_on_trio() -> None:
    def take() -> bytes:
        if is_broken:
            raise ZeroDivisionError
        return b""

    is_broken = False
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with carried(take) as (carrier, _):
            is_broken = True
            carrier.push()
            await anyio.sleep(5)


# --- long answers, which are decoded in steps ----------------------------------------------------

COUNT = 2_000
NAMES = [f"{'n' * 200}-{number:010d}" for number in range(COUNT)]
"""Together they are longer than one read of a connection, so that their answer is a long one."""


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "LONG", 10_000)
    monkeypatch.setattr(long_frames, "PIECE", 100_000)
    monkeypatch.setattr(long_frames, "STEP", 1_600)  # 50 names


async def read(client: Client, *kinds: str) -> list[object]:
    """The names, the data, or both in one request."""
    if len(kinds) == 2:
        data, names = await client.reads().get("/data").get_children("/a")
    elif kinds == ("names",):
        return [sorted(await client.get_children("/a"))]
    else:
        return [(await client.get("/data"))[0]]
    assert isinstance(data, tuple)
    assert isinstance(names, list)
    return [data[0], sorted(names)]


async def turns_during(client: Client, *kinds: str) -> tuple[list[object], int]:
    """The result of a read, and how many turns another task has had after its answer came."""
    machine, turns = client._core.machine, 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += machine.decoding is not None

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        found = await read(client, *kinds)
        tasks.cancel_scope.cancel()
    return found, turns


@pytest.mark.usefixtures("small_steps")
async def test_other_tasks_run_while_a_long_answer_is_decoded() -> None:
    data = bytes(range(250)) * 1_000
    async with EmbeddedServer() as server:
        server.create("/a")
        server.create("/data", data)
        for name in NAMES:
            server.create(f"/a/{name}")
        async with dial(server, server_version="3.9.0") as client, Lock(client, "/lock") as held:
            for kinds, value, least in (
                (["names"], [NAMES], COUNT // 50),
                (["data"], [data], len(data) // 1_600 - 1),
                (["data", "names"], [data, NAMES], COUNT // 50),
            ):
                found, turns = await turns_during(client, *kinds)
                assert found == value
                assert turns >= least
            # Answers stay in the order of the calls, also of short ones behind long ones.
            replies = [client.get_children("/a"), client.get("/data"), client.get("/lock")]
            done: list[int] = []
            for number, reply in enumerate(replies):
                reply.add_done_callback(lambda number=number: done.append(number))
            for reply in reversed(replies):
                await reply
            assert done == [0, 1, 2]
            await held.verify()
            assert client.statistics().suspensions == 0


@pytest.mark.usefixtures("small_steps")
async def test_connection_lost_while_an_answer_is_decoded_costs_nothing() -> None:
    async with EmbeddedServer() as server:
        server.create("/a")
        for name in NAMES:
            server.create(f"/a/{name}")
        async with dial(server) as client:
            reply = client.get_children("/a")
            machine = client._core.machine
            with anyio.fail_after(PATIENCE):
                while machine.decoding is None:
                    await anyio.lowlevel.checkpoint()
            server.disconnect()
            assert sorted(await reply) == NAMES
            assert (await client.get("/a"))[0] == b""
