"""Planned hand-over: a named successor becomes the next one, gets ready, and leads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, Served, connect, eventually, in_memory, joined, names, raw
from kit.selection import on_embedded
from kit.virtual_time import Link, passes, settled, with_virtual_server
from recipes.blocks import term_of
from recipes.crowd import Crowd, crowd

from aiolead import Client, Election, Term
from aiolead._recipes import term as term_module
from aiolead._recipes.contender_queue import ContenderQueue
from aiolead._recipes.rivals import Entry, entries
from aiolead.errors import (
    HandOverTimeout,
    LeadershipLost,
    LossReason,
    NoAuthError,
    ReleaseError,
    UsageError,
)
from aiolead.model import ACL, Participant, Permission
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import Campaign

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"
SEQUENTIAL = 2


@asynccontextmanager
async def queue_of(server: Served, *who: str) -> AsyncIterator[tuple[Crowd, Client]]:
    """Contenders with a session each, who come in this order; the first one leads."""
    async with AsyncExitStack() as stack:
        watcher = await stack.enter_async_context(connect(server))
        clients = [await stack.enter_async_context(connect(server)) for _ in who]
        them = await stack.enter_async_context(crowd())
        for number, (name, client) in enumerate(zip(who, clients, strict=True), 1):
            them.come(name, to=Election(client, PATH, identity=name).leadership())
            await joined(watcher, PATH, number)
        await them.are_inside(who[0])
        yield them, watcher


async def order(client: Client) -> list[str]:
    return [who.identity for who in await Election(client, PATH).contenders()]


async def until_queue_is(client: Client, *who: str) -> None:
    async def is_so() -> bool:
        return await order(client) == list(who)

    await eventually(is_so, f"the queue is {who}")


async def until_next(view: Campaign) -> None:
    with anyio.fail_after(PATIENCE):
        async for state in view:
            if state.is_next:
                return


# --- who is the next one -------------------------------------------------------------------------


async def test_named_successor_leads_next_and_others_step_behind(server: ServerUnderTest) -> None:
    async with queue_of(server, "a", "b", "c", "d", "e") as (them, watcher):
        term = them.inside["a"]
        with anyio.fail_after(PATIENCE):
            successor = await term.hand_over("d")
        assert successor.identity == "d"
        assert (term.is_held, term.is_released) == (False, True)
        await eventually(lambda: "d" in them.inside, "d leads")
        assert them.log == ["a", "d"]
        assert them.inside["d"].path == successor.path

        async def others_are_behind() -> bool:
            first, second, *rest = await order(watcher)
            return (first, second, set(rest)) == ("d", "e", {"b", "c"})

        await eventually(others_are_behind, "the others wait again, behind all")


@on_embedded
async def test_first_waiter_is_the_successor_by_default(server: ServerUnderTest) -> None:
    async with queue_of(server, "a", "b", "c") as (them, watcher):
        before = await names(watcher, PATH)
        successor = await them.inside["a"].hand_over()
        assert successor.identity == "b"
        await eventually(lambda: "b" in them.inside, "b leads")
        assert await names(watcher, PATH) == before[1:], "nobody stepped behind"


@on_embedded
async def test_successor_may_come_later(server: ServerUnderTest, a: Client) -> None:
    async with queue_of(server, "a") as (them, watcher), anyio.create_task_group() as tasks:
        tasks.start_soon(them.inside["a"].hand_over, "new")
        await anyio.wait_all_tasks_blocked()
        assert them.inside["a"].is_held
        them.come("new", to=Election(a, PATH, identity="new").leadership())
        await eventually(lambda: "new" in them.inside, "it leads")
        assert await order(watcher) == ["new"]


@on_embedded
async def test_preparing_leads_on(server: ServerUnderTest) -> None:
    async with queue_of(server, "a", "b", "c") as (them, watcher):
        term = them.inside["a"]
        successor = await term.prepare_hand_over("c")
        assert successor.identity == "c"
        term.check()
        await until_queue_is(watcher, "a", "c", "b")
        assert them.log == ["a"]
        await term.resign()
        await eventually(lambda: "c" in them.inside, "c leads")


@on_embedded
async def test_contenders_of_one_client_step_behind_each_other(a: Client, b: Client) -> None:
    async with crowd() as them:
        for number, name in enumerate("abcdefgh", 1):
            them.come(name, to=Election(a, PATH, identity=name).leadership())
            await joined(b, PATH, number)
        await them.are_inside("a")
        await them.inside["a"].hand_over("h")
        them.leave("a")
        await them.are_inside("h")
        them.leave()
    assert them.log[:2] == ["a", "h"]
    assert sorted(them.log) == sorted("abcdefgh")
    assert [them.most[name] for name in "bcdefg"] == [1] * 6


@on_embedded
async def test_several_leaders_hand_over_one_place(a: Client, b: Client) -> None:
    async with crowd() as them:
        for number, name in enumerate("abcde", 1):
            election = Election(a, PATH, identity=name, leaders=2)
            them.come(name, to=election.leadership())
            await joined(b, PATH, number)
        await them.are_inside("a", "b")
        successor = await them.inside["b"].hand_over("e")
        assert successor.identity == "e"
        await eventually(lambda: "e" in them.inside, "e leads")
        assert them.log == ["a", "b", "e"]


@on_embedded
async def test_best_waiter_is_the_successor_where_contenders_have_priorities(
    a: Client, b: Client
) -> None:
    async with crowd() as them:
        for number, (name, priority) in enumerate(
            [("leader", 9), ("worst", 1), ("middle", 5), ("best", 7)], 1
        ):
            election = Election(a, PATH, identity=name, priority=priority)
            them.come(name, to=election.leadership())
            await joined(b, PATH, number)
        await them.are_inside("leader")
        term = them.inside["leader"]
        with pytest.raises(HandOverTimeout, match="'middle' has a lower priority than 'best'"):
            await term.hand_over("middle", timeout=0.1)
        assert (await term.hand_over()).identity == "best"
        await eventually(lambda: "best" in them.inside, "it leads")
        assert them.log == ["leader", "best"]


# --- asked from outside --------------------------------------------------------------------------


async def test_revoked_leader_is_followed_by_the_successor(server: ServerUnderTest) -> None:
    async with queue_of(server, "a", "b", "c") as (them, watcher):
        term = them.inside["a"]
        with anyio.fail_after(PATIENCE):
            (asked,) = await Election(watcher, PATH).revoke(successor="c")
        assert asked.path == term.path
        await eventually(lambda: "c" in them.inside, "c leads")
        assert them.log == ["a", "c"]
        await eventually(lambda: "a" in them.losses, "a has ended")
        assert them.losses["a"].reason is LossReason.REVOKED
        await until_queue_is(watcher, "c", "b")


@on_embedded
async def test_unknown_successor_is_reported_and_no_leader_is_asked(
    server: ServerUnderTest,
) -> None:
    async with queue_of(server, "a", "b") as (them, watcher):
        with pytest.raises(HandOverTimeout, match="no contender 'typo' waits"):
            await Election(watcher, PATH).revoke(successor="typo", timeout=0.1)
        term = them.inside["a"]
        assert not term.is_revocation_requested
        with pytest.raises(HandOverTimeout, match="no contender 'typo' waits"):
            await term.hand_over("typo", timeout=0)
        term.check()
        assert await order(watcher) == ["a", "b"]


@on_embedded
@pytest.mark.parametrize("look", [1, 2])
async def test_successor_of_a_leader_that_died_is_not_asked(
    server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """It leads by then, whether the last look has shown that, or not yet."""
    async with queue_of(server, "a", "b") as (them, watcher):
        election = Election(watcher, PATH)

        async def entries_and_then_the_leader_dies(queue: ContenderQueue) -> list[Entry]:
            monkeypatch.undo()
            found = await entries(queue)
            with raw(server) as operator:
                operator.delete(found[0][0].path)
            await eventually(lambda: "b" in them.inside, "b leads")
            return found if look == 1 else await entries(queue)

        monkeypatch.setattr(term_module, "entries", entries_and_then_the_leader_dies)
        with anyio.fail_after(PATIENCE):
            await election.revoke(successor="b")
            assert await election.revoke(successor="b") == []
        assert not them.inside["b"].is_revocation_requested


# --- readiness -----------------------------------------------------------------------------------


async def test_successor_warms_up_before_it_leads(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    async with queue_of(server, "old", "other") as (them, watcher):
        cold = Election(b, PATH, identity="new").campaign(ready=False)
        async with cold as view, anyio.create_task_group() as tasks:
            await joined(watcher, PATH, 3)
            tasks.start_soon(them.inside["old"].hand_over, "new")
            await until_next(view)
            await until_queue_is(watcher, "old", "new", "other")
            _, new, _ = await Election(watcher, PATH).contenders()
            assert (new.identity, new.is_ready) == ("new", False)
            assert them.inside["old"].is_held
            await view.set_ready()
            await term_of(view)
            leader = await Election(watcher, PATH).leader()
            assert leader is not None
            assert (leader.identity, leader.is_ready) == ("new", True)
        assert them.log == ["old", "other"][: len(them.log)]


@with_virtual_server
async def test_successor_that_never_gets_ready_does_not_lead(a: Client, b: Client) -> None:
    async with (
        Election(a, PATH, identity="old").leadership() as term,
        Election(b, PATH, identity="new").campaign(ready=False),
    ):
        await joined(a, PATH, 2)
        began = anyio.current_time()
        with pytest.raises(HandOverTimeout, match="within 20 seconds: 'new' has not reported"):
            await term.hand_over()
        assert anyio.current_time() - began == pytest.approx(20.0, abs=0.01)
        term.check()


@on_embedded
async def test_ready_contender_stays_ready_in_its_next_znode(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    async with Election(a, PATH).leadership(), Election(b, PATH).campaign(ready=False) as view:
        await until_next(view)
        await view.set_ready()
        await view.set_ready()
        _, waiter = await Election(a, PATH).contenders()
        assert waiter.is_ready
        with raw(server) as operator:
            operator.delete(waiter.path)

        async def has_joined_again() -> bool:
            who = await Election(a, PATH).contenders()
            return len(who) == 2 and who[1].path != waiter.path and who[1].is_ready

        await eventually(has_joined_again, "it waits again")


@on_embedded
async def test_contender_that_is_ready_before_it_has_joined_says_so(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    async with Election(a, PATH).leadership(), Election(b, PATH).campaign(ready=False) as view:
        await view.set_ready()  # nothing was sent yet, or its create is on its way

        async def is_ready() -> bool:
            who = await Election(a, PATH).contenders()
            return len(who) == 2 and who[1].is_ready

        await eventually(is_ready, "it is ready")


@on_embedded
async def test_request_and_readiness_do_not_undo_each_other(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    """Both change the data of a znode that leads by now, at the same time."""
    async with Election(b, PATH, identity="me").campaign(ready=False) as view:
        term = await term_of(view)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(view.set_ready)
            tasks.start_soon(Election(a, PATH).revoke)
        with anyio.fail_after(PATIENCE):
            await term.revocation_requested()
        with raw(server) as operator:
            assert operator.get(term.path) == b"__REVOKE__me"


# --- several at once -----------------------------------------------------------------------------


@asynccontextmanager
async def cold_queue(server: Served, *who: str) -> AsyncIterator[dict[str, Campaign]]:
    """Waiters with a session each, who have to warm up, in this order."""
    async with AsyncExitStack() as stack:
        watcher = await stack.enter_async_context(connect(server))
        there, views = len(await names(watcher, PATH)), dict[str, Campaign]()
        for number, name in enumerate(who, there + 1):
            client = await stack.enter_async_context(connect(server))
            campaign = Election(client, PATH, identity=name).campaign(ready=False)
            views[name] = await stack.enter_async_context(campaign)
            await joined(watcher, PATH, number)
        yield views


@pytest.mark.parametrize("is_later", [True, False], ids=["one after the other", "together"])
async def test_later_of_two_hand_overs_decides(is_later: bool) -> None:
    """No contender is asked twice, so neither of them makes the other one ask again."""
    async with EmbeddedServer() as server, in_memory(server) as watcher:
        async with queue_of(server, "a") as (them, _), cold_queue(server, *"bcde") as views:
            term, successors = them.inside["a"], list[Participant]()

            async def hand_over() -> None:
                successors.append(await term.hand_over("c", timeout=PATIENCE))

            before = server.requests.copy()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hand_over)
                if is_later:
                    await until_queue_is(watcher, *"acdeb")
                tasks.start_soon(partial(Election(watcher, PATH).revoke, successor="d"))
                await until_first_waiters_are(watcher, *"ade")
                await anyio.wait_all_tasks_blocked()
                assert (server.requests - before)["SET_DATA"] <= 4
                assert term.is_held
                for view in views.values():
                    await view.set_ready()
            assert [(who.identity, who.is_ready) for who in successors] in ([("d", True)], [])
            await until_first_waiters_are(watcher, *"de")


async def until_first_waiters_are(client: Client, *who: str) -> None:
    async def are_they() -> bool:
        return (await order(client))[: len(who)] == list(who)

    await eventually(are_they, f"the queue begins with {who}")


@on_embedded
async def test_two_hand_overs_to_one_successor_agree(server: ServerUnderTest) -> None:
    async with queue_of(server, "a", "b", "c") as (them, watcher):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(partial(Election(watcher, PATH).revoke, successor="c"))
            with suppress(LeadershipLost):
                await them.inside["a"].hand_over("c", timeout=PATIENCE)
        await eventually(lambda: "c" in them.inside, "c leads")
        assert not them.inside["c"].is_revocation_requested
        assert them.log == ["a", "c"]


@on_embedded
async def test_term_is_handed_over_once_at_a_time(a: Client) -> None:
    async with Election(a, PATH).leadership() as term:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(term.hand_over, "nobody", timeout=None))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(UsageError, match="another task hands it over"):
                await term.prepare_hand_over("another")
            tasks.cancel_scope.cancel()
        with pytest.raises(HandOverTimeout):
            await term.hand_over("nobody", timeout=0)
        term.check()


@with_virtual_server
async def test_hand_over_ends_as_another_task_resigns(a: Client, b: Client) -> None:
    leading, waiting = Election(a, PATH).leadership(), Election(b, PATH).campaign(ready=False)
    async with leading as term, waiting, anyio.create_task_group() as tasks:
        await joined(a, PATH, 2)
        _, waiter = await Election(a, PATH).contenders()

        async def hand_over() -> None:
            with anyio.fail_after(PATIENCE), pytest.raises(UsageError, match="was resigned"):
                await term.hand_over(timeout=None)

        tasks.start_soon(hand_over)
        await passes(1.0)
        # The next look watches only the successor.
        await a.set(waiter.path, (await a.get(waiter.path))[0])
        await passes(1.0)
        await term.resign()


@with_virtual_server
async def test_request_that_comes_during_the_report_of_readiness_stays(
    link: Link, a: Client, b: Client
) -> None:
    """The report is written by version, so it is repeated with what was written since."""
    async with (
        Election(a, PATH, identity="me").campaign(ready=False) as view,
        anyio.create_task_group() as tasks,
    ):
        term = await term_of(view)
        await settled()
        held = link.hold_reply(OpCode.GET_DATA)
        tasks.start_soon(view.set_ready)
        await held.wait()
        await Election(b, PATH).revoke()
        held.release()
        with anyio.fail_after(PATIENCE):
            await term.revocation_requested()
        await settled()
        assert (await b.get(term.path))[0] == b"__REVOKE__me"


# --- failures ------------------------------------------------------------------------------------


@on_embedded
async def test_successor_that_goes_is_replaced_by_the_queue(server: ServerUnderTest) -> None:
    async with queue_of(server, "a", "b") as (them, watcher), connect(server) as client:
        async with Election(client, PATH, identity="cold").campaign(ready=False):
            await joined(watcher, PATH, 3)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(them.inside["a"].hand_over, "cold")
                await until_queue_is(watcher, "a", "cold", "b")
                tasks.start_soon(client.aclose)
                await eventually(lambda: "b" in them.inside, "b leads")
    assert them.log == ["a", "b"]


@on_embedded
async def test_cancelled_hand_over_leads_on(server: ServerUnderTest) -> None:
    async with queue_of(server, "a", "b") as (them, _):
        with anyio.move_on_after(0.05):
            await them.inside["a"].hand_over("nobody", timeout=None)
        them.inside["a"].check()
        assert them.log == ["a"]


@on_embedded
async def test_lost_term_ends_the_hand_over(server: ServerUnderTest, a: Client) -> None:
    """Also that of a campaign, which cancels nothing."""
    async with Election(a, PATH).campaign() as view:
        term = await term_of(view)
        async with anyio.create_task_group() as tasks:

            async def lose() -> None:
                await anyio.wait_all_tasks_blocked()
                with raw(server) as operator:
                    operator.delete(term.path)

            tasks.start_soon(lose)
            with anyio.fail_after(PATIENCE), pytest.raises(LeadershipLost):
                await term.hand_over("nobody", timeout=None)


@pytest.mark.parametrize(
    "look",
    [
        (None, OpCode.GET_CHILDREN, 0),
        (None, OpCode.GET_CHILDREN, 1),
        (None, OpCode.GET_DATA, 0),
        ("c2", OpCode.GET_CHILDREN, 0),
        ("c2", OpCode.GET_CHILDREN, 1),
    ],
    ids=["watch", "listing", "contenders", "watch for a name", "listing for a name"],
)
@with_virtual_server
async def test_term_that_is_lost_during_the_look_is_not_handed_over(
    link: Link, a: Client, b: Client, c: Client, look: tuple[str | None, OpCode, int]
) -> None:
    """By then the next one leads: it is asked for nothing, and those behind it neither."""
    outcome: list[object] = []
    to, op, after = look

    async def hand_over(term: Term) -> None:
        try:
            outcome.append(await term.hand_over(to))
        except LeadershipLost as error:
            outcome.append(error.reason)

    async with crowd() as them, anyio.create_task_group() as tasks:
        for name, client in (("a", a), ("b", b), ("c1", c), ("c2", c)):
            them.come(name, to=Election(client, PATH, identity=name).leadership())
            await passes(1.0)
        term, before = them.inside["a"], await names(b, PATH)
        answer = link.hold_reply(op, after=after)
        tasks.start_soon(hand_over, term)
        await answer.wait()
        await b.delete(term.path)
        await passes(0.1)
        answer.release()
        await passes(1.0)
        assert outcome == [LossReason.DELETED]
        assert await names(b, PATH) == before[1:], "nobody was asked to step behind"
        assert list(them.inside) == ["b"]


@on_embedded
async def test_revoked_term_cannot_be_handed_over_once_its_body_has_ended(
    a: Client, b: Client
) -> None:
    with pytest.raises(LeadershipLost):
        async with Election(a, PATH).leadership() as term:
            await Election(b, PATH).revoke()
            await anyio.sleep_forever()
    for use in (term.hand_over, term.verify):
        with pytest.raises(LeadershipLost) as lost:
            await use()
        assert lost.value.reason is LossReason.REVOKED


@on_embedded
async def test_resigned_term_cannot_be_handed_over(a: Client) -> None:
    async with Election(a, PATH).leadership() as term:
        await term.resign()
        with pytest.raises(UsageError, match="was resigned"):
            await term.hand_over()


@with_virtual_server
async def test_hand_over_goes_on_after_a_lost_connection(link: Link, a: Client, b: Client) -> None:
    async with crowd() as them:
        them.come("old", to=Election(a, PATH, identity="old").leadership())
        await joined(b, PATH, 1)
        await them.are_inside("old")
        await passes(1.0)
        term = them.inside["old"]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(term.hand_over, "new")
            await passes(1.0)
            link.down()
            await settled()
            them.come("new", to=Election(b, PATH, identity="new").leadership())
            await passes(1.0)
            link.heal()
        assert term.is_released
        await eventually(lambda: "new" in them.inside, "it leads")


@on_embedded
async def test_contender_of_another_library_stays(server: ServerUnderTest, a: Client) -> None:
    foreign = f"{PATH}/_c_00000000-0000-4000-8000-000000000000-latch-"
    async with queue_of(server, "a") as (them, watcher):
        with raw(server) as operator:
            path = operator.create(foreign, b"curator's", flags=SEQUENTIAL)
            them.come("b", to=Election(a, PATH, identity="b").leadership())
            await joined(watcher, PATH, 3)
            with pytest.raises(HandOverTimeout, match="behind a contender of another library"):
                await them.inside["a"].hand_over("b", timeout=0.1)
            assert operator.get(path) == b"curator's"
            operator.delete(path)
            await them.inside["a"].hand_over("b", timeout=PATIENCE)
        await eventually(lambda: "b" in them.inside, "b leads")


@on_embedded
async def test_hand_over_without_permission_is_refused(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    closed = [ACL.world(Permission.READ | Permission.DELETE)]
    async with crowd() as them:
        them.come("a", to=Election(a, PATH, identity="a").leadership())
        await joined(a, PATH, 1)
        them.come("b", to=Election(b, PATH, identity="b", acl=closed).leadership())
        await joined(a, PATH, 2)
        them.come("c", to=Election(b, PATH, identity="c").leadership())
        await joined(a, PATH, 3)
        await them.are_inside("a")
        with pytest.raises(NoAuthError):
            await them.inside["a"].hand_over("c")
        them.inside["a"].check()


@on_embedded
async def test_waiter_that_may_not_leave_the_queue_says_so(
    server: ServerUnderTest, b: Client
) -> None:
    """Otherwise it would wait for its own znode."""
    refused = anyio.Event()

    async def wait(client: Client) -> None:
        with pytest.raises(ReleaseError):
            async with Election(client, PATH, identity="b").leadership():
                pytest.fail("it leads")
        refused.set()

    async with queue_of(server, "a") as (them, watcher), anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(wait, client)
            await joined(watcher, PATH, 2)
            them.come("c", to=Election(b, PATH, identity="c").leadership())
            await joined(watcher, PATH, 3)
            await watcher.set_acl(PATH, [ACL.world(Permission.ALL & ~Permission.DELETE)])
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as inner:
                    inner.start_soon(partial(them.inside["a"].prepare_hand_over, "c", timeout=5))
                    await refused.wait()
                    inner.cancel_scope.cancel()
            await watcher.set_acl(PATH, [ACL.world()])


# --- costs ---------------------------------------------------------------------------------------


async def test_hand_over_takes_as_many_requests_as_contenders_step_behind() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with crowd() as them:
            for number, name in enumerate(["old", *map(str, range(20)), "new"], 1):
                them.come(name, to=Election(b, PATH, identity=name).leadership())
                await joined(a, PATH, number)
            await them.are_inside("old")
            before = server.requests.copy()
            await Election(a, PATH).revoke(successor="new")
            await eventually(lambda: "new" in them.inside, "it leads")
            sent = server.requests - before
            assert sent["SET_DATA"] == 21
            assert sent["DELETE"] == 21
            # Each lists the queue once as it has joined again, and one more as its watches end.
            assert sent["GET_CHILDREN"] < 3 * 22
            assert sent["GET_DATA"] < 12 * 22
