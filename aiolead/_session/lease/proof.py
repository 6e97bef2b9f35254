"""The proof that acknowledged requests give about how long the session lives.

`docs/explanation/safety.md` derives this from ZooKeeper's source, and has measurements. In short:

* A server *touches* the session with every request. The leader ends a session no earlier than its
  timeout after the last touch that reached the leader. A follower's touches reach the leader with
  the answers to the leader's pings, every half tick. So an isolated follower answers pings and
  reads, and sends events, that prove nothing. It cannot answer a write.
* Let `a` be a request of this connection. At least half a tick after its answer, a write leaves,
  which is committed. In between, the leader has pinged our server. That ping precedes the commit,
  so our server has answered it, with the touch of `a`, before the answer to the write arrives. A
  second request to the leader, sent after that answer, arrives behind the touch: once it is
  answered, the session lives until `a.sent + timeout`.
* The second request may be a write, which a leader refuses once it has begun to end the session. Or
  it is a cheaper `sync`, which comes behind the end of the session: our server learns of the end
  first, and closes the connection. A `sync` may slip in between the decision to end a session and
  its queueing. So a `sync` counts only while the previous proof holds, and a client whose proof has
  run out takes two writes: `Contender._await_lease`.
* The handshake of a session that moves touches the leader itself. It needs a write committed after
  it, to show that the leader is one, and no second request. The creation of a session is itself a
  committed change. (That of a local session is not; but a hold takes an ephemeral znode, for which
  the leader creates the session first, with a whole timeout.)

The proof of one connection depends on no other connection, and stays true when it is lost.
`timeout` is the shortest that any server has granted to this session: a touch replaces the value of
an earlier one, and a new leader counts with the timeout that the session began with.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf

from .timing import Timing

GRAIN = 1 / 32
"""Answers closer together than this part of the session timeout share one entry."""


class LeaseProof:
    """The requests of a connection that may still prove something, `1 / GRAIN` at most.

    One thread calls the methods, with times in seconds; any thread may read `proven_until`.
    """

    __slots__ = (
        "_collected",
        "_committed",
        "_entries",
        "_grain",
        "_handshake",
        "_timing",
        "_unconfirmed",
        "proven_until",
        "write_took",
    )

    def __init__(self, timing: Timing) -> None:
        self._entries: deque[tuple[float, float]] = deque()  # (sent, answered), both rising
        self._handshake = -inf  # when it was sent; -inf without a connection
        self._committed = -inf  # when the newest committed write was sent
        # The oldest and the newest committed write that no second request has confirmed yet.
        self._unconfirmed: list[tuple[float, float]] = []  # (sent, answered)
        self._collected = -inf  # when the newest confirmed write was sent
        self.proven_until: float = -inf
        """Until when the session surely lives: no server ends it earlier."""
        self._timing = timing
        self._grain = timing.session_timeout * GRAIN
        self.write_took: float = 0.0
        """How many seconds the newest committed write of this connection took; 0 before it."""

    def opened(self, timing: Timing, sent: float, *, created: bool) -> None:
        """Start a connection whose handshake was sent at `sent`.

        `timing` has the shortest session timeout that the session was granted. `created`: the
        session is new, rather than moved here.
        """
        self.closed()
        if created:
            self.proven_until = -inf
        elif timing.session_timeout < self._timing.session_timeout:
            self.proven_until = min(self.proven_until, sent + timing.session_timeout)
        self._timing = timing
        self._grain = timing.session_timeout * GRAIN
        self._handshake = sent
        self._committed = sent if created else -inf
        self._settle()

    def closed(self) -> None:
        """Forget the connection. Its proof stays valid."""
        self._entries.clear()
        self._handshake = self._committed = self._collected = -inf
        self._unconfirmed.clear()
        self.write_took = 0.0

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        """Record the answer to a request that was sent at `sent`.

        `proof`: it was a committed write. `led`: the leader answered it in order, as it does such a
        write or a `sync`.
        """
        # A sync may slip into the instant in which a leader ends the session; a write may not.
        if led and (proof or now <= self.proven_until - self._timing.drift):
            self._confirm(sent)
        if proof:
            self.write_took = now - sent
            self._committed = max(self._committed, sent)
            # The oldest of overlapping writes stays, or they might never be confirmed.
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
    def provable_from(self) -> float:
        """From when on a write can be the first step to prove more; `inf` for never."""
        proven, timeout = self.proven_until, self._timing.session_timeout
        if self._handshake + timeout > proven:
            return -inf
        for sent, answered in islice(self._entries, 2):
            if sent + timeout > proven:
                return answered + self._timing.half_tick
        return inf

    def _confirm(self, sent: float) -> None:
        """Confirm all writes answered before `sent`: this was their second request."""
        while self._unconfirmed and self._unconfirmed[0][1] <= sent:
            self._collected = self._unconfirmed.pop(0)[0]

    def _settle(self) -> None:
        """Update the proof after a commit or a confirmation."""
        entries, timeout = self._entries, self._timing.session_timeout
        half_tick = self._timing.half_tick
        if self._committed >= self._handshake > -inf:
            self.proven_until = max(self.proven_until, self._handshake + timeout)
        # The newest request answered half a tick before the write was sent. A sum, as in
        # `LeaseBook.renewed`: a renewal that leaves exactly when due must not miss it.
        while len(entries) > 1 and entries[1][1] + half_tick <= self._collected:
            entries.popleft()
        if entries and entries[0][1] + half_tick <= self._collected:
            self.proven_until = max(self.proven_until, entries[0][0] + timeout)
