"""A number that everybody counts with: the data of one znode."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import final

import anyio

from ...abc import CoordinationClient
from ...errors import ConfigurationError, CounterOverflowError
from ...model import ACL, Stat
from ...paths import join
from .._core.arguments import checked_acl, checked_client, checked_count, checked_path
from ..contention.contender import Contender
from ..contention.layouts import Layout, Role
from .codec import Codec, checked_codec, decoded, encoded
from .optimistic import checked_rng, compare_and_set, pause, read, write


@final
class Counter:
    """A number that everybody counts with. Curator's `DistributedAtomicLong`.

        counter = Counter(client, "/app/jobs")
        total = await counter.add(1)

    Each change is a compare-and-set, repeated after a random pause where somebody was quicker.
    Under contention that is promoted to a lock, so that one at a time tries, first come first
    served. A counter that does not exist, or whose znode is empty, is 0; the first change creates
    it. One object may be used by any number of tasks.

    A counter that is deleted while it is in use may lose changes, since versions start anew then.

    Args:
        client: the session.
        path: the znode.
        codec: how the number is written: `Codec.int64()` unless given; `Codec.int32()` for
            Curator's `DistributedAtomicInteger`, `Codec.decimal()` for those of kazoo and aiozk.
        lock: the path of the lock; `lock` below the counter unless given. (What Curator's
            `PromotedToLock` is given.)
        promote_after: after how many failures the lock is taken.
        rng: for the pauses; one of its own unless given.
        acl: of what has to be created; everybody everything by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
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
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._codec = Codec.int64() if codec is None else checked_codec(codec)
        self._lock = join(path, "lock") if lock is None else checked_path(lock)
        if self._lock == path:
            raise ConfigurationError("lock: must be another path than that of the counter")
        self._promote_after = checked_count("promote_after", promote_after, least=0, most=1_000_000)
        self._rng = checked_rng(rng)
        self._acl = checked_acl(acl)

    def __repr__(self) -> str:
        return f"<Counter {self._path}>"

    @property
    def path(self) -> str:
        """The znode."""
        return self._path

    async def get(self) -> int:
        """The number, as the connected server has it, which may be a moment behind.

        `await client.sync()` before it where that matters.

        Raises:
            InvalidDataError: what is there is no number of this format.
        """
        return (await self._read())[0]

    async def add(self, n: int = 1) -> int:
        """Adds to the number, and gives the new one.

        Args:
            n: how much; negative to subtract.

        Raises:
            CounterOverflowError: the format has no such number; nothing was changed.
            InvalidDataError: what is there is no number of this format.

        Cancellation: the last try may be applied.

        On connection loss: finds out whether it was applied, and if not, tries again. If the number
        that it finds could be its own or another one's, it raises `ConnectionLossError` (or
        `SessionExpiredError`), with the outcome `UNKNOWN`.
        """
        if not isinstance(n, int) or isinstance(n, bool):
            raise ConfigurationError(f"n: must be an int, not {n!r}")
        return await self._change(lambda value: value + n)

    async def compare_and_set(self, old: int, new: int) -> bool:
        """Sets the number if it is `old`; says whether it was.

        Raises, cancellation, on connection loss: as `add`.
        """
        encoded(self._codec, new, name="new")
        was_old = True

        def change(value: int) -> int | None:
            nonlocal was_old
            was_old = value == old
            return new if was_old else None

        await self._change(change)
        return was_old

    async def set(self, value: int) -> None:
        """Sets the number, whatever it was: what others add at this moment may be lost by that.

        On connection loss: raises `ConnectionLossError`; nothing speaks against doing it again.
        """
        await write(self._client, self._path, encoded(self._codec, value), self._acl)

    # --- changing ------------------------------------------------------------------------------

    async def _read(self) -> tuple[int, Stat | None]:
        data, stat = await read(self._client, self._path)
        if stat is None or not data:
            return 0, stat
        return decoded(self._codec, self._path, data, stat), stat

    async def _change(self, change: Callable[[int], int | None]) -> int:
        """Reads, changes and sets, until nobody comes in between. None leaves it as it is."""
        for failures in range(self._promote_after):
            await anyio.sleep(pause(self._rng, failures))
            done = await self._try(change)
            if done is not None:
                return done
        # The line is made of containers, which servers delete once they are empty. No counter is.
        await self._client.ensure_path(self._path, acl=self._acl)
        contender = Contender(
            self._client, self._lock, Layout.CURATOR, Role.LOCK, b"counter", acl=self._acl
        )
        try:
            # It only spares us the others: nothing depends on its being held. So its loss goes
            # unnoticed, and who holds it for long is passed by.
            with anyio.move_on_after(self._client.session_timeout):
                await contender.reach_front()
            failures = 0
            while (done := await self._try(change)) is None:
                failures += 1
                await anyio.sleep(pause(self._rng, failures))
            return done
        finally:
            contender.discard()

    async def _try(self, change: Callable[[int], int | None]) -> int | None:
        """One try; None if somebody was quicker."""
        value, stat = await self._read()
        new = change(value)
        if new is None:
            return value
        try:
            data = encoded(self._codec, new)
        except ConfigurationError as error:
            raise CounterOverflowError(self._path, new, error.__cause__ or error) from None
        stat = await compare_and_set(self._client, self._path, data, stat, self._acl)
        return None if stat is None else new
