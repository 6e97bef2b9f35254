"""The lease: until when the session surely lives, and the holds under it.

`LeaseProof` computes the former from acknowledged requests. `LeaseBook` has the holds and decides
when they are lost. `Renewals` decides when to make the proof longer, and sends the requests for it.

Holds end when the clock passes the end of the lease, whether or not a task notices: when the proof
ends, less clock drift and grace period. Losing many of them takes time, so that begins earlier, in
proportion to their number (`loss_due`). A hold is *fresh* at first, so that short holds cost no
renewal. It *settles* after a moment, or at once if urgent; renewals confirm settled holds. A lost
hold is in its *grace period* until its release.

`docs/explanation/safety.md` derives the proof from ZooKeeper's source, and has measurements. In
short:

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
  to need no more: see `Renewals`.
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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from .._util.escaping import in_seconds
from .._util.internal_errors import contained, internal_error
from .._wire.codes import OpCode
from .._wire.config_text import CONFIG_PATH, parse_config
from .._wire.jute import Reader
from .._wire.replies import DataReply, MultiResult
from .._wire.requests import Check, GetData, Multi, Sync
from ..errors import (
    LossReason,
    NoAuthError,
    NoNodeError,
    RemoteWireError,
    TooManyHoldsError,
    TransactionError,
)
from .requests import (
    CONFIRMATION,
    QUESTION,
    RENEWAL,
    Call,
    RequestQueue,
    multi_call,
    no_result,
)
from .timing import LOSING, Timing

if TYPE_CHECKING:
    from ..abc import HoldOwner
    from .observer import HoldObserver, SessionObserver

MULTI_END = 9
"""Bytes at the end of a transaction."""

CHECK = 17
"""Bytes of a check in a transaction, without its path."""

MOST_CHECKS = 256
"""The most holds that one renewal confirms; more are confirmed in rotation."""


# --- the proof -----------------------------------------------------------------------------------


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
        # A sum, as in `Renewals._proven`: a renewal that leaves exactly when due must not miss it.
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


# --- the holds -----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class HeldZnode:
    """One held znode. Made by `LeaseBook.hold`."""

    _book: LeaseBook
    path: str
    _owner: HoldOwner | None
    """None once the hold is lost or released."""
    resign_on_disconnect: bool

    def release(self) -> None:
        """End the hold; its owner is not notified of anything any more."""
        book, self._owner = self._book, None
        book.fresh.pop(self, None)
        book.settled.pop(self, None)
        if book._in_grace.pop(self, None) is not None:
            book._unheard.pop(self, None)
            if not book._in_grace:
                book._observer.due_earlier(-inf)
        if book._watchdog is not None:
            book._watchdog.ended(self)

    def settle(self) -> None:
        if self._owner is not None:
            # This sets the watch on the znode; nothing is held without it.
            settled = contained(
                self._owner.hold_settled, lambda _error: self.lose(LossReason.INTERNAL)
            )
            settled()

    def lose(self, reason: LossReason) -> None:
        """End the hold against its holder's will; the grace period lasts until `release`."""
        book, owner, self._owner = self._book, self._owner, None
        if owner is None:
            return
        book.fresh.pop(self, None)
        book.settled.pop(self, None)
        book._in_grace[self] = book._lease_proof.proven_until
        if book._watchdog is not None:
            book._watchdog.lost(self, reason, book)
        book._notify(self, owner, reason)


class LeaseBook:
    """All holds of a session, under one lease; `watchdog` is notified of every one.

    Attributes:
        session_id: the session that the servers have granted last; 0 before the first one.
        timing: the intervals of that session.
    """

    def __init__(
        self,
        lease_proof: LeaseProof,
        timing: Timing,
        observer: SessionObserver,
        watchdog: HoldObserver | None = None,
    ) -> None:
        self._lease_proof = lease_proof
        self.timing: Timing = timing
        self._observer = observer
        self._watchdog = watchdog
        self.session_id: int = 0
        self.fresh: dict[HeldZnode, float] = {}
        """The fresh holds, and when each settles, rising. Others only look whether there are any,
        as into `settled`: a property would cost each request a call."""
        self.settled: dict[HeldZnode, None] = {}
        """The settled holds, in the order of their next confirmation."""
        self._in_grace: dict[HeldZnode, float] = {}  # until when each was proven, at its loss
        self._unheard: dict[HeldZnode, tuple[HoldOwner, LossReason]] = {}
        """Lost holds whose owners could not be notified."""
        self._notify_at = inf
        self._closed = False

    def granted(self, session_id: int, timing: Timing) -> None:
        """The servers have granted a session, or have resumed it with another timeout."""
        self.session_id = session_id
        self.timing = timing

    @property
    def deadline(self) -> float:
        """When holders must have begun to stop."""
        return self._lease_proof.proven_until - self.timing.margin

    @property
    def loss_due(self) -> float:
        """When to begin to lose the holds, so that the last one is lost by `deadline`."""
        return self.deadline - max(0, self.held - 1) * LOSING

    @property
    def grace_period(self) -> float:
        """How long before the servers may give holds away their bodies must begin to stop."""
        return self.timing.grace_period

    @property
    def given_away_at(self) -> float:
        """The earliest time at which the servers may give holds to other clients."""
        return self.deadline + self.timing.grace_period

    @property
    def held(self) -> int:
        """The number of held znodes."""
        return len(self.settled) + len(self.fresh)

    @property
    def is_in_grace(self) -> bool:
        """Whether a lost hold is not released yet."""
        return bool(self._in_grace)

    @property
    def confirmed_at(self) -> float:
        """When the quorum last confirmed all holds, including lost and unreleased ones.

        `inf` if there are none. A proof after a loss says nothing about the lost hold.
        """
        proven = list(self._in_grace.values())
        if self.held:
            proven.append(self._lease_proof.proven_until)
        return min(proven, default=inf) - self.timing.session_timeout

    def hold(
        self,
        path: str,
        owner: HoldOwner,
        *,
        urgent: bool,
        resign_on_disconnect: bool,
        now: float,
    ) -> HeldZnode:
        """Begin a hold; see `aiolead.abc.Lease.hold`."""
        held = HeldZnode(self, path, owner, resign_on_disconnect)
        if self._watchdog is not None:
            self._watchdog.began(held, self)
        due = -inf
        if urgent or self.deadline - now < self.timing.short_lease:
            self.settled[held] = None
            held.settle()
        else:
            due = self.fresh[held] = now + self.timing.settle
        if self._closed:
            held.lose(LossReason.CLOSED)
        self._observer.due_earlier(due)
        return held

    # --- settling ------------------------------------------------------------------------------

    def due(self) -> float:
        """When the next fresh hold settles, all are lost, or an owner is notified again."""
        due = min(next(iter(self.fresh.values()), inf), self._notify_at)
        return min(due, self.loss_due) if self.settled or self.fresh else due

    def settle(self, now: float) -> None:
        for held, due in list(self.fresh.items()):
            # The callback of the previous one may have released it.
            if due <= now and self.fresh.pop(held, None) is not None:
                self.settled[held] = None
                held.settle()

    def next_to_confirm(self, most: int, room: int) -> list[HeldZnode]:
        """Return at most `most` holds for a renewal, in `room` bytes and in rotation."""
        room -= MULTI_END
        chosen: list[HeldZnode] = []
        for held in islice(self.settled, most):
            room -= CHECK + len(held.path.encode())
            if chosen and room < 0:
                break
            chosen.append(held)
        for held in chosen:
            self.settled[held] = self.settled.pop(held)
        return chosen

    # --- losing --------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """End every hold if the lease has run out, or is about to and they are many."""
        if now >= self._notify_at:
            self._notify_again(now)
        if (self.settled or self.fresh) and now >= self.loss_due:
            self.lose_all(LossReason.UNCONFIRMED)

    def lose_all(self, reason: LossReason) -> None:
        for held in [*self.settled, *self.fresh]:
            held.lose(reason)

    def _notify(self, held: HeldZnode, owner: HoldOwner, reason: LossReason) -> None:
        """Notify an owner of its loss; after an error, again at the next tick: its body may go on.

        The hold is over whatever becomes of that: nothing confirms it any more, and a watchdog sees
        it until it is released.
        """
        try:
            owner.hold_lost(reason)
        except Exception as error:
            internal_error(error, owner.hold_lost)
            if held in self._in_grace:
                self._unheard[held] = owner, reason
                self._notify_at = -inf
                self._observer.due_earlier(-inf)

    def _notify_again(self, now: float) -> None:
        for held, (owner, reason) in list(self._unheard.items()):
            # Its error was logged the first time; another one's callback may have released it.
            with suppress(Exception):
                if held in self._unheard:
                    owner.hold_lost(reason)
                    self._unheard.pop(held, None)
        self._notify_at = now + self.timing.settle if self._unheard else inf

    def close(self) -> None:
        """Lose all holds, and later ones at once: the client is being closed."""
        self._closed = True
        self.lose_all(LossReason.CLOSED)

    def connection_lost(self) -> None:
        for held in [held for held in (*self.settled, *self.fresh) if held.resign_on_disconnect]:
            held.lose(LossReason.DISCONNECTED)


class Renewals:
    """The requests that renew the lease, ahead of users' requests, and only on this connection.

    Holds are confirmed by a transaction, then a `sync` that makes it count (see above):

    refused operation, and error            which hold ends   the next renewal leaves
    one check: NoNode                       its own: DELETED  at once, with the others
    one check: any other error, as NoAuth   its own: REFUSED  at once, with the others
    the transaction, or the sync            none              after a pause, while the lease lasts
    either, with the connection             none              on the next connection

    The first renewal of a connection also asks whether one round is enough here: whether the leader
    collects the connection's touches from its server itself. A server may be an observer that a
    follower feeds (`observerMasterPort`, ZooKeeper 3.6 and newer): then the proof takes two rounds.
    No answer says so, but a server shows the ensemble's configuration as `/zookeeper/config`, and
    an observer is listed there, at least by itself. So one read tells:

    the answer                                           the proof takes
    a configuration without observers                    one round
    no such znode, or no content: a single server, the   one round
      embedded server, or one older than 3.5, where
      followers feed nobody
    a configuration with observers: any of them might    two rounds
      be ours
    none yet, a refusal, or something unreadable         two rounds

    `now` returns the time while answers are settled.
    """

    def __init__(
        self,
        leases: LeaseBook,
        lease_proof: LeaseProof,
        requests: RequestQueue,
        observer: SessionObserver,
        now: Callable[[], float],
    ) -> None:
        self._leases = leases
        self._lease_proof = lease_proof
        self._requests = requests
        self._observer = observer
        self._now = now
        self._is_connected = False
        self._is_asked = False
        self._wait_until = -inf
        self._begun = -inf  # when the current renewal was sent
        self._begin()

    def _begin(self) -> None:
        """Nothing was renewed on this connection."""
        self._unanswered = False
        self._took = 0.0  # how long the previous one took
        self._next = -inf
        self._confirmed = -inf  # when the newest one of this connection was confirmed

    def connected(self) -> None:
        self._begin()
        self._is_connected = True

    def connection_lost(self) -> None:
        self._is_connected = self._is_asked = False

    def first_is_in_time(self, now: float) -> bool:
        """Whether a hold may begin: its first renewal will be answered before the lease runs out.

        A renewal is two round trips, each as long as a write takes here. An ample lease is enough
        however slow the last write was, since it can always be had. How much the next writes prove
        depends on the server. So it is asked, in the segment of the next request, before the lease
        becomes short.

        Raises `TooManyHoldsError` if the session has as many holds as it may have.
        """
        leases, timing, held = self._leases, self._leases.timing, self._leases.held
        if self._is_connected and leases.deadline - now < timing.half_lease:
            self.ask(now)
        if held >= timing.most_holds:
            raise TooManyHoldsError(
                f"the session holds {held} znodes, as many as it could lose in time with a "
                f"timeout of {in_seconds(timing.session_timeout)}: use more clients, or another "
                "timeout"
            )
        usual = max(timing.enough_lease, 3 * self._lease_proof.write_took)
        return leases.deadline - held * LOSING - now >= min(usual, timing.ample_lease)

    def ask(self, now: float) -> None:
        """Ask whether one round is enough here, ahead of the users' requests and once."""
        if self._is_asked:
            return
        self._is_asked = True
        body = GetData(CONFIG_PATH).encode()
        call = Call(OpCode.GET_DATA, body, _has_observers, kind=QUESTION, path=CONFIG_PATH)
        call.add_done_callback(lambda: self._answered(call))
        self._requests.enqueue_first(call, now)

    def _answered(self, call: Call[bool]) -> None:
        error = call.error()
        if isinstance(error, NoNodeError) or (error is None and not call.result()):
            self._lease_proof.direct()
        elif error is not None and not isinstance(error, NoAuthError):
            self._is_asked = False  # refused for a while, or lost with its connection

    def due(self) -> float:
        """When to renew next, while there is a connection; `inf` while one is unanswered."""
        return self._next if self._leases.settled and not self._unanswered else inf

    def renew(self, now: float, room: int) -> None:
        """Ask the quorum whether the held znodes exist, in at most `room` bytes."""
        self.ask(now)
        self._unanswered = True
        self._begun = now
        self._extend_wait(now)
        holds = self._leases.next_to_confirm(MOST_CHECKS, room)
        checks = Multi(tuple(Check(held.path, -1) for held in holds))
        call = multi_call(checks, [held.path for held in holds], kind=RENEWAL)
        call.add_done_callback(lambda: self._renewed(call, holds))
        self._requests.enqueue_first(call, now)

    def _renewed(self, call: Call[list[MultiResult]], holds: list[HeldZnode]) -> None:
        now, error = self._now(), call.error()
        if error is None:
            # Our server has a quorum.
            self._extend_wait(now)
            self._confirm(call.sent_at, now, holds[0].path)
            return
        if not isinstance(error, TransactionError):
            self._refused(now, at_once=False)
            return
        self._refused(now, at_once=True)
        is_gone = isinstance(error.cause, NoNodeError)
        holds[error.index].lose(LossReason.DELETED if is_gone else LossReason.REFUSED)

    def _confirm(self, sent: float, answered: float, path: str) -> None:
        """Send the second request, whose answer makes the first one count."""
        body = Sync(path).encode()
        call: Call[None] = Call(OpCode.SYNC, body, no_result, kind=CONFIRMATION)

        def confirmed() -> None:
            if call.error() is None:
                self._proven(sent, answered, self._now())
            else:
                self._refused(self._now(), at_once=False)

        call.add_done_callback(confirmed)
        self._requests.enqueue_first(call, answered)
        self._observer.output_ready()

    def _proven(self, sent: float, answered: float, now: float) -> None:
        """Record that the second request has confirmed the renewal now.

        The next one leaves when it can prove something about this one: half a tick after its
        answer. That may be too late for a short lease: then as soon as it can prove anything new.

        Where a proof takes two rounds, the second one begins half a tick after this confirmation.
        If that is long, rounds overlap: the next renewal proves something about the one before.
        """
        leases, timing = self._leases, self._leases.timing
        self._unanswered = False
        self._took = now - self._begun
        before, self._confirmed = self._confirmed, now
        if self._lease_proof.is_direct:
            self._next = max(sent + timing.renew_every, answered + timing.half_tick)
        else:
            round_began = before if timing.rounds_overlap else now
            self._next = max(sent + timing.renew_indirect_every, round_began + timing.half_tick)
        if leases.loss_due - self._next < timing.enough_lease:
            # This one just missed a request that would have made the lease longer.
            self._next = min(self._next, max(now, self._lease_proof.provable_from))
        self._observer.due_earlier(-inf)
        self._observer.lease_renewed(self._took, leases.deadline - now)

    def _refused(self, now: float, *, at_once: bool) -> None:
        """The next renewal leaves at once, or after a pause."""
        self._unanswered = False
        self._next = -inf if at_once else now + self._leases.timing.refused_pause
        self._observer.due_earlier(-inf)

    def _extend_wait(self, now: float) -> None:
        """Allow half of the lease for an answer, or more where answers usually take longer."""
        usual = max(2 * self._took, 3 * self._lease_proof.write_took)
        self._wait_until = now + max((self._leases.loss_due - now) / 2, usual)

    def short_at(self, *, can_move: bool) -> float:
        """When to abandon the connection over an unanswered renewal; `inf` for never.

        Unless the client `can_move` to another server, this is the last resort: it helps only if
        the renewal was lost, and it costs what is in flight.
        """
        leases, timing = self._leases, self._leases.timing
        waits = self._unanswered and leases.held
        if not waits or any(held.resign_on_disconnect for held in leases.settled):
            # A hold that ends with the connection gains nothing.
            return inf
        left = timing.short_lease if can_move else timing.enough_lease
        return max(leases.loss_due - left, self._wait_until)


def _has_observers(r: Reader) -> bool:
    data = DataReply.read(r).data or b""
    try:
        return any(server.is_observer for server in parse_config(data).servers)
    except RemoteWireError:
        return True  # of a later version: nothing is known
