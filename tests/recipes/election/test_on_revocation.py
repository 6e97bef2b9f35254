"""A leader that others ask to resign: `on_revocation` and `revocation_grace`."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, eventually, joined
from kit.selection import on_embedded
from kit.virtual_time import Link, passes, settled, with_virtual_server
from recipes.blocks import term_of
from recipes.crowd import crowd

from aiolead import Client, Election, Term
from aiolead._recipes.contender_queue import Contender
from aiolead._recipes.holding import TenureContext
from aiolead.errors import LeadershipLost, LossReason

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"


class Body:
    """A worker that leads until it is cancelled, and then for as long as `may_end` is not set."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.is_cancelled = anyio.Event()
        self.may_end = anyio.Event()

    async def __call__(self, term: Term) -> None:
        self.terms.append(term)
        try:
            await anyio.sleep_forever()
        finally:
            self.is_cancelled.set()
            with anyio.CancelScope(shield=True):
                await self.may_end.wait()

    async def leads(self, terms: int = 1) -> Term:
        await eventually(lambda: len(self.terms) >= terms, f"it has led {terms} times")
        return self.terms[-1]


async def test_asked_leader_resigns_and_the_next_one_leads(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    first, second = Body(), Body()
    first.may_end.set()
    second.may_end.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Election(a, PATH, identity="first").run, first)
        term = await first.leads()
        tasks.start_soon(Election(b, PATH, identity="second").run, second)
        await joined(a, PATH, 2)
        (asked,) = await Election(b, PATH).revoke()
        assert asked.path == term.path
        successor = await second.leads()
        assert successor.token > term.token
        assert not term.is_held
        assert term.loss is LossReason.REVOKED
        await joined(a, PATH, 2)  # the first one contends again, behind it
        tasks.cancel_scope.cancel()
    assert len(first.terms) == len(second.terms) == 1


@on_embedded
async def test_next_leader_waits_until_the_revoked_body_has_ended(a: Client, b: Client) -> None:
    body = Body()

    async def lead() -> None:
        with pytest.raises(LeadershipLost) as lost:
            async with Election(a, PATH).leadership() as term:
                await body(term)
        assert (lost.value.reason, lost.value.token) == (LossReason.REVOKED, body.terms[0].token)

    async with anyio.create_task_group() as tasks, crowd() as them:
        tasks.start_soon(lead)
        term = await body.leads()
        them.come("next", to=Election(b, PATH).leadership())
        await joined(a, PATH, 2)
        await Election(b, PATH).revoke()
        with anyio.fail_after(PATIENCE):
            await body.is_cancelled.wait()
        with pytest.raises(LeadershipLost, match="asked for it"):
            term.check()
        assert term.is_held
        assert term.remaining() > 0.0
        assert term.loss is LossReason.REVOKED
        await term.fenced().set(PATH, b"the last words")
        assert them.log == []
        body.may_end.set()
        await them.are_inside("next")
        assert not term.is_held


@with_virtual_server
async def test_body_has_its_grace_before_it_is_cancelled(a: Client, b: Client) -> None:
    told: list[float] = []
    with pytest.raises(LeadershipLost):
        async with Election(a, PATH, revocation_grace=20.0).leadership() as term:
            term.add_lost_callback(lambda: told.append(anyio.current_time()))
            await passes(1.0)
            await Election(b, PATH).revoke()
            with anyio.fail_after(PATIENCE):
                await term.revocation_requested()
            asked = anyio.current_time()
            term.check()
            try:
                await anyio.sleep_forever()
            finally:
                assert anyio.current_time() - asked == pytest.approx(20.0, abs=0.1)
    assert len(told) == 1


@with_virtual_server
async def test_body_that_ends_within_its_grace_is_not_cancelled(a: Client, b: Client) -> None:
    async with Election(a, PATH, revocation_grace=20.0).leadership() as term:
        await passes(1.0)
        await Election(b, PATH).revoke()
        await term.revocation_requested()
        await passes(19.0)
    assert term.loss is None
    async with Election(b, PATH).leadership():
        await passes(30.0)
    assert term.loss is None


@on_embedded
async def test_ignored_request_cancels_nothing(a: Client, b: Client) -> None:
    async with Election(a, PATH, on_revocation="ignore").leadership() as term:
        await Election(b, PATH).revoke()
        await term.revocation_requested()
        await anyio.wait_all_tasks_blocked()
        term.check()
        await term.verify()
    assert term.loss is None


@on_embedded
async def test_campaign_is_asked_and_decides_itself(a: Client, b: Client) -> None:
    async with Election(a, PATH).campaign() as states:
        term = await term_of(states)
        await Election(b, PATH).revoke()
        await term.revocation_requested()
        await anyio.wait_all_tasks_blocked()
        term.check()
        await term.resign()


class AskedInFront(Contender):
    """One that is asked when it has stopped to wait, and does not hold yet."""

    async def get(self, *, wait: bool) -> bool:
        got = await super().get(wait=wait)
        self.znode.ask_holder()
        return got


@on_embedded
@pytest.mark.parametrize("grace", [0.0, 0.01])
async def test_term_that_begins_with_a_request_ends(a: Client, b: Client, grace: float) -> None:
    election = Election(a, PATH, revocation_grace=grace)
    queue = election._queue
    contest = election._contest.derived(lambda c: AskedInFront(queue, c.data, c.acl))
    with anyio.fail_after(PATIENCE), pytest.raises(LeadershipLost) as lost:
        async with TenureContext(contest, None):
            await anyio.sleep_forever()
    assert lost.value.reason is LossReason.REVOKED
    await joined(b, PATH, 0)


@with_virtual_server
async def test_lost_lease_while_the_revoked_body_ends_is_the_loss(
    link: Link, a: Client, b: Client
) -> None:
    body = Body()

    async def lead() -> None:
        with pytest.raises(LeadershipLost) as lost:
            async with Election(a, PATH).leadership() as term:
                await body(term)
        assert lost.value.reason is LossReason.UNCONFIRMED

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lead)
        await passes(1.0)
        await Election(b, PATH).revoke()
        await passes(1.0)
        link.down()
        await settled()
        assert body.terms[0].is_held
        await passes(60.0)
        assert not body.terms[0].is_held
        body.may_end.set()
        await passes(1.0)
