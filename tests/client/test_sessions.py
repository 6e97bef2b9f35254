"""Sessions: states as programs see them, sessions that outlive their client, and `healthy`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from client.fake_server import FakeServer, error
from conftest import ServerUnderTest
from kit.clients import PATIENCE, JumpingClock, Link, catch_up, connect, eventually, losing_the_link
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import Client, CreateMode, Election, Lock, LockLost, blocking
from aiolead._client.api.session_states import SessionChange
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    ConfigurationError,
    LossReason,
    SessionExpiredError,
    UsageError,
)
from aiolead.model import SessionState
from aiolead.paths import parse_connect_string
from aiolead.testing import EmbeddedServer, FaultProxy

S = SessionState


def recorded(client: Client) -> list[tuple[SessionState, int]]:
    """Every state that is reported from now on, with its session."""
    entries: list[tuple[SessionState, int]] = []
    client.backend.subscribe(lambda *entry: entries.append(entry))
    return entries


async def test_observer_starts_with_the_current_state(server: ServerUnderTest) -> None:
    seen = []
    async with anyio.create_task_group() as tasks, connect(server) as client:
        session_id = client.session_id
        states = client.observe()

        async def watch() -> None:
            async with states:
                async for change in states:
                    seen.append(change)  # noqa: PERF401

        tasks.start_soon(watch)
        await eventually(lambda: len(seen) == 1, "the present state")
        assert states.current == seen[0] == SessionChange(S.CONNECTED, session_id)
    assert [change.state for change in seen] == [S.CONNECTED, S.CLOSED]
    assert seen[-1].session_id == session_id


@virtually
async def test_slow_observer_gets_the_expiry_and_the_latest_state() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        entries = recorded(client)
        first = client.session_id
        async with client.observe() as states:
            for _ in range(3):
                async with losing_the_link(client):
                    server.disconnect(client.session_id, reset=True)
            server.expire_session(first)
            await eventually(lambda: client.session_id not in (0, first), "another session")
            await client.ready()
            seen = [await anext(states), await anext(states)]
            assert [(change.state, change.session_id) for change in seen] == [
                (S.EXPIRED, first), (S.CONNECTED, client.session_id),
            ]  # fmt: skip
            with anyio.move_on_after(0) as scope:
                await anext(states)
            assert scope.cancelled_caught
        # A subscriber gets everything, and EXPIRED before anything of the next session.
        assert entries == [
            *[(S.SUSPENDED, first), (S.CONNECTED, first)] * 3,
            (S.SUSPENDED, first), (S.EXPIRED, first), (S.CONNECTING, 0),
            (S.CONNECTED, client.session_id),
        ]  # fmt: skip


@virtually
async def test_slow_observer_gets_the_last_of_two_expiries() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        async with client.observe() as states:
            for _ in range(2):
                old = client.session_id
                server.expire_session(old)
                await eventually(lambda: client.session_id not in (0, old), "a new session")  # noqa: B023
                await client.ready()
            seen = [await anext(states), await anext(states)]
            assert [change.state for change in seen] == [S.EXPIRED, S.CONNECTED]
            assert seen[0].session_id == old


async def test_subscribers_are_called_in_order(client: Client, zk: EmbeddedServer) -> None:
    order: list[str] = []
    leave = client.backend.subscribe(lambda *_: order.append("first"))
    client.backend.subscribe(lambda *_: order.append("second"))
    zk.disconnect()
    await eventually(lambda: len(order) == 4, "lost and found")
    leave()
    leave()
    zk.disconnect()
    await eventually(lambda: len(order) == 6, "lost and found again")
    assert order == ["first", "second"] * 2 + ["second"] * 2


async def test_session_outlives_a_restart_of_the_server(client: Client, zk: EmbeddedServer) -> None:
    session_id = client.session_id
    await client.create("/e", mode=aiolead.CreateMode.EPHEMERAL)
    await zk.stop()
    await eventually(lambda: client.state is S.SUSPENDED, "the connection is lost")
    waiting = client.exists("/e")
    await zk.start()
    stat = await waiting
    assert stat is not None
    assert stat.ephemeral_owner == client.session_id == session_id


async def test_closed_client_is_never_ready(zk: EmbeddedServer) -> None:
    async with Link(zk).connect() as client:
        pass
    with pytest.raises(ClientClosedError):
        await client.ready()
    async with client.observe() as states:
        assert [change.state async for change in states] == [S.CLOSED]


async def test_credentials_refused_later_end_the_client(fake: FakeServer) -> None:
    async with fake.connect() as client, client.observe() as states:
        fake.answer = lambda header: error(header, -124)
        with pytest.raises(AuthFailedError, match="authenticated clients only"):
            await client.get("/a")
        assert [change.state async for change in states] == [S.AUTH_FAILED]
        for ask in (client.ready, lambda: client.get("/a")):
            with pytest.raises(AuthFailedError):
                await ask()
        assert fake.connections == 1


@pytest.mark.parametrize("fault", [FaultProxy.reset, FaultProxy.fin])
async def test_lost_connection_is_noticed_without_a_timeout(
    embedded: str, fault: Callable[[FaultProxy], None]
) -> None:
    """With a session timeout of half a minute, only the fault itself can tell."""
    host, _, port = embedded.rpartition(":")
    async with (
        FaultProxy(host, int(port)) as proxy,
        aiolead.connect(proxy.connect_string, session_timeout=30) as client,
    ):
        assert client.session_timeout == 30.0
        proxy.refuse()
        async with client.observe() as states:
            assert (await anext(states)).state is S.CONNECTED
            fault(proxy)
            with anyio.fail_after(PATIENCE):
                assert (await anext(states)).state is S.SUSPENDED
        assert proxy.requests["PING"] == 0
        proxy.heal()
        with anyio.fail_after(PATIENCE):
            await client.ready()


# --- sessions that outlive their client ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["requests", "contenders"])
async def test_resumed_session_continues_with_other_numbers(fake: FakeServer, kind: str) -> None:
    """A server knows by session and number whose a committed request is. Contenders make their
    names unique with both, and prove by them whose a znode is."""

    async def numbers(client: Client) -> set[int]:
        if kind == "contenders":
            number = client.backend.serial()
            assert client.backend.serial() == number + 1
            return {number}
        fake.requests.clear()
        await client.get("/a")
        assert client.statistics().requests == 1
        return {request.xid for request in fake.requests if request.xid > 0}

    async with fake.connect() as first:
        used = await numbers(first)
        assert kind == "contenders" or used == {1}
        credentials = first.detach()
    for seed in range(3):
        async with fake.connect(resume=credentials, rng=random.Random(seed)) as client:
            found = await numbers(client)
            client.detach()
        assert min(abs(number - other) for number in found for other in used) > 1000
        used |= found


@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_another_client_continues_a_session(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        await first.create("/e", b"1", mode=CreateMode.EPHEMERAL)
        credentials = first.detach()
        last = first.set("/e", b"2")
    assert last.is_done  # it was sent before, so it is answered
    last.result()
    assert first.state is SessionState.CLOSED
    async with connect(server, resume=credentials) as second:
        assert second.session_id == credentials.session_id
        data, stat = await second.get("/e")
        assert (data, stat.ephemeral_owner) == (b"2", second.session_id)
        assert second.session_timeout <= credentials.timeout
        await second.delete("/e")
        await second.create("/e", mode=CreateMode.EPHEMERAL)
    async with connect(server) as third:
        await catch_up(third)
        assert await third.exists("/e") is None  # this one was closed


@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_lock_is_acquired_in_a_resumed_session(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        credentials = first.detach()
    async with connect(server, resume=credentials) as second:
        assert not second.backend.lease.remaining() > 0
        async with Lock(second, "/lock").acquire() as held:
            assert held.remaining() > 0
            await held.verify()


@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_detaching_ends_the_holds_first(server: ServerUnderTest) -> None:
    """Detaching hands nothing on that is held; the znode does not stay behind in the session."""
    lost: list[LossReason] = []
    entered = anyio.Event()

    async def hold(lock: Lock) -> None:
        try:
            async with lock:
                entered.set()
                await anyio.sleep_forever()
        except LockLost as error:
            lost.append(error.reason)

    async with anyio.create_task_group() as tasks, connect(server) as first:
        tasks.start_soon(hold, Lock(first, "/lock"))
        await entered.wait()
        credentials = first.detach()
    assert lost == [LossReason.CLOSED]
    async with connect(server, resume=credentials) as second:
        assert await Lock(second, "/lock").contenders() == []
        await second.create("/e", mode=CreateMode.EPHEMERAL)  # the session itself lives


async def test_session_that_is_over_cannot_be_resumed(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        # Once a program has read them, the session is not closed.
        credentials = first._core.machine.credentials
    with pytest.raises(SessionExpiredError, match="over"):
        async with connect(server, resume=credentials):
            raise AssertionError


@pytest.mark.only_zookeeper("a password of each session")
async def test_session_cannot_be_resumed_with_another_password(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        forged = replace(first.credentials, password=b"x" * 16)
        with pytest.raises(SessionExpiredError):
            async with connect(server, resume=forged):
                raise AssertionError


async def test_failed_resume_opens_no_session(zk: EmbeddedServer) -> None:
    async with connect(zk) as first:
        credentials = first.detach()
    zk.expire_session(credentials.session_id)
    with pytest.raises(SessionExpiredError):
        async with connect(zk, resume=credentials):
            raise AssertionError
    assert zk.sessions() == {}
    await eventually(lambda: zk.connections == 0, "no connection is left")


async def test_session_that_follows_a_detached_one_is_closed(zk: EmbeddedServer) -> None:
    async with connect(zk) as client:
        before = client.detach().session_id
        zk.expire_session(before)
        await eventually(lambda: client.session_id not in (0, before), "a new session")
        await client.ready()
    assert zk.sessions() == {}


async def test_resumed_session_proves_no_more_than_before() -> None:
    """A server that grants more: a new leader would still go by what the session began with."""
    async with EmbeddedServer(max_session_timeout=2) as server:
        async with connect(server) as first:
            credentials = first.detach()
        assert credentials.timeout == 2
        clock = JumpingClock()
        async with connect(server, resume=credentials, session_timeout=8, clock=clock) as second:
            await second.create("/a")
            await second.check("/a")
            assert 0 < second.backend.lease.remaining() < 2


async def test_credentials_are_kept_without_a_server(client: Client, zk: EmbeddedServer) -> None:
    await zk.stop()
    assert client.credentials.session_id == client.session_id
    assert "password" not in repr(client.credentials)


async def test_client_without_a_session_has_no_credentials(zk: EmbeddedServer) -> None:
    client = connect(zk)._client
    for use in (lambda: client.credentials, client.detach):
        with pytest.raises(UsageError, match="no session"):
            use()


@pytest.mark.parametrize("resume", [7, (7, b"secret"), "secret"])
def test_invalid_credentials_are_refused_and_not_shown(resume: Any) -> None:
    with pytest.raises(ConfigurationError, match="resume: must be") as raised:
        aiolead.connect("zk1", resume=resume)
    assert "secret" not in str(raised.value)


# --- healthy -------------------------------------------------------------------------------------

# `healthy` looks at what is known, and waits for nothing: one event loop is enough.
on_asyncio = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])


@on_asyncio
async def test_client_is_healthy_before_while_and_after_it_leads(zk: EmbeddedServer) -> None:
    hosts = zk.connect_string
    async with aiolead.connect(hosts) as client, aiolead.connect(hosts) as other:
        assert client.healthy()
        async with Election(client, "/e").leadership(), anyio.create_task_group() as tasks:
            tasks.start_soon(Election(other, "/e").run, lambda _: anyio.sleep_forever())
            assert client.healthy()
            assert other.healthy()  # it waits for its turn
            tasks.cancel_scope.cancel()
        assert client.healthy()
        # The next session begins within milliseconds: what is said at each change is noted.
        said: list[tuple[SessionState, bool]] = []
        client.backend.subscribe(lambda state, _: said.append((state, client.healthy(86_400))))
        zk.expire_session(client.session_id)
        await eventually(lambda: bool(said) and said[-1][0] is SessionState.CONNECTED, "a session")
        assert (SessionState.EXPIRED, False) in said
        assert {is_healthy for state, is_healthy in said if state is SessionState.CONNECTED} == {
            True
        }
        assert client.healthy()
    assert not client.healthy(86_400)


@on_asyncio
async def test_client_without_answers_is_not_healthy(zk: EmbeddedServer) -> None:
    address = parse_connect_string(zk.connect_string).hosts[0]
    with FaultProxy(*address) as proxy:
        async with aiolead.connect(proxy.connect_string, session_timeout=4) as client:
            limit = client.session_timeout / 4
            proxy.blackhole()
            await eventually(lambda: not client.healthy(limit), "without answers")
            assert client.healthy(86_400)
            proxy.heal()
            await eventually(client.healthy, "with answers")


@on_asyncio
async def test_invalid_limit_of_healthy_is_refused(embedded: str) -> None:
    bad: list[Any] = [-1, float("nan"), float("inf"), "5", True, 86_401]
    async with aiolead.connect(embedded) as client:
        for each in bad:
            with pytest.raises(ConfigurationError, match="max_unconfirmed: must be a number of"):
                client.healthy(each)


def test_threads_may_ask_whether_a_client_is_healthy(embedded: str) -> None:
    with blocking.connect(embedded) as client:
        assert client.healthy()
        assert client.healthy(5)
    assert not client.healthy()
