"""The parts of a scene: contender queues, terms, and events. Frozen values."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from .contender_queue import QueuedContender, families_of
from .server_survey import Quorum, ServerAnswers


class OwnerConnection(enum.Enum):
    """The state of the session that owns a contender's znode."""

    UNKNOWN = "unknown"
    """The servers do not say."""
    CONNECTED = "connected"
    SILENT = "silent"
    """It has no connection to any server: it returns, or ends with its timeout."""
    PAUSED = "paused"
    """Nothing comes over its connection: the process may be stopped. It ends with its timeout."""
    NONE = "none"
    """No session owns the znode: it never vanishes by itself."""


class QueueState(enum.Enum):
    """The most important state of a queue: of several that apply, the first of these."""

    MIXED = "mixed"
    """Its contenders do not all exclude each other."""
    UNREADABLE = "unreadable"
    """Its children may not be listed: this is the last known state."""
    SILENT = "silent"
    """The session of a holder has no connection to any server."""
    PAUSED = "paused"
    """Nothing comes over the connection of a holder: its process may be stopped."""
    UNOWNED = "unowned"
    """No session owns the znode of a holder: it never vanishes by itself."""
    VACANT = "vacant"
    """Nobody leads."""
    HELD = "held"
    FREE = "free"
    """Nobody holds, which is normal for anything but an election."""
    UNUSED = "unused"
    """Nobody has ever contended."""

    @property
    def is_problem(self) -> bool:
        return self not in (QueueState.HELD, QueueState.FREE, QueueState.UNUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTerm:
    """One term of one holder: of leadership, a lock, a permit. Times are those of the scene.

    Attributes:
        identity: None if it may not be read.
        token: the fencing token: the transaction that created the holder's znode, `node`.
        session_id: of the session that owns the znode; 0 if there is none.
        began: when it was first seen to hold.
        not_before: its earliest possible begin: `began` if we saw it begin; the creation of its
            znode, by the servers' clock, if it held at our first look; the loss of our connection,
            if it began while we had none.
        ended: when it was seen not to hold any more; None while it holds.
        silent_since: since when nothing came from its session when it ended, or comes now; None if
            it sent something, or that is unknown.
        is_paused: whether it is silent although it has a connection.
        gap: seconds without a holder before it began; None if unknown, or if another contender held
            at the same time.
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
    is_paused: bool = False
    gap: float | None = None

    @property
    def is_exact(self) -> bool:
        return self.not_before >= self.began

    @property
    def key(self) -> tuple[str, int]:
        return self.node, self.token


@dataclass(frozen=True, slots=True)
class ContenderQueue:
    """An election, a lock or a semaphore, and its contenders.

    Attributes:
        kind: election, lock, read/write lock, semaphore, unknown; empty if nobody ever contended.
        contenders: holders, then waiters, first come first.
        terms: of the holders, in the same order.
        last: the term that ended last; None if we have seen none end.
        vacant_since: since when nobody holds; None if somebody does.
        leaders: how many may lead or hold at once, the most that anybody says.
        leaders_by: whether that is by the contenders' "names", or the "option" that was given;
            empty if nobody says it, so that it is one.
        leaders_said: the different numbers by the contenders' names, which must all be the same.
        is_readable: whether its children may be listed; if not, this is the last known state.
    """

    path: str
    kind: str
    contenders: tuple[QueuedContender, ...] = ()
    terms: tuple[ObservedTerm, ...] = ()
    last: ObservedTerm | None = None
    vacant_since: float | None = None
    leaders: int = 1
    leaders_by: str = ""
    leaders_said: tuple[int, ...] = ()
    is_readable: bool = True

    @property
    def waiting(self) -> tuple[QueuedContender, ...]:
        return tuple(one for one in self.contenders if not one.place.holds)

    @property
    def state(self) -> QueueState:
        if len(self.families) > 1:
            return QueueState.MIXED
        if not self.is_readable:
            return QueueState.UNREADABLE
        silent = [term for term in self.terms if term.silent_since is not None]
        if silent:
            is_paused = all(term.is_paused for term in silent)
            return QueueState.PAUSED if is_paused else QueueState.SILENT
        if any(not term.session_id for term in self.terms):
            return QueueState.UNOWNED
        if self.terms:
            return QueueState.HELD
        if not self.kind:
            return QueueState.UNUSED
        return QueueState.VACANT if self.kind == "election" else QueueState.FREE

    @property
    def families(self) -> list[str]:
        return families_of(self.contenders, is_semaphore=self.kind == "semaphore")


class SceneEventType(enum.Enum):
    BEGAN = "began"
    VACANT = "vacant"
    """A term has ended, and nobody holds."""
    ENDED = "ended"
    """A term has ended, while others hold."""
    JOINED = "joined"
    LEFT = "left"
    """A contender that waited does not any more."""
    ASKED = "asked"
    """A contender is asked to release."""
    SILENT = "silent"
    """A holder's session has no connection, or nothing comes over it."""
    BACK = "back"
    """It has one again."""
    DOWN = "down"
    """A server serves no longer, or there is no quorum any more."""
    UP = "up"
    """A server serves again, or leads the others, or there is a quorum again."""


@dataclass(frozen=True, slots=True)
class EnsembleHealth:
    """The answers of all servers, when they were asked, and the resulting quorum."""

    asked: float
    answers: Sequence[ServerAnswers]
    quorum: Quorum

    @property
    def problems(self) -> int:
        """How many servers say, or show, that they do not serve; one more without a quorum."""
        return sum(each.state.is_problem for each in self.answers) + (not self.quorum.is_met)


@dataclass(frozen=True, slots=True)
class SceneEvent:
    """An event, as far as we can see it.

    Attributes:
        number: counts the events of a scene, from 1 up.
        at: when it was seen.
        identity: of the contender; None if it may not be read.
        term: the term that began, ended, or continues.
        before: for a term that began: the last one before it, if nobody held in between.
        is_exact: False if it may have happened earlier, while we had no connection.
        text: of an event of the servers, which has no path.
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
    text: str = ""
