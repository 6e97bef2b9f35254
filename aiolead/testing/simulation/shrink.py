"""Fewer faults that still fail.

Every decision of a schedule has a generator of its own, so that leaving a fault out changes nothing
else. A schedule that fails is thus made smaller by trying: first halves, then ever smaller parts,
then single faults (delta debugging), then without one process after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], still_fails: Callable[[Sequence[T]], bool], tries: int) -> list[T]:
    """A part of the items that still fails, and of which no single one can be left out.

    Args:
        items: which together fail.
        still_fails: whether some of them do. Asked for true subsequences only.
        tries: how often it is asked at most; then the smallest part so far is the answer.
    """
    kept = list(items)
    parts = 2
    while kept and tries > 0:
        size = max(1, len(kept) // parts)
        for start in range(0, len(kept), size):
            if tries <= 0:
                return kept
            tries -= 1
            rest = kept[:start] + kept[start + size :]
            if still_fails(rest):
                kept = rest
                parts = max(2, parts - 1)
                break
        else:
            if size == 1:
                return kept
            parts = min(len(kept), parts * 2)
    return kept
