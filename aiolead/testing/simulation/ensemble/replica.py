"""One server's copy of everything: the tree, the watches on it, the sessions, and the log."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ...._wire.codes import OpCode
from ...._wire.jute import Record
from ...._wire.versions import Feature
from ....errors import MarshallingError, RemoteWireError, ServerError
from ..._server.processor import Processor
from ..._server.transaction import Transaction
from ..._server.tree import Tree
from .facts import Truth
from .log import Entry, Log

Applied = Callable[[Entry, Record | None, int], None]
"""Called with each entry that was applied, its reply, and its error or 0."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A server's state at one zxid.

    Attributes:
        zxid: the tree that its owner's clients see.
        newest: of the last entry that is in it.
        tree: a copy that nobody else has.
        sessions: timeouts in milliseconds by session.
    """

    zxid: int
    newest: int
    tree: Tree
    sessions: dict[int, int]


class Replica:
    """Applies what is committed, in order.

    Args:
        truth: where the first server that applies an entry says what it has changed.
        history: how many committed entries are kept.
        features: the server's.

    Attributes:
        log: the entries.
        processor: the tree and the watches. Its zxid is what clients see: of the last entry that
            was applied, or of a new epoch that has none yet.
        sessions: timeouts in milliseconds of the sessions that there are, by id.
        newest: the zxid of the last entry that was applied.
        applied: called for every entry; None while the server serves nobody.
    """

    def __init__(self, truth: Truth, history: int, *, features: Collection[Feature]) -> None:
        self.log: Log = Log()
        self.processor: Processor = Processor(features=features)
        self.sessions: dict[int, int] = {}
        self.newest: int = 0
        self.applied: Applied | None = None
        self._truth = truth
        self._history = history
        self._durable = 0

    @property
    def zxid(self) -> int:
        """The newest that this server knows of, committed or not: what counts in an election."""
        return max(self.log.last, self.processor.zxid)

    def append(self, entry: Entry) -> None:
        """Takes a proposal into the log."""
        self.log.append(entry)

    def persisted(self, zxid: int) -> None:
        """The log has reached the disk up to this entry."""
        self._durable = max(self._durable, zxid)

    def commit(self, zxid: int) -> None:
        """Applies the entries up to this one."""
        log = self.log
        for entry in log.after(log.committed, zxid):
            log.committed = entry.zxid
            self._apply(entry)
        if len(log) > 2 * self._history:
            log.forget(self._history)

    def begin_epoch(self, zxid: int) -> None:
        """Clients see the zxid of a new epoch before anything was written in it."""
        self.processor.zxid = zxid

    def truncate(self, zxid: int) -> None:
        """Drops what was never agreed on."""
        self.log.truncate(zxid)
        self._durable = min(self._durable, zxid)
        self.processor.zxid = zxid

    def snapshot(self) -> Snapshot:
        tree, sessions = self.processor.tree.copy(), dict(self.sessions)
        return Snapshot(self.processor.zxid, self.newest, tree, sessions)

    def restore(self, snapshot: Snapshot) -> None:
        """Takes another server's state for its own."""
        self.processor.tree = snapshot.tree
        self.processor.zxid = self._durable = snapshot.zxid
        self.newest = snapshot.newest
        self.sessions = dict(snapshot.sessions)
        self.log.restart(snapshot.zxid)

    def crash(self) -> None:
        """Only what is on the disk is left. Entries whose effect clients have seen are there."""
        log, processor = self.log, self.processor
        log.truncate(max(log.committed, self._durable))
        self._durable = log.last
        # An epoch without an entry leaves no trace, unless it came with a snapshot.
        processor.zxid = log.committed
        processor.forget_watches()
        self.applied = None

    def _apply(self, entry: Entry) -> None:
        processor, reply, error = self.processor, None, 0
        self.newest = entry.zxid
        is_first = self._truth.begin(entry, processor)
        try:
            reply = processor.apply(
                entry.write,
                entry.zxid,
                entry.time_ms,
                session_id=entry.session_id,
                identities=entry.identities,
            )
        except ServerError as refusal:
            error = refusal.code
        except RemoteWireError:
            error = MarshallingError.code
        if entry.op is OpCode.CREATE_SESSION:
            self.sessions[entry.session_id] = entry.timeout_ms
        elif entry.op is OpCode.CLOSE_SESSION:
            self.sessions.pop(entry.session_id, None)
        if is_first:
            self._truth.end(entry, processor)
        if self.applied is not None:
            self.applied(entry, reply, error)


def nothing(_: Transaction) -> None:
    """The write of a request that leaves the tree alone."""
