"""Observing an election: who leads, each change of it, and at what cost."""

from __future__ import annotations

from collections.abc import AsyncIterable
from contextlib import AsyncExitStack

import anyio
import anyio.lowlevel
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    Wire,
    catch_up,
    connect,
    eventually,
    in_memory,
    joined,
    stopped_clock,
)

from aiolead import Election, Term
from aiolead.errors import ClientClosedError, MixedLayoutError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import Campaign, ElectionState

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/election"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
"""For what the client decides, whatever the server."""


async def until(states: AsyncIterable[ElectionState], identity: str | None) -> ElectionState:
    """The next state in which that one leads; None for nobody."""
    with anyio.fail_after(PATIENCE):
        async for state in states:
            if state.is_current and identity == (state.leader and state.leader.identity):
                return state
    raise AssertionError("the observation ended")


async def term_of(campaign: Campaign) -> Term:
    """The term of a campaign, once it leads."""
    with anyio.fail_after(PATIENCE):
        async for state in campaign:
            if state.term is not None:
                return state.term
    raise AssertionError("the campaign ended")


async def test_every_leader_is_seen(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b, connect(server) as c:
        async with Election(c, PATH).observe() as states:
            assert await until(states, None) == ElectionState((), c.session_id)
            async with Election(a, PATH, identity="a").campaign() as first:
                state = await until(states, "a")
                term = await term_of(first)  # the observer's server may have told it sooner
                assert state.session_id == c.session_id
                assert state.leader is not None
                assert state.leader.token == term.token
                assert state.leader.path == term.path
                assert state.leader.session_id == a.session_id
                assert state.leader.is_holder
                async with Election(b, PATH, identity="b").campaign():
                    await joined(c, PATH, 2)
                    await a.delete(term.path)
                    await until(states, "b")
                await until(states, "a")
            await until(states, None)


async def test_nobody_leads(server: ServerUnderTest) -> None:
    """The path is missing, is created, is empty, and vanishes again."""
    async with connect(server) as a, connect(server) as b:
        async with Election(b, PATH, identity="b").observe() as states:
            await until(states, None)
            await a.create(PATH)  # not a container: the server might reap that first
            async with Election(a, PATH, identity="a").leadership():
                await until(states, "a")
            await until(states, None)
            await a.delete(PATH)
            async with Election(a, PATH, identity="again").leadership():
                await until(states, "again")


async def test_a_leader_that_is_there_already(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Election(a, PATH, identity="a").leadership() as term:
            await catch_up(b)
            async with Election(b, PATH).observe() as states:
                state = await anext(aiter(states))
                assert [each.token for each in state.leaders] == [term.token]
                assert states.value == state


@on_embedded
async def test_the_last_word_is_never_missed(server: ServerUnderTest) -> None:
    """Leaders come and go while nobody iterates."""
    async with connect(server) as a, connect(server) as b:
        async with Election(b, PATH).observe() as states:
            for number in range(5):
                async with Election(a, PATH, identity=str(number)).leadership():
                    pass
            async with Election(a, PATH, identity="last").leadership() as term:
                state = await until(states, "last")
                assert state.leader is not None
                assert state.leader.token == term.token


async def test_observers_are_not_disturbed_by_who_joins_and_leaves_behind() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        wire = Wire(server)
        async with (
            in_memory(server) as a,
            wire.connect(session_timeout=60, clock=stopped_clock) as b,
            Election(a, PATH, identity="a").leadership() as term,
            Election(b, PATH).observe() as states,
        ):
            await until(states, "a")
            await anyio.wait_all_tasks_blocked()
            assert {p for p, who in server.watches().items() if b.session_id in who} == {term.path}
            received, sent = wire.received, len(wire.segments)
            for _ in range(5):
                async with Election(a, PATH).campaign():
                    await joined(a, PATH, 2)
                await joined(a, PATH, 1)
            assert (wire.received, len(wire.segments)) == (received, sent)
            # It does hear of the end, at a cost that is bounded.
            await term.resign()
            await until(states, None)
            await anyio.wait_all_tasks_blocked()
            assert len(wire.segments) - sent <= 3


async def test_a_lost_link_is_told_and_so_is_what_happened_meanwhile() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with Election(b, PATH).observe() as view:
            states = aiter(view)
            async with Election(a, PATH, identity="a").leadership():
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
            await until(states, None)
            server.expire_session(b.session_id)
            async with Election(a, PATH, identity="then").leadership():
                assert (await until(states, "then")).session_id == b.session_id
        await eventually(lambda: server.watches() == {}, "no watch is left")


async def test_leaving_leaves_no_watch() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with Election(a, PATH, identity="a").leadership() as term:
            await eventually(lambda: set(server.watches()) == {term.path}, "it watches its own")
            async with Election(b, PATH).observe() as states:
                await until(states, "a")
            await eventually(
                lambda: server.watches() == {term.path: {a.session_id}}, "the leader's own is left"
            )


@on_embedded
async def test_what_does_not_fit_ends_the_observation(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        await a.create(PATH)
        async with Election(a, PATH).observe() as states:
            await until(states, None)
            await a.create(f"{PATH}/lock-0000000000")
            with pytest.raises(MixedLayoutError):
                await until(states, "nobody")


async def test_an_observation_ends_with_its_client() -> None:
    async with EmbeddedServer() as server:
        connection = in_memory(server)
        client = await connection.__aenter__()
        async with Election(client, PATH).observe() as view:
            states = aiter(view)
            await until(states, None)
            await connection.__aexit__(None, None, None)
            with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError):
                async for state in states:
                    assert not state.is_current


@on_embedded
async def test_an_observer_is_entered_once(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        observer = Election(a, PATH).observe()
        async with observer:
            pass
        with pytest.raises(UsageError):
            await observer.__aenter__()


# --- several observers of one client -----------------------------------------------------------


async def test_observers_of_one_client_share_their_reads() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        wire = Wire(server)
        async with (
            in_memory(server) as a,
            in_memory(server) as b,
            wire.connect(session_timeout=60, clock=stopped_clock) as c,
            AsyncExitStack() as stack,
        ):
            first = await stack.enter_async_context(Election(a, PATH, identity="a").campaign())
            term = await term_of(first)
            await stack.enter_async_context(Election(b, PATH, identity="b").campaign())
            await joined(a, PATH, 2)
            views = [await stack.enter_async_context(Election(c, PATH).observe())]
            await anyio.wait_all_tasks_blocked()
            sent = len(wire.segments)
            views += [
                await stack.enter_async_context(Election(c, PATH).observe()) for _ in range(999)
            ]
            assert all(view.is_live for view in views)
            assert {view.value.leader.identity for view in views if view.value.leader} == {"a"}
            assert len(wire.segments) == sent, "they know from the first one"
            await term.resign()
            for view in views:
                await until(view, "b")
            await anyio.wait_all_tasks_blocked()
            assert len(wire.segments) == sent + 2, "the queue, and the leader's data"


async def test_the_last_observer_that_leaves_ends_the_reading() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with AsyncExitStack() as stack:
            first, second = Election(b, PATH).observe(), Election(b, PATH).observe()
            await first.__aenter__()
            await stack.enter_async_context(second)
            await first.__aexit__(None, None, None)
            assert not first.is_live
            async with Election(a, PATH, identity="a").leadership() as term:
                await until(second, "a")
                await stack.aclose()
                await eventually(
                    lambda: server.watches() == {term.path: {a.session_id}}, "the leader's is left"
                )
                # The next one begins again.
                async with Election(b, PATH).observe() as third:
                    assert third.value.leader is not None
                    assert third.value.leader.identity == "a"


async def test_an_observer_that_comes_as_the_last_one_leaves_reads_for_itself() -> None:
    async with (
        EmbeddedServer() as server,
        in_memory(server) as a,
        in_memory(server) as b,
        Election(a, PATH, identity="a").leadership(),
    ):
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


async def test_an_observer_that_comes_while_the_link_is_lost_waits_for_a_reading() -> None:
    async with (
        EmbeddedServer() as server,
        in_memory(server) as a,
        in_memory(server) as b,
        Election(b, PATH).observe() as first,
    ):
        server.disconnect(b.session_id)
        await until_state(first, is_current=False)
        async with (
            Election(a, PATH, identity="a").leadership(),
            Election(b, PATH).observe() as second,
        ):
            assert second.value.is_current
            assert second.value.leader is not None, "not what was seen before"


@pytest.mark.parametrize("turns", range(2, 12, 3))
async def test_an_observer_that_comes_after_a_reconnect_waits_for_a_reading(turns: int) -> None:
    """Also while the first one's watches are armed again, and its reading is on its way."""
    async with (
        EmbeddedServer() as server,
        in_memory(server) as a,
        in_memory(server) as b,
        Election(a, PATH, identity="a").leadership(),
        Election(b, PATH).observe() as first,
    ):
        server.disconnect(b.session_id)
        await until_state(first, is_current=False)
        await b.ready()
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        async with Election(b, PATH).observe() as second:
            assert second.value.is_current
            assert second.value.leader is not None


async def test_an_observer_that_comes_during_a_change_waits_for_a_reading() -> None:
    async with (
        EmbeddedServer() as server,
        in_memory(server) as a,
        in_memory(server) as b,
        anyio.create_task_group() as tasks,
    ):
        seen: list[str | None] = []
        entered = anyio.Event()

        async def join() -> None:
            async with Election(b, PATH).observe() as second:
                leader = second.value.leader
                seen.append(leader and leader.identity)
                entered.set()

        async with Election(a, PATH, identity="a").leadership() as term:
            async with Election(b, PATH).observe() as first:
                watch = b.backend.make_watch(lambda _: tasks.start_soon(join))
                await b.exists(term.path, watch=watch)
                await term.resign()
                await until(first, None)
                with anyio.fail_after(PATIENCE):
                    await entered.wait()
        assert seen == [None], "not the leader that was"


@pytest.mark.parametrize("turns", range(11, 17))
async def test_an_observer_sees_what_its_client_wrote_before(turns: int) -> None:
    """Also if it comes during a reading for another one that began before that."""
    async with (
        EmbeddedServer() as server,
        in_memory(server) as a,
        in_memory(server) as b,
        Election(b, PATH, leaders=2).observe(),
        Election(a, PATH, identity="a", leaders=2).campaign(),
    ):
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        async with (
            Election(b, PATH, identity="b", leaders=2).leadership(),
            Election(b, PATH, leaders=2).observe() as view,
        ):
            assert "b" in [leader.identity for leader in view.value.leaders]


async def test_an_observer_that_comes_during_a_reading_sees_what_it_finds() -> None:
    async with (
        EmbeddedServer() as server,
        in_memory(server) as a,
        in_memory(server) as b,
        AsyncExitStack() as stack,
    ):
        async with anyio.create_task_group() as tasks:
            views = [Election(b, PATH).observe() for _ in range(5)]
            for view in views:  # all wait for the first one's reading
                tasks.start_soon(stack.enter_async_context, view)
        async with Election(a, PATH, identity="a").leadership():
            for view in views:
                await until(view, "a")
        for view in views:
            await until(view, None)


async def test_an_observer_that_comes_after_a_failure_reads_again() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a:
        await a.create(PATH)
        await a.create(f"{PATH}/lock-0000000000")
        for _ in range(2):
            with pytest.raises(MixedLayoutError):
                await Election(a, PATH).observe().__aenter__()
        await a.delete(f"{PATH}/lock-0000000000")
        async with Election(a, PATH).observe() as view:
            assert view.value.leaders == ()


async def test_observers_of_several_leaders_read_for_themselves() -> None:
    async with (
        EmbeddedServer() as server,
        in_memory(server) as a,
        in_memory(server) as b,
        Election(a, PATH, identity="a", leaders=2).leadership(),
        Election(b, PATH, identity="b", leaders=2).leadership(),
        Election(b, PATH, leaders=2).observe() as two,
        Election(b, PATH).observe() as one,
    ):
        assert [len(view.value.leaders) for view in (one, two)] == [1, 2]


async def until_state(states: AsyncIterable[ElectionState], *, is_current: bool) -> None:
    with anyio.fail_after(PATIENCE):
        async for state in states:
            if state.is_current is is_current:
                return
