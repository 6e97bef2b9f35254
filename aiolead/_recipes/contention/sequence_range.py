"""How many of a path's sequence numbers are used up, and when to warn.

The number is the parent's count of creates, 31 bits. At its end servers repeat the last number
(since ZOOKEEPER-3249), or hand out negative ones: the order is lost, and several libraries let
everybody in.
"""

from __future__ import annotations

import warnings

from ..._util.escaping import escaped

LAST_SEQUENCE = 0x7FFF_FFFF
"""The number that servers hand out more than once. A contender that gets it holds nothing."""

WARN_FROM = LAST_SEQUENCE // 2 + 1
"""The number from which to warn, half of them: at a thousand a second, twelve days are left."""

_STEP = 5


class SequenceWarning(UserWarning):
    """A path has used up half of its sequence numbers, or more; at the end nobody can contend.

    Each process warns once for each path, and again with every further 5 %. This is a Python
    warning: `logging.captureWarnings(True)` logs it. `SequenceExhaustedError` says what to do.

    Attributes:
        path: the path.
        sequence: the number that the contender was given.
        left: how many numbers there are after it.
    """

    def __init__(self, path: str, sequence: int) -> None:
        used = _percent(sequence) // _STEP * _STEP
        # The same text for the same path and 5 %: Python filters warnings by it.
        super().__init__(
            f"{escaped(path)} has used up {used} % of its sequence numbers: before they end, let "
            "all contenders stop, delete the path and start again, or use a new path"
        )
        self.path = path
        self.sequence = sequence
        self.left: int = LAST_SEQUENCE - 1 - sequence

    def __reduce__(self) -> tuple[type[SequenceWarning], tuple[str, int]]:
        return type(self), (self.path, self.sequence)


def warn_of_the_end(path: str, sequence: int) -> None:
    """Warn of a number from `WARN_FROM` on."""
    warnings.warn(SequenceWarning(path, sequence), stacklevel=2)


def _percent(sequence: int) -> int:
    return 100 * sequence // LAST_SEQUENCE
