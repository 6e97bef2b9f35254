"""The queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import final

from ...abc import CoordinationClient
from ...errors import ConfigurationError
from ...model import ACL
from .._core.arguments import OnDisconnect, OnInvalid
from .common import DEFAULT_MOST, AnyQueue
from .naming import ByPriority, ByTime, Naming


@final
class Queue(AnyQueue):
    """A queue: items persist until somebody has acknowledged them; first come, first served.

        name = await queue.put(b"...")

        async with queue.get() as item:
            await work(item.data)
            await item.ack()

    *At least once.* An item is handed out under a claim, an ephemeral znode: to one consumer at a
    time, and to the next one if that one dies, or leaves without `ack`. None is handed out again
    once its `ack` has returned. The body is cancelled if the claim is lost, before the servers
    could give the item to anybody else.

    Items are first handed out in the order in which they were put. What is given back is the first
    again, for whoever looks next.

    The format is that of Curator's `DistributedQueue` with a `lockPath`.

    Args:
        client: the session.
        path: the path of the items; created, and persistent, when it is missing.
        claims: the path of the claims; `<path>-claims` by default. Curator's `lockPath`.
        max_items: how many items there may be, at most 25,000: all are listed in one go. A soft
            bound: see `put`.
        identity: what a claim says about who holds it; host name and process id by default.
        on_invalid: called, synchronously, with the `InvalidDataError` of an item that makes no
            sense. It stays where it is, and this object passes it over. A line in the log by
            default.
        on_disconnect: what becomes of what is held when the link is lost: `"keep"` keeps it while
            the lease lasts, `"resign"` gives it up at once.
        acl: of items and claims, and of the paths where they have to be created; everybody
            everything by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        claims: str | None = None,
        max_items: int = DEFAULT_MOST,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(
            client,
            path,
            Naming(),
            claims=claims,
            max_items=max_items,
            on_invalid=on_invalid,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    async def put(self, data: bytes) -> str:
        """Adds an item, and gives its name.

        Raises:
            QueueFullError: `max_items` are there. Each client goes by what it saw at its last put,
                so that there may be more in the end: by one put of each client, and what is on its
                way.
            SequenceExhaustedError: the path has no more numbers.
            ServerError: what the server says, such as `NoAuthError`.

        Cancellation: it may be put or not.

        On connection loss: `ConnectionLossError`. With the outcome `UNKNOWN` it may have been put:
        servers choose the names, so nobody can tell. Put again, it may be there twice; items that
        must not be should have an id of their own in their data.
        """
        return (await self._put("queue-", [data]))[0]

    async def put_many(self, items: Iterable[bytes]) -> list[str]:
        """Adds several items, all or none, one behind the other; gives their names in order.

        Each is an item by itself, for any consumer. One transaction, so that all of them must be
        smaller than the packet limit of the servers together, 1 MiB unless configured otherwise.

        Raises, cancellation, on connection loss: as for `put`.
        """
        return await self._put("queue-", items)


@final
class PriorityQueue(AnyQueue):
    """A queue whose items have priorities: smaller ones first, equal ones first come first served.

    Everything else is as for `Queue`, but that the items are listed anew for each that is handed
    out, since a better one may have come. The format is that of Curator's
    `DistributedPriorityQueue`.

    Args, raises: as for `Queue`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        claims: str | None = None,
        max_items: int = DEFAULT_MOST,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._naming = ByPriority()
        super().__init__(
            client,
            path,
            self._naming,
            claims=claims,
            max_items=max_items,
            on_invalid=on_invalid,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    async def put(self, data: bytes, *, priority: int = 0) -> str:
        """Adds an item, and gives its name.

        Args:
            data: what it holds.
            priority: from -2^31 to 2^31 - 1; the smallest comes first.

        Raises, cancellation, on connection loss: as for `Queue.put`.
        """
        return (await self._put(self._naming.prefix(priority), [data]))[0]

    async def put_many(self, items: Iterable[bytes], *, priority: int = 0) -> list[str]:
        """Adds several items of one priority; see `Queue.put_many`."""
        return await self._put(self._naming.prefix(priority), items)


@final
class DelayQueue(AnyQueue):
    """A queue whose items are handed out when they are due, the earliest first.

    When that is, is a time of day: it stands in the item's name, and consumers compare it with
    their own clock. So items come early or late by as much as the clocks of those who put and those
    who consume differ; what holds whatever clocks say is all that holds for `Queue`. The format is
    that of Curator's `DistributedDelayQueue`.

    Args:
        clock: the time of day, in seconds since the epoch.
        Others, raises: as for `Queue`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        claims: str | None = None,
        max_items: int = DEFAULT_MOST,
        clock: Callable[[], float] = time.time,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._naming = ByTime()
        self._clock = clock
        super().__init__(
            client,
            path,
            self._naming,
            claims=claims,
            max_items=max_items,
            clock=clock,
            on_invalid=on_invalid,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    async def put(self, data: bytes, *, delay: float | None = None, at: float | None = None) -> str:
        """Adds an item, and gives its name.

        Args:
            data: what it holds.
            delay: in how many seconds it is due, by the clock; this or `at`.
            at: when it is due, in seconds since the epoch.

        Raises, cancellation, on connection loss: as for `Queue.put`.
        """
        return (await self._put(self._prefix(delay, at), [data]))[0]

    async def put_many(
        self, items: Iterable[bytes], *, delay: float | None = None, at: float | None = None
    ) -> list[str]:
        """Adds several items that are due at the same time; see `Queue.put_many`."""
        return await self._put(self._prefix(delay, at), items)

    def _prefix(self, delay: float | None, at: float | None) -> str:
        if delay is not None and at is None:
            return self._naming.prefix(self._clock() + delay)
        if at is not None and delay is None:
            return self._naming.prefix(at)
        raise ConfigurationError("put: needs either delay or at")
