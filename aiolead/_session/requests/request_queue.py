"""Requests: queued, in flight, answered; and what becomes of them when the link dies.

What the client asks for itself goes first and is never counted: the renewals of the lease. Users'
requests leave in the order of the calls, as many at a time as may be in flight; the others wait.

A server answers the requests of a connection in order, and sends nothing unasked but events. What
else it sends ends the connection, and decides what becomes of the requests in flight:

    what comes                                       error                the requests in flight
    bytes that cannot be decoded (a length, a        RemoteWireError      the oldest fails with that
    header, a body, an event), an unknown xid                             error; the others as below
    the answer to another request than the oldest    ConnectionLossError  reads are sent again,
    one in flight, or to none                                             writes fail: UNKNOWN
    an answer to a ping, to credentials or to        ConnectionLossError  the same
    SetWatches that are not outstanding
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from math import inf
from typing import Generic, Protocol, TypeVar, cast

from ..._internal_errors import call_back
from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ..._wire.packets import encode_body, encode_request
from ..._wire.refusal import server_error
from ..._wire.requests import CloseSession
from ...errors import (
    AioleadError,
    ConnectionLossError,
    Outcome,
    RemoteWireError,
    TooManyRequestsError,
)
from .window import Window

T = TypeVar("T")

MAX_XID = 0x7FFF_FFFF

SEGMENT = 128 * 1024
"""How much is handed to the transport in one go, in bytes; one request may exceed it."""

SENT_AGAIN = 2
"""For how long a read is sent again after the first connection was lost over it, in session
timeouts: it may be that very read which the connections are lost over."""

MAX_QUEUED_BYTES = 256 * 1024 * 1024
"""How much may wait in the queue, in bytes, whatever the number of requests."""


class WatchEffect(Protocol):
    """What a request does to the watches, told as it happens."""

    def sending(self, body: bytes) -> bytes | None:
        """The request goes out now, not for the first time perhaps: its body, None to drop it."""
        ...

    def armed(self, *, missing: bool = False) -> None:
        """It was answered; `missing` says that there is no such znode."""
        ...

    def abandon(self) -> None:
        """It has failed, or was dropped."""
        ...


class Call(Generic[T]):
    """One request and, later, its answer.

    Args:
        op: the operation on the wire.
        body: the encoded request, without header.
        parse: reads the answer off a frame; may raise the error that it finds in there.
        path: what errors call the subject of the request.
        is_write: whether it changes something, so that sending it twice could do so twice.
        is_proof: whether its success is a committed transaction: what a cut-off server cannot
            give.
        is_led: whether the leader answers it in its turn, as it does a write; see `lease_proof`.
        arming: what the request does to the watches, if anything.
        bound: whether it is of no use on another connection than the present one.
        is_counted: whether it is one of those that `max_in_flight` counts: a user's.
        on_error: turns some errors into a result, and returns the others.
    """

    __slots__ = (
        "_callbacks",
        "_done",
        "_error",
        "_value",
        "ahead",
        "arming",
        "body",
        "bound",
        "is_counted",
        "is_led",
        "is_proof",
        "is_write",
        "lost_at",
        "on_error",
        "op",
        "parse",
        "path",
        "queued_at",
        "sent_at",
        "xid",
    )

    def __init__(
        self,
        op: int,
        body: bytes,
        parse: Callable[[Reader], T],
        *,
        path: str | None = None,
        is_write: bool = False,
        is_proof: bool = False,
        is_led: bool = False,
        arming: WatchEffect | None = None,
        bound: bool = False,
        is_counted: bool = True,
        on_error: Callable[[AioleadError], T | AioleadError] | None = None,
    ) -> None:
        self.op: int = op
        self.body: bytes = body
        self.parse: Callable[[Reader], T] = parse
        self.path: str | None = path
        self.is_write: bool = is_write
        self.is_proof: bool = is_proof
        self.is_led: bool = is_led or is_proof
        self.arming: WatchEffect | None = arming
        self.bound: bool = bound
        self.is_counted: bool = is_counted
        self.on_error: Callable[[AioleadError], T | AioleadError] | None = on_error
        self.xid: int = 0
        self.queued_at: float = 0.0
        self.sent_at: float = 0.0
        self.lost_at: float = inf  # when the first connection was over which it was sent
        self.ahead: int = 0  # how many of those that count were in flight before it
        self._done = False
        self._value: T | None = None
        self._error: AioleadError | None = None
        self._callbacks: list[Callable[[], object]] | None = None

    def __str__(self) -> str:
        name = _name(self.op)
        return name if self.path is None else f"{name} {self.path}"

    @property
    def is_done(self) -> bool:
        return self._done

    @property
    def is_mere_read(self) -> bool:
        """Whether it leaves nothing behind on a server: it may be sent twice, and to anybody."""
        return not (self.is_write or self.is_led or self.bound) and self.arming is None

    def _is_lost_again(self, now: float, patience: float) -> bool:
        """The connection was lost over it: whether that has gone on for too long."""
        self.lost_at = min(self.lost_at, now)
        return now - self.lost_at > SENT_AGAIN * patience

    def result(self) -> T:
        if not self._done:
            raise RuntimeError("the request has not been answered yet")
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def error(self) -> AioleadError | None:
        return self._error

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self._done:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def _succeed(self, value: T) -> None:
        self._value = value
        self._finish()

    def _fail(self, error: AioleadError) -> None:
        if self.arming is not None:
            self.arming.abandon()
        self._error = error
        self._finish()

    def _drop(self) -> None:
        """Nobody needs it any more: it is not sent."""
        if self.arming is not None:
            self.arming.abandon()
        self._finish()

    def _finish(self) -> None:
        self._done = True
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            call_back(callback)

    def _read(self, err: int, reader: Reader) -> T | AioleadError:
        """The server's answer: from an error code, or the body that `reader` stands before.

        Raises:
            RemoteWireError: the body is not what the operation is answered with.
        """
        if err:
            error = server_error(err, self.path)
            return error if self.on_error is None else self.on_error(error)
        try:
            return self.parse(reader)
        except RemoteWireError:
            raise
        except AioleadError as error:
            return error

    def _settle(self, answer: T | AioleadError, *, missing: bool = False) -> None:
        """Takes the answer; `missing` says that it is about a znode that is not there."""
        if isinstance(answer, AioleadError):
            self._fail(answer)
            return
        if self.arming is not None:
            self.arming.armed(missing=missing)
        self._succeed(answer)


class RequestQueue:
    """Calls in the order in which they were made: first those in flight, then the queue.

    Args:
        window: how many of the users' calls may be in flight.
        max_queued: how many calls may wait, before `refuse_if_full` refuses more.
        first_xid: the number of the first request.
    """

    __slots__ = (
        "_counted",
        "_express",
        "_first_xid",
        "_inflight",
        "_is_taking",
        "_lost_at",
        "_max_queued",
        "_queue",
        "_queued_bytes",
        "_window",
        "_xid",
    )

    def __init__(self, window: Window, max_queued: int, first_xid: int = 1) -> None:
        self._window = window
        self._max_queued = max_queued
        self._express: deque[Call[object]] = deque()
        self._queue: deque[Call[object]] = deque()
        self._queued_bytes = 0
        self._inflight: deque[Call[object]] = deque()
        self._counted = 0  # of those in flight
        self._is_taking = False
        self._lost_at = -inf  # when the last connection was
        # It goes on over connections, as that of the Java client does. A server tells by session
        # and xid whose a committed request is (CommitProcessor): after a move to another server,
        # what the last one had forwarded would be the answer to a request of the same number. For
        # the same reason a session that another client had begun does not start at 1.
        self._first_xid = first_xid
        self._xid = first_xid - 1

    @property
    def has_queued(self) -> bool:
        return bool(self._queue or self._express)

    @property
    def inflight(self) -> int:
        """How many requests were sent and not answered yet."""
        return len(self._inflight)

    @property
    def oldest(self) -> Call[object] | None:
        """The request that was sent first, of those that are not answered yet."""
        return self._inflight[0] if self._inflight else None

    @property
    def queued(self) -> int:
        """How many wait to be sent."""
        return len(self._queue) + len(self._express)

    @property
    def sent(self) -> int:
        """How many were sent so far, over all connections: it starts anew after 2^31 of them."""
        return (self._xid - self._first_xid + 1) % MAX_XID

    @property
    def waiting_since(self) -> float | None:
        """Since when the request that waits longest has been waiting for a connection."""
        return max(self._queue[0].queued_at, self._lost_at) if self._queue else None

    @property
    def early_since(self) -> float | None:
        """Since when the oldest of those waits that have left with a handshake; see `take`."""
        return self._inflight[0].queued_at if self._inflight else None

    def refuse_if_full(self, call: Call[T]) -> None:
        """Raises if no more requests may wait.

        Raises:
            TooManyRequestsError: so many wait already; the call is abandoned.
        """
        is_full = len(self._queue) >= self._max_queued
        if not (is_full or self._queued_bytes > MAX_QUEUED_BYTES):
            return
        if call.arming is not None:
            call.arming.abandon()
        if is_full:
            raise TooManyRequestsError(
                f"{len(self._queue)} requests wait to be sent already: await replies (max_queued)"
            )
        raise TooManyRequestsError(
            f"requests of {self._queued_bytes} bytes wait to be sent already: await replies"
        )

    def enqueue(self, call: Call[T], now: float) -> None:
        call.queued_at = now
        self._queue.append(cast("Call[object]", call))
        self._queued_bytes += len(call.body)

    def enqueue_first(self, call: Call[T], now: float) -> None:
        """Queues what must not wait for the users' requests: it leaves before them.

        Of no use on another connection than the present one, so that order among connections is no
        question; among each other such calls keep their order.
        """
        call.queued_at = now
        self._express.append(cast("Call[object]", call))

    def take(self, now: float, *, careful: bool, early: bool = False) -> bytes:
        """The next segment of requests, which are in flight from now on.

        Args:
            now: the time.
            careful: whether what comes first must be answered in time; see `Window`.
            early: whether only mere reads may leave, up to the first request that is none.
        """
        if self._is_taking or not (self._queue or self._express):
            return b""
        self._is_taking = True
        try:
            return self._taken(now, careful=careful, early=early)
        finally:
            self._is_taking = False

    def _taken(self, now: float, *, careful: bool, early: bool) -> bytes:
        # What is about to leave may have more queued (see `WatchEffect`), which leaves behind it.
        out = bytearray()
        most = self._window.size(careful=careful)
        while len(out) < SEGMENT:
            if self._express:
                call = self._express.popleft()
            elif self._queue and (self._counted < most or not self._queue[0].is_counted):
                if early and not self._queue[0].is_mere_read:
                    break
                call = self._queue.popleft()
                self._queued_bytes -= len(call.body)
            else:
                break
            body = call.body if call.arming is None else call.arming.sending(call.body)
            if body is None:
                call._drop()
                continue
            call.ahead = self._counted
            self._counted += call.is_counted
            self._xid = 1 if self._xid >= MAX_XID else self._xid + 1
            call.xid = self._xid
            call.sent_at = now
            out += encode_request(call.xid, call.op, body)
            # Never sent again, and answered much later perhaps.
            if call.is_write:
                call.body = b""
            self._inflight.append(call)
        return bytes(out)

    def awaiting(self, xid: int) -> Call[object]:
        """The call that an answer belongs to: always the oldest in flight. See `answered`.

        Raises:
            ConnectionLossError: the answer is to another request, so the server has skipped one.
                Nothing that comes after it on this connection can be trusted.
        """
        if not self._inflight:
            raise ConnectionLossError(f"the server answered request {xid}, but none was in flight")
        call = self._inflight[0]
        if call.xid != xid:
            raise ConnectionLossError(
                f"the server skipped request {call.xid} ({call}): it answered request {xid} instead"
            )
        return call

    def answered(self, now: float) -> None:
        """The oldest call in flight is that no longer."""
        call = self._inflight.popleft()
        if call.is_counted:
            self._counted -= 1
            self._window.answered(call.ahead, call.sent_at, now)

    def nonsense(self, error: AioleadError) -> None:
        """Bytes came that cannot be decoded, or read: the call that was to be answered fails.

        They may have been its answer. Sent again, it would most likely be answered alike, and cost
        the next connection, too.
        """
        if self._inflight:
            call = self._inflight.popleft()
            self._counted -= call.is_counted
            call._fail(error)

    def withdraw(self, ops: Collection[int]) -> list[Call[object]]:
        """Takes the calls of some operations out of the queue."""
        calls = [call for call in self._queue if call.op in ops]
        if calls:
            self._queue = deque(call for call in self._queue if call.op not in ops)
            self._queued_bytes -= sum(len(call.body) for call in calls)
        return calls

    def link_lost(self, now: float, patience: float = inf) -> None:
        """Settles what was in flight: reads go back to the front of the queue, writes fail.

        So does what was meant for this connection, sent or not. Whatever waits, waits for the next
        connection from now on. A read over which connections are lost again and again fails.

        Args:
            now: the time.
            patience: how long requests wait for a connection.
        """
        self._lost_at = now
        self._window.reset()
        inflight, self._inflight = self._inflight, deque()
        express, self._express = self._express, deque()
        self._counted = 0
        useless = [*express, *(call for call in self._queue if call.bound)]
        reads = [call for call in inflight if not (call.is_write or call.bound)]
        vain = [call for call in reads if call._is_lost_again(now, patience)]
        if vain:
            failing = set(vain)
            reads = [call for call in reads if call not in failing]
        self._queue = deque(call for call in self._queue if not call.bound)
        self._queue.extendleft(reversed(reads))
        self._queued_bytes = sum(len(call.body) for call in self._queue)
        for call in inflight:
            if call.is_write or call.bound:
                call._fail(
                    ConnectionLossError(
                        "the link was lost before the answer came: the write may have been applied"
                    )
                )
        for call in vain:
            call._fail(lost_again(now - call.lost_at))
        for call in useless:
            call._fail(
                ConnectionLossError(
                    "the link was lost before the request was sent", outcome=Outcome.NOT_APPLIED
                )
            )

    def take_back(self) -> None:
        """What left early goes back to the front of the queue: the connection came to nothing."""
        self._queue.extendleft(reversed(self._inflight))
        self._queued_bytes += sum(len(call.body) for call in self._inflight)
        self._inflight.clear()
        self._counted = 0

    def fail_overdue(self, now: float, patience: float, error: Callable[[], AioleadError]) -> None:
        """Fails what has been waiting for a connection for `patience` seconds."""
        # As a sum, since the owner waits until exactly then: `now - patience` is rounded otherwise.
        while (since := self.waiting_since) is not None and since + patience <= now:
            call = self._queue.popleft()
            self._queued_bytes -= len(call.body)
            call._fail(error())

    def fail_all(self, error: Callable[[], AioleadError]) -> None:
        """Fails everything. What was never sent says so."""
        inflight, self._inflight = self._inflight, deque()
        queued = [*self._express, *self._queue]
        self._express, self._queue = deque(), deque()
        self._counted = self._queued_bytes = 0
        for call in inflight:
            call._fail(error())
        for call in queued:
            unsent = error()
            unsent.outcome = Outcome.NOT_APPLIED
            call._fail(unsent)


def close_call() -> Call[None]:
    """The request that ends a session. It comes last, but waits for no answer."""
    body = encode_body(CloseSession())
    return Call(OpCode.CLOSE_SESSION, body, _nothing, is_write=True, is_counted=False)


def _nothing(_: Reader) -> None:
    return None


def _name(op: int) -> str:
    try:
        return OpCode(op).name
    except ValueError:
        return f"operation {op}"


def lost_again(took: float) -> ConnectionLossError:
    """What a read fails with that was sent again, over one connection after the other."""
    return ConnectionLossError(
        f"each connection was lost before the answer came, for {took:g} seconds",
        outcome=Outcome.NOT_APPLIED,
    )


def unreached(patience: float) -> ConnectionLossError:
    """What a request fails with that has waited for `patience` seconds for a server."""
    return ConnectionLossError(
        f"no server was reached for {patience:g} seconds", outcome=Outcome.NOT_APPLIED
    )
