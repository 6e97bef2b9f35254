"""The session machine: everything a client decides, without I/O.

Its owner moves bytes and says what time it is:

    link_up(now)          a connection was opened; then send what `data_to_send` gives
    receive(data, now)    bytes came in
    data_to_send(now)     bytes to send now; call again after every other method
    link_down(now)        the connection is gone
    tick(now)             `next_deadline` has passed; the answer says whether to cut the connection

All times are seconds on one monotonic clock. Answers, events and state changes are delivered from
within these methods; from there, only new calls and `data_to_send` are allowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TypeVar

from .._internal_errors import as_aiolead_error
from .._wire.codes import (
    REFUSED_READ_ONLY,
    RESERVED_XIDS,
    XID_AUTH,
    XID_EVENT,
    XID_PING,
    XID_SET_WATCHES,
)
from .._wire.framing import FrameReader
from .._wire.handshake import ConnectRequest, ConnectResponse
from .._wire.jute import Reader
from .._wire.packets import PING, encode_body, encode_record, encode_request
from .._wire.replies import HEADER_SIZE, WatcherEvent, read_header
from ..errors import (
    AioleadError,
    AuthFailedError,
    ConnectionLossError,
    InternalError,
    LocalWireError,
    LossReason,
    NotReadOnlyError,
    RemoteWireError,
    SessionExpiredError,
    SessionMovedError,
)
from ..model import Auth, EventType, SessionCredentials, SessionState
from .authentication import Authentication
from .granted_timeout import granted_timeout
from .lease.lease_book import LeaseBook
from .lease.proof import LeaseProof
from .lease.renewals import Renewals
from .lease.timing import Timing
from .requests.request_queue import Call, RequestQueue, close_call, unreached
from .requests.silence import Silence
from .requests.window import Window
from .states import SERVED, Trigger, after, why_over
from .watches.one_shot import WatchRegistry

T = TypeVar("T")

HEADER = 8
"""Bytes of a request's header, which count towards the packet limit."""


class SessionMachine:
    """One client's sessions, one after another, each over any number of connections.

    Args:
        session_timeout: what to ask for, in seconds.
        auth: the credentials to present on every connection.
        max_request: the largest request that the servers take, in bytes.
        max_reply: the largest frame that is accepted from them, in bytes.
        max_in_flight: how many requests may be sent and unanswered.
        max_queued: how many requests may wait to be sent.
        tick_time: the servers' tick time in seconds, where it is known; see `Timing`.
        grace_period: how long before its end a lease ends for its holders; see `Timing`.
        read_only: whether servers will do that are cut off from the quorum, where there is no
            session yet.
        resume: the session to go on with, instead of a new one.
        first_xid: the number of the first request.
        on_state: called with each change of state and the id of the session it speaks of.
        on_output: called when there is something to send.
        on_due: called when something became due earlier than `next_deadline` said, or may have.
        on_challenge: called with each token of a SASL server, and on each connection first with
            an empty one: a call of `login.answer` is to follow. None: no SASL.
    """

    def __init__(
        self,
        *,
        session_timeout: float,
        auth: Sequence[Auth],
        max_request: int,
        max_reply: int,
        max_in_flight: int,
        max_queued: int,
        tick_time: float | None,
        grace_period: float | None,
        read_only: bool = False,
        resume: SessionCredentials | None = None,
        first_xid: int = 1,
        on_state: Callable[[SessionState, int], object],
        on_output: Callable[[], object],
        on_due: Callable[[], object],
        on_challenge: Callable[[bytes], object] | None = None,
    ) -> None:
        self.state: SessionState = SessionState.CONNECTING
        self.session_id: int = 0
        self.last_zxid: int = 0
        self.last_contact: float = -inf
        """When the servers were last heard of."""
        self.can_move = False
        """Whether there is another server to go to, so that it is worth giving one up early."""
        self._password = b""
        self._asked_timeout = session_timeout
        self.login: Authentication = Authentication(
            auth, on_challenge, self._send, self._introduce, self.ended
        )
        self._max_request = max_request
        self._max_reply = max_reply
        self._derive = partial(
            Timing.derive, asked=session_timeout, tick_time=tick_time, grace_period=grace_period
        )
        self._on_state = on_state
        self._on_output = on_output
        self._on_due = on_due
        self._read_only = read_only
        self._is_resuming = resume is not None
        self._failure: InternalError | None = None
        if resume is not None:
            self.session_id, self._password = resume.session_id, resume.password
            self.last_zxid = resume.last_zxid
            # What it was granted before counts for as long as it lives: see `lease_proof`.
            session_timeout = min(session_timeout, resume.timeout)
        self.timing: Timing = self._derive(session_timeout)
        self._lease_proof = LeaseProof(self.timing)
        self.leases: LeaseBook = LeaseBook(self._lease_proof, self.timing, on_due)
        self.watches: WatchRegistry = WatchRegistry(self._ask, lambda: self.last_zxid)
        self._window = Window(max_in_flight, self.timing.prompt)
        self._requests = RequestQueue(self._window, max_queued, first_xid)
        self._silence = Silence(self._requests, self.watches, self.login)
        self._renewals = Renewals(self.leases, self._requests, lambda: self.last_contact, on_output)
        self._reset_link()

    def _reset_link(self) -> None:
        self._out: list[bytes] = []
        self._frames = FrameReader(self._max_reply)
        self._linked = False
        self._established = False
        self._handshake_sent = inf
        self._established_at = inf
        self._last_sent = -inf
        self._pings: deque[float] = deque()
        self._holds_back = False
        self.is_read_only: bool = False

    @property
    def max_body(self) -> int:
        """How long a request may be without its header, in bytes."""
        return self._max_request - HEADER

    # --- calls ---------------------------------------------------------------------------------

    def submit(self, call: Call[T], now: float, *, limited: bool = True) -> Call[T]:
        """Queues a call; it leaves as soon as it may, in the order of submission.

        Args:
            call: the call.
            now: the time.
            limited: whether it is refused if too many wait already.

        Raises:
            LocalWireError: it is longer than the servers accept.
            TooManyRequestsError: too many wait already.
        """
        self.watches.sweep()
        self.check_size(call)
        if self.state.is_final:
            call._fail(self.ended())
        elif self.state is SessionState.READ_ONLY and call.op in REFUSED_READ_ONLY:
            call._fail(NotReadOnlyError(call.path))
        else:
            if limited:
                self._requests.refuse_if_full(call)
            self._requests.enqueue(call, now)
            if self._established:
                self._on_output()
            else:
                self._on_due()
        return call

    def _send(self, data: bytes) -> None:
        self._out.append(data)
        self._on_output()

    def refuse_login(self, error: AuthFailedError) -> None:
        """The login failed for good: also for the owner, if the server is not what it should be."""
        if not self.state.is_final:
            self.login.refusal = str(error)
            self._move(Trigger.AUTH_REFUSED)
            self._end_session(LossReason.EXPIRED)

    def check_size(self, call: Call[T]) -> None:
        """Raises `LocalWireError` if a request is longer than the servers accept."""
        size = len(call.body) + HEADER
        if size > self._max_request:
            if call.arming is not None:
                call.arming.abandon()
            raise LocalWireError(
                f"the request has {size} bytes, the servers take at most {self._max_request}"
            )

    def close(self, now: float) -> Call[None]:
        """Ends the session: what is queued is still sent, then the server is told.

        The answer to the returned call says that every ephemeral znode is gone.
        """
        return self.submit(close_call(), now, limited=False)

    def closed(self) -> None:
        """The client is closed: whatever is still open fails."""
        if self.state is not SessionState.CLOSED:
            self._move(Trigger.CLOSED)
            self._end_session(LossReason.CLOSED)

    def failed(self, error: InternalError) -> None:
        """The client cannot go on: it is closed, and `ended` has the error as its cause."""
        if not self.state.is_final:
            self._failure = error
            self.closed()

    def ended(self) -> AioleadError:
        """Why the session is over, or the client."""
        return why_over(self.state, self.login.refusal, self._failure, self._is_resuming)

    # --- the link ------------------------------------------------------------------------------

    def link_up(self, now: float) -> None:
        """A connection was opened: the handshake goes out first."""
        self._reset_link()
        self._linked = True
        self._handshake_sent = now
        if self.last_contact == -inf:
            self.last_contact = now  # a session that is resumed: nobody here knows since when
        request = ConnectRequest(
            self.last_zxid,
            round(self._asked_timeout * 1000),
            self.session_id,
            self._password,
            read_only=self._read_only and self.session_id == 0,
        )
        self._out.append(encode_record(request))
        if self._may_be_early:
            self._out.append(self._requests.take(now, careful=False, early=True))

    @property
    def _may_be_early(self) -> bool:
        """Whether reads may leave with the handshake: servers read on once they know the session.

        Only where there is none yet, and no wrong one can be served. (ClickHouse Keeper hands out
        another session than it was asked for.)
        """
        is_first = self.session_id == 0 and self.last_zxid == 0
        return is_first and not (self._read_only or self.login.is_wanted)

    def link_down(self, now: float) -> None:
        """The connection is gone, for whatever reason."""
        if not self._linked:
            return
        established, was_read_only = self._established, self.is_read_only
        self._reset_link()
        self.login.link_lost(now, self.timing.patience, established=established)
        self._lease_proof.closed()
        self.watches.link_lost()
        if established:
            self._requests.link_lost(now, self.timing.patience)
        else:
            # What waits for a connection goes on waiting where one came to nothing.
            self._requests.take_back()
            self._fail_overdue(now)
        if self.state is SessionState.CONNECTED:
            self._move(Trigger.LINK_LOST)
        elif was_read_only and not self.state.is_final:
            self._expired(keep_queue=True)  # no other server knows the session
        self.leases.link_lost()
        self._on_due()

    @property
    def credentials(self) -> SessionCredentials | None:
        """What it takes to go on with the session elsewhere, if there is one."""
        if self.session_id == 0 or self.is_read_only:
            return None
        timeout = self.timing.session_timeout
        return SessionCredentials(self.session_id, self._password, timeout, self.last_zxid)

    @property
    def confirmed_at(self) -> float:
        """When the servers have last confirmed all that there is; `-inf` if there is no session.

        The session by any answer; what is held, or was lost and is not let go of, by the quorum.
        """
        if self.state not in (SessionState.CONNECTED, SessionState.SUSPENDED):
            return -inf
        return min(self._silence.last_answer, self.leases.confirmed_at)

    @property
    def is_resuming(self) -> bool:
        """Whether the session was given to us, and no server has resumed it yet."""
        return self._is_resuming

    def hold_back(self) -> None:
        """Requests wait for the next connection from now on: this one is about to be given up."""
        self._holds_back = True

    @property
    def awaits_answers(self) -> bool:
        """Whether requests were sent that are not answered yet."""
        return self._requests.inflight > 0

    @property
    def is_idle(self) -> bool:
        """Whether everything that was asked is answered."""
        return not (self._requests.inflight or self._requests.has_queued)

    @property
    def traffic(self) -> tuple[int, int, int]:
        """How many requests were sent so far, are unanswered, and wait to be sent."""
        return self._requests.sent, self._requests.inflight, self._requests.queued

    def give_up_session(self) -> None:
        """Every server refuses to resume the session: it is taken for expired.

        Servers that lost their data (or were replaced by others) close the connection of a client
        that has seen more than they have, without a word; the next session starts from nothing.
        """
        self.last_zxid = 0
        if self.session_id != 0:
            self._expired()

    def receive(self, data: bytes, now: float) -> None:
        """Takes bytes from the server.

        Raises:
            RemoteWireError: they are not ZooKeeper's protocol: the link must be cut.
            AuthFailedError: the credentials were refused, for good: the link must be cut.
            SessionExpiredError, SessionMovedError: the session is over, or so the server says: the
                link must be cut.
            ConnectionLossError: watches are not set again, or an answer is out of order: the same.
            InternalError: they are not understood, by a defect of ours: the same.
        """
        if not self._linked or self.state.is_final:
            # Bytes of a connection, or a client, that was given up while they were on their way.
            return
        self.leases.expire(now)  # before an answer comes that is too late for a lease
        self.last_contact = now
        try:
            for frame in self._frames.feed(data):
                if self._established:
                    self._packet(frame, now)
                elif self.login.is_under_way:
                    self.login.receive(frame, now)
                else:
                    self._shake_hands(Reader(frame), now)
        except Exception as error:
            why = as_aiolead_error(error, "reading what a server has sent")
            if self._established and isinstance(why, (RemoteWireError, InternalError)):
                self._requests.nonsense(why)
            elif isinstance(why, AuthFailedError):
                self.refuse_login(why)
            raise why from why.__cause__
        if self._frames.buffered:
            self._silence.begun(self._frames.begun, now)
        if self.leases.observer is not None:
            self.leases.observer.proof_moved()

    @property
    def has_output(self) -> bool:
        """Whether `data_to_send` may have something to give."""
        return bool(self._out) or self._requests.has_queued

    def data_to_send(self, now: float) -> bytes:
        """What to send next; empty if there is nothing, or no link."""
        if not self._linked:
            return b""
        if self._out:
            out = b"".join(self._out)
            self._out.clear()
        elif self._established and not self._holds_back:
            out = self._requests.take(now, careful=self.leases.is_held)
        else:
            out = b""
        if out:
            self._last_sent = now
        return out

    def _shake_hands(self, r: Reader, now: float) -> None:
        response = ConnectResponse.read(r)
        if response.timeout_ms <= 0 or response.session_id == 0:
            self._expired()
            raise SessionExpiredError("the server says that the session expired")
        if response.read_only and not (self._read_only and self.session_id == 0):
            raise RemoteWireError("a read-only server, which was not asked for")
        granted = granted_timeout(response)
        created = self.session_id != response.session_id
        if created and self.session_id != 0:
            # A server that cannot resume must say so. One that quietly hands out another session
            # (ClickHouse Keeper does) would make its client believe that its ephemerals live on.
            self._expired()
            if self._is_resuming:
                raise SessionExpiredError("the server does not know the session to be resumed")
        self._is_resuming = False
        self.is_read_only = response.read_only
        self.session_id = response.session_id
        self._password = response.password
        if not created:
            granted = min(granted, self.timing.granted)  # see `lease_proof`
        self.timing = self._derive(granted)
        if self.is_read_only:
            self._handshake_sent = -inf  # that such a server has heard it proves nothing
        self._lease_proof.opened(self.timing, self._handshake_sent, created=created)
        self.leases.retime(self.timing)
        self._window.patience = self.timing.prompt

        self.login.begin(now)

    def _introduce(self, now: float) -> None:
        """The server knows the session: on with all that it has to know besides."""
        self._established = True
        self._established_at = now
        self._silence.opened(now)
        # Credentials go before watches: what they may see depends on them.
        self.login.present_all(now)
        for request in self.watches.rearm(self.last_zxid, self._max_request - HEADER):
            body = encode_body(request)
            self._out.append(encode_request(XID_SET_WATCHES, request.op, body))
        self._look_whether_served()
        self._on_output()
        self._on_due()

    def _packet(self, frame: bytes, now: float) -> None:
        xid, zxid, err = read_header(frame)
        self._silence.answered(xid, now)
        if xid > 0:
            self._answer(xid, zxid, err, frame, now)
            return
        if xid == XID_EVENT:
            self._event(WatcherEvent.read(Reader(frame, HEADER_SIZE)), zxid)
            return
        if xid == XID_PING and self._pings:
            sent = self._pings.popleft()
            self._silence.pinged(sent, now)
            self._lease_proof.answered(sent, now, proof=False, led=False)
        elif xid == XID_SET_WATCHES and self.watches.unanswered:
            self.watches.rearmed(err)
        elif xid == XID_AUTH and self.login.is_pending:
            self.login.answered(err)
            self._look_whether_served()
        elif (what := RESERVED_XIDS.get(xid)) is not None:
            raise ConnectionLossError(f"the server answered {what}, but none was outstanding")
        else:
            raise RemoteWireError(f"an answer with the unknown xid {xid}")

    def _answer(self, xid: int, zxid: int, err: int, frame: bytes, now: float) -> None:
        call = self._requests.awaiting(xid)
        answer = call._read(err, Reader(frame, HEADER_SIZE))
        self._requests.answered(now)
        # Only now, since a zxid out of nonsense would have every server refuse us from then on.
        if zxid > self.last_zxid:
            self.last_zxid = zxid
        worked = not isinstance(answer, AioleadError)
        self._lease_proof.answered(
            call.sent_at, now, proof=call.is_proof and worked, led=call.is_led and worked
        )
        call._settle(answer, missing=err != 0)
        if isinstance(answer, (AuthFailedError, SessionExpiredError, SessionMovedError)):
            # The first comes from a server that serves authenticated clients only. The others: a
            # follower goes on serving the connection of a session that is over, pings included, if
            # the session was resumed there while the leader was closing it. Only the next
            # handshake, which the leader answers, gets us out of there.
            raise answer

    def _event(self, event: WatcherEvent, zxid: int) -> None:
        try:
            type_ = EventType(event.type)
        except ValueError:
            return  # of a kind of watch that we do not set
        self.watches.fire(type_, event.path, zxid)

    def _look_whether_served(self) -> None:
        """The server takes requests, once it has taken the credentials."""
        if self.login.is_pending or self.state in SERVED:
            return
        if not self.is_read_only:
            self._move(Trigger.ESTABLISHED)
            return
        for call in self._requests.withdraw(REFUSED_READ_ONLY):
            call._fail(NotReadOnlyError(call.path))
        self._move(Trigger.ESTABLISHED_READ_ONLY)

    def _ask(self, call: Call[None]) -> None:
        """Sends a request of the watches' own; nobody waits for it."""
        if self._established:
            self._requests.enqueue(call, self.last_contact)
            self._on_output()

    # --- the session ---------------------------------------------------------------------------

    def _move(self, trigger: Trigger) -> None:
        before, self.state = self.state, after(self.state, trigger)
        if self.state is not before:
            self._on_state(self.state, self.session_id)
            if self.state.is_final:
                self.watches.end(self.ended)

    def _expired(self, *, keep_queue: bool = False) -> None:
        self._move(Trigger.EXPIRED)
        self._end_session(LossReason.EXPIRED, keep_queue=keep_queue)
        if self._is_resuming:
            self._move(Trigger.CLOSED)  # whoever asked for this session wants no other one
            return
        self.session_id = 0
        self._password = b""
        self._move(Trigger.RETRY)

    def _end_session(self, reason: LossReason, *, keep_queue: bool = False) -> None:
        self.leases.lose_all(reason)
        if not keep_queue:
            self._requests.fail_all(self.ended)
        if self.state.is_final:
            self.login.fail_all()
        self.watches.session_over()

    # --- time ----------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When `tick` has something to do next, if nothing happens before."""
        due = min(
            self.leases.deadline if self.leases.is_held else inf,
            self.leases.settle_due(),
        )
        if self._established:
            return min(
                due,
                self._ping_due(),
                self._silent_due(),
                self._cut_due(),
                self.leases.renewal_due(),
            )
        requests = self._requests
        for since in (requests.waiting_since, requests.early_since, self.login.waiting_since):
            if since is not None:
                due = min(due, since + self.timing.patience)
        return due

    def _ping_due(self) -> float:
        return self._last_sent + self.timing.ping_after

    def _silent_due(self) -> float:
        return self._silence.since + self.timing.silent_after

    def _cut_due(self) -> float:
        # Not before the connection has had its chance.
        short_at = self.leases.short_at(can_move=self.can_move)
        return max(short_at, self._established_at + self.timing.renew_every)

    def tick(self, now: float) -> str | None:
        """Does what is due.

        Returns:
            Why the link must be cut, if it must.
        """
        self.leases.expire(now)
        self.leases.settle(now)
        self.watches.sweep()
        if not self._established:
            self._fail_overdue(now)
            self.login.fail_overdue(now, self.timing.patience)
            early = self._requests.early_since
            if early is not None and early + self.timing.patience <= now:
                return "the server does not answer the handshake, and a request has waited for long"
            return None
        if now >= self._silent_due():
            return self._silence.reason(self.timing.silent_after)
        if now >= self._cut_due():
            return "the server does not confirm the lease"
        if now >= self.leases.renewal_due():
            self._renewals.renew(now, self.max_body)
            self._on_output()
        if now >= self._ping_due():
            self._out.append(PING)
            self._pings.append(now)
            self._last_sent = now
        return None

    def _fail_overdue(self, now: float) -> None:
        patience = self.timing.patience
        self._requests.fail_overdue(now, patience, lambda: unreached(patience))
