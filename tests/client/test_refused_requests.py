"""A request that costs connections is refused, and is sent again after growing pauses only.

The recipes' part is in `tests/recipes/test_refused_requests.py`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from client.fake_server import FakeServer, ok
from kit.clients import PATIENCE
from kit.virtual_time import (
    SESSION,
    Link,
    connect,
    embedded,
    passes,
    virtually,
    with_virtual_server,
)

import aiolead
from aiolead import Client, Lock
from aiolead.errors import (
    ConnectionLossError,
    NoNodeError,
    Outcome,
    RemoteWireError,
    RequestRefusedError,
)
from aiolead.testing import EmbeddedServer, OpCode

BIG = b"x" * 100_000
LIMIT = 65_536


def connections(client: Client) -> int:
    return client.statistics().connections


@asynccontextmanager
async def suspected() -> AsyncIterator[Client]:
    """A server that has closed the connection for a write that is too long."""
    async with embedded(max_frame=LIMIT) as server, connect(server) as client:
        with pytest.raises(ConnectionLossError):
            await client.create("/big", BIG)
        yield client


async def refused(client: Client, path: str = "/big", data: bytes = BIG) -> RequestRefusedError:
    with pytest.raises(RequestRefusedError) as caught:
        await client.create(path, data)
    return caught.value


@virtually
async def test_write_that_costs_two_connections_is_refused() -> None:
    async with embedded(max_frame=LIMIT) as server, connect(server) as client:
        with pytest.raises(ConnectionLossError) as lost:
            await client.create("/big", BIG)
        assert lost.value.outcome is Outcome.UNKNOWN
        error = await refused(client)
        assert (error.request, error.path, error.losses) == ("CREATE2", "/big", 2)
        assert len(BIG) < error.size < len(BIG) + 200
        assert error.retry_in == pytest.approx(SESSION, rel=0.01)
        assert error.outcome is Outcome.UNKNOWN
        for part in ("CREATE2 /big", "jute.maxbuffer", "proxies", "max_reply", str(error.size)):
            assert part in str(error)
        await client.create("/small")
        assert connections(client) == 3


@virtually
async def test_refused_write_is_sent_again_after_growing_pauses() -> None:
    async with suspected() as client:
        pauses = []
        for _ in range(7):
            error = await refused(client)
            pauses.append(error.retry_in / SESSION)
            for _ in range(20):  # at once: nothing is sent
                again = await refused(client)
                assert again.outcome is Outcome.NOT_APPLIED
                assert again.losses == error.losses
            await passes(error.retry_in)
        assert pauses == pytest.approx([1, 2, 4, 8, 16, 16, 16], rel=0.01)
        await client.create("/small")
        assert connections(client) == 1 + 1 + 7


@virtually
async def test_request_works_again_once_the_servers_accept_it() -> None:
    async with embedded() as server, connect(server) as client:
        server.limit_requests(LIMIT)
        with pytest.raises(ConnectionLossError):
            await client.create("/big", BIG)
        error = await refused(client)
        await server.heal()
        assert (await refused(client)).outcome is Outcome.NOT_APPLIED
        await passes(error.retry_in)
        await client.create("/big", BIG)
        server.limit_requests(LIMIT)
        with pytest.raises(ConnectionLossError):  # it begins again from nothing
            await client.create("/big", BIG)
        await refused(client)
        await client.create("/small")
        assert connections(client) == 5


@virtually
async def test_other_long_writes_wait_too_and_short_ones_do_not() -> None:
    """A hundred long writes to other paths cost no hundred connections."""
    async with suspected() as client:
        await refused(client)
        for number in range(100):
            error = await refused(client, f"/other/{number}", BIG + b"y")
            assert error.outcome is Outcome.NOT_APPLIED
        await client.create("/small", bytes(60_000))
        assert len((await client.get("/small"))[0]) == 60_000
        assert connections(client) == 3


@virtually
async def test_refused_write_does_not_cost_a_held_lock() -> None:
    async with embedded(max_frame=LIMIT) as server, connect(server) as client:
        async with Lock(client, "/held") as held:
            began = anyio.current_time()
            tried = 0
            while anyio.current_time() < began + 20 * SESSION:
                with pytest.raises((ConnectionLossError, RequestRefusedError)):
                    await client.create("/big", BIG)
                tried += 1
                await passes(SESSION / 100)
            held.check()
            assert tried > 1000
        assert connections(client) <= 1 + 1 + 5


@virtually
async def test_requests_beside_a_suspected_one_are_not_blamed() -> None:
    async with embedded(max_frame=LIMIT) as server, connect(server) as client:
        await client.create("/a", b"a")
        for _ in range(2):
            with client.pipelined():
                before = [client.get("/a") for _ in range(5)]
                big = client.create("/big", BIG)
                after = [client.get("/a") for _ in range(5)]
            with pytest.raises((ConnectionLossError, RequestRefusedError)) as caught:
                await big
            for read in (*before, *after):
                assert (await read)[0] == b"a"
        assert isinstance(caught.value, RequestRefusedError)
        assert connections(client) == 3


@virtually
async def test_equal_writes_in_the_queue_fail_together() -> None:
    async with embedded(max_frame=LIMIT) as server, connect(server) as client:
        with pytest.raises(ConnectionLossError):
            await client.set("/big", BIG)
        replies = [client.set("/big", BIG) for _ in range(50)]
        errors = []
        for reply in replies:
            with pytest.raises(RequestRefusedError) as caught:
                await reply
            errors.append(caught.value.outcome)
        assert errors == [Outcome.UNKNOWN] + [Outcome.NOT_APPLIED] * 49
        await client.create("/small")
        assert connections(client) == 3


@virtually
async def test_read_whose_reply_is_too_long_is_refused() -> None:
    limits = aiolead.Limits(max_reply=50_000)
    async with embedded() as server, connect(server, limits=limits) as client:
        server.create("/big", BIG)
        with pytest.raises(RemoteWireError, match="a frame of 100"):
            await client.get("/big")
        with pytest.raises(RequestRefusedError, match=r"GET_DATA /big .*a frame of 100"):
            await client.get("/big")
        for _ in range(10):
            with pytest.raises(RequestRefusedError) as caught:
                await client.get("/big")
            assert caught.value.outcome is Outcome.NOT_APPLIED
        assert await client.exists("/big")
        assert connections(client) == 3


@virtually
async def test_short_request_costs_more_connections_before_it_is_refused() -> None:
    """By a proxy that takes no long replies: the client sends the read again by itself."""
    async with embedded() as server, connect(server) as client:
        server.create("/big")
        server.drop_request(OpCode.GET_DATA, 100)
        with pytest.raises(RequestRefusedError, match=r"GET_DATA /big .*closed"):
            await client.get("/big")
        assert await client.exists("/big")
        assert connections(client) == 17


@with_virtual_server
async def test_connection_lost_long_after_the_request_is_not_blamed_on_it(
    link: Link, client: Client
) -> None:
    for _ in range(5):
        link.stall("to_client")
        lost = client.create("/slow", BIG)
        await passes(SESSION / 3)
        link.down()
        link.heal()
        with pytest.raises(ConnectionLossError):
            await lost
        await client.ready()
        await passes(SESSION)
    with pytest.raises(aiolead.errors.NodeExistsError):
        await client.create("/slow", BIG)


@with_virtual_server
async def test_answer_in_between_clears_the_request(server: EmbeddedServer, client: Client) -> None:
    for _ in range(5):
        server.drop_request(OpCode.CREATE2)
        with pytest.raises(ConnectionLossError):
            await client.create("/flaky", BIG)
        await client.create("/flaky", BIG)
        await client.delete("/flaky")
        with pytest.raises(NoNodeError):
            await client.delete("/flaky")


@with_virtual_server
async def test_old_loss_is_forgotten(server: EmbeddedServer, client: Client) -> None:
    for _ in range(3):
        server.drop_request(OpCode.CREATE2)
        with pytest.raises(ConnectionLossError):
            await client.create("/rare", BIG)
        await client.ready()
        await passes(20 * SESSION)


@virtually
async def test_log_has_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with suspected() as client:
        for _ in range(4):
            await passes((await refused(client)).retry_in)
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert [line.startswith("CREATE2 /big of 100") for line in warnings] == [True]


async def test_read_with_undecodable_answer_is_refused_the_third_time(fake: FakeServer) -> None:
    async with fake.connect() as client:
        fake.answer = ok  # without a record
        with anyio.fail_after(PATIENCE):
            for error in (RemoteWireError, RemoteWireError, RequestRefusedError):
                with pytest.raises(error):
                    await client.get("/a")


# --- the client's own requests -------------------------------------------------------------------


@virtually
async def test_watches_are_set_again_in_shorter_requests() -> None:
    """100 kB of watched paths, on servers that take 64 kB."""
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client, Lock(client, "/held") as held:
            fired = []
            for number in range(500):
                path = f"/{number:03}{'x' * 200}"
                await client.create(path)
                await client.get(path, watch=client.backend.make_watch(fired.append))
            server.limit_requests(LIMIT)
            link.down()
            link.heal()
            await passes(2 * SESSION)
            held.check()
            assert connections(client) <= 4
            for number in range(500):
                await client.set(f"/{number:03}{'x' * 200}", b"new")
            assert len(fired) == 500


@virtually
async def test_long_renewals_are_shared_out() -> None:
    """100 kB of held paths, of which 64 kB fit in a request."""
    async with embedded() as server, connect(server) as client, AsyncExitStack() as held:
        locks = [
            await held.enter_async_context(Lock(client, f"/{number:03}{'x' * 400}"))
            for number in range(200)
        ]
        server.limit_requests(LIMIT)
        await passes(4 * SESSION)
        for lock in locks:
            lock.check()
        assert connections(client) <= 3
