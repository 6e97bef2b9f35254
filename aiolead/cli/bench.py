"""`aiolead bench`."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

import anyio

from .. import Client, CreateMode, Lock
from ..errors import AioleadError, ConfigurationError, NoNodeError
from ..paths import join, validate
from . import exits, shown
from .options import COMMON, Common, Seconds
from .output import table, write_json, write_line

__all__ = ["Measured", "bench"]

MOST = 200_000
"""How often each thing is done at most."""
GONE_WITHIN = 5.0
"""How long what was created may take to be deleted at the end, in seconds."""
RENEWALS = 4
"""So many renewals fit into a session timeout; each may take that part of it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How long something took, each time.

    Attributes:
        name: what it is called.
        what: what it is.
        seconds: how long it took, sorted. Not empty.
        elapsed: how long all of it took, in seconds.
    """

    name: str
    what: str
    seconds: list[float]
    elapsed: float

    @property
    def rate(self) -> float:
        """How many there were per second."""
        return len(self.seconds) / self.elapsed

    def quantile(self, part: float) -> float:
        """What that part of all took at most, in seconds."""
        return self.seconds[max(0, ceil(part * len(self.seconds)) - 1)]


def bench(
    path: str = "/",
    /,
    *,
    seconds: Seconds = 2.0,
    in_flight: int = 100,
    size: int = 100,
    common: Common = COMMON,
) -> int:
    """Measure how long the servers take for reads, writes and locks, from here.

    A self-check, not a test of their limits: one process, over one connection (two for the
    hand-over). It creates a znode of its own, works below that, and deletes it at the end; if it is
    killed, the servers do. Others may feel the load while many requests are in flight.

    With --json, one object per measurement: name, what, per_second, count, and median, p99 and
    slowest in milliseconds; the last one is a summary.

    Args:
        path: An existing znode to work below.
        seconds: How long each thing is measured.
        in_flight: How many requests are under way at once, where it is about throughput.
        size: How many bytes are written.
        common: Where to connect.
    """
    validate(path)
    if not 0.01 <= seconds <= 600:
        raise ConfigurationError(f"--seconds: must be 0.01 to 600, not {seconds:g}")
    if not 1 <= in_flight <= 1000:
        raise ConfigurationError(f"--in-flight: must be 1 to 1000, not {in_flight}")
    if not 0 <= size <= 500_000:
        raise ConfigurationError(f"--size: must be 0 to 500,000 bytes, not {size}")

    async def work(client: Client) -> int:
        async with common.connect() as other, _place(client, path) as place:
            found: list[Measured] = []
            for measure in _measurements(client, other, place, seconds, in_flight, bytes(size)):
                found.append(await measure())
                if common.as_json:
                    write_json(_as_json(found[-1]))
            timeout = client.session_timeout
        _sum_up(found, timeout, as_json=common.as_json)
        return exits.OK

    return common.with_client(work)


@asynccontextmanager
async def _place(client: Client, path: str) -> AsyncIterator[str]:
    """A znode to work below, which does not outlive us for long, whatever happens."""
    place = join(path, f"aiolead-bench-{uuid.uuid4().hex}")
    # Servers delete a container once it is empty.
    try:
        await client.create(place, mode=CreateMode.CONTAINER)
    except NoNodeError:
        raise NoNodeError(path) from None
    try:
        yield place
    finally:
        # Without a link: see above.
        with anyio.move_on_after(GONE_WITHIN, shield=True), suppress(AioleadError):
            await client.delete_all(place)


def _measurements(
    client: Client, other: Client, place: str, seconds: float, in_flight: int, data: bytes
) -> list[Callable[[], Awaitable[Measured]]]:
    """What is measured, in order."""
    znode = join(place, "data")

    async def read() -> Measured:
        await client.create(znode, data, mode=CreateMode.EPHEMERAL)
        return await _one_by_one("read", "get", lambda: client.get(znode), seconds)

    async def write() -> Measured:
        what = f"set of {shown.plural(len(data), 'byte')}"
        return await _one_by_one("write", what, lambda: client.set(znode, data), seconds)

    async def reads() -> Measured:
        what = f"get, {in_flight} in flight"
        return await _many(what, "reads", lambda: client.get(znode), seconds, in_flight)

    async def writes() -> Measured:
        what = f"set, {in_flight} in flight"
        return await _many(what, "writes", lambda: client.set(znode, data), seconds, in_flight)

    async def lock() -> Measured:
        mine = Lock(client, join(place, "lock"))

        async def once() -> None:
            async with mine:
                pass

        return await _one_by_one("lock", "taking and releasing a free lock", once, seconds)

    async def hand_over() -> Measured:
        return await _hand_over(client, other, join(place, "line"), seconds)

    return [read, write, reads, writes, lock, hand_over]


async def _one_by_one(
    name: str, what: str, once: Callable[[], Awaitable[object]], seconds: float
) -> Measured:
    await once()  # the first time, something may have to be created, or learnt
    took: list[float] = []
    begin = last = time.perf_counter()
    while not took or (last - begin < seconds and len(took) < MOST):
        await once()
        now = time.perf_counter()
        took.append(now - last)
        last = now
    return Measured(name, what, sorted(took), last - begin)


async def _many(
    what: str, name: str, ask: Callable[[], Awaitable[object]], seconds: float, in_flight: int
) -> Measured:
    took: list[float] = []
    asked: deque[tuple[float, Awaitable[object]]] = deque()
    begin = now = time.perf_counter()
    while asked or not took:
        while len(asked) < in_flight and now - begin < seconds and len(took) < MOST:
            asked.append((now, ask()))
        at, reply = asked.popleft()
        await reply
        now = time.perf_counter()
        took.append(now - at)
    return Measured(name, what, sorted(took), now - begin)


async def _hand_over(client: Client, other: Client, path: str, seconds: float) -> Measured:
    """From where one releases a lock to where the next one in line, on another session, has it."""
    took: list[float] = []
    begin = time.perf_counter()
    released = 0.0
    stop = False

    async def take_turns(mine: Lock, others: Lock) -> None:
        nonlocal released, stop
        while not stop:
            async with mine:
                now = time.perf_counter()
                if released:
                    took.append(now - released)
                released = 0.0
                if now - begin >= seconds and took:
                    stop = True
                # Not before the other one waits: or else it is not handed over to anybody. It is
                # the servers that know.
                while not stop and len(await others.contenders()) < 2:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
                released = 0.0 if stop else time.perf_counter()

    locks = [Lock(client, path), Lock(other, path)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns, locks[0], locks[1])
        tasks.start_soon(take_turns, locks[1], locks[0])
    return Measured(
        "hand-over",
        "a lock, from one session to the next",
        sorted(took),
        time.perf_counter() - begin,
    )


# --- what is said of it --------------------------------------------------------------------------


def _sum_up(found: list[Measured], timeout: float, *, as_json: bool) -> None:
    slowest = max(each.seconds[-1] for each in found if each.name in ("write", "writes"))
    may_take = timeout / RENEWALS
    is_well = slowest < may_take / 2
    text = (
        f"renewing a lease may take {may_take:g} s with a session timeout of {timeout:g} s; "
        f"the slowest write took {_milliseconds(slowest)} ms"
    )
    if as_json:
        write_json({"summary": {"is_well": is_well, "text": text}})
        return
    rows = [
        [
            each.name,
            f"{each.rate:,.0f}",
            *(_milliseconds(each.quantile(part)) for part in (0.5, 0.99, 1)),
            each.what,
        ]
        for each in found
    ]
    for line in table(_HEADINGS, rows, right=_HEADINGS[1:5]):
        write_line(line)
    write_line("")
    write_line(text + ("" if is_well else ": take a longer one, or see what slows the servers"))


_HEADINGS = ("", "per second", "median ms", "99 % ms", "slowest ms", "what")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.2f}"


def _as_json(each: Measured) -> dict[str, Any]:
    return {
        "name": each.name,
        "what": each.what,
        "per_second": round(each.rate, 1),
        "count": len(each.seconds),
        "median": round(each.quantile(0.5) * 1000, 3),
        "p99": round(each.quantile(0.99) * 1000, 3),
        "slowest": round(each.seconds[-1] * 1000, 3),
    }
