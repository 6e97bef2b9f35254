"""The result of one reading of a view.

A reading may be thrown away: one that meets another session is repeated. So a read changes nothing
that readers see. It returns an `Observation`, and only its publication counts: what is news, and
every property of a view, goes by the observation that was published last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """The result of one reading: the value, and its mark.

    It is news to readers if its mark differs from that of the observation published before it. A
    subclass adds what else its view shows.
    """

    value: T
    mark: object


def plain(value: T) -> Observation[T]:
    """An observation of a value that is another one if it is not equal."""
    return Observation(value, value)
