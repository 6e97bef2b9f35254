"""The public queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import final

from ...abc import CoordinationClient
from ...errors import ConfigurationError
from ...model import ACL
from .._core.arguments import (
    OnDisconnect,
    OnInvalid,
    checked_acl,
    checked_client,
    checked_count,
    checked_on_invalid,
    checked_path,
)
from .._core.contexts import TenureContext
from .._core.holding_recipe import HoldingRecipe
from ..contest import Contest
from .available_items import AvailableItems
from .claim import claim_item
from .claimed import QueueItem
from .item_format import DelayNames, ItemNames, PriorityNames, decode, encode
from .work_queue import MOST_ITEMS, Consumption, ItemProducer, checked_bytes

_BY_PRIORITY = PriorityNames()
_BY_TIME = DelayNames()


class _Queue(HoldingRecipe[QueueItem]):
    """The base of all queues: everything except `put`."""

    _names = ItemNames()
    _clock: Callable[[], float] = staticmethod(time.time)

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        claims: str | None = None,
        max_items: int = 10_000,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        claims = checked_path(f"{checked_path(path)}-claims" if claims is None else claims)
        if claims == path:
            raise ConfigurationError(f"claims: must not be the path of the items: {claims!r}")
        most = checked_count("max_items", max_items, most=MOST_ITEMS)
        client = checked_client(client)
        self._available = AvailableItems(
            client,
            path,
            claims,
            self._names,
            clock=self._clock,
            on_invalid=checked_on_invalid(on_invalid),
            acl=checked_acl(acl),
        )
        contest = Contest.of(
            type(self).__name__,
            client,
            path,
            QueueItem,
            partial(claim_item, self._available, decode),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            is_guarded=False,
            to_hold="async with queue.get() as item:",
            to_try="async with queue.try_get() as item:",
        )
        super().__init__(contest)
        self._producer = ItemProducer(client, path, most, self._acl)

    def consume(self) -> Consumption[QueueItem]:
        """Claim items one after the other, as an async iterator: see `Consumption`."""
        return Consumption(self._contest)

    def get(self, *, timeout: float | None = None) -> TenureContext[QueueItem]:
        """Claim the next item for the body of an `async with`.

            async with queue.get() as item:
                await work(item.data)
                await item.ack()

        Waits for an item for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `ack` releases the item, which becomes the first one again. If the process dies, its
        session's expiry does the same.

        Raises:
            AcquireTimeout: on entering: there was no item in time.
            ClaimLost: on leaving: the claim was lost, so that another consumer gets the item, and
                the cancelled body raised nothing else.

        Cancellation: claims nothing, or releases the item.

        On connection loss: waiting continues, also across expired sessions; a claim is held as long
        as the lease lasts.
        """
        return TenureContext(self._contest, timeout)

    def try_get(self) -> TenureContext[QueueItem | None]:
        """As `get`, but yields None at once if no item is free.

        Reads from the connected server, which may lag; call `client.sync()` first if that matters.
        """
        return TenureContext(self._contest, 0, is_try=True)

    async def size(self) -> int:
        """The number of items, claimed ones included. A read, as `try_get`."""
        return await self._producer.size()

    async def _put(self, prefix: str, items: Iterable[bytes]) -> list[str]:
        if isinstance(items, (bytes, bytearray, str)):
            raise ConfigurationError("items: must be several of them, each bytes; or use put()")
        bodies = [encode([checked_bytes(data)]) for data in items]
        if not bodies:
            raise ConfigurationError("items: must not be empty")
        return await self._producer.put(prefix, bodies)


@final
class Queue(_Queue):
    """A queue: items persist until a consumer acknowledges them; first come, first served.

        name = await queue.put(b"...")

        async with queue.get() as item:
            await work(item.data)
            await item.ack()

    *At least once.* A claim, an ephemeral znode, gives an item to one consumer at a time. The next
    consumer gets it if the first dies or leaves without `ack`, but never once `ack` has returned.
    If the claim is lost, the body is cancelled before the servers can give the item to another
    consumer.

    Items are first handed out in the order in which they were put. A released item is the first one
    again. An item that others have put znodes below is passed over while those exist, with a
    warning in the log. The format is that of Curator's `DistributedQueue` with a `lockPath`.

    Args:
        client: the session.
        path: the path of the items; created as a persistent znode if missing.
        claims: the path of the claims, Curator's `lockPath`; defaults to `<path>-claims`.
        max_items: how many items there may be, at most 25,000. A soft limit: see `put`.
        identity: the holder's name in claims; defaults to host name and process id.
        on_invalid: called synchronously with the `InvalidDataError` of an invalid item; logs a
            warning by default. The item stays, and this object skips it.
        on_disconnect: the fate of claims on connection loss: `"keep"` keeps them while the
            lease lasts, `"resign"` releases them at once.
        acl: of items, claims, and paths that have to be created; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    async def put(self, data: bytes) -> str:
        """Add an item; return its name.

        Raises:
            QueueFullError: `max_items` are there. Each client counts at its last put, so the limit
                may be exceeded by one put per client, and puts in flight.
            SequenceExhaustedError: the path has no more numbers.
            ServerError: the server refuses, for example with `NoAuthError`.

        Cancellation: the item may or may not be added.

        On connection loss: `ConnectionLossError`. With the outcome `UNKNOWN` the item may have been
        added; servers choose the names, so no client can find out, and a retry may add it twice. If
        that matters, give items an id in their data.
        """
        return (await self._put("queue-", [data]))[0]

    async def put_many(self, items: Iterable[bytes]) -> list[str]:
        """Add separate items, all or none, one behind the other; return their names in order.

        They are one transaction, so together they must fit into a packet (1 MiB by default).
        Otherwise as `put`.
        """
        return await self._put("queue-", items)


@final
class PriorityQueue(_Queue):
    """A queue with priorities: the smallest first, equal ones first come, first served.

    Items are listed again for each hand-out, since a smaller one may have come. Otherwise as
    `Queue`. The format is that of Curator's `DistributedPriorityQueue`.
    """

    _names = _BY_PRIORITY

    async def put(self, data: bytes, *, priority: int = 0) -> str:
        """Add an item; return its name. Otherwise as `Queue.put`.

        `priority` is from -2^31 to 2^31 - 1; the smallest comes first.
        """
        return (await self._put(_BY_PRIORITY.prefix(priority), [data]))[0]

    async def put_many(self, items: Iterable[bytes], *, priority: int = 0) -> list[str]:
        """Add several items of one priority; see `Queue.put_many`."""
        return await self._put(_BY_PRIORITY.prefix(priority), items)


@final
class DelayQueue(_Queue):
    """A queue whose items are handed out when they are due, the earliest first.

    Consumers compare the due time in an item's name with their own `clock`, in seconds since the
    epoch: items come early or late by the difference to the producer's clock. Nothing else depends
    on clocks. Otherwise as `Queue`. The format is that of Curator's `DistributedDelayQueue`.
    """

    _names = _BY_TIME

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        claims: str | None = None,
        max_items: int = 10_000,
        clock: Callable[[], float] = time.time,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._clock = clock
        super().__init__(
            client,
            path,
            claims=claims,
            max_items=max_items,
            identity=identity,
            on_invalid=on_invalid,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    async def put(self, data: bytes, *, delay: float | None = None, at: float | None = None) -> str:
        """Add an item; return its name. Otherwise as `Queue.put`.

        It is due in `delay` seconds, or `at` a time in seconds since the epoch; give one of the
        two.
        """
        return (await self._put(self._prefix(delay, at), [data]))[0]

    async def put_many(
        self, items: Iterable[bytes], *, delay: float | None = None, at: float | None = None
    ) -> list[str]:
        """Add several items that are due at the same time; see `Queue.put_many`."""
        return await self._put(self._prefix(delay, at), items)

    def _prefix(self, delay: float | None, at: float | None) -> str:
        if delay is not None and at is None:
            return _BY_TIME.prefix(self._clock() + delay)
        if at is not None and delay is None:
            return _BY_TIME.prefix(at)
        raise ConfigurationError("put: needs either delay or at")
