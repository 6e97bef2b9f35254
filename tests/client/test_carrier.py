"""What an operation costs the event loop, and what the carrier of asyncio promises."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from client.fake_server import FakeServer, usual
from kit.checks import PATIENCE

import aiolead
from aiolead._client.net.asyncio_carrier import LoopCarrier
from aiolead._wire.framing import FrameReader, encode_reply
from aiolead._wire.handshake import ConnectRequest
from aiolead._wire.jute import Reader
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import RequestHeader
from aiolead.model import EventType

pytestmark = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])

DELETED = encode_reply(ReplyHeader(-1, -1, 0), WatcherEvent(EventType.DELETED, "/a"))


class Transport:
    """asyncio's side of a connection, with a server at the other end that answers a turn later.

    Attributes:
        written: what was written, as it was.
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


async def test_an_operation_takes_two_callbacks_and_wakes_its_caller_alone(
    transport: Transport,
) -> None:
    async with connect() as client:
        await client.get("/a")
        transport.steps, transport.written = 0, []
        for _ in range(10):
            await client.get("/a")
        # To come in, which is the network's; and the caller. It was sent where it was asked for.
        assert transport.steps == 20
        assert len(transport.written) == 10


async def test_what_is_asked_for_together_leaves_and_is_awaited_together(
    transport: Transport,
) -> None:
    async with connect() as client:
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


async def test_what_is_pipelined_leaves_in_one_segment(transport: Transport) -> None:
    async with connect() as client:
        await client.get("/a")
        transport.written = []
        with client.pipelined():
            replies = [client.get("/a") for _ in range(100)]
            assert transport.written == []
        assert len(transport.written) == 1
        for reply in replies:
            await reply


async def test_what_is_awaited_among_the_pipelined_is_sent_all_the_same(
    transport: Transport,
) -> None:
    async with connect() as client:
        with client.pipelined():
            await client.get("/a")


async def test_the_first_read_leaves_with_the_handshake(transport: Transport) -> None:
    async with aiolead.connect("127.0.0.1:1", connect_timeout=0) as client:
        assert client.state is aiolead.model.SessionState.CONNECTING
        await client.get("/first")
        assert b"/first" in transport.written[0]


async def test_a_defect_of_what_gives_something_to_send_is_not_the_callers(
    transport: Transport, internal_errors: list[logging.LogRecord]
) -> None:
    """It ends the connection; what was to be sent leaves over the next one."""
    async with connect() as client:
        transport.carrier._take = lambda: bytes(1 // 0)
        reply = client.get("/a")
        with anyio.fail_after(PATIENCE):
            await reply
    assert len(internal_errors) == 1


async def test_who_awaits_an_answer_again_lets_others_run(transport: Transport) -> None:
    async with connect() as client:
        reply = client.get("/a")
        await reply
        transport.steps = 0
        await reply
        await reply
        assert transport.steps == 2


async def test_an_answer_that_is_there_is_not_taken_by_who_is_cancelled(
    transport: Transport,
) -> None:
    async with connect() as client:
        first, second = client.get("/a"), client.get("/a")
        await first
        with anyio.CancelScope() as scope:
            scope.cancel()
            await second
            pytest.fail("was not cancelled")


async def test_nothing_is_taken_while_what_was_written_has_not_left(transport: Transport) -> None:
    async with connect() as client:
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


async def test_an_end_is_noticed_at_once(transport: Transport) -> None:
    states: list[aiolead.model.SessionState] = []
    async with connect() as client:
        client.backend.subscribe(lambda state, _: states.append(state))
        transport.carrier.eof_received()
        with anyio.fail_after(PATIENCE):
            await client.get("/a")
        assert states[:1] == [aiolead.model.SessionState.SUSPENDED]


def test_what_a_watch_calls_runs_in_a_task(anyio_backend: Any) -> None:
    seen: list[object] = []

    def on_event(_: aiolead.model.WatchEvent) -> None:
        seen.append((asyncio.current_task() is not None, anyio.CancelScope()))

    async def main() -> None:
        transport, loop = Transport(), asyncio.get_running_loop()
        loop.create_connection = transport.create_connection  # type: ignore[assignment,method-assign]
        async with connect() as client:
            await client.get("/a", watch=client.backend.make_watch(on_event))
            loop.call_soon(transport.come_in, DELETED)
            await asyncio.sleep(0.01)

    # Without anyio's own `run`, which tells what runs wherever there is no task; as most programs.
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()
    assert [in_task for in_task, _ in seen] == [True]  # type: ignore[misc]


async def test_a_defect_of_a_watch_ends_nothing(
    transport: Transport, internal_errors: list[logging.LogRecord]
) -> None:
    def broken(_: aiolead.model.WatchEvent) -> None:
        raise ZeroDivisionError

    states: list[aiolead.model.SessionState] = []
    async with connect() as client:
        client.backend.subscribe(lambda state, _: states.append(state))
        await client.get("/a", watch=client.backend.make_watch(broken))
        transport.call_soon(transport.come_in, DELETED)
        await client.get("/a")
        assert len(internal_errors) == 1
        assert states == []
