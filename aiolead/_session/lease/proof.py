"""What acknowledged requests prove about how long the session lives.

The facts that this rests on (ZooKeeper's source, and measurements on real ensembles; docs/safety.md
has the derivation):

* A server notes the arrival of every request of a session: it *touches* the session. The leader
  ends a session no earlier than its timeout after the last touch that reached the leader.
* A touch at a follower reaches the leader with the follower's answer to the leader's ping, which
  comes every half tick. A follower that is cut off goes on answering pings and reads, and its
  touches reach nobody. So an answer as such proves nothing.
* What a cut-off server cannot give is the answer to a write. (It can give watch events: when the
  link heals, a follower hands on all that was committed meanwhile, however old.)

Hence the rule. Let `a` be a request of this connection that was sent at `a.sent` and answered at
`a.answered`, and let a write be sent half a tick after that, or later, and be committed. Between
the two, the leader sent our server a ping. It comes before the commit on the link between them,
which keeps order; so our server had answered it, with the touch of `a`, before we had the answer to
the write. A second request of ours that goes to the leader, sent after that answer, comes there
behind the touch. When it is answered, the leader has seen the touch, and had not ended the session
before: the session lives until `a.sent + timeout`. However long the link between the servers held
things back, nothing changes in this.

The second request may be another write, or a `sync`, which costs the servers next to nothing. A
leader refuses a write of a session that it has begun to end. A `sync` it answers even then, but
behind the end of the session, of which our server learns first; and then it closes our connection.
(Between the leader's resolve to end a session and the queueing of that, a `sync` may slip in. So
who has nothing proven any more takes two writes; see `Contender._await_lease`.)

The handshake of a session that moves touches the leader itself before it is answered. So it needs a
write that is committed after it, to show that the leader is one, and no second request. The
creation of a session is a committed change in itself. (That of a local session is none; but what
could be held needs an ephemeral znode, for which the server has the session created at the leader
first, with the whole timeout from then on.) Nothing that one connection proves involves another
one, but what is proven stays true when the connection dies.

`timeout` is the shortest that any server has granted to this session. Where servers differ in what
they grant, moving to one that grants less can bring the end of the session forward, since a touch
replaces what an earlier one has set; and a new leader counts with what the session began with.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf

from .timing import Timing

GRAIN = 1 / 32
"""Answers closer together than this part of the session timeout share one entry."""


class LeaseProof:
    """The requests of a connection that may still prove something.

    All times are seconds on the clock of the caller. The memory is bounded by `1 / GRAIN` entries.

    One thread alone tells it what happens. `proven_until` is a plain read of what that has led to,
    so that other threads may ask for it at any time.
    """

    __slots__ = (
        "_collected",
        "_committed",
        "_entries",
        "_grain",
        "_handshake",
        "_proven",
        "_timing",
        "_unconfirmed",
        "write_took",
    )

    def __init__(self, timing: Timing) -> None:
        self._entries: deque[tuple[float, float]] = deque()  # (sent, answered), both rising
        self._handshake = -inf  # when it was sent; none without a connection
        self._committed = -inf  # when the newest write that was committed was sent
        # The oldest and the newest committed write that no second request has confirmed yet.
        self._unconfirmed: list[tuple[float, float]] = []  # (sent, answered)
        self._collected = -inf  # when the newest confirmed write was sent
        self._proven = -inf
        self._timing = timing
        self._grain = timing.session_timeout * GRAIN
        self.write_took: float = 0.0
        """How long the newest committed write of this connection took; 0 before the first."""

    def opened(self, timing: Timing, sent: float, *, created: bool) -> None:
        """A connection was established.

        Args:
            timing: with the shortest session timeout that this session was granted.
            sent: when the handshake was sent.
            created: whether the session is new, rather than one that moved here.
        """
        self.closed()
        if created:
            self._proven = -inf
        elif timing.session_timeout < self._timing.session_timeout:
            self._proven = min(self._proven, sent + timing.session_timeout)
        self._timing = timing
        self._grain = timing.session_timeout * GRAIN
        self._handshake = sent
        self._committed = sent if created else -inf
        self._settle()

    def closed(self) -> None:
        """The connection is gone. What it has proven stays proven."""
        self._entries.clear()
        self._handshake = self._committed = self._collected = -inf
        self._unconfirmed.clear()
        self.write_took = 0.0

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        """A request was answered.

        Args:
            sent: when it was sent.
            now: when its answer came in.
            proof: whether the answer is that of a write that was committed.
            led: whether the leader has answered it in its turn: a write that was committed, or a
                `sync`.
        """
        if led:
            self._confirm(sent)
        if proof:
            self.write_took = now - sent
            self._committed = max(self._committed, sent)
            # The oldest of those that overlap stays, or else they might never be confirmed.
            del self._unconfirmed[1:]
            self._unconfirmed.append((sent, now))
        if led or proof:
            self._settle()
        if not self._entries or now - self._entries[-1][1] >= self._grain:
            self._entries.append((sent, now))
            dead = now - self._timing.session_timeout
            while len(self._entries) > 1 and self._entries[0][0] < dead:
                self._entries.popleft()

    @property
    def proven_until(self) -> float:
        """Until when the session surely lives: no server ends it before."""
        return self._proven

    @property
    def provable_from(self) -> float:
        """When a write may leave that is the first step to prove more; maybe never."""
        proven, timeout = self.proven_until, self._timing.session_timeout
        if self._handshake + timeout > proven:
            return -inf
        for sent, answered in islice(self._entries, 2):
            if sent + timeout > proven:
                return answered + self._timing.half_tick
        return inf

    def _confirm(self, sent: float) -> None:
        """The leader has answered what was sent then: a second request to all answered before."""
        while self._unconfirmed and self._unconfirmed[0][1] <= sent:
            self._collected = self._unconfirmed.pop(0)[0]

    def _settle(self) -> None:
        """Draws the conclusions, whenever something was committed or confirmed.

        An answer to anything else proves nothing yet: a write would have to be sent after it.
        """
        entries, timeout = self._entries, self._timing.session_timeout
        half_tick = self._timing.half_tick
        if self._committed >= self._handshake > -inf:
            self._proven = max(self._proven, self._handshake + timeout)
        # The newest request that was answered half a tick before the write was sent. As a sum, as
        # `LeaseBook.renewed` counts it: a renewal that leaves exactly when due must not miss it.
        while len(entries) > 1 and entries[1][1] + half_tick <= self._collected:
            entries.popleft()
        if entries and entries[0][1] + half_tick <= self._collected:
            self._proven = max(self._proven, entries[0][0] + timeout)
