"""The holds under the lease: what `LeaseProof` proves, less clock drift and grace period.

Holds end when the clock passes the end of the lease, whether or not a task notices. Losing many of
them takes time, so that begins earlier, in proportion to their number (`loss_due`). A hold is
*fresh* at first, so that short holds cost no renewal. It *settles* after a moment, or at once if
urgent; renewals confirm settled holds. A lost hold is in its *grace period* until its release.

`LeaseBook` has the holds and decides when they are renewed, and when they are lost. `Renewals`
sends the requests that make the proof longer.
"""

from __future__ import annotations

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
from .._wire.framing import encode_body
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
from .proof import LeaseProof
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
        self._owner = None
        self._book.released(self)

    def settle(self) -> None:
        if self._owner is not None:
            # This sets the watch on the znode; nothing is held without it.
            settled = contained(
                self._owner.hold_settled, lambda _error: self.lose(LossReason.INTERNAL)
            )
            settled()

    def lose(self, reason: LossReason) -> None:
        """End the hold against its holder's will; the grace period lasts until `release`."""
        owner, self._owner = self._owner, None
        if owner is not None:
            self._book.lost(self, owner, reason)


class LeaseBook:
    """All holds of a session, under one lease; `watchdog` is notified of every one.

    Attributes:
        session_id: the session that the servers have granted last; 0 before the first one.
    """

    def __init__(
        self,
        lease_proof: LeaseProof,
        timing: Timing,
        observer: SessionObserver,
        watchdog: HoldObserver | None = None,
    ) -> None:
        self._lease_proof = lease_proof
        self._timing = timing
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
        self._unanswered = False
        self._wait_until = -inf
        self._begun = -inf  # when the current renewal was sent
        self._took = 0.0  # how long the previous one took
        self._next_renewal = -inf
        self._confirmed = -inf  # when the newest renewal of this connection was confirmed
        self._closed = False

    def granted(self, session_id: int, timing: Timing) -> None:
        """The servers have granted a session, or have resumed it with another timeout."""
        self.session_id = session_id
        self._timing = timing

    @property
    def deadline(self) -> float:
        """When holders must have begun to stop."""
        return self._lease_proof.proven_until - self._timing.margin

    @property
    def loss_due(self) -> float:
        """When to begin to lose the holds, so that the last one is lost by `deadline`."""
        return self.deadline - max(0, self.held - 1) * LOSING

    @property
    def grace_period(self) -> float:
        """How long before the servers may give holds away their bodies must begin to stop."""
        return self._timing.grace_period

    @property
    def given_away_at(self) -> float:
        """The earliest time at which the servers may give holds to other clients."""
        return self.deadline + self._timing.grace_period

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
        return min(proven, default=inf) - self._timing.session_timeout

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
        if urgent or self.deadline - now < self._timing.short_lease:
            self.settled[held] = None
            held.settle()
        else:
            due = self.fresh[held] = now + self._timing.settle
        if self._closed:
            held.lose(LossReason.CLOSED)
        self._observer.due_earlier(due)
        return held

    def released(self, held: HeldZnode) -> None:
        """Forget a hold that its holder has released."""
        self.fresh.pop(held, None)
        self.settled.pop(held, None)
        if self._in_grace.pop(held, None) is not None:
            self._unheard.pop(held, None)
            if not self._in_grace:
                self._observer.due_earlier(-inf)
        if self._watchdog is not None:
            self._watchdog.ended(held)

    def lost(self, held: HeldZnode, owner: HoldOwner, reason: LossReason) -> None:
        """Begin the grace period of a hold, and notify its owner."""
        self.fresh.pop(held, None)
        self.settled.pop(held, None)
        self._in_grace[held] = self._lease_proof.proven_until
        if self._watchdog is not None:
            self._watchdog.lost(held, reason, self)
        self._notify(held, owner, reason)

    def is_enough(self, now: float) -> bool:
        """Whether a hold may begin: its first renewal will be answered before the lease runs out.

        A renewal is two round trips, each as long as a write takes here. An ample lease is enough
        however slow the last write was, since it can always be had. Raises `TooManyHoldsError` if
        the session has as many holds as it may have.
        """
        timing, held = self._timing, self.held
        if held >= timing.most_holds:
            raise TooManyHoldsError(
                f"the session holds {held} znodes, as many as it could lose in time with a "
                f"timeout of {in_seconds(timing.session_timeout)}: use more clients, or another "
                "timeout"
            )
        usual = max(timing.enough_lease, 3 * self._lease_proof.write_took)
        return self.deadline - held * LOSING - now >= min(usual, timing.ample_lease)

    # --- renewing ------------------------------------------------------------------------------

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

    def renewal_due(self) -> float:
        """When to renew next, while there is a connection; `inf` while one is unanswered."""
        return self._next_renewal if self.settled and not self._unanswered else inf

    def renewal(self, most: int, room: int, now: float) -> list[HeldZnode]:
        """Start a renewal: return at most `most` holds, in `room` bytes and in rotation."""
        self._unanswered = True
        self._begun = now
        self._extend_wait(now)
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

    def committed(self, now: float) -> None:
        """The renewal was answered, so our server has a quorum; its confirmation is sent now."""
        self._extend_wait(now)

    def _extend_wait(self, now: float) -> None:
        """Allow half of the lease for an answer, or more where answers usually take longer."""
        usual = max(2 * self._took, 3 * self._lease_proof.write_took)
        self._wait_until = now + max((self.loss_due - now) / 2, usual)

    def renewed(self, sent: float, answered: float, now: float) -> None:
        """Record that the second request has confirmed the renewal now.

        The next one leaves when it can prove something about this one: half a tick after its
        answer. That may be too late for a short lease: then as soon as it can prove anything new.

        Where a proof takes two rounds, the second one begins half a tick after this confirmation.
        If that is long, rounds overlap: the next renewal proves something about the one before.
        """
        timing = self._timing
        self._unanswered = False
        self._took = now - self._begun
        before, self._confirmed = self._confirmed, now
        if self._lease_proof.is_direct:
            self._next_renewal = max(sent + timing.renew_every, answered + timing.half_tick)
        else:
            round_began = before if timing.rounds_overlap else now
            self._next_renewal = max(
                sent + timing.renew_indirect_every, round_began + timing.half_tick
            )
        if self.loss_due - self._next_renewal < timing.enough_lease:
            # This one just missed a request that would have made the lease longer.
            self._next_renewal = min(self._next_renewal, max(now, self._lease_proof.provable_from))
        self._observer.due_earlier(-inf)
        self._observer.lease_renewed(self._took, self.deadline - now)

    def refused(self, now: float, *, at_once: bool) -> None:
        """The renewal was refused: the next one leaves at once, or after a pause."""
        self._unanswered = False
        self._next_renewal = -inf if at_once else now + self._timing.refused_pause
        self._observer.due_earlier(-inf)

    def short_at(self, *, can_move: bool) -> float:
        """When to abandon the connection over an unanswered renewal; `inf` for never.

        Unless the client `can_move` to another server, this is the last resort: it helps only if
        the renewal was lost, and it costs what is in flight.
        """
        waits = self._unanswered and self.held
        if not waits or any(held.resign_on_disconnect for held in self.settled):
            # A hold that ends with the connection gains nothing.
            return inf
        left = self._timing.short_lease if can_move else self._timing.enough_lease
        return max(self.loss_due - left, self._wait_until)

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
        self._notify_at = now + self._timing.settle if self._unheard else inf

    def close(self) -> None:
        """Lose all holds, and later ones at once: the client is being closed."""
        self._closed = True
        self.lose_all(LossReason.CLOSED)

    def connection_lost(self) -> None:
        self._unanswered = False
        self._took = 0.0
        self._next_renewal = self._confirmed = -inf
        for held in [held for held in (*self.settled, *self.fresh) if held.resign_on_disconnect]:
            held.lose(LossReason.DISCONNECTED)


class Renewals:
    """The requests that renew the lease, ahead of users' requests, and only on this connection.

    Holds are confirmed by a transaction, then a `sync` that makes it count (see `proof`):

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
        self._is_asked = False

    def connection_lost(self) -> None:
        self._is_asked = False

    def ask(self, now: float) -> None:
        """Ask whether one round is enough here, ahead of the users' requests and once."""
        if self._is_asked:
            return
        self._is_asked = True
        body = encode_body(GetData(CONFIG_PATH))
        call = Call(OpCode.GET_DATA, body, _has_observers, kind=QUESTION, path=CONFIG_PATH)
        call.add_done_callback(lambda: self._answered(call))
        self._requests.enqueue_first(call, now)

    def _answered(self, call: Call[bool]) -> None:
        error = call.error()
        if isinstance(error, NoNodeError) or (error is None and not call.result()):
            self._lease_proof.direct()
        elif error is not None and not isinstance(error, NoAuthError):
            self._is_asked = False  # refused for a while, or lost with its connection

    def renew(self, now: float, room: int) -> None:
        """Ask the quorum whether the held znodes exist, in at most `room` bytes."""
        self.ask(now)
        holds = self._leases.renewal(MOST_CHECKS, room, now)
        checks = Multi(tuple(Check(held.path, -1) for held in holds))
        call = multi_call(checks, [held.path for held in holds], kind=RENEWAL)
        call.add_done_callback(lambda: self._renewed(call, holds))
        self._requests.enqueue_first(call, now)

    def _renewed(self, call: Call[list[MultiResult]], holds: list[HeldZnode]) -> None:
        now, error = self._now(), call.error()
        if error is None:
            self._leases.committed(now)
            self._confirm(call.sent_at, now, holds[0].path)
            return
        if not isinstance(error, TransactionError):
            self._leases.refused(now, at_once=False)
            return
        self._leases.refused(now, at_once=True)
        is_gone = isinstance(error.cause, NoNodeError)
        holds[error.index].lose(LossReason.DELETED if is_gone else LossReason.REFUSED)

    def _confirm(self, sent: float, answered: float, path: str) -> None:
        """Send the second request, whose answer makes the first one count."""
        body = encode_body(Sync(path))
        call: Call[None] = Call(OpCode.SYNC, body, no_result, kind=CONFIRMATION)

        def confirmed() -> None:
            if call.error() is None:
                self._leases.renewed(sent, answered, self._now())
            else:
                self._leases.refused(self._now(), at_once=False)

        call.add_done_callback(confirmed)
        self._requests.enqueue_first(call, answered)
        self._observer.output_ready()


def _has_observers(r: Reader) -> bool:
    data = DataReply.read(r).data or b""
    try:
        return any(server.is_observer for server in parse_config(data).servers)
    except RemoteWireError:
        return True  # of a later version: nothing is known
