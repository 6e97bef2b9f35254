"""One request or transaction and its answer; when each type leaves and what it proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from ..._util.escaping import in_seconds
from ..._util.internal_errors import call_back
from ..._wire.codes import OpCode, server_error
from ..._wire.framing import encode_body
from ..._wire.jute import Reader
from ..._wire.long_frames import LongReader, Steps
from ..._wire.replies import (
    CreateReply,
    DoneResult,
    ErrorResult,
    MultiReply,
    MultiResult,
    PathReply,
    StatReply,
)
from ..._wire.requests import Check, CloseSession, Create, Delete, Multi, MultiOp, SetData
from ...errors import (
    AioleadError,
    AnswerTooLargeError,
    ConnectionLossError,
    Outcome,
    RemoteWireError,
    RolledBackError,
    RuntimeInconsistencyError,
    ServerError,
    SessionError,
    TransactionError,
    UnknownServerError,
    UnreadableTextError,
)

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
        is_led: the leader answers it in order, as it does a write; see `lease.proof`.
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
        ephemerals: the paths of ephemeral znodes that it creates; see `EphemeralPaths`.
        counted_in: the count that includes them, once it is queued.
        lost_at: when the first connection over which it was sent was lost.
        ahead: how many counted calls were in flight before it.
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
    ephemerals: Sequence[str] = field(default=(), init=False)
    counted_in: EphemeralCount | None = field(default=None, init=False)
    xid: int = field(default=0, init=False)
    queued_at: float = field(default=0.0, init=False)
    sent_at: float = field(default=0.0, init=False)
    lost_at: float = field(default=inf, init=False)
    ahead: int = field(default=0, init=False)
    size: int = field(default=0, init=False)
    _done: bool = field(default=False, init=False)
    _value: Any = field(default=None, init=False)
    _error: AioleadError | None = field(default=None, init=False)
    _waiter: ReplyFuture | None = field(default=None, init=False)
    _callbacks: list[Callable[[], object]] | None = field(default=None, init=False)

    def __str__(self) -> str:
        name = op_name(self.op)
        return name if self.path is None else f"{name} {self.path}"

    @property
    def is_done(self) -> bool:
        return self._done

    @property
    def is_mere_read(self) -> bool:
        """Whether it leaves nothing on a server, so that it may be sent twice, and to any."""
        return self.kind is READ and self.arming is None

    def _is_retried_too_long(self, now: float, patience: float) -> bool:
        """Note a connection lost over it; return whether the first one was too long ago."""
        self.lost_at = min(self.lost_at, now)
        return now - self.lost_at > RETRIED_FOR * patience

    def result(self) -> T:
        if not self._done:
            raise RuntimeError("the request has not been answered yet")
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def error(self) -> AioleadError | None:
        return self._error

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self._done:
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

    def _succeed(self, value: T, *, missing: bool = False) -> None:
        """Take the answer; `missing`: it is about a znode that does not exist."""
        if self.arming is not None:
            self.arming.armed(missing=missing)
        self._value = value
        self._finish()

    def _fail(self, error: AioleadError) -> None:
        self._abandon()
        self._error = error
        if self.counted_in is not None:
            self.counted_in.failed(self.ephemerals, error)
        self._finish()

    def _drop(self) -> None:
        """Settle without sending it: nobody needs it any more."""
        self._abandon()
        self._finish()

    def _abandon(self) -> None:
        """Drop its effect on watches."""
        if self.arming is not None:
            self.arming.abandon()

    def _finish(self) -> None:
        self._done = True
        waiter, callbacks = self._waiter, self._callbacks
        self._waiter = self._callbacks = None
        if waiter is not None:
            self._wake(waiter)
        for callback in callbacks or ():
            call_back(callback)

    def _read(self, err: int, reader: Reader) -> T | AioleadError:
        """Decode the answer: an error code, or the body at `reader`.

        Raises `RemoteWireError` if the body is no answer to this operation. A text that cannot be
        decoded, and too long a list, are its own errors: the frame is right, and so are those that
        follow.
        """
        if err:
            error = server_error(err, self.path)
            return error if self.on_error is None else self.on_error(error)
        try:
            return self.parse(reader)
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
    return Call(OpCode.CLOSE_SESSION, encode_body(CloseSession()), no_result, kind=CLOSE)


def op_name(op: int) -> str:
    try:
        return OpCode(op).name
    except ValueError:
        return f"operation {op}"


def retried_in_vain(took: float) -> ConnectionLossError:
    return ConnectionLossError(
        f"each connection was lost before the answer came, for {in_seconds(took)}",
        outcome=Outcome.NOT_APPLIED,
    )


def unreached(patience: float) -> ConnectionLossError:
    return ConnectionLossError(
        f"no server was reached for {in_seconds(patience)}", outcome=Outcome.NOT_APPLIED
    )


def multi_call(
    multi: Multi, paths: Sequence[str], *, kind: CallKind = WRITE
) -> Call[list[MultiResult]]:
    """The call for a transaction with full paths; `paths` are how errors name their subjects."""
    parse = multi_parser(multi.ops, paths)
    return Call(OpCode.MULTI, encode_body(multi), parse, path=paths[0], kind=kind)


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
