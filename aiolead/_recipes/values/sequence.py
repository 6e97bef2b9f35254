"""Numbers that are allocated once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import final

import anyio
import anyio.lowlevel

from ...abc import CoordinationClient
from ...errors import AioleadError, SequenceExhaustedError
from ...model import ACL, Stat
from ...paths import join
from .._core.arguments import checked_count
from .._core.error_policy import Step, before_next_try
from .._core.recipe import Recipe
from .codec import Codec, decoded
from .optimistic import checked_rng, update, write

LAST = (1 << 63) - 1

STAMP = "stamp"


@final
class SequenceAllocator(Recipe):
    """Allocates numbers that are unique across all processes.

        orders = SequenceAllocator(client, "/app/orders", block=100)
        number = await orders.next()        # 1, 2, 3 ... : a request for every 100 of them
        numbers = await orders.take(500)    # a range: all of them at once
        stamp = await orders.stamp()        # one request; never repeated, whatever happens

    Numbers rise from 1 in each process; those of several processes interleave. There are gaps:
    numbers that a process has taken but not returned are lost with it, and so is a block whose
    answer was lost. No number is repeated unless the path is deleted. Then the count restarts at 1,
    except in processes that have counted before, which never go back.

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
        super().__init__(client, path, acl)
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
        await anyio.lowlevel.checkpoint()
        while not self._cached:
            async with self._refill:
                if not self._cached:
                    self._cached = await self._take(1, self._block)
        number, self._cached = self._cached[0], self._cached[1:]
        return number

    async def take(self, count: int) -> range:
        """Return `count` consecutive numbers; those at hand stay there. Otherwise as `next`."""
        checked_count("count", count, most=1 << 32)
        return await self._take(count, count)

    async def _take(self, least: int, most: int) -> range:
        """Take as many numbers as are left, from `least` to `most`."""
        start = end = 0

        def advance(data: bytes, stat: Stat | None) -> bytes:
            nonlocal start, end
            taken = 0
            if stat is not None and data:
                taken = decoded(self._codec, self._path, data, stat)
            # The count of a deleted path restarts; ours never goes back.
            start = max(taken, self._highest, 0)
            end = min(start + most, self._last)
            if end - start < least:
                raise SequenceExhaustedError(self._path, last=self._last)
            return self._codec.encode(end)

        while True:
            try:
                await update(self._client, self._path, advance, rng=self._rng, acl=self._acl)
            except AioleadError as error:
                # If the block was taken, its numbers are lost.
                await before_next_try(self._client, error, Step.FOLLOW)
            else:
                self._highest = max(self._highest, end)
                return range(start + 1, end + 1)

    async def stamp(self) -> int:
        """Return a number that no path of the ensemble ever returns again, by one request.

        It is a transaction id: it rises over the whole ensemble in large steps, unrelated to `next`
        and not bounded by `last`. No stamp is repeated, even if the path is deleted; only a new
        ensemble restarts. On connection loss: continues over the next connection, with another
        transaction.
        """
        while True:
            try:
                stat = await write(self._client, join(self._path, STAMP), b"", self._acl)
            except AioleadError as error:
                await before_next_try(self._client, error, Step.FOLLOW)
            else:
                return stat.mzxid
