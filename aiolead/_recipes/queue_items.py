"""The items of a queue: their names and data in the formats of Curator, and those that are known.

The names are `queue-`, a part that depends on the type of queue, and the number that the server
appends. Other children are foreign. The data are those of Curator 5's `ItemSerializer`, big-endian:

    int   0x00010001                      the version
    byte  1, int length, bytes            a part; any number of them
    byte  2                               the end

Curator's `putMulti` writes several parts into one znode.

Available items and claims are listed together, each with a watch. The list is only a hint: claiming
an item asks the servers. A single consumer lists a long queue once for many items, and an idle one
sends nothing. Competing consumers (`is_contended`) look again before each claim: one round trip of
reads is cheaper than a failed write for each item that others took. Where items come in order, a
look at the claims and at the next few items is enough, however long the queue is (`check_next`).

Only `look`, `check_next` and `wait` await.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import anyio

from .._util.escaping import described, get_logger
from .._util.internal_errors import call_back
from .._util.parsing import MalformedError
from ..abc import CoordinationClient, Reply, Watch
from ..errors import ConfigurationError, InvalidDataError, NoNodeError
from ..model import ACL, CreateMode, Stat, WatchEvent
from ..paths import ListedPath, join
from .codec import Codec
from .errors import TRIES
from .fixed import Fixed
from .neighbours import refuse_holders
from .reading import look_at_all
from .recipe import OnInvalid, checked_count
from .reporting import PathWarnings

MOST_ITEMS = 25_000
"""Greatest limit. One listing of that many items stays below the packet limit of 1 MiB."""

Key = tuple[int, int]
"""Sort key: priority or due time, then the number."""


class ItemNames:
    """First come, first served: `marker` and the number."""

    is_strict: ClassVar[bool] = False
    """Whether a later item may have to be handed out first."""
    _rank: ClassVar[str] = "()"
    """The part between marker and number; its group is the rank in hexadecimal."""

    def __init__(self, marker: str = "queue-") -> None:
        self._marker = marker
        pattern = f"{re.escape(marker)}{self._rank}" + r"(-?\d{9,10})"
        self._name = re.compile(pattern, re.ASCII)

    def key(self, name: str) -> Key | None:
        """The sort key of an item; None for a foreign child."""
        match = self._name.fullmatch(name)
        return None if match is None else (int(match[1] or "0", 16), int(match[2]))

    def due(self, key: Key) -> float | None:
        """When an item is due, in seconds since the epoch; None: at any time."""
        return None


class PriorityNames(ItemNames):
    """Smallest priority first: `queue-`, `1` (`0` if negative), 8 hexadecimal digits, number."""

    is_strict = True
    _rank = "([01][0-9A-F]{8})"

    def prefix(self, priority: int) -> str:
        """The name without its number; raises `ConfigurationError` if it is no Java `int`."""
        checked_count("priority", priority, least=-(2**31), most=2**31 - 1)
        return f"{self._marker}{int(priority >= 0)}{priority & 0xFFFF_FFFF:08X}"


class DelayNames(ItemNames):
    """Earliest first: `queue-|`, due time in hexadecimal ms since the epoch, `|`, number."""

    is_strict = True
    _rank = r"\|([0-9A-F]{8,13})\|"

    def prefix(self, at: float) -> str:
        """The name without its number; raises `ConfigurationError` unless Curator can read it."""
        number = isinstance(at, (int, float)) and not isinstance(at, bool)
        if not number or not 0.001 <= at < 2**40:
            raise ConfigurationError(
                f"at: must be seconds since the epoch, as `time.time()` gives, not {described(at)}"
            )
        return f"{self._marker}|{round(at * 1000):08X}|"

    def due(self, key: Key) -> float | None:
        return key[0] / 1000


VERSION = 0x0001_0001
PART, END = 1, 2

_VERSION = struct.Struct(">I")
_PART = struct.Struct(">Bi")


def encode(parts: Sequence[bytes]) -> bytes:
    """Encode an item with these parts."""
    body = bytearray(_VERSION.pack(VERSION))
    for part in parts:
        body += _PART.pack(PART, len(part)) + part
    body.append(END)
    return bytes(body)


@dataclass(frozen=True, slots=True)
class Content:
    """The decoded data of an item.

    Attributes:
        parts: its parts.
        rest: the bytes behind its end, which Curator ignores.
        values: its parts as the queue's codec decodes them.
        invalid: why the codec refuses them.
    """

    parts: tuple[bytes, ...]
    rest: bytes = b""
    values: tuple[Any, ...] = ()
    invalid: ValueError | None = None


def decode(body: bytes) -> Content:
    """Decode an item; raises ValueError."""
    if len(body) < _VERSION.size:
        raise MalformedError(f"{len(body)} bytes are too few for an item")
    (version,) = _VERSION.unpack_from(body)
    if version != VERSION:
        raise MalformedError(f"the version is 0x{version:08x}, not 0x{VERSION:08x}")
    at = _VERSION.size
    parts: list[bytes] = []
    while True:
        if at >= len(body):
            raise MalformedError("the end is missing")
        if body[at] == END:
            return Content(tuple(parts), body[at + 1 :])
        if body[at] != PART:
            raise MalformedError(f"there is no part of the kind {body[at]}, at byte {at}")
        if at + _PART.size > len(body):
            raise MalformedError("it is truncated")
        _, size = _PART.unpack_from(body, at)
        at += _PART.size
        if not 0 <= size <= len(body) - at:
            raise MalformedError(f"a part has the length {size}, with {len(body) - at} bytes left")
        parts.append(body[at : at + size])
        at += size


def with_values(codec: Codec[Any], content: Content) -> Content:
    """Decode the parts of an item by a codec."""
    try:
        values = tuple(codec.decode(part) for part in content.parts)
    except Exception as error:
        invalid = MalformedError(f"{type(error).__name__}: {error}")
        invalid.__cause__ = error
        return replace(content, invalid=invalid)
    return replace(content, values=values)


logger = get_logger(__name__)

CHECKED, MOST_CHECKED = 4, 256
"""How many of the next items `check_next` reads at first, and before it lists all of them again."""

LONGEST_SLEEP = 10.0
"""Longest sleep until an item is due, in seconds. The wall clock may be set during a sleep."""


class Reserved(set[str]):
    """The names of items that this client's consumers have claimed, or are about to claim."""

    def __init__(self) -> None:
        super().__init__()
        self.users: list[AvailableItems] = []
        """The `AvailableItems` of the same path that have consumers."""

    def release(self, name: str) -> None:
        """Let any consumer of this client claim the item again."""
        self.discard(name)
        for available in tuple(self.users):
            available.unreserved(name)


@dataclass(slots=True, eq=False)
class _Listing:
    """The children of a path, valid until their watch fires; `mode` is that of the path."""

    path: str
    mode: CreateMode
    names: list[str] | None = None
    watch: Watch | None = None

    @property
    def is_known(self) -> bool:
        """Whether the servers have reported no change since."""
        return self.names is not None and self.watch is not None and self.watch.is_armed

    def ask(
        self, client: CoordinationClient, on_event: Callable[[WatchEvent], object]
    ) -> Reply[list[str]] | None:
        """Request the children; None if nothing has changed."""
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


class AvailableItems:
    """The items that may be free to claim, in order.

    `clock` decides which items are due. `on_invalid` gets the error of an invalid item. `acl` is
    for claims, and for paths that have to be created.
    """

    def __init__(
        self,
        client: CoordinationClient,
        items_path: str,
        claims_path: str,
        names: ItemNames,
        *,
        clock: Callable[[], float],
        on_invalid: OnInvalid | None = None,
        acl: Sequence[ACL] | None,
    ) -> None:
        self.items_path = items_path
        self.claims_path = claims_path
        self.names = names
        self.acl = acl
        self.is_contended = False
        """Whether other consumers have been seen."""
        self.looks = 0
        """How often the items, or the next ones, were looked at."""
        self._client = client
        self._clock = clock
        self._on_invalid = on_invalid
        self._reserved = client.backend.shared(claims_path, Reserved)
        self._heap: list[tuple[Key, str]] = []
        self._passed_over: set[str] = set()
        """Listed and free, but not in the heap, since they are reserved."""
        self._gone: set[str] = set()
        """Those in the heap that `check_next` has not found."""
        self._of_others: set[str] = set()
        """Claimed by other clients, as of the last check."""
        self._claimed_since: set[str] = set()
        """Items of `_of_others` that were taken out of the heap."""
        self._invalid: set[str] = set()
        self._others: set[str] = set()
        """The children that are no items, as of the last look: each is looked at once."""
        self._set_aside: dict[str, Watch | None] = {}
        """Items that others have put znodes below, with the watch on those."""
        self._warnings = client.backend.shared(items_path, PathWarnings)
        self._changes = 0
        """How many events have come."""
        self._listed = -1
        """How many had come when the items of the last complete list were requested."""
        self._looking = anyio.Lock(fast_acquire=True)
        self._claimed = _Listing(claims_path, CreateMode.CONTAINER)
        # Not a container: servers that delete one restart its numbers, and a late acknowledgement
        # could then delete a new item of the same name.
        self._present = _Listing(items_path, CreateMode.PERSISTENT)
        self._wake = anyio.Event()
        self._users = 0

    @property
    def is_stale(self) -> bool:
        """Whether something may have changed since the items were listed."""
        return self._listed != self._changes

    # --- consumers -------------------------------------------------------------------------------

    def enter(self) -> None:
        """Register a consumer: watches may exist until it leaves."""
        if not self._users:
            self._reserved.users.append(self)
        self._users += 1

    def leave(self) -> None:
        """Unregister a consumer; the last one closes the watches."""
        self._users -= 1
        if not self._users:
            self._reserved.users.remove(self)
            self._close_watches()

    # --- taking ----------------------------------------------------------------------------------

    def pop(self) -> str | None:
        """Reserve the first item that may be free, if any, until `free` or `gone`."""
        while self._heap:
            key, name = self._heap[0]
            if self._until_due(key) > 0:
                return None
            heapq.heappop(self._heap)
            if self._is_out(name) or name in self._invalid or name in self._set_aside:
                continue
            self._passed_over.add(name)
            if name not in self._reserved:
                self._reserved.add(name)
                return name
        return None

    def _is_out(self, name: str) -> bool:
        """Whether an item that leaves the heap was gone, or claimed, at the last check."""
        if name in self._of_others:
            self._claimed_since.add(name)
            return True
        is_gone = name in self._gone
        self._gone.discard(name)
        return is_gone

    def taken(self, name: str) -> None:
        """Note that another client has the item. A watch fires once it is free again."""
        self._passed_over.discard(name)
        self.is_contended = True

    def free(self, name: str) -> None:
        """Note that the claim of this client is gone, so that any consumer may claim the item."""
        self._passed_over.discard(name)
        self._reserved.release(name)
        self._offer(name)

    def gone(self, name: str) -> None:
        """Note that this client has no claim, nor may get one; the item may be gone, too."""
        self._reserved.release(name)

    def unreserved(self, name: str) -> None:
        """Offer an item that is not reserved any more, if a list that is valid passed it over.

        No watch fires if the claim of this client was never created, or if another client has
        released the item while it was still reserved.
        """
        if name in self._passed_over and not self.is_stale:
            self._offer(name)

    def _offer(self, name: str) -> None:
        self._passed_over.discard(name)
        key = self._key(name)
        if key is not None:
            heapq.heappush(self._heap, (key, name))
        self._notify()

    def _key(self, name: str) -> Key | None:
        """Sort key of an item; None for a foreign child."""
        return None if isinstance(name, ListedPath) else self.names.key(name)

    def invalid(self, name: str, version: int, why: ValueError, *, is_final: bool = True) -> None:
        """Report an invalid item; skip it from now on if that `is_final`."""
        if is_final:
            self._invalid.add(name)
        error = InvalidDataError(join(self.items_path, name), why, version=version)
        error.__cause__ = why
        if self._on_invalid is None:
            logger.warning("%s; the item is passed over", error)
        else:
            call_back(self._on_invalid, error)

    def set_aside(self, name: str) -> None:
        """Skip an item that others have put znodes below, until those are gone; warn of it."""
        self._set_aside.setdefault(name, None)
        self._warnings.warn_of_children(
            join(self.items_path, name), "Until then no consumer gets the item"
        )
        self._changes += 1  # so that the next look also looks below it

    async def _look_below(self) -> None:
        """Read which of the items that were set aside still have znodes below, and watch those."""
        client, replies = self._client, dict[str, Reply[list[str]]]()

        def ask(name: str) -> Reply[list[str]]:
            watch = self._set_aside[name] = client.backend.make_watch(
                partial(self._changed_below, name)
            )
            replies[name] = client.get_children(join(self.items_path, name), watch=watch)
            return replies[name]

        try:
            await look_at_all([name for name, watch in self._set_aside.items() if not watch], ask)
        except BaseException:
            for name in replies:
                self._forget_watch(name)
            raise
        for name, reply in replies.items():
            if reply.error() is not None or not reply.result():
                self._forget_watch(name)
                self._set_aside.pop(name, None)

    def _changed_below(self, name: str, event: WatchEvent) -> None:
        # Each claim changes something below its item: the next look shows whether it is free.
        if name in self._set_aside:
            self._set_aside[name] = None
        self._on_event(event)

    def _forget_watch(self, name: str) -> None:
        watch = self._set_aside.get(name)
        if watch is not None:
            self._set_aside[name] = None
            watch.close()

    # --- waiting ---------------------------------------------------------------------------------

    async def wait(self) -> None:
        """Wait until something changes or an item is due. Do not await between `pop` and this."""
        if self.is_stale:
            return
        with anyio.move_on_after(self._until_due(self._heap[0][0]) if self._heap else None):
            await self._wake.wait()

    def _until_due(self, key: Key) -> float:
        due = self.names.due(key)
        return 0.0 if due is None else min(due - self._clock(), LONGEST_SLEEP)

    def _notify(self) -> None:
        self._wake.set()
        self._wake = anyio.Event()

    # --- looking ---------------------------------------------------------------------------------

    async def look(self) -> None:
        """List items and claims in one round trip, unless another caller does so meanwhile.

        Raises `ConnectionLossError`, `SessionExpiredError`, `ServerError`, `MixedLayoutError`. If a
        caller is cancelled, the next one lists them.
        """
        await self._look(lists=True)

    async def check_next(self) -> None:
        """Find out which of the next items are gone or claimed, in a round trip that callers share.

        Lists everything if none of them may be free, or if the order of the items may have changed.
        Raises and is cancelled as `look`.
        """
        await self._look(lists=self.names.is_strict)

    async def _look(self, *, lists: bool) -> None:
        """List everything, or check the next items. Wait if another caller does so already."""
        looks = self.looks
        async with self._looking:
            if self.looks != looks:
                return
            try:
                if lists or not await self._check():
                    await self._list()
            except BaseException:
                self._listed = -1  # a watch may not be armed again
                raise

    async def _check(self) -> bool:
        """Look at the claims and the next items; return whether one of those may be free."""
        client, count = self._client, CHECKED
        while self._heap and count <= MOST_CHECKED:
            names = [name for _, name in heapq.nsmallest(count, self._heap)]
            try:
                with client.pipelined():
                    claims = self._claimed.ask(client, self._on_event)
                    looks = [(name, client.exists(join(self.items_path, name))) for name in names]
                if claims is not None:
                    self._claimed.names = await claims
                found = {name for name, look in looks if await look is not None}
            except NoNodeError:
                return False  # the path of the claims
            self._take_check(found, {*names} - found)
            if found - self._of_others:
                return True
            count *= 2
        return False

    def _take_check(self, found: set[str], missing: set[str]) -> None:
        self.looks += 1
        self._gone |= missing
        self._of_others = set(self._claimed.names or []) - self._reserved
        self.is_contended = bool(self._of_others)
        for name in self._claimed_since - self._of_others:
            self._claimed_since.discard(name)
            self._offer(name)
        while self._heap and self._is_out(self._heap[0][1]):
            heapq.heappop(self._heap)

    async def _list(self) -> None:
        both = (self._claimed, self._present)
        missing = 0
        while True:
            changes = self._changes
            with self._client.pipelined():
                asked = [(each, each.ask(self._client, self._on_event)) for each in both]
            for listing, reply in asked:
                try:
                    if reply is not None:
                        listing.names = await reply
                except NoNodeError:
                    missing += 1
                    if missing > TRIES:
                        raise
                    path, mode = listing.path, listing.mode
                    await self._client.ensure_path(path, mode=mode, acl=self.acl)
                    break
            else:
                # Events come before the answers that show their changes: a list that was not
                # requested is still valid unless its watch has fired by now.
                if all(reply is not None or listing.is_known for listing, reply in asked):
                    await self._look_below()
                    await self._refuse_others()
                    await self._look_for_orphans()
                    self._listed = changes
                    self._take(self._present.names or [], set(self._claimed.names or []))
                    return

    async def _refuse_others(self) -> None:
        """Raise `MixedLayoutError` if contenders for something else are among the items."""
        others = {name for name in self._present.names or () if self._key(name) is None}
        new = others - self._others
        if new:
            await refuse_holders(self._client, self.items_path, sorted(new))
        self._others = others

    async def _look_for_orphans(self) -> None:
        """Look for claims that another process has left in our session, and delete those.

        They would exist for as long as our session does: such as the claim of an item that rests,
        if a detached session continues here.
        """
        client = self._client
        if client.backend.is_session_passed_on:

            def look_at(name: str) -> Reply[Stat | None]:
                claim = Fixed(client, join(self.claims_path, name), is_contended=True)
                look = client.exists(claim.path)
                look.add_done_callback(partial(self._orphan_shown, name, claim, look))
                return look

            await look_at_all(sorted(set(self._claimed.names or []) - self._reserved), look_at)

    def _orphan_shown(self, name: str, claim: Fixed, look: Reply[Stat | None]) -> None:
        stat = None if look.error() else look.result()
        if stat is not None and name not in self._reserved:
            claim.judge(stat, is_ours=False)

    def _take(self, items: list[str], claimed: set[str]) -> None:
        self.looks += 1
        self._invalid.intersection_update(items)
        for name in self._set_aside.keys() - set(items):
            self._forget_watch(name)
            del self._set_aside[name]
        self.is_contended = not claimed <= self._reserved
        self._of_others = claimed - self._reserved
        self._gone.clear()
        self._claimed_since.clear()
        free = set(items) - claimed
        self._passed_over = free & self._reserved
        self._heap = [
            (key, name) for name in free - self._passed_over if (key := self._key(name)) is not None
        ]
        heapq.heapify(self._heap)

    def _on_event(self, _event: WatchEvent) -> None:
        self._changes += 1
        self._notify()

    def _close_watches(self) -> None:
        self._claimed.close()
        self._present.close()
        for name in self._set_aside:
            self._forget_watch(name)
        self._listed = -1
