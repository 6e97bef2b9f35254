"""Requests in, replies out: ZooKeeper's state machine over one tree."""

from __future__ import annotations

from collections.abc import Callable

from ..._wire.codes import XID_EVENT, OpCode, WatcherType
from ..._wire.jute import Reader
from ..._wire.packets import Record, encode_reply
from ..._wire.replies import (
    DoneResult,
    ErrorResult,
    MultiReply,
    MultiResult,
    PathReply,
    ReplyHeader,
    WatcherEvent,
)
from ..._wire.requests import (
    Check,
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiOp,
    RemoveWatches,
    SetACL,
    SetData,
    SetWatches,
    Sync,
)
from ...errors import (
    NoWatcherError,
    ReconfigDisabledError,
    RemoteWireError,
    RuntimeInconsistencyError,
    ServerError,
)
from ...model import CreateMode, EventType
from . import acl, reads
from .connection import Connection
from .records import NumberReply, WhoAmIReply
from .transaction import Transaction
from .tree import Tree
from .watches import Mode, Watches

NO_ZXID = -1

Write = Callable[[Transaction], Record | None]

ADD_WATCH_MODES = {0: Mode.PERSISTENT, 1: Mode.RECURSIVE}


class Processor:
    """The tree, the watches on it, and the zxid that counts its changes.

    Args:
        event_zxids: whether watch events carry the zxid of the change.
    """

    def __init__(self, *, event_zxids: bool = False) -> None:
        self.tree = Tree()
        self.watches: Watches[Connection] = Watches()
        self.zxid = 0
        self._event_zxids = event_zxids

    def execute(self, connection: Connection, op: OpCode, r: Reader, time_ms: int) -> Record | None:
        """Carries a request out, and queues the events that it causes at once.

        Since the caller queues the reply afterwards, an event reaches each connection before any
        reply that shows the change.

        Raises:
            ServerError: the code to answer with.
            RemoteWireError: the body makes no sense.
        """
        if write := self._write_of(op, r):
            return self.write(connection, time_ms, write)
        return self._read(connection, op, r)

    def write(self, connection: Connection, time_ms: int, write: Write) -> Record | None:
        """Runs a write under the next zxid. One that fails uses a zxid up too."""
        self.zxid += 1
        transaction = Transaction(
            self.tree,
            self.zxid,
            time_ms,
            session_id=connection.session_id,
            identities=connection.identities,
        )
        reply = write(transaction)
        self._announce(transaction)
        return reply

    def end_session(self, session_id: int, time_ms: int) -> None:
        """Deletes the session's ephemerals under a zxid of its own."""
        self.zxid += 1
        transaction = Transaction(self.tree, self.zxid, time_ms, session_id=session_id)
        transaction.end_session()
        self._announce(transaction)

    def reap(self, time_ms: int) -> None:
        """Deletes empty containers and outlived TTL znodes, each under a zxid of its own."""
        for path in self.tree.outlived(time_ms):
            self.zxid += 1
            transaction = Transaction(self.tree, self.zxid, time_ms)
            transaction.reap(path)
            self._announce(transaction)

    def _write_of(self, op: OpCode, r: Reader) -> Write | None:
        match op:
            case OpCode.CREATE:
                return lambda t: PathReply(t.create(Create.read(r, op)).path)
            case OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
                return lambda t: t.create(Create.read(r, op))
            case OpCode.DELETE:
                return lambda t: t.delete(Delete.read(r))
            case OpCode.SET_DATA:
                return lambda t: t.set_data(SetData.read(r))
            case OpCode.SET_ACL:
                return lambda t: t.set_acl(SetACL.read(r))
            case OpCode.CHECK:
                return lambda t: t.check(Check.read(r))
            case OpCode.MULTI:
                return lambda t: _multi(t, Multi.read(r))
            case OpCode.RECONFIG:
                return _reconfig
            case _:
                return None

    def _read(self, connection: Connection, op: OpCode, r: Reader) -> Record | None:
        tree, watches, identities = self.tree, self.watches, connection.identities
        match op:
            case OpCode.EXISTS:
                return reads.exists(tree, watches, connection, Exists.read(r))
            case OpCode.GET_DATA:
                return reads.get_data(tree, watches, connection, GetData.read(r), identities)
            case OpCode.GET_CHILDREN | OpCode.GET_CHILDREN2:
                request = GetChildren.read(r, op)
                return reads.get_children(tree, watches, connection, request, identities)
            case OpCode.GET_ACL:
                return reads.get_acl(tree, GetACL.read(r), identities)
            case OpCode.SYNC:
                return PathReply(Sync.read(r).path)
            case OpCode.GET_EPHEMERALS:
                prefix = GetEphemerals.read(r).prefix
                return reads.get_ephemerals(tree, prefix, connection.session_id)
            case OpCode.GET_ALL_CHILDREN_NUMBER:
                return reads.get_all_children_number(tree, r.text(), identities)
            case OpCode.MULTI_READ:
                return reads.multi_read(tree, r, identities)
            case OpCode.WHO_AM_I:
                return WhoAmIReply([(scheme, acl.user(scheme, id_)) for scheme, id_ in identities])
            case OpCode.SET_WATCHES | OpCode.SET_WATCHES2:
                self._set_watches(connection, SetWatches.read(r, op))
                return None
            case OpCode.ADD_WATCH:
                return self._add_watch(connection, r.text(), r.i32())
            case OpCode.REMOVE_WATCHES | OpCode.CHECK_WATCHES:
                self._match_watches(connection, op, RemoveWatches.read(r))
                return None
            case _:
                raise AssertionError(f"{op!r} is not dispatched to here")

    def _announce(self, transaction: Transaction) -> None:
        for type_, path in transaction.events:
            if watchers := self.watches.trigger(type_, path):
                event = self._event(type_, path, self.zxid)
                for watcher in watchers:
                    watcher.queue(event)

    def _event(self, type_: EventType, path: str, zxid: int = NO_ZXID) -> bytes:
        header = ReplyHeader(XID_EVENT, zxid if self._event_zxids else NO_ZXID, 0)
        return encode_reply(header, WatcherEvent(type_, path))

    def _set_watches(self, connection: Connection, request: SetWatches) -> None:
        """Arms watches of an earlier connection; what it has missed since is told at once."""
        for path in request.data:
            node = self.tree.get(path)
            if node is None:
                connection.queue(self._event(EventType.DELETED, path))
            elif node.mzxid > request.relative_zxid:
                connection.queue(self._event(EventType.DATA_CHANGED, path))
            else:
                self.watches.add_data(path, connection)
        for path in request.exist:
            if self.tree.get(path) is not None:
                connection.queue(self._event(EventType.CREATED, path))
            else:
                self.watches.add_data(path, connection)
        for path in request.child:
            node = self.tree.get(path)
            if node is None:
                connection.queue(self._event(EventType.DELETED, path))
            elif node.pzxid > request.relative_zxid:
                connection.queue(self._event(EventType.CHILDREN_CHANGED, path))
            else:
                self.watches.add_child(path, connection)
        for path in request.persistent:
            self.watches.add_lasting(path, connection, Mode.PERSISTENT)
        for path in request.recursive:
            self.watches.add_lasting(path, connection, Mode.RECURSIVE)

    def _add_watch(self, connection: Connection, path: str, number: int) -> NumberReply:
        mode = ADD_WATCH_MODES.get(number)
        if mode is None:
            raise RemoteWireError(f"the watch mode {number}")
        self.watches.add_lasting(path, connection, mode)
        return NumberReply(0)

    def _match_watches(self, connection: Connection, op: OpCode, request: RemoveWatches) -> None:
        try:
            type_ = WatcherType(request.type)
        except ValueError:
            raise RemoteWireError(f"the watcher type {request.type}") from None
        match = self.watches.remove if op is OpCode.REMOVE_WATCHES else self.watches.holds
        if not match(request.path, connection, type_):
            raise NoWatcherError(request.path)


def _multi(transaction: Transaction, request: Multi) -> MultiReply:
    """All of the operations, or the error of each: 0 for those undone, -2 for those not tried."""
    results: list[tuple[OpCode, MultiResult]] = []
    for index, op in enumerate(request.ops):
        try:
            results.append(_apply(transaction, op))
        except ServerError as error:
            transaction.rollback()
            untried = len(request.ops) - index - 1
            codes = [0] * index + [error.code] + [RuntimeInconsistencyError.code] * untried
            return MultiReply(tuple((OpCode.ERROR, ErrorResult(code)) for code in codes))
    return MultiReply(tuple(results))


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


def _reconfig(_: Transaction) -> None:
    raise ReconfigDisabledError
