"""What the queues have in common: everything but how items are put."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from ...abc import CoordinationClient
from ...errors import ConfigurationError
from ...model import ACL
from .._core.arguments import OnDisconnect, OnInvalid, checked_count, checked_path
from .._core.contexts import TenureContext, TryContext
from .claimed import QueueItem
from .claiming import ClaimingRecipe
from .consuming import Consumption
from .formats import decode, encode
from .naming import Naming
from .putting import MOST_ITEMS, Putter, checked_data

DEFAULT_MOST = 10_000


class AnyQueue(ClaimingRecipe[QueueItem]):
    """A path with items."""

    _tenure = QueueItem

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        naming: Naming,
        *,
        claims: str | None,
        max_items: int,
        clock: Callable[[], float] = time.time,
        on_invalid: OnInvalid | None,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
    ) -> None:
        claims = checked_path(f"{checked_path(path)}-claims" if claims is None else claims)
        if claims == path:
            raise ConfigurationError(f"claims: must not be the path of the items: {claims!r}")
        most = checked_count("max_items", max_items, most=MOST_ITEMS)
        super().__init__(
            client,
            path,
            items=path,
            claims=claims,
            naming=naming,
            clock=clock,
            on_invalid=on_invalid,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        self._putter = Putter(self._client, path, most, self._acl)

    @staticmethod
    def _decode(body: bytes) -> tuple[bytes, ...]:
        return decode(body)

    def get(self, *, timeout: float | None = None) -> TenureContext[QueueItem]:
        """Claims the next item for the body of an `async with`.

            async with queue.get() as item:
                await work(item.data)
                await item.ack()

        Leaving the body without `ack` gives the item back: it is then the first again. So does the
        death of the process, when its session ends.

        Args:
            timeout: how long to wait for an item, in seconds; for ever by default. 0 looks once.

        Raises (on entering):
            AcquireTimeout: there was none within that time.

        Raises (on leaving):
            ClaimLost: the claim was lost, and the body, which was cancelled then, raised nothing
                else. Somebody else gets the item.

        Cancellation: claims nothing, or gives back what is held.

        On connection loss: waiting goes on, over expired sessions, too; a claim is held as long as
        the lease lasts.
        """
        return TenureContext(self, timeout)

    def try_get(self) -> TryContext[QueueItem]:
        """As `get`, but gives None, at once, if there is no item to be had.

        The connected server says so, which may be a moment behind; `client.sync()` before it where
        that matters.
        """
        return TryContext(self)

    def consume(self) -> Consumption[QueueItem]:
        """One item after the other: `async with queue.consume() as items`, `async for`.

        See `Consumption`. Going on without `ack` gives the item back.
        """
        return Consumption(self)

    async def size(self) -> int:
        """How many items there are, those that somebody works on included.

        A read of the connected server, as `try_get`.
        """
        return await self._putter.size()

    async def _put(self, prefix: str, items: Iterable[bytes]) -> list[str]:
        if isinstance(items, (bytes, bytearray, str)):
            raise ConfigurationError("items: must be several of them, each bytes; or use put()")
        bodies = [encode([checked_data(data)]) for data in items]
        if not bodies:
            raise ConfigurationError("items: there is none")
        return await self._putter.put(prefix, bodies)
