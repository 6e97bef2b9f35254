"""Session timeouts that no client has asked for: what a server grants bounds no wait from above.

Scripted servers on virtual time. Waits are measured on its clock, work is counted in requests.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from client.client_fake import FakeServer, usual
from kit.virtual_time import SESSION, VirtualClock, passes

import aiolead
from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.framing import encode_record
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.requests import RequestHeader
from aiolead.errors import ConnectFailed, ConnectionLossError, RemoteWireError
from aiolead.model import SessionState
from aiolead.testing.simulation import Backend, run_virtual

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

ABSURD = 0x7FFF_FFFF
"""The longest timeout that a server can grant, in milliseconds: 24 days."""


class Granting(FakeServer):
    """A server that grants the timeout of the test.

    Attributes:
        grant: in milliseconds.
        password: of each session.
    """

    def __init__(self, grant: int, answer: Callable[[RequestHeader], bytes | None] = usual) -> None:
        super().__init__(answer, self._greet)
        self.grant = grant
        self.password = bytes(16)

    def _greet(self, request: ConnectRequest) -> bytes:
        session = request.session_id or 7
        return encode_record(ConnectResponse(self.grant, session, self.password))

    def connect(self, hosts: str = "127.0.0.1:1", **options: Any) -> aiolead.types.Connection:
        options = {"session_timeout": SESSION, "clock": VirtualClock(), **options}
        return super().connect(hosts, rng=random.Random(1), **options)


def on_virtual_time(
    backend: Backend, fake: FakeServer, play: Callable[[], Awaitable[object]], limit: float = 1e7
) -> None:
    async def main() -> None:
        async with fake:
            await play()

    run_virtual(main, backend=backend, limit=limit)


def silent_to(*ops: OpCode) -> Callable[[RequestHeader], bytes | None]:
    """A server that answers nothing to some operations, and everything else as usual."""
    return lambda header: None if header.op in ops else usual(header)


async def reached(client: aiolead.Client, wanted: SessionState) -> None:
    """Waits for a state of the session, from now on."""
    there = anyio.Event()
    client.backend.subscribe(lambda state, _session: state is wanted and there.set())
    await there.wait()


# --- far more than was asked for -----------------------------------------------------------------


def test_closing_waits_as_long_as_was_asked_for(backend: Backend) -> None:
    """Its waits are shielded: SIGTERM and SIGINT would do nothing for as long."""
    fake = Granting(ABSURD, silent_to(OpCode.CLOSE_SESSION))

    async def play() -> None:
        async with fake.connect():
            began = anyio.current_time()
        assert anyio.current_time() - began <= SESSION / 3 + 0.1

    on_virtual_time(backend, fake, play)


def test_closing_waits_for_holders_as_long_as_was_asked_for(backend: Backend) -> None:
    fake = Granting(ABSURD)

    async def play() -> None:
        async with fake.connect() as client:
            client.backend.lease.hold("/a", lambda _reason: None)  # and never lets go of it
            began = anyio.current_time()
        assert anyio.current_time() - began <= SESSION + SESSION / 3 + 0.1

    on_virtual_time(backend, fake, play)


def test_a_server_that_says_nothing_is_left_as_soon_as_was_asked_for(backend: Backend) -> None:
    fake = Granting(ABSURD, lambda _header: None)

    async def play() -> None:
        async with fake.connect() as client:
            began = anyio.current_time()
            await reached(client, SessionState.SUSPENDED)
            assert anyio.current_time() - began <= SESSION

    on_virtual_time(backend, fake, play)


def test_a_request_waits_for_a_server_as_long_as_was_asked_for(backend: Backend) -> None:
    fake = Granting(ABSURD)

    async def play() -> None:
        async with fake.connect() as client:
            fake.greet = lambda _: b""
            fake.streams[-1].close()
            await passes(0.1)
            began = anyio.current_time()
            with pytest.raises(ConnectionLossError):
                await client.set("/a", b"")
            assert anyio.current_time() - began <= SESSION + 0.1

    on_virtual_time(backend, fake, play)


def test_recipes_wait_with_what_was_asked_for(backend: Backend) -> None:
    """All of them go by `session_timeout` of the client interface."""
    fake = Granting(ABSURD)

    async def play() -> None:
        async with fake.connect() as client:
            assert client.session_timeout == SESSION
            assert client.statistics().session_timeout == ABSURD / 1000

    on_virtual_time(backend, fake, play)


def test_a_session_that_every_server_refuses_is_given_up(backend: Backend) -> None:
    """After a minute, where more was granted than was asked for: the servers may keep it so long,
    but nobody asked them to."""
    fake = Granting(ABSURD)

    async def play() -> None:
        async with fake.connect() as client:
            fake.greet = lambda _: b""
            fake.streams[-1].close()
            began = anyio.current_time()
            await reached(client, SessionState.EXPIRED)
            assert anyio.current_time() - began <= 65

    on_virtual_time(backend, fake, play)


def test_what_is_held_is_lost_a_minute_after_the_last_word_of_a_server(backend: Backend) -> None:
    fake = Granting(ABSURD)

    async def play() -> None:
        lost = anyio.Event()
        async with fake.connect() as client:
            hold = client.backend.lease.hold("/a", lambda _reason: lost.set())
            assert client.backend.lease.remaining() <= 60
            fake.greet = lambda _: None
            fake.streams[-1].close()
            began = anyio.current_time()
            await lost.wait()
            assert anyio.current_time() - began <= 60
            hold.release()

    on_virtual_time(backend, fake, play)


@pytest.mark.parametrize(("asked", "granted"), [(8.0, ABSURD), (8.0, 81_000), (8.0, 700)], ids=str)
def test_a_grant_that_is_far_off_is_reported_once(
    backend: Backend, caplog: pytest.LogCaptureFixture, asked: float, granted: int
) -> None:
    fake = Granting(granted)

    async def play() -> None:
        async with fake.connect(session_timeout=asked):
            for _ in range(3):
                fake.streams[-1].close()
                await passes(1.0)
        assert len(fake.handshakes) == 4

    with caplog.at_level(logging.WARNING, "aiolead"):
        on_virtual_time(backend, fake, play)
    (record,) = [record for record in caplog.records if "grant" in record.getMessage()]
    assert f"{granted / 1000:g} s" in record.getMessage()
    assert "8 s were asked for" in record.getMessage()


@pytest.mark.parametrize("granted", [4_000, 8_000, 40_000])
def test_what_servers_do_grant_is_not_reported(
    backend: Backend, caplog: pytest.LogCaptureFixture, granted: int
) -> None:
    fake = Granting(granted)

    async def play() -> None:
        async with fake.connect():
            await passes(1.0)

    with caplog.at_level(logging.WARNING, "aiolead"):
        on_virtual_time(backend, fake, play)
    assert not caplog.records


# --- far less ------------------------------------------------------------------------------------


@pytest.mark.parametrize("granted", [1, 99])
def test_a_server_that_grants_next_to_nothing_is_none_of_ours(
    backend: Backend, granted: int
) -> None:
    """Pings and renewals follow from the timeout: with 1 ms the client would do nothing else."""
    fake = Granting(granted)

    async def play() -> None:
        with pytest.raises(ConnectFailed) as caught:
            async with fake.connect(connect_timeout=10.0):
                pass
        ((_, why),) = caught.value.attempts
        assert isinstance(why, RemoteWireError)
        assert f"{granted / 1000:g} seconds" in str(why)
        # Not one ping, and no more attempts than with a server that hangs up.
        assert not fake.requests
        assert fake.connections <= 40

    on_virtual_time(backend, fake, play)


def test_the_shortest_grant_costs_a_few_pings_a_second(backend: Backend) -> None:
    fake = Granting(100)

    async def play() -> None:
        async with fake.connect():
            await passes(10.0)
            assert len([each for each in fake.requests if each.xid == XID_PING]) <= 10 * 31

    on_virtual_time(backend, fake, play)


def test_the_session_goes_on_at_a_server_that_grants_enough(backend: Backend) -> None:
    fake = Granting(8_000)

    async def play() -> None:
        async with fake.connect() as client:
            fake.grant = 1
            fake.streams[-1].close()
            await passes(2.0)
            assert client.state is SessionState.SUSPENDED
            fake.grant = 8_000
            await client.get("/a")
            assert client.session_id == 7
            assert client.session_timeout == 8.0

    on_virtual_time(backend, fake, play)


@pytest.mark.parametrize("granted", [0, -1, -0x8000_0000])
def test_nothing_and_less_than_that_means_that_the_session_is_over(
    backend: Backend, granted: int
) -> None:
    fake = Granting(8_000)

    async def play() -> None:
        states: list[SessionState] = []
        async with fake.connect() as client:
            client.backend.subscribe(lambda state, _session: states.append(state))
            fake.grant = granted
            fake.streams[-1].close()
            await passes(0.5)
            fake.grant = 8_000
            await client.get("/a")
        assert states[:2] == [SessionState.SUSPENDED, SessionState.EXPIRED]

    on_virtual_time(backend, fake, play)


# --- the rest of a handshake ---------------------------------------------------------------------


def test_a_password_that_no_server_would_take_back_is_refused(backend: Backend) -> None:
    """It is part of every handshake: one of a megabyte would have every other server refuse us."""
    fake = Granting(8_000)
    fake.password = bytes(1 << 20)

    async def play() -> None:
        with pytest.raises(ConnectFailed) as caught:
            async with fake.connect(connect_timeout=2.0):
                pass
        ((_, why),) = caught.value.attempts
        assert isinstance(why, RemoteWireError)
        assert "a password of 1048576 bytes" in str(why)

    on_virtual_time(backend, fake, play)
