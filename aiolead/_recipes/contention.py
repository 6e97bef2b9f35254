"""The contention kernel: given the children of a path, who is in front and whom to watch. Pure.

The first `places` contenders, in the order of their sequence numbers, hold. All others wait, and
watch some of those before them. Which ones follows from two demands:

* No lost wake-up. A contender of rank r (r others before it) may hold once fewer than `places` of
  them are left, that is, once any r - places + 1 of them are gone. Whichever those are, one of any
  `places` watched ones is among them; of fewer watched ones perhaps none. So it watches `places`.
* No herd. It watches the *nearest* ones, so each departure wakes at most `places` waiters, and in
  the order of arrival just one.

With one place, the one before us may have been a waiter itself, so its departure alone does not
make us first. But if it was first when we looked, nobody can have come in front of us since:
numbers only rise. Then its departure needs no second look. To know that in time, we also watch the
one before it (the look-ahead): when that one goes, we look again, while the nearest still holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import MixedLayoutError
from ..paths import join, sequence_of
from .layout import Layout, Role


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a contender stands.

    Attributes:
        rank: how many contenders are before it.
        watch: the names to watch, the nearest first; empty for one that may hold.
        is_next: whether the departure of `watch[0]` alone makes it a holder, without another look.
    """

    rank: int
    watch: tuple[str, ...]
    is_next: bool


def in_order(path: str, names: Iterable[str], layout: Layout, role: Role) -> list[str]:
    """The contenders among the children of a path, first come first.

    Children without a sequence number are none.

    Raises:
        MixedLayoutError: one of them and we would not exclude each other.
    """
    line: list[tuple[int, str]] = []
    for name in names:
        sequence = sequence_of(name)
        if sequence is not None:
            if why := layout.misfit(role, name):
                raise MixedLayoutError(join(path, name), why)
            line.append((sequence, name))
    line.sort()
    return [name for _, name in line]


def standing(line: list[str], own: str, places: int) -> Standing | None:
    """Where the contender `own` stands in a line; None if it is not in it.

    Args:
        line: the contenders in order, from a listing that was asked for after `own` was created.
        own: our name.
        places: how many may hold at once.
    """
    try:
        rank = line.index(own)
    except ValueError:
        return None
    if rank < places:
        return Standing(rank, (), is_next=False)
    look_ahead = 1 if places == 1 else 0
    first = max(0, rank - places - look_ahead)
    return Standing(rank, tuple(reversed(line[first:rank])), is_next=places == 1 and rank == 1)
