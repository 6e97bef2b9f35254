"""Elections with several leaders, also while the number of leaders is being changed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, contenders_left, eventually, joined, raw
from kit.selection import on_embedded
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import settled, with_virtual_server
from recipes.blocks import enter, term_of
from recipes.crowd import Crowd, crowd

from aiolead import Client, Election
from aiolead.errors import ConfigurationError, MixedLayoutError
from aiolead.testing import EmbeddedServer
from aiolead.types import Layout

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"


class Queue(Crowd):
    """Contenders of two clients by name, each of which leads until it may leave."""

    clients: tuple[Client, ...]

    async def join(self, *names: str, leaders: int, changing_from: int | None = None) -> None:
        for name in names:
            client = self.clients[len(self._leave) % 2]
            election = Election(
                client, PATH, identity=name, leaders=leaders, changing_from=changing_from
            )
            there = await joined_so_far(self.clients[0])
            self.come(name, to=election.leadership())
            await joined(self.clients[0], PATH, there + 1)


async def joined_so_far(client: Client) -> int:
    await catch_up(client)
    return len(await client.get_children(PATH)) if await client.exists(PATH) else 0


@asynccontextmanager
async def queue_of(*clients: Client) -> AsyncIterator[Queue]:
    async with anyio.create_task_group() as tasks:
        queue = Queue(tasks)
        queue.clients = clients
        yield queue
        tasks.cancel_scope.cancel()


def identities(leaders: tuple[object, ...]) -> list[str]:
    return [each.identity for each in leaders]  # type: ignore[attr-defined]


# --- one number for all --------------------------------------------------------------------------


@pytest.mark.parametrize("leaders", [2, 3])
async def test_first_contenders_lead_and_the_next_one_follows(
    server: ServerUnderTest, a: Client, b: Client, leaders: int, caplog: pytest.LogCaptureFixture
) -> None:
    line = [str(number) for number in range(6)]
    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        async with queue_of(a, b) as queue:
            await queue.join(*line, leaders=leaders)
            await queue.are_inside(*line[:leaders])
            seen = await Election(b, PATH, leaders=leaders).contenders()
            assert [each.is_holder for each in seen] == [n < leaders for n in range(6)]
            # A leader in the middle, the first one, one that waits, and then all in turn.
            for gone in ("1", "0", "4", "2", "3", "5"):
                line.remove(gone)
                if gone in queue.inside:
                    queue.leave(gone)
                else:
                    with raw(server) as operator:  # it joins again, at the end
                        operator.delete(seen[int(gone)].path)
                    line.append(gone)
                await queue.are_inside(*line[:leaders])
                if gone == "4":
                    await joined(a, PATH, len(line))
                for term in queue.inside.values():
                    term.check()
            assert max(queue.most.values()) == leaders
    assert "leaders=" not in caplog.text


async def test_deposed_leader_is_followed_by_the_next(a: Client, b: Client) -> None:
    async with queue_of(a, b) as queue:
        await queue.join("0", "1", "2", "3", leaders=2)
        await queue.are_inside("0", "1")
        await a.delete(queue.inside["0"].path)
        await queue.are_inside("1", "2")


async def test_observer_sees_all_leaders(a: Client, b: Client) -> None:
    seen: list[list[str]] = []
    async with queue_of(a, a) as queue, Election(b, PATH, leaders=2).observe() as states:
        with anyio.fail_after(PATIENCE):
            async for state in states:
                seen.append(identities(state.leaders))
                match len(seen):
                    case 1 | 2:
                        name = str(len(seen) - 1)
                        election = Election(a, PATH, identity=name, leaders=2)
                        queue.come(name, to=election.leadership())
                    case 3 | 4:
                        if len(seen) == 3:  # leading, not only listed
                            await queue.are_inside("0", "1")
                        queue.leave(str(len(seen) - 3))
                    case _:
                        break
    assert seen == [[], ["0"], ["0", "1"], ["1"], []]


@with_virtual_server
async def test_departure_wakes_as_many_as_may_lead_at_most(server: EmbeddedServer) -> None:
    async with crowd() as them, anyio.create_task_group() as tasks:

        async def contend(number: int) -> None:
            async with connect_virtually(server) as client:
                election = Election(client, PATH, identity=str(number), leaders=3)
                them.come(str(number), to=election.leadership())
                await anyio.sleep_forever()

        for number in range(8):
            tasks.start_soon(contend, number)
            await settled()
            assert len(contenders_left(server, PATH)) == number + 1
        await eventually(lambda: len(server.watches()) == 8, f"all watch: {server.watches()}")
        await them.are_inside("0", "1", "2")
        before = server.requests.copy()
        them.leave("0")
        await them.are_inside("1", "2", "3")
        await settled()
        looks = server.requests - before
        assert 1 <= looks["GET_CHILDREN"] + looks["GET_CHILDREN2"] <= 3
        for number in range(1, 8):
            them.cancel(str(number))
        tasks.cancel_scope.cancel()


# --- different numbers ---------------------------------------------------------------------------


async def test_leader_that_allows_no_other_leads_alone(a: Client, b: Client) -> None:
    """While processes with one leader are replaced by processes with two."""
    async with queue_of(a, b) as queue:
        await queue.join("old", leaders=1)
        await queue.are_inside("old")
        await queue.join("new", "newer", leaders=2, changing_from=1)
        await catch_up(b)
        for leaders in (1, 2):
            seen = await Election(b, PATH, leaders=leaders).contenders()
            assert [(each.identity, each.is_holder) for each in seen] == [
                ("old", True),
                ("new", False),
                ("newer", False),
            ]
        await queue.are_inside("old")
        queue.leave("old")
        await queue.are_inside("new", "newer")
        assert queue.most == {"old": 1, "new": 2, "newer": 2}


async def test_contender_that_allows_no_other_waits_for_all_leaders(a: Client, b: Client) -> None:
    async with queue_of(a, b) as queue:
        await queue.join("one", "two", leaders=2)
        await queue.are_inside("one", "two")
        await queue.join("alone", leaders=1, changing_from=2)
        await queue.join("last", leaders=2)
        for gone, leads in (("one", "two"), ("two", "alone"), ("alone", "last")):
            queue.leave(gone)
            await queue.are_inside(leads)
        assert queue.most == {"one": 2, "two": 2, "alone": 1, "last": 1}


async def test_departure_of_the_one_that_allows_fewest_lets_those_behind_it_lead(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    """Also for observers and campaigns, which may see the first leaders only."""
    async with connect(server) as observer, queue_of(a, b) as queue:
        await queue.join("one", leaders=3)
        await queue.are_inside("one")
        await queue.join("alone", leaders=1, changing_from=3)
        election = Election(observer, PATH, identity="three", leaders=3)
        async with election.observe() as view, election.campaign() as campaign:
            await joined(observer, PATH, 3)
            await eventually(lambda: identities(view.value.leaders) == ["one"], "one is seen")
            await eventually(lambda: campaign.value.rank == 2, "two have to leave")
            await queue.are_inside("one")
            with raw(server) as operator:
                contenders = await election.contenders()
                (middle,) = [each for each in contenders if each.identity == "alone"]
                operator.delete(middle.path)  # it joins again, behind
            await term_of(campaign)
            await eventually(
                lambda: identities(view.value.leaders) == ["one", "three"], "both are seen"
            )


async def test_contender_that_says_the_old_number_returns_behind_those_that_change_it(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    """Only the new processes know of the change; an old one loses its znode meanwhile."""
    async with queue_of(a, b) as queue:
        await queue.join("old", leaders=1)
        await queue.are_inside("old")
        await queue.join("new", leaders=2, changing_from=1)
        with raw(server) as operator:
            operator.delete(queue.inside["old"].path)
        await queue.are_inside("new")
        await queue.join("old again", leaders=1)
        await queue.are_inside("new")
        assert queue.most == {"old": 1, "new": 1}


# --- different numbers are refused ---------------------------------------------------------------

NUMBERS = pytest.mark.parametrize(("first", "later"), [(1, 2), (2, 1), (3, 2)])


@NUMBERS
@pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO], ids=repr)
async def test_other_number_of_leaders_is_refused(
    a: Client, b: Client, first: int, later: int, layout: Layout
) -> None:
    """In another process and in the same one, and also if it came first there."""
    async with Election(b, PATH, leaders=later, layout=layout).leadership():
        pass
    await catch_up(a)
    async with Election(a, PATH, leaders=first, layout=layout).leadership() as term:
        for client in (a, b, b):
            await catch_up(client)
            election = Election(client, PATH, leaders=later, layout=layout)
            numbers = f"leaders={first}, .*leaders={later}: .*changing_from={first}"
            with pytest.raises(MixedLayoutError, match=numbers) as caught:
                await enter(election.leadership(timeout=PATIENCE))
            assert caught.value.neighbour == term.path
            assert caught.value.session_id == a.session_id
            await eventually(partial(only, term.path, client), "the refused one has left")
        assert term.is_held


async def only(path: str, client: Client) -> bool:
    await catch_up(client)
    return await client.get_children(PATH) == [path.rpartition("/")[2]]


@NUMBERS
async def test_campaign_with_another_number_of_leaders_is_refused(
    a: Client, b: Client, first: int, later: int
) -> None:
    async with Election(a, PATH, leaders=first).leadership():
        await catch_up(b)
        async with Election(b, PATH, leaders=later).campaign() as view:
            with anyio.fail_after(PATIENCE), pytest.raises(MixedLayoutError, match="leaders="):
                async for _ in view:
                    pass


@pytest.mark.parametrize("clients", [1, 2])
@NUMBERS
@with_virtual_server
async def test_of_two_that_begin_at_once_one_is_refused(
    server: EmbeddedServer, first: int, later: int, clients: int
) -> None:
    """Neither finds the other before it creates its znode."""
    async with connect_virtually(server) as a, connect_virtually(server) as b:
        await a.ensure_path(PATH)
        leading, refused = [], []

        async def contend(client: Client, leaders: int) -> None:
            try:
                async with Election(client, PATH, leaders=leaders).leadership() as term:
                    leading.append(term)
                    await anyio.sleep_forever()
            except MixedLayoutError as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(contend, a, first)
            tasks.start_soon(contend, (a, b)[clients - 1], later)
            await settled()
            assert len(leading) == len(refused) == 1
            assert refused[0].neighbour == leading[0].path
            assert contenders_left(server, PATH) == [leading[0].path]
            tasks.cancel_scope.cancel()


@on_embedded
async def test_layout_whose_names_cannot_say_it_refuses_several_leaders(a: Client) -> None:
    with pytest.raises(ConfigurationError, match=r"leaders: .*Layout\.AIOZK.*another layout"):
        Election(a, PATH, leaders=2, layout=Layout.AIOZK)
    async with Election(a, PATH, leaders=1, layout=Layout.AIOZK).leadership(timeout=PATIENCE):
        pass
