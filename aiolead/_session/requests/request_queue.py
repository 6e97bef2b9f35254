"""Requests: queued, in flight, answered; and what a lost connection does to them.

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
from collections.abc import Callable, Collection
from math import inf
from typing import Any, TypeVar

from ..._wire.framing import REQUEST_HEADER, request_header
from ...errors import (
    AioleadError,
    ConnectionLossError,
    Outcome,
    RemoteWireError,
    TooManyRequestsError,
)
from .call import Call, retried_in_vain
from .suspects import LOSSES, LOSSES_OF_UNREADABLE, Suspects, likely_causes, may_be_cause

FEWEST = 16
"""The limit at first, and at a slow server."""


class Window:
    """The limit on requests in flight: `most`, or what is answered within `patience` seconds.

    Attributes:
        most: how many may be in flight.
        careful: the same while something is held.
    """

    def __init__(self, most: int, patience: float) -> None:
        self.patience = patience
        self.most: int = most
        self.reset()

    def reset(self) -> None:
        """Start again on a new connection, whose server may be slower."""
        self._try(FEWEST)
        self._shrunk_at = -inf

    def _try(self, count: int) -> None:
        self._tried = count
        self.careful: int = min(count, self.most)

    def answered(self, ahead: int, sent: float, now: float) -> None:
        """Record the answer to a request that was sent behind `ahead` others."""
        if now - sent <= self.patience:
            if self._tried <= 2 * ahead:
                self._try(2 * (ahead + 1))
        elif sent >= self._shrunk_at:
            # Once for all that was in flight: a single pause must not shrink it repeatedly.
            self._try(max(FEWEST, self.careful // 2))
            self._shrunk_at = now


T = TypeVar("T")

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
    """

    def __init__(self, window: Window, max_queued: int, first_xid: int = 1) -> None:
        self._window = window
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
        call._abandon()
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

        `careful`: `enqueue_first` calls must be answered in time; see `Window`. `early`: only mere
        reads may leave, up to the first other request.
        """
        if self._is_taking or not (self.queue or self.express):
            return b""
        self._is_taking = True  # a `WatchEffect` may queue more calls meanwhile, which leave last
        try:
            out: list[bytes] = []
            size = 0
            most = self._window.careful if careful else self._window.most
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
                    call._drop()
                    continue
                call.ahead = self._counted
                self._counted += call.kind.is_counted
                self._xid = 1 if self._xid >= MAX_XID else self._xid + 1
                call.xid = self._xid
                call.sent_at = now
                length = call.size = len(body) + REQUEST_HEADER
                out += (request_header(length, call.xid, call.op), body)
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

    def awaiting(self, xid: int) -> Call[Any]:
        """Return the call that an answer belongs to: always the oldest in flight. See `answered`.

        Raises `ConnectionLossError` if the answer is to another request: the server has skipped
        one, so nothing that follows on this connection can be trusted.
        """
        if not self.unanswered:
            raise ConnectionLossError(f"the server answered request {xid}, but none was in flight")
        call = self.unanswered[0]
        if call.xid != xid:
            raise ConnectionLossError(
                f"the server skipped request {call.xid} ({call}): it answered request {xid} instead"
            )
        return call

    def answered(self, now: float) -> None:
        """Remove the oldest call in flight, which was answered."""
        call = self.unanswered.popleft()
        if self.suspects.records:
            self.suspects.answered(call)
        if call.kind.is_counted:
            self._counted -= 1
            # A lone request that was answered in time says nothing about the window.
            if call.ahead or now - call.sent_at > self._window.patience:
                self._window.answered(call.ahead, call.sent_at, now)

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
            call._fail(error)

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
        self._window.reset()
        inflight, self.unanswered = self.unanswered, deque()
        express, self.express = self.express, deque()
        self._counted = 0
        refused = self._refused(inflight, now, patience, closed) if closed else {}
        if refused:
            inflight = deque(call for call in inflight if call not in refused)
        self._alone = None
        useless = [*express, *(call for call in self.queue if call.kind.is_bound)]
        reads = [call for call in inflight if not (call.kind.is_write or call.kind.is_bound)]
        vain = [call for call in reads if call._is_retried_too_long(now, patience)]
        if vain:
            failing = set(vain)
            reads = [call for call in reads if call not in failing]
        self.queue = deque(call for call in self.queue if not call.kind.is_bound)
        self.queue.extendleft(reversed(reads))
        self._queued_bytes = sum(len(call.body) for call in self.queue)
        for call, refusal in refused.items():
            call._fail(refusal)
        for call in inflight:
            if call.kind.is_write or call.kind.is_bound:
                call._fail(
                    ConnectionLossError(
                        "the connection was lost before the answer came: "
                        "the write may have been applied"
                    )
                )
        for call in vain:
            call._fail(retried_in_vain(now - call.lost_at))
        for call in useless:
            call._fail(
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

    def fail_overdue(self, now: float, patience: float, error: Callable[[], AioleadError]) -> None:
        """Fail requests that have waited for a connection for `patience` seconds."""
        # A sum, since the owner waits until exactly then: `now - patience` is rounded otherwise.
        while (since := self.waiting_since) is not None and since + patience <= now:
            call = self.queue.popleft()
            self._queued_bytes -= len(call.body)
            call._fail(error())

    def fail_all(self, error: Callable[[], AioleadError]) -> None:
        """Fail everything; errors of unsent requests have the outcome `NOT_APPLIED`."""
        inflight, self.unanswered = self.unanswered, deque()
        queued = [*self.express, *self.queue]
        self.express, self.queue = deque(), deque()
        self._counted = self._queued_bytes = 0
        for call in inflight:
            call._fail(error())
        for call in queued:
            unsent = error()
            unsent.outcome = Outcome.NOT_APPLIED
            call._fail(unsent)
