"""Elections whose processes pass different `leaders=`, as while the number is being changed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, joined, raw

from aiolead import Client, Election
from aiolead.errors import ConfigurationError
from aiolead.types import Layout

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/election"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


class Queue:
    """Contenders by name, each of which leads until it is told to leave."""

    def __init__(self, clients: tuple[Client, ...], tasks: TaskGroup) -> None:
        self._clients = clients
        self._tasks = tasks
        self._leave: dict[str, anyio.Event] = {}
        self.leading: list[str] = []
        self.most: dict[str, int] = {}
        """How many led at once, at most, while a contender did."""

    async def join(self, name: str, leaders: int) -> None:
        client = self._clients[len(self._leave) % len(self._clients)]
        self._leave[name] = anyio.Event()
        before = len(await client.get_children(PATH)) if await client.exists(PATH) else 0
        election = Election(client, PATH, identity=name, leaders=leaders)
        self._tasks.start_soon(self._contend, election, name)
        await joined(client, PATH, before + 1)

    async def _contend(self, election: Election, name: str) -> None:
        async with election.leadership():
            self.leading.append(name)
            for each in self.leading:
                self.most[each] = max(self.most.get(each, 0), len(self.leading))
            await self._leave[name].wait()
            self.leading.remove(name)

    def leave(self, name: str) -> None:
        self._leave[name].set()

    async def led_by(self, *names: str) -> None:
        await eventually(lambda: sorted(self.leading) == sorted(names), f"{names} lead")


@asynccontextmanager
async def queue_on(server: ServerUnderTest) -> AsyncIterator[tuple[Queue, Client]]:
    async with (
        connect(server) as a,
        connect(server) as b,
        connect(server) as observer,
        anyio.create_task_group() as tasks,
    ):
        yield Queue((a, b), tasks), observer
        tasks.cancel_scope.cancel()


async def test_leader_that_allows_no_other_leads_alone(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    """While processes with one leader are replaced by processes with two."""
    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        async with queue_on(server) as (queue, observer):
            await queue.join("old", 1)
            await queue.led_by("old")
            await queue.join("new", 2)
            await queue.join("newer", 2)
            await catch_up(observer)
            for leaders in (1, 2):
                seen = await Election(observer, PATH, leaders=leaders).contenders()
                assert [(each.identity, each.is_holder) for each in seen] == [
                    ("old", True),
                    ("new", False),
                    ("newer", False),
                ]
            assert queue.leading == ["old"]
            queue.leave("old")
            await queue.led_by("new", "newer")
            assert queue.most == {"old": 1, "new": 2, "newer": 2}
    said = [record.message for record in caplog.records if "leaders=" in record.message]
    assert len(said) in (1, 2)  # one for each client whose contender has seen the other number
    assert all("leaders=1" in line and "leaders=2" in line for line in said)


async def test_contender_that_allows_no_other_waits_for_all_leaders(
    server: ServerUnderTest,
) -> None:
    async with queue_on(server) as (queue, _):
        await queue.join("one", 2)
        await queue.join("two", 2)
        await queue.led_by("one", "two")
        await queue.join("alone", 1)
        await queue.join("last", 2)
        queue.leave("one")
        await queue.led_by("two")
        queue.leave("two")
        await queue.led_by("alone")
        queue.leave("alone")
        await queue.led_by("last")
        assert queue.most == {"one": 2, "two": 2, "alone": 1, "last": 1}


async def test_departure_of_the_one_that_allows_fewest_lets_those_behind_it_lead(
    server: ServerUnderTest,
) -> None:
    """Also for observers and campaigns, which may see the first leaders only."""
    async with queue_on(server) as (queue, observer):
        await queue.join("one", 3)
        await queue.led_by("one")
        await queue.join("alone", 1)
        election = Election(observer, PATH, identity="three", leaders=3)
        async with election.observe() as view, election.campaign() as campaign:
            await joined(observer, PATH, 3)
            await eventually(
                lambda: [each.identity for each in view.value.leaders] == ["one"], "one is seen"
            )
            await eventually(lambda: campaign.value.rank == 2, "two have to leave")
            assert queue.leading == ["one"]
            with raw(server) as operator:
                (middle,) = [
                    each for each in await election.contenders() if each.identity == "alone"
                ]
                operator.delete(middle.path)
            # The contender that was deleted joins again, behind.
            with anyio.fail_after(PATIENCE):
                async for state in campaign:
                    if state.term is not None:
                        break
            await eventually(
                lambda: [each.identity for each in view.value.leaders] == ["one", "three"],
                "both are seen",
            )


@on_embedded
async def test_same_number_everywhere_logs_no_warning(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        async with queue_on(server) as (queue, _):
            for name in ("one", "two", "three", "four"):
                await queue.join(name, 2)
            await queue.led_by("one", "two")
            queue.leave("one")
            await queue.led_by("two", "three")
    assert [record.message for record in caplog.records if "leaders=" in record.message] == []


@on_embedded
async def test_layout_whose_names_cannot_say_it_refuses_several_leaders(
    server: ServerUnderTest,
) -> None:
    async with connect(server) as a:
        with pytest.raises(ConfigurationError, match=r"leaders: .*Layout\.AIOZK.*another layout"):
            Election(a, PATH, leaders=2, layout=Layout.AIOZK)
        async with Election(a, PATH, leaders=1, layout=Layout.AIOZK).leadership(timeout=PATIENCE):
            pass
