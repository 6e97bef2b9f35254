"""Refusing a path on which there are semaphores of the other layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from ....abc import CoordinationClient
from ....errors import MixedLayoutError, NoNodeError
from ....model import ACL
from ....paths import join
from ...contention.contender import Contender
from ...contention.layouts import Layout, Role
from .arrangement import Arrangement

_OTHERS = {
    Layout.CURATOR: ("kazoo", Layout.KAZOO),
    Layout.KAZOO: ("Curator", Layout.CURATOR),
}
"""Whose permits do not fit a layout, and which would."""


async def refuse_misfits(
    client: CoordinationClient, where: Arrangement, names: Iterable[str]
) -> None:
    """Returns if no child of the path belongs to a semaphore of the other layout.

    kazoo's have their permits where Curator's have the parts of theirs: neither would count the
    permits of the other one, and kazoo would take Curator's parts for permits.

    Raises:
        MixedLayoutError: one does; says whose it is.
    """
    for name in where.misfits(names):
        path = join(where.path, name)
        stat = await client.exists(path)
        if stat is not None:
            whose, layout = _OTHERS[where.layout]
            raise MixedLayoutError(
                path,
                f"belongs to a semaphore of {whose}, which does not count the permits of "
                f"{where.layout!r}: use layout={layout!r} on this path, in every program",
                session_id=stat.ephemeral_owner,
            )


class Turn(Contender):
    """A place in the line of a semaphore.

    Where there is no line yet, a look at the path comes before it is made: kazoo would take the
    line itself for a permit.
    """

    def __init__(
        self,
        client: CoordinationClient,
        where: Arrangement,
        data: bytes,
        *,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, where.line, where.layout, Role.LOCK, data, acl=acl)
        self._where = where
        self._on_lost_place: Callable[[], object] | None = None

    # --- at the front --------------------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        """Whether the loss of our place is reported; see `watch_place`."""
        return self._on_lost_place is not None

    @property
    def is_place_lost(self) -> bool:
        """Whether our znode is known to be gone, or its session is over."""
        return self._gone or self.node.session_id != self._client.session_id

    def watch_place(self, on_lost: Callable[[], object]) -> None:
        """Has it called, synchronously, when others have deleted our znode while we wait in front.

        What becomes of the session is for the caller to follow.
        """
        self._on_lost_place = on_lost
        self.watch()

    def unwatch_place(self) -> None:
        """Takes that back: after a lost connection nobody knows whether the watch was armed."""
        self._on_lost_place = None
        self.unwatch()

    def _rouse(self) -> None:
        super()._rouse()
        if self._on_lost_place is not None:
            self._on_lost_place()

    # --- joining -------------------------------------------------------------------------------

    async def _make_path(self) -> None:
        with suppress(NoNodeError):
            names = await self._client.get_children(self._where.path)
            await refuse_misfits(self._client, self._where, names)
        await super()._make_path()
