"""A task board whose workers and onlookers are cancelled, at every await: nothing is left, and no
task is lost."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest
from support.cancelling import Moment, cancel_everywhere, moments, native_only, no_complaints
from support.recipes import PATIENCE, contenders_left, eventually, in_memory

from aiolead import TaskBoard
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/board"
RESULT = "task-0000000000"
"""A task that has a result as the test begins."""


async def report(board: TaskBoard) -> None:
    async with board.claim() as task:
        await task.report(0.5)
        await task.verify()


async def finish(board: TaskBoard) -> None:
    async with board.claim() as task:
        await task.finish(b"done")
        await anyio.lowlevel.checkpoint()


async def look_on(board: TaskBoard) -> None:
    async with board.observe() as view:
        async for states in view:
            assert RESULT in states
            break


async def get_result(board: TaskBoard) -> None:
    await board.result(RESULT)


async def wait_for_result(board: TaskBoard) -> None:
    name = await board.submit(b"x")
    with anyio.move_on_after(0.01):
        await board.result(name)


Verb = Callable[[TaskBoard], Coroutine[Any, Any, None]]
VERBS: list[Verb] = [report, finish, look_on, get_result, wait_for_result]
verbs = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)


@pytest.fixture(autouse=True)
def quiet_logs(caplog: pytest.LogCaptureFixture) -> Any:
    """No test here may leave a complaint behind."""
    yield
    no_complaints(caplog)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@verbs
@moments
async def test_cancelled_by_a_scope_anywhere(moment: Moment, verb: Verb) -> None:
    await _cancel_everywhere("scope", moment, verb)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@pytest.mark.parametrize("verb", [finish, look_on], ids=lambda verb: verb.__name__)
@moments
async def test_cancelled_natively_anywhere(moment: Moment, verb: Verb) -> None:
    await _cancel_everywhere("native", moment, verb)


async def _cancel_everywhere(way: str, moment: Moment, verb: Verb) -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        mine, theirs = TaskBoard(a, PATH, report_every=0), TaskBoard(b, PATH)
        await theirs.submit(b"x")
        async with theirs.claim() as task:
            await task.finish(b"done")
        await theirs.submit(b"x")

        async def afterwards() -> None:
            """There is a task, for anybody, and nothing else."""
            await eventually(
                lambda: contenders_left(server, f"{PATH}/claims") == [] and server.watches() == {},
                f"nothing is left of it: {server.znodes()} {server.watches()}",
            )
            if contenders_left(server, f"{PATH}/tasks") == []:
                await theirs.submit(b"x")
            async with theirs.claim(timeout=PATIENCE) as task:
                await task.verify()
            await eventually(lambda: contenders_left(server, f"{PATH}/claims") == [], "given back")
            await eventually(lambda: server.watches() == {}, "nothing is watched")

        await cancel_everywhere(way, moment, a, partial(verb, mine), afterwards)
