"""The messages between servers. Messages are values: nobody changes one that was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...._wire.codes import OpCode
from ..._server.acl import Identity
from .election import Notification
from .log import Entry
from .replica import Snapshot
from .sync import SyncKind


@dataclass(frozen=True, slots=True)
class Notice:
    """From a server to another, in an election."""

    sender: int
    notification: Notification


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A client's request, as the servers forward it.

    Attributes:
        server: the server that the client is connected to.
        ticket: by which that server knows the request; it gives each number once.
        session_id: the session of the request.
        op: the request.
        body: without the header.
        identities: the identities that the client had proved.
        timeout_ms: of the session, where one is created.
    """

    server: int
    ticket: int
    session_id: int
    op: OpCode
    body: bytes
    identities: tuple[Identity, ...] = ()
    timeout_ms: int = 0


# --- from a learner to its leader ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """ZooKeeper's FOLLOWERINFO and OBSERVERINFO: a server wants to follow."""

    server: int
    accepted_epoch: int


@dataclass(frozen=True, slots=True)
class EpochAck:
    """ACKEPOCH.

    Attributes:
        current_epoch: the last that the learner took part in; -1 if it had promised itself to this
            epoch before, so that its promise does not count again.
        zxid: the last one in its log.
    """

    current_epoch: int
    zxid: int


@dataclass(frozen=True, slots=True)
class SyncAck:
    """The answer to `NewLeader`: all that was sent before it is on the disk."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Ack:
    """ACK: a proposal is on the disk."""

    zxid: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to `Ping`: the sessions that showed a sign of life since the last one.

    Attributes:
        touched: timeouts in milliseconds by session.
    """

    touched: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Revalidate:
    """REVALIDATE: a client has come with a session."""

    session_id: int
    timeout_ms: int


# --- from a leader to a learner ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """LEADERINFO: the epoch that this leader proposes."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Sync:
    """DIFF, TRUNC or SNAP, with the proposals and commits that follow it.

    Attributes:
        kind: which of the three.
        zxid: see `sync.SyncPlan`.
        entries: the entries that the learner lacks after that.
        snapshot: for SNAP.
    """

    kind: SyncKind
    zxid: int
    entries: tuple[Entry, ...]
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class NewLeader:
    """NEWLEADER: the learner has everything that it needs for this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class UpToDate:
    """UPTODATE: the leader leads; the learner may serve clients."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """PROPOSAL."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Commit:
    """COMMIT."""

    zxid: int


@dataclass(frozen=True, slots=True)
class Inform:
    """INFORM: a committed entry, for observers, which get no proposals."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Ping:
    """PING."""


@dataclass(frozen=True, slots=True)
class Revalidated:
    """The answer to `Revalidate`."""

    session_id: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer to a request to `sync`, the oldest that is open."""


ToLeader = Join | EpochAck | SyncAck | Ack | Pong | Revalidate | Request
ToLearner = (
    NewEpoch
    | Sync
    | NewLeader
    | UpToDate
    | Proposal
    | Commit
    | Inform
    | Ping
    | Revalidated
    | Synced
)
Message = Notice | ToLeader | ToLearner
