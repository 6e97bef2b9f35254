"""Requests without end, and servers that do not keep up."""

from __future__ import annotations

import anyio
import pytest
from kit.clients import eventually
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

from aiolead import Client, CreateMode, Election, Limits, Lock, NoNodeError, connect
from aiolead._wire.codes import OpCode
from aiolead.errors import ConfigurationError, Outcome, ThrottledOpError, TooManyRequestsError
from aiolead.testing import EmbeddedServer

TIMEOUT = 3.0
PACE = 0.002


@virtually
async def test_ten_thousand_requests_at_a_slow_server_cost_no_role() -> None:
    async with (
        embedded() as server,
        connect_virtually(server, session_timeout=TIMEOUT) as client,
    ):
        await client.create("/a", b"data")
        async with Lock(client, "/lock").acquire() as held:
            server.slow_down(PACE)
            reads = [client.get("/a") for _ in range(10_000)]
            # For more than the session timeout, in which each renewal has to pass what waits.
            with anyio.move_on_after(1.3 * TIMEOUT):
                for read in reads:
                    assert (await read)[0] == b"data"
                    assert held.is_held
            assert not reads[-1].is_done
            assert server.requests["MULTI"] >= 3
            server.slow_down(0)
            await reads[-1]
            await held.verify()
        assert len(server.sessions()) == 1


async def test_no_more_are_in_flight_than_may_be() -> None:
    async with (
        EmbeddedServer() as server,
        connect(server.connect_string, limits=Limits(max_in_flight=7)) as client,
    ):
        server.pause()
        asked = [client.exists("/a") for _ in range(50)]
        await anyio.wait_all_tasks_blocked()
        assert client._core.machine.requests.inflight == 7
        server.resume()
        assert [await reply for reply in asked] == [None] * 50


async def test_too_many_requests_are_refused_before_anything_is_sent() -> None:
    async with (
        EmbeddedServer() as server,
        connect(server.connect_string, limits=Limits(max_queued=100)) as client,
    ):
        server.pause()
        # The first one leaves at once.
        kept = [client.create("/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL) for _ in range(101)]
        with pytest.raises(TooManyRequestsError) as refused:
            client.create("/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
        assert refused.value.outcome is Outcome.NOT_APPLIED
        with pytest.raises(TooManyRequestsError):
            client.transaction().create("/t").commit()
        with pytest.raises(TooManyRequestsError):
            client.chroot("/a").get("/b")
        server.resume()
        for reply in kept:
            await reply
        assert len(server.znodes()) == 101
        # There is room again.
        with pytest.raises(NoNodeError):
            await client.get("/b")


def flood(client: Client) -> None:
    """Asks until no more requests may wait."""
    with pytest.raises(TooManyRequestsError):
        while True:
            client.exists("/a")


async def test_a_recipe_is_not_refused_for_what_others_ask() -> None:
    async with (
        EmbeddedServer() as server,
        connect(
            server.connect_string, limits=Limits(max_queued=5), session_timeout=TIMEOUT
        ) as client,
    ):
        lock, election = Lock(client, "/lock"), Election(client, "/election")
        flood(client)
        async with lock.acquire():
            flood(client)
            async with election.leadership():
                flood(client)
        assert [path for path in server.znodes() if path.count("/") > 1] == []


async def test_a_throttled_request_was_not_applied() -> None:
    async with EmbeddedServer() as server, connect(server.connect_string) as client:
        server.throttle(OpCode.CREATE2)
        with pytest.raises(ThrottledOpError) as refused:
            await client.create("/a")
        assert refused.value.outcome is Outcome.NOT_APPLIED
        assert await client.exists("/a") is None
        await client.create("/a")
        server.throttle(OpCode.GET_DATA, 2)
        replies = [client.get("/a") for _ in range(3)]
        for reply in replies[:2]:
            with pytest.raises(ThrottledOpError):
                await reply
        assert (await replies[2])[0] == b""


@virtually
async def test_a_throttled_renewal_costs_no_role() -> None:
    async with (
        embedded() as server,
        connect_virtually(server, session_timeout=TIMEOUT) as client,
        Lock(client, "/lock").acquire() as held,
    ):
        server.throttle(OpCode.MULTI)
        await eventually(lambda: server.requests["MULTI"] >= 4, "it was renewed again")
        assert held.is_held


async def test_a_server_that_stops_reading_is_waited_for() -> None:
    """What it does not read stays with TCP and in the client, however much that is."""
    async with EmbeddedServer() as server, connect(server.connect_string) as client:
        await client.create("/a")
        data = bytes(500_000)
        server.pause()
        writes = [client.set("/a", data) for _ in range(40)]
        with anyio.move_on_after(0.2):
            await writes[-1]
        assert not writes[-1].is_done
        server.resume()
        for write in writes:
            await write
        assert (await writes[-1]).version == 40
        assert server.requests["SET_DATA"] == 40


@pytest.mark.parametrize("name", ["max_in_flight", "max_queued"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "10"])
def test_limits_are_whole_numbers(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: must be a whole number from 1 up"):
        Limits(**{name: value})  # type: ignore[arg-type]
