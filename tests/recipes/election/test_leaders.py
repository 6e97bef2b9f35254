"""Elections with several leaders, also while the number of leaders is being changed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, contenders_left, eventually, joined, raw
from kit.selection import on_embedded
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import settled, with_virtual_server
from recipes.crowd import Crowd, crowd

from aiolead import Client, Election
from aiolead.errors import ConfigurationError
from aiolead.testing import EmbeddedServer
from aiolead.types import Layout

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"


class Queue(Crowd):
    """Contenders of two clients by name, each of which leads until it may leave."""

    clients: tuple[Client, ...]

    async def join(self, *names: str, leaders: int) -> None:
        for name in names:
            number = len(self._leave)
            election = Election(self.clients[number % 2], PATH, identity=name, leaders=leaders)
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


async def test_leader_that_allows_no_other_leads_alone(
    a: Client, b: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """While processes with one leader are replaced by processes with two."""
    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        async with queue_of(a, b) as queue:
            await queue.join("old", leaders=1)
            await queue.are_inside("old")
            await queue.join("new", "newer", leaders=2)
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
    said = [record.message for record in caplog.records if "leaders=" in record.message]
    assert len(said) in (1, 2)  # one for each client whose contender has seen the other number
    assert all("leaders=1" in line and "leaders=2" in line for line in said)


async def test_contender_that_allows_no_other_waits_for_all_leaders(a: Client, b: Client) -> None:
    async with queue_of(a, b) as queue:
        await queue.join("one", "two", leaders=2)
        await queue.are_inside("one", "two")
        await queue.join("alone", leaders=1)
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
        await queue.join("alone", leaders=1)
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
            with anyio.fail_after(PATIENCE):
                async for state in campaign:
                    if state.term is not None:
                        break
            await eventually(
                lambda: identities(view.value.leaders) == ["one", "three"], "both are seen"
            )


@on_embedded
async def test_layout_whose_names_cannot_say_it_refuses_several_leaders(a: Client) -> None:
    with pytest.raises(ConfigurationError, match=r"leaders: .*Layout\.AIOZK.*another layout"):
        Election(a, PATH, leaders=2, layout=Layout.AIOZK)
    async with Election(a, PATH, leaders=1, layout=Layout.AIOZK).leadership(timeout=PATIENCE):
        pass
