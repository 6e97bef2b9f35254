"""The known znodes of a tree, and the events for each reader."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import final
from weakref import WeakValueDictionary

import anyio
import anyio.lowlevel

from ...errors import AioleadError
from ...model import Stat
from ...paths import basename, join, parent


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A znode of a `TreeCache`.

    Attributes:
        path: its path.
        data: its data; None if the cache keeps none, or may not read them.
        stat: from the last read of its data; its numbers about children (`num_children`,
            `cversion`, `pzxid`) may be older than the copy. Of an unreadable znode, from the last
            time that the cache had a reason to ask; None if the server refuses it (3.8.4, 3.9.2 and
            newer).
        is_readable: False if its ACL denies reading. Then its children are unknown, too.
    """

    path: str
    data: bytes | None
    stat: Stat | None
    is_readable: bool = True


class TreeEventType(enum.Enum):
    """The type of a change of a znode."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class TreeEvent:
    """A change of a znode.

    Attributes:
        type: the type of the change.
        path: of the znode.
        old: the znode of the last event (the numbers about children in its `stat` may differ); None
            if it was created.
        new: the znode now; None if it was deleted.
    """

    type: TreeEventType
    path: str
    old: TreeNode | None
    new: TreeNode | None


class TreeCopy:
    """The known znodes, and the readers of their events. Everything is synchronous."""

    def __init__(self) -> None:
        self.nodes: dict[str, TreeNode] = {}
        self._children: dict[str, set[str]] = {}
        self._readers: WeakValueDictionary[int, TreeEvents] = WeakValueDictionary()
        self._count = 0
        self.ended: bool = False
        self.error: AioleadError | None = None

    def children(self, path: str) -> list[str]:
        """The names of the known children, sorted."""
        return sorted(self._children.get(path, ()))

    def put(self, node: TreeNode) -> list[str]:
        """Record a znode that was read; return the paths that are gone with the one it replaces."""
        path, old = node.path, self.nodes.get(node.path)
        removed: list[str] = []
        if old is not None and node.stat is not None and is_another(old, node):
            # The old znode's children are gone; children created since belong to the new znode.
            for child in self.children(path):
                removed += self._remove_older(join(path, child), node.stat.czxid)
        self.nodes[path] = node
        if path != "/":
            self._children.setdefault(parent(path), set()).add(basename(path))
        if old is None or _differ(old, node):
            self._emit(path, old)
        return removed

    def remove(self, path: str) -> list[str]:
        """Remove a znode and all below it; return their paths."""
        return self._remove_older(path, None)

    def _remove_older(self, path: str, czxid: int | None) -> list[str]:
        removed: list[str] = []
        todo = [(path, False)]
        while todo:  # not recursive: a tree may be deeper than the stack
            at, is_after_children = todo.pop()
            if not is_after_children:
                todo.append((at, True))
                todo.extend((join(at, name), False) for name in self.children(at))
                continue
            node = self.nodes.get(at)
            if czxid is not None and node is not None and not _is_older(node, czxid):
                continue
            if self.nodes.pop(at, None) is not None:
                self._emit(at, node)
            removed.append(at)
            siblings = self._children.get(parent(at))
            if siblings is not None and at != "/":
                siblings.discard(basename(at))
                if not siblings:
                    del self._children[parent(at)]
        return removed

    # --- events --------------------------------------------------------------------------------

    def reader(self, *, initial: bool) -> TreeEvents:
        """A reader of the events from now on; with `initial`, of all present znodes first."""
        events = TreeEvents(self, sorted(self.nodes) if initial else ())
        self._count += 1
        self._readers[self._count] = events
        return events

    def _emit(self, path: str, old: TreeNode | None) -> None:
        for reader in list(self._readers.values()):
            reader._touched(path, old)

    def end(self, error: AioleadError | None) -> None:
        """End the copy: it does not change any more."""
        self.ended, self.error = True, error
        for reader in list(self._readers.values()):
            reader._wake()


def is_another(old: TreeNode, new: TreeNode) -> bool:
    """Whether they are different znodes of the same name, as far as is known."""
    return old.stat is not None and new.stat is not None and old.stat.czxid != new.stat.czxid


def aversion_of(node: TreeNode) -> int | None:
    """The version of its ACL; None if unknown."""
    return None if node.stat is None else node.stat.aversion


def _is_older(node: TreeNode, czxid: int) -> bool:
    """Whether it is older than a transaction. Unknown counts as no: the parent's list decides."""
    return node.stat is not None and node.stat.czxid < czxid


def _written(node: TreeNode) -> tuple[int, int] | None:
    """The transactions of its creation and last change; None if unknown."""
    return None if node.stat is None else (node.stat.czxid, node.stat.mzxid)


def _differ(old: TreeNode, new: TreeNode) -> bool:
    return (_written(old), old.is_readable) != (_written(new), new.is_readable)


@final
class TreeEvents(AsyncIterator[TreeEvent]):
    """The events of a `TreeCache`, for one reader.

    Each event leads from the last reported state of a znode to the present one. A slow reader may
    get several changes as one event, and none for a znode that came and went; no more is buffered
    than there are changed znodes. The events always add up to the copy. A replaced znode is
    reported as deleted and created. Events of one znode are in order; those of several are in the
    order in which each changed first.

    Ends with the cache, after the last event: with its error, if there is one.

    Cancellation: loses no event.
    """

    def __init__(self, copy: TreeCopy, initial: Iterable[str]) -> None:
        self._copy = copy
        self._pending: OrderedDict[str, TreeNode | None] = OrderedDict.fromkeys(initial)
        self._ready: deque[TreeEvent] = deque()
        self._news = anyio.Event()

    def _touched(self, path: str, old: TreeNode | None) -> None:
        self._pending.setdefault(path, old)
        self._wake()

    def _wake(self) -> None:
        self._news.set()

    async def __anext__(self) -> TreeEvent:
        await anyio.lowlevel.checkpoint()
        while (event := self._take()) is None:
            if self._copy.ended:
                if self._copy.error is not None:
                    raise self._copy.error
                raise StopAsyncIteration
            if self._news.is_set():  # else another task waits for it
                self._news = anyio.Event()
            await self._news.wait()
        return event

    def _take(self) -> TreeEvent | None:
        while not self._ready and self._pending:
            path, old = self._pending.popitem(last=False)
            self._ready.extend(_between(path, old, self._copy.nodes.get(path)))
        return self._ready.popleft() if self._ready else None


def _between(path: str, old: TreeNode | None, new: TreeNode | None) -> list[TreeEvent]:
    """The events that lead from one state of a znode to another."""
    if old is not None and new is not None and not is_another(old, new):
        is_other = _differ(old, new)
        return [TreeEvent(TreeEventType.CHANGED, path, old, new)] if is_other else []
    events: list[TreeEvent] = []
    if old is not None:
        events.append(TreeEvent(TreeEventType.DELETED, path, old, None))
    if new is not None:
        events.append(TreeEvent(TreeEventType.CREATED, path, None, new))
    return events
