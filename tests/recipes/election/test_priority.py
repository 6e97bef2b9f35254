"""Elections with preferred leaders: of those present, the one with the highest priority leads."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import given
from hypothesis import strategies as st
from kit.clients import PATIENCE, catch_up, contenders_left, eventually, joined
from kit.virtual_time import connect, passes, settled, with_virtual_server
from recipes.blocks import enter

from aiolead import Client, CreateMode, Election, LeadershipLost, Term
from aiolead._recipes.layouts import Role, names_of
from aiolead._recipes.preference import outlook_of
from aiolead._util.contender_names import ElectionRules, rules_of
from aiolead.errors import (
    AcquireTimeout,
    HandOverTimeout,
    MixedLayoutError,
)
from aiolead.model import ACL, Auth, Permission
from aiolead.testing import EmbeddedServer
from aiolead.types import Layout

pytestmark = pytest.mark.timeout(60)

PATH = "/election"
STABLE_FOR = 11.7
"""In seconds. No multiple of a tick: where no time passes between two answers, a lease that begins
exactly at one is renewed again and again."""


class Fleet:
    """Processes that lead until they are asked to resign, or are to stop.

    Attributes:
        leads: the name of the one that leads.
        log: when each began to lead, and its name.
        most: the largest number that led at the same time.
    """

    def __init__(self, server: EmbeddedServer, tasks: TaskGroup) -> None:
        self._server = server
        self._tasks = tasks
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._leading: set[str] = set()
        self.log: list[tuple[float, str]] = []
        self.most = 0

    @property
    def leads(self) -> str | None:
        (leader,) = self._leading or (None,)
        return leader

    @property
    def leaders(self) -> list[str]:
        """The names of those that have led, in order."""
        return [name for _, name in self.log]

    async def come(
        self, name: str, priority: int, *, heeds: bool = True, client: Client | None = None
    ) -> None:
        scope = self._scopes[name] = anyio.CancelScope()
        self._tasks.start_soon(self._live, name, priority, scope, heeds, client)
        await settled()

    async def go(self, name: str) -> None:
        self._scopes[name].cancel()
        await settled()

    async def _live(
        self,
        name: str,
        priority: int,
        scope: anyio.CancelScope,
        heeds: bool,
        client: Client | None,
    ) -> None:
        async def work(term: Term) -> None:
            self.log.append((anyio.current_time(), name))
            self._leading.add(name)
            self.most = max(self.most, len(self._leading))
            try:
                if heeds:
                    await term.revocation_requested()
                else:
                    await anyio.sleep_forever()
            finally:
                self._leading.remove(name)

        async def contend(client: Client) -> None:
            election = Election(
                client, PATH, identity=name, priority=priority, stable_for=STABLE_FOR
            )
            await election.run(work)

        with scope:
            if client is not None:
                await contend(client)
            async with connect(self._server) as own:
                await contend(own)


@asynccontextmanager
async def fleet(server: EmbeddedServer) -> AsyncIterator[Fleet]:
    async with anyio.create_task_group() as tasks:
        them = Fleet(server, tasks)
        yield them
        assert them.most <= 1
        tasks.cancel_scope.cancel()


# --- who leads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("of_one_client", [False, True])
@with_virtual_server
async def test_best_present_contender_follows_a_leader(
    server: EmbeddedServer, client: Client, of_one_client: bool
) -> None:
    """Those with the same priority in the order of arrival, whatever has stepped back meanwhile."""
    order = {"a": 9, "b": -5, "c": 3, "d": 0, "e": 3, "f": 0, "g": -5, "h": 9}
    async with fleet(server) as them:
        for name, priority in order.items():
            await them.come(name, priority, client=client if of_one_client else None)
        assert len(contenders_left(server, PATH)) == 8
        for name in ("a", "h", "c", "e", "d", "f", "b", "g"):
            assert them.leads == name
            await them.go(name)


@with_virtual_server
async def test_better_contender_takes_over_once_it_is_stable(server: EmbeddedServer) -> None:
    async with fleet(server) as them:
        await them.come("worse", 1)
        await passes(100)
        came = anyio.current_time()
        await them.come("better", 2)
        await passes(STABLE_FOR - 0.1)
        assert them.leads == "worse"
        await passes(0.2)
        assert them.leads == "better"
        assert came + STABLE_FOR <= them.log[-1][0] <= came + STABLE_FOR + 0.1
        await passes(100)
        assert them.leaders == ["worse", "better"]
        await them.go("better")
        assert them.leads == "worse"


@with_virtual_server
async def test_contender_that_leaves_too_early_takes_nothing_over(server: EmbeddedServer) -> None:
    async with fleet(server) as them:
        await them.come("worse", 1)
        for _ in range(5):
            await them.come("better", 2)
            await passes(STABLE_FOR - 0.5)
            await them.go("better")
        assert them.leaders == ["worse"]


@with_virtual_server
async def test_equal_and_worse_contenders_ask_nobody(server: EmbeddedServer) -> None:
    async with fleet(server) as them:
        for name, priority in (("a", 5), ("b", 5), ("c", -5)):
            await them.come(name, priority)
        before = server.requests.copy()
        await passes(20 * STABLE_FOR)
        sent = server.requests - before
        assert them.leaders == ["a"]
        assert sent["SET_DATA"] == sent["GET_CHILDREN"] == sent["GET_CHILDREN2"] == 0


@with_virtual_server
async def test_only_the_best_one_asks(server: EmbeddedServer) -> None:
    """The leader is asked once, and followed by the best, not by the one that came first."""
    async with fleet(server) as them:
        await them.come("worse", 0)
        for name, priority in (("b", 1), ("c", 3), ("d", 3), ("e", 2)):
            await them.come(name, priority)
        before = server.requests.copy()
        await passes(10 * STABLE_FOR)
        assert them.leaders == ["worse", "c"]
        assert (server.requests - before)["SET_DATA"] == 1


@with_virtual_server
async def test_next_best_asks_if_the_best_has_gone(server: EmbeddedServer) -> None:
    async with fleet(server) as them:
        await them.come("worse", 0, heeds=True)
        await them.come("better", 1)
        await passes(STABLE_FOR / 2)
        await them.come("best", 2)
        await passes(STABLE_FOR * 3 / 4)  # the time of the better one comes, and it asks nobody
        assert them.leaders == ["worse"]
        await them.go("best")
        await passes(STABLE_FOR)
        assert them.leaders == ["worse", "better"]


@with_virtual_server
async def test_leader_has_led_for_a_while_before_another_takes_over(
    server: EmbeddedServer,
) -> None:
    """However often better ones come and go: so there is a bound on the number of take-overs."""
    async with fleet(server) as them:
        await them.come("worst", 0)
        for number in range(1, 21):
            await them.come(f"{number}", number)
            await passes(2.3 if number % 4 else 19.1)
            if number % 7 == 0 and them.leads is not None:
                await them.go(them.leads)
        taken_over = [
            later - earlier
            for (earlier, one), (later, other) in zip(them.log, them.log[1:], strict=False)
            if int(other) > int(one if one != "worst" else 0)
        ]
        assert len(taken_over) >= 4
        assert min(taken_over) >= STABLE_FOR


# --- nobody is forced ----------------------------------------------------------------------------


@with_virtual_server
async def test_leader_that_does_not_heed_is_asked_once_and_stays(server: EmbeddedServer) -> None:
    async with connect(server) as client, fleet(server) as them:
        election = Election(client, PATH, priority=0)
        with suppress(LeadershipLost):  # if it reports that it should have left
            async with election.leadership() as term:
                await them.come("better", 1)
                before = server.requests.copy()
                with anyio.CancelScope(shield=True):
                    await passes(5 * STABLE_FOR)
                assert term.is_revocation_requested
                assert them.leaders == []
                assert (server.requests - before)["SET_DATA"] == 1
        await settled()
        assert them.leads == "better"


@with_virtual_server
async def test_contender_that_steps_back_makes_one_znode(server: EmbeddedServer) -> None:
    """The event of its deleted znode does not concern the new one, for which nobody would care."""
    async with fleet(server) as them:
        for name, priority in (("best", 9), ("worse", 0), ("better", 3)):
            await them.come(name, priority)
        before = server.requests.copy()
        await them.go("best")
        assert them.leads == "better"
        sent = server.requests - before
        created = sum(number for op, number in sent.items() if op.startswith("CREATE"))
        assert created == 1, sent
        assert len(contenders_left(server, PATH)) == 2


@with_virtual_server
async def test_contender_that_steps_back_was_asked_by_nobody(server: EmbeddedServer) -> None:
    """The request to a contender in front that is about to step back does not follow it."""
    async with fleet(server) as them:
        await them.come("first", 5)
        await them.come("worse", 0)
        await them.come("better", 3)
        async with connect(server) as operator:
            worse = (await Election(operator, PATH).contenders())[1]
            await operator.set(worse.path, b"__REVOKE__worse")
        await them.go("first")
        assert them.leads == "better"
        await them.go("better")
        await passes(1)
        assert them.leads == "worse"


@with_virtual_server
async def test_leader_whose_acl_forbids_to_ask_is_named_once(
    server: EmbeddedServer, a: Client, b: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for client, name in ((a, "a"), (b, "b")):
        await client.add_auth(Auth.digest(name, "secret"))
    acl = [ACL.auth(), ACL.world(Permission.READ)]
    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        async with Election(a, PATH, priority=0, acl=acl).leadership() as term:
            await a.set_acl(PATH, [ACL.world()])
            async with Election(b, PATH, priority=1).campaign():
                await passes(5 * STABLE_FOR)
            assert not term.is_revocation_requested
    said = [each.message for each in caplog.records if "cannot be asked to resign" in each.message]
    assert len(said) == 1
    assert term.path in said[0]


@with_virtual_server
async def test_named_successor_leads_only_if_no_better_one_is_present(
    server: EmbeddedServer, client: Client
) -> None:
    async with fleet(server) as them:
        async with Election(client, PATH, priority=9).leadership() as term:
            await them.come("worse", 0)
            await them.come("better", 3)
            with pytest.raises(HandOverTimeout, match="'worse' has a lower priority than 'better'"):
                await term.hand_over(to="worse", timeout=STABLE_FOR)
            await them.go("better")
            successor = await term.hand_over(to="worse", timeout=STABLE_FOR)
            assert successor.identity == "worse"
        await settled()
        assert them.leads == "worse"


# --- failures ------------------------------------------------------------------------------------


@with_virtual_server
async def test_time_in_the_queue_begins_again_in_another_session(server: EmbeddedServer) -> None:
    async with connect(server) as client, fleet(server) as them:
        await them.come("worse", 0)
        await them.come("better", 1, client=client)
        await passes(STABLE_FOR - 1)
        server.expire_session(client.session_id)
        await settled()
        again = anyio.current_time()
        await passes(STABLE_FOR / 2)
        assert them.leads == "worse"
        await passes(STABLE_FOR)
        assert them.leaders == ["worse", "better"]
        assert them.log[-1][0] >= again + STABLE_FOR - 0.1


@with_virtual_server
async def test_better_contender_without_a_session_holds_nobody_up(
    server: EmbeddedServer, client: Client
) -> None:
    """A persistent znode with such a name never leads: nobody steps back behind it."""
    await client.ensure_path(PATH)
    async with fleet(server) as them:
        await them.come("first", 0)
        await client.create(f"{PATH}/00-1-priority9-latch-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
        await them.come("second", 0)
        await client.delete(f"{PATH}/00-1-priority9-latch-0000000001")
        await them.come("third", 0)
        await client.create(f"{PATH}/00-1-priority9-latch-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
        for name in ("first", "second", "third"):
            assert them.leads == name
            await them.go(name)


@with_virtual_server
async def test_attempt_without_waiting_is_behind_a_better_contender(
    server: EmbeddedServer, client: Client
) -> None:
    async with connect(server) as other:
        best = Election(other, PATH, priority=1)
        async with best.leadership(), best.campaign():
            await settled()
            with pytest.raises(AcquireTimeout):
                await enter(Election(client, PATH, priority=0).leadership(timeout=0))
    assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_contender_that_gives_up_after_stepping_back_names_the_better_one(
    server: EmbeddedServer, client: Client
) -> None:
    async with fleet(server) as them, anyio.create_task_group() as tasks:
        await them.come("first", 5)

        async def give_up() -> None:
            with pytest.raises(AcquireTimeout) as caught:
                await enter(Election(client, PATH, priority=0).leadership(timeout=5.0))
            assert re.search(f"behind {PATH}/[^ ]+, which has a higher priority", str(caught.value))

        tasks.start_soon(give_up)
        await settled()
        await them.come("second", 5)
        await them.go("first")
        assert them.leads == "second"


@with_virtual_server
async def test_campaign_yields_to_a_better_contender(
    server: EmbeddedServer, client: Client
) -> None:
    async with fleet(server) as them:
        await them.come("first", 5)
        async with Election(client, PATH, priority=0).campaign() as campaign:
            await settled()
            assert campaign.value.rank == 1
            await them.come("second", 5)
            await them.go("first")
            assert them.leads == "second"
            assert campaign.value.term is None
            await them.go("second")
            assert campaign.value.term is not None


# --- other contenders ----------------------------------------------------------------------------

LAYOUTS = pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO], ids=repr)


@LAYOUTS
@pytest.mark.parametrize(("first", "later"), [(None, 0), (0, None)])
async def test_contender_without_a_priority_is_refused(
    a: Client, b: Client, first: int | None, later: int | None, layout: Layout
) -> None:
    async with Election(a, PATH, priority=first, layout=layout).leadership() as term:
        for client in (a, b):
            await catch_up(client)
            election = Election(client, PATH, priority=later, layout=layout)
            with pytest.raises(MixedLayoutError, match=r"priority.*or none") as caught:
                await enter(election.leadership(timeout=PATIENCE))
            assert caught.value.neighbour == term.path
        assert term.is_held


@LAYOUTS
async def test_best_contender_leads_on_every_server(a: Client, b: Client, layout: Layout) -> None:
    """In real time, and with a leader that is asked after the shortest time."""
    led: list[str] = []

    def contender(client: Client, identity: str, priority: int) -> Election:
        return Election(
            client, PATH, identity=identity, priority=priority, stable_for=1, layout=layout
        )

    async def run(election: Election) -> None:
        async def work(term: Term) -> None:
            led.append(term.identity)
            await term.revocation_requested()

        await election.run(work, pause=0)

    async with anyio.create_task_group() as tasks:
        for number, (client, name, priority) in enumerate(
            ((a, "worst", -1), (b, "worse", 0), (a, "best", 1)), 1
        ):
            tasks.start_soon(run, contender(client, name, priority))
            await joined(b, PATH, number)
        await eventually(lambda: led == ["worst", "best"], f"the best one leads: {led}")
        tasks.cancel_scope.cancel()


# --- names and listings --------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [-1000, -7, 0, 12, 1000])
@pytest.mark.parametrize("arrival", [None, 0, 7, 2147483646])
@pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO], ids=repr)
def test_name_says_priority_and_arrival(priority: int, arrival: int | None, layout: Layout) -> None:
    rules = ElectionRules(priority=priority, arrival=arrival)
    names = names_of(layout, Role.ELECTION)
    name = f"{names.prefix(5, 26, rules.part)}0000000009"
    assert rules_of(name) == rules
    assert names.count_in(5, name) == 26
    assert rules.fit(ElectionRules(priority=3))
    assert not rules.fit(ElectionRules())


def queue_of(contenders: list[tuple[int | None, int | None]]) -> list[str]:
    return [
        f"00-1{ElectionRules(priority=priority, arrival=arrival).part}-latch-{number:010d}"
        for number, (priority, arrival) in enumerate(contenders)
    ]


CONTENDER = st.tuples(st.none() | st.integers(-2, 2), st.none() | st.integers(0, 9))


@given(st.lists(CONTENDER, min_size=1, max_size=8))
def test_one_contender_is_best_and_each_other_one_knows_a_better(
    contenders: list[tuple[int | None, int | None]],
) -> None:
    """So contenders that step back behind better ones come to an end, whatever names say."""
    line = queue_of(contenders)
    outlooks = [outlook_of(line, own) for own in line]
    assert sum(outlook is not None and outlook.is_best for outlook in outlooks) == 1
    for own, outlook in zip(line, outlooks, strict=True):
        assert outlook is not None
        assert outlook.front == line[0]
        assert own not in outlook.better
        for better in outlook.better:
            (other,) = [each for name, each in zip(line, outlooks, strict=True) if name == better]
            assert other is not None
            assert set(other.better) < set(outlook.better)
        if own == line[0] or contenders[0][0] is None:
            assert not outlook.is_better_than_front
    assert outlook_of(line, "another") is None
