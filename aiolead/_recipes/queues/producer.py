"""Adding items, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ...abc import CoordinationClient, Reply
from ...errors import (
    ConfigurationError,
    NodeExistsError,
    NoNodeError,
    QueueFullError,
    SequenceExhaustedError,
    TransactionError,
)
from ...model import ACL, CreateMode, Stat
from ...paths import basename, join, sequence_of
from .._core.parents import with_parent
from .item_names import LAST_SEQUENCE

MOST_ITEMS = 25_000
"""Greatest limit: one listing of that many items stays below the packet limit of 1 MiB."""


def checked_bytes(data: bytes) -> bytes:
    if not isinstance(data, bytes):
        raise ConfigurationError(f"data: must be bytes, not {type(data).__name__}")
    return data


class ItemProducer:
    """Adds items to a path, up to a limit.

    Each put reads the number of items in the same segment, for the next put. So the limit costs a
    round trip only when it is near: then the number is read first.
    """

    def __init__(
        self, client: CoordinationClient, path: str, most: int, acl: Sequence[ACL] | None
    ) -> None:
        self._client = client
        self._path = path
        self._most = most
        self._acl = acl
        self._put = 0  # items that we have sent
        self._seen: int | None = None  # items that were there ...
        self._seen_at = 0  # ... when we had sent that many

    async def put(self, prefix: str, bodies: Sequence[bytes]) -> list[str]:
        """Add items, all or none; return their names."""

        async def create() -> list[str]:
            await self._make_room(len(bodies))
            return await self._create(join(self._path, prefix), bodies)

        try:
            # The path is no container: see `AvailableItems`.
            names = await with_parent(self._client, self._path, create, acl=self._acl)
        except NodeExistsError:
            # Since ZOOKEEPER-3249 the counter stops at its end, so names repeat.
            raise SequenceExhaustedError(self._path) from None
        if not all(0 <= (sequence_of(name) or 0) < LAST_SEQUENCE for name in names):
            for delete in [self._client.delete(join(self._path, name)) for name in names]:
                with suppress(NoNodeError):
                    await delete
            raise SequenceExhaustedError(self._path)
        return names

    async def size(self) -> int:
        """The number of items, claimed ones included."""
        await self._look()
        return self._seen or 0

    async def _make_room(self, count: int) -> None:
        if count > self._room():
            await self._look()
            room = self._room()
            if count > room:
                raise QueueFullError(self._path, self._most - room, self._most)

    def _room(self) -> int:
        if self._seen is None:
            return -1
        return self._most - self._seen - (self._put - self._seen_at)

    async def _create(self, path: str, bodies: Sequence[bytes]) -> list[str]:
        client, mode, acl = self._client, CreateMode.PERSISTENT_SEQUENTIAL, self._acl
        self._put += len(bodies)
        if len(bodies) == 1:
            created = client.create(path, bodies[0], mode=mode, acl=acl)
            self._look()
            return [basename((await created).path)]
        transaction = client.transaction()
        for body in bodies:
            transaction.create(path, body, mode=mode, acl=acl)
        reply = transaction.commit()
        self._look()
        try:
            return [basename(str(made)) for made in await reply]
        except TransactionError as error:
            raise error.cause from None

    def _look(self) -> Reply[Stat | None]:
        look = self._client.exists(self._path)
        at = self._put

        def seen() -> None:
            if look.error() is None:
                stat = look.result()
                self._seen, self._seen_at = 0 if stat is None else stat.num_children, at

        look.add_done_callback(seen)
        return look
