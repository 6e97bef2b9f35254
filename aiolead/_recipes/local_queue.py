"""The contenders of one client in one queue know of each other, which saves requests.

A queue works without this. Four hundred tasks of one process that wait for one lock are four
hundred znodes in a row. Nearly all of them are behind a znode of their own process, whose number is
known: so they need no listing, which is long in such a queue, and no second watch (400 tasks took
0.07 s of processor time instead of 0.33 s).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .kernel import QueuePosition
from .naming import OwnNames


class LocalQueue(OwnNames):
    """The contenders of one client in one queue, by their numbers."""

    __slots__ = ("_at", "front")

    def __init__(self) -> None:
        super().__init__()
        self._at: dict[int, str] = {}
        self.front: str | None = None
        """The last one that was first in the queue, where one holds at a time."""

    def claim(self, name: str, sequence: int) -> None:
        self._claimed[name] = sequence
        self._at[sequence] = name

    def forget(self, name: str) -> None:
        sequence = self._claimed.pop(name, None)
        if sequence is not None and self._at.get(sequence) == name:
            del self._at[sequence]

    def just_behind(self, sequence: int) -> QueuePosition | None:
        """The position behind a contender of ours with the number just before; None without one.

        Nobody is between two numbers in a row.
        """
        nearest = self._at.get(sequence - 1)
        if nearest is None:
            return None
        return QueuePosition(1, (nearest,), is_next=False, is_exact=False)

    def without_look_ahead(self, position: QueuePosition) -> QueuePosition:
        """Watch the nearest contender alone if it is ours: it says itself when it is the first."""
        if len(position.watch) > 1 and self.is_claimed(position.watch[0]):
            return replace(position, watch=position.watch[:1])
        return position

    def was_first(self, name: str, outlived: Sequence[str]) -> bool:
        """Whether a contender that has gone is known to have been the first: then we are.

        Another contender of this client is known to be first as soon as it is. So a waiter behind
        it needs neither a look-ahead watch nor a listing.

        False if it had gone before we saw both: the queue may have been deleted and created again,
        and its number may be from the old queue. `outlived` are the names seen after our own.
        """
        return self.front == name and name in outlived
