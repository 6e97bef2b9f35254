"""Schedules that found something once, whole: they do not change when seeds come to mean others.

Each line of `found.jsonl` has what it found, the scenario, and the schedule. Those of the first
kind were made small with the rule that they refute; none has more than one fault left.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.schedules import scenario

from aiolead.testing.simulation import Backend, Schedule, simulate

FOUND: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "found.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("found", FOUND, ids=lambda found: found["found"])
def test_what_was_found_once_is_not_found_again(found: dict[str, Any], backend: Backend) -> None:
    schedule = Schedule.parse(json.dumps(found["schedule"]))
    simulate(scenario(found["scenario"]), schedule=schedule, backend=backend).check()
