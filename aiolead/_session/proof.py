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
  run out takes two writes: `_recipes.hold`.
* An observer may be fed by a follower (`observerMasterPort`). Then a touch takes two hops, each
  collected by a timer of its own: observer to follower, follower to leader. The same steps prove
  each hop. After the first round, the follower has the touch of `a`: the second request came to
  it behind the touch. Half a tick after the answer to that request, the next round begins, and
  proves that the leader has it. A whole tick in one round is not enough: the touch may come to
  the follower right after the leader's ping. One round counts only on a connection that is known
  to need no more: see `lease.Renewals`.
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


class Hop:
    """The touches of requests that one server collects from another.

    Its entries are pairs of times, both rising: when a request was sent, and from when on its touch
    is known to be at the collected server.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: deque[tuple[float, float]] = deque()

    def clear(self) -> None:
        self._entries.clear()

    def add(self, sent: float, known: float, timeout: float) -> None:
        """Add a touch, and forget those that are too old to prove anything."""
        entries = self._entries
        entries.append((sent, known))
        while len(entries) > 1 and entries[0][0] < known - timeout:
            entries.popleft()

    def collected(self, asked: float, half_tick: float) -> float:
        """When the newest request was sent whose touch has left the server by a round's end.

        `asked` is when the write of the round was sent.
        """
        entries = self._entries
        # A sum, as in `LeaseBook.renewed`: a renewal that leaves exactly when due must not miss it.
        while len(entries) > 1 and entries[1][1] + half_tick <= asked:
            entries.popleft()
        return entries[0][0] if entries and entries[0][1] + half_tick <= asked else -inf

    def improves_from(self, proven: float, timeout: float, half_tick: float) -> float:
        """From when on a round can collect a request that proves more than `proven`; or `inf`."""
        for sent, known in islice(self._entries, 2):
            # The sum of which `proven` was made. `proven - timeout` is rounded, and may be less
            # than the time of the request that has proven it: renewals would follow each other
            # at once, and prove nothing.
            if sent + timeout > proven:
                return known + half_tick
        return inf


class LeaseProof:
    """The requests of a connection that may still prove something, `1 / GRAIN` at most.

    One thread calls the methods, with times in seconds; any thread may read `proven_until`.
    """

    __slots__ = (
        "_at_follower",
        "_at_server",
        "_collected",
        "_committed",
        "_entry_due",
        "_forwarded",
        "_handshake",
        "_timing",
        "_unconfirmed",
        "is_direct",
        "proven_until",
        "write_took",
    )

    def __init__(self, timing: Timing) -> None:
        self._at_server = Hop()  # the answered requests
        self._entry_due = -inf  # an answer before is too close to the last entry
        self._at_follower = Hop()  # the touches that a follower is proven to have
        self._forwarded = -inf  # when the newest of these was sent
        self.is_direct: bool = False
        """Whether the leader is known to collect from the client's server itself: see `direct`."""
        self._handshake = -inf  # when it was sent; -inf without a connection
        self._committed = -inf  # when the newest committed write was sent
        # The oldest and the newest committed write that no second request has confirmed yet.
        self._unconfirmed: list[tuple[float, float]] = []  # (sent, answered)
        self._collected = -inf  # when the newest confirmed write was sent
        self.proven_until: float = -inf
        """Until when the session surely lives: no server ends it earlier."""
        self._timing = timing
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
        self._handshake = sent
        self._committed = sent if created else -inf
        self._settle(sent)

    def closed(self) -> None:
        """Forget the connection. Its proof stays valid."""
        self._at_server.clear()
        self._at_follower.clear()
        self._entry_due = self._forwarded = -inf
        self.is_direct = False
        self._handshake = self._committed = self._collected = -inf
        self._unconfirmed.clear()
        self.write_took = 0.0

    def direct(self) -> None:
        """One round is enough on this connection: its server is no observer of a follower.

        That counts from the next round on.
        """
        self.is_direct = True

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
            self._settle(now)
        if now >= self._entry_due:
            self._entry_due = now + self._timing.grain
            self._at_server.add(sent, now, self._timing.session_timeout)

    @property
    def provable_from(self) -> float:
        """From when on a write can be the first step to prove more; `inf` for never."""
        proven, timeout = self.proven_until, self._timing.session_timeout
        if self._handshake + timeout > proven:
            return -inf
        last = self._at_server if self.is_direct else self._at_follower
        return last.improves_from(proven, timeout, self._timing.half_tick)

    def _confirm(self, sent: float) -> None:
        """Confirm all writes answered before `sent`: this was their second request."""
        while self._unconfirmed and self._unconfirmed[0][1] <= sent:
            self._collected = self._unconfirmed.pop(0)[0]

    def _settle(self, now: float) -> None:
        """Update the proof after a commit or a confirmation."""
        timeout, half_tick = self._timing.session_timeout, self._timing.half_tick
        if self._committed >= self._handshake > -inf:
            self.proven_until = max(self.proven_until, self._handshake + timeout)
        sent = self._at_server.collected(self._collected, half_tick)
        if not self.is_direct:
            # Entries come a grain apart, so there are no more of these.
            if sent > self._forwarded:
                self._forwarded = sent
                self._at_follower.add(sent, now, timeout)
            sent = self._at_follower.collected(self._collected, half_tick)
        self.proven_until = max(self.proven_until, sent + timeout)
