"""The contention kernel: given the children of a path, who is in front and whom to watch. Pure.

The first `places` contenders, in the order of their sequence numbers, hold. The others watch:

* No lost wake-up: a contender of rank r (r others before it) may hold once any r - places + 1 of
  them are gone. Any `places` watched ones include one of those; fewer may not.
* No herd effect: it watches the `places` *nearest* ones, so each departure wakes at most `places`
  waiters, and in the order of arrival just one.

With one place, the departure of the predecessor alone does not make us first: it may have been a
waiter. But if it was first when we looked, nobody can have come before us since, because numbers
only rise, and no second look is needed. To know that in time, we also watch the one before it (the
look-ahead watch), and look again when its znode is deleted, while the predecessor still holds.

Readers and writers share one queue. A writer waits for everybody before it, a reader for the
writers before it, and each watches the nearest of those. Without look-ahead: many readers behind
one writer should be woken once, when they may hold. A writer that downgrades leaves a reader with
its own number in front, so a writer looks again when a writer has gone; a reader need not.
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
        watch: the names to watch, the nearest first; empty if it may hold.
        is_next: whether it holds once `watch[0]` alone departs, without another look.
        is_exact: whether the rank is exact, rather than a lower bound.
    """

    rank: int
    watch: tuple[str, ...]
    is_next: bool
    is_exact: bool = True


ALONE = QueuePosition(0, (), is_next=False)
"""That of a contender that nobody else is with."""


def in_order(path: str, names: Iterable[str], layout: Layout, role: Role) -> list[str]:
    """The numbered children of a path, first come first; `MixedLayoutError` for a misfit."""
    line: list[tuple[int, str]] = []
    ours = layout._ours(role)
    for name in names:
        if match := ours(name):
            line.append((int(match[2]), name))  # as nearly all do, in a queue of thousands
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
    """The position of the contender `own` in a queue; None if it is not in it.

    `line` has the contenders in order, from a listing that was requested after `own` was created.
    `look_ahead` watches one more than necessary where several may hold: then the first waiter
    learns that it is the first.
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
    """The position of `own` in a queue of readers and writers; None if it is not in it.

    The rank counts those that exclude it: for a reader, only the writers before it. `line` is as
    for `standing`.
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
    if not role.shares:
        return min(places, len(line))
    readers = next((n for n, name in enumerate(line) if not layout._is_reader(name)), len(line))
    return max(readers, 1) if line else 0
