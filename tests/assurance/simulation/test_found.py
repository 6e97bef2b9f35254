"""Schedules that found something once, whole: they do not change when seeds come to mean others.

Each line of `found.jsonl` has what it found, the scenario (a name in `scenarios.py`, or a file and
a name), and the schedule. Those of the first kind were made small with the rule that they refute;
none of them has more than one fault left.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from assurance.simulation.schedules import SCENARIOS

from aiolead.testing.simulation import Backend, Schedule, simulate
from aiolead.testing.simulation.run import load_scenario

HERE = Path(__file__).parent
FOUND: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "found.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("found", FOUND, ids=lambda found: found["found"])
def test_what_was_found_once_is_not_found_again(found: dict[str, Any], backend: Backend) -> None:
    schedule = Schedule.parse(json.dumps(found["schedule"]))
    name = found["scenario"]
    scenario = load_scenario(f"{HERE / name}" if ":" in name else f"{SCENARIOS}:{name}")
    simulate(scenario, schedule=schedule, backend=backend).check()
