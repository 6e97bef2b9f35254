"""The parts of a semaphore in each layout, its published limit, and whether that counts.

The limit is 4 bytes, big-endian, as in Curator's `SharedCount`, or digits, as kazoo writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...._util.parsing import MalformedError, whole
from ....abc import CoordinationClient, Reply, Watch
from ....errors import (
    ConfigurationError,
    InvalidDataError,
    MixedLayoutError,
    NoNodeError,
)
from ....model import ACL, CreateMode, Stat
from ....paths import join
from ...contention.layouts import Layout
from ...contention.neighbours import KAZOOS_PERMIT, LEASES, contenders_among, refuse_owned
from ...values.optimistic import write

_PARTS = ("locks", LEASES, "limit")
"""Curator's children of the path."""

_OTHERS = {
    Layout.CURATOR: ("kazoo", Layout.KAZOO),
    Layout.KAZOO: ("Curator", Layout.CURATOR),
}
"""For each layout: the owner of misfitting children, and the layout that fits them."""

MOST_PERMITS = 0x7FFF_FFFF
"""The greatest limit: a signed number of four bytes."""

SIZE = 4


@dataclass(frozen=True, slots=True)
class SemaphoreParts:
    """Where the contender queue is, the parent of the permits, and the znode with the limit."""

    path: str
    layout: Layout
    queue: str
    permits: str
    limit: str

    @property
    def is_kazoos(self) -> bool:
        """Whether only the first of the queue may create permits.

        kazoo counts the permits before it creates its own, so permits of others would mislead it.
        Curator counts after the creation, where surplus permits do no harm.
        """
        return self.layout == Layout.KAZOO

    def misfits(self, names: Iterable[str]) -> list[str]:
        """The children of the path that belong to a semaphore of the other layout."""
        if self.is_kazoos:
            return [name for name in names if name in _PARTS]
        return [name for name in names if KAZOOS_PERMIT.fullmatch(name)]


def parts_of(path: str, layout: Layout) -> SemaphoreParts:
    """Return the paths of a semaphore; refuse a layout that has none."""
    if layout == Layout.CURATOR:
        parts = (join(path, part) for part in _PARTS)
        return SemaphoreParts(path, layout, *parts)
    if layout == Layout.KAZOO:
        return SemaphoreParts(path, layout, f"{path}-__lock__", path, path)
    raise ConfigurationError(
        f"layout: {layout!r} has no names for a Semaphore: use Layout.CURATOR or Layout.KAZOO"
    )


async def refuse_misfits(
    client: CoordinationClient, where: SemaphoreParts, names: Iterable[str]
) -> None:
    """Raise `MixedLayoutError` if the path has a semaphore of the other layout, or another recipe.

    kazoo's permits are where Curator's parts are. Neither layout counts the permits of the other,
    and kazoo would count Curator's parts as permits. Contenders for a lock or an election there
    exclude no holder of a permit, and kazoo would count them as well.
    """
    names = list(names)
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
    others = [name for name in names if not KAZOOS_PERMIT.fullmatch(name)]
    await refuse_owned(client, contenders_among(where.path, others))


# --- the limit -----------------------------------------------------------------------------------


def decoded(path: str, data: bytes) -> int:
    """The limit in Curator's format; anything else raises `InvalidDataError`."""
    limit = int.from_bytes(data, "big", signed=True) if len(data) == SIZE else 0
    if limit < 1:
        raise InvalidDataError(path, f"{data[:16]!r} is no limit: 4 bytes, big-endian, from 1 up")
    return limit


def decoded_digits(data: bytes) -> int | None:
    """The limit in kazoo's format; like kazoo, ignore data that is not a number."""
    try:
        return whole(data, least=1, most=MOST_PERMITS)
    except MalformedError:
        return None


@dataclass(frozen=True, slots=True)
class LimitRule:
    """Which limit counts for one semaphore object. Pure.

    Anybody who may create children of the path can publish a limit. So a published limit grants
    more than the own argument only to semaphores that ask for that.

    Attributes:
        own: the argument of the recipe.
        follows: whether a published limit replaces it, also a greater one.
    """

    own: int
    follows: bool

    def counting(self, published: int | None) -> int:
        """The limit that counts; `published` is None if none is published."""
        if published is None:
            return self.own
        return published if self.follows else min(self.own, published)

    def ignores(self, published: int | None) -> bool:
        """Whether a published limit does not count since it is greater."""
        return published is not None and self.counting(published) < published


class LimitReply:
    """A read of the published limit, sent already; `watch` also reports its first publication."""

    def __init__(
        self, client: CoordinationClient, where: SemaphoreParts, watch: Watch | None = None
    ) -> None:
        self._where = where
        self._exists: Reply[Stat | None] | None = None
        if watch is not None:
            self._exists = client.exists(where.limit, watch=watch)
        self._get = client.get(where.limit)

    async def published(self) -> int | None:
        """The published limit; None if none is published. `InvalidDataError` if it is invalid."""
        if self._exists is not None:
            await self._exists
        try:
            data, _ = await self._get
        except NoNodeError:
            return None
        if self._where.is_kazoos:
            return decoded_digits(data)
        return decoded(self._where.limit, data)


async def publish(
    client: CoordinationClient, path: str, limit: int, acl: Sequence[ACL] | None
) -> None:
    data = limit.to_bytes(SIZE, "big", signed=True)
    await write(client, path, data, acl, parents=CreateMode.CONTAINER)
