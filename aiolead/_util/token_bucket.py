"""The data of a rate limit: a token bucket, as its last write has left it. Pure.

`aiolead._recipes.rate_limit` says how it is used.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ..errors import InvalidDataError
from .parsing import MalformedError, json_object, real, shown

if TYPE_CHECKING:
    from ..model import Stat

LEAST, MOST = 1e-6, 1e9
"""The bounds of `rate` and `per`."""

MOST_CALLS = 10**9
MOST_LACK = 1e15

MOST_SKEW = 60_000
"""How far apart clocks of servers may be, in milliseconds. A clock that is further behind was set
back; one that was set back by less lets no token come until it has caught up."""

NO_EPOCH = -1
"""The epoch of no leader: no token has come until the next write."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a limit: `rate` calls in `per` seconds, and at most `burst` at once."""

    rate: float
    per: float
    burst: int

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.rate / self.per

    def wait(self, lack: float) -> float:
        """How long after a write the last of `lack` tokens is due, in seconds."""
        return max(0.0, lack - self.burst) / self.speed

    def __str__(self) -> str:
        return f"rate={self.rate:g}, per={self.per:g}, burst={self.burst}"


@dataclass(frozen=True, slots=True)
class Write:
    """The data of the znode: one write, which takes tokens.

    Attributes:
        numbers: those of the limit.
        lack: how many tokens the bucket lacked after the write before this one. More than `burst`:
            some are due later.
        at: the servers' time of the write before, in milliseconds since 1970; or a later one of
            another write, as long as that is less than `MOST_SKEW` later.
        epoch: the epoch of its leader; `NO_EPOCH` if no time counts.
        take: how many tokens this write takes: of those that are there, and of half of those that
            come within `ahead` seconds and are not reserved. So greedy processes get equal shares.
        ahead: how far ahead it takes some, in seconds.
        least: how many tokens it takes in any case, if they are due `within` seconds; else none.
        within: None for any time.
    """

    numbers: Numbers
    lack: float = 0.0
    at: int = 0
    epoch: int = NO_EPOCH
    take: int = 0
    ahead: float = 0.0
    least: int = 0
    within: float | None = None

    def encode(self) -> bytes:
        fields = asdict(self)
        return json.dumps(fields.pop("numbers") | fields, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, path: str, data: bytes, stat: Stat) -> Write:
        """Parse the data of a znode; `InvalidDataError` if they are malformed."""
        try:
            fields = json_object(data)
            numbers = Numbers(
                _number(fields, "rate", LEAST, MOST),
                _number(fields, "per", LEAST, MOST),
                _whole(fields, "burst", 1, MOST_CALLS),
            )
            within = None
            if fields.get("within") is not None:
                within = _number(fields, "within", 0.0, math.inf)
            return cls(
                numbers,
                _number(fields, "lack", 0.0, MOST_LACK),
                _whole(fields, "at", -(1 << 63), 1 << 63),
                _whole(fields, "epoch", NO_EPOCH, 1 << 32),
                _whole(fields, "take", 0, MOST_CALLS),
                _number(fields, "ahead", 0.0, MOST),
                _whole(fields, "least", 0, MOST_CALLS),
                within,
            )
        except MalformedError as error:
            raise InvalidDataError(path, error, version=stat.version) from error

    def applied(self, stat: Stat) -> tuple[float, int]:
        """How many tokens the bucket lacked just before this write, and how many it took.

        `stat` is that of the znode with these data. Everybody who reads them gets the same.
        """
        lack, numbers = self.lack, self.numbers
        if _epoch(stat) == self.epoch and stat.mtime > self.at:
            lack = max(0.0, lack - (stat.mtime - self.at) / 1000 * numbers.speed)
        if self.within is not None and numbers.wait(lack + self.least) > self.within:
            return lack, 0
        level, coming = numbers.burst - lack, self.ahead * numbers.speed
        most = max(0.0, level) + (coming + min(0.0, level)) / 2
        return lack, max(self.least, min(self.take, math.floor(most)))

    def lack_after(self, stat: Stat) -> float:
        lack, took = self.applied(stat)
        return min(lack + took, MOST_LACK)

    def level(self, stat: Stat, now: float) -> float:
        """How many calls are allowed at once; negative if more are granted than have come.

        `now` is the servers' time, in seconds since 1970.
        """
        come = max(0.0, now - stat.mtime / 1000) * self.numbers.speed
        return self.numbers.burst - max(0.0, self.lack_after(stat) - come)

    def followed(
        self, stat: Stat | None, take: int, ahead: float, least: int, within: float | None
    ) -> Write:
        """The write after this one; the first one if there is no znode yet."""
        following = self
        if stat is not None:
            at, epoch = stat.mtime, _epoch(stat)
            if epoch == self.epoch and at < self.at <= at + MOST_SKEW:
                at = self.at
            following = Write(self.numbers, self.lack_after(stat), at, epoch)
        return replace(following, take=take, ahead=ahead, least=least, within=within)


def _epoch(stat: Stat) -> int:
    """The epoch of the leader that has made the last write."""
    return stat.mzxid >> 32 & 0xFFFFFFFF


def _number(fields: dict[str, object], name: str, least: float, most: float) -> float:
    number = real(fields.get(name))
    if not least <= number <= most:
        raise MalformedError(f"{name} must be from {least:g} to {most:g}, not {shown(number)}")
    return number


def _whole(fields: dict[str, object], name: str, least: int, most: int) -> int:
    number = fields.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise MalformedError(f"{name} must be from {least} to {most}, not {shown(number)}")
    return number
