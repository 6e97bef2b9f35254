"""What one queue object knows of the items and claims on its path.

Items and claims are listed together, with a watch on either; what has not changed is not listed
again. The list is used up from the front before the next one is asked for. It is no more than a
hint: whoever claims an item asks the servers for it, and finds out then that it is gone or taken.
So

* who consumes alone lists a long queue once for many items;
* who finds that others take items lists anew for each one (`is_contended`): one round trip of reads
  for him and none of writes, where else each item that others have had costs him a write in vain;
* who has nothing to do waits for the watches, and asks for nothing.

Everything but `look` and `wait` is synchronous.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import anyio

from ..._internal_errors import call_back
from ..._logging import get_logger
from ...abc import CoordinationClient, Reply, Watch
from ...errors import (
    AioleadError,
    ConnectionLossError,
    InvalidDataError,
    NoNodeError,
    Outcome,
)
from ...model import ACL, CreateMode, WatchEvent
from ...paths import ListedPath, join
from .._core.arguments import OnInvalid
from .naming import Key, Naming

logger = get_logger(__name__)

PATH_TRIES = 10
"""How often a path is created anew for one look: servers reap empty containers (CURATOR-724)."""

LONGEST_SLEEP = 10.0
"""How long to sleep for an item that is not due, in seconds, before a look at the clock: that is
of the wall, and may be set."""


class Reserved:
    """The items that this client's own consumers have claimed, or are about to, by name."""

    def __init__(self) -> None:
        self.names: set[str] = set()


class _Listing:
    """The children of a path, as long as we would be told of a change."""

    def __init__(self, path: str, mode: CreateMode) -> None:
        self.path = path
        self.mode = mode  # of the path
        self.names: list[str] | None = None
        self.watch: Watch | None = None

    @property
    def is_known(self) -> bool:
        """Whether nothing has changed, as far as the servers have told us until now."""
        return self.names is not None and self.watch is not None and self.watch.is_armed

    def ask(
        self, client: CoordinationClient, on_event: Callable[[WatchEvent], object]
    ) -> Reply[list[str]] | None:
        """Asks for them; None if nothing has changed."""
        if self.is_known:
            return None
        self.names = None
        if self.watch is None:
            self.watch = client.backend.make_watch(on_event)
        return client.get_children(self.path, watch=self.watch)

    def close(self) -> None:
        watch, self.watch = self.watch, None
        self.names = None
        if watch is not None:
            watch.close()


_Look = list[tuple[_Listing, Reply[list[str]] | None]]
"""Listings that were asked for."""


class Backlog:
    """The items that may be there to be claimed, in order.

    Args:
        client: the session.
        items: the path with the items.
        claims: the path with the claims.
        naming: how items are named.
        clock: seconds since the epoch, for items that are not due yet.
        on_invalid: told of an item that makes no sense; such an item is passed over.
        acl: of claims, and of the paths where they have to be created.
    """

    def __init__(
        self,
        client: CoordinationClient,
        items: str,
        claims: str,
        naming: Naming,
        *,
        clock: Callable[[], float],
        on_invalid: OnInvalid | None = None,
        acl: Sequence[ACL] | None,
    ) -> None:
        self.items = items
        self.claims = claims
        self.naming = naming
        self.is_contended = False
        """Whether others take items, too, as far as we have seen."""
        self.looks = 0
        """How often the items were listed."""
        self._client = client
        self._clock = clock
        self._on_invalid = on_invalid
        self.acl = acl
        self._reserved = client.backend.shared(claims, Reserved)
        self._heap: list[tuple[Key, str]] = []
        self._invalid: set[str] = set()
        self._look: _Look | None = None
        self._claimed = _Listing(claims, CreateMode.CONTAINER)
        # No container: when servers reap one its numbers start anew, and with them names that a
        # late acknowledgement may be on its way for.
        self._present = _Listing(items, CreateMode.PERSISTENT)
        self._is_stale = True
        self._wake = anyio.Event()
        self._users = 0

    # --- who uses it -----------------------------------------------------------------------------

    def enter(self) -> None:
        """A consumer begins: until it leaves there may be watches."""
        self._users += 1

    def leave(self) -> None:
        """A consumer has ended. With the last one the watches go."""
        self._users -= 1
        if not self._users:
            self._close_watches()

    # --- taking ----------------------------------------------------------------------------------

    @property
    def is_stale(self) -> bool:
        """Whether something may have changed since the items were listed."""
        return self._is_stale

    def pop(self) -> str | None:
        """The first item that may be free, which is the caller's to claim from now on.

        None if there is none, as far as is known. Whoever gets a name gives it back with `free`,
        `vanished` or `taken`.
        """
        heap, reserved = self._heap, self._reserved.names
        while heap:
            key, name = heap[0]
            if self._until_due(key) > 0:
                return None
            heapq.heappop(heap)
            if name not in reserved and name not in self._invalid:
                reserved.add(name)
                return name
        return None

    def free(self, name: str) -> None:
        """An item that we had has no claim of ours any more: it is there for anybody."""
        self._reserved.names.discard(name)
        key = self._key(name)
        if key is not None:
            heapq.heappush(self._heap, (key, name))
        self._notify()

    def _key(self, name: str) -> Key | None:
        """What items are sorted by; None for what is no item, or cannot be claimed by its name."""
        return None if isinstance(name, ListedPath) else self.naming.key(name)

    def vanished(self, name: str) -> None:
        """An item that we have had is no more."""
        self._reserved.names.discard(name)

    def taken(self, name: str) -> None:
        """An item that we tried to claim is gone, or somebody else's.

        If it is given back, a watch on the claims says so.
        """
        self._reserved.names.discard(name)
        self.is_contended = True

    def invalid(self, name: str, version: int, why: ValueError) -> None:
        """An item makes no sense: it is reported, and passed over from now on."""
        self._invalid.add(name)
        error = InvalidDataError(join(self.items, name), why, version=version)
        error.__cause__ = why
        if self._on_invalid is None:
            logger.warning("%s; the item is passed over", error)
        else:
            call_back(self._on_invalid, error)

    # --- waiting ---------------------------------------------------------------------------------

    async def wait(self) -> None:
        """Waits until something has changed, or an item is due.

        To be called when `pop` has given None, with nothing awaited in between.
        """
        if self._is_stale:
            return
        with anyio.move_on_after(self._until_due(self._heap[0][0]) if self._heap else None):
            await self._wake.wait()

    def _until_due(self, key: Key) -> float:
        due = self.naming.due(key)
        return 0.0 if due is None else min(due - self._clock(), LONGEST_SLEEP)

    def _notify(self) -> None:
        self._wake.set()
        self._wake = anyio.Event()

    # --- looking ---------------------------------------------------------------------------------

    async def look(self) -> None:
        """Lists items and claims, in one round trip; several callers share one listing.

        Raises:
            ConnectionLossError, SessionExpiredError, ServerError.

        Cancellation: the listing goes on, for whoever comes next.
        """
        missing = 0
        while missing < PATH_TRIES:
            look = self._look or self._begin()
            for listing, reply in look:
                try:
                    names = None if reply is None else await reply
                    if names is not None and self._look is look:
                        listing.names = names
                except NoNodeError:
                    missing += 1
                    self._end(look)
                    await self.make(listing)
                    break
                except AioleadError:
                    self._end(look)
                    raise
            else:
                # Events come before the answers that show what they tell of: what was not asked for
                # is still so, or we know by now that it is not.
                if all(reply or listing.is_known for listing, reply in look):
                    self._take(look)
                    return
                self._end(look)
        raise ConnectionLossError(
            f"{self.items}: the paths are deleted as soon as they are made",
            outcome=Outcome.NOT_APPLIED,
        )

    async def make_claims(self) -> None:
        """Creates the path of the claims, and what is missing above it."""
        await self.make(self._claimed)

    async def make(self, listing: _Listing) -> None:
        await self._client.ensure_path(listing.path, mode=listing.mode, acl=self.acl)

    def _begin(self) -> _Look:
        self._is_stale = False
        both = (self._claimed, self._present)
        self._look = [(listing, listing.ask(self._client, self._on_event)) for listing in both]
        return self._look

    def _end(self, look: _Look) -> None:
        if self._look is look:
            self._look = None
            self._is_stale = True

    def _take(self, look: _Look) -> None:
        if self._look is not look:
            return  # somebody else was told first
        self._look = None
        self.looks += 1
        items, claimed = self._present.names or [], set(self._claimed.names or [])
        self._invalid.intersection_update(items)
        reserved = self._reserved.names
        self.is_contended = not claimed <= reserved
        heap = []
        for name in items:
            key = self._key(name)
            if key is not None and name not in claimed and name not in reserved:
                heap.append((key, name))
        heapq.heapify(heap)
        self._heap = heap
        if not self._users:
            self._close_watches()

    def _on_event(self, _event: WatchEvent) -> None:
        self._is_stale = True
        self._notify()

    def _close_watches(self) -> None:
        self._claimed.close()
        self._present.close()
        self._look = None  # an answer that is on its way would be old by the next time
        self._is_stale = True
