"""A distributed counter: the data of one znode."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import final

import anyio

from ...abc import CoordinationClient
from ...errors import ConfigurationError, CounterOverflowError
from ...model import ACL, Stat
from ...paths import join
from .._core.arguments import checked_count, checked_path
from .._core.recipe import Recipe
from ..contention.contender import Contender
from ..contention.layouts import Layout, Role
from .codec import Codec, checked_codec, decoded, encoded
from .optimistic import Contended, checked_rng, read, update, write


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
        super().__init__(client, path, acl)
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
        await self._client.ensure_path(self._path, acl=self._acl)
        contender = Contender(
            self._client, self._lock, Layout.CURATOR, Role.LOCK, b"counter", acl=self._acl
        )
        try:
            # The lock only reduces contention, so its loss may go unnoticed, and a slow holder is
            # overtaken.
            with anyio.move_on_after(self._client.session_timeout):
                await contender.acquire()
            return await update_in(None)
        finally:
            contender.discard()
