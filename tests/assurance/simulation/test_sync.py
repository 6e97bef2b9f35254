"""How a learner is brought up to date: by table, and by doing what the plan says."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead.testing.simulation.ensemble.sync import SyncKind, SyncPlan, plan_sync

DIFF, TRUNC, SNAP = SyncKind.DIFF, SyncKind.TRUNC, SyncKind.SNAP


def z(epoch: int, counter: int) -> int:
    return epoch << 32 | counter


MEMORY = [z(2, 5), z(2, 6), z(4, 1), z(4, 2), z(4, 5)]
"""The leader's memory; it was elected for epoch 5."""

DISK = [z(2, 1), z(2, 3), z(2, 4), z(2, 5), z(2, 6)]


@pytest.mark.parametrize(
    ("learner", "plan"),
    [
        pytest.param(z(5, 0), SyncPlan(DIFF, z(5, 0), (), z(5, 0)), id="the same"),
        pytest.param(z(4, 5), SyncPlan(DIFF, z(4, 5), (), z(4, 5)), id="nothing is missing"),
        pytest.param(
            z(4, 1), SyncPlan(DIFF, z(4, 5), (z(4, 2), z(4, 5)), z(4, 5)), id="some are missing"
        ),
        pytest.param(
            z(2, 5), SyncPlan(DIFF, z(4, 5), tuple(MEMORY[1:]), z(4, 5)), id="the oldest in memory"
        ),
        pytest.param(z(4, 7), SyncPlan(TRUNC, z(4, 5), (), z(4, 5)), id="more than was agreed"),
        pytest.param(
            z(4, 3), SyncPlan(TRUNC, z(4, 2), (z(4, 5),), z(4, 5)), id="another history: both"
        ),
        pytest.param(z(2, 9), SyncPlan(SNAP, z(5, 0), (), z(5, 0)), id="of an earlier epoch"),
        pytest.param(
            z(4, 0),
            SyncPlan(DIFF, z(4, 5), (z(4, 1), z(4, 2), z(4, 5)), z(4, 5)),
            id="an epoch that began",
        ),
        pytest.param(z(6, 0), SyncPlan(SNAP, z(5, 0), (), z(5, 0)), id="an epoch of its own"),
        pytest.param(z(2, 4), SyncPlan(SNAP, z(5, 0), (), z(5, 0)), id="older than memory"),
        pytest.param(0, SyncPlan(SNAP, z(5, 0), (), z(5, 0)), id="an empty disk"),
    ],
)
def test_plan_from_memory(learner: int, plan: SyncPlan) -> None:
    assert plan_sync(learner, MEMORY, z(5, 0)) == plan


@pytest.mark.parametrize(
    ("learner", "disk", "plan"),
    [
        pytest.param(
            z(2, 3),
            DISK,
            SyncPlan(DIFF, z(4, 5), (z(2, 4), *MEMORY), z(4, 5)),
            id="disk and memory",
        ),
        pytest.param(
            z(2, 1),
            DISK,
            SyncPlan(DIFF, z(4, 5), (*DISK[1:3], *MEMORY), z(4, 5)),
            id="the oldest on disk",
        ),
        pytest.param(
            z(2, 2),
            DISK,
            SyncPlan(TRUNC, z(2, 1), (z(2, 3), z(2, 4), *MEMORY), z(4, 5)),
            id="another history",
        ),
        pytest.param(z(1, 9), DISK, SyncPlan(SNAP, z(5, 0), (), z(5, 0)), id="older than the disk"),
        pytest.param(z(2, 3), DISK[:3], SyncPlan(SNAP, z(5, 0), (), z(5, 0)), id="a gap"),
        pytest.param(z(4, 2), DISK, SyncPlan(DIFF, z(4, 5), (z(4, 5),), z(4, 5)), id="no need"),
    ],
)
def test_plan_from_memory_and_disk(learner: int, disk: list[int], plan: SyncPlan) -> None:
    assert plan_sync(learner, MEMORY, z(5, 0), disk) == plan


@pytest.mark.parametrize(
    ("learner", "plan"),
    [
        (z(1, 3), SyncPlan(DIFF, z(1, 3), (), z(1, 3))),
        (z(1, 4), SyncPlan(TRUNC, z(1, 3), (), z(1, 3))),
        (z(1, 2), SyncPlan(SNAP, z(1, 3), (), z(1, 3))),
        (z(2, 0), SyncPlan(SNAP, z(1, 3), (), z(1, 3))),
    ],
)
def test_plan_of_an_empty_memory(learner: int, plan: SyncPlan) -> None:
    assert plan_sync(learner, [], z(1, 3)) == plan


@dataclass
class Histories:
    """The agreed log of an ensemble, and a learner that knows a part of it, and maybe more."""

    agreed: list[int]
    learner: list[int]
    last: int
    last_processed: int
    in_memory: int
    on_disk: int


@st.composite
def histories(draw: st.DrawFn) -> Histories:
    lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    agreed = [z(e, c) for e, length in enumerate(lengths, 1) for c in range(1, length + 1)]
    known = draw(st.integers(0, len(agreed)))
    learner = agreed[:known]
    last = learner[-1] if learner else 0
    following = agreed[known] if known < len(agreed) else z(len(lengths) + 1, 0)
    # A proposal without agreement belongs between the known ones and the next agreed one.
    candidates = [z(last >> 32, (last & 0xFFFFFFFF) + 1), *(z(e, 1) for e in range(1, 6))]
    beyond = [c for c in candidates if last < c and c >> 32 < following >> 32]
    joined = [z(e, 0) for e in range(1, 7) if last < z(e, 0) and z(e, 0) < following]
    extra = draw(st.sampled_from([None, *beyond, *joined]))
    if extra in beyond:
        learner = [*learner, extra]
    end = agreed[-1] if agreed else 0
    return Histories(
        agreed,
        learner,
        last if extra is None else extra,
        draw(st.sampled_from([end, z(len(lengths) + 1, 0)])),
        draw(st.integers(0, len(agreed))),
        draw(st.integers(0, len(agreed))),
    )


@given(histories())
def test_plan_gives_the_learner_the_agreed_log(case: Histories) -> None:
    memory = case.agreed[len(case.agreed) - case.in_memory :]
    disk = case.agreed[len(case.agreed) - case.on_disk :]
    plan = plan_sync(case.last, memory, case.last_processed, disk)
    match plan.kind:
        case SyncKind.SNAP:
            assert plan.proposals == ()
            assert plan.zxid == case.last_processed
            log = case.agreed
        case SyncKind.TRUNC:
            log = case.learner[: bisect_right(case.learner, plan.zxid)]
            assert plan.zxid in case.agreed or not log
        case _:
            log = case.learner
    assert [*log, *plan.proposals] == case.agreed
    # Later transactions of the leader are newer, and are not lost.
    assert plan.forward_after >= (case.agreed[-1] if case.agreed else 0)
