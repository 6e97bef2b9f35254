"""A consumer that is cancelled, at every await: it leaves nothing, and no item is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import anyio
import pytest
from support.cancelling import (
    Moment,
    at_suspension,
    cancel_everywhere,
    moments,
    native_only,
    no_complaints,
)
from support.recipes import PATIENCE, contenders_left, eventually, in_memory

from aiolead import Queue
from aiolead.testing import EmbeddedServer

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH, CLAIMS = "/jobs", "/jobs-claims"


async def get(queue: Queue) -> None:
    async with queue.get() as item:
        await item.verify()


async def get_in_time(queue: Queue) -> None:
    async with queue.get(timeout=PATIENCE):
        await anyio.lowlevel.checkpoint()


async def try_to_get(queue: Queue) -> None:
    async with queue.try_get():
        await anyio.lowlevel.checkpoint()


async def get_and_ack(queue: Queue) -> None:
    async with queue.get() as item:
        await item.ack()
        await anyio.lowlevel.checkpoint()


async def consume(queue: Queue) -> None:
    async with queue.consume() as items:
        await anext(items)
        item = await anext(items)  # the same one: it was not acknowledged
        await item.ack()


Verb = Callable[[Queue], Coroutine[Any, Any, None]]
VERBS: list[Verb] = [get, get_and_ack, consume]
MORE_VERBS: list[Verb] = [get_in_time, try_to_get]


def verbs(*lists: list[Verb]) -> Any:
    every = [verb for verbs in lists for verb in verbs]
    return pytest.mark.parametrize("verb", every, ids=lambda verb: verb.__name__)


situations = pytest.mark.parametrize("contended", [False, True], ids=["alone", "claimed"])


@pytest.fixture(autouse=True)
def quiet_logs(caplog: pytest.LogCaptureFixture) -> Any:
    """No test here may leave a complaint behind."""
    yield
    no_complaints(caplog)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@verbs(VERBS, MORE_VERBS)
@moments
@situations
async def test_cancelled_by_a_scope_anywhere(moment: Moment, verb: Verb, contended: bool) -> None:
    await _cancel_everywhere("scope", moment, verb, contended)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@verbs(VERBS)
@moments
@situations
async def test_cancelled_natively_anywhere(moment: Moment, verb: Verb, contended: bool) -> None:
    await _cancel_everywhere("native", moment, verb, contended)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@verbs([get_and_ack])
@situations
async def test_cancelled_natively_and_again_at_once(verb: Verb, contended: bool) -> None:
    await _cancel_everywhere("native twice", at_suspension, verb, contended)


async def _cancel_everywhere(way: str, moment: Moment, verb: Verb, contended: bool) -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        mine, theirs = Queue(a, PATH), Queue(b, PATH)
        await mine.put(b"x")

        @asynccontextmanager
        async def rival() -> AsyncIterator[None]:
            """Somebody has the item as it begins, and gives it back when it is wanted."""
            has_it = anyio.Event()

            async def hold() -> None:
                before = server.requests["GET_CHILDREN"]
                async with theirs.get():
                    has_it.set()
                    await eventually(
                        lambda: ended or server.requests["GET_CHILDREN"] > before, "it is wanted"
                    )

            ended = False
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold)
                await has_it.wait()
                yield
                ended = True

        async def afterwards() -> None:
            """There is one item, for anybody, and nothing else."""
            await eventually(
                lambda: contenders_left(server, CLAIMS) == [] and server.watches() == {},
                f"nothing is left of it: {server.znodes()} {server.watches()}",
            )
            if contenders_left(server, PATH) == []:
                await theirs.put(b"x")
            assert len(contenders_left(server, PATH)) == 1
            async with theirs.get(timeout=PATIENCE) as item:
                await item.verify()
            await eventually(lambda: contenders_left(server, CLAIMS) == [], "it is given back")
            await eventually(lambda: server.watches() == {}, "nothing is watched")

        around = rival if contended else nullcontext
        await cancel_everywhere(way, moment, a, partial(verb, mine), afterwards, around=around)
