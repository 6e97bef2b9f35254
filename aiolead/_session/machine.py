"""The session machine: everything a client decides, without I/O.

Its owner moves bytes and provides the time, in seconds on one monotonic clock:

    connection_made(now)  a connection was opened; send what `data_to_send` returns
    receive(data, now)    bytes arrived
    data_to_send(now)     bytes to send now; call again after every other method
    receive(b"", now)     while `decoding`: goes on with a long answer; no more bytes before its end
    connection_lost(now)  the connection is gone; say how, if the other end closed it
    tick(now)             `next_deadline` has passed; returns why to close the connection, if so

Answers, events and state changes are delivered within these methods; from there, only new calls and
`data_to_send` are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, TypeVar

from .._util.internal_errors import as_aiolead_error
from .._wire.codes import (
    REFUSED_READ_ONLY,
    RESERVED_XIDS,
    XID_AUTH,
    XID_EVENT,
    XID_PING,
    XID_SET_WATCHES,
)
from .._wire.handshake import NO_PASSWORD, ConnectRequest, ConnectResponse, check_protocol
from .._wire.jute import (
    BYTES_AN_ELEMENT,
    HEADER_SIZE,
    PING,
    REQUEST_HEADER,
    FrameReader,
    Reader,
    encode_record,
    encode_request,
)
from .._wire.long_frames import LONG, LongFrame, LongReader, Steps
from .._wire.replies import WatcherEvent
from .._wire.requests import SetWatches
from .._wire.versions import Engine, Version
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
from .ephemeral_paths import EphemeralPaths
from .lease import LeaseBook, LeaseProof, Renewals
from .liveness import Liveness
from .present_server import FEATURE_OF, PresentServer
from .requests import (
    RENEWAL,
    Call,
    RequestQueue,
    close_call,
    ends_connection,
    read_answer,
    unreached,
)
from .states import SERVED, Trigger, after, why_over
from .suspects import RIGHT_AFTER, SHORT
from .timing import DRIFT, Timing, granted_timeout
from .watches import WatchRegistry

if TYPE_CHECKING:
    from .observer import HoldObserver, SessionObserver

T = TypeVar("T")

_EVENT_TYPES = {each.value: each for each in EventType}

FIRST_PAUSE = 1 / 16
"""The first pause after an overloaded server has not set the watches again, in session timeouts."""

LONGEST_PAUSE = 1.0
"""The longest one: the pauses double."""


def _lazily(frames: FrameReader, data: bytes) -> Iterator[bytes | LongFrame]:
    """Feed bytes only once the frames before them are exhausted."""
    yield from frames.frames(data)


class SessionMachine:
    """One client's sessions, one after another, each over any number of connections.

    Settings are those of `aiolead.connect` and `aiolead.Limits`. `on_challenge` is called with each
    token of a SASL server, first with an empty one; `login.answer` answers. None: no SASL.
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
        max_ephemeral_paths: int,
        tick_time: float | None,
        grace_period: float | None,
        read_only: bool = False,
        resume: SessionCredentials | None = None,
        first_xid: int = 1,
        engine: Engine | None = None,
        server_version: Version | None = None,
        observer: SessionObserver,
        watchdog: HoldObserver | None = None,
        on_challenge: Callable[[bytes], object] | None = None,
    ) -> None:
        self.state: SessionState = SessionState.CONNECTING
        self.session_id: int = 0
        self.last_zxid: int = 0
        self.is_read_only: bool = False
        self.is_resuming: bool = resume is not None
        """Whether the session was passed in, and no server has resumed it yet."""
        self._passed_on = 0
        """The session whose credentials other processes may have; 0 for none."""
        self._is_handed_over = resume is not None and resume.is_detached
        """Whether the process that had the session before has left it to this client."""
        self.sole_at: float = inf
        """From when on no other process that has the session can hold anything; `inf` for unknown.

        Its lease counts from a request on its own connection, which ended before our handshake was
        answered.
        """
        self._password = NO_PASSWORD
        self._failure: InternalError | None = None
        self._observer = observer
        self._watchdog = watchdog
        if resume is not None:
            self.session_id, self._password = resume.session_id, resume.password
            self._passed_on = resume.session_id
            self.last_zxid = resume.last_zxid
        self.last_contact: float = -inf
        self.can_move = False
        """Whether there is another server, so that it is worth leaving one early."""
        self.max_body: int = max_request - REQUEST_HEADER
        """The longest request without its header, in bytes."""
        self._own_room = self.max_body
        """The same for renewals and re-arming, which can be shared out; see `_make_room`."""
        self._asked_timeout = session_timeout
        self._longest_timeout = session_timeout if resume is None else resume.timeout
        self.login: Authentication = Authentication(
            auth, on_challenge, self._send, self._session_established, self.ended
        )
        self.max_reply: int = max_reply
        self._derive = partial(
            Timing.derive, asked=session_timeout, tick_time=tick_time, grace_period=grace_period
        )
        self._read_only = read_only
        if resume is not None:
            # The shortest timeout that was ever granted counts: see `lease`.
            session_timeout = min(session_timeout, resume.timeout)
        self.timing: Timing = self._derive(session_timeout)
        self._lease_proof = LeaseProof(self.timing)
        self.leases: LeaseBook = LeaseBook(self._lease_proof, self.timing, observer, watchdog)
        self.watches: WatchRegistry = WatchRegistry(
            self._ask, lambda: self.last_zxid, self._put_off_rearming
        )
        self.ephemerals: EphemeralPaths = EphemeralPaths(max_ephemeral_paths, observer)
        self.server: PresentServer = PresentServer(engine, server_version)
        self.requests: RequestQueue = RequestQueue(
            self.server,
            max_in_flight=max_in_flight,
            max_queued=max_queued,
            prompt=self.timing.prompt,
            first_xid=first_xid,
        )
        self._liveness = Liveness(self.requests, self.watches, self.login)
        self.renewals: Renewals = Renewals(
            self.leases, self._lease_proof, self.requests, observer, lambda: self.last_contact
        )
        self._reset_connection()

    def _reset_connection(self) -> None:
        self._out: list[bytes] = []
        self._frames = FrameReader(self.max_reply, long=LONG)
        self.decoding: Iterator[None] | None = None
        """The steps of a long answer that is being decoded."""
        self._frames_left: Iterator[bytes | LongFrame] = iter(())
        self._reply = Reader(b"", most_elements=self.max_reply // BYTES_AN_ELEMENT)
        self._is_connected = False
        self._established = False
        self._handshake_sent = inf
        self._established_at = inf
        self._rearmed_at = -inf
        self.sole_at = inf
        self._last_sent = -inf
        self._holds_back = False
        self.is_read_only = False

    # --- the session: its identity and its end --------------------------------------------------

    @property
    def credentials(self) -> SessionCredentials | None:
        """The credentials with which another client can resume the session, if there is one."""
        if self.session_id == 0 or self.is_read_only:
            return None
        timeout = self.timing.session_timeout
        return SessionCredentials(self.session_id, self._password, timeout, self.last_zxid)

    def pass_on(self) -> None:
        """Record that another process may get the credentials of the present session."""
        self._passed_on = self.session_id
        self._is_handed_over = False

    def keep(self) -> None:
        """Record that no other process has the session, although it was passed in."""
        self._passed_on = 0

    @property
    def is_passed_on(self) -> bool:
        """Whether another process may have the present session, too."""
        return self._passed_on != 0 and self._passed_on == self.session_id

    @property
    def is_own(self) -> bool:
        """Whether no other process can hold anything that ends with the present session.

        One that has the session may take it back at any time, and this client learns of that only
        by its next write. ZooKeeper checks the owner of every write, but not of the request that
        ends a session.
        """
        return not self.is_passed_on or self._is_handed_over

    @property
    def awaits_session(self) -> bool:
        """Whether a server was asked to grant or to resume a session, and has not answered yet."""
        return self._is_connected and not self._established

    def ended(self) -> AioleadError:
        """The error that says why the session, or the client, has ended."""
        return why_over(self.state, self.login.refusal, self._failure, self.is_resuming)

    def closed(self) -> None:
        """Close the client: whatever is still open fails."""
        if self.state is not SessionState.CLOSED:
            self._move(Trigger.CLOSED)
            self._end_session(LossReason.CLOSED)

    def failed(self, error: InternalError) -> None:
        """Close the client after a defect, which becomes the cause of `ended`."""
        if not self.state.is_final:
            self._failure = error
            self.closed()

    def refuse_login(self, error: AuthFailedError) -> None:
        """End after a login failed for good; also for an owner that does not trust the server."""
        if not self.state.is_final:
            self.login.refusal = f"{self.server.name}: {error}"
            self._move(Trigger.AUTH_REFUSED)
            self._end_session(LossReason.EXPIRED)

    def give_up_session(self) -> None:
        """Treat the session as expired: every server refuses to resume it.

        Servers that have lost their data (or were replaced) close the connection of a client that
        has seen more than they have, without an answer; so the next session starts from nothing.
        """
        self.last_zxid = 0
        if self.session_id != 0:
            self._expired()

    def _move(self, trigger: Trigger) -> None:
        before, self.state = self.state, after(self.state, trigger)
        if self.state is not before:
            self._observer.state_changed(self.state, self.session_id)
            if self.state.is_final:
                self.watches.end(self.ended)

    def _expired(self, *, keep_queue: bool = False) -> None:
        self._move(Trigger.EXPIRED)
        self._end_session(LossReason.EXPIRED, keep_queue=keep_queue)
        if self.is_resuming:
            self._move(Trigger.CLOSED)  # no other session was asked for
            return
        self.session_id = 0
        self._password = NO_PASSWORD
        self._move(Trigger.RETRY)

    def _end_session(self, reason: LossReason, *, keep_queue: bool = False) -> None:
        self.leases.lose_all(reason)
        if not keep_queue:
            self.requests.fail_all(self.ended)
        if self.state.is_final:
            self.login.fail_all()
        self.watches.session_over()
        self.ephemerals.session_over()

    # --- calls ---------------------------------------------------------------------------------

    def submit(self, call: Call[T], now: float) -> Call[T]:
        """Queue a call; calls leave in order, as soon as they may.

        Raises `LocalWireError` if it is longer than servers accept, `TooManyRequestsError` if it is
        the user's and too many wait already, and `TooManyHoldsError` if it creates more ephemeral
        znodes than the session may have.
        """
        if self.watches.dropped_slots:
            self.watches.sweep()
        if len(call.body) > self.max_body:
            self.check_size(call)
        requests = self.requests
        if self.state.is_final:
            call.fail(self.ended())
        elif self.state is SessionState.READ_ONLY and call.op in REFUSED_READ_ONLY:
            call.fail(NotReadOnlyError(call.path))
        else:
            if requests.suspects.records and (refusal := requests.suspects.refusal(call, now)):
                call.fail(refusal)
                return call
            if call.is_users and requests.queue:
                requests.refuse_if_full(call)
            if call.ephemerals:
                self.ephemerals.expect(call)
            requests.enqueue(call, now)
            if self._established:
                self._observer.output_ready()
            else:
                self._observer.due_earlier(-inf)
        return call

    def check_size(self, call: Call[T]) -> None:
        """Raise `LocalWireError` if a request is longer than the servers accept."""
        if len(call.body) > self.max_body:
            call.abandon()
            raise LocalWireError(
                f"the request has {len(call.body) + REQUEST_HEADER} bytes, "
                f"the servers take at most {self.max_body + REQUEST_HEADER}"
            )

    def _ask(self, call: Call[None]) -> None:
        """Send a request of the watches, which nobody awaits."""
        if self._established:
            self.requests.enqueue(call, self.last_contact)
            self._observer.output_ready()

    def _send(self, data: bytes) -> None:
        self._out.append(data)
        self._observer.output_ready()

    def hold_back(self) -> None:
        """Keep requests for the next connection: this one is about to be closed."""
        self._holds_back = True

    def close(self, now: float) -> Call[None]:
        """End the session after what is queued; once answered, its ephemeral znodes are gone."""
        return self.submit(close_call(), now)

    # --- the connection ------------------------------------------------------------------------

    def connection_made(self, now: float, server: str = "the server") -> None:
        """Begin with a connection; `server` is how messages name it."""
        self._reset_connection()
        self.server.opened(server)
        self._is_connected = True
        self._handshake_sent = now
        if self.last_contact == -inf:
            self.last_contact = now  # unknown for a resumed session
        request = ConnectRequest(
            self.last_zxid,
            round(self._asked_timeout * 1000),
            self.session_id,
            self._password,
            read_only=self._read_only and self.session_id == 0,
        )
        self._out.append(encode_record(request))
        # Servers serve reads that come with the handshake. Only in the first session, so that none
        # is served by a wrong one: ClickHouse Keeper may grant another session than requested.
        is_first = self.session_id == 0 and self.last_zxid == 0
        if is_first and not (self._read_only or self.login.is_wanted):
            self._out.append(self.requests.take(now, careful=False, early=True))

    def connection_lost(self, now: float, closed: str = "") -> None:
        """Prepare for the next connection; `closed` says how the other end closed this one."""
        if not self._is_connected:
            return
        established, was_read_only = self._established, self.is_read_only
        if closed and established:
            self._make_room(now)
            self.server.closed(self.requests.unanswered, now, self.timing.patience)
        self._reset_connection()
        self.renewals.connection_lost()
        self.login.connection_lost(now, self.timing.patience, established=established)
        self._lease_proof.closed()
        self.watches.connection_lost()
        if established:
            self.requests.connection_lost(now, self.timing.patience, closed)
        else:
            self.requests.requeue_inflight()
            self._fail_overdue(now)
        if self.state is SessionState.CONNECTED:
            self._move(Trigger.CONNECTION_LOST)
        elif was_read_only and not self.state.is_final:
            self._expired(keep_queue=True)  # no other server knows the session
        if self.state is SessionState.SUSPENDED and not self.server.keeps_sessions:
            # The server ends the session as soon as it learns of the loss, if it has not done so
            # already. No body may rely on what is left of the lease.
            self._expired()
        self.leases.connection_lost()
        self._observer.due_earlier(-inf)

    def _make_room(self, now: float) -> None:
        """Make our own requests shorter, if the connection was closed right after long ones.

        They are needed on each connection, so they cannot be refused as those of users.
        """
        since = now - RIGHT_AFTER * self.timing.patience
        own = [
            call.size
            for call in self.requests.unanswered
            if call.kind is RENEWAL and call.sent_at >= since
        ]
        if self._rearmed_at >= since:
            own.append(self.watches.longest_unanswered())
        longest = max(own, default=0)
        if longest > SHORT:
            self._own_room = min(self._own_room, max(SHORT, longest // 2) - REQUEST_HEADER)

    def receive(self, data: bytes, now: float) -> bool:
        """Process bytes from the server; return whether there may be something to send.

        After any error the connection must be closed.

        Raises:
            RemoteWireError: they are not ZooKeeper's protocol.
            AuthFailedError: the credentials were refused, for good.
            SessionExpiredError, SessionMovedError: the server says that the session is over.
            ConnectionLossError: watches are not re-armed, or an answer is out of order.
            InternalError: a defect of ours.
        """
        if not self._is_connected or self.state.is_final:
            # The connection or the client was closed while these bytes were on their way.
            return False
        leases = self.leases
        if leases.settled or leases.fresh:
            self.leases.expire(now)  # before an answer comes that is too late for a lease
        if data:
            self.last_contact = now
        try:
            long = self.decoding
            frames = self._frames.frames(data) if long is None else self._go_on(data, now)
            for each in frames:
                frame = each if isinstance(each, bytes) else self._long(each, now)
                if frame is None:
                    self._frames_left = frames
                    break
                if self._established:
                    self._packet(frame, now)
                elif self.login.is_under_way:
                    self.login.receive(frame, now)
                else:
                    self._handshake_answered(Reader(frame), now)
        except Exception as error:
            why = as_aiolead_error(error, "reading what a server has sent")
            if self._established and isinstance(why, (RemoteWireError, InternalError)):
                patience, too_long = self.timing.patience, self._frames.is_too_long
                self.requests.fail_oldest(why, now, patience, is_too_long=too_long)
            elif isinstance(why, AuthFailedError):
                self.refuse_login(why)
            raise why from why.__cause__
        if self._frames.kept:
            self._liveness.begun(self._frames.begun, now)
        if self._watchdog is not None:
            self._watchdog.proof_moved(leases)
        requests = self.requests
        return bool(self._out or requests.queue or requests.express)

    def data_to_send(self, now: float) -> bytes:
        """Return what to send next: all there is, if it is less than `SEGMENT`."""
        if not self._is_connected:
            return b""
        out = b""
        if self._out:
            out = b"".join(self._out)
            self._out.clear()
        if self._established and not self._holds_back:
            leases = self.leases
            out += self.requests.take(now, careful=bool(leases.settled or leases.fresh))
        if out:
            self._last_sent = now
        return out

    # --- what servers send ---------------------------------------------------------------------

    def _handshake_answered(self, r: Reader, now: float) -> None:
        response = ConnectResponse.read(r)
        check_protocol(response)
        if response.timeout_ms <= 0 or response.session_id == 0:
            self._expired()
            raise SessionExpiredError("the server says that the session expired")
        if response.read_only and not (self._read_only and self.session_id == 0):
            raise RemoteWireError("a read-only server, which was not asked for")
        granted = granted_timeout(response)
        created = self.session_id != response.session_id
        if created and self.session_id != 0:
            # A server that cannot resume must say so. ClickHouse Keeper quietly grants another
            # session: its client would believe that its ephemerals live on.
            self._expired()
            if self.is_resuming:
                raise SessionExpiredError("the server does not know the session to be resumed")
        self.is_resuming = False
        self.server.greeted(response)
        self.is_read_only = response.read_only
        self.session_id = response.session_id
        self._password = response.password
        if not created:
            granted = min(granted, self.timing.granted)  # see `lease`
        self.timing = self._derive(granted)
        self._longest_timeout = max(self._longest_timeout, self.timing.session_timeout)
        wait = self._longest_timeout * (1 + 2 * DRIFT)  # both clocks may drift
        self.sole_at = -inf if created else now + wait
        if self.is_read_only:
            self._handshake_sent = -inf  # proves nothing at such a server
        self._lease_proof.opened(self.timing, self._handshake_sent, created=created)
        self.leases.granted(self.session_id, self.timing)
        self.requests.prompt = self.timing.prompt
        self.login.begin(now)

    def _session_established(self, now: float) -> None:
        """Send credentials and watches: handshake and login are done."""
        self._established = True
        self._established_at = now
        self.renewals.connected()
        self._liveness.connected(now)
        # Credentials go before watches, since they decide which events these get.
        self.login.present_all(now)
        self._set_watches(self.watches.rearm(self.last_zxid, self._own_room), now)
        self._serve_if_accepted()
        self._observer.output_ready()
        self._observer.due_earlier(-inf)

    def _set_watches(self, requests: Iterable[SetWatches], now: float) -> None:
        self._rearmed_at = now
        for request in requests:
            if request.op in self.server.lacking:
                why = self.server.unsupported(FEATURE_OF[request.op])
                raise ConnectionLossError(f"the server cannot set watches again: {why}")
            body = request.encode()
            self._out.append(encode_request(XID_SET_WATCHES, request.op, body))

    def _put_off_rearming(self, dropped: int) -> float:
        """When to ask an overloaded server again that has dropped so many requests in a row."""
        doubled = FIRST_PAUSE * 2.0 ** min(dropped, 10)
        at = self.last_contact + self.timing.patience * min(doubled, LONGEST_PAUSE)
        self._observer.due_earlier(at)
        return at

    def _serve_if_accepted(self) -> None:
        """Let requests leave, once the server has accepted the credentials."""
        if self.login.presented or self.state in SERVED:
            return
        if self.is_read_only:
            for call in self.requests.withdraw(REFUSED_READ_ONLY):
                call.fail(NotReadOnlyError(call.path))
            self._move(Trigger.ESTABLISHED_READ_ONLY)
        else:
            self._move(Trigger.ESTABLISHED)
        if self.server.is_unknown:
            self._observer.release_unknown()

    def _packet(self, frame: bytes, now: float) -> None:
        reply = self._reply
        reply.open(frame)
        if reply.xid <= 0:
            self._other_packet(reply, now)
            return
        liveness, requests = self._liveness, self.requests
        liveness.last_answer = liveness.last_reply = now
        unanswered = requests.unanswered
        if not unanswered or unanswered[0].xid != reply.xid:
            raise requests.skipped(reply.xid)
        call = unanswered[0]
        answer = read_answer(call, reply.err, reply)
        requests.answered(now)
        # Only after decoding: with a zxid from malformed bytes, every server would refuse us.
        if reply.zxid > self.last_zxid:
            self.last_zxid = reply.zxid
        worked = not isinstance(answer, AioleadError)
        kind = call.kind
        if self.server.suspected:
            self.server.answered(call.op)
        self._lease_proof.answered(
            call.sent_at, now, proof=kind.is_proof and worked, led=kind.is_led and worked
        )
        if worked:
            call.succeed(answer, missing=reply.err != 0)
            return
        if isinstance(answer, AuthFailedError):
            self.refuse_login(answer)
            answer = self.ended()  # which names the server
        call.fail(answer)
        if isinstance(answer, (AuthFailedError, SessionExpiredError, SessionMovedError)):
            # AuthFailed: the server serves authenticated clients only. Otherwise: a follower keeps
            # serving the connection of a session that is over, pings included, if the session was
            # resumed there while the leader was closing it. Only a new handshake ends this, since
            # the leader answers it.
            raise answer

    # --- long answers --------------------------------------------------------------------------

    def _long(self, frame: LongFrame, now: float) -> bytes | None:
        """Begin to decode a long answer in steps; return it whole if it is another frame."""
        reply = self._reply
        head = frame.pieces[0]
        reply.open(head)
        unanswered = self.requests.unanswered
        if self._established and unanswered and reply.xid == unanswered[0].xid and not reply.err:
            call = unanswered[0]
            if call.steps is not None:
                reader = LongReader(frame, HEADER_SIZE, self.max_reply // BYTES_AN_ELEMENT)
                self.decoding = self._answer_in_steps(call, call.steps(reader), reply.zxid, now)
                return None
        return frame.joined()

    def _go_on(self, data: bytes, now: float) -> Iterator[bytes | LongFrame]:
        """Decode one more piece of a long answer, or all that is left if there are more bytes.

        Return the frames that follow, as far as they may be processed now.
        """
        # The server has answered in time. Answers behind this one have to wait for it.
        self._liveness.last_answer = self._liveness.last_reply = now
        for _ in self.decoding or ():
            if not data:
                return iter(())
        frames = self._frames_left
        if not data:
            return frames
        return chain(frames, _lazily(self._frames, data))

    def _answer_in_steps(
        self, call: Call[T], steps: Steps[T], zxid: int, came: float
    ) -> Iterator[None]:
        """Answer a read as `_packet` does it; `came` is when the answer was complete."""
        answer: T | AioleadError
        try:
            answer = yield from steps
        except AioleadError as error:
            if ends_connection(error):
                raise
            answer = error
        self.decoding = None
        self.requests.answered(came)
        self.last_zxid = max(self.last_zxid, zxid)
        self._lease_proof.answered(call.sent_at, came, proof=False, led=False)
        if isinstance(answer, AioleadError):
            call.fail(answer)
        else:
            call.succeed(answer)

    def _other_packet(self, reply: Reader, now: float) -> None:
        """Take an event, or the answer to something else than a request."""
        xid = reply.xid
        self._liveness.answered(xid, now)
        if xid == XID_EVENT:
            self._event(WatcherEvent.read(reply), reply.zxid)
        elif xid == XID_PING and self._liveness.pings:
            sent = self._liveness.pinged(now)
            self._lease_proof.answered(sent, now, proof=False, led=False)
        elif xid == XID_SET_WATCHES and self.watches.unanswered:
            self.watches.rearmed(reply.err)
        elif xid == XID_AUTH and self.login.presented:
            self.login.answered(reply.err)
            self._serve_if_accepted()
        elif (what := RESERVED_XIDS.get(xid)) is not None:
            raise ConnectionLossError(f"the server answered {what}, but none was outstanding")
        else:
            raise RemoteWireError(f"an answer with the unknown xid {xid}")

    def _event(self, event: WatcherEvent, zxid: int) -> None:
        type_ = _EVENT_TYPES.get(event.type)
        if type_ is None:
            return  # of a watch type that is never set
        ephemerals = self.ephemerals
        if type_ is EventType.DELETED and (event.path in ephemerals.paths or ephemerals.lost):
            ephemerals.gone(event.path)
        self.watches.fire(type_, event.path, zxid)

    # --- time ----------------------------------------------------------------------------------

    @property
    def confirmed_at(self) -> float:
        """When an answer last confirmed the session, and the quorum its holds; or `-inf`."""
        if self.state not in (SessionState.CONNECTED, SessionState.SUSPENDED):
            return -inf
        return min(self._liveness.last_answer, self.leases.confirmed_at)

    def next_deadline(self) -> float:
        due = self.leases.due()
        if self._established:
            return min(
                due,
                self._last_sent + self.timing.ping_after,
                self._liveness.silence()[0] + self.timing.silent_after,
                self._cut_due(),
                self.renewals.due(),
                self.watches.again_at,
            )
        requests = self.requests
        for since in (requests.waiting_since, requests.early_since, self.login.waiting_since):
            if since is not None:
                due = min(due, since + self.timing.patience)
        return due

    def _cut_due(self) -> float:
        # Not before a new connection has had its chance.
        short_at = self.renewals.short_at(can_move=self.can_move and self.server.keeps_sessions)
        return max(short_at, self._established_at + self.timing.renew_every)

    def tick(self, now: float) -> str | None:
        """Do what is due. Return why the connection must be closed, if it must."""
        self.leases.expire(now)
        self.leases.settle(now)
        if self.watches.dropped_slots:
            self.watches.sweep()
        if not self._established:
            self._fail_overdue(now)
            self.login.fail_overdue(now, self.timing.patience)
            early = self.requests.early_since
            if early is not None and early + self.timing.patience <= now:
                return "the server does not answer the handshake, and a request has waited for long"
            return None
        if now >= self._liveness.silence()[0] + self.timing.silent_after:
            return self._liveness.reason(self.timing.silent_after)
        if now >= self._cut_due():
            return "the server does not confirm the lease"
        if now >= self.renewals.due():
            self.renewals.renew(now, self._own_room)
            self._observer.output_ready()
        if now >= self.watches.again_at:
            self._liveness.rearming(now)
            self._set_watches(self.watches.rearm_again(), now)
            self._observer.output_ready()
        if now >= self._last_sent + self.timing.ping_after:
            self._out.append(PING)
            self._liveness.pings.append(now)
            self._last_sent = now
        return None

    def _fail_overdue(self, now: float) -> None:
        patience = self.timing.patience
        self.requests.fail_overdue(now, patience, self._unreached)

    def _unreached(self) -> ConnectionLossError:
        return unreached(self.timing.patience, self._observer.attempts())
