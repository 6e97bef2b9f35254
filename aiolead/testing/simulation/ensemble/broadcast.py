"""A leader's order of events: proposals and their acknowledgements, and the ends of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...._wire.codes import OpCode
from ...._wire.jute import Reader, Record
from ...._wire.versions import Feature
from ..._server.settings import milliseconds
from ..._server.transaction import Transaction
from ..._server.writes import Write, refused, write_of
from .election import quorum_size
from .learners import Learner
from .life import LifeTimer
from .log import Entry
from .messages import Commit, Inform, Proposal, Request, Synced
from .replica import nothing
from .sessions import LeaderSessions, SessionElsewhere

if TYPE_CHECKING:
    from .server import Server


class _Outstanding:
    """A proposal, and the servers that have it on disk: one bit for each server."""

    __slots__ = ("acks", "entry")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.acks = 0


class Broadcast:
    """From the instant at which a quorum follows the leader until it gives up.

    Args:
        server: that leads.
        zxid: the one before the first of the epoch.
        learners: all that are connected; the list is the leader's, and changes.

    Attributes:
        sessions: which there are.
        last: the zxid of the newest proposal.
        committed: the zxid up to which all is committed.
    """

    def __init__(self, server: Server, zxid: int, learners: Sequence[Learner]) -> None:
        self.sessions: LeaderSessions = LeaderSessions(server.protocol.tick_ms)
        self.last: int = zxid
        self.committed: int = zxid
        self._server = server
        self._replica = server.replica
        self._life = server.life
        self._features = server.protocol.features - {Feature.EARLY_DECODING}
        self._learners = learners
        self._quorum = quorum_size(server.voters)
        self._outstanding: dict[int, _Outstanding] = {}
        self._syncs: dict[int, list[Learner]] = {}
        self._expiry: LifeTimer | None = None
        self._expiry_ms = 0
        self._is_over = False
        for session_id, timeout_ms in server.replica.sessions.items():
            # With its full timeout, regardless of its last sign of life.
            self.sessions.track(session_id, timeout_ms, self._now_ms())
        self._watch_expiry()
        self._reaping = self._life.after(server.settings.container_interval, self._reap)

    def stop(self) -> None:
        """The leader gives up. It gets entries not yet applied here from the next leader."""
        self._is_over = True
        if self._expiry is not None:
            self._expiry.cancel()
        self._reaping.cancel()
        # Reports about them, from the disk or a learner, come too late from now on.
        self._outstanding.clear()

    # --- proposals -----------------------------------------------------------------------------

    def submit(self, request: Request, owner: object) -> None:
        """Gives a request its place in the order: ZooKeeper's `PrepRequestProcessor`.

        Args:
            request: the client's request.
            owner: by whom it came: a learner, or the leader itself.
        """
        op = request.op
        if op is OpCode.CREATE_SESSION:
            self.sessions.track(request.session_id, request.timeout_ms, self._now_ms())
            self._watch_expiry()
            self.sessions.own(request.session_id, owner)
            write: Write = nothing
        elif op is OpCode.CLOSE_SESSION:
            self._end(request.session_id, "closed")
            write = Transaction.end_session
        else:
            refusal = self.sessions.check(request.session_id, owner)
            if refusal is None:
                write = write_of(op, Reader(request.body), self._features) or nothing
            else:
                # A client that is refused because it has moved gets no answer, but is disconnected.
                whole = op if not isinstance(refusal, SessionElsewhere) else OpCode.CHECK
                write = refused(whole, Reader(request.body), refusal)
        self._propose(op, write, request)

    def order(self, op: OpCode, write: Write, session_id: int = 0) -> None:
        """Proposes what no client asks for: the ensemble itself does, or an operator."""
        self._propose(op, write, Request(0, 0, session_id, op, b""))

    def expire(self, session_id: int) -> None:
        """End a session as if its client had been silent."""
        self._end(session_id, "expired")
        self.order(OpCode.CLOSE_SESSION, Transaction.end_session, session_id)

    def _propose(self, op: OpCode, write: Write, request: Request) -> None:
        server = self._server
        zxid = self.last = self.last + 1
        entry = Entry(
            zxid,
            op,
            write,
            server.time_ms(),
            request.session_id,
            request.identities,
            request.server,
            request.ticket,
            request.timeout_ms,
        )
        self._outstanding[zxid] = _Outstanding(entry)
        self._replica.append(entry)
        proposal = Proposal(entry)
        now = self._life.clock()
        for learner in self._learners:
            if learner.is_voter and learner.gets_proposals:
                learner.proposed(zxid, now)
                learner.link.send(proposal)
        server.persist(zxid, partial(self.acknowledged, server.id, zxid))

    def acknowledged(self, server: int, zxid: int) -> None:
        """A voter has an entry on disk."""
        outstanding = self._outstanding
        own = outstanding.get(zxid)
        if own is None:
            return
        own.acks |= 1 << server
        # In order: what has its quorum waits for what was proposed before it.
        while outstanding:
            first = next(iter(outstanding.values()))
            if first.acks.bit_count() < self._quorum:
                return
            self._commit(first.entry)

    def forward(self, learner: Learner, after: int) -> None:
        """Send proposals in flight to a learner that synchronises."""
        if learner.is_voter:
            for zxid, one in self._outstanding.items():
                if zxid > after:
                    learner.link.send(Proposal(one.entry))

    def _commit(self, entry: Entry) -> None:
        zxid = self.committed = entry.zxid
        del self._outstanding[zxid]
        commit, inform = Commit(zxid), Inform(entry)
        for learner in self._learners:
            if learner.gets_proposals:
                learner.link.send(commit if learner.is_voter else inform)
        if delay := self._server.apply_delay:
            self._life.after(delay, partial(self._apply, zxid))
        else:
            self._apply(zxid)
        for learner in self._syncs.pop(zxid, ()):
            learner.link.send(Synced())

    def _apply(self, zxid: int) -> None:
        """Applies what is committed, as the leader's `CommitProcessor` does in a thread of its own.

        Learners may have applied it before, and have answered their clients.
        """
        if not self._is_over:
            self._replica.commit(zxid)

    @property
    def lags(self) -> bool:
        """Whether something is committed and not applied."""
        return self._replica.log.committed < self.committed

    def catch_up(self) -> None:
        """Applies all that is committed."""
        self._apply(self.committed)

    def sync(self, learner: Learner) -> None:
        """Answers a learner's `sync` behind everything that was proposed; no quorum is asked.

        The leader's own clients are not asked about here: it answers their syncs as plain reads
        (`matchSyncs` of its `CommitProcessor`), maybe before it has applied what is committed.
        """
        if self._outstanding:
            self._syncs.setdefault(self.last, []).append(learner)
        else:
            learner.link.send(Synced())

    # --- sessions ------------------------------------------------------------------------------

    def touch(self, session_id: int, timeout_ms: int) -> bool:
        """A session showed a sign of life; False if it is over."""
        return self.sessions.touch(session_id, timeout_ms, self._now_ms())

    def revalidate(self, session_id: int, timeout_ms: int, owner: object) -> bool:
        """A session's client has come to `owner`; False if the session is over."""
        is_valid = self.touch(session_id, timeout_ms)
        if is_valid:
            self.sessions.own(session_id, owner)
            # The client may have asked for a shorter timeout than before.
            self._watch_expiry()
        return is_valid

    def applied(self, entry: Entry, _reply: Record | None, _error: int) -> None:
        """An entry is committed, and in the tree."""
        if entry.op is OpCode.CLOSE_SESSION:
            self.sessions.remove(entry.session_id)

    def _end(self, session_id: int, why: str) -> None:
        self.sessions.closing(session_id)
        self._server.truth.tell(
            "session-ending", session=session_id, why=why, server=self._server.id
        )

    def _watch_expiry(self) -> None:
        """Arm a timer for the next end of a session, unless one is armed.

        A timer that fires too early, because the session is still alive, arms the next one.
        """
        due = self.sessions.next_expiry_ms()
        if due is None or (self._expiry is not None and self._expiry_ms <= due):
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_ms = due
        delay = max(due / 1000 - self._life.clock(), 0.0)
        self._expiry = self._life.after(delay, self._look_for_expired)

    def _look_for_expired(self) -> None:
        self._expiry = None
        for session_id in self.sessions.overdue(self._now_ms()):
            self.expire(session_id)
        self._watch_expiry()

    def _now_ms(self) -> int:
        return milliseconds(self._life.clock())

    # --- what ends by itself -------------------------------------------------------------------

    def _reap(self) -> None:
        """Deletes empty containers and outlived TTL znodes."""
        for path in self._replica.processor.tree.outlived(self._server.time_ms()):
            self.order(OpCode.DELETE_CONTAINER, partial(Transaction.reap, path=path))
        self._reaping = self._life.after(self._server.settings.container_interval, self._reap)
