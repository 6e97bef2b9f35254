"""Requests in, replies out: ZooKeeper's state machine over one tree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from ..._wire.codes import XID_EVENT, AddWatchMode, OpCode, WatcherType
from ..._wire.config_text import CONFIG_PATH
from ..._wire.jute import Reader, Record, encode_reply
from ..._wire.replies import NumberReply, PathReply, ReplyHeader, WatcherEvent, WhoAmIReply
from ..._wire.requests import (
    AddWatch,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    MultiRead,
    RemoveWatches,
    SetWatches,
    Sync,
)
from ..._wire.versions import Feature
from ...errors import NoWatcherError, RemoteWireError
from ...model import ACL, EventType, Permission
from . import acl, reads
from .config import Membership
from .connection import Connection
from .transaction import Change, Transaction
from .tree import Tree, Znode
from .watches import Mode, Watches
from .writes import Write, write_of

NO_ZXID = -1

ADD_WATCH_MODES: dict[int, Mode] = {
    AddWatchMode.PERSISTENT: Mode.PERSISTENT,
    AddWatchMode.RECURSIVE: Mode.RECURSIVE,
}


class Processor:
    """The tree, the watches on it, and the zxid that counts its changes.

    Args:
        features: in what it differs from a server of 3.5.
        enforces_quotas: whether the hard limits of quotas hold.
        refuses_ephemerals: whether sessions are local, and can have no ephemeral znodes.
        schemes: the schemes of ACL entries, beside world and auth.

    Attributes:
        zxid: of the last change.
        on_changes: called with the changes of each transaction, before the watchers are notified.
        on_applied: called with the paths that each transaction has touched, before anything is
            sent; also for one that has failed, which has used its zxid up.
    """

    def __init__(
        self,
        *,
        features: Collection[Feature] = (),
        enforces_quotas: bool = False,
        refuses_ephemerals: bool = False,
        schemes: frozenset[str] = acl.DEFAULT_SCHEMES,
    ) -> None:
        self.tree: Tree = Tree()
        self.watches: Watches[Connection]
        self.zxid: int = 0
        self.on_changes: Callable[[Sequence[Change]], None] | None = None
        self.on_applied: Callable[[Collection[str]], None] | None = None
        self._features = frozenset(features)
        self._membership: Membership | None = None
        self.forget_watches()
        self._reports_watched_paths = (
            Feature.PERSISTENT_WATCHES in features and Feature.RECURSIVE_WATCHES not in features
        )
        self._event_zxids = Feature.EVENT_ZXIDS in features
        self._guards_events = Feature.EVENTS_NEED_READ in features
        self._guards_missed_events = Feature.REARMED_EVENTS_NEED_READ in features
        self._enforces_quotas = enforces_quotas
        self._refuses_ephemerals = refuses_ephemerals
        self._schemes = schemes

    def set_up(self, config: bytes) -> None:
        """Makes it one server of an ensemble, whose configuration clients may change.

        A configuration that is there already, from before a restart, stays.
        """
        node = self.tree.get(CONFIG_PATH)
        assert node is not None  # nobody can delete it
        if not node.data:
            self.tree.set_data(node, config)
        self._membership = Membership(node.data or config)

    def forget_watches(self) -> None:
        """Drops all of them: they are kept nowhere but in the process."""
        self.watches = Watches(apart=Feature.WATCH_MODES_APART in self._features)

    def execute(self, connection: Connection, op: OpCode, r: Reader, time_ms: int) -> Record | None:
        """Carries a request out, and queues the events that it causes at once.

        Since the caller queues the reply afterwards, an event reaches each connection before any
        reply that shows the change.

        Raises:
            ServerError: the code to answer with.
            RemoteWireError: the body makes no sense.
        """
        if write := write_of(op, r, self._features, self._membership):
            return self.apply(
                write,
                self.zxid + 1,
                time_ms,
                session_id=connection.session_id,
                identities=connection.identities,
            )
        return self.read(connection, op, r)

    def apply(
        self,
        write: Write,
        zxid: int,
        time_ms: int,
        *,
        session_id: int = 0,
        identities: Sequence[acl.Identity] = (),
    ) -> Record | None:
        """Runs a write under a zxid. One that fails uses its zxid up too.

        Raises:
            ServerError: the code to answer with.
            RemoteWireError: the body makes no sense.
        """
        self.zxid = zxid
        transaction = Transaction(
            self.tree,
            zxid,
            time_ms,
            session_id=session_id,
            identities=identities,
            enforces_quotas=self._enforces_quotas,
            refuses_ephemerals=self._refuses_ephemerals,
            schemes=self._schemes,
            features=self._features,
        )
        try:
            reply = write(transaction)
            transaction.keep_counts()
        finally:
            if self.on_applied is not None:
                self.on_applied(transaction.touched)
        if events := transaction.events:
            if self.on_changes is not None:
                self.on_changes(events)
            for change in events:
                if self._reports_watched_paths:
                    for path, watcher in self.watches.trigger_by_watch(change.type, change.path):
                        watcher.queue(self._event(change.type, path, zxid))
                elif watchers := self.watches.trigger(change.type, change.path):
                    event = self._event(change.type, change.path, zxid)
                    for watcher in watchers:
                        if not self._guards_events or _may_read(watcher, change.acl):
                            watcher.queue(event)
        return reply

    def end_session(self, session_id: int, time_ms: int) -> None:
        """Deletes the session's ephemerals under a zxid of its own."""
        self.apply(Transaction.end_session, self.zxid + 1, time_ms, session_id=session_id)

    def reap(self, time_ms: int) -> None:
        """Deletes empty containers and outlived TTL znodes, each under a zxid of its own."""
        for path in self.tree.outlived(time_ms):
            self.apply(partial(Transaction.reap, path=path), self.zxid + 1, time_ms)

    def read(self, connection: Connection, op: OpCode, r: Reader) -> Record | None:
        """Answers a request that changes nothing, and leaves the watch that it asks for.

        Raises:
            ServerError: the code to answer with.
            RemoteWireError: the body makes no sense.
        """
        tree, watches, identities = self.tree, self.watches, connection.identities
        match op:
            case OpCode.EXISTS:
                needs_read = Feature.EXISTS_NEEDS_READ in self._features
                request = Exists.read(r)
                return reads.exists(
                    tree, watches, connection, request, identities if needs_read else None
                )
            case OpCode.GET_DATA:
                return reads.get_data(tree, watches, connection, GetData.read(r), identities)
            case OpCode.GET_CHILDREN | OpCode.GET_CHILDREN2:
                listing = GetChildren.read(r, op)
                return reads.get_children(tree, watches, connection, listing, identities)
            case OpCode.GET_ACL:
                return reads.get_acl(tree, GetACL.read(r), identities)
            case OpCode.SYNC:
                return PathReply(Sync.read(r).path)
            case OpCode.GET_EPHEMERALS:
                prefix = GetEphemerals.read(r).path
                return reads.get_ephemerals(tree, prefix, connection.session_id)
            case OpCode.GET_ALL_CHILDREN_NUMBER:
                path = GetAllChildrenNumber.read(r).path
                return reads.get_all_children_number(tree, path, identities)
            case OpCode.MULTI_READ:
                return reads.multi_read(tree, MultiRead.read(r), identities)
            case OpCode.WHO_AM_I:
                return WhoAmIReply([(scheme, acl.user(scheme, id_)) for scheme, id_ in identities])
            case OpCode.SET_WATCHES | OpCode.SET_WATCHES2:
                self._set_watches(connection, SetWatches.read(r, op))
                return None
            case OpCode.ADD_WATCH:
                return self._add_watch(connection, AddWatch.read(r))
            case OpCode.REMOVE_WATCHES | OpCode.CHECK_WATCHES:
                self._match_watches(connection, op, RemoveWatches.read(r))
                return None
            case _:
                raise AssertionError(f"{op!r} is not dispatched to here")

    def _event(self, type_: EventType, path: str, zxid: int = NO_ZXID) -> bytes:
        header = ReplyHeader(XID_EVENT, zxid if self._event_zxids else NO_ZXID, 0)
        return encode_reply(header, WatcherEvent(type_, path))

    def _set_watches(self, connection: Connection, request: SetWatches) -> None:
        """Arm watches of an earlier connection; events missed since are sent at once."""
        for path in request.data:
            node = self.tree.get(path)
            if node is None:
                connection.queue(self._event(EventType.DELETED, path))
            elif node.mzxid > request.relative_zxid:
                self._tell_missed(connection, EventType.DATA_CHANGED, path, node)
            else:
                self.watches.add_data(path, connection)
        for path in request.exist:
            if node := self.tree.get(path):
                self._tell_missed(connection, EventType.CREATED, path, node)
            else:
                self.watches.add_data(path, connection)
        for path in request.child:
            node = self.tree.get(path)
            if node is None:
                connection.queue(self._event(EventType.DELETED, path))
            elif node.pzxid > request.relative_zxid:
                self._tell_missed(connection, EventType.CHILDREN_CHANGED, path, node)
            else:
                self.watches.add_child(path, connection)
        for path in request.persistent:
            self.watches.add_lasting(path, connection, Mode.PERSISTENT)
        for path in request.recursive:
            self.watches.add_lasting(path, connection, Mode.RECURSIVE)

    def _tell_missed(
        self, connection: Connection, type_: EventType, path: str, node: Znode
    ) -> None:
        if not self._guards_missed_events or _may_read(connection, node.acl):
            connection.queue(self._event(type_, path))

    def _add_watch(self, connection: Connection, request: AddWatch) -> NumberReply:
        mode = ADD_WATCH_MODES.get(request.mode)
        if mode is None:
            raise RemoteWireError(f"the watch mode {request.mode}")
        self.watches.add_lasting(request.path, connection, mode)
        return NumberReply(0)

    def _match_watches(self, connection: Connection, op: OpCode, request: RemoveWatches) -> None:
        try:
            type_ = WatcherType(request.type)
        except ValueError:
            raise RemoteWireError(f"the watcher type {request.type}") from None
        if not self.watches.knows(type_):
            raise RemoteWireError(f"the watcher type {request.type}")
        match = self.watches.remove if op is OpCode.REMOVE_WATCHES else self.watches.holds
        if not match(request.path, connection, type_):
            raise NoWatcherError(request.path)


def _may_read(connection: Connection, acls: tuple[ACL, ...]) -> bool:
    return acl.allows(acls, Permission.READ, connection.identities)
