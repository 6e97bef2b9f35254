"""What there is to see under some paths: lines, terms, and what happens. Frozen values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..recognize import ContenderLine

__all__ = ["Happening", "Line", "Link", "Term", "What"]


class Link(enum.Enum):
    """What is known of the session that a contender's znode belongs to."""

    UNKNOWN = "unknown"
    """The servers do not tell."""
    CONNECTED = "connected"
    SILENT = "silent"
    """It has no connection to any server: it comes back, or ends with its timeout."""
    NONE = "none"
    """The znode belongs to no session: it never goes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One tenure of one holder: of leadership, a lock, a permit.

    Attributes:
        path: what is held.
        node: the holder's znode.
        identity: what the holder calls itself; None if that may not be read.
        token: the fencing token: the transaction that has created the znode.
        session_id: of the session that the znode belongs to; 0 if there is none.
        began: when it was first seen to hold.
        not_before: when it can have begun at the earliest. The same as `began` if we saw it begin;
            if it held already at our first look, when its znode was created, by the servers' clock;
            if it began while we had no link, when that was lost.
        ended: when it was seen not to hold any more; None while it holds.
        silent_since: since when its session had no connection when it ended, or has none now; None
            if it had one, or that is not known.
        gap: how long nobody had held before it began, in seconds; None if that is not known, or
            somebody else held at the same time.
    """

    path: str
    node: str
    identity: str | None
    token: int
    session_id: int
    began: float
    not_before: float
    ended: float | None = None
    silent_since: float | None = None
    gap: float | None = None

    @property
    def is_exact(self) -> bool:
        """Whether we saw it begin."""
        return self.not_before >= self.began

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from all other terms of the path."""
        return self.node, self.token


@dataclass(frozen=True, slots=True)
class Line:
    """An election, a lock or a semaphore, and who contends for it.

    Attributes:
        path: what is contended for.
        kind: election, lock, read/write lock, semaphore, unknown; empty if nobody ever contended.
        contenders: all of them, first come first: holders before those who wait.
        terms: those of the holders, in the same order.
        last: the term that has ended last; None if none has since we look.
        vacant_since: since when nobody holds; None if somebody does.
    """

    path: str
    kind: str
    contenders: tuple[ContenderLine, ...] = ()
    terms: tuple[Term, ...] = ()
    last: Term | None = None
    vacant_since: float | None = None

    @property
    def waiting(self) -> tuple[ContenderLine, ...]:
        """Those who wait, who is next first."""
        return tuple(one for one in self.contenders if not one.place.holds)

    @property
    def families(self) -> list[str]:
        """What the contenders are; those of two do not exclude each other."""
        found = {one.place.family for one in self.contenders}
        return sorted(found - {"curator semaphore"}) if self.kind == "semaphore" else sorted(found)


class What(enum.Enum):
    """What has happened."""

    BEGAN = "began"
    """A term: somebody holds."""
    VACANT = "vacant"
    """A term has ended, and nobody holds."""
    ENDED = "ended"
    """A term has ended, while others hold."""
    JOINED = "joined"
    """Somebody waits."""
    LEFT = "left"
    """Somebody who waited does not any more."""
    ASKED = "asked"
    """Somebody is asked to let go."""
    SILENT = "silent"
    """A holder's session has no connection."""
    BACK = "back"
    """It has one again."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that has happened, as far as we can see it.

    Attributes:
        number: counts all of a scene, from 1 up.
        at: when it was seen.
        what: what.
        path: of which line.
        identity: who; None if that may not be read.
        token: of whose znode.
        term: the term that began, ended, or goes on.
        before: for a term that began: the last one before it, if nobody held between.
        is_exact: False if it may have happened earlier, while we had no link.
    """

    number: int
    at: float
    what: What
    path: str
    identity: str | None
    token: int
    term: Term | None = None
    before: Term | None = None
    is_exact: bool = True
