"""The short form of `python -m tests.assurance.chaos.hostile_memory`, and its verdict."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import anyio
import pytest

import aiolead

from .hostile_memory import MIB, MOST_RESIDENT, MOST_TRACED, Sample, Work, judge

ROOT = Path(__file__).parents[3]


def run(*options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.assurance.chaos.hostile_memory", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_memory_stays_flat_for_some_seconds(loop: str) -> None:
    code, out = run("--minutes", "0.08", "--warm-up", "2", "--every", "0.3", "--loop", loop)
    assert code == 0, out
    found = re.findall(r"^ *(\d+) ([^.:\n]+)$", out, re.MULTILINE)
    counts = Counter({what: int(count) for count, what in found})
    # The hostile writer was there, and everybody went on all the same.
    assert any(what.endswith("Error") for what in counts), out
    for what in ("kept hold entered", "consume", "do Counter", "hold Lock", "follow TreeCache"):
        assert counts[what] > 0, out


@pytest.mark.anyio
async def test_error_at_the_moment_of_the_end_is_none_of_the_run() -> None:
    is_there = anyio.Event()

    async def fail_at_the_end() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise aiolead.NoNodeError("/gone")

    async def do(_: random.Random) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail_at_the_end)
            is_there.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        work = Work(cast("aiolead.Client", None), seed=1)
        tasks.start_soon(work.repeat, "do", do)
        await is_there.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.timeout(120)
def test_leak_is_found() -> None:
    leak = str(4 * MIB)
    code, out = run("--minutes", "0.05", "--warm-up", "1", "--every", "0.3", "--leak", leak)
    assert code == 1, out
    assert "WRONG: traced: " in out


def samples(*traced: int, resident: int = 0) -> list[Sample]:
    return [Sample(float(at), value, value + resident) for at, value in enumerate(traced)]


def test_lowest_measurement_of_each_quarter_counts() -> None:
    flat = samples(5, 5, 5, 5, 5, 5, 5, 5)
    high = 5 + MOST_TRACED + 1
    assert judge(flat) == []
    assert judge(samples(5, high, 5, 5, 5, 5, high, 5)) == []
    assert judge(samples(high, high, high, 5, 5, 5, 5, 5)) == []
    assert judge(samples(5, 5, 5, 5, 5, 5, high - 1, high - 1)) == []
    assert judge(samples(5, 5, 5, 5, 5, 5, high, high))[0].startswith("traced: ")


def test_memory_that_python_does_not_know_of_counts() -> None:
    grown = [*samples(5, 5, 5), *samples(5, resident=MOST_RESIDENT + 1)]
    assert [line.partition(":")[0] for line in judge(grown)] == ["resident"]
