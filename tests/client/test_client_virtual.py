"""Links on virtual time: how often a server is asked, which refusals end a session, what the writer
sends when. Everything here is counted exactly, however busy the machine is."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream
from client.fake_server import FakeServer, usual
from kit.virtual_time import SESSION, VirtualClock, passes, settled

import aiolead
from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.handshake import ConnectRequest
from aiolead._wire.requests import RequestHeader
from aiolead.errors import ConnectFailed
from aiolead.model import SessionState
from aiolead.testing.simulation import Backend, run_virtual

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PACKET = 0.001
"""How long it takes to open a connection, in seconds."""


class SlowToDial(FakeServer):
    """A server to which it takes a moment to connect, so that who is in a hurry counts up."""

    async def dial(self, host: str, port: int) -> ByteStream:
        await anyio.sleep(PACKET)
        return await super().dial(host, port)

    def connect(self, hosts: str = "127.0.0.1:1", **options: Any) -> aiolead.types.Connection:
        options = {"session_timeout": SESSION, "clock": VirtualClock(), **options}
        return super().connect(hosts, rng=random.Random(1), **options)


def on_virtual_time(backend: Backend, play: Callable[[SlowToDial], Awaitable[object]]) -> None:
    async def main() -> None:
        async with SlowToDial() as fake:
            await play(fake)

    run_virtual(main, backend=backend, limit=100)


def hang_up(_: ConnectRequest) -> bytes:
    """The answer to a handshake of a server that closes the connection without a word."""
    return b""


# --- how often -----------------------------------------------------------------------------------


@pytest.mark.parametrize("met", [False, True], ids=["never met", "served before"])
def test_a_server_that_hangs_up_is_not_asked_again_at_once(backend: Backend, met: bool) -> None:
    """The limit of the pause doubles from 0.05 s to 0.8 s, a tenth of the timeout. Without it there
    would be one attempt a packet: thousands."""

    async def play(fake: SlowToDial) -> None:
        if met:
            async with fake.connect():
                fake.greet = hang_up
                fake.streams[-1].close()
                before = fake.connections
                await passes(10.0)
        else:
            fake.greet, before = hang_up, 0
            with pytest.raises(ConnectFailed):
                async with fake.connect(connect_timeout=10.0):
                    pass
        assert 15 <= fake.connections - before <= 40

    on_virtual_time(backend, play)


@pytest.mark.parametrize(("lasts", "at_once"), [(0.15, True), (0.05, False)])
def test_a_connection_that_lasted_is_replaced_at_once(
    backend: Backend, lasts: float, at_once: bool
) -> None:
    """However often it is lost; and one that was lost right away is not."""

    async def play(fake: SlowToDial) -> None:
        took = 0.0
        async with fake.connect() as client:
            for _ in range(20):
                await passes(lasts)
                fake.streams[-1].close()
                began = anyio.current_time()
                await client.get("/a")
                took += anyio.current_time() - began
        assert (took == pytest.approx(20 * PACKET)) == at_once

    on_virtual_time(backend, play)


# --- which refusals end a session ----------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_three_rounds_of_refusals_end_a_session_that_was_long_unheard_of(
    backend: Backend, rounds: int
) -> None:
    """The first server that is reached after a long silence may be one that only begins to serve,
    and hangs up on everybody. The session may live: who restarts all servers gives it more time."""

    async def play(fake: SlowToDial) -> None:
        async with fake.connect() as client:
            grant, session_id = fake.greet, client.session_id
            fake.greet = lambda _: None  # the connection is there, and nothing is said
            fake.streams[-1].close()
            await passes(SESSION + 1)
            fake.greet = hang_up
            refused = len(fake.handshakes) + rounds
            while len(fake.handshakes) < refused:
                await settled()
            await passes(2 * PACKET)
            assert client.session_id == (session_id if rounds < 3 else 0)
            fake.greet = grant
            await client.ready()
            assert fake.handshakes[-1].session_id == (session_id if rounds < 3 else 0)

    on_virtual_time(backend, play)


def test_no_number_of_refusals_ends_a_session_whose_time_is_not_up(backend: Backend) -> None:
    async def play(fake: SlowToDial) -> None:
        async with fake.connect() as client:
            grant, session_id = fake.greet, client.session_id
            before = fake.connections
            fake.greet = hang_up
            fake.streams[-1].close()
            await passes(SESSION - 2)
            assert fake.connections - before > 5
            assert client.state is SessionState.SUSPENDED
            fake.greet = grant
            await client.ready()
            assert client.session_id == session_id

    on_virtual_time(backend, play)


# --- the writer ----------------------------------------------------------------------------------


class NarrowStream(ByteStream):
    """A stream into which nothing goes for a while."""

    def __init__(self, inner: ByteStream, is_wide: Callable[[], anyio.Event]) -> None:
        self._inner = inner
        self._is_wide = is_wide

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._inner.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self._is_wide().wait()
        await self._inner.send(item)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


class Narrow(SlowToDial):
    """A server that reads slowly: `narrow` until `widen`."""

    def __init__(self, answer: Callable[[RequestHeader], bytes | None]) -> None:
        super().__init__(answer)
        self._wide = anyio.Event()
        self.widen()

    async def dial(self, host: str, port: int) -> ByteStream:
        return NarrowStream(await super().dial(host, port), lambda: self._wide)

    def narrow(self) -> None:
        self._wide = anyio.Event()

    def widen(self) -> None:
        self._wide.set()


def test_what_is_asked_for_while_the_writer_sends_leaves_right_after(backend: Backend) -> None:
    """Without waiting for anything to come in, or for the next ping."""

    def only_pings(header: RequestHeader) -> bytes | None:
        return usual(header) if header.xid == XID_PING else None

    async def main() -> None:
        async with Narrow(only_pings) as fake, fake.connect() as client:
            fake.narrow()
            client.get("/a")
            await settled()
            client.get("/b")
            await settled()
            assert fake.requests == []
            fake.widen()
            await settled()
            assert [header.op for header in fake.requests] == [OpCode.GET_DATA, OpCode.GET_DATA]
            fake.answer = usual  # the goodbye

    run_virtual(main, backend=backend, limit=100)
