"""Values that processes share, each the data of one znode: any value, a counter, an allocator.

A change is an optimistic update: it reads, changes, and writes unless another client has written in
between. The rate limit, the configuration and the semaphore change their znodes by the same
functions.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast, final, overload

import anyio
import anyio.lowlevel

from .._util.escaping import described
from .._util.misuse import check_callback
from ..abc import CoordinationClient
from ..errors import (
    BadVersionError,
    ConfigurationError,
    ConnectionLossError,
    CounterOverflowError,
    InvalidDataError,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyError,
    Outcome,
    SequenceExhaustedError,
    SessionExpiredError,
    TransactionError,
)
from ..model import ACL, CreateMode, Stat
from ..paths import join, parent
from .codec import Codec, ValidObservation, ValidView, checked_codec, decoded, encoded
from .contender_queue import Contender, ContenderQueue
from .errors import TRIES, ensure_path, until_answered, with_parent
from .hold import acquire
from .layouts import Layout, Role
from .reading import caught_up, over_sessions, read_data
from .recipe import OnInvalid, Recipe, checked_count, checked_on_invalid, checked_path
from .view import Reading

__all__ = ["Counter", "SequenceAllocator", "SharedValue"]
__types__ = ["SharedValueView", "Versioned"]

R = TypeVar("R")

PAUSE = 0.005
"""The upper limit of the first pause between two attempts, in seconds; it doubles each time."""

LONGEST_PAUSE = 0.25
"""The greatest upper limit, in seconds."""


class Contended(Exception):
    """Other clients were quicker in all attempts. Never leaves the recipes."""


class Verdict(enum.Enum):
    """The conclusion from the present state about a write whose answer was lost."""

    NOT_YET = enum.auto()
    """Nobody has written: it was not applied, but may still be in flight."""
    NOT_APPLIED = enum.auto()
    """Another client has written under the same condition: it will never be applied."""
    UNKNOWN = enum.auto()


def checked_rng(rng: random.Random | None) -> random.Random:
    if rng is not None and not isinstance(rng, random.Random):
        raise ConfigurationError(f"rng: must be a random.Random, not {rng!r}")
    return rng or random.Random()  # noqa: S311 - for pauses


# --- the loop ------------------------------------------------------------------------------------


async def until_first(
    attempt: Callable[[], Awaitable[R | None]], rng: random.Random, *, tries: int | None = None
) -> R:
    """Repeat an attempt while it returns None; `Contended` after `tries` of them.

    The pauses are random, up to a limit that doubles. A single failure shows no contention yet.
    """
    failures = 0
    while tries is None or failures < tries:
        longest = min(LONGEST_PAUSE, PAUSE * 2.0 ** min(failures - 2, 30))
        await anyio.sleep(rng.uniform(0.0, longest) if failures > 1 else 0.0)
        result = await attempt()
        if result is not None:
            return result
        failures += 1
    raise Contended


async def settled(
    write: Callable[[], Awaitable[R | None]], look: Callable[[], Awaitable[R | Verdict]]
) -> R | None:
    """Make a conditional write, and find out its outcome if the answer was lost.

    `write` sends it, always under the same condition, and returns None if that does not hold.
    `look` returns a verdict on all writes sent, or the result. None means that another client was
    quicker and nothing was applied; the verdict `UNKNOWN` raises the error that lost the answer.
    """
    doubt: ConnectionLossError | SessionExpiredError | None = None
    while True:
        result: R | None = None
        try:
            result = await write()
        except NotReadOnlyError:
            if doubt is None:
                raise
        except (ConnectionLossError, SessionExpiredError) as lost:
            if lost.outcome is Outcome.UNKNOWN:
                doubt = lost
            elif doubt is None:
                raise
        if result is not None or doubt is None:
            return result
        verdict = await look()
        if not isinstance(verdict, Verdict):
            return verdict
        if verdict is Verdict.UNKNOWN:
            raise doubt
        if verdict is Verdict.NOT_APPLIED:
            return None
        # Send it again under the same condition: if the first was only late, one of them fails.


# --- the data of a znode -------------------------------------------------------------------------


async def read(client: CoordinationClient, path: str) -> tuple[bytes, Stat | None]:
    """Return the data and `Stat` of a znode; the `Stat` is None if it does not exist."""
    return await over_sessions(client, partial(read_data, client, path))


async def update(
    client: CoordinationClient,
    path: str,
    change: Callable[[bytes, Stat | None], bytes],
    *,
    rng: random.Random,
    acl: Sequence[ACL] | None,
    tries: int | None = None,
) -> Stat:
    """Read, change and set the data of a znode, until no other client has written in between.

    `change` gets what `read` returns, at each attempt. Missing znodes are created. Raises
    `Contended` after `tries` conflicts, otherwise as `compare_and_set`.
    """

    async def attempt() -> Stat | None:
        data, stat = await read(client, path)
        return await compare_and_set(client, path, change(data, stat), stat, acl)

    return await until_first(attempt, rng, tries=tries)


async def compare_and_set(
    client: CoordinationClient,
    path: str,
    data: bytes,
    expected: Stat | None,
    acl: Sequence[ACL] | None,
) -> Stat | None:
    """Set the data of a znode unless it has changed since `expected` (None: it was missing).

    Returns None, and applies nothing, if it has changed. If the answer is lost, it finds out
    whether the write was applied, and retries if not. It raises `ConnectionLossError` or
    `SessionExpiredError` if the present state does not show it: another client's equal data look
    like its own.
    """

    async def conditional() -> Stat | None:
        if expected is None:
            return await _create(client, path, data, acl)
        try:
            return await _set_at(client, path, data, expected.version)
        except (BadVersionError, NoNodeError):
            return None

    return await settled(conditional, partial(_look, client, path, data, expected))


async def _set_at(client: CoordinationClient, path: str, data: bytes, version: int) -> Stat:
    """Set the data of a znode that has a version, also if that is -1.

    A version continues at -2^31 after 2^31 - 1. So a busy znode comes to -1 in the end (not on
    servers with ZOOKEEPER-4743), by which a request means any version.
    """
    if version != -1:
        return await client.set(path, data, version=version)
    # The write raises the version to 0, so the condition can follow it.
    try:
        written = await client.transaction().set(path, data).check(path, version=0)
    except TransactionError as error:
        raise error.cause from None
    return cast(Stat, written[0])


async def _look(
    client: CoordinationClient, path: str, data: bytes, expected: Stat | None
) -> Verdict:
    now, stat = await caught_up(client, path, partial(read_data, client, path))
    if stat is None:
        # A znode that was deleted since may have had the data.
        return Verdict.NOT_YET if expected is None else Verdict.UNKNOWN
    if expected is not None:
        if stat.czxid != expected.czxid:
            return Verdict.UNKNOWN
        if stat.mzxid == expected.mzxid:
            return Verdict.NOT_YET
    writes = stat.version - (-1 if expected is None else expected.version) & 0xFFFF_FFFF
    return Verdict.NOT_APPLIED if writes == 1 and now != data else Verdict.UNKNOWN


async def write(
    client: CoordinationClient,
    path: str,
    data: bytes,
    acl: Sequence[ACL] | None,
    *,
    parents: CreateMode = CreateMode.PERSISTENT,
) -> Stat:
    """Set the data of a znode unconditionally; create what is missing. It is safe to retry."""
    for _ in range(TRIES):
        try:
            return await client.set(path, data)
        except NoNodeError:
            stat = await _create(client, path, data, acl, parents)
            if stat is not None:
                return stat
    return await client.set(path, data)


async def _create(
    client: CoordinationClient,
    path: str,
    data: bytes,
    acl: Sequence[ACL] | None,
    parents: CreateMode = CreateMode.PERSISTENT,
) -> Stat | None:
    """Create a znode and missing parents; None if it exists already."""

    async def create() -> Stat | None:
        try:
            return (await client.create(path, data, acl=acl)).stat
        except NodeExistsError:
            return None

    return await with_parent(client, parent(path), create, mode=parents, acl=acl)


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T_co]):
    """A value with the `Stat` of its znode, or the default with None if there is no znode."""

    value: T_co
    stat: Stat | None

    @property
    def version(self) -> int:
        """The version of the znode's data; -1 if the znode does not exist."""
        return -1 if self.stat is None else self.stat.version


@final
class SharedValue(Recipe, Generic[T]):
    """A value that several processes share. Curator's `SharedValue`, `SharedCount`.

        limit = SharedValue(client, "/app/limit", 10, codec=Codec.int32())
        now = await limit.get()
        await limit.set(20)
        if await limit.compare_and_set(now, now.value + 1) is None:
            ...  # another client was quicker
        async with limit.observe() as view:
            async for value in view: ...

    The first write creates the znode; until then the value is the default. Any number of tasks may
    use one object.

    Args:
        client: the session.
        path: the znode.
        default: the value while the znode does not exist.
        codec: the value's format; defaults to unchanged bytes.
        on_invalid: called with the error when `observe` skips data that the codec refuses, once for
            each write. Without it the error ends the view. It runs in the client's task: keep it
            quick. Its exceptions are logged.
        rng: for the random pauses between attempts.
        acl: of created znodes; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    @overload
    def __init__(
        self: SharedValue[bytes],
        client: CoordinationClient,
        path: str,
        default: bytes = b"",
        *,
        on_invalid: OnInvalid | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        default: T,
        *,
        codec: Codec[T],
        on_invalid: OnInvalid | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        default: Any = b"",
        *,
        codec: Codec[Any] | None = None,
        on_invalid: OnInvalid | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        self._codec = cast(Codec[T], Codec.raw() if codec is None else checked_codec(codec))
        encoded(self._codec, default, name="default")
        self._default: T = default
        self._on_invalid = checked_on_invalid(on_invalid)
        self._rng = checked_rng(rng)

    async def get(self) -> Versioned[T]:
        """Return the value. The server may lag: call `client.sync()` first where that matters.

        Raises `InvalidDataError` if the codec refuses the data.
        """
        return self._understood(*await read(self._client, self._path))

    async def set(self, value: T) -> Versioned[T]:
        """Set the value unconditionally. It is safe to retry after `ConnectionLossError`."""
        data = encoded(self._codec, value)
        return Versioned(value, await write(self._client, self._path, data, self._acl))

    async def compare_and_set(self, expected: Versioned[T], value: T) -> Versioned[T] | None:
        """Set the value if nobody has changed it since; return None if somebody has.

        `expected` is the result of the last read or write; version -1 stands for no znode. Versions
        restart when the znode is deleted and created again: a write meant for the old one may
        succeed.

        On connection loss: finds out whether it was applied, and retries if not. If the value is
        there already, or has changed more than once, the writer is unknown. Then it raises
        `ConnectionLossError` or `SessionExpiredError`, with the outcome `UNKNOWN`.
        """
        data = encoded(self._codec, value)
        if not isinstance(expected, Versioned):
            raise ConfigurationError(
                f"expected: must be the result of a read or write, not {described(expected)}"
            )
        stat = await compare_and_set(self._client, self._path, data, expected.stat, self._acl)
        return None if stat is None else Versioned(value, stat)

    async def update(self, change: Callable[[T], T]) -> Versioned[T]:
        """Read the value, change it and set it, until no other client has written in between.

        `change` makes the new value from the old one, once for each attempt. Raises
        `InvalidDataError` if the codec refuses the data. Cancellation: the last attempt may be
        applied. On connection loss: as `compare_and_set`.
        """
        check_callback("change", change, "value")
        value = self._default

        def new_data(data: bytes, stat: Stat | None) -> bytes:
            nonlocal value
            value = change(self._understood(data, stat).value)
            return encoded(self._codec, value)

        stat = await update(self._client, self._path, new_data, rng=self._rng, acl=self._acl)
        return Versioned(value, stat)

    def observe(self) -> SharedValueView[T]:
        """Return a view of the latest value: `async with value.observe() as view`."""
        return SharedValueView(self._client, self)

    def _understood(self, data: bytes, stat: Stat | None) -> Versioned[T]:
        if stat is None:
            return Versioned(self._default, None)
        return Versioned(decoded(self._codec, self._path, data, stat), stat)


@final
class SharedValueView(ValidView[T]):
    """A view of a `SharedValue`: a write of an equal value counts as a change. See `View`."""

    def __init__(self, client: CoordinationClient, shared: SharedValue[T]) -> None:
        super().__init__(client, shared.path, shared._on_invalid)
        self._shared = shared

    @property
    def versioned(self) -> Versioned[T]:
        """The latest value, with its version."""
        return Versioned(self._observed.value, self._observed.stat)

    async def _read(self, reading: Reading[T]) -> ValidObservation[T]:
        shared = self._shared
        data, stat = await read_data(self._client, self._path, reading.watch(self._path))
        written = _NEVER if stat is None else stat.mzxid
        try:
            found = shared._understood(data, stat)
        except InvalidDataError as error:
            if self._on_invalid is None:
                raise
            if self._count:
                return self._observed.skipping(error, written)
            # As if the znode did not exist.
            missing = ValidObservation(shared._default, _NEVER, -1, None, _NEVER)
            return missing.skipping(error, written)
        return ValidObservation(found.value, written, found.version, stat, written)


_NEVER = -1
"""The transaction id of a write that nobody has made."""


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
