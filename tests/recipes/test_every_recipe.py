"""Every recipe under the same faults, on embedded and on real servers: links that break in the
middle of what is said, sessions that end, processes that die.

What is special to one of them is in its own tests.
All recipes are played at the same time, on the same two clients: most of the time is waiting.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually
from kit.every_recipe import DONE, FOLLOWED, HELD, HOLDS, KEPT, WAITING, Done, Held, Seen
from kit.faults import end_session, only_on

from aiolead import Barrier, Client, Condition, ConnectionLossError, TenureLost
from aiolead.errors import LossReason, Outcome
from aiolead.model import SessionState
from aiolead.paths import parse_connect_string
from aiolead.testing import FaultProxy, OpCode

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.prefers_real_servers,
]

LONG = 30.0
"""A session timeout that no hiccup of a busy machine outlives, in seconds; servers grant less."""

TESTS = Path(__file__).parents[1]
WRITES = (OpCode.CREATE2, OpCode.MULTI, OpCode.SET_DATA)


def on(kind: str, loop: str) -> Callable[[Any], Any]:
    """Where a test is played: faults are those of servers and links, whatever the event loop."""

    def both(test: Any) -> Any:
        return only_on(loop)(pytest.mark.parametrize("server", [kind], indirect=True)(test))

    return both


class Somebody:
    """One that has something until it is told to leave, or has lost it."""

    def __init__(self, name: str, scene: Held, client: Client) -> None:
        self.name = name
        self.lost: TenureLost | None = None
        self.mine: Any = None
        self.leave = anyio.Event()
        self.has_left = False
        self._scene = scene
        self._client = client

    def __repr__(self) -> str:
        return f"{self.name}: {self.mine}, {'has left' if self.has_left else ''} {self.lost}"

    async def run(self) -> None:
        try:
            async with self._scene.enter(self._client, f"/{self.name}") as self.mine:
                await self.leave.wait()
        except TenureLost as lost:
            self.lost = lost
        self.has_left = True


class Turns:
    """Others that want the same, and what they have got."""

    def __init__(self, client: Client) -> None:
        self.missing: set[str] = set()
        self._client = client

    async def take(self, name: str, scene: Held) -> None:
        self.missing.add(name)
        await scene.turn(self._client, f"/{name}")
        self.missing.remove(name)

    async def come(self) -> None:
        await eventually(lambda: not self.missing, f"all turns come: {self.missing}")

    async def are_waited_for(self) -> None:
        """Everybody's request is there: requests go out in order."""
        for _ in range(4):
            await self._client.sync()


async def prepare(client: Client, scenes: dict[str, Held]) -> None:
    for name, scene in scenes.items():
        if scene.prepare is not None:
            await scene.prepare(client, f"/{name}")


async def all_have(holders: list[Somebody]) -> None:
    await eventually(
        lambda: all(one.mine is not None for one in holders), f"all have theirs: {holders}"
    )


async def all_left(holders: list[Somebody]) -> None:
    await eventually(lambda: all(one.has_left for one in holders), f"all have left: {holders}")


@asynccontextmanager
async def through_a_proxy(server: ServerUnderTest) -> AsyncIterator[tuple[FaultProxy, Client]]:
    with FaultProxy(*parse_connect_string(server.hosts).hosts[0]) as proxy:
        hosts = proxy.connect_string + server.chroot
        async with connect(Address(hosts), session_timeout=LONG) as client:
            yield proxy, client


class Address:
    def __init__(self, connect_string: str) -> None:
        self.connect_string = connect_string


async def reconnected(proxy: FaultProxy, client: Client, links: int) -> None:
    await eventually(
        lambda: proxy.connections > links and client.state is SessionState.CONNECTED,
        "it is on another link",
    )


# --- links that break ----------------------------------------------------------------------------


async def breaks(server: ServerUnderTest) -> None:
    """While everybody enters, while they hold or wait, and while they leave."""
    scenes = HELD | KEPT
    async with (
        through_a_proxy(server) as (proxy, a),
        connect(server, session_timeout=LONG) as b,
        anyio.create_task_group() as tasks,
    ):
        await prepare(b, scenes)
        await catch_up(a)
        proxy.drop_reply(WRITES, 3)
        holders = [Somebody(name, scene, a) for name, scene in scenes.items()]
        for one in holders:
            tasks.start_soon(one.run)
        await all_have(holders)
        # How many it were is up to the schedule: requests under way together go down with one link.
        assert proxy.connections > 1
        proxy.heal()

        turns = Turns(b)
        for name, scene in scenes.items():
            tasks.start_soon(turns.take, name, scene)
        await turns.are_waited_for()
        links = proxy.connections
        proxy.reset()
        await reconnected(proxy, a, links)
        for one in holders:
            await eventually(lambda one=one: _verified(one), f"{one} is had still")  # type: ignore[misc]
        await turns.are_waited_for()
        assert turns.missing == scenes.keys()
        assert not [one for one in holders if one.has_left]

        links = proxy.connections
        proxy.drop_reply(OpCode.DELETE)
        for one in holders:
            one.leave.set()
        await all_left(holders)
        assert [one for one in holders if one.lost] == []
        assert proxy.connections > links
        await turns.come()
        assert await a.get_ephemerals() == []


async def _verified(one: Somebody) -> bool:
    try:
        await one.mine.verify()
    except ConnectionLossError:
        return False
    return True


@on("embedded", "asyncio")
async def test_links_break(server: ServerUnderTest) -> None:
    await breaks(server)


@on("ensemble", "trio")
async def test_links_to_real_servers_break(server: ServerUnderTest) -> None:
    await breaks(server)


# --- sessions that end ---------------------------------------------------------------------------


async def ends(server: ServerUnderTest) -> None:
    """What was held is lost, and says so; what is kept is there anew; who waits is woken."""
    woken = anyio.Event()

    async def wait(client: Client) -> None:
        async with Condition(client, WAITING) as mine:
            await mine.wait()
        woken.set()

    async with (
        connect(server, session_timeout=LONG) as a,
        connect(server, session_timeout=LONG) as b,
        anyio.create_task_group() as tasks,
    ):
        await prepare(b, HELD)
        await catch_up(a)
        holders = [Somebody(name, scene, a) for name, scene in HELD.items()]
        keepers = [Somebody(name, scene, a) for name, scene in KEPT.items()]
        for one in holders + keepers:
            tasks.start_soon(one.run)
        tasks.start_soon(wait, a)
        await all_have(holders + keepers)
        await eventually(lambda: _waiters(b, 1), "one waits for the condition")
        turns = Turns(b)
        for name, scene in HELD.items():
            tasks.start_soon(turns.take, name, scene)
        await turns.are_waited_for()
        assert turns.missing == HELD.keys()
        tokens = [keeper.mine.tokens() for keeper in keepers]
        assert all(tokens)

        await end_session(server.hosts, a)
        await all_left(holders)
        for one in holders:
            assert one.lost is not None, one
            # By the clock, if it hears of it late.
            assert one.lost.reason is not LossReason.CLOSED, one
        await turns.come()
        with anyio.fail_after(PATIENCE):
            await woken.wait()
        for keeper, before in zip(keepers, tokens, strict=True):
            await eventually(
                lambda keeper=keeper, before=before: bool(keeper.mine.tokens() - before),  # type: ignore[misc]
                f"{keeper} is there anew",
            )
            keeper.leave.set()
        await all_left(keepers)
        assert await a.get_ephemerals() == []


async def _waiters(client: Client, count: int) -> bool:
    await catch_up(client)
    return len(await Condition(client, WAITING).waiters()) == count


@on("embedded", "trio")
async def test_sessions_end(server: ServerUnderTest) -> None:
    await ends(server)


@on("standalone", "asyncio+uvloop")
async def test_sessions_on_a_real_server_end(server: ServerUnderTest) -> None:
    await ends(server)


# --- processes that die --------------------------------------------------------------------------


async def dies(server: ServerUnderTest) -> None:
    """With everything in its hands: others get it, and what it has done was done once."""
    scenes = HELD | KEPT
    done: Counter[str] = Counter()
    woken = anyio.Event()

    async def wait(client: Client) -> None:
        async with Condition(client, WAITING) as mine:
            await mine.wait()
        woken.set()

    async with connect(server, session_timeout=LONG) as b, anyio.create_task_group() as tasks:
        await prepare(b, scenes)
        command = [sys.executable, "-m", "kit.every_recipe", server.connect_string]
        env = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"}
        async with await anyio.open_process(command, stderr=None, env=env) as process:
            try:
                assert process.stdout is not None
                lines = _lines(TextReceiveStream(process.stdout))
                with anyio.fail_after(2 * PATIENCE):
                    assert await anext(lines) == HOLDS
                await eventually(lambda: _waiters(b, 1), "it waits for the condition")
                tasks.start_soon(wait, b)
                await eventually(lambda: _waiters(b, 2), "another one does")
                turns = Turns(b)
                for name, scene in scenes.items():
                    tasks.start_soon(turns.take, name, scene)
                await turns.are_waited_for()
                assert turns.missing == scenes.keys()
                while len(done) < len(DONE):
                    done[await anext(lines)] += 1
                async with Condition(b, WAITING) as mine:
                    # The one that was notified dies before it has the lock again.
                    assert await mine.notify() == 1
                    process.kill()
                    await process.wait()
                done.update([line async for line in lines])
            finally:
                if process.returncode is None:
                    process.kill()
        await turns.come()
        with anyio.fail_after(PATIENCE):
            await woken.wait()
        await catch_up(b)
        for name, what in DONE.items():
            count = await what.count(b, f"/done/{name}")
            assert done[name] <= count <= done[name] + 1, name


async def _lines(stream: TextReceiveStream) -> AsyncIterator[str]:
    rest = ""
    async for chunk in stream:
        *whole, rest = (rest + chunk).split("\n")
        for line in whole:
            yield line


@on("embedded", "asyncio+uvloop")
async def test_processes_die(server: ServerUnderTest) -> None:
    await dies(server)


@on("ensemble", "asyncio")
async def test_processes_of_real_servers_die(server: ServerUnderTest) -> None:
    await dies(server)


# --- what is followed, and what is done ----------------------------------------------------------


async def changes(server: ServerUnderTest) -> None:
    """What happens while there is no link, or no session, is seen after it."""
    async with (
        through_a_proxy(server) as (proxy, a),
        connect(server, session_timeout=LONG) as b,
        anyio.create_task_group() as tasks,
        AsyncExitStack() as stack,
    ):
        change: dict[str, Callable[[int], Awaitable[object]]] = {}
        seen: dict[str, Seen] = {}
        for name, what in FOLLOWED.items():
            change[name] = await stack.enter_async_context(what.change(b, f"/{name}"))
            await change[name](1)
            seen[name] = await stack.enter_async_context(what.observe(a, f"/{name}"))
        gate = Barrier(b, "/gate")
        await gate.set()
        await catch_up(a)
        is_open = anyio.Event()

        async def wait_at_the_gate() -> None:
            await Barrier(a, "/gate").wait()
            is_open.set()

        tasks.start_soon(wait_at_the_gate)

        async def all_see(number: int) -> None:
            for name in FOLLOWED:
                await eventually(lambda name=name: seen[name]() == number, f"{name} is {number}")  # type: ignore[misc]

        await all_see(1)
        links = proxy.connections
        proxy.reset()
        await reconnected(proxy, a, links)
        for make in change.values():
            await make(2)
        await all_see(2)

        proxy.refuse()
        proxy.reset()
        await eventually(lambda: a.state is SessionState.SUSPENDED, "it has no link")
        for make in change.values():
            await make(3)
        proxy.heal()
        await all_see(3)

        await end_session(server.hosts, a)
        for make in change.values():
            await make(4)
        await all_see(4)
        assert not is_open.is_set()
        await gate.remove()
        with anyio.fail_after(PATIENCE):
            await is_open.wait()


@on("embedded", "trio")
async def test_what_is_followed(server: ServerUnderTest) -> None:
    await changes(server)


@on("ensemble", "asyncio+uvloop")
async def test_what_is_followed_on_real_servers(server: ServerUnderTest) -> None:
    await changes(server)


async def counts(server: ServerUnderTest) -> None:
    """Answers and requests are lost: what was confirmed has happened, and nothing happens twice."""
    async with anyio.create_task_group() as tasks:
        for name, what in DONE.items():
            tasks.start_soon(counts_one, server, name, what)


async def counts_one(server: ServerUnderTest, name: str, what: Done) -> None:
    path = f"/{name}"
    async with through_a_proxy(server) as (proxy, a), connect(server) as b:
        confirmed = unknown = 0
        for number in range(9):
            if number % 3 == 1:
                proxy.drop_reply(WRITES)
            if number % 3 == 2:
                proxy.drop_request(WRITES)
            try:
                await what.do(a, path)
                confirmed += 1
            except ConnectionLossError as error:
                unknown += error.outcome is Outcome.UNKNOWN
        await catch_up(b)
        count = await what.count(b, path)
        most = confirmed + (6 if what.may_lose else unknown)
        assert confirmed <= count <= most, name


@on("embedded", "asyncio")
async def test_what_is_done(server: ServerUnderTest) -> None:
    await counts(server)


@on("standalone", "trio")
async def test_what_is_done_on_a_real_server(server: ServerUnderTest) -> None:
    await counts(server)
