"""How many of a path's sequence numbers are used up, and when to warn.

The number is the parent's count of creates, 31 bits. At its end servers hand out the last number
again and again (since ZOOKEEPER-3249), or negative ones: then nobody knows any more who came first,
and several libraries let everybody in.
"""

from __future__ import annotations

import warnings

from ..._escaping import escaped

LAST_SEQUENCE = 0x7FFF_FFFF
"""The number that servers hand out more than once. Whoever has it holds nothing."""

_WARNED_FROM = 50
"""How much may be used up before anything is said, in percent: at a thousand contenders a second
twelve days are left by then."""

_STEP = 5
"""How many percent later it is said again."""


class SequenceWarning(UserWarning):
    """A path has used up half of its sequence numbers, or more; at the end nobody can contend.

    Each process warns once for each path, and again with every further twentieth. It is one of
    Python's warnings: `logging.captureWarnings(True)` logs it. What to do is what
    `SequenceExhaustedError` says.

    Attributes:
        path: the path.
        sequence: the number that was given to us.
        left: how many there are after it.
    """

    def __init__(self, path: str, sequence: int) -> None:
        used = _percent(sequence) // _STEP * _STEP
        # The same text for the same path and twentieth: whoever filters warnings goes by it.
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
    """Warns if a number that was given to us is far up in the range."""
    if _percent(sequence) >= _WARNED_FROM:
        warnings.warn(SequenceWarning(path, sequence), stacklevel=2)


def _percent(sequence: int) -> int:
    return 100 * sequence // LAST_SEQUENCE
