"""Campaigns: what becomes of a contender, told as a series of states."""

from __future__ import annotations

from collections.abc import AsyncIterable
from contextlib import AsyncExitStack

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    Wire,
    connect,
    eventually,
    in_memory,
    joined,
    names,
    nothing_left,
)

from aiolead import Election, LeadershipLost, Phase
from aiolead._recipes._core.observation import Observation
from aiolead._recipes.election.campaign import TRANSITIONS
from aiolead.errors import ClientClosedError, LossReason, MixedLayoutError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import Campaign, CampaignState

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/election"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
"""For what the client decides, whatever the server."""


async def until(states: AsyncIterable[CampaignState], phase: Phase) -> list[CampaignState]:
    """The states up to and including one of a phase."""
    seen = []
    with anyio.fail_after(PATIENCE):
        async for state in states:
            seen.append(state)
            if state.phase is phase:
                return seen
    raise AssertionError(f"the campaign ended after {seen}")


def phases(states: list[CampaignState]) -> list[Phase]:
    return [state.phase for state in states]


class Recorder:
    """Every state that a campaign takes, none left out, checked against the table."""

    def __init__(self, campaign: Campaign) -> None:
        self.states: list[CampaignState] = []
        publish = campaign._publish

        def record(observation: Observation[CampaignState]) -> None:
            state = observation.value
            if self.states:
                assert state.phase in TRANSITIONS[self.states[-1].phase]
            self.states.append(state)
            publish(observation)

        campaign._publish = record  # type: ignore[method-assign]

    @property
    def phases(self) -> list[Phase]:
        return phases(self.states)


F, L, S, X, R = Phase.FOLLOWING, Phase.LEADING, Phase.SUSPENDED, Phase.LOST, Phase.RESIGNED


def test_the_table_knows_every_phase_and_only_one_end() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert [phase for phase, following in TRANSITIONS.items() if not following] == [R]
    for following in TRANSITIONS.values():
        assert len(set(following)) == len(following)
    # Nobody leads without having followed, nor again after a loss.
    assert [phase for phase in Phase if L in TRANSITIONS[phase]] == [F, S]


async def test_from_following_to_leading_to_the_end(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
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
                assert phases(await until(second, L))[-1] is L
                assert other.value.term is not None
                assert other.value.term.token > leading.term.token
        assert await names(a, PATH) == []


async def test_leaving_resigns(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        async with Election(a, PATH).campaign() as states:
            (*_, leading) = await until(states, L)
        assert leading.term is not None
        assert not leading.term.is_held
        assert await names(a, PATH) == []
        with pytest.raises(StopAsyncIteration):
            await anext(aiter(states))


@on_embedded
async def test_leaving_leaves_the_line(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Election(a, PATH).leadership():
            async with Election(b, PATH).campaign() as states:
                await joined(a, PATH, 2)
                await until(states, F)
            await joined(a, PATH, 1)


async def test_a_lost_term_is_followed_by_another(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        campaign = Election(a, PATH).campaign()
        recorder = Recorder(campaign)
        async with campaign:
            states = aiter(campaign)
            (*_, first) = await until(states, L)
            assert first.term is not None
            await b.delete(first.term.path)
            await eventually(lambda: recorder.phases[2:] == [X, F, L], "it leads again")
            lost, second = recorder.states[2], recorder.states[4]
            assert lost.reason is LossReason.DELETED
            assert lost.term is first.term
            with pytest.raises(LeadershipLost):
                first.term.check()
            assert second.term is not None
            assert second.term.token > first.term.token
            # Who has slept sees only the latest, and by its token that it is another term.
            assert (await anext(states)) == second


async def test_the_link_comes_and_goes() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        campaign = Election(client, PATH).campaign()
        recorder = Recorder(campaign)
        async with campaign as states:
            (*_, leading) = await until(states, L)
            for times in (1, 2):
                server.disconnect()
                await eventually(
                    lambda times=times: recorder.phases == [F, L] + [S, L] * times, "leads again"
                )
            assert {state.term for state in recorder.states[1:]} == {leading.term}
            assert leading.term is not None
            leading.term.check()
        await nothing_left(server, PATH)


async def test_a_term_that_ends_while_suspended() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        campaign = Election(client, PATH).campaign()
        recorder = Recorder(campaign)
        async with campaign as states:
            await until(states, L)
            server.expire_session(client.session_id)
            await eventually(lambda: recorder.phases[3:] == [X, F, L], "leads in the next session")
            # The end of a session is told by cutting the link, and then over the next one.
            assert recorder.phases == [F, L, S, X, F, L]
            assert recorder.states[3].reason is LossReason.EXPIRED
            assert recorder.states[3].session_id != recorder.states[5].session_id
            assert recorder.states[5].session_id == client.session_id


async def test_surrendering_with_the_link() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        campaign = Election(client, PATH, on_disconnect="resign").campaign()
        recorder = Recorder(campaign)
        async with campaign as states:
            (*_, first) = await until(states, L)
            server.disconnect()
            # The link is back before anybody could have seen it gone, or later.
            with_and_without = [F, L, X, F, L], [F, L, S, X, F, L]
            await eventually(lambda: recorder.phases in with_and_without, "leads again")
            lost, second = recorder.states[-3], recorder.states[-1]
            assert lost.reason is LossReason.DISCONNECTED
            assert first.term is not None
            assert second.term is not None
            assert second.term.token > first.term.token


@pytest.mark.parametrize("leads", [True, False], ids=["leading", "following"])
async def test_a_campaign_ends_with_its_client(leads: bool) -> None:
    async with EmbeddedServer() as server, in_memory(server) as other:
        if not leads:
            rival = Election(other, PATH).leadership()
            await rival.__aenter__()
        connection = in_memory(server)
        client = await connection.__aenter__()
        campaign = Election(client, PATH).campaign()
        recorder = Recorder(campaign)
        async with campaign:
            states = aiter(campaign)
            await until(states, L if leads else F)
            if not leads:
                await eventually(lambda: recorder.phases == [F, F], "it knows its rank")
            await connection.__aexit__(None, None, None)
            with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError):
                while True:
                    await anext(states)
            assert recorder.phases == ([F, L, X, F] if leads else [F, F])
            if leads:
                assert recorder.states[2].reason is LossReason.CLOSED
        if not leads:
            await rival.__aexit__(None, None, None)
        await nothing_left(server, PATH)


@on_embedded
@pytest.mark.parametrize("leaders", [1, 2])
@pytest.mark.parametrize("clients", [1, 2])
async def test_a_standby_knows_when_it_is_next(
    server: ServerUnderTest, leaders: int, clients: int
) -> None:
    async with connect(server) as a, connect(server) as b, AsyncExitStack() as campaigns:

        async def join(number: int) -> Campaign:
            election = Election((a, b)[number % clients], PATH, leaders=leaders)
            campaign = await campaigns.enter_async_context(election.campaign())
            await joined(a, PATH, number + 1)
            return campaign

        def ranks() -> list[int | None]:
            return [each.value.rank for each in line]

        line = [await join(number) for number in range(leaders + 3)]
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
async def test_what_contending_ends_with_ends_the_iteration(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        await a.create(PATH)
        await a.create(f"{PATH}/0123456789abcdef0123456789abcdef__lock__0000000000")
        with pytest.raises(MixedLayoutError):
            async with Election(a, PATH).campaign() as states:
                await until(states, L)
        assert len(await names(a, PATH)) == 1


@on_embedded
async def test_a_campaign_is_entered_once(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        campaign = Election(a, PATH).campaign()
        async with campaign:
            with pytest.raises(UsageError):
                await campaign.__aenter__()
        with pytest.raises(UsageError):
            await campaign.__aenter__()
    with pytest.raises(ClientClosedError):
        await Election(a, PATH).campaign().__aenter__()


async def test_many_may_iterate_over_one_campaign() -> None:
    """Each has a position of its own; nobody is stranded at the end."""
    ended = []

    async def follow(states: Campaign) -> None:
        async for _ in states:
            pass
        ended.append(1)

    async with EmbeddedServer() as server, in_memory(server) as client:
        async with anyio.create_task_group() as tasks:
            async with Election(client, PATH).campaign() as states:
                for _ in range(3):
                    tasks.start_soon(follow, states)
                await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(PATIENCE):
                await eventually(lambda: len(ended) == 3, "all have ended")


async def test_campaigns_of_one_election_object_contend_with_each_other() -> None:
    async with EmbeddedServer() as server, Wire(server).connect() as client:
        election = Election(client, PATH)
        async with election.campaign() as one, election.campaign() as two:
            await joined(client, PATH, 2)
            both = [one, two]
            await eventually(lambda: any(_phase(each) is L for each in both), "one leads")
            both.sort(key=lambda each: _phase(each) is F)  # either of them may have been first
            assert [_phase(each) for each in both] == [L, F]
            (*_, leading) = await until(both[0], L)
            assert leading.term is not None
            await leading.term.resign()
            await until(both[1], L)
        await nothing_left(server, PATH)


def _phase(campaign: Campaign) -> Phase:
    return campaign.value.phase
