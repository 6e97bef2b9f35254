"""Schedules that found something once, whole: they do not change when seeds come to mean others.

Each line of `found.jsonl` has what it found, the scenario (a name in `scenarios.py`, or a file and
a name), and the schedule. Those of the first kind were made small with the rule that they refute;
none of them has more than one fault left.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from assurance.simulation.schedules import HERE, scenario

from aiolead.testing.simulation import Backend, Schedule, simulate

FOUND: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "found.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("found", FOUND, ids=lambda found: found["found"])
def test_schedule_that_found_something_finds_nothing_now(
    found: dict[str, Any], backend: Backend
) -> None:
    schedule = Schedule.parse(json.dumps(found["schedule"]))
    simulate(scenario(found["scenario"]), schedule=schedule, backend=backend).check()
