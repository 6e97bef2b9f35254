"""What a server answers, after a `ReplyHeader`; and what it says unasked."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field

from ..errors import RemoteWireError
from ..model import ACL, Stat
from .codes import KEEPER_STATE_CONNECTED, OpCode
from .jute import Reader, Writer
from .record import Record, record

_HEADER = struct.Struct(">iqi")
_header_at = _HEADER.unpack_from


def read_header(frame: bytes) -> tuple[int, int, int]:
    """The xid, the zxid and the error code that a reply begins with, for a `HEADER_SIZE`.

    Raises:
        RemoteWireError: the frame is too short for that.
    """
    try:
        xid, zxid, err = _header_at(frame)
    except struct.error:
        raise RemoteWireError(f"a reply of {len(frame)} bytes, without a header") from None
    return xid, zxid, err


HEADER_SIZE = _HEADER.size
"""How long that is, in bytes."""


@record
class ReplyHeader(Record):
    xid: int
    zxid: int
    err: int

    def write(self, w: Writer) -> None:
        w.i32(self.xid)
        w.i64(self.zxid)
        w.i32(self.err)

    @classmethod
    def read(cls, r: Reader) -> ReplyHeader:
        return cls(r.i32(), r.i64(), r.i32())


@record
class WatcherEvent(Record):
    """A watch fired. Its header has the xid -1, and from 3.9 the zxid of the change."""

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
    """To `CREATE` and `SYNC`."""

    path: str

    def write(self, w: Writer) -> None:
        w.text(self.path)

    @classmethod
    def read(cls, r: Reader) -> PathReply:
        return cls(r.text())


@record
class CreateReply(Record):
    """To `CREATE2`, `CREATE_CONTAINER` and `CREATE_TTL`."""

    path: str
    stat: Stat

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.stat(self.stat)

    @classmethod
    def read(cls, r: Reader) -> CreateReply:
        return cls(*cls.parse(r))

    @staticmethod
    def parse(r: Reader) -> tuple[str, Stat]:
        """What is in it."""
        return r.text(), r.stat()


@record
class StatReply(Record):
    """To `EXISTS`, `SET_DATA` and `SET_ACL`."""

    stat: Stat

    def write(self, w: Writer) -> None:
        w.stat(self.stat)

    @classmethod
    def read(cls, r: Reader) -> StatReply:
        return cls(cls.parse(r))

    @staticmethod
    def parse(r: Reader) -> Stat:
        """What is in it."""
        return r.stat()


@record
class DataReply(Record):
    """To `GET_DATA`. The data is None where a client has written null instead of bytes."""

    data: bytes | None = field(repr=False)
    stat: Stat

    def write(self, w: Writer) -> None:
        w.blob(self.data)
        w.stat(self.stat)

    @classmethod
    def read(cls, r: Reader) -> DataReply:
        return cls(r.nullable_blob(), r.stat())

    @staticmethod
    def parse(r: Reader) -> tuple[bytes, Stat]:
        """What is in it; null data is empty."""
        return r.blob(), r.stat()


@record
class ACLReply(Record):
    """To `GET_ACL`."""

    acl: tuple[ACL, ...]
    stat: Stat

    def write(self, w: Writer) -> None:
        w.acls(self.acl)
        w.stat(self.stat)

    @classmethod
    def read(cls, r: Reader) -> ACLReply:
        return cls(r.acls(), r.stat())


@record
class NamesReply(Record):
    """To `GET_CHILDREN` and `GET_EPHEMERALS`."""

    names: Sequence[str]

    def write(self, w: Writer) -> None:
        w.texts(self.names)

    @classmethod
    def read(cls, r: Reader) -> NamesReply:
        return cls(r.texts())


@record
class ChildrenReply(Record):
    """To `GET_CHILDREN2`."""

    names: Sequence[str]
    stat: Stat

    def write(self, w: Writer) -> None:
        w.texts(self.names)
        w.stat(self.stat)

    @classmethod
    def read(cls, r: Reader) -> ChildrenReply:
        return cls(r.texts(), r.stat())


@record
class TokenReply(Record):
    """To `SASL`: the server's token; null where it has no SASL, or nothing more to say."""

    token: bytes = field(repr=False)

    def write(self, w: Writer) -> None:
        w.blob(self.token)

    @classmethod
    def read(cls, r: Reader) -> TokenReply:
        return cls(r.blob())


@record
class DoneResult(Record):
    """In a transaction: a `CHECK` or `DELETE` that worked."""

    op: OpCode


@record
class ErrorResult(Record):
    """In a transaction that failed: the code of each operation; 0 for one that was undone."""

    code: int


MultiResult = DoneResult | ErrorResult | PathReply | CreateReply | StatReply


@record
class MultiReply(Record):
    """To `MULTI`: one result per operation, in order, each with the operation it answers."""

    results: tuple[tuple[OpCode, MultiResult], ...]

    def write(self, w: Writer) -> None:
        for op, result in self.results:
            w.i32(op)
            w.flag(False)
            match result:
                case ErrorResult(code):
                    w.i32(code)
                    w.i32(code)
                case DoneResult():
                    w.i32(0)
                case _:
                    w.i32(0)
                    result.write(w)
        w.i32(-1)
        w.flag(True)
        w.i32(-1)

    @classmethod
    def read(cls, r: Reader) -> MultiReply:
        results: list[tuple[OpCode, MultiResult]] = []
        while True:
            code, done, _ = r.i32(), r.flag(), r.i32()
            if done:
                return cls(tuple(results))
            result: MultiResult
            match code:
                case OpCode.ERROR:
                    result = ErrorResult(r.i32())
                case OpCode.CREATE:
                    result = PathReply.read(r)
                case OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
                    result = CreateReply.read(r)
                case OpCode.SET_DATA:
                    result = StatReply.read(r)
                case OpCode.CHECK | OpCode.DELETE:
                    result = DoneResult(OpCode(code))
                case _:
                    raise RemoteWireError(f"operation {code} in a transaction's results")
            results.append((OpCode(code), result))


@record
class NumberReply(Record):
    """To `GET_ALL_CHILDREN_NUMBER`, and to `ADD_WATCH`, where it is always 0."""

    number: int

    def write(self, w: Writer) -> None:
        w.i32(self.number)

    @classmethod
    def read(cls, r: Reader) -> NumberReply:
        return cls(r.i32())


@record
class WhoAmIReply(Record):
    """To `WHO_AM_I`: schemes with the names of the users."""

    users: Sequence[tuple[str, str]]

    def write(self, w: Writer) -> None:
        w.i32(len(self.users))
        for scheme, user in self.users:
            w.text(scheme)
            w.text(user)

    @classmethod
    def read(cls, r: Reader) -> WhoAmIReply:
        return cls(r.vector(8, lambda r: (r.text(), r.text())))


ReadResult = DataReply | NamesReply | ErrorResult


@record
class MultiReadReply(Record):
    """To `MULTI_READ`: one result per read, in order; one that failed does not harm the others."""

    results: Sequence[ReadResult]

    def write(self, w: Writer) -> None:
        for result in self.results:
            match result:
                case ErrorResult(code):
                    w.i32(OpCode.ERROR)
                    w.flag(False)
                    w.i32(code)
                    w.i32(code)
                case _:
                    data = isinstance(result, DataReply)
                    w.i32(OpCode.GET_DATA if data else OpCode.GET_CHILDREN)
                    w.flag(False)
                    w.i32(0)
                    result.write(w)
        w.i32(-1)
        w.flag(True)
        w.i32(-1)

    @classmethod
    def read(cls, r: Reader) -> MultiReadReply:
        results: list[ReadResult] = []
        while True:
            code, done, _ = r.i32(), r.flag(), r.i32()
            if done:
                return cls(tuple(results))
            match code:
                case OpCode.ERROR:
                    results.append(ErrorResult(r.i32()))
                case OpCode.GET_DATA:
                    results.append(DataReply.read(r))
                case OpCode.GET_CHILDREN:
                    results.append(NamesReply.read(r))
                case _:
                    raise RemoteWireError(f"operation {code} among the results of reads")
