"""Values, counters, numbers, names, configurations and trees, cancelled at every await.

Nothing is left then: no watch, no task, no ephemeral znode. What is done may have been done, once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
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
from support.recipes import PATIENCE, eventually, in_memory

from aiolead import Client, Config, Counter, SequenceAllocator, SharedValue, TreeCache, UniqueNames
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

TOP = "/values"


class Subjects:
    """One object of each kind, used again and again; and what was done with them."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.value = SharedValue(client, f"{TOP}/value", 0, codec=Codec.int32())
        self.counter = Counter(client, f"{TOP}/counter")
        self.promoted = Counter(client, f"{TOP}/counter", promote_after=0)
        self.numbers = SequenceAllocator(client, f"{TOP}/numbers", block=2)
        self.names = UniqueNames(client, f"{TOP}/names")
        self.config = Config(client, f"{TOP}/config", keep=2)
        self.given: list[int] = []
        self.begun = self.added = 0


async def update(subjects: Subjects) -> None:
    await subjects.value.update(lambda value: value + 1)


async def follow(subjects: Subjects) -> None:
    async with subjects.value.observe() as view:
        await anext(aiter(view))


async def add(subjects: Subjects, counter: Counter | None = None) -> None:
    subjects.begun += 1
    await (counter or subjects.counter).add(1)
    subjects.added += 1


async def add_promoted(subjects: Subjects) -> None:
    await add(subjects, subjects.promoted)


async def number(subjects: Subjects) -> None:
    subjects.given.append(await subjects.numbers.next())
    subjects.given.extend(await subjects.numbers.take(2))


async def name(subjects: Subjects) -> None:
    async with subjects.names.claim("n") as held:
        assert held.name == "n-0"
        await held.verify()


async def publish(subjects: Subjects) -> None:
    await subjects.config.publish({"a": b"1", "b": b"1"})


async def observe_config(subjects: Subjects) -> None:
    async with subjects.config.observe() as view:
        await anext(aiter(view))


async def mirror(subjects: Subjects) -> None:
    async with TreeCache(subjects.client, TOP) as cache:
        await anext(cache.events(initial=True))


VERBS = [update, follow, add, add_promoted, number, name, publish, observe_config, mirror]
Verb = Callable[[Subjects], Coroutine[Any, Any, None]]
verbs = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)


@pytest.fixture(autouse=True)
def quiet_logs(caplog: pytest.LogCaptureFixture) -> Any:
    """No test here may leave a complaint behind."""
    yield
    no_complaints(caplog)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@verbs
@moments
async def test_cancelled_by_a_scope_anywhere_it_leaves_nothing(moment: Moment, verb: Verb) -> None:
    await _cancel_everywhere("scope", moment, verb)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@verbs
async def test_cancelled_natively_anywhere_it_leaves_nothing(verb: Verb) -> None:
    await _cancel_everywhere("native", at_suspension, verb)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@verbs
async def test_cancelled_natively_and_again_at_once_it_leaves_nothing(verb: Verb) -> None:
    await _cancel_everywhere("native twice", at_suspension, verb)


async def _cancel_everywhere(way: str, moment: Moment, verb: Verb) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(TOP)
        subjects = Subjects(client)

        def ephemerals() -> list[str]:
            below = (f"{TOP}/names/", f"{TOP}/counter/lock/")
            return [path for path in server.znodes() if path.startswith(below)]

        async def afterwards() -> None:
            await eventually(lambda: not ephemerals() and not server.watches(), "nothing is left")
            with anyio.fail_after(PATIENCE):
                assert subjects.added <= await subjects.counter.get() <= subjects.begun
                assert len(set(subjects.given)) == len(subjects.given)
                keys = (await subjects.config.get()).value
                assert keys in ({}, {"a": b"1", "b": b"1"})

        await cancel_everywhere(way, moment, client, partial(verb, subjects), afterwards)
