"""Every recipe under the same faults, on embedded and on real servers.

Links break in the middle of a message, sessions end, processes die. All recipes are played at the
same time, on the same two clients: most of the time is waiting. Each recipe has its own tests
besides.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, owned
from kit.every_recipe import DONE, FOLLOWED, HELD, HOLDS, KEPT, WAITING, Done, Held, Seen
from kit.faults import end_session
from kit.selection import BACKENDS
from recipes.blocks import happens
from recipes.crowd import Crowd, crowd

from aiolead import Barrier, Client, Condition, ConnectionLossError
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


class Turns:
    """Others that want the same as the holders, until they have got it."""

    def __init__(self, client: Client, scenes: dict[str, Held], tasks: Any) -> None:
        self.missing = set(scenes)
        self._client = client
        for name, scene in scenes.items():
            tasks.start_soon(self._take, name, scene)

    async def _take(self, name: str, scene: Held) -> None:
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


async def all_enter(them: Crowd, client: Client, scenes: dict[str, Held]) -> None:
    for name, scene in scenes.items():
        them.come(name, to=scene.enter(client, f"/{name}"))
    await eventually(lambda: them.inside.keys() >= scenes.keys(), f"all have theirs: {them.log}")


async def all_left(them: Crowd, scenes: dict[str, Held]) -> None:
    await eventually(
        lambda: them.left >= scenes.keys(), f"all have left: {scenes.keys() - them.left}"
    )


@dataclass(frozen=True, slots=True)
class Address:
    connect_string: str


@asynccontextmanager
async def through_a_proxy(server: ServerUnderTest) -> AsyncIterator[tuple[FaultProxy, Client]]:
    with FaultProxy(*parse_connect_string(server.hosts).hosts[0]) as proxy:
        hosts = proxy.connect_string + server.chroot
        async with connect(Address(hosts), session_timeout=LONG) as client:
            yield proxy, client


async def reset(proxy: FaultProxy, client: Client) -> None:
    """Breaks the link, and waits until the client has another one."""
    links = proxy.connections
    proxy.reset()
    await eventually(
        lambda: proxy.connections > links and client.state is SessionState.CONNECTED,
        "it is on another link",
    )


async def wait_for_condition(client: Client, woken: anyio.Event) -> None:
    async with Condition(client, WAITING) as mine:
        await mine.wait()
    woken.set()


async def waiters_are(client: Client, count: int) -> None:
    async def is_so() -> bool:
        await catch_up(client)
        return len(await Condition(client, WAITING).waiters()) == count

    await eventually(is_so, f"{count} wait for the condition")


# --- links that break ----------------------------------------------------------------------------


async def breaks(server: ServerUnderTest) -> None:
    """While everybody enters, while they hold or wait, and while they leave."""
    scenes = HELD | KEPT
    async with (
        through_a_proxy(server) as (proxy, a),
        connect(server, session_timeout=LONG) as b,
        crowd() as them,
        anyio.create_task_group() as tasks,
    ):
        await prepare(b, scenes)
        await catch_up(a)
        proxy.drop_reply(WRITES, 3)
        await all_enter(them, a, scenes)
        # How many it were is up to the schedule: requests under way together go down with one link.
        assert proxy.connections > 1
        proxy.heal()

        turns = Turns(b, scenes, tasks)
        await turns.are_waited_for()
        await reset(proxy, a)
        for name in scenes:
            await eventually(partial(_verified, them, name), f"{name} is had still")
        await turns.are_waited_for()
        assert turns.missing == scenes.keys()
        assert not them.left

        links = proxy.connections
        proxy.drop_reply(OpCode.DELETE)
        them.leave()
        await all_left(them, scenes)
        assert them.losses == {}
        assert proxy.connections > links
        await turns.come()
        assert await owned(a) == []


async def _verified(them: Crowd, name: str) -> bool:
    try:
        await them.inside[name].verify()
    except ConnectionLossError:
        return False
    return True


# --- sessions that end ---------------------------------------------------------------------------


async def ends(server: ServerUnderTest) -> None:
    """Holds are lost, and say so; kept znodes are there again; waiters are woken."""
    woken = anyio.Event()
    async with (
        connect(server, session_timeout=LONG) as a,
        connect(server, session_timeout=LONG) as b,
        crowd() as them,
        anyio.create_task_group() as tasks,
    ):
        await prepare(b, HELD)
        await catch_up(a)
        await all_enter(them, a, HELD | KEPT)
        tasks.start_soon(wait_for_condition, a, woken)
        await waiters_are(b, 1)
        turns = Turns(b, HELD, tasks)
        await turns.are_waited_for()
        assert turns.missing == HELD.keys()
        tokens = {name: them.inside[name].tokens() for name in KEPT}
        assert all(tokens.values())

        await end_session(server.hosts, a)
        await all_left(them, HELD)
        # Lost by the clock, if they learn of it late.
        assert them.losses.keys() == HELD.keys()
        assert LossReason.CLOSED not in {lost.reason for lost in them.losses.values()}
        await turns.come()
        await happens(woken)
        for name, before in tokens.items():
            keeper = them.inside[name]
            await eventually(
                lambda keeper=keeper, before=before: bool(keeper.tokens() - before),  # type: ignore[misc]
                f"{name} is there again",
            )
        them.leave(*KEPT)
        await all_left(them, KEPT)
        assert await owned(a) == []


# --- processes that die --------------------------------------------------------------------------


async def dies(server: ServerUnderTest) -> None:
    """With everything in its hands: others get it, and what it has done was done once."""
    scenes = HELD | KEPT
    done: Counter[str] = Counter()
    woken = anyio.Event()
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
                await waiters_are(b, 1)
                tasks.start_soon(wait_for_condition, b, woken)
                await waiters_are(b, 2)
                turns = Turns(b, scenes, tasks)
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
        await happens(woken)
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


# --- views, and calls ----------------------------------------------------------------------------


async def changes(server: ServerUnderTest) -> None:
    """Changes that happen while there is no link, or no session, are seen after it."""
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

        async def all_change(number: int) -> None:
            for make in change.values():
                await make(number)

        async def all_see(number: int) -> None:
            for name in FOLLOWED:
                await eventually(lambda name=name: seen[name]() == number, f"{name} is {number}")  # type: ignore[misc]

        await all_see(1)
        await reset(proxy, a)
        await all_change(2)
        await all_see(2)

        proxy.refuse()
        proxy.reset()
        await eventually(lambda: a.state is SessionState.SUSPENDED, "it has no link")
        await all_change(3)
        proxy.heal()
        await all_see(3)

        await end_session(server.hosts, a)
        await all_change(4)
        await all_see(4)
        assert not is_open.is_set()
        await gate.remove()
        await happens(is_open)


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


# --- all of them ---------------------------------------------------------------------------------

LOOPS = {loop.id: loop.values[0] for loop in BACKENDS}
PLAYED = [
    (breaks, "embedded", "asyncio"),
    (breaks, "ensemble", "trio"),
    (ends, "embedded", "trio"),
    (ends, "standalone", "asyncio+uvloop"),
    (dies, "embedded", "asyncio+uvloop"),
    (dies, "ensemble", "asyncio"),
    (changes, "embedded", "trio"),
    (changes, "ensemble", "asyncio+uvloop"),
    (counts, "embedded", "asyncio"),
    (counts, "standalone", "trio"),
]
"""Each fault with two kinds of servers. It is one of servers and links, whatever the event loop."""


@pytest.mark.parametrize(
    ("play", "server", "anyio_backend"),
    [
        pytest.param(play, server, LOOPS[loop], id=f"{play.__name__}, {server}, {loop}")
        for play, server, loop in PLAYED
        if loop in LOOPS
    ],
    indirect=["server"],
)
async def test_every_recipe_withstands(
    play: Callable[[ServerUnderTest], Awaitable[None]], server: ServerUnderTest
) -> None:
    await play(server)
