"""What changes something: each request as a function of the transaction that it is part of."""

from __future__ import annotations

from collections.abc import Callable

from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ..._wire.packets import Record
from ..._wire.replies import DoneResult, ErrorResult, MultiReply, MultiResult, PathReply
from ..._wire.requests import Check, Create, Delete, Multi, MultiOp, SetACL, SetData
from ...errors import (
    ReconfigDisabledError,
    RemoteWireError,
    RuntimeInconsistencyError,
    ServerError,
)
from ...model import CreateMode
from .transaction import Transaction

Write = Callable[[Transaction], Record | None]
"""Carries a request out. It may be applied to several trees, one after the other."""


def write_of(op: OpCode, r: Reader) -> Write | None:
    """A request that changes something, decoded; None for any other.

    One whose body makes no sense becomes a write that raises `RemoteWireError`: servers find out
    when it has its place in the order of things.
    """
    try:
        return _decode(op, r)
    except RemoteWireError as error:
        return _refusal(error)


def _decode(op: OpCode, r: Reader) -> Write | None:
    match op:
        case OpCode.CREATE:
            create = Create.read(r, op)
            return lambda t: PathReply(t.create(create).path)
        case OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
            create = Create.read(r, op)
            return lambda t: t.create(create)
        case OpCode.DELETE:
            delete = Delete.read(r)
            return lambda t: t.delete(delete)
        case OpCode.SET_DATA:
            set_data = SetData.read(r)
            return lambda t: t.set_data(set_data)
        case OpCode.SET_ACL:
            set_acl = SetACL.read(r)
            return lambda t: t.set_acl(set_acl)
        case OpCode.CHECK:
            check = Check.read(r)
            return lambda t: t.check(check)
        case OpCode.MULTI:
            multi = Multi.read(r)
            return lambda t: _multi(t, multi)
        case OpCode.RECONFIG:
            return _refusal(ReconfigDisabledError())
        case _:
            return None


def refused(op: OpCode, r: Reader, error: ServerError) -> Write:
    """A write that is refused as a whole, such as one of a session that is over.

    A transaction says so in its results: its first operation has failed.
    """
    if op is not OpCode.MULTI:
        return _refusal(error)
    try:
        count = len(Multi.read(r).ops)
    except RemoteWireError as malformed:
        return _refusal(malformed)
    return lambda _: _failed(count, 0, error)


def _refusal(error: Exception) -> Write:
    def write(_: Transaction) -> None:
        raise error

    return write


def _multi(transaction: Transaction, request: Multi) -> MultiReply:
    results: list[tuple[OpCode, MultiResult]] = []
    for index, op in enumerate(request.ops):
        try:
            results.append(_apply(transaction, op))
        except ServerError as error:
            transaction.rollback()
            return _failed(len(request.ops), index, error)
    return MultiReply(tuple(results))


def _failed(count: int, index: int, error: ServerError) -> MultiReply:
    """The error of each operation: 0 for those undone, -2 for those not tried."""
    untried = count - index - 1
    codes = [0] * index + [error.code] + [RuntimeInconsistencyError.code] * untried
    return MultiReply(tuple((OpCode.ERROR, ErrorResult(code)) for code in codes[:count]))


def _apply(transaction: Transaction, op: MultiOp) -> tuple[OpCode, MultiResult]:
    match op:
        case Create():
            op = _as_within_multi(op)
            created = transaction.create(op)
            if op.op is OpCode.CREATE:
                return OpCode.CREATE, PathReply(created.path)
            return OpCode.CREATE2, created
        case Delete():
            transaction.delete(op)
            return op.op, DoneResult(op.op)
        case SetData():
            return op.op, transaction.set_data(op)
        case Check():
            transaction.check(op)
            return op.op, DoneResult(op.op)


def _as_within_multi(request: Create) -> Create:
    """Within a transaction the flags decide on the operation, so that `CREATE2` is a `CREATE`."""
    op = OpCode.CREATE
    if request.flags == CreateMode.CONTAINER:
        op = OpCode.CREATE_CONTAINER
    elif request.flags in (
        CreateMode.PERSISTENT_WITH_TTL,
        CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
    ):
        op = OpCode.CREATE_TTL
    return Create(request.path, request.data, request.acl, request.flags, request.ttl_ms, op)
