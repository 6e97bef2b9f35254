"""A rate limit that processes share: a token bucket, the data of one znode.

Each write is a compare-and-set that takes tokens. The servers' time of the write (`mtime`) says how
many tokens have come since the write before it, so the writer learns from the answer what it got.
Two writes of different leaders have the times of two machines: no token comes between them. On
ClickHouse Keeper and RaftKeeper, the time is that of the server that a client is connected to, and
no number shows which one. So a time counts only if it is later than all before it: then the tokens
are those of one clock, the fastest.

A *share* is what one write took. Its tokens become due one after the other, the first ones at once
if the bucket has them. A token is used within `max_age` seconds after it is due, or never. Each
process measures that by its own clock: the write happened between its request and its answer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import anyio
import anyio.lowlevel

from .._util.escaping import in_seconds
from .._util.token_bucket import LEAST, MOST, MOST_CALLS, Numbers, Write
from ..abc import CoordinationClient
from ..errors import (
    AcquireTimeout,
    ConfigurationError,
    MixedLayoutError,
    NoNodeError,
)
from ..model import ACL, Stat
from .errors import at_once, until_answered
from .recipe import Recipe, checked_count, checked_number, checked_wait
from .reporting import PathWarnings
from .values import checked_rng, compare_and_set, read, until_first, update

__all__ = ["RateLimit"]

GRAIN = 0.001
"""The servers' times are whole milliseconds, in seconds."""

LONGEST_SLEEP = 3600.0  # seconds: event loops refuse very long ones


def _checked(rate: float, per: float, burst: int | None) -> Numbers:
    """Check a caller's numbers; `burst` defaults to `rate`, rounded up."""
    rate = checked_number("rate", rate, least=LEAST, most=MOST)
    per = checked_number("per", per, least=LEAST, most=MOST)
    if burst is None:
        burst = math.ceil(rate)
    return Numbers(rate, per, checked_count("burst", burst, most=MOST_CALLS))


@dataclass(slots=True)
class Share:
    """The tokens that one write took, by this process's clock.

    Attributes:
        numbers: those of the limit as of the write.
        lack: how many tokens the bucket lacked before it.
        count: how many it took.
        sent: when the request was sent, so before the write.
        answered: when the answer arrived, so after the write.
        given: how many were used, or are too old.
    """

    numbers: Numbers
    lack: float
    count: int
    sent: float
    answered: float
    given: int = 0

    def ready(self, n: int, now: float, max_age: float) -> float | None:
        """When the next `n` tokens may be used; None if there are none. Drops those too old.

        Tokens that are used together are due with the last of them.
        """
        if self.is_late(max_age):
            self.given = self.count
        too_old = now - self.sent - (max_age - GRAIN)
        if too_old > 0.0:
            # The first that is left is due `too_old` seconds after the write, or later.
            numbers = self.numbers
            first = too_old * numbers.speed + numbers.burst - self.lack - n
            self.given = max(self.given, math.ceil(min(first, self.count)))
        if self.given + n > self.count:
            return None
        return self.answered + self.numbers.wait(self.lack + self.given + n)

    def is_late(self, max_age: float) -> bool:
        """Whether no token can be used, since the answer came too late."""
        return self.answered - self.sent > max_age - GRAIN

    def earliest(self, n: int) -> float:
        """Before that time nobody gets `n` tokens beyond these, whatever others have taken."""
        return self.sent + self.numbers.wait(self.lack + self.count + n)


NOTHING = Share(Numbers(1.0, 1.0, 1), 0.0, 0, -math.inf, -math.inf)


@final
class RateLimit(Recipe):
    """A limit on calls per time that all processes share: a token bucket.

        limit = RateLimit(client, "/limits/api", rate=100, per=60)
        await limit.acquire()                  # waits until one more call is allowed
        if await limit.try_acquire():          # does not wait
            ...

    In any `t` seconds, all processes together get at most `burst + rate * (t + max_age) / per`
    calls, unless the clock of the servers' leader (with ClickHouse Keeper: of any server) is set
    forward, or those of Keeper's servers are more than a minute apart. They get fewer if something
    fails: tokens that a process has taken and not used are lost with it.

    A write takes tokens for all tasks that wait on the object, and for the calls of the next half
    of `max_age`, as many as there were lately. Nothing is written while nobody asks. Tasks of one
    object are served in order of arrival, so use one object for all of them.

    Args:
        client: the session. If it expires, no token is lost or counted twice.
        path: the znode. It is created full; if it is deleted, it begins full again.
        rate: calls in `per` seconds. Without it, the numbers that are stored count.
        per: seconds; defaults to 1.
        burst: how many calls may come at once after a quiet time; defaults to `rate`, rounded up.
        max_age: for how many seconds a token may be kept before it is dropped; defaults to 1. It
            must exceed the time of a write. Greater: fewer requests. Smaller: more exact.
        rng: for the random pauses between attempts.
        acl: of created znodes; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        rate: float | None = None,
        per: float = 1.0,
        burst: int | None = None,
        max_age: float = 1.0,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        if rate is None and (burst is not None or per != 1.0):
            raise ConfigurationError("rate: is missing; pass it with `per` and `burst`")
        self._numbers = None if rate is None else _checked(rate, per, burst)
        self._next: Numbers | None = None
        """Those that `set_rate` is storing; also after it was cancelled: they may be stored."""
        self._setting = anyio.Lock()
        self._max_age = checked_number("max_age", max_age, least=10 * GRAIN, most=MOST)
        self._rng = checked_rng(rng)
        self._now = self._client.backend.events.now
        self._turn = anyio.Lock()
        """Held by the task that takes a share, or waits for tokens; the others wait behind it."""
        self._is_waiting = False
        """Whether the task whose turn it is waits for tokens that are due later."""
        self._tries: dict[anyio.CancelScope, int] = {}
        """The tries, each with its number of calls: they end as soon as such a wait begins."""
        self._share = NOTHING
        self._last: tuple[Write, Stat] | None = None
        """The znode after this object's last write."""
        self._is_alone = False
        """Whether that is likely its present state: saves the read while nobody else writes."""
        self._wanted = 0
        """How many tokens the tasks wait for, without the tries."""
        self._used = 0
        """How many tokens were used since the last share was taken, at `_since`."""
        self._since = -math.inf
        self._slept = 0.0
        """For how long a task has waited for them since then."""

    async def acquire(self, n: int = 1, *, timeout: float | None = None) -> None:
        """Wait until `n` more calls are allowed, and count them.

        Args:
            n: how many calls, at most `burst`; they are allowed together.
            timeout: how long to wait, in seconds; defaults to any time. 0 is a `try_acquire`.

        Raises:
            AcquireTimeout: they are not allowed within `timeout`. Raised at once if that is known.
            MixedLayoutError: the path has other numbers than this object.
            NoNodeError: no numbers were passed, and none are stored.
            InvalidDataError: the znode does not hold a rate limit.
            ConfigurationError: `n` is malformed, or more than `burst`.

        Cancellation: calls that were granted meanwhile are left to the next task, or lost. On
        connection loss: tokens at hand are used; then it waits for a connection, until `timeout`. A
        share whose answer was lost is lost.
        """
        self._check(n)
        wait = checked_wait(timeout)
        is_granted = await (self.try_acquire(n) if wait == 0.0 else self._wait_for(n, wait))
        if not is_granted:
            raise AcquireTimeout(f"{self!r}: {n} calls are not allowed within {in_seconds(wait)}")

    async def try_acquire(self, n: int = 1) -> bool:
        """Count `n` more calls if they are allowed now; return whether they are.

        It may ask the servers, and waits for their answer, but not for tokens. Tasks of this object
        that asked before are served before; if one of them waits for tokens, it returns False.
        Otherwise as `acquire`, but on connection loss: if none is at hand, raises
        `ConnectionLossError`, also if there is no connection.
        """
        self._check(n)
        await anyio.lowlevel.checkpoint()
        if self._is_waiting:
            return False
        get = partial(self._try, n)
        is_at_hand = self._share.ready(n, self._now(), self._max_age) is not None
        if is_at_hand and not self._turn.locked():
            return await get()
        lost = "the connection was lost before it was known whether the call is allowed"
        return await at_once(self._client, get, lost=lost)

    async def set_rate(self, rate: float, *, per: float = 1.0, burst: int | None = None) -> None:
        """Store other numbers, for all processes. Tokens that were taken stay so.

        Objects that were made without `rate` follow with their next share, after at most `max_age`;
        tasks that wait for a token keep its time. Objects with other numbers raise
        `MixedLayoutError`, except for this one, which has the new numbers.

        Calls of one object take turns. Cancellation: they may be stored, and this object goes on
        with the numbers that are. On connection loss: stores them over the next connection.
        """
        numbers = _checked(rate, per, burst)
        self._client.backend.check_home()

        def change(data: bytes, stat: Stat | None) -> bytes:
            if stat is None or not data:
                return Write(numbers).encode()
            lack = Write.parse(self._path, data, stat).lack_after(stat)
            return Write(numbers, lack).encode()

        client, path = self._client, self._path
        store = partial(update, client, path, change, rng=self._rng, acl=self._acl)
        async with self._setting:
            self._next = numbers
            await until_answered(client, store)
            self._is_alone, self._next = False, None
            if self._numbers is not None:
                self._numbers = numbers

    def _check(self, n: int) -> None:
        checked_count("n", n, most=MOST_CALLS if self._numbers is None else self._numbers.burst)
        self._client.backend.check_home()

    async def _wait_for(self, n: int, wait: float | None) -> bool:
        deadline = math.inf if wait is None else self._now() + wait
        is_granted = False
        self._wanted += n
        try:
            with anyio.move_on_after(wait):
                async with self._turn:
                    is_granted = await self._get(n, deadline)
        finally:
            self._wanted -= n
        return is_granted

    async def _try(self, n: int) -> bool:
        """Use `n` tokens that are due; False if there are none, or a task before waits for some."""
        with anyio.CancelScope() as scope:
            self._tries[scope] = n
            try:
                async with self._turn:
                    return await self._get(n, self._now())
            finally:
                del self._tries[scope]
        return False

    async def _get(self, n: int, deadline: float) -> bool:
        """Use `n` tokens once they are due; False, and none are used, if that is too late.

        Only in turn.
        """
        has_taken = False
        while True:
            share, now = self._share, self._now()
            ready = share.ready(n, now, self._max_age)
            if ready is None:
                # The last write is not believed for long: the numbers may be changed.
                is_recent = now < share.sent + self._max_age
                if is_recent and deadline < share.earliest(n):
                    return False
                # The answer to a try came too late.
                if has_taken and now > deadline:
                    return False
                has_taken = True
                if not await self._take(n, deadline):
                    return False
            elif ready <= now:
                # No await from here on until the caller has them.
                share.given += n
                self._used += n
                return True
            elif ready > deadline:
                return False
            else:
                await self._wait(min(ready - now, LONGEST_SLEEP))

    async def _wait(self, seconds: float) -> None:
        """Wait for tokens that are due later; the tries behind are over."""
        began = self._now()
        self._is_waiting = True
        for scope in self._tries:
            scope.cancel()
        try:
            await anyio.sleep(seconds)
        finally:
            self._is_waiting = False
        self._slept += self._now() - began

    async def _take(self, n: int, deadline: float) -> bool:
        """Take a share, of which `n` tokens are due in time; return whether there were any."""

        async def attempt() -> Share | None:
            last, is_alone = self._last, self._is_alone
            self._is_alone = False
            before, stat = last if last is not None and is_alone else await self._read()
            if n > before.numbers.burst:
                raise ConfigurationError(f"n: must be at most {before.numbers.burst}, not {n}")
            sent = self._now()
            within = None if deadline == math.inf else max(0.0, deadline - sent)
            # Behind a task that has to wait, tries would leave their tokens unused.
            wanted = self._wanted + (sum(self._tries.values()) if within == 0.0 else 0)
            take = self._share_size(n, wanted, sent, before.numbers)
            write = before.followed(stat, take, self._max_age, n, within)
            data = write.encode()
            written = await compare_and_set(self._client, self._path, data, stat, self._acl)
            if written is None:
                return None
            # Nobody else has written between the last two writes of this object. Old Keepers and
            # RaftKeeper answer a create without times, which have to be read then.
            is_alone = stat is None or (last is not None and stat.mzxid == last[1].mzxid)
            self._is_alone = is_alone and written.mtime > 0
            self._last = write, written
            return Share(write.numbers, *write.applied(written), sent, self._now())

        # The tokens of a share whose answer was lost are lost.
        share = await until_answered(self._client, lambda: until_first(attempt, self._rng))
        self._share = share
        if share.is_late(self._max_age):
            self._client.backend.shared(self._path, PathWarnings).warn(
                "late",
                f"{self._path}: a write took {share.answered - share.sent:.3g} s, so its tokens "
                f"are lost: pass a max_age above {self._max_age:g}",
            )
        if share.count:
            self._used, self._since, self._slept = 0, share.sent, 0.0
        return share.count > 0

    async def _read(self) -> tuple[Write, Stat | None]:
        """Return the last write, with the numbers that count, and the `Stat` of the znode."""
        before = self._numbers
        data, stat = await read(self._client, self._path)
        if stat is not None and data:
            write = Write.parse(self._path, data, stat)
            if self._numbers is not None and write.numbers == self._next:
                # Another task is about to learn that these are stored, or has given up.
                self._numbers, self._next = write.numbers, None
            # If another task has changed them since the read, the write that follows fails.
            if self._numbers is None or write.numbers in (self._numbers, before):
                return write, stat
            raise MixedLayoutError(
                self._path,
                f"has {write.numbers}, not {self._numbers}: pass the same numbers in all "
                "processes, or none, and change them with `set_rate`",
            )
        if self._numbers is None:
            raise NoNodeError(self._path, message="no rate is stored, and none was passed")
        return Write(self._numbers), stat

    def _share_size(self, n: int, wanted: int, now: float, numbers: Numbers) -> int:
        """How many tokens to take, if they are due soon enough: a multiple of `n`."""
        # As many as the tasks would use in half of `max_age` if they never waited. Not more than
        # twice those that they have used of the last share, since a few quick calls are no trend;
        # and not more than comes in that time.
        ahead = self._max_age / 2
        busy = max(now - self._since - self._slept, GRAIN)
        soon = min(min(2.0, ahead / busy) * self._used, ahead * numbers.speed)
        return n * max(1, math.floor(min(max(wanted, soon), MOST_CALLS) / n))
