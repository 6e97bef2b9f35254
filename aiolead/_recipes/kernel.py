"""The contention kernel: given the children of a path, who is in front and whom to watch. Pure.

The first `places` contenders, in the order of their sequence numbers, hold. The others watch:

* No lost wake-up: a contender of rank r (r others before it) may hold once any r - places + 1 of
  them are gone. Any `places` watched ones include one of those; fewer may not.
* No herd effect: it watches the `places` *nearest* ones, so each departure wakes at most `places`
  waiters, and in the order of arrival just one.

Contenders may have different numbers of places, while `leaders=` is changed process by process
(`changing_from=`); names say which. A contender holds if its rank is smaller than the number of
each contender before it, and than its own:

* Never more holders than any of them allows: of all holders, the last one has counted the others,
  and its rank is smaller than the number of each.
* Those behind it do not matter. One with a smaller number counts it, and waits. So a contender that
  may hold keeps that right: those before it only leave, which lowers its rank.
* No lost wake-up: let `x` be a contender before it with the least number. Either `x` leaves, or
  fewer contenders than that number are left, `x` among them. So of `x` and the nearest others, as
  many as that number in all, one leaves. If the rank is not below its own number, the nearest
  ones, as many as its own number, are enough, as above.

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
from typing import NamedTuple

from .._util.contender_names import Role, leaders_of, leading
from ..errors import MixedLayoutError
from ..paths import join, sequence_of
from .layouts import Names


class QueuePosition(NamedTuple):
    """Where a contender is in the queue.

    Attributes:
        rank: how many contenders are before it.
        watch: the names to watch, the nearest first; empty if it may hold.
        is_next: whether it holds once `watch[0]` alone departs, without another look.
        is_exact: whether the rank is exact, rather than a lower bound.
        extra: how many more have to leave, the first ones first, than by its own number of places:
            others before it may allow fewer. Only known with `look_ahead`, else 0.
    """

    rank: int
    watch: tuple[str, ...]
    is_next: bool
    is_exact: bool = True
    extra: int = 0


ALONE = QueuePosition(0, (), is_next=False)
"""That of a contender that nobody else is with."""


def in_order(
    path: str, children: Iterable[str], names: Names, others: list[str] | None = None
) -> list[str]:
    """The numbered children of a path, first come first; `MixedLayoutError` for a misfit.

    `others` gets the names that clients of ours do not give in this layout, numbered or not.
    """
    line: list[tuple[int, str]] = []
    ours = names.ours
    for name in children:
        if match := ours(name):
            line.append((int(match[2]), name))  # as nearly all do, in a queue of thousands
            continue
        if others is not None:
            others.append(name)
        sequence = sequence_of(name)
        if sequence is not None:
            if why := names.misfit(name):
                raise MixedLayoutError(join(path, name), why)
            line.append((sequence, name))
    line.sort()
    return [name for _, name in line]


def standing(
    line: list[str], own: str, places: int, *, look_ahead: bool = False
) -> QueuePosition | None:
    """The position of the contender `own` in a queue; None if it is not in it.

    `line` has the contenders in order, from a listing that was requested after `own` was created.
    `places` is its own number of places; those of the others are in their names. `look_ahead`
    watches one more than necessary where several may hold, or all that are before it if it waits
    only because of another's smaller number: then the first waiter learns that it is the first.
    """
    try:
        rank = line.index(own)
    except ValueError:
        return None
    # Behind so many, others' numbers make no difference to whom it watches.
    before = line[:rank] if rank < places else []
    least = min(map(leaders_of, before), default=places)
    if rank < min(least, places):
        return QueuePosition(rank, (), is_next=False)
    extra = _extra(line, rank, places) if look_ahead else 0
    if before:
        nearest = before if look_ahead else _restricting(before, least)
        return QueuePosition(rank, tuple(reversed(nearest)), is_next=False, extra=extra)
    look_ahead = look_ahead or places == 1
    first = max(0, rank - places - look_ahead)
    watch = tuple(reversed(line[first:rank]))
    return QueuePosition(rank, watch, is_next=places == 1 and rank == 1, extra=extra)


def _restricting(before: list[str], least: int) -> list[str]:
    """Of those before a contender, the nearest one with the least number, and the nearest others.

    The nearest one with that number, since those before it usually leave first. As many as that
    number in all; in order.
    """
    nearest = max(n for n, name in enumerate(before) if leaders_of(name) == least)
    others = [n for n in range(len(before)) if n != nearest]
    kept = {nearest, *others[len(others) - (least - 1) :]}
    return [name for n, name in enumerate(before) if n in kept]


def _extra(line: list[str], rank: int, places: int) -> int:
    """See `QueuePosition.extra`. Looks at `places` names at most."""
    if places == 1:
        return 0
    least, left = places, 0
    while left < rank:
        least = min(least, leaders_of(line[rank - left - 1]))
        if left + 1 >= least:
            break
        left += 1
    return (rank - left) - (rank - places + 1)


def sharing(line: list[str], own: str, names: Names) -> QueuePosition | None:
    """The position of `own` in a queue of readers and writers; None if it is not in it.

    The rank counts those that exclude it: for a reader, only the writers before it. `line` is as
    for `standing`.
    """
    try:
        before = line[: line.index(own)]
    except ValueError:
        return None
    is_reader = names.role is Role.READ
    if is_reader:
        before = [name for name in before if not names.is_reader(name)]
    if not before:
        return QueuePosition(0, (), is_next=False)
    nearest = before[-1]
    # Numbers rise, so that nobody else comes before us. But the writer may have become a reader.
    settles_it = is_reader or names.is_reader(nearest)
    return QueuePosition(len(before), (nearest,), is_next=len(before) == 1 and settles_it)


def holding(line: list[str], places: int, names: Names) -> int:
    """How many of a queue hold, the first ones."""
    if not names.role.shares:
        return leading(line, places)
    readers = next((n for n, name in enumerate(line) if not names.is_reader(name)), len(line))
    return max(readers, 1) if line else 0
