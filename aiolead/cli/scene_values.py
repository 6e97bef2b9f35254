"""What a scene consists of: contender queues, terms, and events. Frozen values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .contender_queue import QueuedContender, families_of


class OwnerConnection(enum.Enum):
    """The state of the session that owns a contender's znode."""

    UNKNOWN = "unknown"
    """The servers do not say."""
    CONNECTED = "connected"
    SILENT = "silent"
    """It has no connection to any server: it comes back, or ends with its timeout."""
    NONE = "none"
    """No session owns the znode: it never goes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTerm:
    """One term of one holder: of leadership, a lock, a permit. Times are those of the scene.

    Attributes:
        path: what is held.
        node: the holder's znode.
        identity: None if it may not be read.
        token: the fencing token: the transaction that created the znode.
        session_id: of the session that owns the znode; 0 if there is none.
        began: when it was first seen to hold.
        not_before: when it can have begun at the earliest: `began` if we saw it begin; if it held
            already at our first look, when its znode was created, by the servers' clock; if it
            began while we had no connection, when that was lost.
        ended: when it was seen not to hold any more; None while it holds.
        silent_since: since when its session had no connection when it ended, or has none now; None
            if it had one, or that is not known.
        gap: how long nobody had held before it began, in seconds; None if that is not known, or
            another contender held at the same time.
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
        """Unique among the terms of the path."""
        return self.node, self.token


@dataclass(frozen=True, slots=True)
class ContenderQueue:
    """An election, a lock or a semaphore, and who contends for it.

    Attributes:
        kind: election, lock, read/write lock, semaphore, unknown; empty if nobody ever contended.
        contenders: holders, then waiters, first come first.
        terms: of the holders, in the same order.
        last: the term that ended last; None if none has since we look.
        vacant_since: since when nobody holds; None if somebody does.
    """

    path: str
    kind: str
    contenders: tuple[QueuedContender, ...] = ()
    terms: tuple[ObservedTerm, ...] = ()
    last: ObservedTerm | None = None
    vacant_since: float | None = None

    @property
    def waiting(self) -> tuple[QueuedContender, ...]:
        """The contenders that wait, the next one first."""
        return tuple(one for one in self.contenders if not one.place.holds)

    @property
    def families(self) -> list[str]:
        """As `families_of`."""
        return families_of(self.contenders, is_semaphore=self.kind == "semaphore")


class SceneEventType(enum.Enum):
    """What has happened."""

    BEGAN = "began"
    """A term began."""
    VACANT = "vacant"
    """A term has ended, and nobody holds."""
    ENDED = "ended"
    """A term has ended, while others hold."""
    JOINED = "joined"
    """A contender waits."""
    LEFT = "left"
    """A contender that waited does not any more."""
    ASKED = "asked"
    """A contender is asked to release."""
    SILENT = "silent"
    """A holder's session has no connection."""
    BACK = "back"
    """It has one again."""


@dataclass(frozen=True, slots=True)
class SceneEvent:
    """An event, as far as we can see it.

    Attributes:
        number: counts all of a scene, from 1 up.
        at: when it was seen.
        path: of the queue.
        identity: of the contender; None if it may not be read.
        token: of its znode.
        term: the term that began, ended, or goes on.
        before: for a term that began: the last one before it, if nobody held between.
        is_exact: False if it may have happened earlier, while we had no connection.
    """

    number: int
    at: float
    what: SceneEventType
    path: str
    identity: str | None
    token: int
    term: ObservedTerm | None = None
    before: ObservedTerm | None = None
    is_exact: bool = True
