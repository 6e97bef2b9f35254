"""Generators of random numbers, one for each purpose, that follow from one seed."""

from __future__ import annotations

import random


def derived(seed: int, name: str) -> random.Random:
    """The generator for one purpose.

    The draws for one purpose do not change those for another, so that a fault can be left out of a
    run without changing the rest of it.

    Args:
        seed: of the run.
        name: of the purpose.
    """
    # A string is hashed by SHA-512 for this, and so the same way in every process.
    return random.Random(f"{seed}:{name}")  # noqa: S311 (decides what goes wrong, guards nothing)
