"""The faults that aiozk's own recipes do not survive, on theirs and on ours over the adapter.

The table in docs/aiozk.md is what is asserted here, for aiozk 0.32.0.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiozk
import anyio
import pytest
from aiozk.states import States
from support.aiozk_peer import started
from support.faults import only_on
from support.recipes import PATIENCE, eventually

import aiolead
from aiolead.adapters.aiozk import adapt
from aiolead.errors import LossReason, TenureLost
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode

pytestmark = only_on("asyncio")

PATH = "/path"
NEVER = 0.5
"""How long something is waited for that does not come, in seconds. It takes 5 ms where it does."""


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer() as server:
        yield server


@asynccontextmanager
async def linked(server: EmbeddedServer, session_timeout: float = 8.0) -> AsyncIterator[Any]:
    """An aiozk client and the link that it goes through."""
    with FaultProxy("127.0.0.1", server.port) as proxy:
        async with started(proxy.connect_string, session_timeout=session_timeout) as zk:
            yield zk, proxy


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """A task of aiozk's, which is ended afterwards."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


def in_line(server: EmbeddedServer) -> list[str]:
    return [path for path in server.znodes() if path.startswith(PATH + "/")]


async def wins(kind: str, zk: Any) -> Any:
    """aiozk's own way to the front; gives what is held."""
    if kind == "lock":
        lock = zk.recipes.Lock(PATH)
        await lock.acquire()
        return lock
    election = zk.recipes.LeaderElection(PATH)
    await election.volunteer()
    try:
        await election.wait_for_leadership()
    finally:
        if election.watch_loop_task is not None:
            election.watch_loop_task.cancel()
    return election


def tenure_of(kind: str, client: aiolead.Client) -> Any:
    """Our way, over the adapter."""
    if kind == "lock":
        return aiolead.Lock(client, PATH).hold()
    return aiolead.Election(client, PATH).leadership()


KINDS = pytest.mark.parametrize("kind", ["lock", "election"])


# --- the answer to the create is lost ----------------------------------------------------------


@KINDS
async def test_a_lost_create_is_a_second_znode_to_aiozk(kind: str, server: EmbeddedServer) -> None:
    async with linked(server) as (zk, proxy):
        await zk.ensure_path(PATH)
        proxy.drop_reply(OpCode.CREATE2)
        async with running(wins(kind, zk)) as task:
            await eventually(lambda: server.watches(), "it waits")
            # ... for itself: nobody else is there.
            assert len(in_line(server)) == 2
            assert list(server.watches()) == in_line(server)[:1]
            assert not task.done()


@KINDS
async def test_a_lost_create_is_found_again(kind: str, server: EmbeddedServer) -> None:
    async with linked(server) as (zk, proxy), adapt(zk) as client:
        await zk.ensure_path(PATH)
        proxy.drop_reply(OpCode.CREATE2)
        with anyio.fail_after(PATIENCE):
            async with tenure_of(kind, client) as held:
                assert in_line(server) == [held.path]


# --- the link is reset while somebody waits ----------------------------------------------------


@KINDS
async def test_aiozk_waits_for_ever_after_a_reset(kind: str, server: EmbeddedServer) -> None:
    async with started(server.connect_string) as other, linked(server) as (zk, proxy):
        first = await wins(kind, other)
        async with running(wins(kind, zk)) as task:
            await eventually(lambda: server.watches(), "it waits")
            await zk.exists("/")  # answered behind the request that has set its watch
            before = zk.session.session_id
            proxy.reset()
            await zk.exists("/")  # over the next connection
            assert zk.session.session_id == before
            await eventually(lambda: not server.watches(), "its watch is gone with its link")
            await (first.release() if kind == "lock" else first.resign())
            await asyncio.wait([task], timeout=NEVER)
            assert not task.done()
            assert len(in_line(server)) == 1


@KINDS
async def test_the_turn_comes_after_a_reset(kind: str, server: EmbeddedServer) -> None:
    entered = anyio.Event()

    async def wait(client: aiolead.Client) -> None:
        async with tenure_of(kind, client):
            entered.set()

    async with (
        aiolead.connect(server.connect_string) as other,
        linked(server) as (zk, proxy),
        adapt(zk) as client,
        anyio.create_task_group() as tasks,
    ):
        async with tenure_of(kind, other):
            tasks.start_soon(wait, client)
            await eventually(lambda: len(server.watches()) == 2, "it waits")
            proxy.reset()
            await zk.exists("/")
        with anyio.fail_after(PATIENCE):
            await entered.wait()


# --- the link of an idle client is closed ------------------------------------------------------


async def test_aiozk_does_not_notice_that_its_link_was_closed(server: EmbeddedServer) -> None:
    async with linked(server) as (zk, proxy):
        proxy.refuse()
        proxy.fin()
        await eventually(lambda: not server.connections, "the server has closed the connection")
        await anyio.sleep(NEVER)
        assert zk.session.state == States.CONNECTED
        proxy.heal()


async def test_a_link_that_was_closed_is_noticed_and_the_lock_is_kept(
    server: EmbeddedServer,
) -> None:
    async with linked(server) as (zk, proxy), adapt(zk) as client:
        async with aiolead.Lock(client, PATH) as held:
            proxy.refuse()
            proxy.fin()
            await eventually(lambda: client.state is SessionState.SUSPENDED, "it is noticed")
            assert zk.session.state == States.SUSPENDED
            proxy.heal()
            await client.ready()
            assert held.is_held


# --- the session is replaced by another one ----------------------------------------------------


async def test_aiozk_takes_another_session_for_its_own(server: EmbeddedServer) -> None:
    async with linked(server, session_timeout=1.0) as (zk, proxy):
        lock = await wins("lock", zk)
        before = zk.session.session_id
        states: list[str] = []
        transition_to = zk.session.state.transition_to
        zk.session.state.transition_to = lambda state: (transition_to(state), states.append(state))
        # A server that takes the connection and says nothing, as long as the session lives.
        proxy.drop_reply(OpCode.CREATE_SESSION, how="silence")
        proxy.reset()
        with anyio.fail_after(PATIENCE):
            await zk.exists("/")
        assert zk.session.session_id != before
        assert States.LOST not in states
        assert lock.is_locked
        await eventually(lambda: not in_line(server), "its znode is gone with its session")
        async with aiolead.connect(server.connect_string) as other:
            async with aiolead.Lock(other, PATH, layout=aiolead.Layout.CURATOR):
                assert lock.is_locked


async def test_a_silent_handshake_costs_no_session(server: EmbeddedServer) -> None:
    async with linked(server, session_timeout=4.0) as (zk, proxy), adapt(zk) as client:
        async with aiolead.Lock(client, PATH) as held:
            before = client.session_id
            proxy.drop_reply(OpCode.CREATE_SESSION, how="silence")
            proxy.reset()
            with anyio.fail_after(PATIENCE):
                await zk.exists("/")
            assert client.session_id == before == zk.session.session_id
            assert held.is_held


@KINDS
async def test_another_session_is_a_lost_one(kind: str, server: EmbeddedServer) -> None:
    async with linked(server) as (zk, _), adapt(zk) as client:
        before = client.session_id
        with pytest.raises(TenureLost) as caught:
            async with tenure_of(kind, client):
                server.expire_session(before)
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.EXPIRED
        await client.ready()
        assert zk.session.session_id == client.session_id != before


async def test_the_version_of_aiozk_is_the_one_of_the_table() -> None:
    assert aiozk.__version__ == "0.32.0"
