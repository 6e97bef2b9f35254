"""What every recipe with a line of contenders has: who is in the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from ..abc import CoordinationClient
from ..errors import ConfigurationError, NoNodeError
from ..model import ACL, Participant
from ..paths import join
from .arguments import OnSuspend
from .contender import Contender
from .contention import in_order
from .holding import HoldingRecipe
from .layout import Layout, Role
from .tenure import Tenure

T = TypeVar("T", bound=Tenure)


class QueuedRecipe(HoldingRecipe[T]):
    """A path with a line of contenders, the first `places` of which hold it."""

    _role: ClassVar[Role]

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None,
        places: int,
        layout: Layout,
        on_suspend: OnSuspend,
        acl: Sequence[ACL] | None,
    ) -> None:
        if not isinstance(layout, Layout):
            raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
        super().__init__(client, path, identity=identity, on_suspend=on_suspend, acl=acl)
        self._places = places
        self._layout = layout

    def _candidate(self) -> Contender:
        return Contender(
            self._client,
            self._path,
            self._layout,
            self._role,
            self._data,
            places=self._places,
            acl=self._acl,
        )

    async def _line(self) -> list[Participant]:
        """Everybody in the line, first come first; in two round trips.

        A contender that leaves between the two is left out.
        """
        client = self._client
        try:
            names = await client.get_children(self._path)
        except NoNodeError:
            return []
        line = in_order(self._path, names, self._layout, self._role)
        looks = [(join(self._path, name), client.get(join(self._path, name))) for name in line]
        found: list[Participant] = []
        for path, look in looks:
            try:
                data, stat = await look
            except NoNodeError:
                continue
            found.append(
                Participant(
                    identity=data.decode(errors="replace"),
                    path=path,
                    token=stat.czxid,
                    session_id=stat.ephemeral_owner,
                    is_holder=len(found) < self._places,
                )
            )
        return found
