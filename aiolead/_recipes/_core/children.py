"""Incremental reads of a znode's children and their data, for a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ...abc import Reply
from ...errors import NoNodeError
from ...model import Stat
from .observe import View
from .reading import read_children

E = TypeVar("E")


class ChildReader(Generic[E]):
    """Reads the children of a znode repeatedly, and never all of them because of one change.

    One watch is on the list of children, one on each child. Only what is new, or whose watch has
    fired, is read again. A missing znode has no children.

    `entry` makes a child's entry from its name, data and `Stat`, or None to leave it out.
    `is_wanted` says by its name whether to read a child, `is_watched` whether changes of its data
    matter.
    """

    def __init__(
        self,
        view: View[Any],
        path: str,
        entry: Callable[[str, bytes, Stat], E | None],
        *,
        is_wanted: Callable[[str], bool] = lambda _name: True,
        is_watched: bool = True,
    ) -> None:
        self._view = view
        self._client = view._client
        self._path = path
        self._below = f"{path}/"
        self._is_wanted = is_wanted
        self._entry = entry
        self._is_watched = is_watched
        self._listing: Reply[list[str]] | None = None
        self._names: list[str] | None = None
        """The list, until its watch fires."""
        self.known: dict[str, E | None] = {}
        """The entries, None for those left out, until their watches fire."""

    def ask(self) -> None:
        """Request the list if it may have changed; several readers may ask in one segment."""
        self._forget_changed()
        self._listing = self._list() if self._names is None else None

    async def names(self) -> list[str]:
        """The names of the children, sorted. Call `ask` first."""
        view, listing = self._view, self._listing
        while listing is not None:
            try:
                self._names = [name for name in sorted(await listing) if self._is_wanted(name)]
            except NoNodeError:
                view._unwatch(self._below)  # it was not armed
                if await self._client.exists(self._path, watch=view._watch(self._path)) is None:
                    self._names = []
                    break
                listing = self._list()
            else:
                if self._path in view._watches:
                    view._unwatch(self._path)
                break
        names = self._names or []
        # Keep the watches of children that are not read again now.
        keys = {self._path, self._below, *(self._below + name for name in names)}
        view._asked |= keys & view._watches.keys()
        return names

    async def read(self) -> dict[str, E]:
        """The entries of the children by name, sorted. Call `ask` first."""
        names = await self.names()
        missing = [name for name in names if name not in self.known]
        watch = (lambda name: self._view._watch(self._below + name)) if self._is_watched else None
        found = await read_children(self._client, self._path, missing, watch=watch)
        for name, (data, stat) in found.items():
            self.known[name] = self._entry(name, data, stat)
        self.known = {name: self.known[name] for name in names if name in self.known}
        return {name: entry for name, entry in self.known.items() if entry is not None}

    def _list(self) -> Reply[list[str]]:
        return self._client.get_children(self._path, watch=self._view._watch(self._below))

    def _forget_changed(self) -> None:
        for key, watch in self._view._watches.items():
            if watch.event is None:
                continue
            if key in (self._path, self._below):
                self._names = None
            elif key.startswith(self._below):
                # Deleted or set: if it is still listed, it may have been created again.
                self.known.pop(key.removeprefix(self._below), None)
