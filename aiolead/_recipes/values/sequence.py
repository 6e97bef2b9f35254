"""Numbers that are given out once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import final

import anyio
import anyio.lowlevel

from ...abc import CoordinationClient
from ...errors import AioleadError, SequenceExhaustedError
from ...model import ACL
from ...paths import join
from .._core.arguments import checked_acl, checked_client, checked_count, checked_path
from .._core.error_policy import Step, before_next_try
from .codec import Codec, decoded
from .optimistic import checked_rng, compare_and_set, pause, read, write

LAST = (1 << 63) - 1
"""The last number of the format."""

STAMP = "stamp"


@final
class SequenceAllocator:
    """Numbers that are given out once, to whoever asks, in any process.

        orders = SequenceAllocator(client, "/app/orders", block=100)
        number = await orders.next()        # 1, 2, 3 ... : a request for every 100 of them
        numbers = await orders.take(500)    # a range: all of them at once
        stamp = await orders.stamp()        # one request, never the same again whatever happens

    Numbers rise from 1, in each process; those of several processes mix. They have gaps: what a
    process has taken and not given out is lost with it, and so is a block whose answer was lost.
    None is given out twice as long as the path is not deleted: then the count starts anew, but for
    those that have counted before, which never go back.

    The path holds the last number that was taken: 8 bytes, as Curator's `CachedAtomicLong` has it.
    Processes with different block sizes may use one path. One object may be used by any number of
    tasks.

    Args:
        client: the session.
        path: the counter; `stamp` below it is for the stamps.
        block: how many numbers to take at once.
        last: the last number to give out.
        rng: for pauses; one of its own unless given.
        acl: of what has to be created; everybody everything by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
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
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._block = checked_count("block", block, most=1 << 32)
        self._last = checked_count("last", last, most=LAST)
        self._rng = checked_rng(rng)
        self._acl = checked_acl(acl)
        self._codec = Codec.int64()
        self._cached = range(0)
        self._highest = 0
        """The highest number that we have seen taken."""
        self._refill = anyio.Lock()

    def __repr__(self) -> str:
        return f"<SequenceAllocator {self._path}, {len(self._cached)} at hand>"

    @property
    def path(self) -> str:
        """The counter."""
        return self._path

    @property
    def at_hand(self) -> int:
        """How many numbers can be given out without asking."""
        return len(self._cached)

    async def next(self) -> int:
        """A number that nobody else gets.

        Raises:
            SequenceExhaustedError: all are given out, up to `last`.
            InvalidDataError: what the path holds is no number.

        Cancellation: loses a block of numbers at most.

        On connection loss: goes on over the next one, with other numbers if it has to. In the end
        it has one, or the client has come to its end.
        """
        await anyio.lowlevel.checkpoint()
        while not self._cached:
            async with self._refill:
                if not self._cached:
                    self._cached = await self._take(1, self._block)
        number, self._cached = self._cached[0], self._cached[1:]
        return number

    async def take(self, count: int) -> range:
        """So many numbers in a row, that nobody else gets. Those at hand stay there.

        Raises, cancellation, on connection loss: as `next`.
        """
        checked_count("count", count, most=1 << 32)
        return await self._take(count, count)

    async def _take(self, least: int, most: int) -> range:
        """From `least` to `most` numbers, as many as there are."""
        failures = 0
        while True:
            try:
                data, stat = await read(self._client, self._path)
                taken = 0
                if stat is not None and data:
                    taken = decoded(self._codec, self._path, data, stat)
                # A path that was deleted and made anew begins at the start. We do not.
                start = max(taken, self._highest, 0)
                end = min(start + most, self._last)
                if end - start < least:
                    raise SequenceExhaustedError(self._path, last=self._last)
                written = self._codec.encode(end)
                if await compare_and_set(self._client, self._path, written, stat, self._acl):
                    self._highest = max(self._highest, end)
                    return range(start + 1, end + 1)
            except AioleadError as error:
                # If they were taken, nobody gets them.
                await before_next_try(self._client, error, Step.FOLLOW)
            failures += 1
            await anyio.sleep(pause(self._rng, failures))

    async def stamp(self) -> int:
        """A number that is never given out again, by any path of the ensemble: one request.

        It is the id of a transaction: it rises, and does so over the whole ensemble, in large
        steps. It is not one of the numbers of `next`, and not bounded by `last`. None is repeated,
        even if the path is deleted; only an ensemble that is set up anew begins anew.

        On connection loss: goes on over the next one, with another transaction.
        """
        while True:
            try:
                stat = await write(self._client, join(self._path, STAMP), b"", self._acl)
            except AioleadError as error:
                await before_next_try(self._client, error, Step.FOLLOW)
            else:
                return stat.mzxid
