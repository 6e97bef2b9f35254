"""The model of an ensemble and a real one are told the same stories and must answer alike.

That makes the simulation a statement about ZooKeeper, and not only about itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from assurance.conformance import differential_ensembles, differential_sessions, differential_znodes
from assurance.conformance.differential import Story, compare, stories_in
from assurance.conformance.differential_ensembles import EnsembleStory
from assurance.simulation.ensemble_pair import (
    MAX_SESSION,
    SYNC_LIMIT,
    TICK,
    ModelEnsemble,
    RealEnsemble,
)
from kit.raw_client import backports_of, features_of, version_of

from aiolead.testing import BlockingEnsemble
from aiolead.testing.servers import BlockingServer
from aiolead.types import Feature

pytestmark = [
    pytest.mark.real,
    pytest.mark.exhaustive("compares simulated servers with real ensembles"),
]

# What stands in /zookeeper/config tells the servers' ports, and the model has none.
STORIES = [
    tale
    for tale in (*stories_in(differential_znodes), *stories_in(differential_sessions))
    if tale is not differential_znodes.the_servers_own
]


@pytest.fixture(scope="module")
def own_ensemble(zookeeper_installed: None) -> Iterator[BlockingEnsemble]:
    """A real ensemble that nobody else uses: others' changes would move the zxid."""
    with BlockingEnsemble(
        3,
        partitionable=True,
        tick_time=TICK,
        init_limit=40,
        sync_limit=SYNC_LIMIT,
        extra={"maxSessionTimeout": round(MAX_SESSION * 1000)},
    ) as ensemble:
        yield ensemble


@pytest.fixture
def real(own_ensemble: BlockingEnsemble) -> Iterator[RealEnsemble]:
    own_ensemble.ensure_serving()
    twin = RealEnsemble(own_ensemble)
    twin.assign()
    yield twin
    own_ensemble.ensure_serving()


@pytest.fixture(scope="module")
def features(real_server: BlockingServer) -> frozenset[Feature]:
    return features_of(real_server.connect_string)


def leave_out_what_stops_an_ensemble(tale: Story, features: frozenset[Feature]) -> None:
    if tale is differential_sessions.broken_writes and Feature.EARLY_DECODING in features:
        pytest.skip("a write that cannot be decoded stops a real ensemble of 3.9 for good")


@pytest.fixture(scope="module")
def own_model(real_server: BlockingServer) -> ModelEnsemble:
    """As old as the real one: what was created in one test is counted in the next.

    And of its version; a server of its own is asked, since finding out takes znodes.
    """
    hosts = real_server.connect_string
    return ModelEnsemble(1, version_of(hosts), backports_of(hosts))


@pytest.fixture
def model(own_model: ModelEnsemble) -> ModelEnsemble:
    own_model.settle()
    own_model.assign()
    return own_model


@pytest.mark.parametrize("tale", STORIES, ids=lambda tale: tale.__name__)
def test_same_answers_at_a_follower(
    tale: Story, real: RealEnsemble, model: ModelEnsemble, features: frozenset[Feature]
) -> None:
    leave_out_what_stops_an_ensemble(tale, features)
    root = f"/{tale.__name__}"
    compare(tale, real.stage(root, "follower"), model.stage(root, "follower"))


@pytest.mark.parametrize("tale", stories_in(differential_sessions), ids=lambda tale: tale.__name__)
def test_same_answers_at_the_leader(
    tale: Story, real: RealEnsemble, model: ModelEnsemble, features: frozenset[Feature]
) -> None:
    leave_out_what_stops_an_ensemble(tale, features)
    root = f"/{tale.__name__}-at-the-leader"
    compare(tale, real.stage(root, "leader"), model.stage(root, "leader"))


@pytest.mark.parametrize("tale", stories_in(differential_ensembles), ids=lambda tale: tale.__name__)
def test_same_answers_among_faults(
    tale: EnsembleStory, real: RealEnsemble, model: ModelEnsemble
) -> None:
    root = f"/{tale.__name__}"
    stages = real.stage(root), model.stage(root)
    twins = dict(zip(stages, (real, model), strict=True))
    compare(lambda stage: tale(twins[stage], stage), *stages)
