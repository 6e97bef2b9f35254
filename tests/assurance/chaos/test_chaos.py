"""The short form of the runs with real processes and servers: what is nastiest, and all invariants.

`python -m tests.assurance.chaos` has any number of seeds, and other libraries as contenders.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from aiolead.testing import BlockingEnsemble, BlockingServer
from aiolead.testing.history import FaultBegan

from . import leader_pauses
from .isolated import isolate_a_holder
from .run import PATIENCE, play
from .schedule import HOLDER, Fault, Kind, Schedule
from .settings import Settings

SETTINGS = Settings()

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.keeps_time(SETTINGS.session_timeout),
    pytest.mark.exhaustive("random faults"),
]

NASTY = (
    (Kind.FOLLOWER_ISOLATED, 0.1, 3.0),
    (Kind.CONTENDER_STOPPED, 3.2, 3.0),
    (Kind.LINK_SILENT, 4.0, 2.4),
    (Kind.SERVER_KILLED, 4.2, 1.5),
    (Kind.CONTENDER_KILLED, 6.3, 0.7),
)
"""Faults of the holder, with start and duration in seconds. Most are longer than a session."""


@pytest.fixture(scope="module")
def ensemble(real_server: BlockingServer) -> Iterator[BlockingEnsemble]:
    """Takes `real_server` for its say on machines without ZooKeeper."""
    with SETTINGS.ensemble() as ensemble:
        yield ensemble


def test_holder_under_every_kind_of_fault(
    ensemble: BlockingEnsemble, record_property: Callable[[str, object], None]
) -> None:
    faults = tuple(
        Fault(kind=kind, target=HOLDER, start=start, duration=duration, patience=PATIENCE)
        for kind, start, duration in NASTY
    )
    schedule = Schedule(seed=1, faults=faults, seconds=7.0)
    outcome = play(ensemble, SETTINGS, schedule, "aiolead-lock", seats=3)
    for margin in outcome.margins:
        record_property("safety margin: processes: body had ended", margin.seconds)
    assert not outcome.forgotten, "the servers lost what they had committed"
    assert not outcome.wrong, "\n".join([*outcome.wrong, *map(str, outcome.events)])
    done = {event.kind for event in outcome.events if isinstance(event, FaultBegan)}
    assert done == {kind.value for kind, _, _ in NASTY}
    assert outcome.seen["handed over while something was broken"]
    # The file accepts late writes of a stopped holder; the other stores do not.
    assert set(outcome.lost) == {"file", "tokens", "znode"}
    assert not outcome.lost["tokens"]
    assert not outcome.lost["znode"]
    assert min(outcome.kept.values()) > 0


def test_holder_at_an_isolated_follower(
    ensemble: BlockingEnsemble, record_property: Callable[[str, object], None]
) -> None:
    trial = isolate_a_holder(ensemble, SETTINGS, "aiolead", random.Random(1))
    record_property("safety margin: processes, follower isolated: body had ended", trial.margin)
    assert not trial.wrong, "\n".join(trial.wrong)
    assert trial.overlap == 0
    assert trial.margin > 0


@pytest.mark.keeps_time(leader_pauses.SESSION)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_recipe_while_the_leader_pauses(ensemble: BlockingEnsemble, backend: str) -> None:
    """The short form of `python -m tests.assurance.chaos --leader-pauses`."""
    report = leader_pauses.play(ensemble, seconds=10.0, seed=1, backend=backend)
    assert not report.wrong, report
    assert report.pauses
    assert len(report.turns) == len(leader_pauses.HELD)
