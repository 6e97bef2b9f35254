"""Clients and leaders in simulated schedules follow the specification of the lease.

`python -m tests.assurance.spec.lease_traces` checks any number of schedules.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from aiolead._session.lease import LeaseProof
from aiolead._session.timing import LOSING, Timing
from aiolead.errors import LossReason
from aiolead.testing.simulation.run import load_scenario
from tests.assurance.mutants.fixtures import mutated_or_skip
from tests.session.script import waited

from . import lease_traces
from .lease_traces import ClientTrace, Ended, Recorder, Step, checked, violations
from .schedules import SCENARIOS

# Hundreds of schedules: seconds, and a minute or two on a machine that is busy with other things.
pytestmark = pytest.mark.timeout(600)

TIMING = Timing.derive(8.0, tick_time=None, grace_period=None)
CONTEND = load_scenario("tests/assurance/simulation/scenarios.py:contend")


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_schedules_follow_the_specification(name: str) -> None:
    scenario = load_scenario(f"tests/assurance/simulation/scenarios.py:{name}")
    steps = ends = 0
    for seed in range(8):
        recorder, found, _ = checked(scenario, seed, "asyncio" if seed % 2 else "trio")
        assert not found, f"seed {seed}: {found}"
        steps += sum(len(trace.steps) for trace in recorder.clients)
        ends += sum(each.left > float("-inf") for each in recorder.ended)
    assert steps > 1000
    assert ends > 0


# --- planted bugs ------------------------------------------------------------------------------


def planted(name: str, monkeypatch: pytest.MonkeyPatch) -> type[LeaseProof]:
    """Plants a bug of the catalogue; returns what clients decide with."""
    ((file, text),) = mutated_or_skip(name).items()
    module = ModuleType("aiolead._session.planted")
    module.__package__ = "aiolead._session"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text, file, "exec"), module.__dict__)
    match file.rpartition("/")[2]:
        case "timing.py":
            monkeypatch.setattr("aiolead._session.machine.Timing", module.Timing)
        case "lease.py":
            monkeypatch.setattr(lease_traces, "LeaseBook", module.LeaseBook)
            proof: type[LeaseProof] = module.LeaseProof
            return proof
    return LeaseProof


@pytest.mark.exhaustive("checks the check of traces")
@pytest.mark.parametrize(
    ("name", "is_seen_elsewhere", "what"),
    [
        ("counted-from-the-answer", False, "Receive: nothing proves"),
        ("renewal-counts-itself", False, "Receive: nothing proves"),
        # The partition would have to begin within a millisecond.
        ("half-a-tick-without-drift", False, "Receive: nothing proves"),
        ("no-half-tick", True, ""),
        ("renewals-in-one-step", True, ""),
        ("handshake-is-proof", True, ""),
        # By the time of the cancellation alone, although no answer comes before the body ends.
        ("cancelled-a-grace-period-late", True, "Cancel"),
    ],
)
def test_planted_bug_is_seen(
    name: str, is_seen_elsewhere: bool, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of these bugs are seen by no invariant of the history."""
    proof = planted(name, monkeypatch)
    seen = []
    for seed in range(12):
        _, found, others = checked(CONTEND, seed, "asyncio", proof)
        assert is_seen_elsewhere or others == []
        seen += found
    assert any(what in each for each in seen)


# --- the check itself --------------------------------------------------------------------------


def recorded(*steps: Step) -> Recorder:
    recorder = Recorder()
    recorder.clients.append(ClientTrace([*steps], [(0, TIMING)]))
    return recorder


CREATED = Step("Connect", 0.0, 0.0, "created", 8.0)
A = Step("Receive", 1.5, 1.0, "read", 8.0)
W = Step("Receive", 4.0, A.at + waited(2.0), "write", 8.0)


BEGUN = Step("Begin", 1.0, hold=1)
DUE = 8.0 - TIMING.margin
UNCONFIRMED = LossReason.UNCONFIRMED


@pytest.mark.parametrize(
    "cancel",
    [
        Step("Cancel", DUE, hold=1, reason=UNCONFIRMED),
        Step("Cancel", DUE - LOSING, hold=1, reason=UNCONFIRMED),  # one of several
        Step("Cancel", 2.0, hold=1, reason=LossReason.DELETED),
    ],
)
def test_cancellation_in_time_is_allowed(cancel: Step) -> None:
    assert violations(recorded(CREATED, BEGUN, cancel)) == []


def test_stopped_process_may_cancel_when_it_continues() -> None:
    late = Step("Cancel", 9.0, hold=1, reason=UNCONFIRMED)
    assert violations(recorded(CREATED, BEGUN, Step("Continue", 9.0), late)) == []
    assert len(violations(recorded(CREATED, BEGUN, Step("Continue", 8.5), late))) == 1


def test_proof_by_two_requests_is_allowed() -> None:
    assert violations(recorded(CREATED, A, W, Step("Receive", 4.5, 4.0, "sync", 9.0))) == []


@pytest.mark.parametrize(
    "steps",
    [
        (Step("Connect", 0.0, 0.0, "created", 8.1),),
        (Step("Connect", 0.0, 0.0, "handshake", 8.0),),
        (CREATED, Step("Receive", 1.5, 1.0, "read", 9.0)),
        (CREATED, A, Step("Receive", 4.0, 3.5, "write", 9.0)),
        (CREATED, A, Step("Receive", 4.0, 3.4, "write", 8.0), Step("Receive", 5, 4, "sync", 9.0)),
        (CREATED, A, W, Step("Receive", 4.5, 3.9, "sync", 9.0)),
        (CREATED, A, W, Step("Receive", 4.5, 4.0, "read", 9.0)),
        (CREATED, A, W, Step("Receive", 4.5, 4.0, "sync", 9.1)),
        (CREATED, A, W, Step("Receive", 4.5, 4.0, "sync", 11.5)),
        (CREATED, A, W, Step("Receive", 8.1, 4.0, "sync", 9.0)),
        (CREATED, A, Step("Disconnect", 2.0), W, Step("Receive", 4.5, 4.0, "sync", 9.0)),
        (CREATED, Step("Begin", 7.2, hold=1)),
        (CREATED, Step("Begin", 1.0, hold=1), Step("Receive", 7.5, 7.0, "read", 8.0)),
        # Cancelled a grace period late; and before it was due, without another reason.
        (CREATED, BEGUN, Step("Cancel", DUE + TIMING.grace_period, hold=1, reason=UNCONFIRMED)),
        (CREATED, BEGUN, Step("Cancel", DUE + 0.002, hold=1, reason=LossReason.DELETED)),
        (CREATED, BEGUN, Step("Cancel", DUE - 0.01, hold=1, reason=UNCONFIRMED)),
    ],
)
def test_forbidden_trace_is_reported(steps: tuple[Step, ...]) -> None:
    assert len(violations(recorded(*steps))) == 1


def test_early_end_of_a_session_is_reported() -> None:
    recorder = Recorder()
    recorder.ended += [Ended(9.0, 1, 8.0, 8.1), Ended(9.0, 1, 8.0, 8.1, left=0.001)]
    assert violations(recorder) == []
    recorder.ended += [Ended(9.0, 1, 8.0, 7.9), Ended(9.0, 1, 8.0, 8.1, left=0.1)]
    assert len(violations(recorder)) == 2
