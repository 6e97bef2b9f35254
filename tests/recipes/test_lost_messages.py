"""One message of each recipe is lost, and those behind it pass: the recipe goes on.

So it is with a server that changes hands: it can skip a request, or its answer, and go on with what
is behind it. Where nothing is behind it, pings are answered all the same.

The fault is aimed at each request that a recipe makes, and at each answer that it gets, one after
the other. Special cases of a recipe are in its own tests.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    OVER_AIOZK,
    PATIENCE,
    catch_up,
    connect,
    eventually,
    names,
    owned,
    proxy_before,
)
from kit.every_recipe import DONE, FOLLOWED, HELD, KEPT, Done, Followed, Held
from kit.faults import only_on
from kit.virtual_time import Link, on_virtual_time
from kit.virtual_time import connect as connect_virtually

from aiolead import Client, ConnectionLossError, Election, Phase, Queue, TaskBoard
from aiolead.testing import EmbeddedServer, FaultProxy, MemoryProxy, OpCode

pytestmark = pytest.mark.timeout(240)

SESSION = 6.0
"""In seconds. A request without an answer is given up after two thirds of it."""

AT_ONCE = 40
"""How many clients there are at the same time."""

REQUESTS = frozenset(OpCode) - {
    OpCode.CREATE_SESSION,
    OpCode.CLOSE_SESSION,
    OpCode.PING,
    OpCode.NOTIFICATION,
    OpCode.ERROR,
}

Lost = Literal["request", "reply"]
Use = Callable[[Client, Client, str], Awaitable[object]]
"""Uses a recipe on one client, whose messages get lost, with the help of another one, at a path."""


@dataclass(frozen=True, slots=True)
class Aim:
    """Which message is lost: `None` for none."""

    lost: Lost | None = None
    number: int = 0

    def __str__(self) -> str:
        return "nothing" if self.lost is None else f"{self.lost}-{self.number}"

    def arm(self, proxy: FaultProxy | MemoryProxy) -> None:
        if self.lost is not None:
            drop = proxy.drop_request if self.lost == "request" else proxy.drop_reply
            drop(REQUESTS, how="skip", after=self.number)


Behind = Callable[[], AbstractAsyncContextManager[tuple[FaultProxy | MemoryProxy, Client]]]
"""A proxy, and a client whose messages get lost there."""


def over_tcp(server: ServerUnderTest) -> Behind:
    @asynccontextmanager
    async def behind() -> AsyncIterator[tuple[FaultProxy, Client]]:
        with proxy_before(server) as proxy:
            async with connect(proxy, session_timeout=SESSION) as client:
                yield proxy, client

    return behind


def in_memory(server: EmbeddedServer) -> Behind:
    """On virtual time, nothing has to be waited for."""

    @asynccontextmanager
    async def behind() -> AsyncIterator[tuple[MemoryProxy, Client]]:
        proxy = Link(server)
        async with proxy.connect(session_timeout=SESSION) as client:
            yield proxy, client

    return behind


class Range:
    """Where recipes are shot at: behind a proxy each, beside a client that is left alone."""

    def __init__(self, behind: Behind, helper: Client) -> None:
        self._behind = behind
        self._helper = helper
        self._limit = anyio.CapacityLimiter(AT_ONCE)

    async def shoot_at(self, name: str, use: Use) -> None:
        """Uses a recipe once for each of its messages."""
        count = await self._use(name, use, Aim())
        assert count, name
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(self._use, name, use, Aim("request", number))
                tasks.start_soon(self._use, name, use, Aim("reply", number))

    async def _use(self, name: str, use: Use, aim: Aim) -> int:
        """Returns how many requests there were."""
        path = f"/{name}-{aim}"
        async with self._limit, self._behind() as (proxy, client):
            await client.ready()
            session_id = client.session_id
            aim.arm(proxy)
            try:
                with anyio.fail_after(4 * PATIENCE):
                    await use(client, self._helper, path)
            except Exception as error:
                error.add_note(f"{name}: lost {aim}; passed: {dict(proxy.requests)}")
                raise
            counted = sum(proxy.requests[op.name] for op in REQUESTS)
            assert client.session_id == session_id, f"{path}: the session has ended"
        return counted


@contextmanager
def no_job_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails where the client has logged that a job of its own ended with an error."""
    with caplog.at_level(logging.WARNING, logger="aiolead"):
        yield
    failed = [record.getMessage() for record in caplog.records if "background" in record.msg]
    assert failed == []


async def over_connection_losses(act: Callable[[], Awaitable[Any]]) -> Any:
    """Repeats a request, as a user may."""
    while True:
        try:
            return await act()
        except ConnectionLossError:
            continue


# --- all recipes by their kinds ------------------------------------------------------------------


def holding(scene: Held) -> Use:
    async def use(client: Client, helper: Client, path: str) -> None:
        if scene.prepare is not None:
            await scene.prepare(helper, path)
            await over_connection_losses(client.sync)
        async with scene.enter(client, path) as mine:
            await over_connection_losses(mine.verify)
        # The session lives on, so nothing but the release can have let the next one in.
        with anyio.fail_after(PATIENCE):
            await scene.turn(helper, path)

        async def nothing_left() -> bool:
            return await over_connection_losses(lambda: owned(client)) == []

        await eventually(nothing_left, f"{path}: no znode is left behind")

    return use


def following(scene: Followed) -> Use:
    async def use(client: Client, helper: Client, path: str) -> None:
        async with scene.change(helper, path) as change:
            await change(1)
            async with scene.observe(client, path) as seen:
                await eventually(lambda: seen() == 1, f"{path}: it sees the first value")
                await change(2)
                await eventually(lambda: seen() == 2, f"{path}: it sees the second value")

    return use


def doing(what: Done) -> Use:
    async def use(client: Client, helper: Client, path: str) -> None:
        done = unknown = 0
        for _ in range(3):
            try:
                await what.do(client, path)
                done += 1
            except ConnectionLossError:
                unknown += 1
        await catch_up(helper)
        count = await what.count(helper, path)
        assert done <= count <= done + unknown or what.may_lose, (path, done, unknown, count)
        assert not (unknown and what.finds_out), path

    return use


# --- what is finished once -----------------------------------------------------------------------


async def acknowledge(client: Client, helper: Client, path: str) -> None:
    await Queue(helper, path).put_many([b"0", b"1"])
    await over_connection_losses(client.sync)
    async with Queue(client, path).get() as item:
        await item.ack()
    await catch_up(helper)
    assert (item.data, await Queue(helper, path).size()) == (b"0", 1)


async def move_to_dead_letters(client: Client, helper: Client, path: str) -> None:
    dead = f"{path}-dead"
    await Queue(helper, path).put(b"x")
    await over_connection_losses(client.sync)
    async with Queue(client, path, max_attempts=1, dead_letters=dead).get():
        pass
    await eventually(lambda: _sizes(helper, path, dead, (0, 1)), f"{path}: it is moved once")


async def _sizes(client: Client, path: str, dead: str, sizes: tuple[int, int]) -> bool:
    await catch_up(client)
    return (await Queue(client, path).size(), await Queue(client, dead).size()) == sizes


async def finish(client: Client, helper: Client, path: str) -> None:
    board = TaskBoard(helper, path)
    name = await board.submit(b"x")
    await over_connection_losses(client.sync)
    async with TaskBoard(client, path, identity="me").claim() as task:
        await task.finish(b"y")
    await catch_up(helper)
    result = await board.result(name)
    assert (result.data, result.worker) == (b"y", "me")
    for which in ("tasks", "claims"):
        assert await names(helper, f"{path}/{which}") == []  # or the server has deleted it


# --- the parts of a planned hand-over ------------------------------------------------------------


async def step_behind(client: Client, helper: Client, path: str) -> None:
    """A waiter is asked for its place."""
    await hand_over(helper, client, helper, path)


async def hand_over_to_a_successor(client: Client, helper: Client, path: str) -> None:
    """A leader asks a waiter for its place, and resigns."""
    await hand_over(client, helper, helper, path)


async def warm_up(client: Client, helper: Client, path: str) -> None:
    """A successor reports that it is ready."""
    await hand_over(helper, helper, client, path)


async def hand_over(first: Client, middle: Client, last: Client, path: str) -> None:
    """The clients lead in this order: the first one, the last one, the one between them."""
    led: list[str] = []

    async def lead() -> None:
        async with Election(middle, path, identity="middle").leadership():
            led.append("middle")

    async with anyio.create_task_group() as tasks:
        async with Election(first, path, identity="first").leadership() as term:
            tasks.start_soon(lead)
            await joined(first, path, 2)
            async with Election(last, path, identity="last").campaign(ready=False) as view:
                tasks.start_soon(partial(term.hand_over, "last", timeout=None))
                async for state in view:
                    if state.is_next:
                        await view.set_ready()
                    if state.phase is Phase.LEADING:
                        led.append("last")
                        break
                assert term.is_released
    assert led == ["last", "middle"]


async def joined(client: Client, path: str, count: int) -> None:
    async def are_there() -> bool:
        queue = await over_connection_losses(Election(client, path).contenders)
        return len(queue) == count

    await eventually(are_there, f"{path}: {count} contend")


# --- all of them ---------------------------------------------------------------------------------

USES: dict[str, dict[str, Use]] = {
    "held": {name: holding(scene) for name, scene in (HELD | KEPT).items()},
    "followed": {name: following(scene) for name, scene in FOLLOWED.items()},
    "done": {name: doing(what) for name, what in DONE.items()},
    "finished": {
        "acknowledging": acknowledge,
        "moving to dead letters": move_to_dead_letters,
        "finishing": finish,
    },
    "handed over": {
        "stepping behind": step_behind,
        "handing over": hand_over_to_a_successor,
        "warming up": warm_up,
    },
}


async def lose_each_message(
    behind: Behind, helper: Client, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with no_job_fails(caplog):
        async with anyio.create_task_group() as tasks:
            shooting = Range(behind, helper)
            for name, use in USES[kind].items():
                tasks.start_soon(shooting.shoot_at, name, use)


@pytest.mark.exhaustive("loses each of some hundred messages", only="held")
@pytest.mark.parametrize("kind", USES)
def test_recipes_go_on_after_any_lost_message(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as helper:
            await lose_each_message(in_memory(server), helper, kind, caplog)

    on_virtual_time("asyncio", play)


@pytest.mark.exhaustive("the same as on the embedded server")
@only_on("asyncio" if OVER_AIOZK else "trio")
@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("server", ["embedded" if OVER_AIOZK else "standalone"], indirect=True)
async def test_recipes_go_on_after_any_lost_message_at_a_real_server(
    server: ServerUnderTest, client: Client, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_each_message(over_tcp(server), client, kind, caplog)
