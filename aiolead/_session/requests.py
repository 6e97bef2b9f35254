"""Requests: the rules of each type, their order, and their retries after a lost connection.

Lease renewals go first and are never counted. Users' requests leave in the order of the calls, as
many at a time as may be in flight.

A server answers the requests of a connection in order, and sends nothing unasked but events.
Anything else ends the connection:

    input                                            error                the requests in flight
    bytes that cannot be decoded (a length, a        RemoteWireError      the oldest fails with that
    header, a body, an event), an unknown xid                             error; the others as below
    the answer to another request than the oldest    ConnectionLossError  reads are sent again,
    one in flight, or to none                                             writes fail: UNKNOWN
    a text in an answer that cannot be decoded       UnreadableTextError  none: the connection stays
    a list in an answer that is too long             AnswerTooLargeError  none: the connection stays
    an answer to a ping, to credentials or to        ConnectionLossError  the same
    SetWatches that are not outstanding

A server answers in order, so a lease renewal waits behind the requests in flight. While anything is
held, these are at most twice as many as the server has answered in time so far, beginning with a
few. While nothing is held, they are as many as the user allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .._util.escaping import in_seconds
from .._util.internal_errors import internal_error
from .._wire.codes import OpCode, op_name, server_error
from .._wire.jute import REQUEST_HEADER, Reader, request_header
from .._wire.long_frames import LongReader, Steps
from .._wire.replies import (
    CreateReply,
    DoneResult,
    ErrorResult,
    MultiReply,
    MultiResult,
    PathReply,
    StatReply,
)
from .._wire.requests import Check, CloseSession, Create, Delete, Multi, MultiOp, SetData
from ..errors import (
    AioleadError,
    AnswerTooLargeError,
    ConnectionLossError,
    Outcome,
    RemoteWireError,
    RolledBackError,
    RuntimeInconsistencyError,
    ServerError,
    SessionError,
    TooManyRequestsError,
    TransactionError,
    UnknownServerError,
    UnreadableTextError,
)
from .suspects import LOSSES, LOSSES_OF_UNREADABLE, Suspects, likely_causes, may_be_cause

if TYPE_CHECKING:
    from .present_server import PresentServer

T = TypeVar("T")

RETRIED_FOR = 2
"""Session timeouts for which a read is sent again after it first lost a connection: the read itself
may be the cause."""


@dataclass(slots=True, eq=False, repr=False)
class CallKind:
    """The properties of a type of request.

    Attributes:
        is_write: it changes something, so it must not be sent twice.
        is_proof: its success is a committed transaction, which an isolated server cannot give.
        is_led: the leader answers it in order, as it does a write; see `lease`.
        is_bound: it is useless on any other connection.
        is_counted: it is a user's, so `max_in_flight` counts it.
    """

    is_write: bool = False
    is_proof: bool = False
    is_led: bool = False
    is_bound: bool = False
    is_counted: bool = True


READ = CallKind()
BOUND_READ = CallKind(is_bound=True)
"""A read that needs a feature of the current server."""
SYNC = CallKind(is_led=True)
WRITE = CallKind(is_write=True, is_proof=True, is_led=True)
UNPROVEN_WRITE = CallKind(is_write=True)
"""A write whose success may be something else than a committed transaction."""
WATCH_CHANGE = CallKind(is_write=True, is_bound=True)
RENEWAL = CallKind(is_write=True, is_proof=True, is_led=True, is_bound=True, is_counted=False)
CONFIRMATION = CallKind(is_led=True, is_bound=True, is_counted=False)
"""The `sync` that makes a renewal count."""
QUESTION = CallKind(is_bound=True, is_counted=False)
"""A read of aiolead's own, about the current server."""
CLOSE = CallKind(is_write=True, is_counted=False)


class ReplyFuture(Protocol):
    """A future of the event loop, with which one task waits for an answer."""

    def done(self) -> bool:
        """Whether it was woken, or its wait was cancelled."""
        ...

    def set_result(self, result: Any, /) -> object: ...

    def set_exception(self, error: AioleadError, /) -> object: ...


class WatchEffect(Protocol):
    """The effect of a request on watches."""

    def sending(self, body: bytes) -> bytes | None:
        """Return the body to send now, maybe not for the first time; None drops the request."""
        ...

    def armed(self, *, missing: bool = False) -> None:
        """The request was answered; `missing`: there is no such znode."""
        ...

    def abandon(self) -> None:
        """The request has failed, or was dropped."""
        ...


class EphemeralCount(Protocol):
    """The part of `EphemeralPaths` that a call knows."""

    def failed(self, paths: Sequence[str], error: AioleadError, /) -> None:
        """The request that was to create them has failed."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class Call(Generic[T]):
    """One request and, later, its answer.

    Attributes:
        body: the encoded request, without header.
        parse: decodes the answer; may raise the error that it finds there.
        path: how errors name its subject.
        arming: its effect on watches, if any.
        on_error: turns some errors into a result, and returns the others.
        steps: decodes a long answer as `parse` would.
        is_users: the program has made it, not a recipe: it is refused while too many wait, and its
            failure is reported if nobody asks for its outcome.
        ephemerals: the paths of ephemeral znodes that it creates; see `EphemeralPaths`.
        counted_in: the count that includes them, once it is queued.
        lost_at: when the first connection over which it was sent was lost.
        ahead: how many counted calls were in flight before it.
        is_done: whether it was answered, has failed, or was dropped.
        size: its length with its header in bytes, once it was sent.
        _waiter: the task that awaits it, if nothing else is to be called before.
    """

    op: int
    body: bytes
    parse: Callable[[Reader], T]
    kind: CallKind = READ
    path: str | None = None
    arming: WatchEffect | None = None
    on_error: Callable[[AioleadError], T | AioleadError] | None = None
    steps: Callable[[LongReader], Steps[T]] | None = field(default=None, init=False)
    is_users: bool = field(default=False, init=False)
    ephemerals: Sequence[str] = field(default=(), init=False)
    counted_in: EphemeralCount | None = field(default=None, init=False)
    xid: int = field(default=0, init=False)
    queued_at: float = field(default=0.0, init=False)
    sent_at: float = field(default=0.0, init=False)
    lost_at: float = field(default=inf, init=False)
    ahead: int = field(default=0, init=False)
    size: int = field(default=0, init=False)
    is_done: bool = field(default=False, init=False)
    _value: Any = field(default=None, init=False)
    _error: AioleadError | None = field(default=None, init=False)
    _waiter: ReplyFuture | None = field(default=None, init=False)
    _callbacks: list[Callable[[], object]] | None = field(default=None, init=False)

    def __str__(self) -> str:
        name = op_name(self.op)
        return name if self.path is None else f"{name} {self.path}"

    @property
    def is_mere_read(self) -> bool:
        """Whether it leaves nothing on a server, so that it may be sent twice, and to any."""
        return self.kind is READ and self.arming is None

    def is_retried_too_long(self, now: float, patience: float) -> bool:
        """Note a connection lost over it; return whether the first one was too long ago."""
        self.lost_at = min(self.lost_at, now)
        return now - self.lost_at > RETRIED_FOR * patience

    def result(self) -> T:
        if not self.is_done:
            raise RuntimeError("the request has not been answered yet")
        error = self.error()
        if error is not None:
            raise error
        value: T = self._value
        return value

    def error(self) -> AioleadError | None:
        return self._error

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self.is_done:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def _wake(self, waiter: ReplyFuture) -> None:
        """Resume a task with the answer."""
        if waiter.done():
            return
        if self._error is None:
            waiter.set_result(self._value)
        else:
            waiter.set_exception(self._error)

    def succeed(self, value: T, *, missing: bool = False) -> None:
        """Take the answer; `missing`: it is about a znode that does not exist."""
        if self.arming is not None:
            self.arming.armed(missing=missing)
        self._value = value
        self._finish()

    def fail(self, error: AioleadError) -> None:
        """Settle with an error."""
        self.abandon()
        self._error = error
        if self.counted_in is not None:
            self.counted_in.failed(self.ephemerals, error)
        self._finish()

    def drop(self) -> None:
        """Settle without sending it: nobody needs it any more."""
        self.abandon()
        self._finish()

    def abandon(self) -> None:
        """Drop its effect on watches."""
        if self.arming is not None:
            self.arming.abandon()

    def _finish(self) -> None:
        self.is_done = True
        waiter, callbacks = self._waiter, self._callbacks
        self._waiter = self._callbacks = None
        if waiter is not None:
            self._wake(waiter)
        for callback in callbacks or ():
            try:  # without a call: every request does this
                callback()
            except Exception as error:
                internal_error(error, callback)


def read_answer(call: Call[T], err: int, reader: Reader) -> T | AioleadError:
    """Decode the answer: an error code, or the body at `reader`.

    Raises `RemoteWireError` if the body is no answer to this operation. A text that cannot be
    decoded, and too long a list, are its own errors: the frame is right, and so are those that
    follow.
    """
    if err:
        error = server_error(err, call.path)
        return error if call.on_error is None else call.on_error(error)
    try:
        return call.parse(reader)
    except AioleadError as error:
        if ends_connection(error):
            raise
        return error


def no_result(_: Reader) -> None:
    """A `parse` for answers without content."""
    return


def ends_connection(error: AioleadError) -> bool:
    """Whether an error in decoding an answer means that nothing behind it can be decoded."""
    is_own = isinstance(error, (UnreadableTextError, AnswerTooLargeError))
    return isinstance(error, RemoteWireError) and not is_own


def close_call() -> Call[None]:
    """The request that ends a session: it leaves last, but does not wait for other answers."""
    return Call(OpCode.CLOSE_SESSION, CloseSession().encode(), no_result, kind=CLOSE)


def retried_in_vain(took: float) -> ConnectionLossError:
    return ConnectionLossError(
        f"each connection was lost before the answer came, for {in_seconds(took)}",
        outcome=Outcome.NOT_APPLIED,
    )


def unreached(patience: float, attempts: str) -> ConnectionLossError:
    """The error of a request that has waited for so long; `attempts` says why, if it is known."""
    why = f" ({attempts})" if attempts else ""
    return ConnectionLossError(
        f"no server was reached for {in_seconds(patience)}{why}", outcome=Outcome.NOT_APPLIED
    )


def multi_call(
    multi: Multi, paths: Sequence[str], *, kind: CallKind = WRITE
) -> Call[list[MultiResult]]:
    """The call for a transaction with full paths; `paths` are how errors name their subjects."""
    parse = multi_parser(multi.ops, paths)
    return Call(OpCode.MULTI, multi.encode(), parse, path=paths[0], kind=kind)


def multi_parser(
    ops: Sequence[MultiOp], paths: Sequence[str]
) -> Callable[[Reader], list[MultiResult]]:
    """The parser of a transaction's results; `paths` are how errors name their subjects.

    It raises `TransactionError` if an operation failed, and `SessionError` if the session is over,
    which servers report as the error of an operation, too.
    """

    def parse(r: Reader) -> list[MultiResult]:
        results = [result for _, result in MultiReply.read(r, len(paths)).results]
        if len(results) != len(paths):
            raise RemoteWireError(
                f"{len(results)} results for a transaction of {len(paths)} operations"
            )
        codes = [result.code if isinstance(result, ErrorResult) else 0 for result in results]
        if any(isinstance(result, ErrorResult) for result in results):
            raise _failure(codes, paths)
        for op, result in zip(ops, results, strict=True):
            _check_result(op, result)
        return results

    return parse


def _check_result(op: MultiOp, result: MultiResult) -> None:
    """Raise `RemoteWireError` if a result does not fit its operation."""
    match op, result:
        case Create(), CreateReply(path) | PathReply(path):
            op.checked(path)
        case (SetData(), StatReply()) | (Check() | Delete(), DoneResult()):
            pass
        case _:
            raise RemoteWireError(f"a {type(result).__name__} in the place of the result of {op}")


def _failure(codes: list[int], paths: Sequence[str]) -> TransactionError | SessionError:
    """The error: servers mark operations before the failed one with 0, those after it with -2."""
    guilty = [i for i, code in enumerate(codes) if code not in (0, RuntimeInconsistencyError.code)]
    if not guilty:
        raise RemoteWireError(f"a transaction failed, but no operation of it did: {codes}")
    error = server_error(codes[guilty[0]])
    if isinstance(error, SessionError):
        return error
    return TransactionError(guilty[0], [_error(c, p) for c, p in zip(codes, paths, strict=True)])


def _error(code: int, path: str) -> ServerError:
    if code == 0:
        return RolledBackError(path)
    error = server_error(code, path)
    return error if isinstance(error, ServerError) else UnknownServerError(code, path)


FEWEST = 16
"""The first limit on requests in flight while something is held, and that at a slow server."""

MAX_XID = 0x7FFF_FFFF

SEGMENT = 128 * 1024
"""Bytes handed to the transport at once; one request may exceed it."""

MAX_QUEUED_BYTES = 256 * 1024 * 1024
"""The most bytes that may wait in the queue, for any number of requests."""


class RequestQueue:
    """Calls in order: first those in flight, then the queue.

    Others only look at these, because a property would cost each request a call:

    Attributes:
        unanswered: the requests in flight, sent and not answered yet, the oldest first.
        express, queue: those that wait to be sent; see `enqueue_first` and `enqueue`.
        suspects: those that have cost connections.
        prompt: how soon answers must come, in seconds, for more requests to be in flight.
        careful: how many counted requests may be in flight while something is held.
    """

    def __init__(
        self,
        server: PresentServer,
        *,
        max_in_flight: int,
        max_queued: int,
        prompt: float,
        first_xid: int = 1,
    ) -> None:
        self._max_in_flight = max_in_flight
        self.prompt: float = prompt
        self.careful: int
        self._shrunk_at: float
        self._forget_pace()
        self._server = server
        self._max_queued = max_queued
        self.express: deque[Call[Any]] = deque()
        self.queue: deque[Call[Any]] = deque()
        self._queued_bytes = 0
        self.unanswered: deque[Call[Any]] = deque()
        self._counted = 0  # of those in flight
        self._is_taking = False
        self.suspects: Suspects = Suspects()
        self._alone: Call[Any] | None = None
        """A suspected request in flight, behind which no other leaves."""
        self._lost_at = -inf  # when the last connection was lost
        # xids continue on a new connection: a server finds the owner of a committed request by
        # session and xid (CommitProcessor). After a move to another server, a request that the
        # last one forwarded would answer one of the same number. For the same reason, a session
        # that another client has begun does not start at 1.
        self._first_xid = first_xid
        self._xid = first_xid - 1

    @property
    def has_queued(self) -> bool:
        return bool(self.queue or self.express)

    @property
    def inflight(self) -> int:
        """The number of requests sent and not answered yet."""
        return len(self.unanswered)

    @property
    def oldest(self) -> Call[Any] | None:
        return self.unanswered[0] if self.unanswered else None

    @property
    def queued(self) -> int:
        """The number of requests that wait to be sent."""
        return len(self.queue) + len(self.express)

    @property
    def is_idle(self) -> bool:
        return not (self.unanswered or self.has_queued)

    @property
    def sent(self) -> int:
        """The number of requests sent so far, over all connections, modulo 2^31 - 1."""
        return (self._xid - self._first_xid + 1) % MAX_XID

    @property
    def waiting_since(self) -> float | None:
        """Since when the oldest queued request has waited for a connection."""
        return max(self.queue[0].queued_at, self._lost_at) if self.queue else None

    @property
    def early_since(self) -> float | None:
        """Since when the oldest request sent with a handshake waits; see `take`."""
        return self.unanswered[0].queued_at if self.unanswered else None

    def refuse_if_full(self, call: Call[T]) -> None:
        """Raise `TooManyRequestsError`, and abandon the call, if no more requests may wait."""
        is_full = len(self.queue) >= self._max_queued
        if not (is_full or self._queued_bytes > MAX_QUEUED_BYTES):
            return
        call.abandon()
        if is_full:
            raise TooManyRequestsError(
                f"{len(self.queue)} requests wait to be sent already: await replies (max_queued)"
            )
        raise TooManyRequestsError(
            f"requests of {self._queued_bytes} bytes wait to be sent already: await replies"
        )

    def enqueue(self, call: Call[T], now: float) -> None:
        call.queued_at = now
        self.queue.append(call)
        self._queued_bytes += len(call.body)

    def enqueue_first(self, call: Call[T], now: float) -> None:
        """Queue a bound call ahead of the users' requests, and behind others like it."""
        call.queued_at = now
        self.express.append(call)

    def take(self, now: float, *, careful: bool, early: bool = False) -> bytes:
        """Return the next segment of requests, which are in flight from now on.

        `careful`: `enqueue_first` calls must be answered in time; see `careful`. `early`: only mere
        reads may leave, up to the first other request.
        """
        if self._is_taking or not (self.queue or self.express):
            return b""
        self._is_taking = True  # a `WatchEffect` may queue more calls meanwhile, which leave last
        try:
            out: list[bytes] = []
            size = 0
            most = self.careful if careful else self._max_in_flight
            while size < SEGMENT:
                if self.express:
                    call = self.express.popleft()
                elif self.queue and (self._counted < most or not self.queue[0].kind.is_counted):
                    if early and not self.queue[0].is_mere_read:
                        break
                    if self.suspects.records and self._must_wait(self.queue[0]):
                        break
                    call = self.queue.popleft()
                    self._queued_bytes -= len(call.body)
                else:
                    break
                body = call.body if call.arming is None else call.arming.sending(call.body)
                if body is None:
                    call.drop()
                    continue
                op: int | None = call.op
                if self._server.lacking:
                    op = self._server.substitute(call, body)
                    if op is None:
                        continue
                call.ahead = self._counted
                self._counted += call.kind.is_counted
                self._xid = 1 if self._xid >= MAX_XID else self._xid + 1
                call.xid = self._xid
                call.sent_at = now
                length = call.size = len(body) + REQUEST_HEADER
                out += (request_header(length, call.xid, op), body)
                size += 4 + length
                # Never sent again: the body need not stay until the answer.
                if call.kind.is_write:
                    call.body = b""
                self.unanswered.append(call)
            return b"".join(out)
        finally:
            self._is_taking = False

    def _must_wait(self, call: Call[Any]) -> bool:
        """Whether a call may not leave yet, since a suspected request is sent alone."""
        if self._alone is not None and not self._alone.is_done:
            return call.kind.is_counted
        if not self.suspects.has(call):
            return False
        if self._counted:
            return True
        self._alone = call
        return False

    def skipped(self, xid: int) -> ConnectionLossError:
        """The error for an answer to another request than the oldest in flight, or to none.

        The server has skipped one, so nothing that follows on this connection can be trusted.
        """
        if not self.unanswered:
            return ConnectionLossError(f"the server answered request {xid}, but none was in flight")
        call = self.unanswered[0]
        return ConnectionLossError(
            f"the server skipped request {call.xid} ({call}): it answered request {xid} instead"
        )

    def answered(self, now: float) -> None:
        """Remove the oldest call in flight, which was answered."""
        call = self.unanswered.popleft()
        if self.suspects.records:
            self.suspects.answered(call)
        if call.kind.is_counted:
            self._counted -= 1
            # A lone request that was answered in time says nothing about the limit.
            if call.ahead or now - call.sent_at > self.prompt:
                self._adapt(call, now)

    def _adapt(self, call: Call[Any], now: float) -> None:
        """Adapt `careful` to how soon a call was answered that was sent behind others."""
        if now - call.sent_at <= self.prompt:
            if self._tried <= 2 * call.ahead:
                self._try(2 * (call.ahead + 1))
        elif call.sent_at >= self._shrunk_at:
            # Once for all that was in flight: a single pause must not shrink it repeatedly.
            self._try(max(FEWEST, self.careful // 2))
            self._shrunk_at = now

    def _try(self, count: int) -> None:
        self._tried = count
        self.careful = min(count, self._max_in_flight)

    def _forget_pace(self) -> None:
        """The server of the next connection may be slower."""
        self._try(FEWEST)
        self._shrunk_at = -inf

    def fail_oldest(
        self,
        error: AioleadError,
        now: float = -inf,
        patience: float = inf,
        *,
        is_too_long: bool = False,
    ) -> None:
        """Fail the call that undecodable bytes, or a reply that is too long, have answered.

        Sent again, it would probably get the same answer, and cost the next connection, too.
        """
        if self.unanswered:
            call = self.unanswered[0]
            if isinstance(error, RemoteWireError) and may_be_cause(call, now, inf):
                budget = LOSSES if is_too_long else LOSSES_OF_UNREADABLE
                error = self.suspects.lost(call, now, patience, str(error), budget) or error
            call = self.unanswered.popleft()
            self._counted -= call.kind.is_counted
            call.fail(error)

    def withdraw(self, ops: Collection[int]) -> list[Call[Any]]:
        calls = [call for call in self.queue if call.op in ops]
        if calls:
            self.queue = deque(call for call in self.queue if call.op not in ops)
            self._queued_bytes -= sum(len(call.body) for call in calls)
        return calls

    def connection_lost(self, now: float, patience: float = inf, closed: str = "") -> None:
        """Settle what was in flight: reads go back to the front of the queue, writes fail.

        Bound calls fail, sent or not, and so do reads that have cost connections for too long. The
        rest of the queue waits for the next connection from now on. `closed` says how the other end
        closed the connection, if it did: a request that was just sent may be why.
        """
        self._lost_at = now
        self._forget_pace()
        inflight, self.unanswered = self.unanswered, deque()
        express, self.express = self.express, deque()
        self._counted = 0
        refused = self._refused(inflight, now, patience, closed) if closed else {}
        if refused:
            inflight = deque(call for call in inflight if call not in refused)
        self._alone = None
        useless = [*express, *(call for call in self.queue if call.kind.is_bound)]
        reads = [call for call in inflight if not (call.kind.is_write or call.kind.is_bound)]
        vain = [call for call in reads if call.is_retried_too_long(now, patience)]
        if vain:
            failing = set(vain)
            reads = [call for call in reads if call not in failing]
        self.queue = deque(call for call in self.queue if not call.kind.is_bound)
        self.queue.extendleft(reversed(reads))
        self._queued_bytes = sum(len(call.body) for call in self.queue)
        for call, refusal in refused.items():
            call.fail(refusal)
        for call in inflight:
            if call.kind.is_write or call.kind.is_bound:
                call.fail(
                    ConnectionLossError(
                        "the connection was lost before the answer came: "
                        "the write may have been applied"
                    )
                )
        for call in vain:
            call.fail(retried_in_vain(now - call.lost_at))
        for call in useless:
            call.fail(
                ConnectionLossError(
                    "the connection was lost before the request was sent",
                    outcome=Outcome.NOT_APPLIED,
                )
            )

    def _refused(
        self, inflight: Collection[Call[Any]], now: float, patience: float, why: str
    ) -> dict[Call[Any], AioleadError]:
        """The calls that fail since they have cost too many connections, with their errors.

        First those in flight, then those in the queue that would cost the next ones.
        """
        refused: dict[Call[Any], AioleadError] = {}
        if self._alone is not None and self._alone in inflight:
            causes = [self._alone]
        else:
            causes = likely_causes(call for call in inflight if call.kind.is_counted)
        for call in causes:
            if may_be_cause(call, now, patience):
                refusal = self.suspects.lost(call, now, patience, why)
                if refusal is not None:
                    refused[call] = refusal
        if refused:
            for call in self.queue:
                refusal = self.suspects.refusal(call, now)
                if refusal is not None:
                    refused[call] = refusal
            self.queue = deque(call for call in self.queue if call not in refused)
        return refused

    def requeue_inflight(self) -> None:
        """Return early reads to the front of the queue: the handshake has failed."""
        self.queue.extendleft(reversed(self.unanswered))
        self._queued_bytes += sum(len(call.body) for call in self.unanswered)
        self.unanswered.clear()
        self._counted = 0
        self._alone = None  # or else a suspected one would wait for itself

    def fail_overdue(self, now: float, patience: float, error: Callable[[], AioleadError]) -> None:
        """Fail requests that have waited for a connection for `patience` seconds."""
        # A sum, since the owner waits until exactly then: `now - patience` is rounded otherwise.
        while (since := self.waiting_since) is not None and since + patience <= now:
            call = self.queue.popleft()
            self._queued_bytes -= len(call.body)
            call.fail(error())

    def fail_all(self, error: Callable[[], AioleadError]) -> None:
        """Fail everything; errors of unsent requests have the outcome `NOT_APPLIED`."""
        inflight, self.unanswered = self.unanswered, deque()
        queued = [*self.express, *self.queue]
        self.express, self.queue = deque(), deque()
        self._counted = self._queued_bytes = 0
        for call in inflight:
            call.fail(error())
        for call in queued:
            unsent = error()
            unsent.outcome = Outcome.NOT_APPLIED
            call.fail(unsent)
