"""Session states as they are seen from outside: `observe`, `subscribe`, `ready`."""

from __future__ import annotations

import anyio
import pytest
from client.fake_server import FakeServer
from conftest import ServerUnderTest
from kit.clients import PATIENCE, Wire, connect, eventually, losing_the_link
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import Client
from aiolead._client.api.session_side import SessionChange
from aiolead._wire.framing import encode_reply
from aiolead._wire.replies import ReplyHeader
from aiolead.errors import AuthFailedError, ClientClosedError
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, FaultProxy

S = SessionState


class Diary:
    """Every state that is reported."""

    def __init__(self, client: Client) -> None:
        self.entries: list[tuple[SessionState, int]] = []
        self.close = client.backend.subscribe(lambda *entry: self.entries.append(entry))

    @property
    def states(self) -> list[SessionState]:
        return [state for state, _ in self.entries]


async def test_it_begins_with_the_present_and_ends_with_the_client(
    server: ServerUnderTest,
) -> None:
    seen = []
    async with anyio.create_task_group() as tasks:
        async with connect(server) as client:
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
async def test_a_slow_observer_misses_no_expiry_and_not_the_last_word() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        diary = Diary(client)
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
        # Who is quick sees everything, and EXPIRED before anything of the next session.
        assert diary.states == [
            *[S.SUSPENDED, S.CONNECTED] * 3,
            S.SUSPENDED, S.EXPIRED, S.CONNECTING, S.CONNECTED,
        ]  # fmt: skip
        assert [session_id for _, session_id in diary.entries] == (
            [first] * 8 + [0, client.session_id]
        )


@virtually
async def test_between_two_expiries_the_last_one_counts() -> None:
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


async def test_subscribers_are_told_in_order_until_they_leave() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        order: list[str] = []
        leave = client.backend.subscribe(lambda *_: order.append("first"))
        client.backend.subscribe(lambda *_: order.append("second"))
        server.disconnect()
        await eventually(lambda: len(order) == 4, "lost and found")
        leave()
        leave()
        server.disconnect()
        await eventually(lambda: len(order) == 6, "lost and found again")
        assert order == ["first", "second"] * 2 + ["second"] * 2


async def test_a_resumed_session_goes_on_after_a_restart_of_the_server() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        session_id = client.session_id
        await client.create("/e", mode=aiolead.CreateMode.EPHEMERAL)
        await server.stop()
        await eventually(lambda: client.state is S.SUSPENDED, "the link is lost")
        waiting = client.exists("/e")
        await server.start()
        stat = await waiting
        assert stat is not None
        assert stat.ephemeral_owner == client.session_id == session_id


async def test_ready_waits_for_the_connection() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        await server.stop()
        await eventually(lambda: client.state is S.SUSPENDED, "the link is lost")
        done: list[str] = []

        async def wait() -> None:
            await client.ready()
            done.append(client.state.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert done == []
            await server.start()
        assert done == ["connected"]


async def test_ready_of_a_client_that_is_closed() -> None:
    async with EmbeddedServer() as server:
        async with Wire(server).connect() as client:
            pass
        with pytest.raises(ClientClosedError):
            await client.ready()
        async with client.observe() as states:
            assert [change.state async for change in states] == [S.CLOSED]


async def test_credentials_that_are_refused_later_are_the_end_of_it() -> None:
    async with FakeServer() as fake, fake.connect() as client:
        async with client.observe() as states:
            fake.answer = lambda header: encode_reply(ReplyHeader(header.xid, 1, -124))
            with pytest.raises(AuthFailedError, match="authenticated clients only"):
                await client.get("/a")
            assert [change.state async for change in states] == [S.AUTH_FAILED]
        with pytest.raises(AuthFailedError):
            await client.ready()
        with pytest.raises(AuthFailedError):
            await client.get("/a")
        assert fake.connections == 1


async def test_a_dead_link_is_noticed_without_waiting_for_a_timeout(embedded: str) -> None:
    """With a session timeout of half a minute, nothing but the fault itself can tell."""
    host, _, port = embedded.rpartition(":")
    for fault in ("reset", "fin"):
        async with FaultProxy(host, int(port)) as proxy:
            async with aiolead.connect(proxy.connect_string, session_timeout=30) as client:
                assert client.session_timeout == 30.0
                proxy.refuse()
                async with client.observe() as states:
                    assert (await anext(states)).state is S.CONNECTED
                    getattr(proxy, fault)()
                    with anyio.fail_after(PATIENCE):
                        assert (await anext(states)).state is S.SUSPENDED
                assert proxy.requests["PING"] == 0
                proxy.heal()
                with anyio.fail_after(PATIENCE):
                    await client.ready()
