"""Requests that are never answered while their connection stays, and a leader that applies late."""

from __future__ import annotations

from dataclasses import replace

import pytest
from assurance.simulation.ensemble_model import STEP, Client, Stage, create
from assurance.simulation.schedules import scenario

from aiolead._wire.codes import OpCode
from aiolead._wire.requests import Delete, Exists, GetData, SetData, Sync
from aiolead.testing.simulation import Backend, Fault, Schedule, simulate
from aiolead.testing.simulation.ensemble import Omission, Server


def _omit(stage: Stage, *, is_applied: bool, is_swallowed: bool, **which: object) -> Omission:
    omission = Omission(is_applied=is_applied, is_swallowed=is_swallowed, **which)  # type: ignore[arg-type]
    for server in stage.ensemble.servers:
        server.omissions.append(omission)
    return omission


def _places(stage: Stage, leader: Server) -> list[Server]:
    return [leader, stage.followers()[0]]


# --- skipped -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("place", ["leader", "follower"])
def test_skipped_request_is_not_answered(stage: Stage, place: str, is_applied: bool) -> None:
    client = stage.client(stage.leader if place == "leader" else stage.followers()[0])
    omission = _omit(stage, is_applied=is_applied, is_swallowed=False, op=OpCode.CREATE2)
    before = client.send(GetData("/"))
    skipped = client.send(create("/a"))
    behind = client.send(Exists("/a"))
    stage.until(lambda: behind in client.replies)
    stage.run(1.0)
    assert client.heard == [before, behind]
    assert client.replies[behind][0].err == (0 if is_applied else -101)
    assert not client.is_closed
    assert skipped not in client.replies
    assert omission.is_used
    # It was that one request: another one of its kind is answered.
    assert client.create("/b").err == 0
    (fact,) = stage.told("omitted")
    assert (fact["op"], fact["is_applied"]) == (OpCode.CREATE2, is_applied)
    assert fact["session"] == client.session_id


def test_omission_aims_at_one_request_of_one_client(
    stage: Stage,
) -> None:
    client, other = (stage.client(stage.follower) for _ in range(2))
    _omit(stage, is_applied=False, is_swallowed=False, host=client.host, passes=2)
    assert [other.ask(Exists("/")).err for _ in range(4)] == [0] * 4
    asked = [client.send(Exists("/")) for _ in range(5)]
    stage.run(10 * STEP)
    assert client.heard == [asked[0], asked[1], asked[3], asked[4]]


def test_omission_that_is_over_has_no_effect(stage: Stage) -> None:
    client = stage.client(stage.leader)
    omission = _omit(stage, is_applied=False, is_swallowed=False, op=OpCode.DELETE)
    client.create("/a")
    omission.is_over = True
    assert client.ask(Delete("/a", -1)).err == 0
    assert not omission.is_used


# --- swallowed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("place", ["leader", "follower"])
def test_swallowed_request_blocks_all_but_pings(stage: Stage, place: str, is_applied: bool) -> None:
    client = stage.client(stage.leader if place == "leader" else stage.followers()[0])
    client.create("/a")
    heard = len(client.heard)
    omission = _omit(stage, is_applied=is_applied, is_swallowed=True, op=OpCode.DELETE)
    client.send(Delete("/a", -1))
    client.send(create("/b"))
    client.send(Exists("/"))
    for _ in range(3):
        client.ping()
        stage.run(0.5)
    assert client.heard[heard:] == []
    assert len(client.pings) == 3
    assert sorted(stage.leader.znodes()) == (["/b"] if is_applied else ["/a"])
    assert not client.is_closed
    omission.is_over = True
    later = client.send(Exists("/"))
    stage.run(10 * STEP)
    assert client.heard[heard:] == [later]


def test_other_connection_of_the_session_is_answered(stage: Stage) -> None:
    first, second = stage.followers()
    client = stage.client(first)
    _omit(stage, is_applied=False, is_swallowed=True, op=OpCode.SET_DATA, host=client.host)
    client.send(SetData("/", b"", -1))
    stage.run(10 * STEP)
    client.reset()
    moved = Client(stage, client.host, second)
    stage.until(lambda: moved.wire is not None)
    moved.greet(session=client.session)
    stage.until(lambda: moved.session_id)
    assert moved.ask(SetData("/", b"x", -1)).err == 0


# --- a leader that applies late ----------------------------------------------------------------


def test_late_leader_answers_a_sync_of_its_own_client(stage: Stage) -> None:
    """As `matchSyncs` of its CommitProcessor has it; a follower's sync is one there, too."""
    writer, at_leader = stage.client(stage.follower), stage.client(stage.leader)
    other = stage.client(stage.other)
    stage.leader.apply_delay = 0.3
    assert writer.create("/a").err == 0
    assert at_leader.ask(Sync("/")).err == 0
    assert at_leader.ask(Exists("/a")).err == -101
    assert other.ask(Sync("/")).err == 0
    assert other.ask(Exists("/a")).err == 0
    (fact,) = stage.told("stale-sync")
    assert fact["session"] == at_leader.session_id
    # Behind a write of its own it sees all.
    assert at_leader.ask(SetData("/", b"", -1)).err == 0
    assert at_leader.ask(Exists("/a")).err == 0


def test_learner_of_a_late_leader_lacks_nothing(stage: Stage) -> None:
    follower = stage.followers()[1]
    follower.kill()
    client = stage.client(stage.follower)
    stage.leader.apply_delay = 5.0
    client.create("/a")
    follower.start()
    stage.until(lambda: follower.is_serving)
    assert sorted(follower.znodes()) == ["/a"]
    stage.run(10.0)
    stage.settle()


def test_unapplied_write_survives_its_leader(stage: Stage, client: Client) -> None:
    stage.leader.apply_delay = 5.0
    assert client.create("/a").err == 0
    stage.leader.kill()
    stage.until(lambda: stage.ensemble.leader() is not None)
    stage.leader.start()
    stage.settle()
    assert [sorted(server.znodes()) for server in stage.ensemble.servers] == [["/a"]] * 3


LATE = Fault(
    number=0, kind="leader-applies-late", start=0.1, duration=1.0, target="leader", amount=0.5
)
"""The leader applies what is committed 4 % of a session timeout later."""


def _late_all_the_time(seed: int) -> Schedule:
    schedule = Schedule.of(seed)
    return replace(schedule, faults=(replace(LATE, duration=schedule.healing - 0.2),))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_late_leader_does_not_open_a_closed_barrier(
    backend: Backend,
) -> None:
    gate = scenario("recipes/barriers.py:gate")
    for seed in range(12):
        outcome = simulate(gate, schedule=_late_all_the_time(seed), backend=backend)
        outcome.check()
        assert outcome.done == {"leader-applies-late": 1}


# --- in schedules ------------------------------------------------------------------------------

REACHED = (
    "write applied, and skipped",
    "write skipped before it was applied",
    "read skipped",
    "write applied, and swallowed",
    "write swallowed before it was applied",
    "read swallowed",
    "sync answered by a leader that had not applied all",
)


SOON = (0, 5, 9, 15, 51, 97)
"""Seeds that reached all of it when they were chosen. Where they no longer do, others are tried."""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_schedules_reach_every_omission(backend: Backend) -> None:
    missing = set(REACHED)
    for seed in (*SOON, *range(200)):
        if any(
            fault.kind.endswith(("-skipped", "-swallowed", "-applies-late"))
            for fault in Schedule.of(seed).faults
        ):
            missing.difference_update(
                simulate(scenario("contend"), seed=seed, backend=backend).seen
            )
        if not missing:
            break
    assert missing == set()
