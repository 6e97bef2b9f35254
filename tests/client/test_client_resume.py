"""A session outlives its client, and another client goes on with it."""

from __future__ import annotations

import random
from typing import Any

import anyio
import pytest
from client.fake_server import FakeServer
from conftest import ServerUnderTest
from kit.clients import JumpingClock, catch_up, connect, eventually

import aiolead
from aiolead import CreateMode, Lock, LockLost
from aiolead.errors import ConfigurationError, LossReason, SessionExpiredError, UsageError
from aiolead.model import SessionCredentials, SessionState
from aiolead.testing import EmbeddedServer


async def test_requests_in_a_resumed_session_have_numbers_of_their_own() -> None:
    """A server tells by session and number whose a committed request is."""
    async with FakeServer() as fake:
        async with fake.connect() as first:
            await first.get("/a")
            credentials = first.detach()
        used = {request.xid for request in fake.requests if request.xid > 0}
        assert 1 in used
        for seed in range(3):
            fake.requests.clear()
            async with fake.connect(resume=credentials, rng=random.Random(seed)) as client:
                await client.get("/a")
                assert client.statistics().requests == 1
                client.detach()
            numbers = {request.xid for request in fake.requests if request.xid > 0}
            assert min(abs(number - other) for number in numbers for other in used) > 1000
            used |= numbers


async def test_contenders_in_a_resumed_session_have_numbers_of_their_own() -> None:
    """With the session, they make names unique, and prove whose a znode is."""
    async with FakeServer() as fake:
        async with fake.connect() as first:
            used = {first.backend.serial()}
            credentials = first.detach()
        for seed in range(3):
            async with fake.connect(resume=credentials, rng=random.Random(seed)) as client:
                number = client.backend.serial()
                assert client.backend.serial() == number + 1
                client.detach()
            assert min(abs(number - other) for other in used) > 1000
            used.add(number)


async def test_a_session_goes_on_over_another_client(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        await first.create("/e", b"1", mode=CreateMode.EPHEMERAL)
        credentials = first.detach()
        last = first.set("/e", b"2")
    assert last.is_done  # what was sent before is answered
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


async def test_a_holder_over_a_resumed_session(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        credentials = first.detach()
    async with connect(server, resume=credentials) as second:
        assert not second.backend.lease.remaining() > 0
        async with Lock(second, "/lock").acquire() as held:
            assert held.remaining() > 0
            await held.verify()


async def test_who_holds_loses_that_first(server: ServerUnderTest) -> None:
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

    async with anyio.create_task_group() as tasks:
        async with connect(server) as first:
            tasks.start_soon(hold, Lock(first, "/lock"))
            await entered.wait()
            credentials = first.detach()
    assert lost == [LossReason.CLOSED]
    async with connect(server, resume=credentials) as second:
        assert await Lock(second, "/lock").contenders() == []
        await second.create("/e", mode=CreateMode.EPHEMERAL)  # the session itself lives


async def test_a_session_that_is_over_cannot_be_resumed(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        # Once a program has read them, the session is not closed.
        credentials = first._core.machine.credentials
    with pytest.raises(SessionExpiredError, match="over"):
        async with connect(server, resume=credentials):
            raise AssertionError


async def test_nor_can_anybody_elses(server: ServerUnderTest) -> None:
    async with connect(server) as first:
        own = first.credentials
        forged = SessionCredentials(own.session_id, b"x" * 16, own.timeout, own.last_zxid)
        with pytest.raises(SessionExpiredError):
            async with connect(server, resume=forged):
                raise AssertionError


async def test_nothing_new_is_begun_in_its_place() -> None:
    async with EmbeddedServer() as server:
        async with connect(server) as first:
            credentials = first.detach()
        server.expire_session(credentials.session_id)
        with pytest.raises(SessionExpiredError):
            async with connect(server, resume=credentials):
                raise AssertionError
        assert server.sessions() == {}
        await eventually(lambda: server.connections == 0, "no connection is left")


async def test_the_session_that_follows_a_detached_one_is_closed() -> None:
    async with EmbeddedServer() as server:
        async with connect(server) as client:
            before = client.detach().session_id
            server.expire_session(before)
            await eventually(lambda: client.session_id not in (0, before), "a new session")
            await client.ready()
        assert server.sessions() == {}


async def test_a_resumed_session_proves_no_more_than_before_it_was_detached() -> None:
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


async def test_before_there_is_a_session_there_is_nothing_to_keep() -> None:
    client: aiolead.Client | None = None
    async with EmbeddedServer() as server:
        async with connect(server) as client:
            await server.stop()
            server_gone = client.credentials
            assert server_gone.session_id == client.session_id
            assert "password" not in repr(server_gone)
    async with EmbeddedServer() as server:
        connection = connect(server)
        with pytest.raises(UsageError, match="no session"):
            _ = connection._client.credentials
        with pytest.raises(UsageError, match="no session"):
            connection._client.detach()


@pytest.mark.parametrize("resume", [7, (7, b"secret"), "secret"])
def test_what_is_no_credentials_is_refused_and_not_shown(resume: Any) -> None:
    with pytest.raises(ConfigurationError, match="resume: must be") as raised:
        aiolead.connect("zk1", resume=resume)
    assert "secret" not in str(raised.value)
