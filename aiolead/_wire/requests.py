"""The requests of a client, each behind a `RequestHeader`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import ClassVar

from ..errors import LocalWireError, RemoteWireError
from ..model import ACL, OPEN_ACL_UNSAFE, CreateMode
from .codes import OpCode
from .jute import (
    ACLS,
    BLOB,
    FLAG,
    I32,
    NULLABLE_BLOB,
    TEXT,
    Reader,
    Record,
    RecordLayout,
    Writer,
    blob_bytes,
    int_bytes,
    long_bytes,
    record,
    text_bytes,
)

_is_number = re.compile(r"-?[0-9]{9,10}").fullmatch
"""Matches what servers append to the path of a sequential znode: `%010d`."""


def _acl_bytes(acl: tuple[ACL, ...]) -> bytes:
    w = Writer()
    w.acls(acl)
    return bytes(w.buffer)


_OPEN_BYTES = _acl_bytes(OPEN_ACL_UNSAFE)
"""The ACL of nearly every create: encoding it takes longer than the rest."""


_SEQUENTIAL = frozenset(mode for mode in CreateMode if mode.is_sequential)


@record
class RequestHeader(Record):
    xid: int
    op: int
    layout: ClassVar[RecordLayout] = I32, I32


# --- requests of one shape ---------------------------------------------------------------------


@record
class _Empty(Record):
    pass


class Ping(_Empty):
    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.PING


class CloseSession(_Empty):
    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.CLOSE_SESSION


class WhoAmI(_Empty):
    """Which identities the connection has (3.7)."""

    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.WHO_AM_I


@record
class _OfPath(Record):
    path: str
    layout: ClassVar[RecordLayout] = (TEXT,)


class GetACL(_OfPath):
    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.GET_ACL


class Sync(_OfPath):
    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.SYNC


class GetEphemerals(_OfPath):
    """The session's ephemeral znodes whose paths start with `path`, as text (3.6)."""

    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.GET_EPHEMERALS


class GetAllChildrenNumber(_OfPath):
    """How many znodes are below a path, at any depth (3.6)."""

    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.GET_ALL_CHILDREN_NUMBER


@record
class _OfPathAndVersion(Record):
    path: str
    version: int
    layout: ClassVar[RecordLayout] = TEXT, I32


class Delete(_OfPathAndVersion):
    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.DELETE


class Check(_OfPathAndVersion):
    """Only within a transaction."""

    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.CHECK


@record
class _WatchableRead(Record):
    path: str
    watch: bool = False
    layout: ClassVar[RecordLayout] = TEXT, FLAG


class Exists(_WatchableRead):
    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.EXISTS


class GetData(_WatchableRead):
    __slots__ = ()
    op: ClassVar[OpCode] = OpCode.GET_DATA


# --- the others --------------------------------------------------------------------------------


@record
class GetChildren(Record):
    """The names of the children, with the parent's Stat where `op` is `GET_CHILDREN2`."""

    path: str
    watch: bool = False
    op: OpCode = OpCode.GET_CHILDREN2
    layout: ClassVar[RecordLayout] = TEXT, FLAG

    @classmethod
    def read(cls, r: Reader, op: OpCode = OpCode.GET_CHILDREN2) -> GetChildren:
        return cls(r.text(), r.flag(), op)


@record
class Create(Record):
    """A create in any mode: flags and ttl decide the operation on the wire.

    Its answer has the new Stat, except for `CREATE`, which old clients and transactions use.
    """

    path: str
    data: bytes | None = field(repr=False)
    acl: tuple[ACL, ...]
    flags: int
    ttl_ms: int = -1
    op: OpCode = OpCode.CREATE2

    def encode(self) -> bytes:
        ttl = b""
        if self.op is OpCode.CREATE_TTL:
            ttl = long_bytes(self.ttl_ms)
        elif self.ttl_ms != -1:
            raise LocalWireError("a time to live needs CREATE_TTL")
        acl = _OPEN_BYTES if self.acl is OPEN_ACL_UNSAFE else _acl_bytes(self.acl)
        return text_bytes(self.path) + blob_bytes(self.data) + acl + int_bytes(self.flags) + ttl

    def write(self, w: Writer) -> None:
        w.buffer += self.encode()

    @classmethod
    def read(cls, r: Reader, op: OpCode = OpCode.CREATE2) -> Create:
        path, data, acl, flags = r.text(), r.nullable_blob(), r.acls(), r.i32()
        return cls(path, data, acl, flags, r.i64() if op is OpCode.CREATE_TTL else -1, op)

    def checked(self, created: str) -> str:
        """Return the path that a server has created.

        Raises `RemoteWireError` if it is not the requested one, plus a number if sequential.
        """
        rest = created[len(self.path) :]
        is_right = _is_number(rest) if self.flags in _SEQUENTIAL else not rest
        if not (is_right and created.startswith(self.path)):
            from .._util.parsing import shown

            raise RemoteWireError(f"created was {shown(created)}, asked for {shown(self.path)}")
        return created


@record
class SetData(Record):
    op: ClassVar[OpCode] = OpCode.SET_DATA
    path: str
    data: bytes | None = field(repr=False)
    version: int
    layout: ClassVar[RecordLayout] = TEXT, NULLABLE_BLOB, I32


@record
class SetACL(Record):
    op: ClassVar[OpCode] = OpCode.SET_ACL
    path: str
    acl: tuple[ACL, ...]
    version: int
    layout: ClassVar[RecordLayout] = TEXT, ACLS, I32


@record
class AddWatch(Record):
    """Sets a persistent watch (3.6); its path need not exist."""

    op: ClassVar[OpCode] = OpCode.ADD_WATCH
    path: str
    mode: int
    layout: ClassVar[RecordLayout] = TEXT, I32


@record
class RemoveWatches(Record):
    op: ClassVar[OpCode] = OpCode.REMOVE_WATCHES
    path: str
    type: int
    layout: ClassVar[RecordLayout] = TEXT, I32


@record
class SetWatches(Record):
    """Re-arms the watches of an earlier connection, relative to the last zxid seen there.

    `persistent` and `recursive` need `SET_WATCHES2` (3.6); every server knows `SET_WATCHES`.
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
            # Left out, these watches would silently never fire again.
            raise LocalWireError("persistent watches need SET_WATCHES2")

    @classmethod
    def read(cls, r: Reader, op: OpCode = OpCode.SET_WATCHES) -> SetWatches:
        zxid, data, exist, child = r.i64(), tuple(r.texts()), tuple(r.texts()), tuple(r.texts())
        if op is not OpCode.SET_WATCHES2:
            return cls(zxid, data, exist, child, op=op)
        return cls(zxid, data, exist, child, tuple(r.texts()), tuple(r.texts()), op)


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
    layout: ClassVar[RecordLayout] = (BLOB,)


@record
class Reconfig(Record):
    """Changes the members of the ensemble: incrementally, or all at once.

    `joining` and `members` (None: incremental) are comma-separated `server.N=...`; `leaving` are
    comma-separated numbers. `version` is that of the configuration to change; -1 for any.
    """

    op: ClassVar[OpCode] = OpCode.RECONFIG
    joining: str | None
    leaving: str | None
    members: str | None
    version: int

    def write(self, w: Writer) -> None:
        for text in (self.joining, self.leaving, self.members):
            if text is None:
                w.blob(None)
            else:
                w.text(text)
        w.i64(self.version)

    @classmethod
    def read(cls, r: Reader) -> Reconfig:
        # Servers take empty for null in the first two. An empty `members` is another request.
        joining, leaving = r.text() or None, r.text() or None
        return cls(joining, leaving, r.nullable_text(), r.i64())


# --- several in one ----------------------------------------------------------------------------

ReadOp = GetData | GetChildren
MultiOp = Create | Delete | SetData | Check

_CREATES = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
_READ_OPS: dict[int, Callable[[Reader], ReadOp]] = {
    OpCode.GET_DATA: GetData.read,
    OpCode.GET_CHILDREN: partial(GetChildren.read, op=OpCode.GET_CHILDREN),
}
_MULTI_OPS: dict[int, Callable[[Reader], MultiOp]] = {
    **{op: partial(Create.read, op=op) for op in _CREATES},
    OpCode.DELETE: Delete.read,
    OpCode.SET_DATA: SetData.read,
    OpCode.CHECK: Check.read,
}


@record
class MultiRead(Record):
    """Several reads at one point in time (3.6). Each `GetChildren` is a `GET_CHILDREN`."""

    op: ClassVar[OpCode] = OpCode.MULTI_READ
    ops: tuple[ReadOp, ...]

    def write(self, w: Writer) -> None:
        _write_ops(w, self.ops)

    @classmethod
    def read(cls, r: Reader) -> MultiRead:
        return cls(tuple(op for _, op in r.multi(_READ_OPS, "among reads")))


@record
class Multi(Record):
    """A transaction: all of its operations are applied, or none."""

    op: ClassVar[OpCode] = OpCode.MULTI
    ops: tuple[MultiOp, ...]

    def write(self, w: Writer) -> None:
        _write_ops(w, self.ops)

    @classmethod
    def read(cls, r: Reader) -> Multi:
        return cls(tuple(op for _, op in r.multi(_MULTI_OPS, "in a transaction")))


def _write_ops(w: Writer, ops: tuple[ReadOp, ...] | tuple[MultiOp, ...]) -> None:
    for op in ops:
        w.multi_header(op.op)
        op.write(w)
    w.multi_end()
