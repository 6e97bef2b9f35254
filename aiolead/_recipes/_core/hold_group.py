"""Several holds as one."""

from __future__ import annotations

from collections.abc import Sequence

from ...abc import Hold
from ...errors import LossReason


class HoldGroup:
    """Several znodes that are held as one: see `abc.Hold`."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds

    def lose(self, reason: LossReason) -> None:
        self._holds[0].lose(reason)

    def release(self) -> None:
        for hold in self._holds:
            hold.release()
