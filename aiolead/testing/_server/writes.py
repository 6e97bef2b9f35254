"""Writes: each request as a function of the transaction that it is part of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ..._wire.codes import OpCode
from ..._wire.jute import Reader, Record
from ..._wire.replies import DoneResult, ErrorResult, MultiReply, MultiResult, PathReply
from ..._wire.requests import (
    Check,
    Create,
    Delete,
    Multi,
    MultiOp,
    Reconfig,
    SetACL,
    SetData,
)
from ..._wire.versions import Feature
from ...errors import (
    ReconfigDisabledError,
    RemoteWireError,
    RuntimeInconsistencyError,
    ServerError,
)
from ...model import CreateMode
from .config import Membership
from .transaction import Transaction

Write = Callable[[Transaction], Record | None]
"""Carries a request out. It may be applied to several trees, one after the other."""


_WITH_TTL = [mode for mode in CreateMode if mode.has_ttl]


def write_of(
    op: OpCode,
    r: Reader,
    features: Collection[Feature] = (),
    membership: Membership | None = None,
) -> Write | None:
    """A request that changes something, decoded; None for any other.

    One whose body makes no sense becomes a write that raises `RemoteWireError`: servers find out
    when it has its place in the order of things.

    Args:
        op: the operation.
        r: its body.
        features: the server's.
        membership: of its ensemble; None where that cannot be changed.

    Raises:
        RemoteWireError: the body makes no sense, and the server finds out before it gives the
            request a place.
    """
    try:
        return _decode(op, r, features, membership)
    except RemoteWireError as error:
        if Feature.EARLY_DECODING in features and op is not OpCode.MULTI:
            raise
        return _refusal(error)


def _decode(
    op: OpCode, r: Reader, features: Collection[Feature], membership: Membership | None
) -> Write | None:
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
            create_within = (
                _create_within_multi
                if Feature.CREATE2_IN_MULTI in features
                else _create_within_old_multi
            )
            ops = [create_within(op) if isinstance(op, Create) else op for op in Multi.read(r).ops]
            return lambda t: _multi(t, ops)
        case OpCode.RECONFIG:
            reconfig = Reconfig.read(r)
            if membership is None:
                return _refusal(ReconfigDisabledError())
            return lambda t: membership.change(reconfig, t)
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


def _multi(transaction: Transaction, ops: Sequence[MultiOp]) -> MultiReply:
    results: list[tuple[OpCode, MultiResult]] = []
    for index, op in enumerate(ops):
        try:
            results.append(_apply(transaction, op))
        except ServerError as error:
            transaction.rollback()
            return _failed(len(ops), index, error)
    return MultiReply(tuple(results))


def _failed(count: int, index: int, error: ServerError) -> MultiReply:
    """The error of each operation: 0 for those undone, -2 for those not tried."""
    untried = count - index - 1
    codes = [0] * index + [error.code] + [RuntimeInconsistencyError.code] * untried
    return MultiReply(tuple((OpCode.ERROR, ErrorResult(code)) for code in codes[:count]))


def _apply(transaction: Transaction, op: MultiOp) -> tuple[OpCode, MultiResult]:
    match op:
        case Create():
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


def _create_within_old_multi(request: Create) -> Create:
    """Within a transaction the flags decide on the operation, so that `CREATE2` is a `CREATE`.

    Raises:
        RemoteWireError: the mode needs a TTL and comes without.
    """
    if request.op is not OpCode.CREATE_TTL and request.flags in _WITH_TTL:
        raise RemoteWireError(f"the create mode {request.flags} without a time to live")
    return _with_op(request, OpCode.CREATE)


def _create_within_multi(request: Create) -> Create:
    """The flags decide where they say container or TTL, and the operation elsewhere.

    Raises:
        RemoteWireError: there is no such mode, or it needs a TTL and comes without.
    """
    if request.op is OpCode.CREATE_TTL or request.flags in _WITH_TTL:
        return _create_within_old_multi(request)
    if request.flags not in list(CreateMode):
        raise RemoteWireError(f"the create mode {request.flags}")
    return _with_op(request, request.op)


def _with_op(request: Create, op: OpCode) -> Create:
    """The same create, by the operation that its flags ask for, or by this one."""
    if request.flags == CreateMode.CONTAINER:
        op = OpCode.CREATE_CONTAINER
    elif request.flags in _WITH_TTL:
        op = OpCode.CREATE_TTL
    return Create(request.path, request.data, request.acl, request.flags, request.ttl_ms, op)
