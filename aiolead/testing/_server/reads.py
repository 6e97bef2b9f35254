"""Reads: each request's answer, and the watch that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..._wire.codes import OpCode
from ..._wire.replies import (
    ACLReply,
    ChildrenReply,
    DataReply,
    ErrorResult,
    MultiReadReply,
    NamesReply,
    NumberReply,
    ReadResult,
    StatReply,
)
from ..._wire.requests import Exists, GetACL, GetChildren, GetData, MultiRead
from ...errors import BadArgumentsError, NoAuthError, NoNodeError, RemoteWireError, ServerError
from ...model import Permission
from . import acl as acls
from .tree import Tree, Znode
from .watches import Watches

W = TypeVar("W")

MAX_MULTI_READ = 16 * 1024 * 1024
"""How many bytes of data the reads of one request may return together. A request of a megabyte can
name a large znode tens of thousands of times, so there has to be an end."""


def exists(
    tree: Tree,
    watches: Watches[W],
    watcher: W,
    request: Exists,
    identities: Sequence[acls.Identity] | None,
) -> StatReply:
    """Leaves its watch also where there is nothing. Needs no permission without `identities`."""
    if "\0" in request.path:
        raise BadArgumentsError(request.path)
    node = tree.get(request.path)
    if node is not None and identities is not None:
        acls.check(node.acl, Permission.READ, identities, request.path)
    if request.watch:
        watches.add_data(request.path, watcher)
    return StatReply(_node(tree, request.path).stat())


def get_data(
    tree: Tree,
    watches: Watches[W],
    watcher: W,
    request: GetData,
    identities: Sequence[acls.Identity],
) -> DataReply:
    node = _readable(tree, request.path, identities)
    if request.watch:
        watches.add_data(request.path, watcher)
    return DataReply(node.data, node.stat())


def get_children(
    tree: Tree,
    watches: Watches[W],
    watcher: W,
    request: GetChildren,
    identities: Sequence[acls.Identity],
) -> NamesReply | ChildrenReply:
    node = _readable(tree, request.path, identities)
    if request.watch:
        watches.add_child(request.path, watcher)
    names = _names(node)
    if request.op is OpCode.GET_CHILDREN:
        return NamesReply(names)
    return ChildrenReply(names, node.stat())


def get_acl(tree: Tree, request: GetACL, identities: Sequence[acls.Identity]) -> ACLReply:
    """The whole list to those who may change it, one without the digests to those who may read."""
    path = request.path
    node = _node(tree, path)
    acls.check(node.acl, Permission.READ | Permission.ADMIN, identities, path)
    try:
        acls.check(node.acl, Permission.ADMIN, identities, path)
    except NoAuthError:
        return ACLReply(acls.masked(node.acl), node.stat())
    return ACLReply(node.acl, node.stat())


def get_all_children_number(
    tree: Tree, path: str, identities: Sequence[acls.Identity]
) -> NumberReply:
    _readable(tree, path, identities)
    return NumberReply(tree.descendants(path))


def get_ephemerals(tree: Tree, prefix: str, session_id: int) -> NamesReply:
    owned = tree.ephemerals(session_id)
    if prefix.strip() in ("", "/"):
        return NamesReply(owned)
    return NamesReply([path for path in owned if path.startswith(prefix)])


def multi_read(
    tree: Tree, request: MultiRead, identities: Sequence[acls.Identity]
) -> MultiReadReply:
    """Several reads in one request; one that fails does not disturb the others."""
    results: list[ReadResult] = []
    size = 0
    for op in request.ops:
        try:
            node = _readable(tree, op.path, identities)
        except ServerError as error:
            results.append(ErrorResult(error.code))
            continue
        if isinstance(op, GetData):
            results.append(DataReply(node.data, node.stat()))
            size += node.size
        else:
            names = _names(node)
            results.append(NamesReply(names))
            size += sum(map(len, names))
        if size > MAX_MULTI_READ:
            raise RemoteWireError(f"reads of more than {MAX_MULTI_READ} bytes in one request")
    return MultiReadReply(results)


def _names(node: Znode) -> list[str]:
    # Servers list children in the order of a hash table. Ours is in reverse order, so that a caller
    # that forgets to sort finds out.
    return list(reversed(node.children))


def _readable(tree: Tree, path: str, identities: Sequence[acls.Identity]) -> Znode:
    node = _node(tree, path)
    acls.check(node.acl, Permission.READ, identities, path)
    return node


def _node(tree: Tree, path: str) -> Znode:
    node = tree.get(path)
    if node is None:
        raise NoNodeError(path)
    return node
