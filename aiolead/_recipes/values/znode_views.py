"""Views of the data or the children of a znode."""

from __future__ import annotations

from typing import TypeVar, final

from ...abc import CoordinationClient
from ...errors import NoNodeError
from ...model import SessionState, Stat
from .._core.observation import Observation, plain
from .._core.observe import View
from .._core.reading import read_data

T = TypeVar("T")


class _ZnodeView(View[T]):
    _served_in = (SessionState.CONNECTED, SessionState.READ_ONLY)

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client)
        client.backend.full_path(path)  # refuses malformed paths
        self._path = path

    def __repr__(self) -> str:
        live = "live" if self.is_live else "not live"
        return f"<{type(self).__name__} of {self._path}, {live}>"


@final
class DataView(_ZnodeView[tuple[bytes, Stat] | None]):
    """The latest data and `Stat` of a znode; None while it does not exist. See `View`.

    It also works over a read-only server, if the client accepts one.
    """

    async def _read(self) -> Observation[tuple[bytes, Stat] | None]:
        data, stat = await read_data(self._client, self._path, self._watch("data"))
        if stat is None:
            return plain(None)
        # Other parts of the `Stat` change with the children, which is no news.
        return Observation((data, stat), stat.mzxid)


@final
class ChildrenView(_ZnodeView[list[str] | None]):
    """The latest children of a znode, sorted; None while it does not exist.

    It also works over a read-only server, if the client accepts one. See `View`.
    """

    async def _read(self) -> Observation[list[str] | None]:
        client = self._client
        while True:
            try:
                names = await client.get_children(self._path, watch=self._watch("children"))
                return plain(sorted(names))
            except NoNodeError:
                self._unwatch("children")  # it was not armed
                if await client.exists(self._path, watch=self._watch("existence")) is None:
                    return plain(None)
                self._unwatch("existence")
