"""Following the children of a znode together with what they hold.

One watch is on the list of children, one on each child. The list is read again when that one has
fired, a child when its own has, or when it is new: never everything because of one change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from ...abc import CoordinationClient
from ...errors import NoNodeError
from ...model import Stat
from ...paths import join
from .._core.observe import View

E = TypeVar("E")

AT_ONCE = 500
"""How many children are read in one go."""

CHILDREN, EXISTENCE = ON_THE_PATH = "/", ""
"""What the watches on the path itself are called; no child can be."""


class Entries(View[Mapping[str, E]]):
    """The children of a znode, each as what `_entry` makes of it, by name.

    While there is no such znode there are none.
    """

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client)
        self._path = path
        self._names: list[str] | None = None
        """The list, as long as its watch has not fired."""
        self._known: dict[str, E | None] = {}
        """Those that were read, as long as their watches have not fired; None for invalid ones."""

    @abstractmethod
    def _entry(self, name: str, data: bytes, stat: Stat) -> E | None:
        """What a child is; None for one that is not to be told of."""

    async def _read(self) -> Mapping[str, E]:
        self._note_events()
        if self._names is None:
            self._names = await self._list()
        missing = [name for name in self._names if name not in self._known]
        for start in range(0, len(missing), AT_ONCE):
            await self._look_at(missing[start : start + AT_ONCE])
        names = set(self._names)
        # The watches of those that were not read now stay, too.
        self._asked.update(name for name in self._watches if name in names or name in ON_THE_PATH)
        for name in self._known.keys() - names:
            del self._known[name]
        entries = ((name, self._known.get(name)) for name in self._names)
        return MappingProxyType({name: entry for name, entry in entries if entry is not None})

    def _note_events(self) -> None:
        """What was read and has changed since is not known any more."""
        for name, watch in self._watches.items():
            if watch.event is None:
                continue
            if name in ON_THE_PATH:
                self._names = None
            else:
                # Whether it was deleted or set: if it is still listed, it may have been made anew.
                self._known.pop(name, None)

    async def _list(self) -> list[str]:
        client = self._client
        while True:
            try:
                names = await client.get_children(self._path, watch=self._watch(CHILDREN))
            except NoNodeError:
                self._drop_watches([CHILDREN])
                if await client.exists(self._path, watch=self._watch(EXISTENCE)) is None:
                    return []
            else:
                self._drop_watches([EXISTENCE] if EXISTENCE in self._watches else [])
                return sorted(names)

    async def _look_at(self, names: list[str]) -> None:
        looks = [
            (name, self._client.get(join(self._path, name), watch=self._watch(name)))
            for name in names
        ]
        for name, look in looks:
            try:
                data, stat = await look
            except NoNodeError:
                continue  # deleted meanwhile: the watch on the list has fired, or is about to
            self._known[name] = self._entry(name, data, stat)
