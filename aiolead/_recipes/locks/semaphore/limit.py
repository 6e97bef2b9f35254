"""How many permits there are, and how that is published.

4 bytes, big-endian, as Curator's `SharedCount` has it; or digits, as kazoo writes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...._parsing import MalformedError, whole
from ....abc import CoordinationClient, Reply, Watch
from ....errors import InvalidDataError, NoNodeError
from ....model import ACL, CreateMode, Stat
from ...values.optimistic import write
from .arrangement import Arrangement

MOST_PERMITS = 0x7FFF_FFFF
"""The greatest limit: what four bytes can say."""

SIZE = 4


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
    """The limit that kazoo has written. It passes over what is no number, and so do we."""
    try:
        return whole(data, least=1, most=MOST_PERMITS)
    except MalformedError:
        return default


def ask(client: CoordinationClient, where: Arrangement, watch: Watch | None = None) -> LimitReply:
    """Asks for the published limit; what is watched is also that one is published."""
    path = where.limit
    exists = client.exists(path, watch=watch) if watch is not None else None
    return LimitReply(where, client.get(path), exists)


class LimitReply:
    """The published limit, as the answer to a request that was handed over already."""

    def __init__(
        self,
        where: Arrangement,
        get: Reply[tuple[bytes, Stat]],
        exists: Reply[Stat | None] | None,
    ) -> None:
        self._where = where
        self._get = get
        self._exists = exists

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
    """Publishes a limit, whether or not there was one."""
    data = limit.to_bytes(SIZE, "big", signed=True)
    await write(client, path, data, acl, parents=CreateMode.CONTAINER)
