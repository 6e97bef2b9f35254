"""Observations of values that may be invalid: the latest valid one, and the write after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from ..._util.internal_errors import call_back
from ...errors import InvalidDataError
from ...model import Stat
from .._core.arguments import OnInvalid
from .._core.observation import Observation

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ValidObservation(Observation[T], Generic[T]):
    """The latest valid value of a znode, with its version and `Stat`.

    Attributes:
        invalid: the error of the latest write; None if that is the value's.
        written: the transaction id of the latest write, valid or not. Unlike versions, transaction
            ids do not repeat when a znode is deleted and created again.
    """

    version: int
    stat: Stat | None
    written: int
    invalid: InvalidDataError | None = None

    def skipping(self, error: InvalidDataError, written: int) -> Self:
        """The same value, although the latest write is another, invalid one."""
        return replace(self, written=written, invalid=error)


def report_skipped(
    on_invalid: OnInvalid | None,
    before: ValidObservation[T] | None,
    now: ValidObservation[T],
) -> None:
    """Report an invalid write as it is published: once, however often it was read."""
    if on_invalid is None or now.invalid is None:
        return
    if before is None or before.invalid is None or before.written != now.written:
        call_back(on_invalid, now.invalid)
