"""`aiolead bench`."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Annotated, Any

import anyio

import aiolead

from .. import Client, CreateMode, Lock
from ..errors import AioleadError, NoNodeError
from ..paths import join
from . import render
from .options import COMMON, Common, Seconds, ZnodePath, within
from .output import table

MOST = 200_000
"""Most samples of each measurement."""
GONE_WITHIN = 5.0
"""Longest time for cleaning up, in seconds."""
RENEWALS = 4
"""A lease renewal may take one part in so many of a session timeout."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement: all samples, sorted, and the time for all of them, in seconds."""

    name: str
    what: str
    seconds: list[float]
    elapsed: float

    @property
    def rate(self) -> float:
        """Per second."""
        return len(self.seconds) / self.elapsed

    def quantile(self, part: float) -> float:
        """The longest time among the fastest `part` of all samples, in seconds."""
        return self.seconds[max(0, ceil(part * len(self.seconds)) - 1)]


def bench(
    path: ZnodePath = "/",
    /,
    *,
    seconds: Annotated[Seconds, within(0.01, 600, " seconds")] = 2.0,
    in_flight: Annotated[int, within(1, 1000)] = 100,
    size: Annotated[int, within(0, 500_000, " bytes")] = 100,
    common: Common = COMMON,
) -> int:
    """Measure how long the servers take for reads, writes and locks, from here.

    A self-check, not a test of their limits: one process, over one connection (two for the
    hand-over). It creates a znode of its own, works below that, and deletes it at the end; if it is
    killed, the servers do. Others may feel the load while many requests are in flight. On a
    terminal, it says what it measures.

    With --json, one object per measurement: name, what, per_second, count, and median, p99 and
    slowest in milliseconds; the last one is a summary.

    Args:
        path: An existing znode to work below.
        seconds: How long each thing is measured.
        in_flight: How many requests are under way at once, where it is about throughput.
        size: How many bytes are written.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        found: list[Measured] = []
        async with common.connect() as other, _place(client, path) as place:
            measurements = _measurements(client, other, place, seconds, in_flight, bytes(size))
            for name, what, measure in measurements:
                common.reporter.step(f"measures {name}: {what}")
                took, elapsed = await measure()
                found.append(Measured(name, what, sorted(took), elapsed))
                common.show(_as_json(found[-1]))
        common.show(*_summary(found, client.session_timeout))

    return common.with_client(work)


@asynccontextmanager
async def _place(client: Client, path: str) -> AsyncIterator[str]:
    """Create a znode to work below; the servers delete it if this process cannot."""
    place = join(path, f"aiolead-bench-{uuid.uuid4().hex}")
    try:
        await client.create(place, mode=CreateMode.CONTAINER)
    except NoNodeError:
        raise NoNodeError(path) from None
    try:
        yield place
    finally:
        # Without a connection the servers delete it: it is a container.
        with anyio.move_on_after(GONE_WITHIN, shield=True), suppress(AioleadError):
            await aiolead.admin.delete_all(client, place)


Samples = tuple[list[float], float]
"""How long each took, and all of them together, in seconds."""


def _measurements(
    client: Client, other: Client, place: str, seconds: float, in_flight: int, data: bytes
) -> list[tuple[str, str, Callable[[], Awaitable[Samples]]]]:
    """The names of all measurements, what they measure, and how."""
    znode = join(place, "data")
    lock = Lock(client, join(place, "lock"))

    async def read() -> Samples:
        await client.create(znode, data, mode=CreateMode.EPHEMERAL)
        return await _measure(get, seconds)

    def get() -> Awaitable[object]:
        return client.get(znode)

    def set_() -> Awaitable[object]:
        return client.set(znode, data)

    async def take_lock() -> None:
        async with lock:
            pass

    at_once = f"{in_flight} in flight"
    return [
        ("read", "get", read),
        ("write", f"set of {render.plural(len(data), 'byte')}", partial(_measure, set_, seconds)),
        ("reads", f"get, {at_once}", partial(_measure, get, seconds, in_flight)),
        ("writes", f"set, {at_once}", partial(_measure, set_, seconds, in_flight)),
        ("lock", "taking and releasing a free lock", partial(_measure, take_lock, seconds)),
        (
            "hand-over",
            "a lock, from one session to the next",
            partial(_hand_over, client, other, join(place, "queue"), seconds),
        ),
    ]


async def _measure(
    once: Callable[[], Awaitable[object]], seconds: float, in_flight: int = 1
) -> Samples:
    await once()  # the first run may have to create something
    took: list[float] = []
    asked: deque[tuple[float, Awaitable[object]]] = deque()
    begin = now = time.perf_counter()
    while asked or (now - begin < seconds and len(took) < MOST):
        while len(asked) < in_flight and now - begin < seconds and len(took) < MOST:
            asked.append((now, once()))
        at, reply = asked.popleft()
        await reply
        now = time.perf_counter()
        took.append(now - at)
    return took, now - begin


async def _hand_over(client: Client, other: Client, path: str, seconds: float) -> Samples:
    """Measure from the release of a lock to the acquisition by a waiter of another session."""
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
                # Release only while the other session waits, which only the servers know.
                while not stop and len(await others.contenders()) < 2:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
                released = 0.0 if stop else time.perf_counter()

    one, another = Lock(client, path), Lock(other, path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns, one, another)
        tasks.start_soon(take_turns, another, one)
    return took, time.perf_counter() - begin


def _summary(found: list[Measured], timeout: float) -> list[Any]:
    """The summary for JSON, then the lines of the table and of the summary."""
    slowest = max(each.seconds[-1] for each in found if each.name in ("write", "writes"))
    may_take = timeout / RENEWALS
    is_well = slowest < may_take / 2
    text = (
        f"renewing a lease may take {may_take:g} s with a session timeout of {timeout:g} s; "
        f"the slowest write took {_milliseconds(slowest)} ms"
    )
    rows = [
        [
            each.name,
            f"{each.rate:,.0f}",
            *(_milliseconds(each.quantile(part)) for part in (0.5, 0.99, 1)),
            each.what,
        ]
        for each in found
    ]
    advice = "" if is_well else ": take a longer one, or see what slows the servers"
    lines = [*table(_HEADINGS, rows, right=_HEADINGS[1:5]), "", text + advice]
    return [{"summary": {"is_well": is_well, "text": text}}, *lines]


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
