"""What acknowledged requests prove about how long the session lives.

The facts that this rests on (ZooKeeper's source, and measurements on real ensembles; docs/safety.md
has the derivation):

* A server notes the arrival of every request of a session: it *touches* the session. The leader
  ends a session no earlier than its timeout after the last touch that reached the leader.
* A touch at a follower reaches the leader with the follower's answer to the leader's ping, which
  comes every half tick. A follower that is cut off goes on answering pings and reads, and its
  touches reach nobody. So an answer as such proves nothing.
* What a cut-off server cannot give is a newly *committed* change: the answer to a write, or the
  event of one.

Hence the rule. Let `a` be a request of this connection that was sent at `a.sent` and answered at
`a.answered`. If our server is known to have been in contact with the leader half a tick or more
after `a.answered`, then the leader has collected the touch of `a`, and the session lives until
`a.sent + timeout`. Contact is known

* from the answer to a write that was sent at `w`: contact at `w` or later;
* from a watch event: contact at or after the sending of the newest request that was answered, and
  answered promptly, before the event came in, since one connection delivers in order. Promptly,
  because a follower that was stopped for a while (SIGSTOP, a long garbage collection) may find in
  its buffers both an old commit and a newer request of ours: the event of the one, after the answer
  to the other, would look like contact that was not there. Then that request took long.

The handshake touches the leader itself, so it needs contact but no half tick; the creation of a
session is a committed change in itself. Nothing that one connection proves involves another one,
but what is proven stays true when the connection dies.

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

PROMPT = 1 / 32
"""An answer is prompt within this part of the session timeout."""


class Ledger:
    """The requests of a connection that may still prove something.

    All times are seconds on the clock of the caller. The memory is bounded by `1 / GRAIN` entries.
    """

    __slots__ = ("_contact", "_entries", "_grain", "_last_prompt", "_proven", "_timing")

    def __init__(self, timing: Timing) -> None:
        self._entries: deque[tuple[float, float]] = deque()  # (sent, answered), both rising
        self._contact = -inf
        self._last_prompt = -inf  # when the newest promptly answered request was sent
        self._proven = -inf
        self._timing = timing
        self._grain = timing.session_timeout * GRAIN

    def opened(self, timing: Timing, sent: float, *, created: bool) -> None:
        """A connection was established.

        Args:
            timing: with the shortest session timeout that this session was granted.
            sent: when the handshake was sent.
            created: whether the session is new, rather than one that moved here.
        """
        self._settle()
        if created:
            self._proven = -inf
        elif timing.session_timeout < self._timing.session_timeout:
            self._proven = min(self._proven, sent + timing.session_timeout)
        self._timing = timing
        self._grain = timing.session_timeout * GRAIN
        self._entries.clear()
        self._entries.append((sent, -inf))
        self._last_prompt = sent
        self._contact = sent if created else -inf

    def closed(self) -> None:
        """The connection is gone. What it has proven stays proven."""
        self._settle()
        self._entries.clear()
        self._contact = -inf

    def answered(self, sent: float, now: float, *, proof: bool) -> None:
        """A request was answered.

        Args:
            sent: when it was sent.
            now: when its answer came in.
            proof: whether the answer is that of a write that was committed.
        """
        if proof and sent > self._contact:
            self._contact = sent
        if now - sent <= self._timing.session_timeout * PROMPT:
            self._last_prompt = sent
        if now - self._entries[-1][1] >= self._grain:
            self._settle()  # before what it counts with is forgotten
            self._entries.append((sent, now))
            dead = now - self._timing.session_timeout
            while len(self._entries) > 1 and self._entries[0][0] < dead:
                self._entries.popleft()

    def event(self) -> None:
        """A watch reported a change that was committed while this connection was up."""
        if self._last_prompt > self._contact:
            self._contact = self._last_prompt

    @property
    def proven_until(self) -> float:
        """Until when the session surely lives: no server ends it before."""
        self._settle()
        return self._proven

    @property
    def provable_from(self) -> float:
        """When a write may leave whose answer proves more than is proven; maybe never."""
        proven, entries = self.proven_until, self._entries
        for sent, answered in islice(entries, 2):
            if sent + self._timing.session_timeout > proven:
                return answered + self._timing.half_tick
        return inf

    def _settle(self) -> None:
        entries = self._entries
        half_tick = self._timing.half_tick
        # The newest request that was answered half a tick before the last known contact. As a sum,
        # as `LeaseBook.renewed` counts it: a renewal that leaves exactly when due must not miss it.
        while len(entries) > 1 and entries[1][1] + half_tick <= self._contact:
            entries.popleft()
        if entries and self._contact > -inf and entries[0][1] + half_tick <= self._contact:
            self._proven = max(self._proven, entries[0][0] + self._timing.session_timeout)
