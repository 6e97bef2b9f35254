"""Campaigns: the states of a contender, as a series."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from kit.clients import (
    PATIENCE,
    Link,
    eventually,
    in_memory,
    joined,
    names,
    nothing_left,
    watches_the_bytes,
)
from kit.selection import on_embedded
from kit.virtual_time import with_virtual_server

from aiolead import AcquireTimeout, Client, Election, LeadershipLost, Phase, Term
from aiolead._recipes.election import TRANSITIONS
from aiolead._recipes.view import Observation
from aiolead.errors import ClientClosedError, LossReason, MixedLayoutError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import Campaign, CampaignState

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"

F, L, S, X, R = Phase.FOLLOWING, Phase.LEADING, Phase.SUSPENDED, Phase.LOST, Phase.RESIGNED


async def until(states: AsyncIterable[CampaignState], phase: Phase) -> list[CampaignState]:
    """The states up to and including one of a phase."""
    seen = []
    with anyio.fail_after(PATIENCE):
        async for state in states:
            seen.append(state)
            if state.phase is phase:
                return seen
    raise AssertionError(f"the campaign ended after {seen}")


async def term_of(states: AsyncIterable[CampaignState]) -> Term:
    """The term, once it leads."""
    term = (await until(states, L))[-1].term
    assert term is not None
    return term


def phases(states: list[CampaignState]) -> list[Phase]:
    return [state.phase for state in states]


def record(campaign: Campaign) -> list[CampaignState]:
    """Every state that a campaign takes, none left out, checked against the table."""
    states: list[CampaignState] = []
    publish = campaign._publish

    def publish_and_record(observation: Observation[CampaignState]) -> None:
        state = observation.value
        assert not states or state.phase in TRANSITIONS[states[-1].phase]
        states.append(state)
        publish(observation)

    campaign._publish = publish_and_record  # type: ignore[method-assign]
    return states


@asynccontextmanager
async def campaigning(
    client: Client, **options: str
) -> AsyncIterator[tuple[Campaign, list[CampaignState]]]:
    """A campaign, and all of its states so far."""
    campaign = Election(client, PATH, **options).campaign()  # type: ignore[arg-type]
    states = record(campaign)
    async with campaign:
        yield campaign, states


def test_table_of_phases_is_complete_and_has_one_end() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert [phase for phase, following in TRANSITIONS.items() if not following] == [R]
    for following in TRANSITIONS.values():
        assert len(set(following)) == len(following)
    # Nobody leads without having followed, nor again after a loss.
    assert [phase for phase in Phase if L in TRANSITIONS[phase]] == [F, S]


async def test_campaign_follows_then_leads_then_ends(a: Client, b: Client) -> None:
    async with Election(a, PATH).campaign() as campaign:
        first = aiter(campaign)
        (following, leading) = await until(first, L)
        assert (following.phase, following.term, following.reason) == (F, None, None)
        assert following.session_id == leading.session_id == a.session_id
        assert leading.term is not None
        leading.term.check()
        await leading.term.verify()
        assert campaign.value == leading
        async with Election(b, PATH).campaign() as other:
            second = aiter(other)
            assert phases(await until(second, F)) == [F]
            await joined(a, PATH, 2)
            await leading.term.resign()
            assert phases(await until(first, R)) == [R]
            with pytest.raises(StopAsyncIteration):
                await anext(first)
            assert (await term_of(second)).token > leading.term.token
    assert await names(a, PATH) == []


async def test_leaving_resigns(a: Client) -> None:
    async with Election(a, PATH).campaign() as states:
        term = await term_of(states)
    assert not term.is_held
    assert await names(a, PATH) == []
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(states))


async def test_lost_term_is_followed_by_another(a: Client, b: Client) -> None:
    async with campaigning(a) as (campaign, states):
        iterator = aiter(campaign)
        term = await term_of(iterator)
        await b.delete(term.path)
        await eventually(lambda: phases(states)[2:] == [X, F, L], "it leads again")
        lost, second = states[2], states[4]
        assert (lost.reason, lost.term) == (LossReason.DELETED, term)
        with pytest.raises(LeadershipLost):
            term.check()
        assert second.term is not None
        assert second.term.token > term.token
        # An iteration that was late sees only the latest, and by its token that it is another term.
        assert (await anext(iterator)) == second


async def test_term_is_suspended_while_the_connection_is_lost() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        async with campaigning(client) as (campaign, states):
            term = await term_of(campaign)
            for times in (1, 2):
                server.disconnect()
                await eventually(
                    lambda times=times: phases(states) == [F, L] + [S, L] * times, "leads again"
                )
            assert {state.term for state in states[1:]} == {term}
            term.check()
        await nothing_left(server, PATH)


async def test_term_that_ends_while_suspended_is_lost() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        async with campaigning(client) as (campaign, states):
            await until(campaign, L)
            server.expire_session(client.session_id)
            await eventually(lambda: phases(states)[3:] == [X, F, L], "leads in the next session")
            # The server ends a session by closing the connection, and says so over the next one.
            assert phases(states) == [F, L, S, X, F, L]
            assert states[3].reason is LossReason.EXPIRED
            assert states[3].session_id != states[5].session_id == client.session_id


async def test_campaign_that_resigns_with_the_connection_leads_again() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        async with campaigning(client, on_disconnect="resign") as (campaign, states):
            first = await term_of(campaign)
            server.disconnect()
            # The connection may be back before the loss is seen.
            with_and_without = [F, L, X, F, L], [F, L, S, X, F, L]
            await eventually(lambda: phases(states) in with_and_without, "leads again")
            assert states[-3].reason is LossReason.DISCONNECTED
            assert states[-1].term is not None
            assert states[-1].term.token > first.token


@with_virtual_server
async def test_task_that_left_without_a_connection_may_lead(link: Link, client: Client) -> None:
    """The campaign's job may still wait for the answer to its delete."""
    election = Election(client, PATH)
    async with election.campaign() as view:
        await until(view, L)
        link.down()
    with pytest.raises(AcquireTimeout):
        async with election.leadership(timeout=0.5):
            raise AssertionError("it leads without a connection")
    link.heal()
    async with election.leadership(timeout=PATIENCE) as term:
        term.check()


@pytest.mark.parametrize("leads", [True, False], ids=["leading", "following"])
async def test_campaign_ends_with_its_client(leads: bool) -> None:
    async with EmbeddedServer() as server, in_memory(server) as other, AsyncExitStack() as stack:
        if not leads:
            await stack.enter_async_context(Election(other, PATH).leadership())
        connection = in_memory(server)
        client = await connection.__aenter__()
        async with campaigning(client) as (campaign, states):
            iterator = aiter(campaign)
            await until(iterator, L if leads else F)
            if not leads:
                await eventually(lambda: phases(states) == [F, F], "it knows its rank")
            await connection.__aexit__(None, None, None)
            with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError):
                while True:
                    await anext(iterator)
            assert phases(states) == ([F, L, X, F] if leads else [F, F])
            if leads:
                assert states[2].reason is LossReason.CLOSED
        await stack.aclose()
        await nothing_left(server, PATH)


@on_embedded
@pytest.mark.parametrize("leaders", [1, 2])
@pytest.mark.parametrize("clients", [1, 2])
async def test_standby_knows_when_it_is_next(
    a: Client, b: Client, leaders: int, clients: int
) -> None:
    async with AsyncExitStack() as campaigns:
        line: list[Campaign] = []
        for number in range(leaders + 3):
            election = Election((a, b)[number % clients], PATH, leaders=leaders)
            line.append(await campaigns.enter_async_context(election.campaign()))
            await joined(a, PATH, number + 1)

        def ranks() -> list[int | None]:
            return [each.value.rank for each in line]

        # One that leads, or is among the first in waiting, knows exactly; the others not yet.
        exact = 3 if leaders == 1 else 4
        expected = [0] * leaders + [1, 2, 3][: exact - 1]
        await eventually(lambda: ranks()[: len(expected)] == expected, "the first know")
        for _ in range(2):
            state = line.pop(0).value
            assert state.term is not None
            assert (state.rank, state.is_next) == (0, False)
            await state.term.resign()
            await eventually(
                lambda: [*ranks(), None][: leaders + 1] == [0] * leaders + [1],
                "the next one leads, and the one after it knows that it is next",
            )
            assert line[leaders].value.is_next


@on_embedded
async def test_error_of_contending_ends_the_iteration(a: Client) -> None:
    await a.create(PATH)
    await a.create(f"{PATH}/0123456789abcdef0123456789abcdef__lock__0000000000")
    with pytest.raises(MixedLayoutError):
        async with Election(a, PATH).campaign() as states:
            await until(states, L)
    assert len(await names(a, PATH)) == 1


async def test_campaign_is_entered_once() -> None:
    async with EmbeddedServer() as server:
        async with in_memory(server) as client:
            campaign = Election(client, PATH).campaign()
            async with campaign:
                with pytest.raises(UsageError):
                    await campaign.__aenter__()
            with pytest.raises(UsageError):
                await campaign.__aenter__()
        with pytest.raises(ClientClosedError):
            await Election(client, PATH).campaign().__aenter__()


async def test_many_tasks_may_iterate_over_one_campaign() -> None:
    """Each has a position of its own, and each iteration ends."""
    ended = []

    async def follow(states: Campaign) -> None:
        async for _ in states:
            pass
        ended.append(1)

    async with EmbeddedServer() as server, in_memory(server) as client:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                async with Election(client, PATH).campaign() as states:
                    for _ in range(3):
                        tasks.start_soon(follow, states)
                    await anyio.wait_all_tasks_blocked()
    assert len(ended) == 3


@watches_the_bytes
async def test_campaigns_of_one_election_object_contend_with_each_other() -> None:
    async with EmbeddedServer() as server, Link(server).connect() as client:
        election = Election(client, PATH)
        async with election.campaign() as one, election.campaign() as two:
            await joined(client, PATH, 2)
            both = [one, two]
            await eventually(lambda: any(each.value.phase is L for each in both), "one leads")
            both.sort(key=lambda each: each.value.phase is F)  # either may have been first
            assert [each.value.phase for each in both] == [L, F]
            await (await term_of(both[0])).resign()
            await until(both[1], L)
        await nothing_left(server, PATH)
