"""The changes of one transaction id: applied at once, undone together if one of them fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ... import paths
from ..._wire.codes import OpCode
from ..._wire.config_text import CONFIG_PATH
from ..._wire.replies import CreateReply, StatReply
from ..._wire.requests import Check, Create, Delete, SetACL, SetData
from ..._wire.versions import Feature
from ...errors import (
    BadArgumentsError,
    BadVersionError,
    EphemeralOnLocalSessionError,
    InvalidPathError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from ...model import ACL, CreateMode, EventType, Permission, Stat
from . import acl as acls
from . import quotas
from .tree import Lifetime, Tree, Znode, wrap32

MAX_TTL_MS = 0xFF_FFFF_FFFF

_FIXED = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")


class Change(NamedTuple):
    """A change, as watchers are notified of it.

    Attributes:
        acl: of the znode whose readers may know of it.
    """

    type: EventType
    path: str
    acl: tuple[ACL, ...]


class Transaction:
    """Applies writes in the order and with the checks of ZooKeeper's `PrepRequestProcessor`.

    Every method raises a `ServerError` if the server refuses the write; nothing of that write is
    left then, and `rollback` undoes those before it.

    Attributes:
        events: the notifications for watchers if the transaction succeeds, in order.
        touched: the paths of every znode that may have another state than before.
    """

    def __init__(
        self,
        tree: Tree,
        zxid: int,
        time_ms: int,
        *,
        session_id: int = 0,
        identities: Sequence[acls.Identity] = (),
        enforces_quotas: bool = False,
        refuses_ephemerals: bool = False,
        schemes: frozenset[str] = acls.DEFAULT_SCHEMES,
        features: Collection[Feature] = (),
    ) -> None:
        self._tree = tree
        self._zxid = zxid
        self._time_ms = time_ms
        self._session_id = session_id
        self._identities = identities
        self._enforces_quotas = enforces_quotas
        self._refuses_ephemerals = refuses_ephemerals
        self._growth: list[quotas.Change] = []
        self._schemes = schemes
        self._features = features
        self._undo: list[Callable[[], None]] = []
        # The counters of parents as later writes of this transaction see them: at the end of the
        # range they run on here, although the tree's own counter sticks.
        self._counters: dict[str, int] = {}
        self.events: list[Change] = []
        self.touched: set[str] = set()

    @property
    def zxid(self) -> int:
        return self._zxid

    def rollback(self) -> None:
        while self._undo:
            self._undo.pop()()
        self.events.clear()
        self._growth.clear()

    def keep_counts(self) -> None:
        """The transaction has succeeded: the counts of quotas follow it."""
        self.touched |= quotas.keep_counts(self._tree, self._growth)

    def create(self, request: Create) -> CreateReply:
        mode = _mode(request)
        path = request.path
        if mode.is_ephemeral and self._refuses_ephemerals:
            raise EphemeralOnLocalSessionError(path)
        if "/" not in path or "\0" in path:
            raise BadArgumentsError(path)
        acl = self._expand(request.acl, path)
        # Not `paths.parent`: what has no name before its last slash has the root as its parent.
        parent_path = path.rpartition("/")[0]
        parent = self._node(parent_path)
        self._allow(parent, Permission.CREATE, path)
        counter = self._counters.get(parent_path, parent.creates)
        if mode.is_sequential:
            path += f"{counter:010d}"
        self._validate(path)
        if self._tree.get(path) is not None:
            raise NodeExistsError(path)
        if parent.lifetime is Lifetime.EPHEMERAL:
            raise NoChildrenForEphemeralsError(path)
        self._grow(path, len(request.data or b""), 1)

        self.touched.update((path, parent_path))
        before = parent.creates, parent.pzxid
        self._counters[parent_path] = counter = wrap32(counter + 1)
        # At the end of the range the counter stays where it is (ZOOKEEPER-3249), and with it pzxid.
        if counter > parent.creates:
            parent.creates, parent.pzxid = counter, self._zxid
        node = self._new(request, mode, acl)
        self._tree.insert(path, node)

        def undo() -> None:
            self._tree.remove(path)
            parent.creates, parent.pzxid = before

        self._undo.append(undo)
        self.events.append(Change(EventType.CREATED, path, node.acl))
        self.events.append(Change(EventType.CHILDREN_CHANGED, parent_path or "/", parent.acl))
        return CreateReply(path, node.stat())

    def delete(self, request: Delete) -> None:
        path = request.path
        if "/" not in path or "\0" in path or path in _FIXED:
            raise BadArgumentsError(path)
        self._allow(self._node(path.rpartition("/")[0]), Permission.DELETE, path)
        node = self._node(path)
        _match(node.version, request.version, path)
        if node.children:
            raise NotEmptyError(path)
        self._remove(path)

    def reap(self, path: str) -> None:
        """Deletes a container or a znode that outlived its TTL, unless it has a child by now."""
        if self._node(path).children:
            raise NotEmptyError(path)
        self._remove(path)

    def end_session(self) -> None:
        """Deletes what the session owns."""
        for path in self._tree.ephemerals(self._session_id):
            self._remove(path)

    def set_data(self, request: SetData) -> StatReply:
        node = self._change(request.path, Permission.WRITE)
        self._grow(request.path, len(request.data or b"") - node.size, 0)
        _match(node.version, request.version, request.path)
        data, version, mtime, mzxid = node.data, node.version, node.mtime, node.mzxid
        self._tree.set_data(node, request.data)
        node.version = wrap32(version + 1)
        node.mtime, node.mzxid = self._time_ms, self._zxid

        def undo() -> None:
            self._tree.set_data(node, data)
            node.version, node.mtime, node.mzxid = version, mtime, mzxid

        self._undo.append(undo)
        self.events.append(Change(EventType.DATA_CHANGED, request.path, node.acl))
        return StatReply(node.stat())

    def set_config(self, data: bytes) -> Stat:
        """Replaces the ensemble's configuration. It is no part of a larger transaction."""
        node = self._change(CONFIG_PATH, Permission.WRITE)
        self._tree.set_data(node, data)
        node.version, node.mtime, node.mzxid = -1, self._time_ms, self._zxid
        self.events.append(Change(EventType.DATA_CHANGED, CONFIG_PATH, node.acl))
        return node.stat()

    def set_acl(self, request: SetACL) -> StatReply:
        self._validate(request.path)
        acl = self._expand(request.acl, request.path)
        node = self._change(request.path, Permission.ADMIN)
        _match(node.aversion, request.version, request.path)
        node.acl, node.aversion = acl, wrap32(node.aversion + 1)
        return StatReply(node.stat())

    def check(self, request: Check) -> None:
        node = self._change(request.path, Permission.READ)
        _match(node.version, request.version, request.path)

    def _remove(self, path: str) -> None:
        parent_path = path.rpartition("/")[0]
        parent = self._node(parent_path)
        self.touched.update((path, parent_path))
        pzxid = parent.pzxid
        node = self._tree.remove(path)
        self._growth.append((path, -node.size, -1))
        parent.pzxid = self._zxid
        # A znode that is created again counts from 0, also within the transaction.
        self._counters.pop(path, None)

        def undo() -> None:
            self._tree.insert(path, node)
            parent.pzxid = pzxid

        self._undo.append(undo)
        self.events.append(Change(EventType.DELETED, path, node.acl))
        self.events.append(Change(EventType.CHILDREN_CHANGED, parent_path or "/", parent.acl))

    def _grow(self, path: str, size: int, count: int) -> None:
        # Like a real server by the counts from before the transaction, whatever is in it.
        if self._enforces_quotas:
            quotas.check(self._tree, path, size, count)
        self._growth.append((path, size, count))

    def _new(self, request: Create, mode: CreateMode, acl: tuple[ACL, ...]) -> Znode:
        lifetime = Lifetime.PERSISTENT
        match request.op:
            # The operation decides, not the flags.
            case OpCode.CREATE_CONTAINER:
                lifetime = Lifetime.CONTAINER
            case OpCode.CREATE_TTL:
                lifetime = Lifetime.TTL
            case _:
                if mode.is_ephemeral:
                    lifetime = Lifetime.EPHEMERAL
        return Znode(
            request.data,
            acl,
            self._zxid,
            self._time_ms,
            lifetime=lifetime,
            owner=self._session_id if lifetime is Lifetime.EPHEMERAL else 0,
            ttl_ms=request.ttl_ms if lifetime is Lifetime.TTL else 0,
        )

    def _change(self, path: str, permission: Permission) -> Znode:
        self._validate(path)
        node = self._node(path)
        self._allow(node, permission, path)
        self.touched.add(path)
        return node

    def _node(self, path: str) -> Znode:
        node = self._tree.get(path)
        if node is None:
            raise NoNodeError(path)
        return node

    def _expand(self, acl: Sequence[ACL], path: str) -> tuple[ACL, ...]:
        return acls.expand(acl, self._identities, path, self._schemes, self._features)

    def _allow(self, node: Znode, permission: Permission, path: str) -> None:
        acls.check(node.acl, permission, self._identities, path)

    def _validate(self, path: str) -> None:
        try:
            paths.validate(path)
        except InvalidPathError:
            raise BadArgumentsError(path) from None


def _mode(request: Create) -> CreateMode:
    """The mode that the flags say; a time to live must come with its mode, and with no other."""
    try:
        mode = CreateMode(request.flags)
    except ValueError:
        raise BadArgumentsError(request.path) from None
    has_ttl = mode.has_ttl or request.op is OpCode.CREATE_TTL
    if has_ttl and not (mode.has_ttl and 0 < request.ttl_ms <= MAX_TTL_MS):
        raise BadArgumentsError(request.path)
    return mode


def _match(version: int, expected: int, path: str) -> None:
    if expected not in (-1, version):
        raise BadVersionError(path)
