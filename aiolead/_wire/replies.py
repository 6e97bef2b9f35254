"""Messages from servers: answers behind a `ReplyHeader`, and watch events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import ClassVar

from ..model import ACL, Stat
from .codes import KEEPER_STATE_CONNECTED, OpCode
from .jute import (
    ACLS,
    BLOB,
    I32,
    I64,
    NULLABLE_BLOB,
    STAT,
    TEXT,
    TEXTS,
    Reader,
    Record,
    RecordLayout,
    Writer,
    record,
)


@record
class ReplyHeader(Record):
    xid: int
    zxid: int
    err: int
    layout: ClassVar[RecordLayout] = I32, I64, I32


@record
class WatcherEvent(Record):
    """A watch fired. Its header has the xid -1, and since 3.9 the zxid of the change."""

    type: int
    path: str
    state: int = KEEPER_STATE_CONNECTED

    def write(self, w: Writer) -> None:
        w.i32(self.type)
        w.i32(self.state)
        w.text(self.path)

    @classmethod
    def read(cls, r: Reader) -> WatcherEvent:
        type_, state = r.i32(), r.i32()
        return cls(type_, r.text(), state)


@record
class PathReply(Record):
    """Answers `CREATE` and `SYNC`."""

    path: str
    layout: ClassVar[RecordLayout] = (TEXT,)


@record
class CreateReply(Record):
    """Answers `CREATE2`, `CREATE_CONTAINER` and `CREATE_TTL`."""

    path: str
    stat: Stat
    layout: ClassVar[RecordLayout] = TEXT, STAT


@record
class StatReply(Record):
    """Answers `EXISTS`, `SET_DATA` and `SET_ACL`."""

    stat: Stat
    layout: ClassVar[RecordLayout] = (STAT,)


@record
class DataReply(Record):
    """Answers `GET_DATA`. The data is None where a client wrote null instead of bytes."""

    data: bytes | None = field(repr=False)
    stat: Stat
    layout: ClassVar[RecordLayout] = NULLABLE_BLOB, STAT


@record
class ACLReply(Record):
    """Answers `GET_ACL`."""

    acl: tuple[ACL, ...]
    stat: Stat
    layout: ClassVar[RecordLayout] = ACLS, STAT


@record
class NamesReply(Record):
    """Answers `GET_CHILDREN` and `GET_EPHEMERALS`."""

    names: Sequence[str]
    layout: ClassVar[RecordLayout] = (TEXTS,)


@record
class ChildrenReply(Record):
    """Answers `GET_CHILDREN2`."""

    names: Sequence[str]
    stat: Stat
    layout: ClassVar[RecordLayout] = TEXTS, STAT


@record
class TokenReply(Record):
    """Answers `SASL`: the server's token; null without SASL, or with nothing more to send."""

    token: bytes = field(repr=False)
    layout: ClassVar[RecordLayout] = (BLOB,)


@record
class NumberReply(Record):
    """Answers `GET_ALL_CHILDREN_NUMBER`, and `ADD_WATCH`, where it is always 0."""

    number: int
    layout: ClassVar[RecordLayout] = (I32,)


@record
class WhoAmIReply(Record):
    """Answers `WHO_AM_I`: schemes with the names of the users."""

    users: Sequence[tuple[str, str]]

    def write(self, w: Writer) -> None:
        w.i32(len(self.users))
        for scheme, user in self.users:
            w.text(scheme)
            w.text(user)

    @classmethod
    def read(cls, r: Reader) -> WhoAmIReply:
        return cls(r.vector(8, lambda r: (r.text(), r.text())))


# --- several in one ----------------------------------------------------------------------------


@record
class DoneResult(Record):
    """A `CHECK` or `DELETE` that succeeded in a transaction."""

    op: OpCode


@record
class ErrorResult(Record):
    """The error code of an operation; in a transaction, 0 if it was rolled back."""

    code: int
    layout: ClassVar[RecordLayout] = (I32,)


MultiResult = DoneResult | ErrorResult | PathReply | CreateReply | StatReply
ReadResult = DataReply | NamesReply | ErrorResult

_MULTI_RESULTS: dict[int, Callable[[Reader], MultiResult]] = {
    OpCode.ERROR: ErrorResult.read,
    OpCode.CREATE: PathReply.read,
    OpCode.CREATE2: CreateReply.read,
    OpCode.CREATE_CONTAINER: CreateReply.read,
    OpCode.CREATE_TTL: CreateReply.read,
    OpCode.SET_DATA: StatReply.read,
    OpCode.CHECK: lambda _: DoneResult(OpCode.CHECK),
    OpCode.DELETE: lambda _: DoneResult(OpCode.DELETE),
}
_READ_RESULTS: dict[int, Callable[[Reader], ReadResult]] = {
    OpCode.ERROR: ErrorResult.read,
    OpCode.GET_DATA: DataReply.read,
    OpCode.GET_CHILDREN: NamesReply.read,
}


@record
class MultiReply(Record):
    """Answers `MULTI`: one result per operation, in order, each with its operation."""

    results: tuple[tuple[OpCode, MultiResult], ...]

    def write(self, w: Writer) -> None:
        for op, result in self.results:
            _write_result(w, op, result)
        w.multi_end()

    @classmethod
    def read(cls, r: Reader, most: int | None = None) -> MultiReply:
        """Read at most one result more than `most`: no server gives more than it was asked for."""
        results = r.multi(_MULTI_RESULTS, "in a transaction's results", most)
        return cls(tuple((OpCode(op), result) for op, result in results))


@record
class MultiReadReply(Record):
    """Answers `MULTI_READ`: one result per read, in order; failures do not affect others."""

    results: Sequence[ReadResult]

    def write(self, w: Writer) -> None:
        for result in self.results:
            is_data = isinstance(result, DataReply)
            _write_result(w, OpCode.GET_DATA if is_data else OpCode.GET_CHILDREN, result)
        w.multi_end()

    @classmethod
    def read(cls, r: Reader, most: int | None = None) -> MultiReadReply:
        """See `MultiReply.read`."""
        results = r.multi(_READ_RESULTS, "among the results of reads", most, ErrorResult)
        return cls(tuple(result for _, result in results))


def _write_result(w: Writer, op: OpCode, result: MultiResult | ReadResult) -> None:
    if isinstance(result, ErrorResult):
        w.multi_header(OpCode.ERROR, result.code)
    else:
        w.multi_header(op, 0)
    result.write(w)
