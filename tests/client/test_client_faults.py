"""Links that break, servers that go away or talk nonsense: the session lives through all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from client.fake_server import STAT, FakeServer, usual
from conftest import ServerUnderTest
from kit.clients import PATIENCE, SESSION, connect, eventually, losing_the_link
from kit.raw_client import RawClient, told_zxid
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import CreateMode
from aiolead._wire.codes import XID_EVENT, XID_PING, OpCode
from aiolead._wire.framing import encode_record, encode_reply, frame
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.replies import DataReply, ReplyHeader
from aiolead._wire.requests import RequestHeader
from aiolead.errors import (
    ConnectionLossError,
    LossReason,
    Outcome,
    RemoteWireError,
    SessionExpiredError,
)
from aiolead.model import EventType, SessionState, WatchEvent
from aiolead.testing import EmbeddedServer, FaultProxy, MemoryProxy
from aiolead.testing.ensemble import Ensemble

S = SessionState


@asynccontextmanager
async def through_proxy(
    server: ServerUnderTest, **options: Any
) -> AsyncIterator[tuple[FaultProxy, aiolead.Client]]:
    """A client of the first server, and what is between them."""
    host, _, port = server.hosts.split(",")[0].rpartition(":")
    async with FaultProxy(host, int(port)) as proxy:
        target = proxy.connect_string + server.chroot
        async with aiolead.connect(target, **{"session_timeout": SESSION, **options}) as client:
            yield proxy, client


def on_a_real_server(test: Any) -> Any:
    """For what takes seconds of real waiting: once on each event loop is enough."""
    return pytest.mark.real(pytest.mark.parametrize("server", ["standalone"], indirect=True)(test))


# --- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["reset", "fin", "silence"])
async def test_the_session_survives_its_link(server: ServerUnderTest, fault: str) -> None:
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


async def test_what_happens_while_the_link_is_down_is_reported_then(
    server: ServerUnderTest,
) -> None:
    async with through_proxy(server) as (proxy, client):
        for name in ("data", "gone", "parent", "same"):
            await client.create(f"/{name}")
        watches = {
            name: client.backend.make_watch() for name in ("data", "gone", "parent", "same", "new")
        }
        await client.get("/data", watch=watches["data"])
        await client.exists("/gone", watch=watches["gone"])
        await client.get_children("/parent", watch=watches["parent"])
        await client.get("/same", watch=watches["same"])
        await client.exists("/new", watch=watches["new"])
        proxy.refuse()
        proxy.reset()
        await eventually(lambda: client.state is S.SUSPENDED, "the link is lost")
        assert not any(watch.is_armed for watch in watches.values())
        with RawClient(server.connect_string) as other:
            other.set("/data", b"new")
            other.delete("/gone")
            other.create("/parent/child")
            other.create("/new")
        assert not any(watch.event for watch in watches.values())
        proxy.heal()
        with anyio.fail_after(PATIENCE):
            events = {
                name: (await watches[name].wait()).type
                for name in ("data", "gone", "parent", "new")
            }
            await eventually(lambda: watches["same"].is_armed, "all are armed again")
        assert events == {
            "data": EventType.DATA_CHANGED,
            "gone": EventType.DELETED,
            "parent": EventType.CHILDREN_CHANGED,
            "new": EventType.CREATED,
        }
        assert watches["same"].event is None


async def test_thousands_of_watches_survive_although_their_paths_fill_several_packets() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        parent = "/" + "x" * 200
        await client.create(parent)
        watches = [client.backend.make_watch() for _ in range(1500)]
        created = [client.create(f"{parent}/{n}") for n in range(len(watches))]
        reads = [client.get(f"{parent}/{n}", watch=watch) for n, watch in enumerate(watches)]
        for reply in (*created, *reads):
            await reply
        async with losing_the_link(client):
            server.disconnect()
        await eventually(lambda: all(watch.is_armed for watch in watches), "armed again")
        assert server.requests["SET_WATCHES"] > 1500 * 200 / (128 * 1024)
        await client.delete(f"{parent}/1499")
        assert (await watches[1499].wait()).type is EventType.DELETED


@on_a_real_server
@pytest.mark.keeps_time(2.0)
async def test_a_silent_link_is_given_up_within_the_session(server: ServerUnderTest) -> None:
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
async def test_a_server_that_hears_but_does_not_answer() -> None:
    async with embedded() as server, connect_virtually(server, session_timeout=1.5) as client:
        reply = client.get("/")
        server.pause()
        await eventually(lambda: client.state is S.SUSPENDED, "silence was noticed")
        server.resume()
        with anyio.fail_after(PATIENCE):
            await reply


# --- servers -----------------------------------------------------------------------------------


@pytest.mark.exhaustive("one more way to lose a session")
async def test_another_server_takes_over_when_ours_is_killed(
    ensemble: Ensemble, chroot: str
) -> None:
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
async def test_an_expired_session_is_followed_by_another(server: ServerUnderTest) -> None:
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


async def test_requests_that_wait_when_the_session_expires_fail() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        await server.stop()
        await eventually(lambda: client.state is S.SUSPENDED, "the link is lost")
        waiting = [client.get("/"), client.create("/a")]
        server.expire_session(client.session_id)
        await server.start()
        for reply in waiting:
            with pytest.raises(SessionExpiredError):
                await reply
        await client.ready()
        assert await client.exists("/a") is None


# --- answers that are skipped -------------------------------------------------------------------


async def test_a_server_that_skips_a_request_has_lost_its_connection() -> None:
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


@pytest.mark.parametrize(
    "answer",
    [
        lambda h: encode_reply(ReplyHeader(h.xid + 1, 1 << 60, 0)),
        lambda _: encode_reply(ReplyHeader(XID_PING, 1 << 60, 0)),
    ],
    ids=["another xid", "a ping that nobody sent"],
)
@virtually
async def test_a_server_that_skips_every_request_is_tried_at_leisure(answer: Any) -> None:
    async with FakeServer() as fake, fake.connect(session_timeout=20.0) as client:
        fake.answer = answer
        waiting = client.get("/a")
        await anyio.sleep(0.5)
        assert fake.connections <= 40
        await eventually(lambda: fake.connections > 3, "it goes on trying")
        assert not waiting.is_done
        fake.answer = usual
        with anyio.fail_after(PATIENCE):
            assert (await waiting)[0] == b"data"
        # The wild zxids in there were not believed.
        assert all(request.last_zxid_seen <= 1 for request in fake.handshakes)


@pytest.mark.exhaustive("each case waits for half a session timeout", one_in=3)
@pytest.mark.keeps_time(2.0)
@pytest.mark.parametrize("is_followed", [True, False], ids=["followed", "last"])
@pytest.mark.parametrize("op", [OpCode.DELETE, OpCode.GET_DATA])
async def test_a_request_that_is_swallowed_costs_its_connection(
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
    hold = client.backend.lease.hold("/held", lost.append, urgent=True)
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
async def test_a_renewal_that_is_swallowed_costs_no_hold(
    server: ServerUnderTest, step: OpCode
) -> None:
    """With one server, which answers everything else.

    The client connects again when a quarter of the session timeout is left, and has that time less
    the grace period for a handshake and a renewal: 0.6 s of a session of 4 s.
    """
    async with through_proxy(server, session_timeout=4.0) as (proxy, client):
        await swallow_a_renewal(proxy, client, step)


@pytest.mark.exhaustive("each case waits for half a session timeout", one_in=3)
@virtually
@pytest.mark.parametrize("step", [OpCode.MULTI, OpCode.SYNC])
async def test_a_renewal_that_is_swallowed_costs_no_hold_in_memory(step: OpCode) -> None:
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
async def test_nonsense_fails_its_request_and_costs_one_connection(kind: str) -> None:
    async with FakeServer() as fake, fake.connect() as client:
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
async def test_a_server_of_nothing_but_nonsense_is_tried_at_leisure() -> None:
    async with FakeServer() as fake, fake.connect(session_timeout=20.0) as client:
        fake.greet = lambda _: b"\xff\xff\xff\xff"
        fake.streams[-1].close()
        waiting = client.get("/a")
        await anyio.sleep(0.5)
        # At once, then after at most 50 ms, 100 ms, 200 ms ...; spinning makes thousands.
        assert fake.connections <= 40
        await eventually(lambda: fake.connections > 3, "it goes on trying")
        assert client.state is S.SUSPENDED
        fake.greet = lambda request: encode_record(
            ConnectResponse(request.timeout_ms, request.session_id, bytes(16))
        )
        with anyio.fail_after(PATIENCE):
            assert (await waiting)[0] == b"data"


@virtually
async def test_a_server_that_hangs_up_after_the_handshake_is_tried_at_leisure() -> None:
    async with FakeServer() as fake, fake.connect(session_timeout=20.0) as client:
        fake.answer = lambda _: b""
        waiting = client.get("/a")
        await anyio.sleep(0.5)
        assert fake.connections <= 40
        await eventually(lambda: fake.connections > 3, "it goes on trying")
        assert not waiting.is_done
        fake.answer = usual
        with anyio.fail_after(PATIENCE):
            assert (await waiting)[0] == b"data"


@virtually
async def test_servers_that_refuse_the_session_for_longer_than_it_can_live_lose_it() -> None:
    """As servers do that have lost their data: they hang up on who has seen more than they."""

    def greet(request: ConnectRequest) -> bytes:
        if request.session_id or request.last_zxid_seen:
            return b""
        return encode_record(ConnectResponse(request.timeout_ms, 99, bytes(16)))

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


async def test_a_reply_that_is_too_long_is_the_callers_trouble_alone() -> None:
    async with EmbeddedServer() as server:
        async with connect(server, limits=aiolead.Limits(max_reply=50_000)) as client:
            session_id = client.session_id
            await client.create("/big", bytes(60_000))
            await client.create("/small", bytes(40_000))
            big, small = client.get("/big"), client.get("/small")
            with pytest.raises(RemoteWireError, match=r"a frame of 600\d\d bytes"):
                await big
            assert len((await small)[0]) == 40_000
            assert client.session_id == session_id


async def test_a_request_that_the_server_finds_too_long() -> None:
    async with EmbeddedServer(max_frame=50_000) as server, connect(server) as client:
        with pytest.raises(ConnectionLossError):
            await client.create("/big", bytes(60_000))
        await client.create("/small", bytes(40_000))


async def test_an_answer_in_single_bytes() -> None:
    async with FakeServer() as fake, fake.connect() as client:
        whole = encode_reply(ReplyHeader(1, 1, 0), DataReply(b"data", STAT))
        fake.answer = lambda _: None
        reply = client.get("/a")
        await eventually(lambda: len(fake.requests) == 1, "it was asked")
        for byte in whole:
            await fake.streams[-1].send(bytes([byte]))
            await anyio.wait_all_tasks_blocked()
        assert (await reply)[0] == b"data"
        fake.answer = usual
