"""A seed always gives the same trace, and a schedule that fails is made smaller."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

import anyio
import pytest
from assurance.simulation.other_process import output_of
from assurance.simulation.schedules import scenario

import aiolead
from aiolead.errors import ConfigurationError
from aiolead.model import SessionState
from aiolead.testing.history import Event
from aiolead.testing.simulation import (
    KINDS,
    Backend,
    Outcome,
    Process,
    Schedule,
    World,
    simulate,
)
from aiolead.testing.simulation.faults import STREAMS
from aiolead.testing.simulation.shrink import fewest

SEEDS = (3, 5, 8)


# --- the same trace ---------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "name",
    [
        "scenarios.py:contend",
        "scenarios_hostile.py:threads",
        "scenarios_hostile.py:hostile",
        "scenarios_hostile.py:share_session",
        "scenarios_one_znode.py:one_znode",
    ],
)
def test_seed_gives_the_same_trace_in_every_process(name: str, backend: Backend) -> None:
    """The hashes of strings, and earlier schedules in the process, have no effect."""
    mine = [simulate(scenario(name), seed=seed, backend=backend).digest for seed in SEEDS]
    assert len(set(mine)) == len(SEEDS)
    code = (
        "from aiolead.testing.simulation import simulate\n"
        "from assurance.simulation.schedules import scenario\n"
        f"for seed in {SEEDS!r}:\n"
        f"    print(simulate(scenario({name!r}), seed=seed, backend={backend!r}).digest)\n"
    )
    for hash_seed in (1, 2):
        assert output_of(code, hash_seed=hash_seed).split() == mine


def test_events_before_the_first_fault_do_not_depend_on_it() -> None:
    """The world before the first fault is the same with and without it."""
    schedule = next(s for s in map(Schedule.of, range(100)) if len(s.faults) == 3)
    whole = simulate(scenario("contend"), schedule=schedule)
    without = simulate(scenario("contend"), schedule=schedule.only([]))
    begin = min(fault.start for fault in schedule.faults)
    assert _before(whole, begin) == _before(without, begin)


def _before(outcome: Outcome, begin: float) -> list[Event]:
    return [event for event in outcome.history.events if event.at < begin]


# --- schedules as text --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_schedule_survives_a_round_trip_as_text(seed: int) -> None:
    schedule = Schedule.of(seed)
    assert Schedule.parse(str(schedule)) == schedule
    assert str(schedule) == str(seed)
    assert Schedule.parse(schedule.to_json()) == schedule
    less = schedule.only(schedule.numbers[::2]).without(["p1"])
    assert Schedule.parse(str(less)) == less
    assert Schedule.parse(less.to_json()) == less
    assert "\n" not in str(less)


@pytest.mark.parametrize("text", ["", "x", "7 faults=a", "7 what=1", "{}", '{"seed": 1, "x": 2}'])
def test_invalid_schedule_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Schedule.parse(text)


def test_later_stream_of_faults_keeps_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first faults of a seed, and all else, are those of the first stream alone."""
    whole = [Schedule.of(seed) for seed in range(300)]
    monkeypatch.delitem(STREAMS, "omissions")
    alone = [Schedule.of(seed) for seed in range(300)]
    for schedule, before in zip(whole, alone, strict=True):
        assert schedule.only(before.numbers) == before
        assert schedule.numbers == tuple(range(len(schedule.faults)))
    text = "\n".join(schedule.to_json() for schedule in alone)
    text = text.replace('"grace_period"', '"wind_down"')  # as it was called then
    text = text.replace(', "engine": ""', "")  # which came later
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "938dbbca896a9b52"


def test_every_kind_of_fault_is_drawn() -> None:
    drawn = {fault.kind for seed in range(1500) for fault in Schedule.of(seed).faults}
    assert drawn == set(KINDS)


def test_faults_end_before_the_healing() -> None:
    for seed in range(300):
        schedule = Schedule.of(seed)
        for fault in schedule.faults:
            assert 0.0 < fault.start < schedule.healing
            assert fault.start + fault.duration <= schedule.healing + 1e-5


# --- shrinking ----------------------------------------------------------------------------------


async def careless(world: World) -> None:
    """A program that takes a lost link for the end of the world: a bug."""
    for name in ("p0", "p1"):
        world.start(name, partial(_careless, world))


async def _careless(world: World, process: Process) -> None:
    try:
        async with world.client(process) as client:
            while not world.is_healed:
                await anyio.sleep(0.1)
                if client.state is not SessionState.CONNECTED:
                    world.violation("patience", f"{process.name} has given up")
                    return
    except aiolead.errors.ConnectFailed:
        return


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_violation_is_shrunk_to_one_fault(backend: Backend) -> None:
    seeds = (seed for seed in range(1000) if 3 <= len(Schedule.of(seed).faults) <= 6)
    failed = next(
        outcome
        for seed in seeds
        if (outcome := simulate(careless, seed=seed, backend=backend)).violations
    )
    assert {violation.invariant for violation in failed.violations} == {"patience"}
    with pytest.raises(AssertionError) as raised:
        failed.check()
    told = str(raised.value)
    small = failed.shrunk()
    assert len(small.schedule.faults) == 1
    assert len(small.schedule.absent) == 1
    assert small.replay_line in told
    assert f"--faults {small.schedule.numbers[0]} " in small.replay_line
    assert f"--digest {small.digest}" in small.replay_line
    again = simulate(careless, schedule=Schedule.parse(str(small.schedule)), backend=backend)
    assert again.digest == small.digest
    assert again.violations == small.violations


def test_replay_line_repeats_the_run() -> None:
    outcome = simulate(scenario("contend"), seed=5, faults=[0])
    command = outcome.replay_line.split()
    assert command[:2] == ["python", "-m"]
    child = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True)
    assert child.returncode == (1 if outcome.violations else 0), child.stdout + child.stderr
    assert f"digest {outcome.digest}" in child.stdout
    other = [*command[1:-1], "0" * 16]
    child = subprocess.run([sys.executable, *other], capture_output=True, text=True)
    assert child.returncode == 3


@pytest.mark.parametrize("wanted", [[], [3], [0, 7], [1, 2, 3, 8], list(range(9))])
def test_fewest_faults_that_still_fail(wanted: list[int]) -> None:
    asked: list[list[int]] = []

    def still_fails(items: Sequence[int]) -> bool:
        asked.append(list(items))
        return set(wanted) <= set(asked[-1])

    assert fewest(list(range(9)), still_fails, 1000) == wanted
    assert all(len(items) < 9 for items in asked)
