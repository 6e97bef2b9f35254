"""The contention kernel: given the children of a path, who is in front and whom to watch. Pure.

The first `places` contenders, in the order of their sequence numbers, hold. All others wait, and
watch some of those before them. Which ones follows from two demands:

* No lost wake-up. A contender of rank r (r others before it) may hold once any r - places + 1 of
  them are gone. Whichever those are, one of any `places` watched ones is among them; of fewer
  watched ones perhaps none. So it watches `places`.
* No herd. It watches the *nearest* ones, so each departure wakes at most `places` waiters, and in
  the order of arrival just one.

With one place, the one before us may have been a waiter itself, so its departure alone does not
make us first. But if it was first when we looked, nobody can have come in front of us since:
numbers only rise. Then its departure needs no second look. To know that in time, we also watch the
one before it (the look-ahead watch): when that one goes, we look again, while the nearest still
holds.

Readers and writers share one queue. A writer waits for everybody before it, a reader for the
writers before it, and each watches the nearest of those. There is no look-ahead: readers behind one
writer are many, and should be woken once, when they may go. One exception to "nobody comes in
front": a writer that downgrades leaves a reader with its own number. So the departure of a writer
needs another look by a writer behind it; a reader needs none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import MixedLayoutError
from ...paths import join, sequence_of
from .layouts import Layout, Role


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where a contender is in the queue.

    Attributes:
        rank: how many contenders are before it.
        watch: the names to watch, the nearest first; empty for one that may hold.
        is_next: whether the departure of `watch[0]` alone makes it a holder, without another look.
        is_exact: whether the rank is that, and not just less than that.
    """

    rank: int
    watch: tuple[str, ...]
    is_next: bool
    is_exact: bool = True


def in_order(path: str, names: Iterable[str], layout: Layout, role: Role) -> list[str]:
    """The contenders among the children of a path, first come first.

    Children without a sequence number are none.

    Raises:
        MixedLayoutError: one of them and we would not exclude each other.
    """
    line: list[tuple[int, str]] = []
    ours = layout._ours(role)
    for name in names:
        if match := ours(name):
            line.append((int(match[2]), name))  # as nearly all are, in a line of thousands
            continue
        sequence = sequence_of(name)
        if sequence is not None:
            if why := layout._misfit(role, name):
                raise MixedLayoutError(join(path, name), why)
            line.append((sequence, name))
    line.sort()
    return [name for _, name in line]


def standing(
    line: list[str], own: str, places: int, *, look_ahead: bool = False
) -> QueuePosition | None:
    """Where the contender `own` is in a queue; None if it is not in it.

    Args:
        line: the contenders in order, from a listing that was asked for after `own` was created.
        own: our name.
        places: how many may hold at once.
        look_ahead: whether to watch one more than it takes, where several may hold: then the first
            waiter learns that it is.
    """
    try:
        rank = line.index(own)
    except ValueError:
        return None
    if rank < places:
        return QueuePosition(rank, (), is_next=False)
    look_ahead = look_ahead or places == 1
    first = max(0, rank - places - look_ahead)
    return QueuePosition(rank, tuple(reversed(line[first:rank])), is_next=places == 1 and rank == 1)


def sharing(line: list[str], own: str, layout: Layout, role: Role) -> QueuePosition | None:
    """Where `own` is in a queue of readers and writers; None if it is not in it.

    The rank counts those that exclude it: for a reader, only the writers before it.

    Args:
        line: the contenders in order, from a listing that was asked for after `own` was created.
        own: our name.
        layout: how they are named.
        role: whether we read or write.
    """
    try:
        before = line[: line.index(own)]
    except ValueError:
        return None
    if role is Role.READ:
        before = [name for name in before if not layout._is_reader(name)]
    if not before:
        return QueuePosition(0, (), is_next=False)
    nearest = before[-1]
    # Numbers rise, so that nobody else comes before us. But the writer may have become a reader.
    settles_it = role is Role.READ or layout._is_reader(nearest)
    return QueuePosition(len(before), (nearest,), is_next=len(before) == 1 and settles_it)


def holding(line: list[str], places: int, layout: Layout, role: Role) -> int:
    """How many of a queue hold, according to it: the first so many."""
    if not role.shares:
        return min(places, len(line))
    readers = next((n for n, name in enumerate(line) if not layout._is_reader(name)), len(line))
    return max(readers, 1) if line else 0
