"""Scenarios by their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from aiolead.testing.simulation.run import Scenario, load_scenario

if TYPE_CHECKING:
    from tests.assurance.simulation.programs import Schedules

HERE = Path(__file__).parent
SCENARIOS = HERE / "scenarios.py"


def scenario(name: str) -> Scenario:
    """A scenario by its name: `contend` of `scenarios.py`, or `recipes/kept.py:keep`."""
    return load_scenario(f"{HERE / name}" if ":" in name else f"{SCENARIOS}:{name}")


def registered() -> dict[str, Schedules]:
    """The schedules of every scenario that is `explored`, by its name."""
    found: dict[str, Schedules] = {}
    for file in (*sorted(HERE.glob("scenarios*.py")), *sorted(HERE.glob("recipes/*.py"))):
        where = file.relative_to(HERE).as_posix()
        for name in re.findall(r"^async def (\w+)\(world: World\)", file.read_text(), re.MULTILINE):
            schedules = getattr(scenario(f"{where}:{name}"), "schedules", None)
            if schedules is not None:
                found[f"{where}:{name}"] = schedules
    return found
