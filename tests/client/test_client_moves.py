"""The list of servers changes under a client: it moves if it must, and loses nothing by that."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from client.many_addresses import a_fleet
from kit.clients import eventually, stopped_clock
from kit.virtual_time import virtually

from aiolead import CreateMode, Lock
from aiolead.errors import (
    ConfigurationError,
    ConnectionLossError,
    InvalidConnectStringError,
    Outcome,
)
from aiolead.model import SessionState


async def test_a_server_that_is_gone_is_left_and_the_session_goes_on() -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1") as client:
        session = client.session_id
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        watch = client.backend.make_watch()
        await client.get("/e", watch=watch)
        client.update_hosts("10.0.0.2,10.0.0.3")
        await eventually(lambda: len(fleet.dialled) == 2, "it moves")
        await client.ready()
        assert client.session_id == session
        assert fleet.dialled[1] in ("10.0.0.2", "10.0.0.3")
        assert fleet.server.connections == 1
        await client.set("/e", b"1")  # what was watched is watched again
        assert (await watch.wait()).path == "/e"


async def test_requests_are_neither_lost_nor_disordered_by_a_move() -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1") as client:
        await client.create("/n")
        replies = []
        for n in range(60):
            if n % 10 == 5:
                client.update_hosts(f"10.0.0.{n}")
            replies.append(client.set("/n", b"%d" % n, version=n))
            await anyio.lowlevel.checkpoint()
        for n, reply in enumerate(replies):
            assert (await reply).version == n + 1
        await eventually(lambda: fleet.dialled[-1] == "10.0.0.55", "the last one is reached")


async def test_a_list_with_our_server_in_it_is_taken_without_a_move() -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1,10.0.0.2") as client:
        current = fleet.dialled[0]
        client.update_hosts(current)
        client.update_hosts(current)
        await client.sync()
        assert fleet.dialled == [current]
        fleet.server.disconnect()
        await eventually(lambda: len(fleet.dialled) == 2, "it comes back")
        assert fleet.dialled == [current] * 2


async def test_what_is_in_flight_is_waited_for() -> None:
    """A clock that stands still: nothing else cuts the link."""
    async with a_fleet(max_session_timeout=80) as fleet:
        async with fleet.connect("10.0.0.1", session_timeout=80, clock=stopped_clock) as client:
            fleet.server.pause()
            write = client.create("/a")
            await anyio.wait_all_tasks_blocked()
            client.update_hosts("10.0.0.2")
            later = client.create("/b")
            await anyio.wait_all_tasks_blocked()
            assert client.state is SessionState.CONNECTED
            fleet.server.resume()
            assert (await write).path == "/a"
            assert (await later).path == "/b"
            assert fleet.dialled == ["10.0.0.1", "10.0.0.2"]


async def test_but_not_for_ever() -> None:
    async with a_fleet() as fleet:
        async with (
            fleet.connect("10.0.0.1", session_timeout=2, clock=stopped_clock) as client,
            client.observe() as states,
        ):
            fleet.server.pause()
            write = client.create("/a")
            await anyio.wait_all_tasks_blocked()
            client.update_hosts("10.0.0.2")
            with pytest.raises(ConnectionLossError) as raised:
                await write
            assert raised.value.outcome is Outcome.UNKNOWN
            assert (await anext(states)).state is SessionState.SUSPENDED
            fleet.server.resume()
            await client.ready()
            assert fleet.dialled[-1] == "10.0.0.2"


@virtually
async def test_a_holder_holds_on() -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1") as client:
        async with Lock(client, "/lock").acquire() as held:
            await eventually(lambda: fleet.server.requests["MULTI"] > 0, "the first renewal")
            for n in range(2, 6):
                client.update_hosts(f"10.0.0.{n}")
                await eventually(lambda n=n: len(fleet.dialled) == n, "it moves")
                await client.ready()
                renewals = fleet.server.requests["MULTI"]
                await eventually(
                    lambda renewals=renewals: fleet.server.requests["MULTI"] > renewals, "renewed"
                )
                held.check()
            assert held.remaining() > 0


async def test_the_list_changes_while_nobody_answers() -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1") as client:
        session = client.session_id
        fleet.down.add("10.0.0.1")
        fleet.server.disconnect()
        await eventually(lambda: client.state is SessionState.SUSPENDED, "the link is lost")
        client.update_hosts("10.0.0.1,10.0.0.2")
        await client.ready()
        assert fleet.dialled == ["10.0.0.1", "10.0.0.2"]
        assert client.session_id == session


async def test_the_list_changes_while_a_server_is_asked_that_is_taken_off_it() -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1") as client:
        fleet.server.pause()
        fleet.server.disconnect()
        await eventually(lambda: len(fleet.dialled) == 2, "a second connection")
        client.update_hosts("10.0.0.2")
        fleet.server.resume()
        await eventually(lambda: fleet.dialled[-1] == "10.0.0.2", "the server is left again")
        await client.ready()
        await client.sync()


@pytest.mark.parametrize("hosts", ["", "zk1:0", "zk1,zk2/a,zk3/b", "zk1/a,zk2", None, 7])
async def test_what_is_no_connect_string_changes_nothing(hosts: Any) -> None:
    async with a_fleet() as fleet, fleet.connect("10.0.0.1") as client:
        with pytest.raises(InvalidConnectStringError):
            client.update_hosts(hosts)
        with pytest.raises(ConfigurationError, match="keeps its chroot"):
            client.update_hosts("10.0.0.2/app")
        await client.sync()
        assert fleet.dialled == ["10.0.0.1"]


async def test_nothing_happens_to_a_closed_client() -> None:
    async with a_fleet() as fleet:
        async with fleet.connect("10.0.0.1") as client:
            pass
        client.update_hosts("10.0.0.2")
        await anyio.wait_all_tasks_blocked()
        assert fleet.dialled == ["10.0.0.1"]
