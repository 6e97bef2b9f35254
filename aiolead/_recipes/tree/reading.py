"""What has to be read of a tree, and what follows from what was read.

Whatever happens to a znode, or may have happened, it is only noted that it has to be read. One
reader works that off, many at once but in order: what was asked for later is applied later. So each
znode moves from one state that it was in to a later one, whatever order the events come in.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from ...abc import CoordinationClient, Reply, Watch
from ...errors import NoAuthError, NoNodeError, TreeTooLargeError
from ...model import EventType, Stat, WatchEvent
from ...paths import join, parent
from .copy import TreeCopy, TreeNode

AT_ONCE = 256
"""How many znodes are read at once."""


class Todo(enum.Flag):
    """What is to be done about a znode."""

    COMPARE = 0
    """Look whether it is what we know, and read what is not."""
    READ = enum.auto()
    LIST = enum.auto()


class TreeReader:
    """Reads a tree into a copy.

    Args:
        client: the session.
        root: the top of the tree.
        copy: what is known.
        keep_data: whether the copy has the data.
        select: which paths belong to it, and what is below them.
        most: how many znodes there may be.
        on_todo: called when there is something to do.
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
        on_todo: Callable[[], object],
    ) -> None:
        self._client = client
        self._root = root
        self._copy = copy
        self._keep_data = keep_data
        self._select = select
        self._most = most
        self._on_todo = on_todo
        self._todo: dict[str, Todo] = {}
        self._batch: dict[str, Todo] = {}
        """What is being done."""
        self._listed: dict[str, int] = {}
        """The `pzxid` that each znode had before its children were listed last."""
        self._session_id = 0
        self.watched = False
        """Whether each znode is watched by one-shot watches, rather than all of them by one."""
        self._watches: dict[tuple[str, Todo], Watch] = {}

    @property
    def is_done(self) -> bool:
        return not self._todo

    @property
    def is_watching(self) -> bool:
        """Whether all one-shot watches are set."""
        return all(watch.is_armed for watch in self._watches.values())

    # --- what is to be done --------------------------------------------------------------------

    def note(self, path: str, todo: Todo) -> None:
        """Something has to be read."""
        self._todo[path] = self._todo.get(path, Todo.COMPARE) | todo
        self._on_todo()

    def note_event(self, path: str) -> None:
        """Something has happened to a znode of the tree. Its children have events of their own."""
        if not self._is_selected(path):
            return
        # Without data, only its list of children says whether a new one may be read.
        is_asked = self._keep_data or path in self._copy.nodes
        self.note(path, Todo.READ if is_asked else Todo.READ | Todo.LIST)

    def note_all(self) -> None:
        """Anything may have happened."""
        for path in (*self._batch, *self._todo):
            # What is on its way into the copy may have got children that we were not told of.
            if path not in self._copy.nodes:
                self.note(path, Todo.READ | Todo.LIST)
        for path in self._copy.nodes:
            self.note(path, Todo.COMPARE)
        if self._root not in self._copy.nodes:
            self.note(self._root, Todo.READ | Todo.LIST)

    def _is_selected(self, path: str) -> bool:
        if self._select is None:
            return True
        while path != self._root:
            if not self._select(path):
                return False
            path = parent(path)
        return True

    # --- doing it ------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Works off what is to be done.

        Raises:
            ConnectionLossError, SessionExpiredError: the rest is still to be done.
            NoAuthError: the top of the tree may not be read.
            TreeTooLargeError: there are more znodes than are allowed.
        """
        while self._todo:
            session_id = self._client.session_id
            if self._session_id not in (0, session_id):
                # A local session may begin on a server that knows less than the last one did.
                await self._client.sync()
            self._session_id = session_id
            batch = {path: self._todo.pop(path) for path in list(self._todo)[:AT_ONCE]}
            self._batch = batch
            looks = [(path, todo, *self._ask(path, todo)) for path, todo in batch.items()]
            try:
                for path, todo, look, listing in looks:
                    await self._apply(path, todo, look, listing)
                    del batch[path]
            finally:
                self._batch = {}
                for path, todo in batch.items():
                    self.note(path, todo)

    def _ask(
        self, path: str, todo: Todo
    ) -> tuple[Reply[tuple[bytes, Stat]] | Reply[Stat | None], Reply[list[str]] | None]:
        client = self._client
        look: Reply[tuple[bytes, Stat]] | Reply[Stat | None]
        if Todo.READ in todo and self._keep_data:
            look = client.get(path, watch=self._watch(path, Todo.READ))
        elif Todo.READ in todo:
            look = client.exists(path, watch=self._watch(path, Todo.READ))
        else:
            look = client.exists(path)
        if Todo.LIST not in todo:
            return look, None
        return look, client.get_children(path, watch=self._watch(path, Todo.LIST))

    async def _apply(
        self,
        path: str,
        todo: Todo,
        look: Reply[tuple[bytes, Stat]] | Reply[Stat | None],
        listing: Reply[list[str]] | None,
    ) -> None:
        data: bytes | None = None
        is_readable = True
        try:
            found = await look
        except NoNodeError:
            stat = None
        except NoAuthError:
            if path == self._root:
                raise
            # Everybody may look whether it exists.
            stat = await self._client.exists(path, watch=self._watch(path, Todo.READ))
            is_readable = False
        else:
            data, stat = found if isinstance(found, tuple) else (None, found)
            is_readable = self._keep_data or self._may_be_listed(path, stat)
        if stat is None:
            await self._gone(path)
            return
        if Todo.READ in todo:
            known = self._copy.nodes.get(path)
            if known is None:
                self._check_room(1)
            elif (known.stat.czxid, known.is_readable) != (stat.czxid, is_readable):
                # Its children were not told of, or what watched them has gone with another znode.
                self.note(path, Todo.LIST)
            elif not self._keep_data and known.stat.aversion != stat.aversion:
                # Whether its children may be listed is the only way to know whether it may be read.
                self.note(path, Todo.LIST)
            self._forget(self._copy.put(TreeNode(path, data, stat, is_readable)))
        else:
            self._compare(path, stat, todo)
        if listing is not None:
            await self._list(path, stat, listing)

    def _compare(self, path: str, stat: Stat, todo: Todo) -> None:
        """Has read again what is not as we know it."""
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

    async def _list(self, path: str, stat: Stat, listing: Reply[list[str]]) -> None:
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
            self._is_closed(path)
        self._listed[path] = stat.pzxid
        for name in self._copy.children(path):
            if name not in names:
                await self._gone(join(path, name))
        new = [child for child in self._new(path, names) if self._is_selected(child)]
        self._check_room(len(new))
        for child in new:
            self.note(child, Todo.READ | Todo.LIST)

    def _may_be_listed(self, path: str, stat: Stat | None) -> bool:
        """Whether a znode may be readable whose data nobody has asked for.

        Not if it was refused before, and is the same one, with the same ACL.
        """
        known = self._copy.nodes.get(path)
        if known is None or known.is_readable or stat is None:
            return True
        return (known.stat.czxid, known.stat.aversion) != (stat.czxid, stat.aversion)

    def _is_closed(self, path: str) -> None:
        """The children of a znode were refused; so its data would have been."""
        known = self._copy.nodes.get(path)
        if known is not None and known.is_readable:
            self._forget(self._copy.put(replace(known, data=None, is_readable=False)))

    def _new(self, path: str, names: Iterable[str]) -> list[str]:
        known = self._copy.nodes
        return [child for name in sorted(names) if (child := join(path, name)) not in known]

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
        if path != self._root or not self.watched:
            return
        # Nobody above it tells that it is created again.
        if await self._client.exists(path, watch=self._watch(path, Todo.COMPARE)) is not None:
            self.note(path, Todo.READ | Todo.LIST)

    # --- one-shot watches ----------------------------------------------------------------------

    def _watch(self, path: str, kind: Todo) -> Watch | None:
        if not self.watched:
            return None
        watch = self._watches.get((path, kind))
        if watch is None:
            on_event = partial(self._on_event, path, kind)
            watch = self._watches[path, kind] = self._client.make_watch(on_event)
        return watch

    def _unwatch(self, path: str, kind: Todo) -> None:
        watch = self._watches.pop((path, kind), None)
        if watch is not None:
            watch.close()

    def _on_event(self, path: str, kind: Todo, event: WatchEvent) -> None:
        match kind, event.type:
            case Todo.LIST, EventType.DELETED:
                self.note(path, Todo.READ)
            case Todo.COMPARE, _:
                self._unwatch(path, Todo.COMPARE)
                self.note(path, Todo.READ | Todo.LIST)
            case _:
                self.note(path, kind)

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
