"""Observing an election: the leaders, each change of them, and its cost."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    Link,
    catch_up,
    connect,
    eventually,
    in_memory,
    joined,
    stopped_clock,
    watches_the_bytes,
)
from kit.selection import on_embedded
from recipes.blocks import enter, term_of

from aiolead import Client, Election, Term
from aiolead.errors import ClientClosedError, MixedLayoutError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import ElectionState

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"


@asynccontextmanager
async def two_clients() -> AsyncIterator[tuple[EmbeddedServer, Client, Client]]:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        yield server, a, b


def leading(client: Client, identity: str, leaders: int = 1) -> AbstractAsyncContextManager[Term]:
    return Election(client, PATH, identity=identity, leaders=leaders).leadership()


def leaders_of(state: ElectionState) -> list[str]:
    return [each.identity for each in state.leaders]


async def until(states: AsyncIterable[ElectionState], *identities: str) -> ElectionState:
    """The next current state with these leaders."""
    with anyio.fail_after(PATIENCE):
        async for state in states:
            if state.is_current and leaders_of(state) == list(identities):
                return state
    raise AssertionError("the observation ended")


async def until_outdated(states: AsyncIterable[ElectionState]) -> None:
    with anyio.fail_after(PATIENCE):
        async for state in states:
            if not state.is_current:
                return


# --- one observer --------------------------------------------------------------------------------


async def test_every_leader_is_seen(server: ServerUnderTest, a: Client, b: Client) -> None:
    async with connect(server) as c, Election(c, PATH).observe() as states:
        assert await until(states) == ElectionState((), c.session_id)
        async with Election(a, PATH, identity="a").campaign() as first:
            state = await until(states, "a")
            term = await term_of(first)  # the observer's server may have reported it sooner
            assert state.session_id == c.session_id
            assert state.leader is not None
            assert (state.leader.token, state.leader.path) == (term.token, term.path)
            assert (state.leader.session_id, state.leader.is_holder) == (a.session_id, True)
            async with Election(b, PATH, identity="b").campaign():
                await joined(c, PATH, 2)
                await a.delete(term.path)
                await until(states, "b")
            await until(states, "a")
        await until(states)


async def test_path_may_come_and_go(a: Client, b: Client) -> None:
    """It is missing, is created, is empty, and vanishes again."""
    async with Election(b, PATH, identity="b").observe() as states:
        await until(states)
        await a.create(PATH)  # not a container: the server might reap that first
        async with leading(a, "a"):
            await until(states, "a")
        await until(states)
        await a.delete(PATH)
        async with leading(a, "again"):
            await until(states, "again")


async def test_leader_that_is_there_already_is_seen_at_once(a: Client, b: Client) -> None:
    async with leading(a, "a") as term:
        await catch_up(b)
        async with Election(b, PATH).observe() as states:
            state = await anext(aiter(states))
            assert [each.token for each in state.leaders] == [term.token]
            assert states.value == state


@on_embedded
async def test_latest_leader_is_seen_after_changes_that_nobody_looked_at(
    a: Client, b: Client
) -> None:
    async with Election(b, PATH).observe() as states:
        for number in range(5):
            await enter(leading(a, str(number)))
        async with leading(a, "last") as term:
            state = await until(states, "last")
            assert state.leader is not None
            assert state.leader.token == term.token


@watches_the_bytes
async def test_observer_is_not_woken_by_contenders_behind_the_leader() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        wire = Link(server)
        async with (
            in_memory(server) as a,
            wire.connect(session_timeout=60, clock=stopped_clock) as b,
            leading(a, "a") as term,
            Election(b, PATH).observe() as states,
        ):
            await until(states, "a")
            await anyio.wait_all_tasks_blocked()
            assert {p for p, who in server.watches().items() if b.session_id in who} == {term.path}
            received, sent = wire.bytes["to_client"], len(wire.segments)
            for _ in range(5):
                async with Election(a, PATH).campaign():
                    await joined(a, PATH, 2)
                await joined(a, PATH, 1)
            assert (wire.bytes["to_client"], len(wire.segments)) == (received, sent)
            # It does learn of the end, at a cost that is bounded.
            await term.resign()
            await until(states)
            await anyio.wait_all_tasks_blocked()
            assert len(wire.segments) - sent <= 3


async def test_lost_connection_is_reported_and_so_is_what_happened_meanwhile() -> None:
    async with two_clients() as (server, a, b):
        async with Election(b, PATH).observe() as view:
            states = aiter(view)
            async with leading(a, "a"):
                before = await until(states, "a")
                server.disconnect(b.session_id)
                seen: list[ElectionState] = []
                with anyio.fail_after(PATIENCE):
                    async for state in states:
                        seen.append(state)
                        if state.is_current:
                            break
                assert seen[-1] == before
                assert [state.is_current for state in seen[:-1]] in ([], [False])
                assert all(state.leaders == before.leaders for state in seen)
            await until(states)
            server.expire_session(b.session_id)
            async with leading(a, "then"):
                assert (await until(states, "then")).session_id == b.session_id
        await eventually(lambda: server.watches() == {}, "no watch is left")


@on_embedded
async def test_neighbour_that_does_not_fit_ends_the_observation(a: Client) -> None:
    await a.create(PATH)
    async with Election(a, PATH).observe() as states:
        await until(states)
        await a.create(f"{PATH}/lock-0000000000")
        with pytest.raises(MixedLayoutError):
            await until(states, "nobody")
    for _ in range(2):
        with pytest.raises(MixedLayoutError):
            await Election(a, PATH).observe().__aenter__()
    await a.delete(f"{PATH}/lock-0000000000")
    async with Election(a, PATH).observe() as view:
        assert view.value.leaders == ()


async def test_observation_ends_with_its_client() -> None:
    async with EmbeddedServer() as server:
        connection = in_memory(server)
        client = await connection.__aenter__()
        async with Election(client, PATH).observe() as view:
            states = aiter(view)
            await until(states)
            await connection.__aexit__(None, None, None)
            with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError):
                async for state in states:
                    assert not state.is_current


@on_embedded
async def test_observer_is_entered_once(a: Client) -> None:
    observer = Election(a, PATH).observe()
    await enter(observer)
    with pytest.raises(UsageError):
        await observer.__aenter__()


# --- several observers of one client -----------------------------------------------------------


async def test_observers_of_one_client_share_their_reads() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        wire = Link(server)
        async with (
            in_memory(server) as a,
            in_memory(server) as b,
            wire.connect(session_timeout=60, clock=stopped_clock) as c,
            AsyncExitStack() as stack,
        ):
            enter = stack.enter_async_context
            term = await term_of(await enter(Election(a, PATH, identity="a").campaign()))
            await enter(Election(b, PATH, identity="b").campaign())
            await joined(a, PATH, 2)
            views = [await enter(Election(c, PATH).observe())]
            await anyio.wait_all_tasks_blocked()
            sent = len(wire.segments)
            views += [await enter(Election(c, PATH).observe()) for _ in range(999)]
            assert all(view.is_live for view in views)
            assert all(leaders_of(view.value) == ["a"] for view in views)
            assert len(wire.segments) == sent, "they know from the first one"
            await term.resign()
            for view in views:
                await until(view, "b")
            await anyio.wait_all_tasks_blocked()
            assert len(wire.segments) == sent + 2, "the queue, and the leader's data"


async def test_last_observer_that_leaves_ends_the_reading() -> None:
    async with two_clients() as (server, a, b), AsyncExitStack() as stack:
        first, second = Election(b, PATH).observe(), Election(b, PATH).observe()
        await first.__aenter__()
        await stack.enter_async_context(second)
        await first.__aexit__(None, None, None)
        assert not first.is_live
        async with leading(a, "a") as term:
            await until(second, "a")
            await stack.aclose()
            await eventually(
                lambda: server.watches() == {term.path: {a.session_id}}, "the leader's is left"
            )
            # The next one begins again.
            async with Election(b, PATH).observe() as third:
                assert leaders_of(third.value) == ["a"]


async def test_observer_that_comes_as_the_last_one_leaves_reads_for_itself() -> None:
    async with two_clients() as (_, a, b), leading(a, "a"):
        for turns in range(6):
            first, second = Election(b, PATH).observe(), Election(b, PATH).observe()
            await first.__aenter__()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(first.__aexit__, None, None, None)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                await second.__aenter__()
            await until(second, "a")
            await second.__aexit__(None, None, None)


async def test_observer_that_comes_without_a_connection_waits_for_a_reading() -> None:
    async with two_clients() as (server, a, b), Election(b, PATH).observe() as first:
        server.disconnect(b.session_id)
        await until_outdated(first)
        async with leading(a, "a"), Election(b, PATH).observe() as second:
            assert second.value.is_current
            assert leaders_of(second.value) == ["a"], "not what was seen before"


@pytest.mark.parametrize("turns", range(2, 12, 3))
async def test_observer_that_comes_after_a_reconnect_waits_for_a_reading(turns: int) -> None:
    """Also while the first one's watches are armed again, and its reading is on its way."""
    async with (
        two_clients() as (server, a, b),
        leading(a, "a"),
        Election(b, PATH).observe() as first,
    ):
        server.disconnect(b.session_id)
        await until_outdated(first)
        await b.ready()
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        async with Election(b, PATH).observe() as second:
            assert second.value.is_current
            assert leaders_of(second.value) == ["a"]


async def test_observer_that_comes_during_a_change_waits_for_a_reading() -> None:
    async with two_clients() as (_, a, b), anyio.create_task_group() as tasks:
        seen: list[list[str]] = []
        entered = anyio.Event()

        async def join() -> None:
            async with Election(b, PATH).observe() as second:
                seen.append(leaders_of(second.value))
                entered.set()

        async with leading(a, "a") as term, Election(b, PATH).observe() as first:
            watch = b.backend.make_watch(lambda _: tasks.start_soon(join))
            await b.exists(term.path, watch=watch)
            await term.resign()
            await until(first)
            with anyio.fail_after(PATIENCE):
                await entered.wait()
        assert seen == [[]], "not the leader that was"


@pytest.mark.parametrize("turns", range(11, 17))
async def test_observer_sees_what_its_client_wrote_before(turns: int) -> None:
    """Also if it comes during a reading for another one that began before that."""
    async with (
        two_clients() as (_, a, b),
        Election(b, PATH, leaders=2).observe(),
        Election(a, PATH, identity="a", leaders=2).campaign(),
    ):
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        async with leading(b, "b", 2), Election(b, PATH, leaders=2).observe() as view:
            assert "b" in leaders_of(view.value)


async def test_observers_that_come_during_a_reading_see_what_it_finds() -> None:
    async with two_clients() as (_, a, b), AsyncExitStack() as stack:
        async with anyio.create_task_group() as tasks:
            views = [Election(b, PATH).observe() for _ in range(5)]
            for view in views:  # all wait for the first one's reading
                tasks.start_soon(stack.enter_async_context, view)
        async with leading(a, "a"):
            for view in views:
                await until(view, "a")
        for view in views:
            await until(view)


async def test_observers_of_different_numbers_of_leaders_read_for_themselves() -> None:
    async with (
        two_clients() as (_, a, b),
        leading(a, "a", 2),
        leading(b, "b", 2),
        Election(b, PATH, leaders=2).observe() as two,
        Election(b, PATH).observe() as one,
    ):
        assert [len(view.value.leaders) for view in (one, two)] == [1, 2]
