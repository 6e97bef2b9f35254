"""Scenarios by their names."""

from __future__ import annotations

from pathlib import Path

from aiolead.testing.simulation.run import Scenario, load_scenario

HERE = Path(__file__).parent
SCENARIOS = HERE / "scenarios.py"


def scenario(name: str) -> Scenario:
    """A scenario by its name: `contend` of `scenarios.py`, or `recipes/kept.py:keep`."""
    return load_scenario(f"{HERE / name}" if ":" in name else f"{SCENARIOS}:{name}")
