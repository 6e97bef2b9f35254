"""Decides what has to be read of a tree, and applies what was read to the copy.

`TreeCopy` has the known znodes, and the events for each reader.

An event only marks a znode to be read. One reader works the marks off, many at once, and applies
the answers in the order of the requests: a znode only moves to later states, whatever the order of
events.

Servers with the fix of CVE-2024-23944 (3.8.4, 3.9.2, older ones of some distributions; the version
does not show it) send no events of unreadable znodes, but still report that the list of children of
a readable znode has changed. So each readable znode has a one-shot watch on its children, beside
the recursive watch: it reveals the names of unreadable znodes. Below those the copy has nothing.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TypeAlias, final
from weakref import WeakValueDictionary

import anyio
import anyio.lowlevel

from ..abc import CoordinationClient, Reply, Watch
from ..errors import AioleadError, NoAuthError, NoNodeError, RequestRefusedError, TreeTooLargeError
from ..model import EventType, Stat, WatchEvent
from ..paths import basename, join, parent

__types__ = ["TreeEvent", "TreeEventType", "TreeEvents", "TreeNode"]


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
            stat = None if node is None else node.stat
            # A znode without a `Stat` stays: the list of its parent decides.
            if czxid is not None and node is not None and (stat is None or stat.czxid >= czxid):
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
            reader._news.set()


def is_another(old: TreeNode, new: TreeNode) -> bool:
    """Whether they are different znodes of the same name, as far as is known."""
    return old.stat is not None and new.stat is not None and old.stat.czxid != new.stat.czxid


def aversion_of(node: TreeNode) -> int | None:
    """The version of its ACL; None if unknown."""
    return None if node.stat is None else node.stat.aversion


def _differ(old: TreeNode, new: TreeNode) -> bool:
    """Whether one of them was written since, or may be read only now, as far as is known."""
    if old.stat is None or new.stat is None:
        return (old.stat is None) != (new.stat is None) or old.is_readable != new.is_readable
    before = (old.stat.czxid, old.stat.mzxid, old.is_readable)
    return before != (new.stat.czxid, new.stat.mzxid, new.is_readable)


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


AT_ONCE = 256
"""How many znodes are read at once."""

Look: TypeAlias = Reply[tuple[bytes, Stat]] | Reply[Stat | None]
"""A request for the `Stat` of a znode, with its data if the copy keeps them."""


class Todo(enum.Flag):
    """The reads that a znode still needs."""

    COMPARE = 0
    """Compare it with the copy, and read what differs."""
    READ = enum.auto()
    LIST = enum.auto()


class TreeReader:
    """Reads a tree into a copy.

    `select` decides whether a path and what is below it belong to the copy. `most` is how many
    znodes there may be. `on_complete` is called once the copy has every znode, in a state from
    after the last `note_all`. More may be marked by then, since others may write all the time.
    """

    def __init__(
        self,
        client: CoordinationClient,
        root: str,
        copy: TreeCopy,
        *,
        keep_data: bool,
        select: Callable[[str], bool] | None,
        most: int,
        on_complete: Callable[[], object],
    ) -> None:
        self._client = client
        self._root = root
        self._copy = copy
        self._keep_data = keep_data
        self._select = select
        self._most = most
        self._on_complete = on_complete
        self._todo: dict[str, Todo] = {}
        self._marked = anyio.Event()
        """Set when a znode is marked to be read."""
        self._batch: dict[str, Todo] = {}
        """The znodes that are being read."""
        self._aside: dict[str, tuple[Todo, float]] = {}
        """The znodes whose reads cost connections, with when each may be read again."""
        self._missing: set[str] = set()
        """Marked by `note_all`, or found by reading those: without them it is not complete."""
        self._is_completing = False
        """Whether the znode that is being applied is one of them."""
        self._gaps = 0
        """How often `note_all` was called."""
        self._listed: dict[str, int] = {}
        """Each znode's `pzxid` before its children were last listed."""
        self._session_id = 0
        self.watched = False
        """Whether one-shot watches on the data of each znode replace the recursive watch."""
        self.is_blind = False
        """Whether the top is missing, and no event would report its creation."""
        self._watches: dict[tuple[str, Todo], Watch] = {}

    @property
    def unread(self) -> int:
        return len(self._todo.keys() | self._batch.keys() | self._aside.keys())

    @property
    def is_complete(self) -> bool:
        """Whether the copy has every znode, and a watch reports what changes.

        Where there is no recursive watch, all one-shot watches must be armed. Beside a recursive
        watch that does not matter: what fired is marked to be read, and a lost connection is a gap
        in its stream.
        """
        if self._missing or self.is_blind:
            return False
        # Any thread may ask, while the reader adds watches.
        return not self.watched or all(watch.is_armed for watch in tuple(self._watches.values()))

    async def wait(self) -> None:
        """Wait until something is marked, or may be read again."""
        if not self._todo:
            self._marked = anyio.Event()
            next_try = min((until for _, until in self._aside.values()), default=inf)
            with anyio.CancelScope(deadline=next_try):
                await self._marked.wait()

    # --- what has to be read -------------------------------------------------------------------

    def note(self, path: str, todo: Todo) -> None:
        """Mark a znode to be read, as a result of reading."""
        if self._is_completing:
            self._missing.add(path)
        self._mark(path, todo)

    def _mark(self, path: str, todo: Todo) -> None:
        if path in self._aside:
            before, until = self._aside[path]
            self._aside[path] = before | todo, until
            return
        self._todo[path] = self._todo.get(path, Todo.COMPARE) | todo
        self._marked.set()

    def note_event(self, path: str) -> None:
        if self._is_selected(path):
            # The children of a known znode are watched.
            self._mark(path, Todo.READ if path in self._copy.nodes else Todo.READ | Todo.LIST)

    def note_all(self) -> None:
        """Mark what has to be looked at if anything may have happened."""
        self._gaps += 1
        self._missing.update(self._batch, self._todo, self._copy.nodes, (self._root,))
        for path in (*self._batch, *self._todo):
            # A znode on its way into the copy may have got children without an event.
            if path not in self._copy.nodes:
                self._mark(path, Todo.READ | Todo.LIST)
        for path in self._copy.nodes:
            self._mark(path, Todo.COMPARE)
        if self._root not in self._copy.nodes:
            self._mark(self._root, Todo.READ | Todo.LIST)

    def _is_selected(self, path: str) -> bool:
        if self._select is None:
            return True
        while path != self._root:
            if not self._select(path):
                return False
            path = parent(path)
        return True

    # --- reading it ----------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Read what is marked.

        Raises `ConnectionLossError`, `SessionExpiredError` (the rest stays marked), `NoAuthError`
        (for the top), `TreeTooLargeError`. Raises `RequestRefusedError` once all other znodes are
        read; those that were refused are set aside for a while.
        """
        refusal: RequestRefusedError | None = None
        now = anyio.current_time()
        for path in [path for path, (_, until) in self._aside.items() if until <= now]:
            todo, _ = self._aside.pop(path)
            self._mark(path, todo)
        while self._todo:
            refusal = await self._read_batch() or refusal
        if refusal is not None:
            raise refusal

    def _set_aside(self, path: str, todo: Todo, pause: float) -> None:
        """Read a znode only after a pause, whatever happens: each read may cost a connection."""
        self._missing.add(path)
        todo |= self._todo.pop(path, Todo.COMPARE)
        self._aside[path] = todo, anyio.current_time() + pause

    async def _read_batch(self) -> RequestRefusedError | None:
        """Read some znodes; return why one of them could not be read, if so."""
        refusal: RequestRefusedError | None = None
        session_id = self._client.session_id
        if self._session_id not in (0, session_id):
            # A new local session may begin on a server that lags behind the last one.
            await self._client.sync()
        self._session_id = session_id
        batch = {path: self._todo.pop(path) for path in list(self._todo)[:AT_ONCE]}
        self._batch, gaps = batch, self._gaps
        looks = [(path, todo, *self._ask(path, todo)) for path, todo in batch.items()]
        try:
            for path, todo, look, listing in looks:
                try:
                    await self._take(path, self._apply(path, todo, look, listing), gaps)
                except RequestRefusedError as error:
                    refusal = error
                    self._set_aside(path, todo, error.retry_in)
                del batch[path]
                if not self._missing:
                    self._on_complete()
        finally:
            self._batch = {}
            for path, todo in batch.items():
                self._mark(path, todo)
        return refusal

    async def _take(self, path: str, apply: Awaitable[None], gaps: int) -> None:
        """Apply what was read; `gaps` is how many there were when it was requested."""
        is_missing = self._is_completing = path in self._missing
        if gaps == self._gaps:
            self._missing.discard(path)
        try:
            await apply
        except BaseException:
            if is_missing:
                self._missing.add(path)
            raise
        finally:
            self._is_completing = False

    def _ask(self, path: str, todo: Todo) -> tuple[Look, Reply[list[str]] | None]:
        client = self._client
        look: Look
        if Todo.READ in todo and self._keep_data:
            look = client.get(path, watch=self._data_watch(path))
        elif Todo.READ in todo:
            look = client.exists(path, watch=self._data_watch(path))
        else:
            look = client.exists(path)
        if Todo.LIST not in todo:
            return look, None
        return look, client.get_children(path, watch=self._watch(path, Todo.LIST))

    async def _apply(
        self, path: str, todo: Todo, look: Look, listing: Reply[list[str]] | None
    ) -> None:
        is_read = Todo.READ in todo
        node = await self._seen(path, look, is_read and self._keep_data)
        if node is None or (is_read and not self._is_placed(path)):
            if listing is not None:
                with suppress(NoNodeError, NoAuthError):
                    await listing
            await self._gone(path)
            return
        if is_read or node.stat is None:
            self._put(node, todo)
        else:
            self._compare(path, node.stat, todo)
        if listing is not None:
            await self._list(path, node.stat, listing)

    async def _seen(self, path: str, look: Look, is_for_data: bool) -> TreeNode | None:
        """The znode as the server shows it; None if it does not exist."""
        try:
            try:
                found = await look
            except NoAuthError:
                if path == self._root or not is_for_data:
                    raise
                # Older servers let everybody see the `Stat`; 3.8.4, 3.9.2 and newer do not.
                stat = await self._client.exists(path, watch=self._data_watch(path))
                return None if stat is None else TreeNode(path, None, stat, is_readable=False)
        except NoNodeError:
            return None
        except NoAuthError:
            if path == self._root:
                raise
            # Only its name is known, from the list of its parent.
            return TreeNode(path, None, None, is_readable=False)
        data, stat = (None, found) if found is None or isinstance(found, Stat) else found
        if stat is None:
            return None
        return TreeNode(path, data, stat, self._keep_data or self._may_be_listed(path, stat))

    def _is_placed(self, path: str) -> bool:
        """Whether the copy may have the znode: all above it must be there, and readable.

        An unreadable znode may have a readable child with events; but if that became unreadable,
        its deletion would go unnoticed.
        """
        if path == self._root:
            return True
        above = self._copy.nodes.get(parent(path))
        return above is not None and above.is_readable

    def _put(self, node: TreeNode, todo: Todo) -> None:
        known = self._copy.nodes.get(node.path)
        if known is None:
            self._check_room(1)
            if Todo.LIST not in todo:  # it was known, and was deleted and created again meanwhile
                self.note(node.path, Todo.LIST)
        elif is_another(known, node) or known.is_readable != node.is_readable:
            # The watch on its children belongs to another znode, or there is none.
            self.note(node.path, Todo.LIST)
        elif aversion_of(known) != aversion_of(node):
            # The watch on its children may have gone while it was unreadable. And without data,
            # only listing its children shows whether it is readable.
            self.note(node.path, Todo.LIST)
        if node.path == self._root:
            self.is_blind = False
            self._unwatch(self._root, Todo.COMPARE)
        self._forget(self._copy.put(node))

    def _compare(self, path: str, stat: Stat, todo: Todo) -> None:
        """Mark what differs from the copy."""
        known = self._copy.nodes.get(path)
        before = None if known is None else known.stat
        if before is None or (before.czxid, before.aversion) != (stat.czxid, stat.aversion):
            # Whether it may be read depends on the ACL, and its children on that.
            self.note(path, Todo.READ | Todo.LIST)
            return
        if before.mzxid != stat.mzxid:
            self.note(path, Todo.READ)
        if Todo.LIST not in todo and self._listed.get(path) != stat.pzxid:
            self.note(path, Todo.LIST)

    async def _list(self, path: str, stat: Stat | None, listing: Reply[list[str]]) -> None:
        try:
            names = set(await listing)
        except NoNodeError:
            self.note(path, Todo.READ)
            return
        except NoAuthError:
            if path == self._root:
                raise
            self._unwatch(path, Todo.LIST)
            names = set()
            self._set_unreadable(path)
        else:
            self._set_readable(path)
        if stat is not None:
            self._listed[path] = stat.pzxid
        for name in self._copy.children(path):
            if name not in names:
                await self._gone(join(path, name))
        if self._is_completing:
            asked = (join(path, name) for name in names)
            self._missing.update(child for child in asked if child in self._batch)
        new = [child for child in self._new(path, names) if self._is_selected(child)]
        self._check_room(len(new))
        for child in new:
            self.note(child, Todo.READ | Todo.LIST)

    def _may_be_listed(self, path: str, stat: Stat | None) -> bool:
        """Whether a znode may be readable; not if it was refused with the same czxid and ACL."""
        known = self._copy.nodes.get(path)
        if known is None or known.is_readable or known.stat is None or stat is None:
            return True
        return (known.stat.czxid, known.stat.aversion) != (stat.czxid, stat.aversion)

    def _set_unreadable(self, path: str) -> None:
        """Listing a znode's children was refused, and so would be reading its data."""
        known = self._copy.nodes.get(path)
        if known is not None and known.is_readable:
            self._forget(self._copy.put(replace(known, data=None, is_readable=False)))

    def _set_readable(self, path: str) -> None:
        """A znode's children were listed, so its data are readable."""
        known = self._copy.nodes.get(path)
        if known is None or known.is_readable:
            return
        if self._keep_data or known.stat is None:
            self.note(path, Todo.READ | Todo.LIST)
        else:
            self._forget(self._copy.put(replace(known, is_readable=True)))

    def _new(self, path: str, names: Iterable[str]) -> list[str]:
        """The children that are neither known nor requested after the list that names them."""
        known, asked = self._copy.nodes, self._batch
        children = [join(path, name) for name in sorted(names)]
        return [
            child
            for child in children
            if child not in known and Todo.READ not in asked.get(child, Todo.COMPARE)
        ]

    def _check_room(self, more: int) -> None:
        if len(self._copy.nodes) + more > self._most:
            raise TreeTooLargeError(self._root, self._most)

    def _forget(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._listed.pop(path, None)
            self._unwatch(path, Todo.READ)
            self._unwatch(path, Todo.LIST)

    async def _gone(self, path: str) -> None:
        self._forget(self._copy.remove(path))
        if path == self._root and not await self._is_top_awaited():
            self.note(path, Todo.READ | Todo.LIST)

    async def _is_top_awaited(self) -> bool:
        """Watch for the creation of the top; False if it exists by now.

        A recursive watch reports only a readable top. So while the top is missing, the children of
        the nearest existing parent are watched, too.
        """
        self._unwatch(self._root, Todo.COMPARE)
        self.is_blind = False
        if self.watched:
            watch = self._watch(self._root, Todo.COMPARE)
            return await self._client.exists(self._root, watch=watch) is None
        at = self._root
        while at != "/":
            at, name = parent(at), basename(at)
            try:
                names = await self._client.get_children(
                    at, watch=self._watch(self._root, Todo.COMPARE)
                )
            except NoNodeError:
                self._unwatch(self._root, Todo.COMPARE)
                continue
            except NoAuthError:
                self._unwatch(self._root, Todo.COMPARE)
                self.is_blind = True
                return True
            return name not in names
        return True

    # --- one-shot watches ----------------------------------------------------------------------

    def _data_watch(self, path: str) -> Watch | None:
        """None if the recursive watch reports changes of the data."""
        return self._watch(path, Todo.READ) if self.watched else None

    def _watch(self, path: str, kind: Todo) -> Watch:
        watch = self._watches.get((path, kind))
        if watch is None:
            on_event = partial(self._on_event, path, kind)
            watch = self._watches[path, kind] = self._client.backend.make_watch(on_event)
        return watch

    def _unwatch(self, path: str, kind: Todo) -> None:
        watch = self._watches.pop((path, kind), None)
        if watch is not None:
            watch.close()

    def _on_event(self, path: str, kind: Todo, event: WatchEvent) -> None:
        match kind, event.type:
            case Todo.LIST, EventType.DELETED:
                self._mark(path, Todo.READ)
            case Todo.COMPARE, _:
                self._unwatch(path, Todo.COMPARE)
                self._mark(path, Todo.READ | Todo.LIST)
            case _:
                self._mark(path, kind)

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
