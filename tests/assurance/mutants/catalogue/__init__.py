"""All planted bugs. Each file has those that break one promise, which its first line states."""

from __future__ import annotations

from ..model import Mutant
from . import hangs, lease, left_behind, losses, ownership, queue, requests, secrets

PROMISES: dict[str, tuple[Mutant, ...]] = {
    str(module.__doc__): module.MUTANTS
    for module in (lease, losses, queue, ownership, left_behind, requests, hangs, secrets)
}
"""The planted bugs by the promise that they break."""

MUTANTS: tuple[Mutant, ...] = tuple(each for found in PROMISES.values() for each in found)


def by_name(name: str) -> Mutant:
    """The mutant of a name.

    Raises:
        KeyError: there is none.
    """
    return {mutant.name: mutant for mutant in MUTANTS}[name]
