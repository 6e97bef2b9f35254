"""Bugs of the simulated servers: the tests that compare them with real ones must see these."""

from __future__ import annotations

from ..model import Mutant

MUTANTS: tuple[Mutant, ...] = ()
