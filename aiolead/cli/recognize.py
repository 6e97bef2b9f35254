"""The children of a path, as contenders of whatever recipe of whatever library. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import _parsing
from ..errors import ConfigurationError
from ..model import Stat
from ..paths import sequence_of, validate

__all__ = ["LONGEST_NAME", "MOST_DATA", "ContenderLine", "Place", "can_be_asked_for", "in_line"]

LONGEST_NAME = 60
"""How much of what a contender calls itself is shown to people, in characters."""
MOST_DATA = 4096
"""How much of a contender's data is kept, in bytes: a megabyte may be there, and of each one."""

REVOKED = b"__REVOKE__"
"""What the data of a znode begin with when its owner is asked to let go."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Whose names look like that.

    Attributes:
        what: what they contend for.
        layout: the layout that they have; empty for one that aiolead cannot share a path with.
        family: those of one family exclude each other.
    """

    what: str
    layout: str
    family: str


_KINDS: tuple[tuple[str, _Kind], ...] = (
    (r"__READ__", _Kind("reader", "curator", "curator read/write lock")),
    (r"__WRIT__", _Kind("writer", "curator", "curator read/write lock")),
    (r"__rlock__", _Kind("reader", "kazoo", "kazoo lock")),
    (r"__lock__", _Kind("lock", "kazoo", "kazoo lock")),
    (r"^lock-[0-9a-f]{32}-", _Kind("lock", "", "aiozk lock")),
    (r"^(?:read|write)-[0-9a-f]{32}-", _Kind("lock", "", "aiozk read/write lock")),
    (r"^candidate-[0-9a-f]{32}-", _Kind("election", "", "aiozk election")),
    (r"latch-", _Kind("election", "curator", "curator election")),
    (r"lock-", _Kind("lock", "curator", "curator lock")),
    (r"lease-", _Kind("permit", "curator", "curator semaphore")),
    (r"^x-(?:-?[0-9]+|[0-9a-f]{16})-", _Kind("lock", "", "ZooKeeper WriteLock")),
    (r"^n_", _Kind("election", "", "ZooKeeper LeaderElectionSupport")),
)
_PATTERNS = tuple((re.compile(rf"{marker}-?[0-9]{{9,10}}\Z"), kind) for marker, kind in _KINDS)
_UNKNOWN = _Kind("unknown", "", "unknown")


@dataclass(frozen=True, slots=True)
class Place:
    """A contender's place in a line.

    Attributes:
        number: from 1 up.
        name: of its znode.
        sequence: the number that the servers gave it.
        what: election, lock, reader, writer, permit, unknown.
        layout: curator, kazoo, or empty for one that aiolead does not have.
        family: those of one family exclude each other.
        holds: whether it leads, or holds the lock, if all in the line exclude each other.
    """

    number: int
    name: str
    sequence: int
    what: str
    layout: str
    family: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Somebody in a line of whom only the name of its znode is known.

    Servers that have `Feature.EXISTS_NEEDS_READ` say nothing else to those who may not read it. And
    those that are none of ZooKeeper's may list names that ZooKeeper does not allow to ask for.

    Attributes:
        place: where.
        path: the znode.
    """

    place: Place
    path: str


@dataclass(frozen=True, slots=True)
class ContenderLine:
    """Somebody in a line.

    Attributes:
        place: where.
        path: the znode.
        stat: what the servers know about it.
        data: its data, of which the first `MOST_DATA` bytes say who that is; None if they may not
            be read.
    """

    place: Place
    path: str
    stat: Stat
    data: bytes | None

    @property
    def identity(self) -> str | None:
        """What it calls itself; None if that may not be read."""
        if self.data is None:
            return None
        return _parsing.lossy_text(self.data.removeprefix(REVOKED))

    @property
    def is_asked_to_go(self) -> bool:
        """Whether somebody has asked it to let go."""
        return self.data is not None and self.data.startswith(REVOKED)


def can_be_asked_for(path: str) -> bool:
    """Whether a path is one, that a server has told: its names may be what no client may create."""
    try:
        validate(path)
    except ConfigurationError:
        return False
    return True


def in_line(names: Iterable[str], holders: int = 1) -> list[Place]:
    """The contenders among the children of a path, first come first.

    All libraries on a path share one counter, so that whoever has a number is a contender, whatever
    the rest of its name is.

    Args:
        names: of the children.
        holders: how many may hold at once.
    """
    found = sorted(
        (sequence, name) for name in names if (sequence := sequence_of(name)) is not None
    )
    kinds = [_kind(name) for _, name in found]
    first = _holding(kinds, holders)
    return [
        Place(n + 1, name, sequence, kind.what, kind.layout, kind.family, n < first)
        for n, ((sequence, name), kind) in enumerate(zip(found, kinds, strict=True))
    ]


def _kind(name: str) -> _Kind:
    return next((kind for pattern, kind in _PATTERNS if pattern.search(name)), _UNKNOWN)


def _holding(kinds: Sequence[_Kind], holders: int) -> int:
    """How many hold: the first so many; or readers up to the first that is none."""
    readers = next((n for n, kind in enumerate(kinds) if kind.what != "reader"), len(kinds))
    return readers if readers > 1 else min(holders, len(kinds))
