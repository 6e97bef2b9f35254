"""Numbers that processes share: a distributed counter, and numbers that are allocated once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import final

import anyio
import anyio.lowlevel

from ..abc import CoordinationClient
from ..errors import ConfigurationError, CounterOverflowError, SequenceExhaustedError
from ..model import ACL, Stat
from ..paths import join
from .codec import Codec, checked_codec, decoded, encoded
from .contender_queue import Contender, ContenderQueue
from .errors import ensure_path, until_answered
from .hold import acquire
from .layouts import Layout, Role
from .recipe import Recipe, checked_count, checked_path
from .shared_value import Contended, checked_rng, read, update, write

__all__ = ["Counter", "SequenceAllocator"]


class _IsOther(Exception):
    """The current number is not the expected one."""


@final
class Counter(Recipe):
    """A distributed counter. Curator's `DistributedAtomicLong`.

        counter = Counter(client, "/app/jobs")
        total = await counter.add(1)

    Each change is a compare-and-set, repeated after a random pause if another client was quicker.
    After `promote_after` failures the client queues for a lock, so that clients try one by one.
    A counter that is missing, or whose znode is empty, is 0; the first change creates it. Any
    number of tasks may use one object.

    A counter that is deleted while it is in use may lose changes, since versions restart.

    Args:
        codec: the number's format; defaults to `Codec.int64()`. Use `Codec.int32()` for Curator's
            `DistributedAtomicInteger`, `Codec.decimal()` for kazoo and aiozk.
        lock: the path of the lock (Curator's `PromotedToLock`); defaults to `<path>/lock`.
        promote_after: how many failures precede the lock; defaults to 5.

    The other arguments, and the errors, are those of `SharedValue`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        codec: Codec[int] | None = None,
        lock: str | None = None,
        promote_after: int = 5,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        self._codec = Codec.int64() if codec is None else checked_codec(codec)
        self._lock = join(path, "lock") if lock is None else checked_path(lock)
        if self._lock == path:
            raise ConfigurationError(f"lock: must not be the path of the counter: {lock!r}")
        self._promote_after = checked_count("promote_after", promote_after, least=0, most=1_000_000)
        self._rng = checked_rng(rng)

    async def get(self) -> int:
        """Return the number; `InvalidDataError` if malformed. May lag; see `SharedValue.get`."""
        return self._decoded(*await read(self._client, self._path))

    async def add(self, n: int = 1) -> int:
        """Add `n`, which may be negative, to the number; return the new one.

        Raises:
            CounterOverflowError: the new number does not fit the format; nothing was changed.
            InvalidDataError: the znode does not hold a number in this format.

        Cancellation: the last attempt may be applied. On connection loss: finds out whether it was
        applied, and retries if not. If the current number could be its own or another client's, it
        raises `ConnectionLossError` or `SessionExpiredError`, with the outcome `UNKNOWN`.
        """
        if not isinstance(n, int) or isinstance(n, bool):
            raise ConfigurationError(f"n: must be an int, not {n!r}")
        return await self._change(lambda value: value + n)

    async def compare_and_set(self, old: int, new: int) -> bool:
        """Set the number if it is `old`; return whether it was. Otherwise as `add`."""
        encoded(self._codec, new, name="new")

        def change(value: int) -> int:
            if value != old:
                raise _IsOther
            return new

        try:
            await self._change(change)
        except _IsOther:
            return False
        return True

    async def set(self, value: int) -> None:
        """Set the number unconditionally; concurrent additions may be lost.

        On connection loss: raises `ConnectionLossError`; it is safe to retry.
        """
        await write(self._client, self._path, encoded(self._codec, value), self._acl)

    def _decoded(self, data: bytes, stat: Stat | None) -> int:
        return decoded(self._codec, self._path, data, stat) if stat is not None and data else 0

    async def _change(self, change: Callable[[int], int]) -> int:
        new = 0

        def new_data(data: bytes, stat: Stat | None) -> bytes:
            nonlocal new
            new = change(self._decoded(data, stat))
            try:
                return encoded(self._codec, new)
            except ConfigurationError as error:
                raise CounterOverflowError(self._path, new, error.__cause__ or error) from None

        async def update_in(tries: int | None) -> int:
            client, path = self._client, self._path
            await update(client, path, new_data, rng=self._rng, acl=self._acl, tries=tries)
            return new

        with suppress(Contended):
            return await update_in(self._promote_after)
        # Creating the lock's path creates containers, which servers delete once empty. The
        # counter must not be one.
        await ensure_path(self._client, self._path, acl=self._acl)
        queue = ContenderQueue("Counter", self._client, self._lock, Layout.CURATOR, Role.LOCK)
        contender = Contender(queue, b"counter", self._acl)
        try:
            # The lock only reduces contention, so its loss may go unnoticed, and a slow holder is
            # overtaken.
            with anyio.move_on_after(self._client.session_timeout):
                await acquire(self._client, contender)
            return await update_in(None)
        finally:
            contender.discard()


LAST = (1 << 63) - 1


@final
class SequenceAllocator(Recipe):
    """Allocates numbers that are unique across all processes.

        orders = SequenceAllocator(client, "/app/orders", block=100)
        number = await orders.next()        # 1, 2, 3 ... : a request for every 100 of them
        numbers = await orders.take(500)    # a range: all of them at once
        stamp = await orders.stamp()        # one request; never repeated, whatever happens

    The numbers of one object rise from 1, by `next` and `take` alike; those of several objects
    interleave. There are gaps: numbers that a process has taken but not returned are lost with it,
    and so is a block whose answer was lost. No number is repeated unless the path is deleted. Then
    the count restarts at 1, except for objects that have counted before, which never go back.

    The path holds the last number taken: 8 bytes, as Curator's `CachedAtomicLong`. Processes with
    different block sizes may share a path. Any number of tasks may use one object.

    Args:
        path: the counter; `<path>/stamp` is for the stamps.
        block: how many numbers to take at once; defaults to 1.
        last: the last number to allocate; defaults to 2**63 - 1.

    The other arguments, and the errors, are those of `SharedValue`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        block: int = 1,
        last: int = LAST,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        self._block = checked_count("block", block, most=1 << 32)
        self._last = checked_count("last", last, most=LAST)
        self._rng = checked_rng(rng)
        self._codec = Codec.int64()
        self._cached = range(0)
        self._highest = 0
        """The highest number that this object has taken."""
        self._refill = anyio.Lock()

    def __repr__(self) -> str:
        return f"<SequenceAllocator {self._path}, {len(self._cached)} at hand>"

    @property
    def at_hand(self) -> int:
        """How many numbers are available without a request."""
        return len(self._cached)

    async def next(self) -> int:
        """Return a number that no other caller gets.

        Raises:
            SequenceExhaustedError: all numbers up to `last` were allocated.
            InvalidDataError: the path does not hold a number.

        Cancellation: loses one block of numbers at most. On connection loss: continues over the
        next connection, with other numbers if necessary.
        """
        return (await self._next(1, self._block))[0]

    async def take(self, count: int) -> range:
        """Return `count` consecutive numbers. Otherwise as `next`.

        It begins with those at hand. If they are too few, and another object has taken the numbers
        behind them, they are given up: later numbers never are less than earlier ones.
        """
        checked_count("count", count, most=1 << 32)
        return await self._next(count, count)

    async def _next(self, count: int, most: int) -> range:
        """Return the next `count` numbers; if they are not at hand, take up to `most`."""
        await anyio.lowlevel.checkpoint()
        while len(self._cached) < count:
            async with self._refill:
                if len(self._cached) < count:
                    # No other task may take these numbers while this one takes more.
                    before, self._cached = self._cached, range(0)
                    try:
                        self._cached = await self._take(count, most, before)
                    except BaseException:
                        self._cached = before
                        raise
        numbers, self._cached = self._cached[:count], self._cached[count:]
        return numbers

    async def _take(self, least: int, most: int, before: range) -> range:
        """Take as many numbers as are left, from `least` to `most`, with those of `before`.

        Without those of `before` if the numbers behind them are not the next ones.
        """
        start = end = 0

        def advance(data: bytes, stat: Stat | None) -> bytes:
            nonlocal start, end, before
            taken = 0
            if stat is not None and data:
                taken = decoded(self._codec, self._path, data, stat)
            # The count of a deleted path restarts. This object never goes back.
            start = max(taken, self._highest, 0)
            if start != before.stop - 1:
                before = range(0)
            end = min(start + most - len(before), self._last)
            if end - start < least - len(before):
                raise SequenceExhaustedError(self._path, last=self._last)
            return self._codec.encode(end)

        async def take() -> range:
            await update(self._client, self._path, advance, rng=self._rng, acl=self._acl)
            self._highest = max(self._highest, end)
            return range(start + 1 - len(before), end + 1)

        # The numbers of a block that was taken without an answer are lost.
        return await until_answered(self._client, take)

    async def stamp(self) -> int:
        """Return a number that no path of the ensemble ever returns again, by one request.

        It is a transaction id: it rises over the whole ensemble in large steps, unrelated to `next`
        and not bounded by `last`. No stamp is repeated, even if the path is deleted; only a new
        ensemble restarts. On connection loss: continues over the next connection, with another
        transaction.
        """
        client, path = self._client, join(self._path, "stamp")
        stat = await until_answered(client, lambda: write(client, path, b"", self._acl))
        return stat.mzxid
