"""Transactions: the call that carries one, and the one error of a failed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ..._wire.packets import encode_body
from ..._wire.refusal import server_error
from ..._wire.replies import (
    CreateReply,
    DoneResult,
    ErrorResult,
    MultiReply,
    MultiResult,
    PathReply,
    StatReply,
)
from ..._wire.requests import Check, Create, Delete, Multi, MultiOp, SetData
from ...errors import (
    RemoteWireError,
    RolledBackError,
    RuntimeInconsistencyError,
    ServerError,
    SessionError,
    TransactionError,
    UnknownServerError,
)
from .call import WRITE, Call, CallKind


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
        results = [result for _, result in MultiReply.read(r).results]
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
