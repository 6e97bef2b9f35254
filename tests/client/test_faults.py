"""Connections that break, servers that go away or talk nonsense: the session outlives all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from client.fake_server import STAT, FakeServer, hang_up, usual
from client.network import through_proxy
from conftest import ServerUnderTest
from kit.clients import PATIENCE, SESSION, Owner, connect, eventually, losing_the_link
from kit.raw_client import RawClient, told_zxid
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, passes, settled, virtually

import aiolead
from aiolead import Client, CreateMode
from aiolead._wire.codes import XID_EVENT, XID_PING, OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import encode_record, encode_reply, frame
from aiolead._wire.replies import DataReply, ReplyHeader
from aiolead._wire.requests import RequestHeader
from aiolead.errors import (
    ConnectFailed,
    ConnectionLossError,
    LossReason,
    Outcome,
    RemoteWireError,
)
from aiolead.model import EventType, SessionState, WatchEvent
from aiolead.testing import EmbeddedServer, FaultProxy, MemoryProxy
from aiolead.testing.ensemble import Ensemble
from aiolead.testing.streams import MemoryStream

S = SessionState


def on_a_real_server(test: Any) -> Any:
    """For what takes seconds of real waiting: once on each event loop is enough."""
    return pytest.mark.real(pytest.mark.parametrize("server", ["standalone"], indirect=True)(test))


# --- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["reset", "fin", "silence"])
@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_session_outlives_its_connection(server: ServerUnderTest, fault: str) -> None:
    async with through_proxy(server) as (proxy, client):
        session_id = client.session_id
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        watch = client.backend.make_watch()
        await client.get("/e", watch=watch)
        states: list[SessionState] = []
        client.backend.subscribe(lambda state, _: states.append(state))
        if fault == "silence":
            proxy.blackhole()
            lost = client.get("/e")
            proxy.heal()  # which resets what it has hit
        else:
            getattr(proxy, fault)()
            lost = client.get("/e")
        with anyio.fail_after(PATIENCE):
            assert (await lost)[1].ephemeral_owner == session_id
            await eventually(lambda: states == [S.SUSPENDED, S.CONNECTED], "lost and found")
            await eventually(lambda: watch.is_armed, "the watch is armed again")
        assert client.session_id == session_id
        assert proxy.connections == 2
        await client.delete("/e")
        zxid = told_zxid(server.hosts, client.backend.last_zxid)
        assert await watch.wait() == WatchEvent(EventType.DELETED, "/e", zxid)


async def test_thousands_of_watches_are_set_again(client: Client, zk: EmbeddedServer) -> None:
    parent = "/" + "x" * 200
    await client.create(parent)
    watches = [client.backend.make_watch() for _ in range(1500)]
    created = [client.create(f"{parent}/{n}") for n in range(len(watches))]
    reads = [client.get(f"{parent}/{n}", watch=watch) for n, watch in enumerate(watches)]
    for reply in (*created, *reads):
        await reply
    async with losing_the_link(client):
        zk.disconnect()
    await eventually(lambda: all(watch.is_armed for watch in watches), "armed again")
    assert zk.requests["SET_WATCHES"] > 1500 * 200 / (128 * 1024)
    await client.delete(f"{parent}/1499")
    assert (await watches[1499].wait()).type is EventType.DELETED


@on_a_real_server
@pytest.mark.keeps_time(2.0)
async def test_silent_connection_is_replaced_within_the_session(server: ServerUnderTest) -> None:
    async with through_proxy(server, session_timeout=2.0) as (proxy, client):
        session_id = client.session_id
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        proxy.blackhole()
        with anyio.fail_after(PATIENCE):
            await eventually(lambda: client.state is S.SUSPENDED, "silence was noticed")
            proxy.heal()
            stat = await client.exists("/e")
        # Two thirds of the timeout have passed, and the session is still there.
        assert stat is not None
        assert stat.ephemeral_owner == client.session_id == session_id


@virtually
async def test_server_that_does_not_answer_is_noticed() -> None:
    async with embedded() as server, connect_virtually(server, session_timeout=1.5) as client:
        reply = client.get("/")
        server.pause()
        await eventually(lambda: client.state is S.SUSPENDED, "silence was noticed")
        server.resume()
        with anyio.fail_after(PATIENCE):
            await reply


# --- servers -----------------------------------------------------------------------------------


@pytest.mark.exhaustive("one more way to lose a session")
async def test_session_continues_at_another_server(ensemble: Ensemble, chroot: str) -> None:
    async with aiolead.connect(ensemble.connect_string, session_timeout=SESSION) as client:
        session_id = client.session_id
        await client.create(chroot, mode=CreateMode.EPHEMERAL)
        watch = client.backend.make_watch()
        await client.get(chroot, watch=watch)
        ours = await ensemble.connected_server(session_id)
        assert ours is not None
        await ours.kill()
        with anyio.fail_after(PATIENCE):
            stat = await client.exists(chroot)
        assert stat is not None
        assert stat.ephemeral_owner == client.session_id == session_id
        theirs = await ensemble.connected_server(session_id)
        assert theirs is not None
        assert theirs.port != ours.port
        with anyio.fail_after(PATIENCE):
            await client.delete(chroot)
            assert (await watch.wait()).type is EventType.DELETED


@on_a_real_server
async def test_expired_session_is_followed_by_another(server: ServerUnderTest) -> None:
    async with through_proxy(server, session_timeout=1.5) as (proxy, client):
        first = client.session_id
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        watch = client.backend.make_watch()
        await client.get("/e", watch=watch)
        states: list[tuple[SessionState, int]] = []
        client.backend.subscribe(lambda *change: states.append(change))
        proxy.refuse()
        proxy.reset()
        with RawClient(server.connect_string) as other:

            def gone() -> bool:
                return other.children("") == []

            await eventually(gone, "the servers ended the session")
        proxy.heal()
        with anyio.fail_after(PATIENCE):
            assert (await watch.wait()).type is EventType.NONE
            await client.ready()
            assert await client.exists("/e") is None
        assert [state for state, _ in states] == [S.SUSPENDED, S.EXPIRED, S.CONNECTING, S.CONNECTED]
        assert states[1][1] == first
        assert client.session_id == states[-1][1] != first


# --- answers that are skipped -------------------------------------------------------------------


async def test_skipped_request_costs_its_connection() -> None:
    """As real servers do that change hands: what was in flight is unknown, reads are sent again."""
    skipped: list[int] = []

    def answer(header: RequestHeader) -> bytes | None:
        if header.op == OpCode.DELETE and not skipped:
            skipped.append(header.xid)
            return None
        return usual(header)

    async with FakeServer(answer) as fake, fake.connect() as client:
        session_id = client.session_id
        lost, behind = client.delete("/a"), client.delete("/b")
        read = client.get("/c")
        for write in (lost, behind):
            with pytest.raises(ConnectionLossError) as raised:
                await write
            assert raised.value.outcome is Outcome.UNKNOWN
        assert await read == (b"data", STAT)
        assert (fake.connections, client.session_id) == (2, session_id)
        assert await client.delete("/a") is None


Answer = Callable[[RequestHeader], bytes | None]

USELESS: dict[str, tuple[Answer, Callable[[ConnectRequest], bytes | None] | None]] = {
    "another xid": (lambda h: encode_reply(ReplyHeader(h.xid + 1, 1 << 60, 0)), None),
    "a ping that nobody sent": (lambda _: encode_reply(ReplyHeader(XID_PING, 1 << 60, 0)), None),
    "hanging up after the handshake": (lambda _: b"", None),
    "nonsense instead of a handshake": (usual, lambda _: b"\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("kind", USELESS)
@virtually
async def test_useless_server_is_tried_at_growing_intervals(kind: str) -> None:
    """After at most 50 ms, 100 ms, 200 ms and so on: without pauses there would be thousands."""
    async with FakeServer() as fake, fake.connect(session_timeout=20.0) as client:
        honest = fake.greet
        fake.answer, greet = USELESS[kind]
        if greet is not None:
            fake.greet = greet
            fake.streams[-1].close()
        waiting = client.get("/a")
        await anyio.sleep(0.5)
        assert fake.connections <= 40
        await eventually(lambda: fake.connections > 3, "it goes on trying")
        assert not waiting.is_done
        if greet is not None:
            assert client.state is S.SUSPENDED
        fake.answer, fake.greet = usual, honest
        with anyio.fail_after(PATIENCE):
            assert (await waiting)[0] == b"data"
        # The wild zxids in there were not believed.
        assert all(request.last_zxid_seen <= 1 for request in fake.handshakes)


@pytest.mark.exhaustive("each case waits for half a session timeout", one_in=3)
@pytest.mark.keeps_time(2.0)
@pytest.mark.parametrize("is_followed", [True, False], ids=["followed", "last"])
@pytest.mark.parametrize("op", [OpCode.DELETE, OpCode.GET_DATA])
@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_swallowed_request_costs_its_connection(
    server: ServerUnderTest, op: OpCode, is_followed: bool
) -> None:
    """Also where nothing follows, and the server answers pings: then it is the request's age."""
    timeout = SESSION if is_followed else 2.0
    async with through_proxy(server, session_timeout=timeout) as (proxy, client):
        session_id = client.session_id
        await client.create("/a", b"data")
        watch = client.backend.make_watch()
        proxy.drop_request(op, how="skip")
        lost = client.delete("/a") if op is OpCode.DELETE else client.get("/a", watch=watch)
        with anyio.fail_after(PATIENCE):
            if is_followed:
                assert await client.exists("/a") is not None
            if op is OpCode.DELETE:
                with pytest.raises(ConnectionLossError) as raised:
                    await lost
                assert raised.value.outcome is Outcome.UNKNOWN
                await client.delete("/a")
            else:
                assert (await lost)[0] == b"data"
                await client.delete("/a")
                assert (await watch.wait()).type is EventType.DELETED
        assert proxy.connections == 2
        assert client.session_id == session_id


async def swallow_a_renewal(
    proxy: FaultProxy | MemoryProxy, client: aiolead.Client, step: OpCode
) -> None:
    lost: list[LossReason] = []
    await client.create("/held", mode=CreateMode.EPHEMERAL)
    hold = client.backend.lease.hold("/held", Owner(lost.append), urgent=True)
    await eventually(lambda: client.statistics().renewals >= 2, "it is renewed")
    proxy.drop_request(step, how="skip")
    await proxy.wait_for_request(step, count=proxy.requests[step.name] + 1)
    before = client.statistics().renewals
    await eventually(
        lambda: lost or client.statistics().renewals >= before + 2, "it goes on, or is lost"
    )
    assert (lost, proxy.connections) == ([], 2)
    hold.release()


@pytest.mark.exhaustive("each case waits for half a session timeout", one_in=3)
@pytest.mark.keeps_time(2.0)
@pytest.mark.parametrize("server", ["standalone", "ensemble"], indirect=True)
@pytest.mark.parametrize("step", [OpCode.MULTI, OpCode.SYNC])
async def test_swallowed_renewal_costs_no_hold(server: ServerUnderTest, step: OpCode) -> None:
    """With one server, which answers everything else.

    The client connects again when a quarter of the session timeout is left, and has that time less
    the grace period for a handshake and a renewal: 0.6 s of a session of 4 s.
    """
    async with through_proxy(server, session_timeout=4.0) as (proxy, client):
        await swallow_a_renewal(proxy, client, step)


@pytest.mark.exhaustive("each case waits for half a session timeout", one_in=3)
@virtually
@pytest.mark.parametrize("step", [OpCode.MULTI, OpCode.SYNC])
async def test_swallowed_renewal_costs_no_hold_in_memory(step: OpCode) -> None:
    async with embedded() as server, anyio.create_task_group() as links:
        proxy = MemoryProxy(server)
        async with connect_virtually(server, session_timeout=2.0, dial=proxy.dial) as client:
            await swallow_a_renewal(proxy, client, step)
        links.cancel_scope.cancel()


# --- nonsense ----------------------------------------------------------------------------------

NONSENSE: dict[str, Callable[[RequestHeader], bytes]] = {
    "too short": lambda _: frame(b"abc"),
    "too long": lambda _: (1 << 30).to_bytes(4, "big") + bytes(100),
    "negative length": lambda _: b"\xff\xff\xff\xf0" + bytes(100),
    "an xid of nobody": lambda _: encode_reply(ReplyHeader(-77, 1 << 60, 0)),
    "no body": lambda h: encode_reply(ReplyHeader(h.xid, 1 << 60, 0)),
    "half an event": lambda _: encode_reply(ReplyHeader(XID_EVENT, -1, 0)) + b"",
    "http": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("kind", NONSENSE)
async def test_malformed_answer_costs_one_connection(fake: FakeServer, kind: str) -> None:
    async with fake.connect() as client:
        session_id = client.session_id
        nonsense = NONSENSE[kind]
        fake.answer = lambda header: (
            nonsense(header) if header.op == OpCode.GET_DATA else usual(header)
        )
        for number in range(2):
            with pytest.raises(RemoteWireError):
                await client.get("/a")
            await eventually(lambda: client.state is S.CONNECTED, "connected again")
            assert client.session_id == session_id
            assert fake.connections == number + 2
        fake.answer = usual
        assert await client.get("/a") == (b"data", STAT)
        # The wild zxids in there were not believed.
        assert all(request.last_zxid_seen <= 1 for request in fake.handshakes)
        assert client._core.machine.requests.inflight == 0


@virtually
async def test_session_that_servers_refuse_for_its_timeout_is_replaced() -> None:
    """Servers that have lost their data hang up on clients that have seen more than they have."""

    def greet(request: ConnectRequest) -> bytes:
        if request.session_id or request.last_zxid_seen:
            return b""
        return encode_record(ConnectResponse(request.timeout_ms, 99, b"p" * 16))

    async with FakeServer() as fake, fake.connect(session_timeout=1.0) as client:
        await client.get("/a")
        first = client.session_id
        states: list[tuple[SessionState, int]] = []
        client.backend.subscribe(lambda *change: states.append(change))
        fake.greet = greet
        fake.streams[-1].close()
        with anyio.fail_after(PATIENCE):
            await eventually(lambda: client.session_id == 99, "a session of theirs")
        assert states == [
            (S.SUSPENDED, first), (S.EXPIRED, first), (S.CONNECTING, 0), (S.CONNECTED, 99),
        ]  # fmt: skip


async def test_server_that_has_lost_its_data_ends_the_session(zk: EmbeddedServer) -> None:
    async with connect(zk, session_timeout=1) as client, client.observe() as states:
        for _ in range(3):
            await client.create("/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
        before = client.session_id
        await zk.stop()
        async with EmbeddedServer(port=zk.port) as emptied:
            with anyio.fail_after(30):
                while (change := await anext(states)).state is not S.EXPIRED:
                    assert change.session_id in (0, before)
                await client.ready()
            assert list(emptied.sessions()) == [client.session_id]
            assert await client.get_children("/") == ["zookeeper"]


async def test_reply_that_is_too_long_fails_its_request_alone(zk: EmbeddedServer) -> None:
    async with connect(zk, limits=aiolead.Limits(max_reply=50_000)) as client:
        session_id = client.session_id
        await client.create("/big", bytes(60_000))
        await client.create("/small", bytes(40_000))
        big, small = client.get("/big"), client.get("/small")
        with pytest.raises(RemoteWireError, match=r"a frame of 600\d\d bytes"):
            await big
        assert len((await small)[0]) == 40_000
        assert client.session_id == session_id


async def test_answer_in_single_bytes_is_read(fake: FakeServer) -> None:
    async with fake.connect() as client:
        whole = encode_reply(ReplyHeader(1, 1, 0), DataReply(b"data", STAT))
        fake.answer = lambda _: None
        reply = client.get("/a")
        await eventually(lambda: len(fake.requests) == 1, "it was asked")
        for byte in whole:
            await fake.streams[-1].send(bytes([byte]))
            await anyio.wait_all_tasks_blocked()
        assert (await reply)[0] == b"data"
        fake.answer = usual


# --- connecting again, and the writer ------------------------------------------------------------

PACKET = 0.001
"""How long it takes to open a connection, in seconds: a client without pauses counts up."""


@asynccontextmanager
async def slow_to_dial(fake: FakeServer) -> AsyncIterator[tuple[FakeServer, aiolead.Client]]:
    async with fake:
        fake.latency = PACKET
        async with fake.connect() as client:
            yield fake, client


@pytest.mark.parametrize("met", [False, True], ids=["never met", "served before"])
@virtually
async def test_server_that_hangs_up_is_not_asked_again_at_once(met: bool) -> None:
    """The limit of the pause doubles from 0.05 s to 0.8 s, a tenth of the timeout."""
    async with FakeServer() as fake:
        fake.latency = PACKET
        if met:
            async with fake.connect():
                hang_up(fake)
                before = fake.connections
                await passes(10.0)
        else:
            fake.greet, before = (lambda _: b""), 0
            with pytest.raises(ConnectFailed):
                async with fake.connect(connect_timeout=10.0):
                    pass
        assert 15 <= fake.connections - before <= 40


@pytest.mark.parametrize(("lasts", "at_once"), [(0.15, True), (0.05, False)])
@virtually
async def test_connection_that_lasted_is_replaced_at_once(lasts: float, at_once: bool) -> None:
    """However often it is lost. A connection that was lost right away is not."""
    async with slow_to_dial(FakeServer()) as (fake, client):
        took = 0.0
        for _ in range(20):
            await passes(lasts)
            fake.streams[-1].close()
            began = anyio.current_time()
            await client.get("/a")
            took += anyio.current_time() - began
        assert (took == pytest.approx(20 * PACKET)) == at_once


@pytest.mark.parametrize("rounds", [1, 2, 3])
@virtually
async def test_three_rounds_of_refusals_end_a_session_after_a_long_silence(rounds: int) -> None:
    """The first server that is reached after a long silence may only begin to serve, and hang up on
    all clients. The session may live: an operator who restarts all servers gives it more time."""
    async with slow_to_dial(FakeServer()) as (fake, client):
        grant, session_id = fake.greet, client.session_id
        fake.greet = lambda _: None  # the connection is there, and nothing is said
        fake.streams[-1].close()
        await passes(SESSION + 1)
        fake.greet = lambda _: b""
        refused = len(fake.handshakes) + rounds
        while len(fake.handshakes) < refused:
            await settled()
        await passes(2 * PACKET)
        assert client.session_id == (session_id if rounds < 3 else 0)
        fake.greet = grant
        await client.ready()
        assert fake.handshakes[-1].session_id == (session_id if rounds < 3 else 0)


@virtually
async def test_refusals_within_the_session_timeout_do_not_end_the_session() -> None:
    async with slow_to_dial(FakeServer()) as (fake, client):
        grant, session_id = fake.greet, client.session_id
        before = fake.connections
        hang_up(fake)
        await passes(SESSION - 2)
        assert fake.connections - before > 5
        assert client.state is S.SUSPENDED
        fake.greet = grant
        await client.ready()
        assert client.session_id == session_id


class Narrow(FakeServer):
    """A server into whose connections nothing is sent before `wide` is set."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.wide = anyio.Event()
        self.wide.set()

    async def dial(self, host: str, port: int) -> MemoryStream:
        stream = await super().dial(host, port)
        send = stream.send

        async def narrow(item: bytes) -> None:
            await self.wide.wait()
            await send(item)

        stream.send = narrow  # type: ignore[method-assign]
        return stream


@virtually
async def test_request_made_while_another_is_being_sent_leaves_right_after_it() -> None:
    """Without waiting for anything to come in, or for the next ping."""

    def only_pings(header: RequestHeader) -> bytes | None:
        return usual(header) if header.xid == XID_PING else None

    async with Narrow(only_pings) as fake, fake.connect() as client:
        fake.wide = anyio.Event()
        client.get("/a")
        await settled()
        client.get("/b")
        await settled()
        assert fake.requests == []
        fake.wide.set()
        await settled()
        assert [header.op for header in fake.requests] == [OpCode.GET_DATA, OpCode.GET_DATA]
        fake.answer = usual  # for the request to close the session
