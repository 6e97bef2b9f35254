"""The entries of the table of specifications: checks and planted errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LIVENESS = "liveness"
"""Stands for the property when one over time is violated: TLC does not say which one."""

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "spec"


@dataclass(frozen=True, slots=True)
class Check:
    """One exhaustive search, which must find no violation.

    Attributes:
        cfg: the configuration file, without `.cfg`.
        states: how many distinct states there are.
        depth: the length of the longest shortest path to a state.
        is_small: whether it is part of `make test-all`: half a minute at most on one core.
        unreached: actions that this configuration never takes; every other one must be taken.
    """

    cfg: str
    states: int
    depth: int
    is_small: bool
    unreached: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlantedError:
    """An error in the specification, for which TLC must find a counterexample.

    Attributes:
        name: its name in the tests.
        about: the error, in a sentence.
        cfg: the configuration that it changes, without `.cfg`.
        violates: the invariant whose counterexample TLC must print; `LIVENESS` for a property
            over time.
        length: the number of states of the shortest counterexample; None for a liveness property,
            where TLC does not look for the shortest one.
        constants: values instead of those of the configuration.
        changes: text in the module, each there exactly once, and its replacement.
        invariants: checked instead of those of the configuration, if any are named.
        properties: likewise.
    """

    name: str
    about: str
    cfg: str
    violates: str
    length: int | None
    constants: dict[str, str] | None = None
    changes: tuple[tuple[str, str], ...] = ()
    invariants: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Specification:
    """A module in `docs/spec`.

    Attributes:
        module: its name, without `.tla`.
        checks: the searches that must find nothing.
        planted: those that must find a counterexample.
    """

    module: str
    checks: tuple[Check, ...]
    planted: tuple[PlantedError, ...] = ()
