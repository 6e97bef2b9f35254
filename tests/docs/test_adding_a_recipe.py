"""The recipe of adding-a-recipe.md: on every server, with lost answers, cancelled anywhere."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from types import ModuleType
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, in_memory, nothing_left
from kit.pages import ROOT, Load, Program
from recipes.cancelling import Moment, at_suspension, cancel_everywhere, moments, native_only

from aiolead import AcquireTimeout, Client, LockLost
from aiolead.errors import ConfigurationError, LossReason
from aiolead.testing import EmbeddedServer, OpCode

PATH = "/jobs/report"
HOUR = 3600.0


@pytest.fixture
def example(load: Load) -> ModuleType:
    return load("rate_gate.py")


async def test_one_process_enters_per_period(example: ModuleType, server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        gates = [example.RateGate(client, PATH, period=HOUR) for client in (a, b)]
        async with gates[0].try_acquire() as held:
            assert held is not None
            await held.verify()
            async with gates[1].try_acquire() as other:
                assert other is None, "another process is inside"
        for client, gate in zip((a, b), gates, strict=True):
            await catch_up(client)
            async with gate.try_acquire() as again:
                assert again is None, "the period is not over"
            with pytest.raises(AcquireTimeout):
                async with gate.acquire(timeout=0.1):
                    pytest.fail("the period is not over")
        data, _ = await b.get(PATH)
        assert int(data) == held.token

        async def is_empty() -> bool:
            return await b.get_children(PATH) == []

        await eventually(is_empty, "nobody is inside")


async def test_next_period_is_waited_for(example: ModuleType, server: ServerUnderTest) -> None:
    period = 0.3
    async with connect(server) as client:
        gate = example.RateGate(client, PATH, period=period)
        marks = []
        for _ in range(3):
            async with gate.acquire(timeout=PATIENCE):
                marks.append((await client.get(PATH))[1].mtime)
    assert all(later - before >= period * 1000 for before, later in pairwise(marks))


async def test_next_process_waits(example: ModuleType, server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        tokens = []

        async def get_in() -> None:
            async with example.RateGate(b, PATH, period=0) as held:
                tokens.append(held.token)

        async with anyio.create_task_group() as tasks:
            async with example.RateGate(a, PATH, period=0) as held:
                tasks.start_soon(get_in)
                await eventually(lambda: b._core.machine.watches.__len__() > 0, "it waits")
                assert tokens == []
        assert tokens > [held.token]


async def test_lost_run_counts(example: ModuleType) -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        with pytest.raises(LockLost) as lost:
            async with example.RateGate(a, PATH, period=HOUR):
                await b.delete(f"{PATH}/running")
                await anyio.sleep(PATIENCE)
        assert lost.value.reason is LossReason.DELETED
        async with example.RateGate(b, PATH, period=HOUR).try_acquire() as held:
            assert held is None


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("which", [OpCode.CREATE2, OpCode.MULTI], ids=["create", "mark"])
async def test_lost_answer_is_looked_for(example: ModuleType, which: OpCode, applied: bool) -> None:
    """Of the create, or of the transaction that marks the run: both are looked for."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await a.ensure_path(PATH)
        (server.drop_reply if applied else server.drop_request)(which)
        async with example.RateGate(a, PATH, period=HOUR).acquire(timeout=PATIENCE) as held:
            await held.verify()
        data, mark = await b.get(PATH)
        assert (int(data), mark.version) == (held.token, 1)
        async with example.RateGate(b, PATH, period=HOUR).try_acquire() as other:
            assert other is None


async def _get_in(example: ModuleType, client: Client) -> None:
    async with example.RateGate(client, PATH, period=0) as held:
        await held.verify()


@pytest.mark.parametrize("way", ["scope"])
@moments
async def test_cancellation_leaves_nothing(example: ModuleType, way: str, moment: Moment) -> None:
    await _cancel_everywhere(example, way, moment)


@native_only
@pytest.mark.parametrize("way", ["native", "native twice"])
async def test_native_cancellation_leaves_nothing(example: ModuleType, way: str) -> None:
    await _cancel_everywhere(example, way, at_suspension)


async def _cancel_everywhere(example: ModuleType, way: str, moment: Moment) -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:

        async def afterwards() -> None:
            await _get_in(example, b)
            await nothing_left(server, PATH)

        await cancel_everywhere(way, moment, a, lambda: _get_in(example, a), afterwards)


@pytest.mark.parametrize("period", [-1, float("nan"), "60"])
async def test_invalid_arguments_are_refused(example: ModuleType, period: Any) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        with pytest.raises(ConfigurationError, match="period"):
            example.RateGate(client, PATH, period=period)


@pytest.mark.exhaustive("runs an example as a program")
def test_example_as_a_program(hosts: str) -> None:
    with_token, without = (Program("examples/rate_gate.py", hosts=hosts).run() for _ in range(2))
    assert re.fullmatch(r"makes the report, token \d+", with_token[0])
    assert without == ["nothing to do: the last report is not a minute old"]


def test_excerpts_on_the_page_are_in_the_example() -> None:
    """Each excerpt of the recipe on the page stands in the example, line by line."""
    page = (ROOT / "docs" / "contributing" / "adding-a-recipe.md").read_text()
    source = (ROOT / "examples" / "rate_gate.py").read_text()
    excerpts = re.findall(r"<!-- excerpt -->\n\n((?:(?: {4}.*)?\n)+)", page)
    assert len(excerpts) >= 3
    for excerpt in excerpts:
        lines = [line for line in inspect.cleandoc(excerpt).splitlines() if line.strip() != "..."]
        for line in lines:
            assert line.strip() in source, line
