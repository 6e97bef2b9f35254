"""TLC finds no violation in the small configurations, and one for each planted error."""

from __future__ import annotations

import os

import pytest

from .checks import FOLDER, LIVENESS, Check, PlantedError, Specification
from .specifications import SPECIFICATIONS, load
from .tlc import TlcNotFoundError, check, find_tlc, plant
from .verdict import check_complaints, plant_complaints

pytestmark = pytest.mark.exhaustive("needs TLC, and checks no code of the library")

SMALL = [(each, one) for each in SPECIFICATIONS for one in each.checks if one.is_small]
PLANTED = [(each, one) for each in SPECIFICATIONS for one in each.planted]


@pytest.fixture(scope="module", autouse=True)
def tlc() -> None:
    try:
        find_tlc()
    except TlcNotFoundError as error:
        if os.environ.get("AIOLEAD_REQUIRE_ZOOKEEPER") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("specification", "one"), SMALL, ids=[one.cfg for _, one in SMALL])
def test_no_violation(specification: Specification, one: Check) -> None:
    assert check_complaints(one, check(specification, one)) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("specification", "error"), PLANTED, ids=[one.name for _, one in PLANTED])
def test_planted_error_has_a_counterexample(
    specification: Specification, error: PlantedError
) -> None:
    assert plant_complaints(error, plant(specification, error)) == []


def test_every_module_and_configuration_is_in_the_table() -> None:
    modules = {file.stem for file in FOLDER.glob("*.tla")}
    cfgs = {file.stem for file in FOLDER.glob("*.cfg")}
    assert modules == {each.module for each in SPECIFICATIONS}
    assert cfgs == {one.cfg for each in SPECIFICATIONS for one in (*each.checks, *each.planted)}


def test_every_promise_of_the_queue_has_a_planted_error() -> None:
    promises: set[str] = set()
    queue = load("queue")
    for one in queue.checks:
        cfg = (FOLDER / f"{one.cfg}.cfg").read_text("utf-8")
        for line in cfg.splitlines():
            if line.startswith(("INVARIANT", "PROPERTY", "PROPERTIES")):
                promises.update(line.split()[1:])
    broken = {error.violates for error in queue.planted} - {LIVENESS}
    for error in queue.planted:
        broken.update(error.properties if error.violates == LIVENESS else ())
    assert promises == broken


def test_every_specification_has_a_small_check() -> None:
    for each in SPECIFICATIONS:
        assert any(one.is_small for one in each.checks), each.module
