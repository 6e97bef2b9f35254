"""What has to be read of a tree, and what follows from what was read.

Whatever happens to a znode, or may have happened, it is only noted that it has to be read. One
reader works that off, many at once but in order: what was asked for later is applied later. So each
znode moves from one state that it was in to a later one, whatever order the events come in.

Servers that guard reads (3.8.4, 3.9.2, and distributions that have taken the security fix
CVE-2024-23944 back to older ones) send no event of a znode that this session may not read. The
version of a server does not say whether it does so. What such servers still send is that the list
of children of a readable znode has changed. So each znode that may be read has a one-shot watch on
its children, beside the one recursive watch: that is how the names of unreadable znodes are known.
Below a znode that may not be read nothing is known: the copy has nothing there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ...abc import CoordinationClient, Reply, Watch
from ...errors import NoAuthError, NoNodeError, TreeTooLargeError
from ...model import EventType, Stat, WatchEvent
from ...paths import basename, join, parent
from .tree_copy import TreeCopy, TreeNode, aversion_of, is_another

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
        """Whether the data of each znode are watched by a one-shot watch, rather than the whole
        tree by a recursive one. The children of each are watched by a one-shot watch always."""
        self.is_blind = False
        """Whether the top is missing, and nobody would tell us that it is created."""
        self._watches: dict[tuple[str, Todo], Watch] = {}

    @property
    def is_done(self) -> bool:
        return not self._todo

    @property
    def is_watching(self) -> bool:
        """Whether all one-shot watches are set, and would tell of all that a server tells.

        Beside a recursive watch this need not be looked at: what has fired is noted as to be read,
        and after a lost connection the stream of the recursive watch has a gap.
        """
        if self.is_blind:
            return False
        return not self.watched or all(watch.is_armed for watch in self._watches.values())

    # --- what is to be done --------------------------------------------------------------------

    def note(self, path: str, todo: Todo) -> None:
        """Something has to be read."""
        self._todo[path] = self._todo.get(path, Todo.COMPARE) | todo
        self._on_todo()

    def note_event(self, path: str) -> None:
        """Something has happened to a znode of the tree."""
        if self._is_selected(path):
            # The children of one that is known are watched.
            self.note(path, Todo.READ if path in self._copy.nodes else Todo.READ | Todo.LIST)

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
            look = client.get(path, watch=self._data_watch(path))
        elif Todo.READ in todo:
            look = client.exists(path, watch=self._data_watch(path))
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
        node = await self._seen(path, look, Todo.READ in todo and self._keep_data)
        if node is None or (Todo.READ in todo and not self._is_placed(path)):
            if listing is not None:
                with suppress(NoNodeError, NoAuthError):
                    await listing
            await self._gone(path)
            return
        if Todo.READ in todo or node.stat is None:
            self._put(node, todo)
        else:
            self._compare(path, node.stat, todo)
        if listing is not None:
            await self._list(path, node.stat, listing)

    async def _seen(
        self,
        path: str,
        look: Reply[tuple[bytes, Stat]] | Reply[Stat | None],
        is_for_data: bool,
    ) -> TreeNode | None:
        """The znode, as far as the server tells; None if there is none."""
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
            # The list of its parent has its name. Nothing else is known of it.
            return TreeNode(path, None, None, is_readable=False)
        data, stat = found if isinstance(found, tuple) else (None, found)
        if stat is None:
            return None
        return TreeNode(path, data, stat, self._keep_data or self._may_be_listed(path, stat))

    def _is_placed(self, path: str) -> bool:
        """Whether the copy may have the znode: all that is above it must be there, and readable.

        Of a child of an unreadable znode we may be told, if it is readable itself; but we could not
        know that it is deleted after it has become unreadable, too.
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
            # Its children were not told of, or what watched them has gone with another znode.
            self.note(node.path, Todo.LIST)
        elif aversion_of(known) != aversion_of(node):
            # What watched its children may have gone while it could not be read. And without data,
            # whether its children may be listed is the only way to know whether it may be read.
            self.note(node.path, Todo.LIST)
        if node.path == self._root:
            self.is_blind = False
            self._unwatch(self._root, Todo.COMPARE)
        self._forget(self._copy.put(node))

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
            self._is_closed(path)
        else:
            self._is_open(path)
        if stat is not None:
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
        if known is None or known.is_readable or known.stat is None or stat is None:
            return True
        return (known.stat.czxid, known.stat.aversion) != (stat.czxid, stat.aversion)

    def _is_closed(self, path: str) -> None:
        """The children of a znode were refused; so its data would have been."""
        known = self._copy.nodes.get(path)
        if known is not None and known.is_readable:
            self._forget(self._copy.put(replace(known, data=None, is_readable=False)))

    def _is_open(self, path: str) -> None:
        """The children of a znode were listed; so its data can be read."""
        known = self._copy.nodes.get(path)
        if known is None or known.is_readable:
            return
        if self._keep_data or known.stat is None:
            self.note(path, Todo.READ | Todo.LIST)
        else:
            self._forget(self._copy.put(replace(known, is_readable=True)))

    def _new(self, path: str, names: Iterable[str]) -> list[str]:
        """The children that are not known, nor asked for behind the list that names them."""
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
        """Has us told when the top is created; False if it is there by now.

        A recursive watch tells of a top that may be read, and of its path alone. So the children of
        what there is above it are watched, too, as long as it is missing.
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
        """None where a recursive watch tells all that there is to be told about the data."""
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
