"""Where the parts of a semaphore are, by its layout, and what is published as its limit.

The limit is 4 bytes, big-endian, as Curator's `SharedCount` has it; or digits, as kazoo writes
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...._parsing import MalformedError, whole
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
from ...values.optimistic import write

_PARTS = ("locks", "leases", "limit")
"""Curator's, below the path."""

_KAZOOS_PERMIT = re.compile("([0-9]{10}-)?[0-9a-f]{32}", re.ASCII)
"""kazoo's, below the path: its own, and ours in its layout."""

_OTHERS = {
    Layout.CURATOR: ("kazoo", Layout.KAZOO),
    Layout.KAZOO: ("Curator", Layout.CURATOR),
}
"""Whose permits do not fit a layout, and which would."""

MOST_PERMITS = 0x7FFF_FFFF
"""The greatest limit: what four bytes can say."""

SIZE = 4


@dataclass(frozen=True, slots=True)
class SemaphoreParts:
    """Where the parts of a semaphore are.

    Attributes:
        path: of the semaphore.
        layout: of the queue.
        queue: where the queue is.
        permits: the parent of the permits.
        limit: the znode whose data is the limit.
    """

    path: str
    layout: Layout
    queue: str
    permits: str
    limit: str

    @property
    def is_kazoos(self) -> bool:
        """Whether permits count from their creation, by the first of the queue.

        kazoo looks how many there are, and creates its own if there is room. So only the first of
        the queue may create any; while with Curator, which looks after the creation, others do no
        harm.
        """
        return self.layout == Layout.KAZOO

    def misfits(self, names: Iterable[str]) -> list[str]:
        """The children of the path that are there for semaphores of the other layout."""
        if self.is_kazoos:
            return [name for name in names if name in _PARTS]
        return [name for name in names if _KAZOOS_PERMIT.fullmatch(name)]


def parts_of(path: str, layout: Layout) -> SemaphoreParts:
    """How a semaphore is laid out.

    Raises:
        ConfigurationError: the layout has no semaphores.
    """
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


# --- the limit -----------------------------------------------------------------------------------


def decoded(path: str, data: bytes) -> int:
    """The limit that a znode holds.

    Raises:
        InvalidDataError: it holds something else.
    """
    limit = int.from_bytes(data, "big", signed=True) if len(data) == SIZE else 0
    if limit < 1:
        raise InvalidDataError(path, f"{data[:16]!r} is no limit: 4 bytes, big-endian, from 1 up")
    return limit


def decoded_digits(data: bytes, default: int) -> int:
    """The limit that kazoo has written. It ignores what is no number, and so do we."""
    try:
        return whole(data, least=1, most=MOST_PERMITS)
    except MalformedError:
        return default


class LimitReply:
    """The published limit, as the answer to a request that was handed over already.

    Args:
        client: the session.
        where: the semaphore.
        watch: watches the limit, also that one is published.
    """

    def __init__(
        self, client: CoordinationClient, where: SemaphoreParts, watch: Watch | None = None
    ) -> None:
        self._where = where
        self._exists: Reply[Stat | None] | None = None
        if watch is not None:
            self._exists = client.exists(where.limit, watch=watch)
        self._get = client.get(where.limit)

    async def value(self, default: int) -> int:
        """It; `default` if none was published."""
        if self._exists is not None:
            await self._exists
        try:
            data, _ = await self._get
        except NoNodeError:
            return default
        if self._where.is_kazoos:
            return decoded_digits(data, default)
        return decoded(self._where.limit, data)


async def publish(
    client: CoordinationClient, path: str, limit: int, acl: Sequence[ACL] | None
) -> None:
    """Publish a limit, whether or not there is one."""
    data = limit.to_bytes(SIZE, "big", signed=True)
    await write(client, path, data, acl, parents=CreateMode.CONTAINER)
