"""Schedules of faults on servers that imitate other engines than ZooKeeper.

Where a session ends with its connection, I1 and I2 are checked in the schedules in which no server
sees a connection closed before its client does: see `World.closes_connections`.
"""

from __future__ import annotations

import pytest
from assurance.simulation.schedules import scenario

from aiolead.errors import ConfigurationError
from aiolead.testing.simulation import Backend, Outcome, Schedule, explore, simulate
from aiolead.testing.simulation.faults import KINDS

pytestmark = pytest.mark.timeout(600)

KEEPERS = ("clickhouse-keeper:24.8", "clickhouse-keeper:26.3", "clickhouse-keeper:26.9")
SCENARIOS = (
    *("scenarios.py:contend", "scenarios.py:crowd", "scenarios_one_znode.py:one_znode"),
    *("scenarios_hostile.py:hostile", "recipes/permits.py:permits", "recipes/values.py:mirror"),
    *("recipes/queues.py:consume", "recipes/membership.py:services", "recipes/barriers.py:rounds"),
)


@pytest.mark.parametrize("engine", [*KEEPERS, "raftkeeper"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_schedule_violates_an_invariant_on_another_engine(name: str, engine: str) -> None:
    outcomes: list[Outcome] = []
    loops: tuple[Backend, Backend] = ("asyncio", "trio")
    for number, backend in enumerate(loops):
        seeds = range(2 * number, 2 * number + 2)
        explore(scenario(name), seeds, backend=backend, engine=engine, on_outcome=outcomes.append)
    for outcome in outcomes:
        outcome.check()
    assert any(outcome.done for outcome in outcomes)


@pytest.mark.parametrize(
    ("name", "seed", "backend"),
    [
        ("scenarios.py:contend", 15, "asyncio"),
        ("scenarios.py:contend", 15, "trio"),
        ("scenarios.py:crowd", 56, "trio"),
    ],
)
def test_client_hangs_up_on_a_keeper_only_after_its_bodies_have_ended(
    name: str, seed: int, backend: Backend
) -> None:
    """The end of the connection is the end of the session there: the next one holds at once."""
    outcome = simulate(scenario(name), seed=seed, backend=backend, engine=KEEPERS[0])
    outcome.check()
    assert not any(KINDS[kind].closes for kind in outcome.done), "I1 and I2 were checked"
    assert "stepped down" in outcome.history.tell()


def test_schedule_on_an_engine_is_replayed_from_its_text() -> None:
    schedule = Schedule.of(7).only([1]).on("clickhouse-keeper:26.3")
    assert str(schedule) == "7 faults=1 engine=clickhouse-keeper:26.3"
    assert Schedule.parse(str(schedule)) == schedule
    assert Schedule.parse(schedule.to_json()) == schedule
    assert schedule.is_of_seed
    assert "the servers imitate ClickHouse Keeper 26.3.0" in schedule.tell()


def test_outcome_on_an_engine_says_how_to_replay_it() -> None:
    outcome = simulate(scenario("scenarios.py:contend"), seed=1, engine="raftkeeper")
    assert " --seed 1 --engine raftkeeper " in outcome.replay_line


@pytest.mark.parametrize("engine", ["etcd", "clickhouse-keeper:new"])
def test_unknown_engine_is_refused(engine: str) -> None:
    with pytest.raises(ConfigurationError):
        simulate(scenario("scenarios.py:contend"), seed=1, engine=engine)


def test_session_of_a_keeper_ends_with_its_connection() -> None:
    schedule = Schedule.of(27).on(KEEPERS[0])
    fin = [fault.number for fault in schedule.faults if fault.kind == "link-fin"]
    ends = {}
    for engine in ("zookeeper", KEEPERS[0]):
        outcome = simulate(
            scenario("scenarios.py:contend"), schedule=schedule.only(fin), engine=engine
        )
        outcome.check()
        ends[engine] = "why the session expired" in outcome.history.tell()
    assert ends == {"zookeeper": False, KEEPERS[0]: True}
