"""Which connection waits for news of which path."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from ..._wire.codes import WatcherType
from ...model import EventType

W = TypeVar("W")
"""A watcher: anything hashable. The server uses its connections."""


class Mode(enum.IntFlag):
    """How long a watch lasts, and how far it sees."""

    ONCE = 1
    PERSISTENT = 2
    RECURSIVE = 4


ALL = Mode.ONCE | Mode.PERSISTENT | Mode.RECURSIVE


class _Table(Generic[W]):
    """Watches of one kind, by path and by watcher.

    Args:
        apart: whether a watcher has one watch of each mode for a path, and not one that the last
            request has set.
    """

    def __init__(self, *, apart: bool) -> None:
        self._apart = apart
        self.by_path: dict[str, dict[W, Mode]] = {}
        self.by_watcher: dict[W, dict[str, None]] = {}
        self._recursive = 0

    def add(self, path: str, watcher: W, mode: Mode) -> None:
        watchers = self.by_path.setdefault(path, {})
        before = watchers.get(watcher, Mode(0))
        watchers[watcher] = before | mode if self._apart else mode
        self._recursive += _sees_below(watchers[watcher]) - _sees_below(before)
        self.by_watcher.setdefault(watcher, {})[path] = None

    def discard(self, path: str, watcher: W, modes: Mode = ALL) -> bool:
        watchers = self.by_path.get(path)
        if watchers is None or not watchers.get(watcher, Mode(0)) & modes:
            return False
        before = watchers.pop(watcher)
        left = before & ~modes
        self._recursive += _sees_below(left) - _sees_below(before)
        if left:
            watchers[watcher] = left
            return True
        if not watchers:
            del self.by_path[path]
        own = self.by_watcher[watcher]
        del own[path]
        if not own:
            del self.by_watcher[watcher]
        return True

    def holds(self, path: str, watcher: W, modes: Mode = ALL) -> bool:
        return bool(self.by_path.get(path, {}).get(watcher, Mode(0)) & modes)

    def forget(self, watcher: W) -> None:
        for path in list(self.by_watcher.get(watcher, ())):
            self.discard(path, watcher)

    def trigger(self, path: str, type_: EventType) -> list[W]:
        """The watchers to notify; watches that last once are gone after it."""
        told = dict.fromkeys(self.by_path.get(path, ()))
        for watcher in list(told):
            modes = self.by_path[path][watcher]
            self.discard(path, watcher, Mode.ONCE)
            if modes == Mode.RECURSIVE and type_ is EventType.CHILDREN_CHANGED:
                # It is notified of the child itself.
                del told[watcher]
        if self._recursive and type_ is not EventType.CHILDREN_CHANGED:
            for above in _ancestors(path):
                for watcher, modes in self.by_path.get(above, {}).items():
                    if _sees_below(modes):
                        told[watcher] = None
        return list(told)


class Watches(Generic[W]):
    """The two kinds of watches: on a znode's existence and data, and on its list of children.

    Args:
        apart: whether a connection may have watches of several modes on one path, as from 3.9 on
            (ZOOKEEPER-4466). Before, each that it sets ends what it had there.
    """

    def __init__(self, *, apart: bool = False) -> None:
        self._apart = apart
        self._data: _Table[W] = _Table(apart=apart)
        self._child: _Table[W] = _Table(apart=apart)

    def __len__(self) -> int:
        return sum(len(w) for t in (self._data, self._child) for w in t.by_path.values())

    def add_data(self, path: str, watcher: W) -> None:
        """For `GET_DATA` and `EXISTS`, which a server does not tell apart."""
        self._data.add(path, watcher, Mode.ONCE)

    def add_child(self, path: str, watcher: W) -> None:
        """For `GET_CHILDREN`."""
        self._child.add(path, watcher, Mode.ONCE)

    def add_lasting(self, path: str, watcher: W, mode: Mode) -> None:
        """For `ADD_WATCH`: sees both kinds of change."""
        self._data.add(path, watcher, mode)
        if mode is Mode.PERSISTENT or not self._apart:
            self._child.add(path, watcher, mode)

    def remove(self, path: str, watcher: W, type_: WatcherType) -> bool:
        """False if there was none."""
        modes = self._modes(type_)
        removed = [table.discard(path, watcher, modes) for table in self._tables(type_)]
        return any(removed)

    def holds(self, path: str, watcher: W, type_: WatcherType) -> bool:
        modes = self._modes(type_)
        return any(table.holds(path, watcher, modes) for table in self._tables(type_))

    def knows(self, type_: WatcherType) -> bool:
        """Whether watches can be removed by this type."""
        return self._apart or type_ not in (WatcherType.PERSISTENT, WatcherType.RECURSIVE)

    def forget(self, watcher: W) -> None:
        """Drops all watches of one watcher: they end with its connection."""
        self._data.forget(watcher)
        self._child.forget(watcher)

    def trigger(self, type_: EventType, path: str) -> list[W]:
        """The watchers to notify of an event, each once.

        A deletion ends watches of both kinds; a watcher of both is notified once.
        """
        match type_:
            case EventType.CHILDREN_CHANGED:
                return self._child.trigger(path, type_)
            case EventType.DELETED:
                told = dict.fromkeys(self._data.trigger(path, type_))
                return list(told | dict.fromkeys(self._child.trigger(path, type_)))
            case _:
                return self._data.trigger(path, type_)

    def trigger_by_watch(self, type_: EventType, path: str) -> list[tuple[str, W]]:
        """The watchers to notify, each with the path that it watches: as ClickHouse Keeper reports.

        A recursive watch above the change does not say where below it that was.
        """
        exact = {*self._data.by_path.get(path, ()), *self._child.by_path.get(path, ())}
        told = [(path, watcher) for watcher in self.trigger(type_, path) if watcher in exact]
        if type_ is not EventType.CHILDREN_CHANGED:
            told += [
                (above, watcher)
                for above in _ancestors(path)
                for watcher, modes in self._data.by_path.get(above, {}).items()
                if _sees_below(modes)
            ]
        return told

    def by_path(self) -> dict[str, set[W]]:
        """The watchers of each path, of any kind."""
        report: dict[str, set[W]] = {}
        for table in (self._data, self._child):
            for path, watchers in table.by_path.items():
                report.setdefault(path, set()).update(watchers)
        return report

    def summary(self) -> tuple[int, int, int]:
        """Watchers, paths and watches, of the data kind alone: what `wchs` reports."""
        table = self._data
        total = sum(len(paths) for paths in table.by_watcher.values())
        return len(table.by_watcher), len(table.by_path), total

    def _tables(self, type_: WatcherType) -> Iterable[_Table[W]]:
        match type_:
            case WatcherType.CHILDREN:
                return (self._child,)
            case WatcherType.DATA | WatcherType.RECURSIVE:
                return (self._data,)
            case WatcherType.ANY | WatcherType.PERSISTENT:
                return (self._child, self._data)

    def _modes(self, type_: WatcherType) -> Mode:
        match type_:
            case WatcherType.PERSISTENT:
                return Mode.PERSISTENT
            case WatcherType.RECURSIVE:
                return Mode.RECURSIVE
            case WatcherType.CHILDREN | WatcherType.DATA if self._apart:
                return Mode.ONCE
            case _:
                return ALL


def _sees_below(modes: Mode) -> bool:
    return bool(modes & Mode.RECURSIVE)


def _ancestors(path: str) -> Iterator[str]:
    while path not in ("", "/"):
        path = path.rpartition("/")[0] or "/"
        yield path
