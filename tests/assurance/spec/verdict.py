"""Compares an outcome of TLC with the table of specifications."""

from __future__ import annotations

from .checks import Check, PlantedError
from .tlc import Outcome


def check_complaints(each: Check, outcome: Outcome) -> list[str]:
    """Why a search is not as the table says; nothing if it is."""
    if outcome.violated:
        return [f"violated: {outcome.violated}"]
    found = []
    if outcome.states != each.states:
        found.append(f"{outcome.states} states instead of {each.states}")
    if outcome.depth != each.depth:
        found.append(f"depth {outcome.depth} instead of {each.depth}")
    never = frozenset(action for action, times in outcome.taken.items() if not times)
    if never - each.unreached:
        found.append(f"never taken: {sorted(never - each.unreached)}")
    if each.unreached - never:
        found.append(f"taken after all: {sorted(each.unreached - never)}")
    return found


def plant_complaints(error: PlantedError, outcome: Outcome) -> list[str]:
    """The same for a planted error."""
    if not outcome.violated:
        return ["not found"]
    if outcome.violated != error.violates:
        return [f"violates {outcome.violated} instead of {error.violates}"]
    if error.length is not None and len(outcome.trace) != error.length:
        return [f"{len(outcome.trace)} states in the counterexample instead of {error.length}"]
    return []
