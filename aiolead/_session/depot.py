"""Requests: queued, in flight, answered; and what becomes of them when the link dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from .._wire.jute import Reader
from .._wire.packets import encode_request
from .._wire.refusal import server_error
from ..errors import (
    AioleadError,
    ConnectionLossError,
    Outcome,
    RemoteWireError,
)

if TYPE_CHECKING:
    from .watches import Arming

T = TypeVar("T")

MAX_XID = 0x7FFF_FFFF

SEGMENT = 128 * 1024
"""How much is handed to the transport in one go, in bytes; one request may exceed it."""


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
        is_led: whether the leader answers it in its turn, as it does a write; see `ledger`.
        arming: the watch that the request sets, if any.
        bound: whether it is of no use on another connection than the present one.
        on_error: turns some errors into a result, and returns the others.
    """

    __slots__ = (
        "_callbacks",
        "_done",
        "_error",
        "_value",
        "arming",
        "body",
        "bound",
        "is_led",
        "is_proof",
        "is_write",
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
        arming: Arming | None = None,
        bound: bool = False,
        on_error: Callable[[AioleadError], T | AioleadError] | None = None,
    ) -> None:
        self.op = op
        self.body = body
        self.parse = parse
        self.path = path
        self.is_write = is_write
        self.is_proof = is_proof
        self.is_led = is_led or is_proof
        self.arming = arming
        self.bound = bound
        self.on_error = on_error
        self.xid = 0
        self.queued_at = 0.0
        self.sent_at = 0.0
        self._done = False
        self._value: T | None = None
        self._error: AioleadError | None = None
        self._callbacks: list[Callable[[], object]] | None = None

    @property
    def is_done(self) -> bool:
        return self._done

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

    def succeed(self, value: T) -> None:
        self._value = value
        self._finish()

    def fail(self, error: AioleadError) -> None:
        if self.arming is not None:
            self.arming.abandon()
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self._done = True
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback()

    def read(self, err: int, reader: Reader) -> T | AioleadError:
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

    def settle(self, answer: T | AioleadError, *, missing: bool = False) -> None:
        """Takes the answer; `missing` says that it is about a znode that is not there."""
        if isinstance(answer, AioleadError):
            self.fail(answer)
            return
        if self.arming is not None:
            self.arming.armed(missing=missing)
        self.succeed(answer)


class Depot:
    """Calls in the order in which they were made: first those in flight, then the queue."""

    __slots__ = ("_inflight", "_queue", "_xid")

    def __init__(self) -> None:
        self._queue: deque[Call[object]] = deque()
        self._inflight: deque[Call[object]] = deque()
        self._xid = 0

    @property
    def has_queued(self) -> bool:
        return bool(self._queue)

    @property
    def inflight(self) -> int:
        """How many requests were sent and not answered yet."""
        return len(self._inflight)

    @property
    def oldest_queued_at(self) -> float | None:
        """When the request that waits longest was made."""
        return self._queue[0].queued_at if self._queue else None

    def enqueue(self, call: Call[T], now: float) -> None:
        call.queued_at = now
        self._queue.append(cast("Call[object]", call))

    def take(self, now: float) -> bytes:
        """The next segment of requests, which are in flight from now on."""
        out = bytearray()
        while self._queue and len(out) < SEGMENT:
            call = self._queue.popleft()
            self._xid = 1 if self._xid >= MAX_XID else self._xid + 1
            call.xid = self._xid
            call.sent_at = now
            out += encode_request(call.xid, call.op, call.body)
            self._inflight.append(call)
        return bytes(out)

    def awaiting(self, xid: int) -> Call[object]:
        """The call that an answer belongs to: always the oldest in flight. See `answered`.

        Raises:
            RemoteWireError: the answer is to some other request. Nothing that comes after it on
                this connection can be trusted.
        """
        if not self._inflight:
            raise RemoteWireError(f"an answer to request {xid}, where none was sent")
        call = self._inflight[0]
        if call.xid != xid:
            raise RemoteWireError(f"an answer to request {xid}, where {call.xid} was next")
        return call

    def answered(self) -> None:
        """The oldest call in flight is that no longer."""
        self._inflight.popleft()

    def nonsense(self, error: AioleadError) -> None:
        """What came was no answer to anything: the call that was to be answered fails.

        Sent again, it would most likely be answered alike, and cost the next connection, too.
        """
        if self._inflight:
            self._inflight.popleft().fail(error)

    def link_lost(self, now: float) -> None:
        """Settles what was in flight: reads go back to the front of the queue, writes fail.

        So does what is in the queue, but was meant for this connection.
        """
        inflight, self._inflight = self._inflight, deque()
        useless = [call for call in self._queue if call.bound]
        if useless:
            self._queue = deque(call for call in self._queue if not call.bound)
        reads = [call for call in inflight if not call.is_write]
        for call in reads:
            call.queued_at = now
        self._queue.extendleft(reversed(reads))
        for call in inflight:
            if call.is_write:
                call.fail(
                    ConnectionLossError(
                        "the link was lost before the answer came: the write may have been applied"
                    )
                )
        for call in useless:
            call.fail(
                ConnectionLossError(
                    "the link was lost before the request was sent", outcome=Outcome.NOT_APPLIED
                )
            )

    def fail_overdue(self, now: float, patience: float, error: Callable[[], AioleadError]) -> None:
        """Fails what has been queued for `patience` seconds."""
        # As a sum, since the owner waits until exactly then: `now - patience` is rounded otherwise.
        while self._queue and self._queue[0].queued_at + patience <= now:
            self._queue.popleft().fail(error())

    def fail_all(self, error: Callable[[], AioleadError]) -> None:
        """Fails everything. What was never sent says so."""
        inflight, self._inflight = self._inflight, deque()
        queued, self._queue = self._queue, deque()
        for call in inflight:
            call.fail(error())
        for call in queued:
            unsent = error()
            unsent.outcome = Outcome.NOT_APPLIED
            call.fail(unsent)
