"""What a client asks, after a `RequestHeader`."""

from __future__ import annotations

import re
import struct
from dataclasses import field
from typing import ClassVar

from ..errors import LocalWireError, RemoteWireError
from ..model import ACL, OPEN_ACL_UNSAFE, CreateMode
from .codes import OpCode
from .jute import Reader, Writer
from .record import Record, record

_pack_int = struct.Struct(">i").pack

_is_number = re.compile(r"-?[0-9]{9,10}").fullmatch
"""Whether it is what servers write behind the path of a sequential znode, with `%010d`."""


_OPEN = Writer()
_OPEN.acls(OPEN_ACL_UNSAFE)
_OPEN_BYTES = bytes(_OPEN.buffer)
"""The ACL of nearly every create, which takes longer to write than all else of it."""


def path_and_flag(path: str, flag: bool) -> bytes:
    """The body of the reads that may set a watch, of which there are more than of all else."""
    try:
        text = path.encode()
    except UnicodeEncodeError:
        raise LocalWireError(f"{path!r} cannot be encoded as UTF-8") from None
    return _pack_int(len(text)) + text + (b"\1" if flag else b"\0")


@record
class RequestHeader(Record):
    xid: int
    op: int

    def write(self, w: Writer) -> None:
        w.i32(self.xid)
        w.i32(self.op)

    @classmethod
    def read(cls, r: Reader) -> RequestHeader:
        return cls(r.i32(), r.i32())


@record
class Create(Record):
    """A create in any mode: the operation on the wire follows from flags and ttl.

    Always of the kind that is answered with the new znode's Stat, except as `CREATE`, which old
    clients and transactions use.
    """

    path: str
    data: bytes | None = field(repr=False)
    acl: tuple[ACL, ...]
    flags: int
    ttl_ms: int = -1
    op: OpCode = OpCode.CREATE2

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.blob(self.data)
        if self.acl is OPEN_ACL_UNSAFE:
            w.buffer += _OPEN_BYTES
        else:
            w.acls(self.acl)
        w.i32(self.flags)
        if self.op is OpCode.CREATE_TTL:
            w.i64(self.ttl_ms)
        elif self.ttl_ms != -1:
            raise LocalWireError("a time to live needs CREATE_TTL")

    def checked(self, created: str) -> str:
        """The path that a server says that it has created.

        Raises:
            RemoteWireError: it is another one than was asked for, with a number behind it or not.
        """
        begin, rest = created[: len(self.path)], created[len(self.path) :]
        is_sequential = CreateMode(self.flags).is_sequential
        if begin != self.path or not (_is_number(rest) if is_sequential else rest == ""):
            from .._parsing import shown

            raise RemoteWireError(f"created was {shown(created)}, asked for {shown(self.path)}")
        return created

    @classmethod
    def read(cls, r: Reader, op: OpCode) -> Create:
        path, data, acl, flags = r.text(), r.nullable_blob(), r.acls(), r.i32()
        return cls(path, data, acl, flags, r.i64() if op is OpCode.CREATE_TTL else -1, op)


@record
class Delete(Record):
    op: ClassVar[OpCode] = OpCode.DELETE
    path: str
    version: int

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.i32(self.version)

    @classmethod
    def read(cls, r: Reader) -> Delete:
        return cls(r.text(), r.i32())


@record
class Exists(Record):
    op: ClassVar[OpCode] = OpCode.EXISTS
    path: str
    watch: bool = False

    def write(self, w: Writer) -> None:
        w.buffer += path_and_flag(self.path, self.watch)

    @classmethod
    def read(cls, r: Reader) -> Exists:
        return cls(r.text(), r.flag())


@record
class GetData(Record):
    op: ClassVar[OpCode] = OpCode.GET_DATA
    path: str
    watch: bool = False

    def write(self, w: Writer) -> None:
        w.buffer += path_and_flag(self.path, self.watch)

    @classmethod
    def read(cls, r: Reader) -> GetData:
        return cls(r.text(), r.flag())


@record
class SetData(Record):
    op: ClassVar[OpCode] = OpCode.SET_DATA
    path: str
    data: bytes | None = field(repr=False)
    version: int

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.blob(self.data)
        w.i32(self.version)

    @classmethod
    def read(cls, r: Reader) -> SetData:
        return cls(r.text(), r.nullable_blob(), r.i32())


@record
class GetACL(Record):
    op: ClassVar[OpCode] = OpCode.GET_ACL
    path: str

    def write(self, w: Writer) -> None:
        w.text(self.path)

    @classmethod
    def read(cls, r: Reader) -> GetACL:
        return cls(r.text())


@record
class SetACL(Record):
    op: ClassVar[OpCode] = OpCode.SET_ACL
    path: str
    acl: tuple[ACL, ...]
    version: int

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.acls(self.acl)
        w.i32(self.version)

    @classmethod
    def read(cls, r: Reader) -> SetACL:
        return cls(r.text(), r.acls(), r.i32())


@record
class GetChildren(Record):
    """The names of the children, with the parent's Stat where `op` is `GET_CHILDREN2`."""

    path: str
    watch: bool = False
    op: OpCode = OpCode.GET_CHILDREN2

    def write(self, w: Writer) -> None:
        w.buffer += path_and_flag(self.path, self.watch)

    @classmethod
    def read(cls, r: Reader, op: OpCode) -> GetChildren:
        return cls(r.text(), r.flag(), op)


@record
class Sync(Record):
    op: ClassVar[OpCode] = OpCode.SYNC
    path: str

    def write(self, w: Writer) -> None:
        w.text(self.path)

    @classmethod
    def read(cls, r: Reader) -> Sync:
        return cls(r.text())


@record
class Check(Record):
    """Only within a transaction."""

    op: ClassVar[OpCode] = OpCode.CHECK
    path: str
    version: int

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.i32(self.version)

    @classmethod
    def read(cls, r: Reader) -> Check:
        return cls(r.text(), r.i32())


@record
class AddWatch(Record):
    """Sets a watch that fires again and again (3.6); its path need not exist."""

    op: ClassVar[OpCode] = OpCode.ADD_WATCH
    path: str
    mode: int

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.i32(self.mode)

    @classmethod
    def read(cls, r: Reader) -> AddWatch:
        return cls(r.text(), r.i32())


@record
class RemoveWatches(Record):
    op: ClassVar[OpCode] = OpCode.REMOVE_WATCHES
    path: str
    type: int

    def write(self, w: Writer) -> None:
        w.text(self.path)
        w.i32(self.type)

    @classmethod
    def read(cls, r: Reader) -> RemoveWatches:
        return cls(r.text(), r.i32())


@record
class SetWatches(Record):
    """Re-arms the watches of an earlier connection, relative to what that one had seen.

    `persistent` and `recursive` need `SET_WATCHES2` (3.6); without them the older `SET_WATCHES`,
    which every server knows, says the same.
    """

    relative_zxid: int
    data: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    child: tuple[str, ...] = ()
    persistent: tuple[str, ...] = ()
    recursive: tuple[str, ...] = ()
    op: OpCode = OpCode.SET_WATCHES

    def write(self, w: Writer) -> None:
        w.i64(self.relative_zxid)
        w.texts(self.data)
        w.texts(self.exist)
        w.texts(self.child)
        if self.op is OpCode.SET_WATCHES2:
            w.texts(self.persistent)
            w.texts(self.recursive)
        elif self.persistent or self.recursive:
            # Left out in silence, these watches would never fire again.
            raise LocalWireError("persistent watches need SET_WATCHES2")

    @classmethod
    def read(cls, r: Reader, op: OpCode) -> SetWatches:
        zxid, data, exist, child = r.i64(), r.texts(), r.texts(), r.texts()
        newer = op is OpCode.SET_WATCHES2
        persistent, recursive = (r.texts(), r.texts()) if newer else ((), ())
        return cls(
            zxid,
            tuple(data),
            tuple(exist),
            tuple(child),
            tuple(persistent),
            tuple(recursive),
            op,
        )


@record
class Ping(Record):
    op: ClassVar[OpCode] = OpCode.PING

    def write(self, w: Writer) -> None:
        pass


@record
class CloseSession(Record):
    op: ClassVar[OpCode] = OpCode.CLOSE_SESSION

    def write(self, w: Writer) -> None:
        pass


@record
class AuthPacket(Record):
    op: ClassVar[OpCode] = OpCode.AUTH
    scheme: str
    credential: bytes = field(repr=False)

    def write(self, w: Writer) -> None:
        w.i32(0)
        w.text(self.scheme)
        w.blob(self.credential)

    @classmethod
    def read(cls, r: Reader) -> AuthPacket:
        r.i32()
        return cls(r.text(), r.blob())


@record
class Sasl(Record):
    """A token of a SASL exchange."""

    op: ClassVar[OpCode] = OpCode.SASL
    token: bytes = field(repr=False)

    def write(self, w: Writer) -> None:
        w.blob(self.token)

    @classmethod
    def read(cls, r: Reader) -> Sasl:
        return cls(r.blob())


@record
class GetEphemerals(Record):
    """The paths of the session's ephemeral znodes that start with a prefix (3.6)."""

    op: ClassVar[OpCode] = OpCode.GET_EPHEMERALS
    prefix: str

    def write(self, w: Writer) -> None:
        w.text(self.prefix)

    @classmethod
    def read(cls, r: Reader) -> GetEphemerals:
        return cls(r.text())


@record
class GetAllChildrenNumber(Record):
    """How many znodes are below a path, at any depth (3.6)."""

    op: ClassVar[OpCode] = OpCode.GET_ALL_CHILDREN_NUMBER
    path: str

    def write(self, w: Writer) -> None:
        w.text(self.path)

    @classmethod
    def read(cls, r: Reader) -> GetAllChildrenNumber:
        return cls(r.text())


@record
class WhoAmI(Record):
    """Which identities the connection has shown (3.7)."""

    op: ClassVar[OpCode] = OpCode.WHO_AM_I

    def write(self, w: Writer) -> None:
        pass


ReadOp = GetData | GetChildren


@record
class MultiRead(Record):
    """Several reads at one moment (3.6). Each `GetChildren` is a `GET_CHILDREN`."""

    op: ClassVar[OpCode] = OpCode.MULTI_READ
    ops: tuple[ReadOp, ...]

    def write(self, w: Writer) -> None:
        for op in self.ops:
            _multi_header(w, op.op, done=False)
            op.write(w)
        _multi_header(w, -1, done=True)

    @classmethod
    def read(cls, r: Reader) -> MultiRead:
        ops: list[ReadOp] = []
        while True:
            code, done, _ = r.i32(), r.flag(), r.i32()
            if done:
                return cls(tuple(ops))
            match code:
                case OpCode.GET_DATA:
                    ops.append(GetData.read(r))
                case OpCode.GET_CHILDREN:
                    ops.append(GetChildren.read(r, OpCode.GET_CHILDREN))
                case _:
                    raise RemoteWireError(f"operation {code} among reads")


@record
class Reconfig(Record):
    """Changes who belongs to the ensemble: by who comes and goes, or as a whole.

    Attributes:
        joining: `server.N=...`, with commas between them.
        leaving: numbers of servers, with commas between them.
        members: all of them, as `joining`; None for a change by who comes and goes.
        version: that of the configuration that it is to change; -1 for any.
    """

    op: ClassVar[OpCode] = OpCode.RECONFIG
    joining: str | None
    leaving: str | None
    members: str | None
    version: int

    def write(self, w: Writer) -> None:
        for text in (self.joining, self.leaving, self.members):
            if text is None:
                w.i32(-1)
            else:
                w.text(text)
        w.i64(self.version)

    @classmethod
    def read(cls, r: Reader) -> Reconfig:
        # Of who comes and goes, nothing is nothing, empty or null; to have no members is a wish.
        joining, leaving = r.text() or None, r.text() or None
        return cls(joining, leaving, r.nullable_text(), r.i64())


MultiOp = Create | Delete | SetData | Check


@record
class Multi(Record):
    """A transaction: all of the operations are applied, or none is."""

    op: ClassVar[OpCode] = OpCode.MULTI
    ops: tuple[MultiOp, ...]

    def write(self, w: Writer) -> None:
        for op in self.ops:
            _multi_header(w, op.op, done=False)
            op.write(w)
        _multi_header(w, -1, done=True)

    @classmethod
    def read(cls, r: Reader) -> Multi:
        ops: list[MultiOp] = []
        while True:
            code, done, _ = r.i32(), r.flag(), r.i32()
            if done:
                return cls(tuple(ops))
            match code:
                case OpCode.CREATE | OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
                    ops.append(Create.read(r, OpCode(code)))
                case OpCode.DELETE:
                    ops.append(Delete.read(r))
                case OpCode.SET_DATA:
                    ops.append(SetData.read(r))
                case OpCode.CHECK:
                    ops.append(Check.read(r))
                case _:
                    raise RemoteWireError(f"operation {code} in a transaction")


def _multi_header(w: Writer, op: int, *, done: bool) -> None:
    w.i32(op)
    w.flag(done)
    w.i32(-1)
